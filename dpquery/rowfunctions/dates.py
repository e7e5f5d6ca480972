"""Functions of dates and timestamps; a moment outside years 1 to 9999 counts as NULL.

Ranges are in days, or microseconds, since 1970. All of these functions grow with the moment, or
go around with a fixed period, so ends are enough to know a range.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

from dpquery.core.types import EPOCH, TIMESTAMP, UNKNOWN, Interval, Kind, Type
from dpquery.ir.expr import Apply, Expr, Literal, Scalar
from dpquery.rowfunctions.base import (
    CALENDAR,
    MOMENTS,
    TO_INTEGER,
    Parameter,
    RowFunction,
    Value,
    one_of,
)

# The calendar of days and microseconds since 1970: parts, beginnings, months further on.
#
# Only years 1 to 9999 have one here; who asks holds moments against `base.CALENDAR` first.


_ZERO = EPOCH.toordinal()
SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
DAY = 24 * HOUR
CLOCK = {"hour": HOUR, "minute": MINUTE, "second": SECOND}
"""Microseconds of the units that only timestamps have."""
UNITS = {"year": 12, "quarter": 3, "month": 1}
"""Months of the units that are made of months."""


class Moment(NamedTuple):
    """A day, and the microseconds of it that have passed."""

    day: date
    time: int


def moment(value: int, *, timestamp: bool) -> Moment:
    """Return the day of a number of days, or of microseconds, since 1970."""
    days, time = divmod(value, DAY) if timestamp else (value, 0)
    return Moment(date.fromordinal(_ZERO + days), time)


PARTS: Mapping[str, Callable[[Moment], int]] = {
    "year": lambda at: at.day.year,
    "month": lambda at: at.day.month,
    "day": lambda at: at.day.day,
    "quarter": lambda at: (at.day.month + 2) // 3,
    "dayofweek": lambda at: at.day.isoweekday() % 7,
    "isodow": lambda at: at.day.isoweekday(),
    "dayofyear": lambda at: at.day.timetuple().tm_yday,
    "week": lambda at: at.day.isocalendar().week,
    "isoyear": lambda at: at.day.isocalendar().year,
    "hour": lambda at: at.time // HOUR,
    "minute": lambda at: at.time // MINUTE % 60,
    "second": lambda at: at.time // SECOND % 60,
}


def began(value: int, unit: str, *, timestamp: bool) -> int:
    """Return when a unit of time began that holds a moment."""
    if unit in CLOCK:  # a date is the beginning of its first second
        return value - value % CLOCK[unit] if timestamp else value
    day = moment(value, timestamp=timestamp).day
    if unit == "week":
        first = day.toordinal() - day.weekday()
    elif unit == "day":
        first = day.toordinal()
    else:
        month = (day.month - 1) // UNITS[unit] * UNITS[unit] + 1
        first = day.replace(month=month, day=1).toordinal()
    return (first - _ZERO) * (DAY if timestamp else 1)


def months_on(value: int, months: int, *, timestamp: bool) -> int:
    """Return the same day so many months on, or the last of its month where it has no such day.

    Raises:
        ValueError: the calendar ends before.
    """
    day, time = moment(value, timestamp=timestamp)
    number = day.year * 12 + day.month - 1 + months
    year, month = number // 12, number % 12 + 1
    if not 1 <= year <= 9999:
        raise ValueError(year)
    last = monthrange(year, month)[1]
    days = date(year, month, min(day.day, last)).toordinal() - _ZERO
    return days * DAY + time if timestamp else days


MOST_LISTED = 1_000_000
_AROUND = {
    "month": (1, 12), "day": (1, 31), "quarter": (1, 4), "dayofweek": (0, 6),
    "isodow": (1, 7), "dayofyear": (1, 366), "week": (1, 53), "hour": (0, 23),
    "minute": (0, 59), "second": (0, 59),
}  # fmt: skip
_YEARS = (0, 10_000)
PART_NAMES = {
    **{name: name for name in PARTS},
    "dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear", "dayofmonth": "day",
}  # fmt: skip
"""Names of parts, as EXTRACT and DATE_PART take them, with the function of each."""
UNIT_WORDS = ("year", "quarter", "month", "week", "day", *CLOCK)
UNIT_NAMES = {
    **{unit: unit for unit in UNIT_WORDS},
    **{f"{unit}s": unit for unit in UNIT_WORDS},
}
"""Units of an INTERVAL, in singular and plural."""


def is_timestamp(type_: Type) -> bool:
    """Return whether moments of a type have a time of day."""
    return type_ == TIMESTAMP


def calendar_of(expr: Expr) -> Interval:
    """Return the range of the calendar, in the steps of an expression's type."""
    return CALENDAR[expr.type.kind]


