"""How large a scan can become by plan: what it reads, and how many rows one unit can have.

Work and memory that a unit's own rows could multiply would tell about them by failing. So each
relation states a bound on the rows of one unit, of public facts alone: linear in the rows that
the unit has in the tables, plus a constant. Joins keep within it by leaving out rows of units
that have more pairs, by a rule that looks at the unit alone; unions and windows never pass it.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from math import isqrt

from dpquery.expr import Compare, Comparison, Expr, Logic, columns_of
from dpquery.relations import (
    PerUnit,
    Relation,
    SemiJoin,
    TableScan,
    UnionAll,
    UnitJoin,
    numbers,
    sources,
)

__all__ = [
    "MOST_PAIRS",
    "Extent",
    "equated",
    "equated_by",
    "extent_of",
    "kept_rows",
    "sides_of",
]

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
        case UnionAll(parts=parts):
            return _sum(*(extent_of(part, names) for part, _ in parts))
        case UnitJoin(left=left, right=right):
            return _joined(relation, extent_of(left, names), extent_of(right, names))
        case _:
            return extent_of(sources(relation)[0], names)


def _sum(*extents: Extent) -> Extent:
    return Extent(
        sum(one.one for one in extents),
        sum(one.each for one in extents),
        sum(one.more for one in extents),
    )


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
    parts: tuple[Expr, ...] = (join.condition,)
    if isinstance(join.condition, Logic) and join.condition.conjunction:
        parts = join.condition.parts
    left, right = map(numbers, sides_of(join))
    found = (equated_by(part, left, right) for part in parts)
    return tuple(pair for pair in found if pair is not None)


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


def kept_rows(pairs: int) -> int:
    """Return how many rows of each side a unit keeps that has too many pairs."""
    return isqrt(pairs)
