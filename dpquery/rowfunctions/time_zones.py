"""Instants and local time: what a clock shows somewhere, and back.

An instant (timestamptz) is a place in time, the same everywhere. Functions of the calendar are
asked about the time that the clock of the policy's zone shows then, which LOCAL gives. Offsets
come from one table (`core/time_zones.py`), in the engine as here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice

from dpquery.core import time_zones
from dpquery.core.time_zones import Changes
from dpquery.core.types import TIMESTAMP, UNKNOWN, Interval, Kind, Type
from dpquery.ir.expr import Apply, Expr, Scalar
from dpquery.rowfunctions.base import (
    YEARS,
    Parameter,
    RowFunction,
    Value,
    always,
    in_years,
    one_of,
    pattern,
    scalar,
    stated,
)
from dpquery.rowfunctions.dates import CLOCK, MOST_LISTED

_TIMESTAMPS = Parameter("a timestamp", frozenset({Kind.TIMESTAMP}))
_INSTANTS = Parameter("a timestamptz", frozenset({Kind.TIMESTAMPTZ}))


def _unknown(zone: str) -> str | None:
    return None if time_zones.known(zone) else "there is no time zone of that name"


_ZONE = pattern(_unknown, "the name of a time zone, as 'Europe/Berlin'")


def _zone(call: Apply) -> str:
    return str(stated(call.arguments[-1]))


def _offset_sql(number: str, changes: Changes) -> str:
    """Write the offset at a place, found by halves."""

    def between(first: int, last: int) -> str:
        if first == last:
            return f"CAST({changes.offsets[first]} AS BIGINT)"
        middle = (first + last + 1) // 2
        earlier, later = between(first, middle - 1), between(middle, last)
        below = f"{number} < {changes.starts[middle - 1]}"
        return f"CASE WHEN {below} THEN {earlier} ELSE {later} END"

    return between(0, len(changes.starts))


def _possible(moment: Expr, changes: Changes) -> Changes:
    """Return the changes that a moment can be beside, by what is known of it."""
    inside = moment.domain & Interval(*map(Fraction, YEARS[Kind.TIMESTAMPTZ]))
    assert inside.low is not None  # noqa: S101 - the calendar has both ends
    assert inside.high is not None  # noqa: S101
    return changes.between(int(inside.low), int(inside.high))


def _repeated(moment: Expr, changes: Changes) -> int:
    """Count the operands that the text of a moment makes in that of the moment moved.

    It stands once beside each change, once as what is moved, and once where the calendar may
    end; what is chosen at a change counts as half of one.
    """
    return 3 * len(_possible(moment, changes).starts) // 2 + 3


def _changed_sql(moment: Expr, text: str, changes: Changes, made: str, sign: str) -> str:
    """Write a moment moved by its offset; NULL outside of the calendar."""
    number = f"epoch_us({text})"
    first, last = YEARS[Kind.TIMESTAMPTZ]
    offset = _offset_sql(number, _possible(moment, changes))
    moved = f"TRY({made}({number} {sign} {offset}))"
    if moment.domain.within(first, last):
        return moved
    return f"CASE WHEN {number} BETWEEN {first} AND {last} THEN {moved} END"


def _has_calendar(value: int) -> bool:
    first, last = YEARS[Kind.TIMESTAMPTZ]
    return first <= value <= last


def _clock(call: Apply, value: int, zone: str) -> Value:
    return time_zones.to_clock(value, zone) if _has_calendar(value) else None


def _clock_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    known = in_years(arguments[0], ranges[0])
    if known.low is None or known.high is None:
        return UNKNOWN
    zone = str(stated(arguments[1]))
    return Interval(
        *map(Fraction, time_zones.clock_range(int(known.low), int(known.high), zone))
    )


def _instant(call: Apply, value: int, zone: str, _: str) -> Value:
    return time_zones.to_instant(value, zone) if _has_calendar(value) else None


def _instant_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    """Return a range that holds all instants: clocks go back by a day at most."""
    known = ranges[0]
    if not known.within(*YEARS[Kind.TIMESTAMPTZ]):
        return UNKNOWN
    assert known.low is not None  # noqa: S101 - within both ends
    assert known.high is not None  # noqa: S101
    zone, ends = str(stated(arguments[1])), (int(known.low), int(known.high))
    changes = time_zones.changes_by_clock(zone).between(*ends)
    places = [*ends, *(place for start in changes.starts for place in (start - 1, start))]
    found = [time_zones.to_instant(place, zone) for place in places]
    return Interval(Fraction(min(found)), Fraction(max(found)))


def _type_of_instants(arguments: Sequence[Expr]) -> Type:
    return Type(Kind.TIMESTAMPTZ, zone=str(stated(arguments[2])))


def _began(call: Apply, unit: str, value: int, zone: str) -> Value:
    return time_zones.began(value, CLOCK[unit], zone) if _has_calendar(value) else None


def _began_sql(call: Apply, _: str, text: str, __: str) -> str:
    unit, moment, _zone_named = call.arguments
    size, number = CLOCK[str(stated(unit))], f"epoch_us({text})"
    changes = time_zones.changes(_zone(call))
    clock = _changed_sql(moment, text, changes, "make_timestamp", "+")
    rest = f"epoch_us({clock})"
    return f"TRY(make_timestamptz({number} - (({rest} % {size}) + {size}) % {size}))"


def _began_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    known = in_years(arguments[1], ranges[1])
    if known.low is None or known.high is None:
        return UNKNOWN
    return Interval(known.low - CLOCK[str(stated(arguments[0]))], known.high)


def _began_listed(call: Apply, range_: Interval) -> tuple[Scalar, ...] | None:
    if range_.low is None or range_.high is None:
        return None
    size = CLOCK[str(stated(call.arguments[0]))]
    starts: Iterator[int] = time_zones.beginnings(
        int(range_.low), int(range_.high), size, _zone(call)
    )
    found = [scalar(at, call.type) for at in islice(starts, MOST_LISTED + 1)]
    return None if len(found) > MOST_LISTED else tuple(found)  # type: ignore[arg-type]


FUNCTIONS = (
    RowFunction(
        name="LOCAL",
        words="AT TIME ZONE",
        summary="What the clock of a zone shows at an instant, a timestamp",
        example="opened AT TIME ZONE 'Europe/Paris'",
        parameters=(_INSTANTS, _ZONE),
        written=False,
        result=always(TIMESTAMP),
        meaning=_clock,
        written_as=lambda call, text, _: _changed_sql(
            call.arguments[0], text, time_zones.changes(_zone(call)), "make_timestamp", "+"
        ),
        calls=("+", "epoch_us", "make_timestamp"),
        range=_clock_range,
        calendar=True,
        repeated=lambda call: _repeated(call.arguments[0], time_zones.changes(_zone(call))),
    ),
    RowFunction(
        name="INSTANT",
        words="AT TIME ZONE",
        summary="When the clock of a zone shows a timestamp; the first time, if twice",
        example="seen_at AT TIME ZONE 'Europe/Paris'",
        parameters=(_TIMESTAMPS, _ZONE, _ZONE),
        written=False,
        result=_type_of_instants,
        meaning=_instant,
        written_as=lambda call, text, zone, _: _changed_sql(
            call.arguments[0],
            text,
            time_zones.changes_by_clock(str(stated(call.arguments[1]))),
            "make_timestamptz",
            "-",
        ),
        calls=("-", "epoch_us", "make_timestamptz"),
        range=_instant_range,
        repeated=lambda call: _repeated(
            call.arguments[0], time_zones.changes_by_clock(str(stated(call.arguments[1])))
        ),
    ),
    RowFunction(
        name="CLOCK_TRUNC",
        words="DATE_TRUNC",
        summary="When the hour, minute or second of a zone's clock began that an instant is in",
        example="DATE_TRUNC('hour', opened)",
        parameters=(one_of(*CLOCK), _INSTANTS, _ZONE),
        written=False,
        result=lambda arguments: arguments[1].type,
        meaning=_began,
        written_as=_began_sql,
        calls=("%", "+", "-", "epoch_us", "make_timestamp", "make_timestamptz"),
        range=_began_range,
        calendar=True,
        listed=_began_listed,
        repeated=lambda call: (
            1 + 2 * _repeated(call.arguments[1], time_zones.changes(_zone(call)))
        ),
    ),
)
