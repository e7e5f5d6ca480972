"""The query tree: our own, small and typed, every node with its span.

sqlglot's tree ends at binding. What this tree cannot say cannot reach the engine, so adding a
node here or in `expr.py` is a decision about the promise, and each backend has to render it
(I9).

A relation below the frontier is private: its rows each belong to one privacy unit. A
`Frontier` is where bounded integers are taken from it, and `Above` is what happens to the
released tables then.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor, prod

from dpquery.expr import (
    Arithmetic,
    ColumnRef,
    Compare,
    Comparison,
    Expr,
    In,
    IsNull,
    Literal,
    Logic,
    Negate,
    Not,
    Operator,
    Scalar,
    Widen,
    children,
    columns_of,
    decimal,
)
from dpquery.source import Source, Span
from dpquery.types import Interval

__all__ = [
    "Above",
    "AboveColumn",
    "Arithmetic",
    "Bound",
    "Call",
    "Checked",
    "Code",
    "ColumnRef",
    "Compare",
    "Comparison",
    "Contribution",
    "CountRows",
    "CountUnits",
    "Expr",
    "Filter",
    "Frontier",
    "Histogram",
    "In",
    "IsNull",
    "Key",
    "Literal",
    "Logic",
    "Measure",
    "Negate",
    "Not",
    "Operator",
    "Options",
    "Relation",
    "Scalar",
    "Scan",
    "SumCodes",
    "TableScan",
    "Weight",
    "Widen",
    "children",
    "columns_of",
    "columns_read",
    "decimal",
    "grid_step",
    "on_grid",
    "table_of",
]


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
    bounds: Interval | None = None
    """Where the argument is clamped: numbers, or days and microseconds since 1970."""
    bounds_span: Span | None = None
    delta_span: Span | None = None
    smooth: Fraction | None = None
    """In units of the argument; of moments, in days or microseconds."""
    smooth_span: Span | None = None


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
    distinct: bool = False
    order: Fraction | tuple[Fraction, ...] | None = None
    """Which quantile, between 0 and 1; or which ones, where a list is asked for."""
    text: str = ""
    """How it is written, without its FILTER: refusals offer it again, mended."""


@dataclass(frozen=True, slots=True)
class Key:
    """A grouping expression with its finite public domain, in the order of the answer.

    Rows whose value is not among them belong to no group.
    """

    span: Span
    column: str
    """The engine-made name under which the query above refers to it."""
    expr: Expr
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Frontier:
    """Where exact integers are taken from one private relation and released with noise."""

    span: Span
    relation: Relation
    calls: tuple[Call, ...]
    keys: tuple[Key, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Code:
    """A value as an integer: clamped to bounds, put on a grid, counted from an origin.

    The code of x is floor(x / grid + 1/2), cut to [low, high], less the origin; for a condition
    it is 1 or 0. NULL has none.
    """

    expr: Expr
    grid: Fraction
    low: int
    high: int
    origin: int = 0

    @property
    def size(self) -> int:
        """The largest size of a code."""
        return max(abs(self.low - self.origin), abs(self.high - self.origin))

    @property
    def cells(self) -> int:
        """How many different codes there are."""
        return self.high - self.low + 1


@dataclass(frozen=True, slots=True)
class SumCodes:
    """The sum of weight * code^degree over the rows that have a code and meet a condition."""

    weight: Weight
    code: Code
    degree: int = 1
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class CountUnits:
    """How many units have a row that meets a condition, each in at most one group's worth.

    With groups, a unit that is in g_u of them counts floor(scale * min(1, limit / g_u)) in
    each.
    """

    weight: Weight
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """Total weights by range of codes, asked for range by range while the scan is open."""

    weight: Weight
    code: Code
    condition: Expr | None = None


Measure = CountRows | SumCodes | CountUnits | Histogram


@dataclass(frozen=True, slots=True)
class Scan:
    """The one private read of a frontier: a relation, its groups, and what to count in them."""

    relation: Relation
    contribution: Contribution
    measures: tuple[Measure, ...]
    keys: tuple[Key, ...] = ()

    @property
    def cells(self) -> int:
        """The number of groups; 1 without keys."""
        return prod(len(key.values) for key in self.keys)


def grid_step(grid: Fraction) -> tuple[str, float]:
    """Give how doubles are put on a grid: times a whole number where that is exact.

    >>> grid_step(Fraction(1, 100)), grid_step(Fraction(1000))
    (('*', 100.0), ('/', 1000.0))
    """
    inverse = 1 / grid
    if inverse.denominator == 1 and inverse <= 2**53:
        return "*", float(inverse)
    return "/", float(grid)


def on_grid(value: float, grid: Fraction) -> int:
    """Give floor(value / grid + 1/2) as every engine computes it: in doubles, in this order.

    >>> on_grid(0.005, Fraction(1, 100)), on_grid(-2.5, Fraction(1))
    (1, -2)
    """
    operator, step = grid_step(grid)
    return floor((value * step if operator == "*" else value / step) + 0.5)


def columns_read(scan: Scan) -> dict[str, ColumnRef]:
    """Give the columns that a scan reads, by name."""
    exprs: list[Expr | None] = [key.expr for key in scan.keys]
    relation = scan.relation
    while isinstance(relation, Filter):
        exprs.append(relation.condition)
        relation = relation.source
    for measure in scan.measures:
        exprs.append(measure.condition)
        if isinstance(measure, SumCodes | Histogram):
            exprs.append(measure.code.expr)
    return columns_of(*exprs)


def table_of(relation: Relation) -> TableScan:
    """Give the table that a relation reads."""
    match relation:
        case TableScan():
            return relation
        case Filter(source=source):
            return table_of(source)
