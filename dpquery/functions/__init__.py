"""The DP aggregate functions: one file each, and one line each in ALL."""

from __future__ import annotations

from dpquery.functions.base import DPFunction
from dpquery.functions.count import COUNT

__all__ = ["ALL", "find", "names"]

ALL: tuple[DPFunction, ...] = (COUNT,)

_BY_NAME = {name: function for function in ALL for name in (function.name, *function.aliases)}


def find(name: str) -> DPFunction | None:
    """Give the function of a name, in any case; `upper` would make an S of a long s."""
    return _BY_NAME.get(name.upper()) if name.isascii() else None


def names() -> list[str]:
    """Give every name a call may use, sorted."""
    return sorted(_BY_NAME)
