"""Values that are not public: counted without their names, and named once they are chosen.

A release sees how many units have each value, in an order of chance, and asks the engine for
the values at the places that its mechanism chose. No other value leaves an engine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from dpquery.expr import Expr, Scalar
from dpquery.ir import Candidates
from dpquery.mechanisms.exponential import Integers
from dpquery.rowfunctions.base import CALENDAR
from dpquery.types import EPOCH, INT64, Kind, Type

__all__ = ["Found", "by_chance", "nameable", "named"]


class Found(Protocol):
    """What an open scan knows of such values."""

    def counts(self, measure: Candidates) -> Integers:
        """Give the number of units of each value, in an order of chance."""
        ...

    def values(self, measure: Candidates, places: Sequence[int]) -> list[Scalar | None]:
        """Give the values at some places of that order."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


def by_chance(size: int) -> Integers:
    """Give the numbers below a size in an order that tells nothing of the data."""
    drawn = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
    order: Integers = np.argsort(drawn).astype(np.int64)
    return order


def nameable(value: Expr) -> tuple[int, int] | None:
    """Give the range of the numbers that a column of an answer can show, if others occur.

    Dates are numbers of days, timestamps of microseconds. A row with another is in no group.
    """
    if value.type.kind not in {Kind.INTEGER, *CALENDAR}:
        return None
    low, high = INT64
    if value.type.kind in CALENDAR:
        ends = CALENDAR[value.type.kind]
        low, high = int(ends.low or 0), int(ends.high or 0)
    return None if value.domain.within(low, high) else (low, high)


def named(value: Any, type_: Type) -> Scalar | None:
    """Give a value as groups are named, from the number that an engine has for it."""
    match type_.kind:
        case _ if value is None:
            return None
        case Kind.DATE:
            return EPOCH.date() + timedelta(days=value)
        case Kind.TIMESTAMP:
            return EPOCH + timedelta(microseconds=value)
        case Kind.DECIMAL:
            return Fraction(value)
        case Kind.INTEGER:
            return int(value)
    scalar: Scalar = value
    return scalar
