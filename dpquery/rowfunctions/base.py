"""What a row function states of itself: names, arguments, result, meaning, and its SQL.

A function is total: it has a value, or NULL, for every value of its arguments' types, and its
SQL can neither raise nor overflow on one. Meaning and SQL say the same twice, once in exact
Python and once for DuckDB; tests hold one against the other at the edges of every domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpquery.core.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    EPOCH,
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
from dpquery.ir.expr import Apply, Expr, Scalar, longest_of

Value = Any
"""None, bool, int, float, Fraction or str, as the type says; moments are numbers since 1970."""
LONGEST_COUNT = 1_000_000
WHOLE = Interval(Fraction(INT64[0]), Fraction(INT64[1]))
"""What a 64-bit integer can hold."""
CALENDAR = {
    Kind.DATE: Interval(
        Fraction(ordinal(EPOCH.min.date())), Fraction(ordinal(EPOCH.max.date()))
    ),
    Kind.TIMESTAMP: Interval(Fraction(ordinal(EPOCH.min)), Fraction(ordinal(EPOCH.max))),
}
"""Years 1 to 9999: what lies outside has no calendar, and functions of it are NULL."""


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
ANY = Parameter("a value", frozenset(Kind))


def count_to(low: int, high: int = LONGEST_COUNT) -> Parameter:
    """Take a literal whole number in a range."""
    kinds = frozenset({Kind.INTEGER})
    return Parameter(f"a literal from {low} to {high}", kinds, True, range=(low, high))


def one_of(*words: str) -> Parameter:
    """Take one of a few words, as a literal text."""
    return Parameter(f"one of {', '.join(words)}", frozenset({Kind.TEXT}), True, words)


def pattern(check: Callable[[str], str | None]) -> Parameter:
    """Take a literal text that a check has nothing to say against."""
    return Parameter("a literal text", frozenset({Kind.TEXT}), True, check=check)


Ranged = Callable[[Sequence[Expr], Sequence[Interval]], Interval]
Listed = Callable[[Apply, Interval], tuple[Scalar, ...] | None]


def _unknown(_: Sequence[Expr], __: Sequence[Interval]) -> Interval:
    return UNKNOWN


def _no_text(_: Sequence[Expr]) -> int:
    return 0


def _unlisted(_: Apply, __: Interval) -> None:
    return None


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
    sql: Callable[..., str]
    """Its text for DuckDB, of the application and the texts of its arguments."""
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
    strict: bool = True
    """Whether NULL in gives NULL out."""
    range: Ranged = _unknown
    """The range of its values, by the ranges of its arguments."""
    limits: Interval = UNKNOWN
    """What no value passes, whatever the arguments."""
    calendar: bool = False
    """Whether every moment it gives lies in years 1 to 9999."""
    dense: bool = False
    """Whether its groups are all whole numbers of its range."""
    listed: Listed = _unlisted
    """Its values where the range of an argument is known: the last, unless it says which."""
    listed_of: int = -1
    chosen: Callable[[Apply], tuple[Expr, ...]] = lambda _: ()
    """The arguments of which the result is always one; none, where it is computed."""
    longest: Callable[[Sequence[Expr]], int] = _no_text
    repeats: int = 1
    """How often its SQL holds the text of an argument."""
    keeps_nan: bool = False
    """Whether NaN in gives NaN out, so that it may stand for NULL in between.

    Then it must not tell zeros of either sign apart, but for the sign of the zero it gives.
    """
    makes_nan: bool = False
    exact: bool = True
    """Whether every library gives the same last bit."""


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


def hull(_: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    """Return the range of a value that is one of the arguments."""
    found = ranges[0]
    for one in ranges[1:]:
        found |= one
    return found


def same_longest(arguments: Sequence[Expr]) -> int:
    """Return the length of a text that is one of the arguments, or a part of one."""
    return max(map(longest_of, arguments))
