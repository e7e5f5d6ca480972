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

from collections.abc import Iterable, Iterator, Set
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from math import isqrt

from dpquery.core.source import Span
from dpquery.core.types import UNKNOWN, Interval, Type
from dpquery.ir.expr import (
    Code,
    ColumnRef,
    Compare,
    Comparison,
    Expr,
    Logic,
    columns_of,
    longest_of,
    parts,
)


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
    """Rows with what a public table says of them; `most` of its rows meet one of ours at most.

    Of a unit's rows R it makes { (r, p) : r in R, p in the public table, the condition holds },
    and where it keeps rows, r with NULL for each r that meets none. That is a function of R and
    of the public table alone: unit-locality holds, also where a row becomes several. Weights
    are of a unit's rows after all joins, so that every sensitivity stands as it is; what does
    not stand is that a unit has one row, and the extent says how many it has. Where each row is
    a unit of its own, there are no weights: a row may not become several.

    The number is of public facts: 1 where the condition equates a key that the policy declares
    unique, else how often the values that it equates occur together in the public table.
    """

    span: Span
    source: Relation
    table: str
    number: int
    condition: Expr
    keeps: bool
    most: int = 1


@dataclass(frozen=True, slots=True)
class Unnest:
    """A row for each value of a list that a row has; the first `most` of them, at most.

    The list is of some values of the row, of the parts of its one text between separators, or
    one that the file has.
    An empty text is one part, and NULL has none. Of a unit's rows R it makes
    { (r, v) : r in R, v among the first values of the list of r }, each as often as it stands
    there, and where it keeps rows, r with NULL for each r without a list. That is a function
    of R alone, row by row: unit-locality holds, and no order of rows decides anything. As in a
    join with a public table, weights are of a unit's rows after it, so that every sensitivity
    stands as it is; what does not stand is that a unit has one row. Where each row is a unit
    of its own, there are no weights: a row may not become several.

    The number is of the query and the policy: how many values are written, or how many parts a
    text of the greatest length can have, up to a limit.
    """

    span: Span
    source: Relation
    number: int
    values: tuple[Output, ...]
    """The values of a list, all of one name; with a separator, the text."""
    most: int
    separator: str | None = None
    keeps: bool = False

    @property
    def listed(self) -> bool:
        """Whether the one value is a column of lists, as the file has them."""
        return self.values[0].expr.type.listed


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
    """The keys that are the same in all rows of a unit, as its own column: they part none."""

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
    | Unnest
    | UnitJoin
    | SemiJoin
    | UnionAll
    | PerUnit
    | Windowed
)


def sources(relation: Relation) -> tuple[Relation, ...]:
    """Return the relations directly below one."""
    match relation:
        case TableScan():
            return ()
        case UnitJoin(left=left, right=right):
            return (left, right)
        case SemiJoin(source=source, other=other):
            return (source, other)
        case UnionAll():
            return tuple(part for part, _ in relation.parts)
        case _:
            return (relation.source,)


def walk(relation: Relation) -> Iterator[Relation]:
    """Return a relation and all below it."""
    pending = [relation]
    while pending:
        found = pending.pop()
        yield found
        pending.extend(reversed(sources(found)))


def expressions_of(relation: Relation) -> Iterator[Expr]:
    """Return the expressions that stand directly in a relation, in order; of codes, none."""
    pending = [*reversed(parts(relation))]
    while pending:
        part = pending.pop()
        if isinstance(part, Expr):
            yield part
        elif not isinstance(part, Relation | Code):
            pending.extend(reversed(parts(part)))


def numbers(relation: Relation) -> frozenset[int]:
    """Return the numbers of the nodes whose columns the rows of a relation have."""
    match relation:
        case TableScan() | Project() | UnionAll() | PerUnit():
            return frozenset({relation.number})
        case PublicJoin() | Unnest() | Windowed():
            return numbers(relation.source) | {relation.number}
        case UnitJoin():
            return numbers(relation.left) | numbers(relation.right)
        case Filter() | SemiJoin():
            return numbers(relation.source)


def public_joins(relation: Relation, *, missing: bool = False) -> dict[int, PublicJoin]:
    """Return the joins whose public columns the rows of a relation have, by their numbers.

    One keeps rows here also where an outer join further up leaves its columns without a value.
    """
    match relation:
        case PublicJoin():
            one = replace(relation, keeps=relation.keeps or missing)
            return {**public_joins(relation.source, missing=missing), one.number: one}
        case UnitJoin(left=left, right=right):
            return {
                **public_joins(left, missing=missing or relation.keeps_right),
                **public_joins(right, missing=missing or relation.keeps_left),
            }
        case Filter() | SemiJoin() | Unnest() | Windowed():
            return public_joins(relation.source, missing=missing)
    return {}


def only_table(relation: Relation) -> TableScan | None:
    """Return the table of a relation that does nothing but filter one."""
    while isinstance(relation, Filter):
        relation = relation.source
    return relation if isinstance(relation, TableScan) else None


def tables_of(relation: Relation) -> tuple[TableScan, ...]:
    """Return the private tables that a relation reads, each as often as it does."""
    return tuple(found for found in walk(relation) if isinstance(found, TableScan))


def columns_in(relation: Relation, *exprs: Expr | None) -> tuple[ColumnRef, ...]:
    """Return the columns that a relation and some expressions over it read, each once."""
    inside = [expr for node in walk(relation) for expr in expressions_of(node)]
    return tuple(columns_of(*exprs, *inside).values())


