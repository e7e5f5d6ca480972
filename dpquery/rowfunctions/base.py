"""What a row function states of itself: names, arguments, result, meaning, and its SQL.

A function is total: it has a value, or NULL, for every value of its arguments' types, and its
SQL can neither raise nor overflow on one. Meaning and SQL say the same twice, once in exact
Python and once for DuckDB; tests hold one against the other at the edges of every domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Any

from dpquery.core.types import (
    BOOLEAN,
    DATE,
    DAY,
    DOUBLE,
    EPOCH,
    FIRST_INSTANT,
    INT64,
    INTEGER,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Interval,
    Kind,
    Type,
    ordinal,
)
from dpquery.core.types import MOMENTS as MOMENT_KINDS
from dpquery.ir.expr import Apply, Expr, Literal, Scalar, longest_of

Value = Any
"""None, bool, int, float, Fraction or str, as the type says; moments are numbers since 1970."""
LONGEST_COUNT = 1_000_000
WHOLE = Interval(Fraction(INT64[0]), Fraction(INT64[1]))
"""What a 64-bit integer can hold."""
YEARS = {
    Kind.DATE: (ordinal(EPOCH.min.date()), ordinal(EPOCH.max.date())),
    Kind.TIMESTAMP: (ordinal(EPOCH.min), ordinal(EPOCH.max)),
    Kind.TIMESTAMPTZ: (ordinal(EPOCH.min) + DAY, ordinal(EPOCH.max) - DAY),
}
"""Years 1 to 9999: what lies outside has no calendar, and functions of it are NULL.

Of instants, but for a day at each end: in no zone is it another year there.
"""
CALENDAR = {kind: Interval(*map(Fraction, ends)) for kind, ends in YEARS.items()}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument: of which kinds, and whether the query has to state it as a literal."""

    what: str
    """How it is called in a sentence: `a text`."""
    kinds: frozenset[Kind]
    literal: bool = False
    words: tuple[str, ...] = ()
    """The texts that it may be, where it is one of few."""
    range: tuple[int, int] | None = None
    """The least and the largest number that it may be."""
    double: bool = False
    """Whether any number is made a double first."""
    check: Callable[[str], str | None] | None = None
    """Says what is wrong with a literal text, if something is."""


NUMBERS = Parameter("a number", NUMERIC)
INTEGERS = Parameter("an integer", frozenset({Kind.INTEGER}))
DOUBLES = Parameter("a number", NUMERIC, double=True)
TEXTS = Parameter("a text", frozenset({Kind.TEXT}))
MOMENTS = Parameter("a date or a timestamp", frozenset({Kind.DATE, Kind.TIMESTAMP}))
INSTANTS = Parameter("a date, a timestamp or a timestamptz", MOMENT_KINDS)
ANY = Parameter("a value", frozenset(Kind))


def count_to(low: int, high: int = LONGEST_COUNT) -> Parameter:
    """Take a literal whole number in a range."""
    kinds = frozenset({Kind.INTEGER})
    return Parameter(f"a literal from {low} to {high}", kinds, True, range=(low, high))


def one_of(*words: str) -> Parameter:
    """Take one of a few words, as a literal text."""
    return Parameter(f"one of {', '.join(words)}", frozenset({Kind.TEXT}), True, words)


def pattern(check: Callable[[str], str | None], what: str = "a literal text") -> Parameter:
    """Take a literal text that a check has nothing to say against."""
    return Parameter(what, frozenset({Kind.TEXT}), True, check=check)


