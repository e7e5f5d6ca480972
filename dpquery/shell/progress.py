"""A clock on standard error while a statement takes its time.

It shows the seconds that have passed, which whoever waits can count. How much there is to read,
or how much of it has been read, is up to the rows: nobody has paid for that, and nobody asks.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from threading import Event, Thread
from time import monotonic
from typing import TextIO

from dpquery.shell.place import words_of
from dpquery.source import visible, width

__all__ = ["PATIENCE", "Waiting", "reading"]

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
    """Say what a statement reads: the name that stands after FROM."""
    named = (b.text for a, b in pairwise(words_of(text)) if a.upper == "FROM")
    return f"reading {visible(next(named, ''))}".rstrip()
