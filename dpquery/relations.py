"""Private relations: rows that each belong to one privacy unit, and operators that keep it so.

One rule decides what stands here, unit-locality: the rows that a unit owns are a function of
the multiset of its own base rows, and of public tables. So adding or removing a unit adds or
removes exactly its own rows through any number of operators, and bounding what a unit
contributes can wait until the frontier. No node may let one unit's rows decide about another's:
there is none for LIMIT, for DISTINCT or GROUP BY without the unit, or for a join off the unit.

The owner of a row travels beside it and never through an expression. A node that gives columns
has a number, and a `ColumnRef` names a column by that number and a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dpquery.expr import Code, ColumnRef, Expr, columns_of
from dpquery.source import Span
from dpquery.types import UNKNOWN, Interval, Type

__all__ = [
    "Aggregate",
    "Filter",
    "Output",
    "PerUnit",
    "Project",
    "PublicJoin",
    "Relation",
    "SemiJoin",
    "Sorted",
    "TableScan",
    "UnionAll",
    "UnitAggregate",
    "UnitJoin",
    "WindowColumn",
    "WindowFunction",
    "Windowed",
    "columns_in",
    "expressions_of",
    "numbers",
    "only_table",
    "sources",
    "tables_of",
    "walk",
]


@dataclass(frozen=True, slots=True)
class TableScan:
    """A private table of the policy; rows without a unit are dropped."""

    span: Span
    table: str
    number: int = 0
    part: Code | None = None
    """The place of a row among the parts of the table, where a unit keeps a few parts alone.

    Those are its first ones, of all its rows, before any other node sees them. What has no
    place is one more part, and the last.
    """
    kept: int = 1
    """How many of its parts a unit keeps."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition is true."""

    span: Span
    source: Relation
    condition: Expr


@dataclass(frozen=True, slots=True)
class Output:
    """A column that a relation computes."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Project:
    """The same rows with computed columns, where these must exist before a join."""

    span: Span
    source: Relation
    number: int
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class PublicJoin:
    """Rows with what a public table says of them: at most one of its rows meets each of ours.

    The condition holds equalities with all columns of a key that the policy declares unique, so
    no row is doubled. Rows that meet none are dropped, or kept with NULL.
    """

    span: Span
    source: Relation
    table: str
    number: int
    condition: Expr
    keeps: bool


@dataclass(frozen=True, slots=True)
class UnitJoin:
    """Pairs of rows of one unit that meet a condition, and rows of a side without a partner.

    The pairs of one unit are as many as the product of its rows that agree in what the
    condition equates. Where it can have several rows on both sides, a unit that has more pairs
    than `pairs`, and than it has such rows on either side, takes part with few rows of each:
    the first in the order of all columns in use, as many as make no more pairs than that.
    """

    span: Span
    left: Relation
    right: Relation
    condition: Expr | None
    pairs: int | None
    keeps_left: bool = False
    keeps_right: bool = False


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """The rows for which their unit has a row in another relation, or has none.

    A condition is over the columns of both rows. What it looks at of one unit are as many pairs
    as in a join, so where it is more than equalities, `pairs` bounds them as it does there.
    """

    span: Span
    source: Relation
    other: Relation
    negated: bool
    condition: Expr | None = None
    pairs: int | None = None


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of several relations of one unit domain, each with the same columns."""

    span: Span
    number: int
    parts: tuple[tuple[Relation, tuple[Output, ...]], ...]


class Aggregate(StrEnum):
    """What can be computed of one unit's rows without an order among them."""

    COUNT = "count"
    COUNT_DISTINCT = "count distinct"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    ALL = "bool_and"
    ANY = "bool_or"


@dataclass(frozen=True, slots=True)
class UnitAggregate:
    """One column of a per-unit aggregation; sums are exact, of doubles on a grid."""

    name: str
    function: Aggregate
    argument: Expr | None
    """None counts rows."""
    condition: Expr | None
    type: Type
    domain: Interval = UNKNOWN
    code: Code | None = None
    """How doubles are put on a grid before they are added up."""


@dataclass(frozen=True, slots=True)
class PerUnit:
    """One row for each unit and combination of keys that the unit has rows for."""

    span: Span
    source: Relation
    number: int
    keys: tuple[Output, ...]
    aggregates: tuple[UnitAggregate, ...]
    own: frozenset[str] = frozenset()
    """The keys that are the unit's own column: they part none of its rows."""

    @property
    def one_row(self) -> bool:
        """Whether each unit has one row."""
        return all(key.name in self.own for key in self.keys)


