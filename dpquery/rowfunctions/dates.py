"""Functions of dates and timestamps; a moment outside years 1 to 9999 counts as NULL.

Ranges are in days, or microseconds, since 1970. All of these functions grow with the moment, or
go around with a fixed period, so ends are enough to know a range.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from datetime import date, timedelta
from fractions import Fraction

from dpquery.expr import Apply, Expr, Literal, Scalar
from dpquery.rowfunctions.base import (
    CALENDAR,
    INTEGERS,
    MOMENTS,
    TO_DATE,
    TO_INTEGER,
    Parameter,
    RowFunction,
    Value,
    count_to,
    first_type,
    one_of,
)
from dpquery.rowfunctions.calendar import (
    CLOCK,
    DAY,
    PARTS,
    UNITS,
    began,
    moment,
    months_on,
)
from dpquery.types import EPOCH, TIMESTAMP, UNKNOWN, Interval, Kind, Type

__all__ = [
    "FUNCTIONS",
    "MOST_LISTED",
    "PART_NAMES",
    "UNIT_NAMES",
    "has_calendar",
    "in_calendar",
    "to_date",
]

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
_TRUNCATED = ("year", "quarter", "month", "week", "day", *CLOCK)
UNIT_NAMES = {
    **{unit: unit for unit in _TRUNCATED},
    **{f"{unit}s": unit for unit in _TRUNCATED},
}
"""Units of an INTERVAL, in singular and plural."""


def _is_timestamp(type_: Type) -> bool:
    return type_ == TIMESTAMP


def _calendar(expr: Expr) -> Interval:
    return CALENDAR[expr.type.kind]


def _within(expr: Expr) -> bool:
    """Whether every value of an expression has a calendar."""
    ends = _calendar(expr)
    low, high = expr.domain.low, expr.domain.high
    assert ends.low is not None  # noqa: S101 - the calendar has both ends
    assert ends.high is not None  # noqa: S101
    return low is not None and high is not None and ends.low <= low and high <= ends.high


def has_calendar(expr: Expr, value: int) -> bool:
    """Say whether a value of an expression lies in years 1 to 9999."""
    ends = _calendar(expr)
    return ends & Interval.point(value) == Interval.point(value)


def in_calendar(expr: Expr, text: str) -> str:
    """Write a moment so that the engine's calendar is never asked about one far away.

    DuckDB computes functions of the least and greatest value that a file's footer states, also
    where every row is clamped, and raises on what has no calendar. It does not look through TRY.
    """
    if not _within(expr):
        ends = _calendar(expr)
        assert ends.low is not None  # noqa: S101 - the calendar has both ends
        assert ends.high is not None  # noqa: S101
        low, high = (_moment_sql(expr.type, int(end)) for end in (ends.low, ends.high))
        text = f"CASE WHEN {text} BETWEEN {low} AND {high} THEN {text} END"
    return f"TRY({text})"


def _moment_sql(type_: Type, value: int) -> str:
    if _is_timestamp(type_):
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
        return PARTS[name](moment(value, timestamp=_is_timestamp(argument.type)))

    def ranged(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
        if name in _AROUND:
            return Interval(Fraction(low), Fraction(high))
        known = ranges[0] & _calendar(arguments[0])
        if not ranges[0].bounded or known.low is None or known.high is None:
            return UNKNOWN
        years = (
            PARTS[name](moment(int(end), timestamp=_is_timestamp(arguments[0].type)))
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


def _unit(expr: Expr) -> str:
    assert isinstance(expr, Literal)  # noqa: S101 - the signature says so
    return str(expr.value)


def _truncated(call: Apply, unit: str, value: int) -> Value:
    argument = call.arguments[1]
    if not has_calendar(argument, value):
        return None
    return began(value, unit, timestamp=_is_timestamp(argument.type))


def _trunc_sql(call: Apply, unit: str, text: str) -> str:
    dated = in_calendar(call.arguments[1], text)
    return f"CAST(date_trunc({unit}, {dated}) AS {call.type.kind.value.upper()})"


def _trunc_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    unit, argument = _unit(arguments[0]), arguments[1]
    known = ranges[1] & _calendar(argument)
    if not ranges[1].bounded or known.low is None or known.high is None:
        return UNKNOWN
    stamped = _is_timestamp(argument.type)
    ends = (began(int(end), unit, timestamp=stamped) for end in (known.low, known.high))
    return Interval(*map(Fraction, ends))


def _trunc_listed(call: Apply, range_: Interval) -> tuple[Scalar, ...] | None:
    """List the beginnings in a range of moments."""
    known = _trunc_range(call.arguments, [UNKNOWN, range_])
    if known.low is None or known.high is None:
        return None
    unit, stamped = _unit(call.arguments[0]), _is_timestamp(call.type)
    at, last, found = int(known.low), int(known.high), []
    while at <= last and len(found) <= MOST_LISTED:
        found.append(_as_moment(at, stamped))
        try:
            at = _next(at, unit, stamped)
        except ValueError:
            break
    return None if len(found) > MOST_LISTED else tuple(found)


def to_date(days: int) -> date:
    """Give the date so many days after 1970 began."""
    return (EPOCH + timedelta(days=days)).date()


def _as_moment(value: int, stamped: bool) -> Scalar:
    return EPOCH + timedelta(microseconds=value) if stamped else to_date(value)


def _next(at: int, unit: str, stamped: bool) -> int:
    if unit in UNITS:
        return months_on(at, UNITS[unit], timestamp=stamped)
    step = CLOCK.get(unit, (7 if unit == "week" else 1) * (DAY if stamped else 1))
    if not _ends_of(stamped).low <= at + step <= _ends_of(stamped).high:  # type: ignore[operator]
        raise ValueError(at)
    return at + step


def _ends_of(stamped: bool) -> Interval:
    return CALENDAR[Kind.TIMESTAMP if stamped else Kind.DATE]


# Differences, and moments further on.


def _boundaries(call: Apply, unit: str, start: int, end: int) -> Value:
    one, other = call.arguments[1:]
    if not (has_calendar(one, start) and has_calendar(other, end)):
        return None
    stamped = _is_timestamp(one.type)
    return _passed(unit, end, stamped) - _passed(unit, start, stamped)


def _passed(unit: str, value: int, stamped: bool) -> int:
    """Count the beginnings of a unit before a moment, from some day on."""
    if unit in CLOCK:
        return value * (1 if stamped else DAY) // CLOCK[unit]
    day = moment(value, timestamp=stamped).day
    if unit == "day":
        return day.toordinal()
    return (day.year * 12 + day.month - 1) // UNITS[unit]


def _diff_sql(call: Apply, unit: str, start: str, end: str) -> str:
    one, other = call.arguments[1:]
    return f"date_diff({unit}, {in_calendar(one, start)}, {in_calendar(other, end)})"


def _diff_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    unit, stamped = _unit(arguments[0]), _is_timestamp(arguments[1].type)
    if not all(range_.bounded for range_ in ranges[1:]):
        return UNKNOWN
    ends = [range_ & _calendar(a) for a, range_ in zip(arguments[1:], ranges[1:], strict=True)]
    counted = [
        Interval(*(Fraction(_passed(unit, int(e or 0), stamped)) for e in (r.low, r.high)))
        for r in ends
    ]
    return counted[1] - counted[0]


def _moved(call: Apply, value: int, count: int, unit: str) -> Value:
    argument = call.arguments[0]
    if not has_calendar(argument, value):
        return None
    return _shifted(value, count, unit, _is_timestamp(argument.type))


def _shifted(value: int, count: int, unit: str, stamped: bool) -> int:
    if unit in UNITS:
        return months_on(value, count * UNITS[unit], timestamp=stamped)
    if unit in CLOCK:
        return value + count * CLOCK[unit]
    return value + count * (7 if unit == "week" else 1) * (DAY if stamped else 1)


def _moved_sql(call: Apply, text: str, _: str, __: str) -> str:
    argument, count = call.arguments[0], call.arguments[1]
    unit, number = _unit(call.arguments[2]), int(count.domain.low or 0)
    dated = in_calendar(argument, text)
    if unit in UNITS:
        step = f"to_months({number * UNITS[unit]})"
    elif unit in CLOCK:
        step = f"to_microseconds({number * CLOCK[unit]})"
    else:
        step = f"to_days({number * (7 if unit == 'week' else 1)})"
    return f"CAST({dated} + {step} AS {call.type.kind.value.upper()})"


def _moved_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    """Move both ends; one that leaves the calendar is unknown, and then refused."""
    argument, unit = arguments[0], _unit(arguments[2])
    number, stamped = int(arguments[1].domain.low or 0), _is_timestamp(arguments[0].type)
    known = ranges[0] & _calendar(argument)
    if not ranges[0].bounded or known.low is None or known.high is None:
        return UNKNOWN
    try:
        ends = [_shifted(int(e), number, unit, stamped) for e in (known.low, known.high)]
    except ValueError:
        return UNKNOWN
    return Interval(*map(Fraction, ends))


def _plus(call: Apply, value: int, days: int) -> Value:
    return value + days if has_calendar(call.arguments[0], value) else None


def _plus_sql(call: Apply, text: str, days: str) -> str:
    return f"({in_calendar(call.arguments[0], text)} + CAST({days} AS INTEGER))"


def _plus_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    return (ranges[0] & _calendar(arguments[0])) + ranges[1] if ranges[0].bounded else UNKNOWN


def _last_day(call: Apply, value: int) -> Value:
    argument = call.arguments[0]
    return _last_of(argument, value) if has_calendar(argument, value) else None


def _last_of(argument: Expr, value: int) -> int:
    day = moment(value, timestamp=_is_timestamp(argument.type)).day
    last = day.replace(day=monthrange(day.year, day.month)[1])
    return last.toordinal() - EPOCH.toordinal()


def _last_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    known = ranges[0] & _calendar(arguments[0])
    if not ranges[0].bounded or known.low is None or known.high is None:
        return UNKNOWN
    return Interval(*(Fraction(_last_of(arguments[0], int(e))) for e in (known.low, known.high)))


_DATE = Parameter("a date", frozenset({Kind.DATE}))

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
        parameters=(one_of(*_TRUNCATED), MOMENTS),
        result=lambda arguments: arguments[1].type,
        meaning=_truncated,
        sql=_trunc_sql,
        range=_trunc_range,
        listed=_trunc_listed,
        calendar=True,
    ),
    RowFunction(
        name="DATE_DIFF",
        aliases=("DATEDIFF",),
        summary="How many times a unit begins from the first moment to the second",
        example="DATE_DIFF('year', hired, DATE '2024-12-31')",
        parameters=(one_of(*UNITS, "day", *CLOCK), MOMENTS, MOMENTS),
        result=TO_INTEGER,
        meaning=_boundaries,
        sql=_diff_sql,
        range=_diff_range,
        limits=Interval(Fraction(-(2**40)), Fraction(2**40)),
        dense=True,
    ),
    RowFunction(
        name="DATE_ADD",
        summary="A moment so much later; also hired + INTERVAL 3 MONTH",
        example="DATE_ADD(hired, INTERVAL 3 MONTH)",
        parameters=(MOMENTS, count_to(-(10**9), 10**9), one_of(*_TRUNCATED)),
        result=first_type,
        meaning=_moved,
        sql=_moved_sql,
        range=_moved_range,
    ),
    RowFunction(
        name="DAYS_ON",
        summary="A date so many days later; two dates have DATE_DIFF('day', ...) between them",
        example="hired + 30",
        parameters=(_DATE, INTEGERS),
        written=False,
        result=TO_DATE,
        meaning=_plus,
        sql=_plus_sql,
        range=_plus_range,
    ),
    RowFunction(
        name="LAST_DAY",
        summary="The last day of the month",
        example="LAST_DAY(hired)",
        parameters=(MOMENTS,),
        result=TO_DATE,
        meaning=_last_day,
        sql=lambda call, text: f"last_day({in_calendar(call.arguments[0], text)})",
        range=_last_range,
        calendar=True,
    ),
)
