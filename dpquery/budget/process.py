"""Which process this is, so that another one on the same machine can tell that it is gone.

Linux says so by numbers that hold until the next start of the machine, in one namespace of
processes. Of a process of another machine, or another system, nothing is known.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

__all__ = ["identity", "is_gone"]

_PROC = Path("/proc")
_ENDED = ("Z", "X")
"""States of a process that runs no more, and whose parent has not looked yet."""


def identity() -> str:
    """Return a name of this process; an empty one where the system gives none."""
    return _identity(os.getpid())


@lru_cache(maxsize=1)
def _identity(number: int) -> str:
    machine, state = _machine(number), _state(number)
    return f"{machine} {number} {state[1]}" if machine and state else ""


def is_gone(process: str) -> bool:
    """Return whether a named process has surely ended; of one elsewhere it is not known."""
    machine, _, known = process.rpartition(" ")
    machine, _, number = machine.rpartition(" ")
    if not machine or machine != _machine(os.getpid()):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is somebody else's, and there
        pass
    state = _state(int(number))
    return state is not None and (state[0] in _ENDED or state[1] != known)


@lru_cache(maxsize=1)
def _machine(_: int) -> str:
    """Return which start of which machine this is, and which namespace of its processes."""
    try:
        start = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{start} {os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return ""


def _state(number: int) -> tuple[str, str] | None:
    """Return what a process does, and when it was started; None where that is not told."""
    try:
        fields = (_PROC / str(number) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return fields[0], fields[19]
