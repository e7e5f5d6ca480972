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
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from threading import Event, Thread
from time import monotonic
from typing import IO, TYPE_CHECKING

from dpquery.core.source_text import visible, visible_lines, width
from dpquery.editing.cursor_context import words_of

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

# What is shown while a statement takes its time follows from the statement and the time alone.
# How much there is to read, or has been read, is up to the rows: nobody has paid for that.

PATIENCE = 2.0
"""Seconds that a statement may take before a clock shows that it is at work."""


@contextmanager
def clock(what: str, out: IO[str]) -> Iterator[None]:
    """Show on standard error that something takes longer than the patience, but in a pipe."""
    if not (sys.stderr.isatty() and out.isatty()):
        yield
        return
    over = Event()
    drawing = Thread(target=_draw, args=(what, over), daemon=True)
    drawing.start()
    try:
        yield
    finally:
        over.set()
        drawing.join()  # a sign must not outlive its query


def _draw(what: str, over: Event) -> None:
    """Draw a sign that turns, and the time, once the patience is at its end; then wipe both."""
    began = monotonic()
    if over.wait(PATIENCE):
        return
    try:
        from rich.console import Console as RichConsole
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text
    except ModuleNotFoundError:  # without the extra `shell`
        return
    console = RichConsole(stderr=True)
    code = console.encoding
    spinner = Spinner("dots" if code.startswith("utf") else "line")
    name = Text(what.encode(code, "replace").decode(code))
    name.truncate(console.width - len("⠋   000:00"), overflow="crop")
    with Live(
        spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    ):
        while not over.is_set():
            minutes, seconds = divmod(int(monotonic() - began), 60)
            spinner.update(text=name + Text(f"  {minutes}:{seconds:02}"))
            over.wait(1)


def reading(text: str) -> str:
    """Return what a statement reads: the name that stands after FROM."""
    named = (b.text for a, b in pairwise(words_of(text)) if a.upper == "FROM")
    return f"reading {visible(next(named, ''))}".rstrip()


MARGIN = 4
"""Lines of the screen that a page leaves to the prompt, the budget and the clock."""
CUT = "cut at the edge of the screen: .mode csv and .again show all of it, and spend nothing"


class Terminal:
    """The terminal at which the shell was opened."""

    def __init__(self, rich: RichConsole, ask: Callable[[str], str]) -> None:
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

    def draw(self, picture: Callable[[int, bool], str]) -> None:
        """Write a picture: it is told how wide the screen is, and whether that is ASCII."""
        text = picture(self._rich.width, not self._rich.encoding.startswith("utf"))
        self.page(text)

    def agrees(self, question: str) -> bool:
        """Ask, and take everything but yes for no."""
        try:
            return self._ask(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
        except (KeyboardInterrupt, EOFError):
            return False

    def busy(self, what: str) -> AbstractContextManager[None]:
        """Show the time, once the patience is at its end."""
        return clock(what, self._rich.file)


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
