"""The loop: reads what is typed, up to a semicolon, and hands it to the desk.

It is the only module that talks to prompt_toolkit for input. The loop ends by ctrl-D or
`.quit` and by nothing else: ctrl-C drops the line, or the query that runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, completion_is_selected
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import Output as Screen
from prompt_toolkit.styles import Style
from rich.console import Console as RichConsole

from dpquery.client.remote import AnySession
from dpquery.editing.completion import Known, Suggestion, known_to, suggestions
from dpquery.editing.cursor_context import LANGUAGE, Word, ended, words_of
from dpquery.errors import DPQueryError
from dpquery.functions import find
from dpquery.shell.ask_and_show import Desk
from dpquery.shell.dot_commands import is_command, suggested, take
from dpquery.shell.terminal import Terminal

# What was typed is kept in the user's state directory, never beside the data. The file holds
# queries and commands, readable by its owner alone; answers never reach it.


def history_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file of what was typed, made if need be; None where there can be none."""
    stated = Path(environment.get("XDG_STATE_HOME", ""))
    try:
        # A relative path would mean another place in each directory, perhaps beside the data.
        state = stated if stated.is_absolute() else Path.home() / ".local" / "state"
        file = state / "dpquery" / "history"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600
        )
    except (OSError, RuntimeError):  # a home that cannot be written, or none
        return None
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    return file


# Colours of what is typed, by the same words that completion goes by.


STYLE = Style.from_dict({
    "keyword": "ansiblue bold",
    "function": "ansimagenta",
    "text": "ansigreen",
    "number": "ansicyan",
    "comment": "ansibrightblack italic",
    "bottom-toolbar": "noreverse bg:ansibrightblack fg:ansiwhite",
    "bottom-toolbar.spent": "fg:ansiblack",
    "prompt": "bold",
})  # fmt: skip


class QueryLexer(Lexer):
    """Colours statements; commands stay as they are."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Return the coloured pieces of each line."""
        lines = list(split_lines(list(_pieces(document.text))))
        return lambda number: lines[number] if number < len(lines) else []


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    if is_command(text):
        yield "", text
        return
    at = 0
    for word in words_of(text):
        yield "", text[at : word.start]
        yield _style(word), word.text
        at = word.end
    yield "", text[at:]


def _style(word: Word) -> str:
    if word.kind == "name":
        known = find(word.text) is not None
        return "class:function" if known else "class:keyword" * (word.upper in LANGUAGE)
    return f"class:{word.kind}" if word.kind in {"text", "number", "comment"} else ""


PROMPT, MORE = "dp> ", " -> "
BAR = 10
"""Cells of the bar that shows how much is left."""


class Repl:
    """One person at one terminal."""

    def __init__(  # noqa: PLR0913 - the last three stand in for the terminal
        self,
        session: AnySession,
        analyst: str,
        mode: str = "table",
        *,
        typed: Input | None = None,
        screen: Screen | None = None,
        out: TextIO | None = None,
        width: int | None = None,
    ) -> None:
        self._analyst = analyst
        self._known = known_to(session)
        self._tables = session.tables().rows
        self._asking: PromptSession[str] = PromptSession(input=typed, output=screen)
        terminal = Terminal(RichConsole(file=out, width=width), self._asking.prompt)
        self.desk = Desk(session, terminal, mode)
        file = history_file()
        self._reading: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=MORE,
            lexer=QueryLexer(),
            style=STYLE,
            include_default_pygments_style=False,
            completer=Suggesting(self._known, lambda: self.desk.answered),
            auto_suggest=AutoSuggestFromHistory(),
            history=InMemoryHistory() if file is None else FileHistory(file),
            key_bindings=_keys(),
            bottom_toolbar=self._bar,
            input=typed,
            output=screen,
        )
        self._balance: StyleAndTextTuples = []

    def run(self) -> None:
        """Greet, and take what is typed until it is enough."""
        self.desk.console.say(self._greeting())
        try:
            while not self.desk.leaving:
                self._balance = self._left()
                self._take()
        finally:
            self.desk.direct(None)

    def _take(self) -> None:
        try:
            take(self.desk, self._reading.prompt())
            self._learn()
        except KeyboardInterrupt:
            return
        except EOFError:
            self.desk.leaving = True

    def _learn(self) -> None:
        """Know the views that were made, or are gone."""
        with suppress(DPQueryError):
            tables = self.desk.session.tables().rows
            if tables != self._tables:
                self._tables = tables
                self._known.clear()
                self._known.update(known_to(self.desk.session))

    def _greeting(self) -> str:
        from dpquery import __version__

        budget = self.desk.session.budget
        left = f"budget: {budget.left} of {budget.limit} left"
        tables = ", ".join(self._known)
        return f"dpquery {__version__} · tables: {tables} · {left} · .help, ctrl-D leaves"

    def _left(self) -> StyleAndTextTuples:
        """Read the balance once a prompt: the bar is drawn at every key."""
        try:
            budget = self.desk.session.budget
        except DPQueryError as error:
            return [("", error.diagnostic.title)]
        full = _cells(budget.left.epsilon, budget.limit.epsilon)
        return [
            ("", "█" * full),
            ("class:bottom-toolbar.spent", "░" * (BAR - full)),
            ("", f" {budget.left} of {budget.limit} left"),
        ]

    def _bar(self) -> StyleAndTextTuples:
        desk = self.desk
        to_file = "" if desk.output is None else " to a file"
        sides = f" {self._analyst}   ", f"   mode {desk.mode}{to_file}   .help "
        return [("", sides[0]), *self._balance, ("", sides[1])]


def _cells(left: Fraction, limit: Fraction) -> int:
    """Return how much of the bar is left: full only while nothing is spent, empty only at 0."""
    if left >= limit:
        return BAR
    return min(BAR - 1, -int(-BAR * left // limit)) if left > 0 else 0


def _keys() -> KeyBindings:
    """Enter takes a suggestion, sends what is whole, and begins a new line otherwise."""
    keys = KeyBindings()

    @Condition
    def whole() -> bool:
        text = get_app().current_buffer.text
        return not text.strip() or is_command(text) or ended(text)

    @keys.add("enter", filter=whole & ~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("enter", filter=completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    return keys


class Suggesting(Completer):
    """Hands suggestions to the prompt."""

    def __init__(self, known: Known, answered: Callable[[], Iterable[str]] = tuple) -> None:
        self._known, self._answered = known, answered
        self._paths = PathCompleter(expanduser=False)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Suggest while a word is being typed, and at any place when asked to."""
        before = document.text_before_cursor
        for suggestion in self._suggested(before, document.text_after_cursor):
            back = suggestion.start - len(before)
            if back or complete_event.completion_requested:
                yield Completion(suggestion.text, back, display_meta=suggestion.note)
        command, blank, file = before.partition(" ")
        if blank and command in {".read", ".output"}:
            yield from self._paths.get_completions(Document(file.lstrip()), complete_event)

    def _suggested(self, before: str, after: str) -> list[Suggestion]:
        if before.lstrip().startswith("."):
            return suggested(before, self._known, self._answered())
        return suggestions(before, after, self._known)
