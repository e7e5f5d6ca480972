"""Whether ctrl-C was pressed: what breaks after that was stopped, whatever it raises.

Python raises KeyboardInterrupt wherever it is when a signal is seen. That may be in a callback
of a library, which then says that its data is bad, or that its query was interrupted, or drops
it. So the signal itself is taken note of, and no error is judged by its words, which could be
of somebody's values. Once it was pressed a statement ends as stopped, even if all of it went
well: how it would have ended is not told.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any


class _State:
    """Of the one thread that signals come to."""

    pressed = False
    handle: Callable[[int, FrameType | None], Any] = staticmethod(signal.default_int_handler)
    """What the process does at ctrl-C."""


@contextmanager
def heard() -> Iterator[None]:
    """Take note of ctrl-C until the end of a block; what it does stays what it was."""
    found = signal.getsignal(signal.SIGINT) if current_thread() is main_thread() else None
    if not callable(found):  # it does nothing here, or ends the process
        yield
        return
    if found is not _handle:  # which stays where ctrl-C comes as a block ends
        _State.handle = found
    _State.pressed = False
    signal.signal(signal.SIGINT, _handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _State.handle)
        _State.pressed = False


def _handle(number: int, frame: FrameType | None) -> None:
    try:
        _State.handle(number, frame)
    except BaseException:
        _State.pressed = True
        raise


def was_stopped(fault: BaseException | None = None) -> bool:
    """Return whether this, or anything else of the block, came of ctrl-C."""
    pressed = _State.pressed and current_thread() is main_thread()
    return pressed or isinstance(fault, KeyboardInterrupt)