Ranged = Callable[[Sequence[Expr], Sequence[Interval]], Interval]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFunction:
    """A function of the values of one row."""

    name: str
    summary: str
    example: str
    parameters: tuple[Parameter, ...]
    result: Callable[[Sequence[Expr]], Type]
    meaning: Callable[..., Value]
    """Its value, of the application and the values of its arguments."""
    written_as: Callable[..., str] | None = None
    """Its text for DuckDB, of the application and the texts of its arguments.

    Otherwise it calls the function of its name.
    """
    calls: tuple[str, ...] = ()
    """The functions of DuckDB that its text calls, where it is not the one of its name."""
    aliases: tuple[str, ...] = ()
    written: bool = True
    """Whether it is called by its name; otherwise the language has words for it."""
    optional: int = 0
    """How many of the last parameters may be left out."""
    variadic: bool = False
    """Whether the last parameter may be given several times."""
    alike: bool = False
    """Whether all arguments are brought to one type."""
    check: Callable[[Sequence[Expr]], str | None] = lambda _: None
    """Says what is wrong with its arguments beside one another, if something is."""
    strict: bool = True
    """Whether NULL in gives NULL out."""
    dated: bool = False
    """Whether it looks moments up in the calendar: NULL for those outside years 1 to 9999."""
    range: Ranged = lambda _, __: UNKNOWN
    """The range of its values, by the ranges of its arguments."""
    limits: Interval = UNKNOWN
    """What no value passes, whatever the arguments."""
    calendar: bool = False
    """Whether every moment it gives lies in years 1 to 9999."""
    dense: bool = False
    """Whether its groups are all whole numbers of its range."""
    listed: Callable[[Apply, Interval], tuple[Scalar, ...] | None] = lambda _, __: None
    """Its values where the range of its moment is known."""
    chosen: Callable[[Apply], tuple[Expr, ...]] = lambda _: ()
    """The arguments of which the result is always one; none, where it is computed."""
    longest: Callable[[Sequence[Expr]], int] = lambda _: 0
    repeats: int = 1
    """How often its SQL holds the text of an argument."""
    repeated: Callable[[Apply], int] | None = None
    """How many operands its SQL makes of one, where that depends on the application."""
    words: str = ""
    """How it is written where its name is not."""
    keeps_nan: bool = False
    """Whether NaN in gives NaN out, so that it may stand for NULL in between.

    Then it must not tell zeros of either sign apart, but for the sign of the zero it gives.
    """
    makes_nan: bool = False
    exact: bool = True
    """Whether every library gives the same last bit."""

    @property
    def shown(self) -> str:
        """Return what an analyst calls it."""
        return self.words or self.name

    def value(self, call: Apply, *values: Value) -> Value:
        """Return the value of an application, by the values of its arguments."""
        if self.strict and any(value is None for value in values):
            return None
        if self.dated and not all(map(_has_calendar, call.arguments, values)):
            return None
        return self.meaning(call, *values)

    def sql(self, call: Apply, *texts: str) -> str:
        """Return the text of an application for DuckDB, by the texts of its arguments."""
        if self.dated:
            texts = tuple(map(_in_calendar, call.arguments, texts))
        if self.written_as is not None:
            return self.written_as(call, *texts)
        return f"{self.name.lower()}({', '.join(texts)})"

    def range_of(self, arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
        """Return the range of its values, by the ranges of its arguments."""
        if self.dated:
            ranges = [*map(in_years, arguments, ranges)]
        return self.range(arguments, ranges)


def _has_calendar(expr: Expr, value: Value) -> bool:
    """Return whether a value of an expression is no moment outside years 1 to 9999."""
    if expr.type.kind not in YEARS:
        return True
    first, last = YEARS[expr.type.kind]
    return bool(first <= value <= last)


def in_years(expr: Expr, range_: Interval) -> Interval:
    """Return what a range of moments has in the calendar, if it has both ends."""
    if expr.type.kind not in CALENDAR:
        return range_
    return range_ & CALENDAR[expr.type.kind] if range_.bounded else UNKNOWN


def _in_calendar(expr: Expr, text: str) -> str:
    """Write a moment so that the engine's calendar is never asked about one far away.

    DuckDB computes functions of the least and greatest value that a file's footer states, also
    where every row is clamped, and raises on what has no calendar. It does not look through
    TRY.
    """
    kind = expr.type.kind
    if kind not in YEARS:
        return text
    if not expr.domain.within(*YEARS[kind]):
        low, high = (
            f"CAST('{scalar(end, expr.type)}' AS {kind.upper()})" for end in YEARS[kind]
        )
        text = f"CASE WHEN {text} BETWEEN {low} AND {high} THEN {text} END"
    return f"TRY({text})"


def scalar(value: Value, type_: Type) -> Scalar | None:
    """Return a value as the rows hold it as one of query or policy.

    >>> scalar(1, DATE), scalar(3, INTEGER)
    (datetime.date(1970, 1, 2), 3)
    """
    match type_.kind:
        case _ if value is None:
            return None
        case Kind.DATE:
            return EPOCH.date() + timedelta(days=value)
        case Kind.TIMESTAMP:
            return EPOCH + timedelta(microseconds=value)
        case Kind.TIMESTAMPTZ:
            return FIRST_INSTANT + timedelta(microseconds=value)
        case Kind.TIME:
            return (EPOCH + timedelta(microseconds=value)).time()
        case Kind.DECIMAL:
            return Fraction(value)
        case Kind.INTEGER:
            return int(value)
    found: Scalar = value
    return found


def always(type_: Type) -> Callable[[Sequence[Expr]], Type]:
    """Return one type whatever the arguments."""
    return lambda _: type_


TO_BOOLEAN = always(BOOLEAN)
TO_INTEGER = always(INTEGER)
TO_DOUBLE = always(DOUBLE)
TO_TEXT = always(TEXT)
TO_DATE = always(DATE)
TO_TIMESTAMP = always(TIMESTAMP)


def first_type(arguments: Sequence[Expr]) -> Type:
    """Return the type of the first argument."""
    return arguments[0].type


def as_type(call: Apply, text: str) -> str:
    """Write a moment in the type of the result."""
    return f"CAST({text} AS {call.type.kind.upper()})"


def cut_sql(
    value: str, low: object, high: object, first: str = "", inside: str | None = None
) -> str:
    """Write a value cut to a range, after a first case, and with another text inside of it."""
    outside = f"WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high}"
    return f"(CASE {first}{outside} ELSE {inside or value} END)"


def mapped(range_: Interval, end: Callable[[Fraction], Fraction | int]) -> Interval:
    """Return the range of a function that grows, by its values at both ends."""
    return Interval(
        *(None if e is None else Fraction(end(e)) for e in (range_.low, range_.high))
    )


def hull(_: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    """Return the range of a value that is one of the arguments."""
    return reduce(or_, ranges)


def same_longest(arguments: Sequence[Expr]) -> int:
    """Return the length of a text that is one of the arguments, or a part of one."""
    return max(map(longest_of, arguments))


def stated(argument: Expr) -> Scalar:
    """Return the value of an argument that has to be a literal."""
    assert isinstance(argument, Literal)  # noqa: S101 - the signature says so
    return argument.value
