"""Moments as texts: names of days and months, and the forms of STRFTIME.

Their values are known before any row is read: twelve months, seven days, and for a form all
that the moments of a range can read as. So they make groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpquery.core.types import Interval
from dpquery.ir.expr import Apply, Expr, Literal, Scalar
from dpquery.rowfunctions.base import MOMENTS, TO_TEXT, RowFunction, Value, pattern
from dpquery.rowfunctions.dates import (
    PARTS,
    Moment,
    begins,
    calendar_of,
    has_calendar,
    in_calendar,
    is_timestamp,
    moment,
)

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LONGEST = 100
"""Characters of a form."""
MOST_READ = 100_000
"""Moments that are written out, to see what they can read as."""


@dataclass(frozen=True, slots=True)
class _Spelling:
    """What a letter after % stands for: how it reads, how long, and how often it changes."""

    reads: Callable[[Moment], str]
    longest: int
    changes: str


def _number(part: str, width: int, changes: str) -> _Spelling:
    return _Spelling(lambda at: str(PARTS[part](at)).zfill(width), width, changes)


def _hour(at: Moment) -> int:
    return (PARTS["hour"](at) + 11) % 12 + 1


_FORMS: Mapping[str, _Spelling] = {
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
    "I": _Spelling(lambda at: f"{_hour(at):02}", 2, "hour"),
    "p": _Spelling(lambda at: "AM" if PARTS["hour"](at) < 12 else "PM", 2, "hour"),
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


def _wrong(form: str) -> str | None:
    if not 1 <= len(form) <= LONGEST:
        return f"a form has 1 to {LONGEST} characters"
    unknown = [part for part in _parts(form) if part[0] == "%" and part[1:] not in _FORMS]
    if unknown:
        return f"{unknown[0]} is none of {', '.join(f'%{letter}' for letter in _FORMS)}"
    return "a form has no zero byte" if "\0" in form else None


def _spelled(at: Moment, form: str) -> str:
    return "".join(
        _FORMS[part[1:]].reads(at) if part[0] == "%" else part for part in _parts(form)
    )


def _form(call: Apply) -> str:
    form = call.arguments[1]
    assert isinstance(form, Literal)  # noqa: S101 - the signature says so
    return str(form.value)


def _strftime(call: Apply, value: int, form: str) -> Value:
    argument = call.arguments[0]
    if not has_calendar(argument, value):
        return None
    return _spelled(moment(value, timestamp=is_timestamp(argument.type)), form)


def _longest(arguments: Sequence[Expr]) -> int:
    form = arguments[1]
    assert isinstance(form, Literal)  # noqa: S101 - the signature says so
    parts = _parts(str(form.value))
    return sum(_FORMS[part[1:]].longest if part[0] == "%" else 1 for part in parts)


def _listed(call: Apply, range_: Interval) -> tuple[Scalar, ...] | None:
    """List what the moments of a range read as, by the unit in which the form changes."""
    argument, form = call.arguments[0], _form(call)
    stamped = is_timestamp(argument.type)
    units = {_FORMS[part[1:]].changes for part in _parts(form) if part[0] == "%"}
    unit = next((unit for unit in _FINEST if unit in units), "year")
    if not stamped and unit in {"second", "minute", "hour"}:
        unit = "day"
    known = range_ & calendar_of(argument)
    if not range_.bounded or known.low is None or known.high is None:
        return None
    found: dict[Scalar, None] = {}
    for count, at in enumerate(begins(int(known.low), int(known.high), unit, stamped)):
        if count >= MOST_READ:
            return None
        found[_spelled(moment(at, timestamp=stamped), form)] = None
    return tuple(found)


def _named(name: str, names: tuple[str, ...], letter: str, summary: str) -> RowFunction:
    def meaning(call: Apply, value: int) -> Value:
        return _strftime(call, value, f"%{letter}")

    return RowFunction(
        name=name,
        summary=summary,
        example=f"{name}(hired)",
        parameters=(MOMENTS,),
        result=TO_TEXT,
        meaning=meaning,
        sql=lambda call, text: f"{name.lower()}({in_calendar(call.arguments[0], text)})",
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
        sql=lambda call, text, form: (
            f"strftime({in_calendar(call.arguments[0], text)}, {form})"
        ),
        listed=_listed,
        listed_of=0,
        longest=_longest,
    ),
)
