"""The loop: reads what is typed, up to a semicolon, and hands it to the desk.

It is the only module that talks to prompt_toolkit for input. The loop ends by ctrl-D or
`.quit` and by nothing else: ctrl-C drops the line, or the query that runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from fractions import Fraction
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    PathCompleter,
)
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, completion_is_selected
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output as Screen
from rich.console import Console as RichConsole

from dpquery.errors import DPQueryError
from dpquery.shell.ask import Asked
from dpquery.shell.commands import is_command, suggested, take
from dpquery.shell.complete import Suggestion, suggestions
from dpquery.shell.console import Terminal
from dpquery.shell.desk import Desk
from dpquery.shell.highlight import STYLE, QueryLexer
from dpquery.shell.known import Known, known_to
from dpquery.shell.progress import Waiting
from dpquery.shell.split import ended
from dpquery.shell.state import history_file

__all__ = ["Repl"]

PROMPT, MORE = "dp> ", " -> "
BAR = 10
"""Cells of the bar that shows how much is left."""


class Repl:
    """One person at one terminal."""

    def __init__(  # noqa: PLR0913 - the last three stand in for the terminal
        self,
        session: Asked,
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
        self._asking: PromptSession[str] = PromptSession(input=typed, output=screen)
        waiting = Waiting(sys.stderr, out or sys.stdout)
        terminal = Terminal(RichConsole(file=out, width=width), self._asking.prompt, waiting)
        self.desk = Desk(session, terminal, mode)
        self._reading: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=MORE,
            lexer=QueryLexer(),
            style=STYLE,
            include_default_pygments_style=False,
            completer=Suggesting(self._known),
            auto_suggest=AutoSuggestFromHistory(),
            history=_history(),
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
        except KeyboardInterrupt:
            return
        except EOFError:
            self.desk.leaving = True

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
    """Give how much of the bar is left: full only while nothing is spent, empty only at 0."""
    if left >= limit:
        return BAR
    return min(BAR - 1, -int(-BAR * left // limit)) if left > 0 else 0


def _history() -> History:
    file = history_file()
    return InMemoryHistory() if file is None else FileHistory(file)


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

    def __init__(self, known: Known) -> None:
        self._known = known
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
            return suggested(before, self._known)
        return suggestions(before, after, self._known)
