"""The functions of rows: one file for each family, and one line for each family in ALL.

What is not in ALL does not exist for rows. An entry states everything about its function, and
binding, ranges, group keys, both engines, completion and `docs/functions.md` follow from it.
"""

from __future__ import annotations

from dpquery.core.source_text import Span
from dpquery.core.types import Interval
from dpquery.ir.expr import Apply, Expr
from dpquery.rowfunctions import (
    casts,
    conditional,
    dates,
    lists,
    numeric,
    patterns,
    text,
    time_zones,
)
from dpquery.rowfunctions.base import CALENDAR, RowFunction

__all__ = [
    "ALL",
    "FAMILIES",
    "apply",
    "engine_functions",
    "find",
    "named",
    "names",
]

FAMILIES: dict[str, tuple[RowFunction, ...]] = {
    "Choices": conditional.FUNCTIONS,
    "Numbers": numeric.FUNCTIONS,
    "Texts": text.FUNCTIONS,
    "Patterns": patterns.FUNCTIONS,
    "Lists": lists.FUNCTIONS,
    "Dates and timestamps": dates.FUNCTIONS,
    "Time zones": time_zones.FUNCTIONS,
    "Conversions": casts.FUNCTIONS,
}
ALL: tuple[RowFunction, ...] = tuple(f for family in FAMILIES.values() for f in family)

_BY_NAME = {function.name: function for function in ALL}
_BY_CALL = {
    name: function
    for function in ALL
    if function.written
    for name in (function.name, *function.aliases)
}


def find(name: str) -> RowFunction | None:
    """Return the function that is called by a name, in any case of its ASCII letters."""
    return _BY_CALL.get(name.upper()) if name.isascii() else None


def named(name: str) -> RowFunction:
    """Return the function that an expression applies."""
    return _BY_NAME[name]


def names() -> list[str]:
    """Return every name by which rows can call a function, sorted."""
    return sorted(_BY_CALL)


def engine_functions() -> frozenset[str]:
    """Return the functions of DuckDB that the texts of row functions call."""
    return frozenset(name for one in ALL for name in one.calls or (one.name.lower(),))


def apply(span: Span, name: str, *arguments: Expr) -> Apply:
    """Apply a function to arguments that fit it; type and range follow from theirs."""
    function = _BY_NAME[name]
    type_ = function.result(arguments)
    found = function.range_of(arguments, [argument.domain for argument in arguments])
    limits = CALENDAR[type_.kind] if function.calendar else function.limits
    domain = Interval(
        limits.low if found.low is None else found.low,
        limits.high if found.high is None else found.high,
    )
    return Apply(span, name, arguments, type_, domain, function.longest(arguments))