class WindowFunction(StrEnum):
    """What can be computed of a row's place among the rows of its unit."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"
    LAG = "lag"
    LEAD = "lead"
    NTILE = "ntile"
    AGGREGATE = "aggregate"


@dataclass(frozen=True, slots=True)
class Sorted:
    """A sort key of a window."""

    expr: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class WindowColumn:
    """A column computed over the rows of a unit, or of a part of them.

    The order is completed by every column in use, so that ties are between rows that no column
    tells apart; an aggregate has no order and is over the whole part.
    """

    name: str
    function: WindowFunction
    argument: Expr | None
    parts: tuple[Expr, ...]
    order: tuple[Sorted, ...]
    offset: int
    """How many rows away; of NTILE, how many parts."""
    type: Type
    domain: Interval = UNKNOWN
    aggregate: UnitAggregate | None = None


@dataclass(frozen=True, slots=True)
class Windowed:
    """The same rows with columns computed over the rows of their unit."""

    span: Span
    source: Relation
    number: int
    columns: tuple[WindowColumn, ...]


Relation = (
    TableScan
    | Filter
    | Project
    | PublicJoin
    | UnitJoin
    | SemiJoin
    | UnionAll
    | PerUnit
    | Windowed
)


def sources(relation: Relation) -> tuple[Relation, ...]:
    """Give the relations directly below one."""
    match relation:
        case TableScan():
            return ()
        case UnitJoin(left=left, right=right):
            return (left, right)
        case SemiJoin(source=source, other=other):
            return (source, other)
        case UnionAll(parts=parts):
            return tuple(part for part, _ in parts)
        case _:
            return (relation.source,)


def walk(relation: Relation) -> Iterator[Relation]:
    """Give a relation and all below it."""
    pending = [relation]
    while pending:
        found = pending.pop()
        yield found
        pending.extend(reversed(sources(found)))


def expressions_of(relation: Relation) -> Iterator[Expr]:
    """Give the expressions that stand directly in a relation."""
    match relation:
        case Filter(condition=condition) | PublicJoin(condition=condition):
            yield condition
        case UnitJoin(condition=condition) | SemiJoin(condition=condition):
            yield from (condition,) if condition is not None else ()
        case Project(outputs=outputs):
            yield from (output.expr for output in outputs)
        case UnionAll(parts=parts):
            yield from (output.expr for _, outputs in parts for output in outputs)
        case PerUnit(keys=keys, aggregates=aggregates):
            yield from (key.expr for key in keys)
            for aggregate in aggregates:
                yield from _of_aggregate(aggregate)
        case Windowed(columns=columns):
            for column in columns:
                yield from _of_window(column)


def _of_aggregate(aggregate: UnitAggregate) -> Iterator[Expr]:
    yield from (e for e in (aggregate.argument, aggregate.condition) if e is not None)


def _of_window(column: WindowColumn) -> Iterator[Expr]:
    if column.argument is not None:
        yield column.argument
    yield from column.parts
    yield from (key.expr for key in column.order)
    if column.aggregate is not None:
        yield from _of_aggregate(column.aggregate)


def numbers(relation: Relation) -> frozenset[int]:
    """Give the numbers of the nodes whose columns the rows of a relation have."""
    match relation:
        case TableScan(number=number) | Project(number=number) | UnionAll(number=number):
            return frozenset({number})
        case PerUnit(number=number):
            return frozenset({number})
        case PublicJoin(source=source, number=number) | Windowed(source=source, number=number):
            return numbers(source) | {number}
        case UnitJoin(left=left, right=right):
            return numbers(left) | numbers(right)
        case Filter(source=source) | SemiJoin(source=source):
            return numbers(source)


def only_table(relation: Relation) -> TableScan | None:
    """Give the table of a relation that does nothing but filter one."""
    while isinstance(relation, Filter):
        relation = relation.source
    return relation if isinstance(relation, TableScan) else None


def tables_of(relation: Relation) -> tuple[TableScan, ...]:
    """Give the private tables that a relation reads, each as often as it does."""
    return tuple(found for found in walk(relation) if isinstance(found, TableScan))


def columns_in(relation: Relation, *exprs: Expr | None) -> tuple[ColumnRef, ...]:
    """Give the columns that a relation and some expressions over it read, each once."""
    inside = [expr for node in walk(relation) for expr in expressions_of(node)]
    return tuple(columns_of(*exprs, *inside).values())
