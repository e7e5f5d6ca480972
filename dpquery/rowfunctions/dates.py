"""Functions of dates and timestamps; a moment outside years 1 to 9999 counts as NULL.

Ranges are in days, or microseconds, since 1970. Nearly all of these functions grow with the
moment, or go around with a fixed period, so ends are enough to know a range. A moment that may
leave the calendar has no known range, and is refused for it before any row is read.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

from dpquery.core.types import DATE, DAY, EPOCH, TIMESTAMP, UNKNOWN, Interval, Kind, Type
from dpquery.ir.expr import Apply, Expr, Scalar
from dpquery.rowfunctions.base import (
    INSTANTS,
    INTEGERS,
    MOMENTS,
    TO_DATE,
    TO_DOUBLE,
    TO_INTEGER,
    TO_TEXT,
    Parameter,
    RowFunction,
    Value,
    as_type,
    count_to,
    first_type,
    mapped,
    one_of,
    pattern,
    scalar,
    stated,
)

_ZERO = EPOCH.toordinal()
CLOCK = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
"""Microseconds of the units that only timestamps have."""
UNITS = {"year": 12, "quarter": 3, "month": 1}
"""Months of the units that are made of months."""
_DAYS = {"week": 7, "day": 1}
UNIT_WORDS = (*UNITS, *_DAYS, *CLOCK)
UNIT_NAMES = {word: unit for unit in UNIT_WORDS for word in (unit, f"{unit}s")}
"""Units of an INTERVAL, in singular and plural."""
MOST_LISTED = 1_000_000


# The calendar. Who asks has held the moment against `base.YEARS` before.


class Moment(NamedTuple):
    """A day, and the microseconds of it that have passed."""

    day: date
    time: int


def moment(value: Fraction | int, type_: Type) -> Moment:
    """Return the day of a number of days, or of microseconds, since 1970."""
    days, time = (int(value), 0) if type_ == DATE else divmod(int(value), DAY)
    return Moment(date.fromordinal(_ZERO + days), time)


def _number(day: int, type_: Type, time: int = 0) -> int:
    """Return a day of the calendar as a number of days, or of microseconds, since 1970."""
    return (day - _ZERO) * DAY + time if type_ == TIMESTAMP else day - _ZERO


def began(value: Fraction | int, unit: str, type_: Type) -> int:
    """Return when a unit of time began that holds a moment."""
    if unit in CLOCK:  # a date is the beginning of its first second
        return int(value if type_ == DATE else value - value % CLOCK[unit])
    day = moment(value, type_).day
    if unit == "week":
        return _number(day.toordinal() - day.weekday(), type_)
    if unit != "day":
        month = (day.month - 1) // UNITS[unit] * UNITS[unit] + 1
        day = day.replace(month=month, day=1)
    return _number(day.toordinal(), type_)


def begins(low: int, high: int, unit: str, type_: Type) -> Iterator[int]:
    """Return when each unit began that a range touches; of dates, no unit below a day."""
    unit = "day" if type_ == DATE and unit in CLOCK else unit
    at = began(low, unit, type_)
    with suppress(ValueError):
        while at <= high:
            yield at
            at = shifted(at, 1, unit, type_)


def shifted(value: Fraction | int, count: int, unit: str, type_: Type) -> int:
    """Return a moment so many units later; of a month without that day, the last day.

    Raises:
        ValueError: the calendar ends before.
    """
    if unit in CLOCK:
        return int(value) + count * CLOCK[unit]
    if unit in _DAYS:
        return int(value) + count * _DAYS[unit] * (DAY if type_ == TIMESTAMP else 1)
    day, time = moment(value, type_)
    year, month = divmod(day.year * 12 + day.month - 1 + count * UNITS[unit], 12)
    if not 1 <= year <= 9999:
        raise ValueError(year)
    last = monthrange(year, month + 1)[1]
    return _number(date(year, month + 1, min(day.day, last)).toordinal(), type_, time)


# Parts.


class Part(NamedTuple):
    """A number that is read off a moment."""

    reads: Callable[[Moment], int]
    summary: str
    around: tuple[int, int] | None = None
    """The least and the largest one; None of years, which only grow."""
    changes: str = "day"
    """How long it stays the same, as far as the calendar tells."""
    aliases: tuple[str, ...] = ()


PARTS = {
    "year": Part(
        lambda at: at.day.year,
        "The year; like all parts, also as EXTRACT(year FROM x) and DATE_PART('year', x)",
    ),
    "month": Part(lambda at: at.day.month, "The month, 1 to 12", (1, 12), "month"),
    "day": Part(
        lambda at: at.day.day, "The day of the month, 1 to 31", (1, 31), aliases=("DAYOFMONTH",)
    ),
    "quarter": Part(lambda at: (at.day.month + 2) // 3, "The quarter, 1 to 4", (1, 4), "month"),
    "dayofweek": Part(
        lambda at: at.day.isoweekday() % 7,
        "The day of the week, 0 for Sunday to 6 for Saturday",
        (0, 6),
        aliases=("WEEKDAY",),
    ),
    "isodow": Part(
        lambda at: at.day.isoweekday(),
        "The day of the week, 1 for Monday to 7 for Sunday",
        (1, 7),
    ),
    "dayofyear": Part(
        lambda at: at.day.timetuple().tm_yday, "The day of the year, 1 to 366", (1, 366)
    ),
    "week": Part(
        lambda at: at.day.isocalendar().week,
        "The week by ISO 8601, 1 to 53",
        (1, 53),
        aliases=("WEEKOFYEAR",),
    ),
    "isoyear": Part(lambda at: at.day.isocalendar().year, "The year of the week by ISO 8601"),
    "hour": Part(lambda at: at.time // CLOCK["hour"], "The hour, 0 to 23", (0, 23), "hour"),
    "minute": Part(
        lambda at: at.time // CLOCK["minute"] % 60, "The minute, 0 to 59", (0, 59), "minute"
    ),
    "second": Part(
        lambda at: at.time // CLOCK["second"] % 60,
        "The second, 0 to 59, without its fraction",
        (0, 59),
        "second",
    ),
}
PART_NAMES = {
    **{name: name for name in PARTS},
    "dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear", "dayofmonth": "day",
}  # fmt: skip
"""Names of parts, as EXTRACT and DATE_PART take them, with the function of each."""


def _of_part(name: str, part: Part) -> RowFunction:
    limits = Interval(*map(Fraction, part.around or (0, 10_000)))

    def reads(call: Apply, value: int) -> Value:
        return part.reads(moment(value, call.arguments[0].type))

    def ranged(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
        type_ = arguments[0].type
        return mapped(ranges[0], lambda end: part.reads(moment(end, type_)))

    def listed(call: Apply, range_: Interval) -> tuple[Scalar, ...] | None:
        if part.around is None:
            return None
        first, last = part.around
        return _read(call, range_, part.changes, part.reads, last - first + 1)

    stamps = Parameter("a timestamp or a time", frozenset({Kind.TIMESTAMP, Kind.TIME}))
    return RowFunction(
        name=name.upper(),
        aliases=part.aliases,
        summary=part.summary,
        example=f"{name.upper()}({'seen_at' if name in CLOCK else 'hired'})",
        parameters=(stamps if name in CLOCK else MOMENTS,),
        result=TO_INTEGER,
        meaning=reads,
        range=(lambda _, __: limits) if part.around else ranged,
        limits=limits,
        dated=True,
        listed=listed,
        dense=True,
    )


def _read(
    call: Apply, range_: Interval, unit: str, reads: Callable[[Moment], Scalar], most: int
) -> tuple[Scalar, ...] | None:
    """List what is read off the moments of a range, by the unit in which it changes.

    It goes around, so few of the moments show all that there can be.
    """
    if range_.low is None or range_.high is None:
        return None
    type_, found = call.arguments[0].type, dict[Scalar, None]()
    for at in begins(int(range_.low), int(range_.high), unit, type_):
        found[reads(moment(at, type_))] = None
        if len(found) == most:
            break
    return tuple(found)


def _seconds(value: Fraction | int, argument: Expr) -> float:
    return float(value) * 86_400 if argument.type == DATE else float(value) / 1e6


def _seconds_sql(call: Apply, text: str) -> str:
    """Write seconds; of instants, DuckDB's own are not the nearest doubles."""
    if call.arguments[0].type.kind is Kind.TIMESTAMPTZ:
        return f"(CAST(epoch_us({text}) AS DOUBLE) / 1e6)"
    return f"epoch({text})"


