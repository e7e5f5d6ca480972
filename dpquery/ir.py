"""The query tree: our own, small and typed, every node with its span.

sqlglot's tree ends at binding. What this tree cannot say cannot reach the engine, so adding a
node is a decision about the promise, and each backend has to render it (I9). Expressions are
total (I12), as `sql/check.py` shows; those that differ in their place alone are equal.

A relation below the frontier is private: its rows each belong to one privacy unit. A
`Frontier` is where bounded integers are taken from it, and `Above` is what happens to the
released tables then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from fractions import Fraction

from dpquery.source import Source, Span
from dpquery.types import BOOLEAN, INTEGER, UNKNOWN, Interval, Kind, Type

__all__ = [
    "Above",
    "AboveColumn",
    "Arithmetic",
    "Bound",
    "Call",
    "Checked",
    "ColumnRef",
    "Compare",
    "Contribution",
    "CountRows",
    "Expr",
    "Filter",
    "Frontier",
    "In",
    "IsNull",
    "Literal",
    "Logic",
    "Measure",
    "Negate",
    "Not",
    "Options",
    "Relation",
    "Scan",
    "TableScan",
    "Weight",
    "Widen",
]

Scalar = int | Fraction | str | bool | date | datetime


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of the table below, clamped into its policy domain; NaN is NULL by then."""

    span: Span = field(compare=False)
    name: str
    type: Type
    domain: Interval = UNKNOWN


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


@dataclass(frozen=True, slots=True)
class TableScan:
    """A table of the policy; rows without a unit are dropped."""

    span: Span
    table: str


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition is true."""

    span: Span
    source: Relation
    condition: Expr


Relation = TableScan | Filter


@dataclass(frozen=True, slots=True)
class Options:
    """What a DP_ call states by name; clipping parameters may take any value."""

    epsilon: Fraction
    epsilon_span: Span
    delta: Fraction | None = None
    mechanism: str | None = None
    mechanism_span: Span | None = None
    max_rows_contributed: int | None = None
    delta_span: Span | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One DP_ call as written: its own release, its own draw, its own charge."""

    span: Span
    column: str
    """The engine-made name under which the query above refers to what is released."""
    function: str
    argument: Expr | None
    """None for a star."""
    condition: Expr | None
    """FILTER (WHERE ...)."""
    options: Options


@dataclass(frozen=True, slots=True)
class Frontier:
    """Where exact integers are taken from one private relation and released with noise."""

    span: Span
    relation: Relation
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class AboveColumn:
    """A column of the answer, and the release it shows unchanged, if it does."""

    name: str
    origin: tuple[int, str] | None
    """Number of the frontier and name of the column there."""


@dataclass(frozen=True, slots=True)
class Above:
    """The query over released and public tables, with no word of the analyst's text in it.

    Frontier i is its table `f{i}`, with the columns of that frontier's calls. Where every row
    of the answer is one row of a frontier, the text ends in a hidden column with that row's
    number.
    """

    sql: str
    columns: tuple[AboveColumn, ...]
    numbered: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement with every name resolved."""

    source: Source
    frontiers: tuple[Frontier, ...]
    above: Above


@dataclass(frozen=True, slots=True)
class Contribution:
    """The proven bound on what one privacy unit adds to a relation."""

    unit: str | None
    """The unit column; None where each row is its own unit."""
    single: bool
    """One row per unit by structure or declaration: no weights, and no limit but 1."""
    limit: int
    """Rows that count in full unless a call says otherwise."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A bound statement that keeps every rule. Only `sql/check.py` makes one."""

    source: Source
    frontiers: tuple[tuple[Frontier, Contribution], ...]
    above: Above


@dataclass(frozen=True, slots=True)
class Weight:
    """How rows are weighted: a unit with n rows gives each floor(scale * min(1, limit / n)).

    Scale and limit are functions of plan and policy, never of the file. A unit's total is at
    most `total`, whatever its rows; without weights both are 1 and each row counts 1.
    """

    limit: int = 1
    scale: int = 1

    @property
    def total(self) -> int:
        """The largest weight of one unit: the sensitivity of a count, in units of 1/scale."""
        return self.limit * self.scale

    @property
    def plain(self) -> bool:
        """Whether every row counts 1."""
        return self.scale == 1


@dataclass(frozen=True, slots=True)
class CountRows:
    """The total weight of the rows that meet a condition (all rows where there is none)."""

    weight: Weight
    condition: Expr | None = None


Measure = CountRows


@dataclass(frozen=True, slots=True)
class Scan:
    """The one private read of a frontier: a relation, and what to count in it."""

    relation: Relation
    contribution: Contribution
    measures: tuple[Measure, ...]


def table_of(relation: Relation) -> TableScan:
    """Give the table that a relation reads."""
    match relation:
        case TableScan():
            return relation
        case Filter(source=source):
            return table_of(source)


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