def _within(expr: Expr) -> bool:
    """Whether every value of an expression has a calendar."""
    ends = calendar_of(expr)
    low, high = expr.domain.low, expr.domain.high
    assert ends.low is not None  # noqa: S101 - the calendar has both ends
    assert ends.high is not None  # noqa: S101
    return low is not None and high is not None and ends.low <= low and high <= ends.high


def has_calendar(expr: Expr, value: int) -> bool:
    """Return whether a value of an expression lies in years 1 to 9999."""
    ends = calendar_of(expr)
    assert ends.low is not None  # noqa: S101 - the calendar has both ends
    assert ends.high is not None  # noqa: S101
    return ends.low <= value <= ends.high


def in_calendar(expr: Expr, text: str) -> str:
    """Write a moment so that the engine's calendar is never asked about one far away.

    DuckDB computes functions of the least and greatest value that a file's footer states, also
    where every row is clamped, and raises on what has no calendar. It does not look through
    TRY.
    """
    if not _within(expr):
        ends = calendar_of(expr)
        assert ends.low is not None  # noqa: S101 - the calendar has both ends
        assert ends.high is not None  # noqa: S101
        low, high = (_moment_sql(expr.type, int(end)) for end in (ends.low, ends.high))
        text = f"CASE WHEN {text} BETWEEN {low} AND {high} THEN {text} END"
    return f"TRY({text})"


def _moment_sql(type_: Type, value: int) -> str:
    if is_timestamp(type_):
        shown = (EPOCH + timedelta(microseconds=value)).isoformat(" ")
        return f"CAST('{shown}' AS TIMESTAMP)"
    return f"CAST('{to_date(value).isoformat()}' AS DATE)"


# Parts.


