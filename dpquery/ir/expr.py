"""Expressions over rows: typed, each with its span and its public range.

They are total (I12): no node here can fail on a row once `sql/rules.py` has looked at the
ranges. What has no node cannot be computed below the frontier (I9). Expressions that differ in
their place alone are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime, time
from enum import StrEnum
from fractions import Fraction
from functools import cache
from math import floor

from dpquery.core.source import Span
from dpquery.core.types import BOOLEAN, INTEGER, UNKNOWN, Interval, Kind, Type, ordinal

LONGEST_CONSTANT = 256
"""Characters that count of a released text."""
Scalar = int | Fraction | str | bool | date | datetime | time


class Nulls(StrEnum):
    """What is known of NULL in a column, and whether it is a group where the column is one."""

    GROUPED = "grouped"
    """Rows may have NULL, which is a group."""
    LEFT_OUT = "left out"
    """The policy says that NULL is no group: rows that have it are in none."""
    NEVER = "never"
    """No row has NULL, by how the column is made."""


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of the table below, clamped into its policy domain; NaN is NULL by then.

    The domain of a date or timestamp is in days or microseconds since 1970.
    """

    span: Span = field(compare=False)
    name: str
    type: Type
    domain: Interval = UNKNOWN
    bounded: bool = False
    """Whether somebody chose the domain; otherwise it is only what the type can hold."""
    grid: Fraction | None = None
    """The step of a double's grid, where the policy states one."""
    keys: tuple[Scalar, ...] | None = field(default=None, repr=False)
    """Its public values, in no order; None where they are not public."""
    longest: int = 0
    """Characters of a text that count."""
    of: int = 0
    """The number of the relation that gives it."""
    clamped: bool = False
    """Whether its values were cut to its domain; computed doubles can lie beside it."""
    nulls: Nulls = field(default=Nulls.GROUPED, compare=False, repr=False)
    """What follows for groups; the rows are the same, whatever it is."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value from the query's text, exact; a double's is the decimal that was typed."""

    span: Span = field(compare=False)
    value: Scalar
    type: Type

    @property
    def domain(self) -> Interval:
        """The range of a known number or moment is that one."""
        if isinstance(self.value, date | time):
            return Interval.point(ordinal(self.value))
        if self.type.numeric and isinstance(self.value, int | Fraction):
            return Interval.point(self.value)
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is computed from earlier releases, before the rows are read.

    Any value of its type may come, or NULL: nothing is known of its range. Two that differ in
    their value alone are equal, since a charge is made before it is known.
    """

    span: Span = field(compare=False)
    number: int
    """Which of the statement's constants it is."""
    type: Type
    value: Scalar | None = field(default=None, compare=False)
    known: bool = field(default=False, compare=False)
    """Whether the value is there; NULL is one."""

    @property
    def domain(self) -> Interval:
        """Nothing is known."""
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class Widen:
    """A number in a wider numeric type: the only cast, and it is ours, never the analyst's."""

    operand: Expr
    type: Type

    @property
    def span(self) -> Span:
        """The span of what is widened."""
        return self.operand.span

    @property
    def domain(self) -> Interval:
        """Widening changes no value that matters for the range."""
        return self.operand.domain


class Operator(StrEnum):
    """Arithmetic; division by zero gives NULL, and integer division cuts towards zero."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    QUOTIENT = "//"
    REMAINDER = "%"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two numbers of one type, combined."""

    span: Span = field(compare=False)
    operator: Operator
    left: Expr
    right: Expr
    type: Type
    domain: Interval


@dataclass(frozen=True, slots=True)
class Negate:
    """A number with its sign changed."""

    span: Span = field(compare=False)
    operand: Expr
    type: Type

    @property
    def domain(self) -> Interval:
        """The operand's range, mirrored."""
        return -self.operand.domain


class Comparison(StrEnum):
    """Comparisons of two values of one type."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class _Condition:
    """What all truth-valued nodes share."""

    span: Span = field(compare=False)

    @property
    def type(self) -> Type:
        """Conditions are boolean."""
        return BOOLEAN

    @property
    def domain(self) -> Interval:
        """Truth values have no numeric range."""
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class Compare(_Condition):
    """A comparison; NULL on either side gives NULL."""

    operator: Comparison
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Logic(_Condition):
    """AND or OR of two or more conditions, in SQL's three-valued logic."""

    conjunction: bool
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not(_Condition):
    """A condition negated; NULL stays NULL."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class IsNull(_Condition):
    """Whether a value is missing; never NULL itself."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class In(_Condition):
    """Whether a value equals one of several literals of its type."""

    operand: Expr
    options: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """A row function applied; `rowfunctions` holds what each name means."""

    span: Span = field(compare=False)
    function: str
    arguments: tuple[Expr, ...]
    type: Type
    domain: Interval
    longest: int = 0
    """The most characters of a text that is made."""


