"""How far one privacy unit moves each measure, with the proof."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from dpquery.core.privacy_loss import Neighbours, root_above
from dpquery.ir.measures import (
    Candidates,
    CountRows,
    CountUnits,
    CountValues,
    Histogram,
    Measure,
    SumCodes,
    SumProducts,
    UnitTotals,
)

# How far one privacy unit can move each measure, over all groups together.
#
# Weights. A unit with n rows in a relation, counted after WHERE, gives each row the weight
# w = floor(scale * min(1, limit / n)), so its rows weigh n w <= limit * scale together,
# whatever they hold. Scale and limit come from plan and policy: the law of a release never
# follows the file. Adding or removing the unit adds or removes exactly its own rows,
# because below the frontier every row depends on its own unit's rows alone; no other unit's
# n, and so no other weight, moves. Each measure then adds up, over the unit's rows, the
# weight times a number whose size is known, and the sum of all that is at most limit *
# scale times the largest such number.
#
# What spreads over groups, units counted once in each and totals clamped in each, is
# weighted by the number of the unit's groups instead, and adds up to limit * scale in the
# same way.
#
# Candidates takes at most `limit` values from each unit, and looks at no other unit to choose
# them: one more unit has at most so many. That a value is made of several expressions changes
# nothing: which combinations a unit has follows from its own rows.
#
# The pairs that CountValues counts only become more with one more unit, and at most `limit`
# more. Say that each unit has `limit` slots, and let r(A) be how many of the pairs A can stand
# in slots of units that have them. Put in their order, a pair counts if it makes r larger (by 1
# then), so r of all pairs is how many count. Take one slot more, and r'; r' is r or r + 1. It
# is to be shown that what counted counts still: if r(A + e) = r(A) + 1, r'(A + e) = r'(A) + 1.
# Otherwise r'(A + e) = r'(A) = r(A) + 1. Let M place that many of A + e in the old slots, and
# M' that many of A in all; then M places e, and M' fills the new slot. Among the paths in which
# edges of M and M' alternate, one starts at e, with M, and one ends at the new slot, with M'.
# They are not the same: from a pair to a slot the number of edges is odd, so that the first and
# the last are both of M. If the path from e ends at a slot, exchanging its edges in M' places
# r(A) + 2 of A + e, more than r'(A + e). If it ends at a pair, exchanging them in M places
# r(A) + 1 of A in the old slots, more than r(A). So sums over the pairs that count move by at
# most `limit` times the largest number, in whatever groups; and where a unit is replaced, the
# pairs that count without both are among those of either.
#
# Replacing a unit takes one contribution away and adds another. Without groups both lie in
# one range, and the measure moves by no more than its width; with groups the two can stand
# in different ones, and both count.
#
# A property of the measures alone, so that functions and mechanisms need not know about
# weights. Every number here is held against enumeration by the property tests.


def sensitivity(
    measure: Measure, neighbours: Neighbours = Neighbours.ADD_REMOVE, *, grouped: bool = False
) -> int:
    """Return the largest change of a measure between neighbours, in units of 1/scale.

    In the L1 norm over all groups; it bounds the L2 norm as well.
    """
    substituted = neighbours is Neighbours.SUBSTITUTE
    twice = 2 if substituted and grouped else 1
    match measure:
        case CountRows() | CountUnits() | CountValues():
            return twice * measure.weight.total
        case Candidates(weight=weight):  # a unit's values go, and its replacement's come
            return (2 if substituted else 1) * weight.total
        case UnitTotals(weight=weight) if substituted and not grouped:
            return weight.total * _width(measure)
        case UnitTotals(weight=weight):
            return twice * weight.total * measure.size
        case SumCodes(weight=weight, code=code) if substituted and not grouped:
            low, high = code.low - code.origin, code.high - code.origin
            ends = (int(low**measure.degree), int(high**measure.degree), 0)
            return weight.total * (max(ends) - min(ends))
        case SumCodes(weight=weight):
            return twice * weight.total * prod(code.size for code in measure.factors)
        case SumProducts(weight=weight):  # the products of two rows can have both signs
            largest = prod(code.size for code in measure.factors)
            return (2 if substituted else 1) * weight.total * largest
        case Histogram(weight=weight):  # a unit's rows leave their cells, another's enter
            return (2 if substituted else 1) * weight.total


def l2_sensitivity(
    measure: Measure, neighbours: Neighbours = Neighbours.ADD_REMOVE, *, grouped: bool = False
) -> int | Fraction:
    """Return the same in the L2 norm, rounded up where it is irrational.

    Units spread evenly over their groups. All else is moved furthest with the whole weight in
    one group, or with groups, where a unit is replaced, in two at a right angle.
    """
    right_angle = grouped and neighbours is Neighbours.SUBSTITUTE
    if isinstance(measure, CountUnits | UnitTotals):
        return _spread_l2(measure, neighbours, right_angle=right_angle)
    if right_angle:
        corner = root_above(2) * sensitivity(measure)
        return max(corner, Fraction(sensitivity(measure, neighbours)))
    return sensitivity(measure, neighbours)


def _spread_l2(
    measure: CountUnits | UnitTotals, neighbours: Neighbours, *, right_angle: bool
) -> int | Fraction:
    """Return the L2 norm of what spreads over the groups: the most of them at full weight.

    A unit and its replacement are furthest apart in different groups, or where totals have
    both signs, at the two ends of the range in the same groups.
    """
    weight = measure.weight
    size = measure.size if isinstance(measure, UnitTotals) else 1
    apart = weight.scale * size * root_above(weight.limit * (2 if right_angle else 1))
    if not isinstance(measure, UnitTotals) or neighbours is Neighbours.ADD_REMOVE:
        return apart
    opposite = weight.scale * _width(measure) * root_above(weight.limit)
    return max(apart, opposite) if right_angle else opposite


def _width(measure: UnitTotals) -> int:
    """Return how far apart two units' totals can be; no total at all is 0."""
    return max(measure.high, 0) - min(measure.low, 0)


def simplex_sensitivity(measure: SumCodes | SumProducts, neighbours: Neighbours) -> int:
    """Return the sensitivity of the Bernstein sums of which a measure is the highest moment.

    Its factors are codes from 0 to `size`. For every row, or different value, the sums are
    nonnegative and add up to the product of these sizes. So the vector moves by the unit's
    weight times that in L1 norm; replacing a unit moves it by twice as much.
    """
    twice = 2 if neighbours is Neighbours.SUBSTITUTE else 1
    return twice * measure.weight.total * prod(max(code.size, 1) for code in measure.factors)


def simplex_l2_sensitivity(
    measure: SumCodes | SumProducts, neighbours: Neighbours
) -> int | Fraction:
    """Return the same in the L2 norm: of two nonnegative vectors, the right angle is widest."""
    l1 = simplex_sensitivity(measure, Neighbours.ADD_REMOVE)
    return root_above(2) * l1 if neighbours is Neighbours.SUBSTITUTE else l1