# Beginnings.


def _unit(expr: Expr) -> str:
    return str(stated(expr))


def _trunc_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    unit, type_ = _unit(arguments[0]), arguments[1].type
    return mapped(ranges[1], lambda end: began(end, unit, type_))


def _trunc_listed(call: Apply, range_: Interval) -> tuple[Scalar, ...] | None:
    """List the beginnings in a range of moments."""
    if range_.low is None or range_.high is None:
        return None
    starts = begins(int(range_.low), int(range_.high), _unit(call.arguments[0]), call.type)
    found = tuple(scalar(at, call.type) for at in islice(starts, MOST_LISTED + 1))
    return None if len(found) > MOST_LISTED else found  # type: ignore[return-value]


# Moments as texts: names of days and months, and the forms of STRFTIME.
#
# Their values are known before any row is read: twelve months, seven days, and for a form all
# that the moments of a range can read as. So they make groups.


MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LONGEST = 100
"""Characters of a form."""
MOST_READ = 100_000
"""Moments that are written out, to see what they can read as."""


class _Spelling(NamedTuple):
    """What a letter after % stands for: how it reads, how long, and how often it changes."""

    reads: Callable[[Moment], str]
    longest: int
    changes: str


def _digits(part: str, width: int, changes: str) -> _Spelling:
    return _Spelling(lambda at: str(PARTS[part].reads(at)).zfill(width), width, changes)


