"""Expressions over rows: typed, each with its span and its public range.

They are total (I12): no node here can fail on a row once `sql/check.py` has looked at the
ranges. What has no node cannot be computed below the frontier (I9). Expressions that differ in
their place alone are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from fractions import Fraction

from dpquery.source import Span
from dpquery.types import BOOLEAN, INTEGER, UNKNOWN, Interval, Kind, Type

__all__ = [
    "Arithmetic",
    "ColumnRef",
    "Compare",
    "Comparison",
    "Expr",
    "In",
    "IsNull",
    "Literal",
    "Logic",
    "Negate",
    "Not",
    "Operator",
    "Scalar",
    "Widen",
    "children",
    "columns_of",
    "decimal",
]

Scalar = int | Fraction | str | bool | date | datetime


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
    """Its values that are public, in no order; None where they are not."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value from the query's text, exact; a double's is the decimal that was typed."""

    span: Span = field(compare=False)
    value: Scalar
    type: Type

    @property
    def domain(self) -> Interval:
        """The range of a known number is that number."""
        if self.type.numeric and isinstance(self.value, int | Fraction):
            return Interval.point(self.value)
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


Expr = ColumnRef | Literal | Widen | Arithmetic | Negate | Compare | Logic | Not | IsNull | In


def children(expr: Expr) -> tuple[Expr, ...]:
    """Give the expressions directly inside one."""
    match expr:
        case ColumnRef() | Literal():
            return ()
        case Arithmetic(left=left, right=right) | Compare(left=left, right=right):
            return (left, right)
        case Logic(parts=parts):
            return parts
        case In(operand=operand, options=options):
            return (operand, *options)
        case (
            Widen(operand=operand)
            | Negate(operand=operand)
            | Not(operand=operand)
            | IsNull(operand=operand)
        ):
            return (operand,)


def columns_of(*exprs: Expr | None) -> dict[str, ColumnRef]:
    """Give the columns that expressions read, by name, in order of appearance."""
    found: dict[str, ColumnRef] = {}
    pending = [expr for expr in reversed(exprs) if expr is not None]
    while pending:
        expr = pending.pop()
        if isinstance(expr, ColumnRef):
            found.setdefault(expr.name, expr)
        pending.extend(reversed(children(expr)))
    return found


def decimal(scale: int) -> Type:
    """Give the type of decimals with so many places; the width follows from the domain."""
    return INTEGER if scale == 0 else Type(Kind.DECIMAL, 0, scale)