def _part(name: str, *aliases: str) -> RowFunction:
    timed = name in CLOCK
    kinds = Parameter("a timestamp", frozenset({Kind.TIMESTAMP})) if timed else MOMENTS
    low, high = _AROUND.get(name, _YEARS)

    def meaning(call: Apply, value: int) -> Value:
        argument = call.arguments[0]
        if not has_calendar(argument, value):
            return None
        return PARTS[name](moment(value, timestamp=is_timestamp(argument.type)))

    def ranged(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
        if name in _AROUND:
            return Interval(Fraction(low), Fraction(high))
        known = ranges[0] & calendar_of(arguments[0])
        if not ranges[0].bounded or known.low is None or known.high is None:
            return UNKNOWN
        years = (
            PARTS[name](moment(int(end), timestamp=is_timestamp(arguments[0].type)))
            for end in (known.low, known.high)
        )
        return Interval(*map(Fraction, years))

    return RowFunction(
        name=name.upper(),
        aliases=tuple(alias.upper() for alias in aliases),
        summary=_SUMMARIES[name],
        example=f"{name.upper()}({'seen_at' if timed else 'hired'})",
        parameters=(kinds,),
        result=TO_INTEGER,
        meaning=meaning,
        sql=lambda call, text: f"{name}({in_calendar(call.arguments[0], text)})",
        range=ranged,
        limits=Interval(Fraction(low), Fraction(high)),
        dense=True,
    )


_SUMMARIES = {
    "year": "The year; like all parts, also as EXTRACT(year FROM x) and DATE_PART('year', x)",
    "month": "The month, 1 to 12",
    "day": "The day of the month, 1 to 31",
    "quarter": "The quarter, 1 to 4",
    "dayofweek": "The day of the week, 0 for Sunday to 6 for Saturday",
    "isodow": "The day of the week, 1 for Monday to 7 for Sunday",
    "dayofyear": "The day of the year, 1 to 366",
    "week": "The week by ISO 8601, 1 to 53",
    "isoyear": "The year of the week by ISO 8601",
    "hour": "The hour, 0 to 23",
    "minute": "The minute, 0 to 59",
    "second": "The second, 0 to 59, without its fraction",
}


# Beginnings.


def unit_of(expr: Expr) -> str:
    """Return the unit that a literal names."""
    assert isinstance(expr, Literal)  # noqa: S101 - the signature says so
    return str(expr.value)


def _truncated(call: Apply, unit: str, value: int) -> Value:
    argument = call.arguments[1]
    if not has_calendar(argument, value):
        return None
    return began(value, unit, timestamp=is_timestamp(argument.type))


def _trunc_sql(call: Apply, unit: str, text: str) -> str:
    dated = in_calendar(call.arguments[1], text)
    return f"CAST(date_trunc({unit}, {dated}) AS {call.type.kind.value.upper()})"


def _trunc_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    unit, argument = unit_of(arguments[0]), arguments[1]
    known = ranges[1] & calendar_of(argument)
    if not ranges[1].bounded or known.low is None or known.high is None:
        return UNKNOWN
    stamped = is_timestamp(argument.type)
    ends = (began(int(end), unit, timestamp=stamped) for end in (known.low, known.high))
    return Interval(*map(Fraction, ends))


def _trunc_listed(call: Apply, range_: Interval) -> tuple[Scalar, ...] | None:
    """List the beginnings in a range of moments."""
    known = _trunc_range(call.arguments, [UNKNOWN, range_])
    if known.low is None or known.high is None:
        return None
    unit, stamped = unit_of(call.arguments[0]), is_timestamp(call.type)
    starts = begins(int(known.low), int(known.high), unit, stamped)
    found = tuple(_as_moment(at, stamped) for at in islice(starts, MOST_LISTED + 1))
    return None if len(found) > MOST_LISTED else found


def begins(low: int, high: int, unit: str, stamped: bool) -> Iterator[int]:
    """Return when each unit began that a range touches."""
    at = began(low, unit, timestamp=stamped)
    while at <= high:
        yield at
        try:
            at = _next(at, unit, stamped)
        except ValueError:
            return


def to_date(days: int) -> date:
    """Return the date so many days after 1970 began."""
    return (EPOCH + timedelta(days=days)).date()


def _as_moment(value: int, stamped: bool) -> Scalar:
    return EPOCH + timedelta(microseconds=value) if stamped else to_date(value)


def _next(at: int, unit: str, stamped: bool) -> int:
    if unit in UNITS:
        return months_on(at, UNITS[unit], timestamp=stamped)
    step = 7 if unit == "week" else 1
    if stamped:
        step = CLOCK.get(unit, step * DAY)
    if not _ends_of(stamped).low <= at + step <= _ends_of(stamped).high:  # type: ignore[operator]
        raise ValueError(at)
    return at + step


def _ends_of(stamped: bool) -> Interval:
    return CALENDAR[Kind.TIMESTAMP if stamped else Kind.DATE]


FUNCTIONS = (
    _part("year"),
    _part("month"),
    _part("day", "dayofmonth"),
    _part("quarter"),
    _part("dayofweek", "weekday"),
    _part("isodow"),
    _part("dayofyear"),
    _part("week", "weekofyear"),
    _part("isoyear"),
    _part("hour"),
    _part("minute"),
    _part("second"),
    RowFunction(
        name="DATE_TRUNC",
        aliases=("DATETRUNC",),
        summary="When the year, quarter, month, week, day, hour, minute or second began",
        example="DATE_TRUNC('month', hired)",
        parameters=(one_of(*UNIT_WORDS), MOMENTS),
        result=lambda arguments: arguments[1].type,
        meaning=_truncated,
        sql=_trunc_sql,
        range=_trunc_range,
        listed=_trunc_listed,
        calendar=True,
    ),
)