Expr = (
    ColumnRef
    | Literal
    | Constant
    | Widen
    | Arithmetic
    | Negate
    | Compare
    | Logic
    | Not
    | IsNull
    | In
    | Apply
)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly inside one."""
    match expr:
        case ColumnRef() | Literal() | Constant():
            return ()
        case Arithmetic(left=left, right=right) | Compare(left=left, right=right):
            return (left, right)
        case Logic(parts=parts):
            return parts
        case Apply(arguments=arguments):
            return arguments
        case In(operand=operand, options=options):
            return (operand, *options)
        case Widen() | Negate() | Not() | IsNull():
            return (expr.operand,)


def parts(tree: object) -> Sequence[object]:
    """Return what stands directly in a tuple, or in a node of any of our trees."""
    if isinstance(tree, tuple):
        return tree
    return [getattr(tree, name) for name in _field_names(type(tree))]  # type: ignore[arg-type]


@cache
def _field_names(kind: type[object]) -> tuple[str, ...]:
    """Return the names of a node's fields; what is no node has none."""
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else ()


def columns_of(*exprs: Expr | None) -> dict[tuple[int, str], ColumnRef]:
    """Give the columns that expressions read, by relation and name, in order of appearance."""
    found: dict[tuple[int, str], ColumnRef] = {}
    pending = [expr for expr in reversed(exprs) if expr is not None]
    while pending:
        expr = pending.pop()
        if isinstance(expr, ColumnRef):
            found.setdefault((expr.of, expr.name), expr)
        pending.extend(reversed(children(expr)))
    return found


def decimal(scale: int) -> Type:
    """Return the type of decimals with so many places; the width follows from the domain."""
    return INTEGER if scale == 0 else Type(Kind.DECIMAL, 0, scale)


@dataclass(frozen=True, slots=True)
class Code:
    """A value as an integer: clamped to bounds, put on a grid, counted from an origin.

    The code of x is floor(x / grid + 1/2), cut to [low, high], less the origin; for a condition
    it is 1 or 0. Where values are listed, it is the place of x among them, and other values
    have none. NULL has none.
    """

    expr: Expr
    grid: Fraction
    low: int
    high: int
    origin: int = 0
    values: tuple[Scalar, ...] = ()
    search: int | None = None
    """Which search of the statement its ends come from, if one does."""

    @property
    def range(self) -> Interval:
        """The range of the values that are not cut."""
        return Interval(self.low * self.grid, self.high * self.grid)

    @property
    def width(self) -> Fraction:
        """How far apart its ends are."""
        return (self.high - self.low) * self.grid

    @property
    def size(self) -> int:
        """The largest size of a code."""
        return max(abs(self.low - self.origin), abs(self.high - self.origin))

    @property
    def cells(self) -> int:
        """How many different codes there are."""
        return self.high - self.low + 1


def grid_step(grid: Fraction) -> tuple[str, float]:
    """Return how doubles are put on a grid: times a whole number where that is exact.

    >>> grid_step(Fraction(1, 100)), grid_step(Fraction(1000))
    (('*', 100.0), ('/', 1000.0))
    """
    inverse = 1 / grid
    if inverse.denominator == 1 and inverse <= 2**53:
        return "*", float(inverse)
    return "/", float(grid)


def on_grid(value: float, grid: Fraction) -> int:
    """Return floor(value / grid + 1/2) as every engine computes it: in doubles, in this order.

    >>> on_grid(0.005, Fraction(1, 100)), on_grid(-2.5, Fraction(1))
    (1, -2)
    """
    operator, step = grid_step(grid)
    return floor((value * step if operator == "*" else value / step) + 0.5)


def longest_of(expr: Expr) -> int:
    """Return the most characters that a text can have; 0 for what is none."""
    match expr:
        case ColumnRef(longest=longest) | Apply(longest=longest):
            return longest
        case Literal(value=str(text)):
            return len(text)
        case Constant(type=Type(kind=Kind.TEXT)):
            return LONGEST_CONSTANT
    return 0
