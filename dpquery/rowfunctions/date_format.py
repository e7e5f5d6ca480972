"""Moments as texts: names of days and months, and the forms of STRFTIME.

Their values are known before any row is read: twelve months, seven days, and for a form all
that the moments of a range can read as. So they make groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from dpquery.core.types import Interval
from dpquery.ir.expr import Apply, Expr, Scalar
from dpquery.rowfunctions.base import MOMENTS, TO_TEXT, RowFunction, pattern, stated
from dpquery.rowfunctions.dates import CLOCK, PARTS, Moment, begins, moment

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


def _number(part: str, width: int, changes: str) -> _Spelling:
    return _Spelling(lambda at: str(PARTS[part].reads(at)).zfill(width), width, changes)


def _half_day(at: Moment) -> tuple[int, int]:
    """Return the half of the day, and its hour."""
    return divmod(at.time // CLOCK["hour"], 12)


_FORMS = {
    "Y": _number("year", 4, "year"),
    "y": _Spelling(lambda at: f"{at.day.year % 100:02}", 2, "year"),
    "m": _number("month", 2, "month"),
    "B": _Spelling(lambda at: MONTHS[at.day.month - 1], 9, "month"),
    "b": _Spelling(lambda at: MONTHS[at.day.month - 1][:3], 3, "month"),
    "d": _number("day", 2, "day"),
    "j": _number("dayofyear", 3, "day"),
    "A": _Spelling(lambda at: DAYS[at.day.weekday()], 9, "day"),
    "a": _Spelling(lambda at: DAYS[at.day.weekday()][:3], 3, "day"),
    "u": _number("isodow", 1, "day"),
    "w": _number("dayofweek", 1, "day"),
    "G": _number("isoyear", 4, "day"),
    "V": _number("week", 2, "day"),
    "H": _number("hour", 2, "hour"),
    "I": _Spelling(lambda at: f"{_half_day(at)[1] or 12:02}", 2, "hour"),
    "p": _Spelling(lambda at: ("AM", "PM")[_half_day(at)[0]], 2, "hour"),
    "M": _number("minute", 2, "minute"),
    "S": _number("second", 2, "second"),
    "%": _Spelling(lambda _: "%", 1, "year"),
}
_FINEST = ("second", "minute", "hour", "day", "month", "year")


def _parts(form: str) -> Iterator[str]:
    """Part a form into letters after %, with the % before them, and other characters."""
    signs = iter(form)
    for sign in signs:
        yield sign if sign != "%" else f"%{next(signs, '')}"


def _spelling(part: str) -> _Spelling:
    return _FORMS[part[1:]] if part[0] == "%" else _Spelling(lambda _: part, 1, "year")


def _wrong(form: str) -> str | None:
    if not 1 <= len(form) <= LONGEST:
        return f"a form has 1 to {LONGEST} characters"
    unknown = [part for part in _parts(form) if part[0] == "%" and part[1:] not in _FORMS]
    if unknown:
        return f"{unknown[0]} is none of {', '.join(f'%{letter}' for letter in _FORMS)}"
    return "a form has no zero byte" if "\0" in form else None


def _strftime(call: Apply, value: int, form: str) -> str:
    at = moment(value, call.arguments[0].type)
    return "".join(_spelling(part).reads(at) for part in _parts(form))


def _longest(arguments: Sequence[Expr]) -> int:
    return sum(_spelling(part).longest for part in _parts(str(stated(arguments[1]))))


def _listed(call: Apply, range_: Interval) -> tuple[Scalar, ...] | None:
    """List what the moments of a range read as, by the unit in which the form changes."""
    if range_.low is None or range_.high is None:
        return None
    type_, form = call.arguments[0].type, str(stated(call.arguments[1]))
    units = {_spelling(part).changes for part in _parts(form)}
    unit = next((unit for unit in _FINEST if unit in units), "year")
    starts = [*islice(begins(int(range_.low), int(range_.high), unit, type_), MOST_READ + 1)]
    if len(starts) > MOST_READ:
        return None
    return tuple(dict.fromkeys(_strftime(call, at, form) for at in starts))


def _named(name: str, names: tuple[str, ...], letter: str, summary: str) -> RowFunction:
    return RowFunction(
        name=name,
        summary=summary,
        example=f"{name}(hired)",
        parameters=(MOMENTS,),
        result=TO_TEXT,
        meaning=lambda call, value: _strftime(call, value, f"%{letter}"),
        dated=True,
        listed=lambda _, __: names,
        longest=lambda _: 9,
    )


FUNCTIONS = (
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
        listed=_listed,
        longest=_longest,
    ),
)
