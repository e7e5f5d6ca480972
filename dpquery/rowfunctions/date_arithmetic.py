"""Moments further on, the last day of a month, and how far two moments are apart.

What may leave the calendar has no known range, and is refused for it before any row is read.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from fractions import Fraction

from dpquery.core.types import EPOCH, UNKNOWN, Interval, Kind
from dpquery.ir.expr import Apply, Expr
from dpquery.rowfunctions.base import (
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
from dpquery.rowfunctions.dates import (
    CLOCK,
    DAY,
    UNIT_WORDS,
    UNITS,
    calendar_of,
    has_calendar,
    in_calendar,
    is_timestamp,
    moment,
    months_on,
    unit_of,
)


def _boundaries(call: Apply, unit: str, start: int, end: int) -> Value:
    one, other = call.arguments[1:]
    if not (has_calendar(one, start) and has_calendar(other, end)):
        return None
    stamped = is_timestamp(one.type)
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
    unit, stamped = unit_of(arguments[0]), is_timestamp(arguments[1].type)
    if not all(range_.bounded for range_ in ranges[1:]):
        return UNKNOWN
    ends = [
        range_ & calendar_of(a) for a, range_ in zip(arguments[1:], ranges[1:], strict=True)
    ]
    counted = [
        Interval(*(Fraction(_passed(unit, int(e or 0), stamped)) for e in (r.low, r.high)))
        for r in ends
    ]
    return counted[1] - counted[0]


def _moved(call: Apply, value: int, count: int, unit: str) -> Value:
    argument = call.arguments[0]
    if not has_calendar(argument, value):
        return None
    return _shifted(value, count, unit, is_timestamp(argument.type))


def _shifted(value: int, count: int, unit: str, stamped: bool) -> int:
    if unit in UNITS:
        return months_on(value, count * UNITS[unit], timestamp=stamped)
    if unit in CLOCK:
        return value + count * CLOCK[unit]
    return value + count * (7 if unit == "week" else 1) * (DAY if stamped else 1)


def _moved_sql(call: Apply, text: str, _: str, __: str) -> str:
    argument, count = call.arguments[0], call.arguments[1]
    unit, number = unit_of(call.arguments[2]), int(count.domain.low or 0)
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
    argument, unit = arguments[0], unit_of(arguments[2])
    number, stamped = int(arguments[1].domain.low or 0), is_timestamp(arguments[0].type)
    known = ranges[0] & calendar_of(argument)
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
    return (ranges[0] & calendar_of(arguments[0])) + ranges[1] if ranges[0].bounded else UNKNOWN


def _last_day(call: Apply, value: int) -> Value:
    argument = call.arguments[0]
    return _last_of(argument, value) if has_calendar(argument, value) else None


def _last_of(argument: Expr, value: int) -> int:
    day = moment(value, timestamp=is_timestamp(argument.type)).day
    last = day.replace(day=monthrange(day.year, day.month)[1])
    return last.toordinal() - EPOCH.toordinal()


def _last_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    known = ranges[0] & calendar_of(arguments[0])
    if not ranges[0].bounded or known.low is None or known.high is None:
        return UNKNOWN
    return Interval(
        *(Fraction(_last_of(arguments[0], int(e))) for e in (known.low, known.high))
    )


_DATE = Parameter("a date", frozenset({Kind.DATE}))

FUNCTIONS = (
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
        parameters=(MOMENTS, count_to(-(10**9), 10**9), one_of(*UNIT_WORDS)),
        result=first_type,
        meaning=_moved,
        sql=_moved_sql,
        calls=("+", "to_days", "to_microseconds", "to_months"),
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
        calls=("+",),
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
