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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TextIO

from dpquery.core.source import visible, visible_lines, width
from dpquery.shell.context import words_of

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

# A clock on standard error while a statement takes its time.
#
# It shows the seconds that have passed, which whoever waits can count. How much there is to
# read, or how much of it has been read, is up to the rows: nobody has paid for that, and
# nobody asks.


PATIENCE = 2.0
"""Seconds that a statement may take before the clock shows that it is at work."""
EVERY = 0.2
"""Seconds from one drawing to the next."""
TURNING = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Waiting:
    """Draws a sign that turns, and a clock, on one line of a terminal; then wipes it."""

    def __init__(self, stream: TextIO, out: TextIO) -> None:
        self._stream = stream
        self._watched = stream.isatty() and out.isatty()

    @contextmanager
    def showing(self, what: str) -> Iterator[None]:
        """Show that something takes longer than the patience; nothing into a pipe."""
        if not self._watched:
            yield
            return
        over = Event()
        drawing = Thread(target=self._draw, args=(what, over), daemon=True)
        drawing.start()
        try:
            yield
        finally:
            over.set()
            drawing.join()  # a sign must not outlive its query

    def _draw(self, what: str, over: Event) -> None:
        began = monotonic()
        if over.wait(PATIENCE):
            return
        shown = ""
        while not over.is_set():
            shown = line(what, monotonic() - began, shutil.get_terminal_size().columns)
            self._write(f"\r{shown}")
            over.wait(EVERY)
        self._write(f"\r{' ' * width(shown)}\r")

    def _write(self, text: str) -> None:
        code = self._stream.encoding or "ascii"
        self._stream.write(text.encode(code, "replace").decode(code))
        self._stream.flush()


def line(what: str, passed: float, columns: int) -> str:
    """Return the line after so many seconds, no wider than the screen."""
    minutes, seconds = divmod(int(passed), 60)
    drawn = f"{TURNING[int(passed / EVERY) % len(TURNING)]} {minutes}:{seconds:02}"
    if columns <= width(drawn):
        return ""
    room = columns - 1 - width(drawn) - 2
    while what and width(what) > room:
        what = what[:-1]
    return f"{what}  {drawn}" if room >= 0 else drawn


def reading(text: str) -> str:
    """Return what a statement reads: the name that stands after FROM."""
    named = (b.text for a, b in pairwise(words_of(text)) if a.upper == "FROM")
    return f"reading {visible(next(named, ''))}".rstrip()


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
        from rich.text import Text  # statements from a pipe are asked without it

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
