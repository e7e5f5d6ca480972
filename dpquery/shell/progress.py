"""A bar on standard error while a scan takes its time.

What the bar shows follows from two things alone: the time that has passed, which whoever waits
can see, and the size of the files, to the next power of two, told once the charge is durable.
The engine counts its progress too, but in rows and row groups that it could or could not skip:
that depends on values that the query has not paid for, so nobody asks for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from threading import Event, Thread
from time import monotonic
from typing import TextIO

from dpquery.shell.place import words_of
from dpquery.source import visible, width

__all__ = ["PATIENCE", "Bar", "Pace", "reading"]

PATIENCE = 2.0
"""Seconds that a query may take before the bar shows that it is at work."""
EVERY = 0.2
"""Seconds from one drawing to the next."""
CELLS = 20
RATE = 2.0**28
"""Bytes of file that a scan is taken to read in a second, until one has been timed."""
MOST = 0.95
"""How full the bar gets: it must not say that a scan is done before it is."""


class Pace:
    """How far a scan should be: the bytes of its files against bytes a second so far."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._rate = RATE
        self.begin()

    def begin(self) -> None:
        """Start the clock of a statement that has not read anything yet."""
        self._bytes = 0
        self._began = self._clock()

    def reads(self, size: int) -> None:
        """Take note of a scan that begins."""
        self._bytes += size

    def end(self) -> None:
        """Learn from a statement that was answered, if it took long enough to tell."""
        if self._bytes and self.passed >= PATIENCE:
            self._rate = self._bytes / self.passed

    @property
    def passed(self) -> float:
        """Seconds since the statement began."""
        return self._clock() - self._began

    @property
    def share(self) -> float:
        """The part that should be done."""
        return min(MOST, self.passed * self._rate / self._bytes) if self._bytes else 0.0


class Bar:
    """Draws the pace of a statement on one line of a terminal, and takes the line away."""

    def __init__(self, stream: TextIO, out: TextIO, pace: Pace | None = None) -> None:
        self._stream = stream
        self._watched = stream.isatty() and out.isatty()
        self.pace = pace or Pace()

    @contextmanager
    def showing(self, what: str) -> Iterator[None]:
        """Show a bar while something takes longer than the patience; nothing into a pipe."""
        self.pace.begin()
        if not self._watched:
            yield
            self.pace.end()
            return
        over = Event()
        drawing = Thread(target=self._draw, args=(what, over), daemon=True)
        drawing.start()
        try:
            yield
            self.pace.end()
        finally:
            over.set()
            drawing.join()  # a bar must not outlive its query

    def _draw(self, what: str, over: Event) -> None:
        if over.wait(PATIENCE):
            return
        shown = ""
        while not over.is_set():
            shown = line(what, self.pace, shutil.get_terminal_size().columns)
            self._write(f"\r{shown}")
            over.wait(EVERY)
        self._write(f"\r{' ' * width(shown)}\r")

    def _write(self, text: str) -> None:
        code = self._stream.encoding or "ascii"
        self._stream.write(text.encode(code, "replace").decode(code))
        self._stream.flush()


def line(what: str, pace: Pace, columns: int) -> str:
    """Write the bar as it stands, no wider than the screen."""
    full = int(pace.share * CELLS)
    minutes, seconds = divmod(int(pace.passed), 60)
    drawn = f"{'█' * full}{'░' * (CELLS - full)} {minutes}:{seconds:02}"
    if columns <= width(drawn):
        return ""
    room = columns - 1 - width(drawn) - 2
    while what and width(what) > room:
        what = what[:-1]
    return f"{what}  {drawn}" if room >= 0 else drawn


def reading(text: str) -> str:
    """Say what a statement reads: the name that stands after FROM."""
    named = (b.text for a, b in pairwise(words_of(text)) if a.upper == "FROM")
    return f"reading {visible(next(named, ''))}".rstrip()