# How large a scan can become by plan: what it reads, and how many rows one unit can have.
#
# Work and memory that a unit's own rows could multiply would tell about them by failing. So
# each relation states a bound on the rows of one unit, of public facts alone: linear in the
# rows that the unit has in the tables, plus a constant. Joins keep within it by leaving out
# rows of units that have more pairs, by a rule that looks at the unit alone; unions and
# windows never pass it.


MOST_PAIRS = 2**16
"""Pairs of rows of one unit in a join, where both sides can have several rows of it."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How many rows of one unit a relation can have.

    A unit that has n rows in each table has at most `each * n + more` here, and `one` where n
    is 1. Without rows in any table it has none: every row is made of rows of the tables.
    """

    one: int
    each: int
    more: int

    def of(self, rows: int) -> int:
        """Return the most rows of a unit that has so many in each table."""
        linear = self.each * rows + self.more
        return min(self.one, linear) if rows == 1 else linear

    @property
    def single(self) -> bool:
        """Whether no unit has several rows."""
        return self.each == 0 and self.more <= 1


ONE_ROW = Extent(1, 0, 1)


def extent_of(relation: Relation, single: Iterable[str]) -> Extent:
    """Return how many rows of one unit a relation can have.

    Args:
        relation: the relation.
        single: the tables that have at most one row of a unit.
    """
    names = frozenset(single)
    match relation:
        case TableScan(table=table):
            return ONE_ROW if table in names else Extent(1, 1, 0)
        case PerUnit(one_row=True):
            return ONE_ROW
        case UnionAll():
            return _sum(*(extent_of(part, names) for part in sources(relation)))
        case PublicJoin(source=source, most=most) | Unnest(source=source, most=most):
            extent = extent_of(source, names)
            return Extent(extent.one * most, extent.each * most, extent.more * most)
        case UnitJoin(left=left, keeps_right=False) if looks_up(relation):
            return extent_of(left, names)
        case UnitJoin(left=left, right=right):
            return _joined(relation, extent_of(left, names), extent_of(right, names))
        case _:
            return extent_of(sources(relation)[0], names)


def _sum(*extents: Extent) -> Extent:
    return Extent(*(sum(ends) for ends in zip(*map(astuple, extents), strict=True)))


def _joined(join: UnitJoin, left: Extent, right: Extent) -> Extent:
    """Return the extent of a join: of its pairs, and of rows that are kept without a partner.

    Where a side has one row, each row of the other is there once. Else a unit has no more pairs
    than MOST_PAIRS, or than it has rows on one of the sides; one with more is cut to fewer.
    """
    both = join.keeps_left and join.keeps_right
    if left.single or right.single:
        many = right if left.single else left
        return _sum(many, ONE_ROW) if both and join.condition is not None else many
    one = left.one * right.one
    paired = Extent(
        max(one, left.one + right.one) if both else one,
        max(left.each, right.each),
        max(left.more, right.more, MOST_PAIRS),
    )
    kept = [Extent(0, left.each, left.more)] if join.keeps_left else []
    kept += [Extent(0, right.each, right.more)] if join.keeps_right else []
    return _sum(paired, *kept)


def sides_of(join: UnitJoin | SemiJoin) -> tuple[Relation, Relation]:
    """Return the two relations whose rows are paired."""
    if isinstance(join, UnitJoin):
        return join.left, join.right
    return join.source, join.other


def equated(join: UnitJoin | SemiJoin) -> tuple[tuple[Expr, Expr], ...]:
    """Return what the condition of a join equates: of each pair, first what the left side has.

    Rows are partners only if all of these are equal, beside the unit.
    """
    if join.condition is None:
        return ()
    both: tuple[Expr, ...] = (join.condition,)
    if isinstance(join.condition, Logic) and join.condition.conjunction:
        both = join.condition.parts
    left, right = map(numbers, sides_of(join))
    found = (equated_by(part, left, right) for part in both)
    return tuple(pair for pair in found if pair is not None)


def looks_up(join: UnitJoin) -> bool:
    """Return whether each row on the left meets one row on the right at most.

    Of a unit, the right side has one row for each combination of its keys, and all of them are
    equated with values of the left side: no two of those rows agree in what a row looks for.
    """
    if not isinstance(join.right, PerUnit):
        return False
    found = {theirs.name for _, theirs in equated(join) if isinstance(theirs, ColumnRef)}
    return {key.name for key in join.right.keys} - join.right.own <= found


def equated_by(part: Expr, left: Set[int], right: Set[int]) -> tuple[Expr, Expr] | None:
    """Return the two sides of an equality of a value of one relation with one of another.

    Args:
        part: the condition.
        left: the numbers of the relation whose value is given first.
        right: the numbers of the other.
    """
    if not isinstance(part, Compare) or part.operator is not Comparison.EQ:
        return None
    for one, other in ((part.left, part.right), (part.right, part.left)):
        ours, theirs = ({of for of, _ in columns_of(side)} for side in (one, other))
        if ours and theirs and ours <= left and theirs <= right:
            return one, other
    return None


def most_parts(text: Expr, separator: str) -> int:
    """Return how many parts a text can have that separators lie between."""
    return longest_of(text) // len(separator) + 1


def kept_rows(pairs: int) -> int:
    """Return how many rows of each side a unit keeps that has too many pairs."""
    return isqrt(pairs)
