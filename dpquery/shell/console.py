"""What the shell needs of a terminal: lines, pages, a question, a sign that it is at work.

It sees finished text only. Colour adds nothing to it, and whatever could drive the terminal is
made visible.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from rich.console import Console as RichConsole
from rich.text import Text

from dpquery.shell.progress import Waiting
from dpquery.source import visible_lines, width

__all__ = ["Console", "Terminal", "fitted"]

MARGIN = 4
"""Lines of the screen that a page leaves to the prompt, the budget and the clock."""
CUT = "cut at the edge of the screen: .mode csv and .again show all of it, and spend nothing"


class Console(Protocol):
    """Where the shell speaks."""

    def say(self, text: object, style: str = "") -> None:
        """Write a line or more."""
        ...

    def page(self, text: str) -> None:
        """Write what may be wider or longer than the screen."""
        ...

    def agrees(self, question: str) -> bool:
        """Ask a question that is answered by yes or no; no unless it is yes."""
        ...

    def busy(self, what: str) -> AbstractContextManager[None]:
        """Show that something is at work, if it takes long."""
        ...


class Terminal:
    """The terminal at which the shell was opened."""

    def __init__(self, rich: RichConsole, ask: Callable[[str], str], waiting: Waiting) -> None:
        self._waiting = waiting
        self._rich = rich
        self._ask = ask

    def say(self, text: object, style: str = "") -> None:
        """Write a line or more, in a colour where there are colours."""
        self._rich.print(Text(visible_lines(str(text)), style), soft_wrap=True)

    def page(self, text: str) -> None:
        """Write a text: a long one through the pager, a wide one cut to the screen."""
        columns, lines = self._rich.size
        if self._rich.is_terminal and text.count("\n") >= lines - MARGIN and _paged(text):
            return
        shown = fitted(text, columns)
        self.say(shown)
        if shown != text:
            self.say(CUT, "dim")

    def agrees(self, question: str) -> bool:
        """Ask, and take everything but yes for no."""
        try:
            return self._ask(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
        except (KeyboardInterrupt, EOFError):
            return False

    def busy(self, what: str) -> AbstractContextManager[None]:
        """Show the time, once the patience is at its end."""
        return self._waiting.showing(what)


def fitted(text: str, columns: int) -> str:
    r"""Cut each line to the width of the screen.

    >>> fitted("abc\nabcdef", 4)
    'abc\nabc…'
    """
    return "\n".join(_cut(line, columns) for line in text.split("\n"))


def _cut(line: str, columns: int) -> str:
    if width(line) <= columns:
        return line
    while line and width(line) >= columns:
        line = line[: columns - 1] if len(line) >= columns else line[:-1]
    return line + "…"


def _paged(text: str) -> bool:
    """Show a text in the user's pager, if there is one; ctrl-C is the pager's meanwhile."""
    command = shlex.split(os.environ.get("PAGER") or "less -RSX")
    if not command or shutil.which(command[0]) is None:
        return False
    quiet = {**os.environ, "LESSHISTFILE": "-"}  # a search can hold a part of an answer
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        subprocess.run(command, input=text.encode(errors="replace"), check=False, env=quiet)  # noqa: S603 - the user's own
    finally:
        signal.signal(signal.SIGINT, before)
    return True