def _half_day(at: Moment) -> tuple[int, int]:
    """Return the half of the day, and its hour."""
    return divmod(at.time // CLOCK["hour"], 12)


_FORMS = {
    "Y": _digits("year", 4, "year"),
    "y": _Spelling(lambda at: f"{at.day.year % 100:02}", 2, "year"),
    "m": _digits("month", 2, "month"),
    "B": _Spelling(lambda at: MONTHS[at.day.month - 1], 9, "month"),
    "b": _Spelling(lambda at: MONTHS[at.day.month - 1][:3], 3, "month"),
    "d": _digits("day", 2, "day"),
    "j": _digits("dayofyear", 3, "day"),
    "A": _Spelling(lambda at: DAYS[at.day.weekday()], 9, "day"),
    "a": _Spelling(lambda at: DAYS[at.day.weekday()][:3], 3, "day"),
    "u": _digits("isodow", 1, "day"),
    "w": _digits("dayofweek", 1, "day"),
    "G": _digits("isoyear", 4, "day"),
    "V": _digits("week", 2, "day"),
    "H": _digits("hour", 2, "hour"),
    "I": _Spelling(lambda at: f"{_half_day(at)[1] or 12:02}", 2, "hour"),
    "p": _Spelling(lambda at: ("AM", "PM")[_half_day(at)[0]], 2, "hour"),
    "M": _digits("minute", 2, "minute"),
    "S": _digits("second", 2, "second"),
    "%": _Spelling(lambda _: "%", 1, "year"),
}
_FINEST = ("second", "minute", "hour", "day", "month", "year")


def _signs(form: str) -> Iterator[str]:
    """Part a form into letters after %, with the % before them, and other characters."""
    signs = iter(form)
    for sign in signs:
        yield sign if sign != "%" else f"%{next(signs, '')}"


def _spelling(part: str) -> _Spelling:
    return _FORMS[part[1:]] if part[0] == "%" else _Spelling(lambda _: part, 1, "year")


def _wrong(form: str) -> str | None:
    if not 1 <= len(form) <= LONGEST:
        return f"a form has 1 to {LONGEST} characters"
    unknown = [part for part in _signs(form) if part[0] == "%" and part[1:] not in _FORMS]
    if unknown:
        return f"{unknown[0]} is none of {', '.join(f'%{letter}' for letter in _FORMS)}"
    return "a form has no zero byte" if "\0" in form else None


def _strftime(call: Apply, value: int, form: str) -> str:
    at = moment(value, call.arguments[0].type)
    return "".join(_spelling(part).reads(at) for part in _signs(form))


def _form_listed(call: Apply, range_: Interval) -> tuple[Scalar, ...] | None:
    """List what the moments of a range read as, by the unit in which the form changes."""
    if range_.low is None or range_.high is None:
        return None
    type_, form = call.arguments[0].type, str(stated(call.arguments[1]))
    units = {_spelling(part).changes for part in _signs(form)}
    unit = next((unit for unit in _FINEST if unit in units), "year")
    starts = [*islice(begins(int(range_.low), int(range_.high), unit, type_), MOST_READ + 1)]
    if len(starts) > MOST_READ:
        return None
    return tuple(dict.fromkeys(_strftime(call, at, form) for at in starts))


def _named(name: str, names: tuple[str, ...], letter: str, summary: str) -> RowFunction:
    reads, _, unit = _FORMS[letter]

    def listed(call: Apply, range_: Interval) -> tuple[Scalar, ...]:
        found = _read(call, range_, unit, reads, len(names))
        return names if found is None else found

    return RowFunction(
        name=name,
        summary=summary,
        example=f"{name}(hired)",
        parameters=(MOMENTS,),
        result=TO_TEXT,
        meaning=lambda call, value: _strftime(call, value, f"%{letter}"),
        dated=True,
        listed=listed,
        longest=lambda _: 9,
    )


# Moments further on, the last day of a month, and how far two moments are apart.


def _passed(unit: str, value: Fraction | int, type_: Type) -> int:
    """Count the beginnings of a unit before a moment, from some day on."""
    if unit in CLOCK:
        return int(value) * (DAY if type_ == DATE else 1) // CLOCK[unit]
    day = moment(value, type_).day
    if unit == "day":
        return day.toordinal()
    return (day.year * 12 + day.month - 1) // UNITS[unit]


def _boundaries(call: Apply, unit: str, start: int, end: int) -> int:
    type_ = call.arguments[1].type
    return _passed(unit, end, type_) - _passed(unit, start, type_)


def _diff_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    unit, type_ = _unit(arguments[0]), arguments[1].type
    _, start, end = (mapped(range_, lambda e: _passed(unit, e, type_)) for range_ in ranges)
    return end - start


def _moved_sql(call: Apply, text: str, _: str, __: str) -> str:
    count, unit = int(call.arguments[1].domain.low or 0), _unit(call.arguments[2])
    steps = {"to_months": UNITS, "to_days": _DAYS, "to_microseconds": CLOCK}
    step = next(f"{name}({count * size[unit]})" for name, size in steps.items() if unit in size)
    return as_type(call, f"{text} + {step}")


def _moved_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    """Move both ends; one that leaves the calendar is unknown, and then refused."""
    type_, count = arguments[0].type, int(arguments[1].domain.low or 0)
    unit = _unit(arguments[2])
    try:
        return mapped(ranges[0], lambda end: shifted(end, count, unit, type_))
    except ValueError:
        return UNKNOWN


def _last_day(value: Fraction | int, type_: Type) -> int:
    day = moment(value, type_).day
    return _number(day.replace(day=monthrange(day.year, day.month)[1]).toordinal(), DATE)


FUNCTIONS = (
    *(_of_part(name, part) for name, part in PARTS.items()),
    RowFunction(
        name="EPOCH",
        summary="Seconds since 1970, with their fraction; of an instant, in UTC",
        example="EPOCH(seen_at)",
        parameters=(INSTANTS,),
        result=TO_DOUBLE,
        meaning=lambda call, value: _seconds(value, call.arguments[0]),
        written_as=_seconds_sql,
        calls=("/", "epoch", "epoch_us"),
        range=lambda arguments, ranges: mapped(
            ranges[0], lambda end: Fraction(_seconds(end, arguments[0]))
        ),
        dated=True,
    ),
    RowFunction(
        name="DATE_TRUNC",
        aliases=("DATETRUNC",),
        summary="When the year, quarter, month, week, day, hour, minute or second began",
        example="DATE_TRUNC('month', hired)",
        parameters=(one_of(*UNIT_WORDS), INSTANTS),
        result=lambda arguments: arguments[1].type,
        meaning=lambda call, unit, value: began(value, unit, call.type),
        written_as=lambda call, unit, text: as_type(call, f"date_trunc({unit}, {text})"),
        range=_trunc_range,
        dated=True,
        listed=_trunc_listed,
        calendar=True,
    ),
    _named("DAYNAME", DAYS, "A", "The name of the day, Monday to Sunday"),
    _named("MONTHNAME", MONTHS, "B", "The name of the month, January to December"),
    RowFunction(
        name="STRFTIME",
        summary="The moment written in a form, as '%Y-%m' or '%A'; "
        f"there are {' '.join(f'%{letter}' for letter in _FORMS)}",
        example="STRFTIME(hired, '%Y-%m')",
        parameters=(MOMENTS, pattern(_wrong)),
        result=TO_TEXT,
        meaning=_strftime,
        dated=True,
        listed=_form_listed,
        longest=lambda arguments: sum(
            _spelling(part).longest for part in _signs(str(stated(arguments[1])))
        ),
    ),
    RowFunction(
        name="DATE_DIFF",
        aliases=("DATEDIFF",),
        summary="How many times a unit begins from the first moment to the second",
        example="DATE_DIFF('year', hired, DATE '2024-12-31')",
        parameters=(one_of(*UNITS, "day", *CLOCK), INSTANTS, INSTANTS),
        result=TO_INTEGER,
        meaning=_boundaries,
        range=_diff_range,
        limits=Interval(Fraction(-(2**40)), Fraction(2**40)),
        dated=True,
        dense=True,
    ),
    RowFunction(
        name="DATE_ADD",
        summary="A moment so much later; also hired + INTERVAL 3 MONTH",
        example="DATE_ADD(hired, INTERVAL 3 MONTH)",
        parameters=(INSTANTS, count_to(-(10**9), 10**9), one_of(*UNIT_WORDS)),
        result=first_type,
        meaning=lambda call, value, count, unit: shifted(value, count, unit, call.type),
        written_as=_moved_sql,
        calls=("+", "to_days", "to_microseconds", "to_months"),
        range=_moved_range,
        dated=True,
    ),
    RowFunction(
        name="DAYS_ON",
        summary="A date so many days later; two dates have DATE_DIFF('day', ...) between them",
        example="hired + 30",
        parameters=(Parameter("a date", frozenset({Kind.DATE})), INTEGERS),
        written=False,
        result=TO_DATE,
        meaning=lambda _, value, days: value + days,
        written_as=lambda _, text, days: f"({text} + CAST({days} AS INTEGER))",
        calls=("+",),
        range=lambda _, ranges: ranges[0] + ranges[1],
        dated=True,
    ),
    RowFunction(
        name="LAST_DAY",
        summary="The last day of the month",
        example="LAST_DAY(hired)",
        parameters=(MOMENTS,),
        result=TO_DATE,
        meaning=lambda call, value: _last_day(value, call.arguments[0].type),
        range=lambda arguments, ranges: mapped(
            ranges[0], lambda end: _last_day(end, arguments[0].type)
        ),
        dated=True,
        calendar=True,
    ),
)
