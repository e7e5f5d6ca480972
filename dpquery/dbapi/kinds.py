"""Types by the names of PEP 249: what `description` gives, what parameters are made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from datetime import time as clock

__all__ = [
    "BINARY",
    "BOOLEAN",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Date",
    "DateFromTicks",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TypeObject",
    "type_name",
]


@dataclass(frozen=True, slots=True, eq=False)
class TypeObject:
    """A family of types: equal to the name of each type in it, as `description` gives them."""

    names: frozenset[str]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.names == other.names
        return other in self.names

    def __hash__(self) -> int:
        return hash(self.names)


STRING = TypeObject(frozenset({"text"}))
NUMBER = TypeObject(frozenset({"integer", "double", "decimal"}))
DATETIME = TypeObject(frozenset({"date", "timestamp"}))
BOOLEAN = TypeObject(frozenset({"boolean"}))
BINARY = TypeObject(frozenset({"binary"}))
ROWID = TypeObject(frozenset({"rowid"}))

Date, Time, Timestamp, Binary = date, clock, datetime, bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - PEP 249 names it
    """Give the local day of a number of seconds since 1970."""
    return date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> clock:  # noqa: N802
    """Give the local time of day of a number of seconds since 1970."""
    return clock(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """Give the local time of a number of seconds since 1970, without a zone."""
    return datetime(*time.localtime(ticks)[:6])  # noqa: DTZ001 - timestamps here have none


_NAMED: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("integer", lambda name: name.startswith(("int", "uint"))),
    ("decimal", lambda name: name.startswith("decimal")),
    ("double", lambda name: name in {"double", "float"}),
    ("text", lambda name: name in {"string", "large_string"}),
    ("boolean", lambda name: name == "bool"),
    ("date", lambda name: name.startswith("date")),
    ("timestamp", lambda name: name.startswith("timestamp")),
)


def type_name(arrow: str) -> str:
    """Give the name of a type in this language; Arrow's own where it has none."""
    return next((name for name, fits in _NAMED if fits(arrow)), arrow)
