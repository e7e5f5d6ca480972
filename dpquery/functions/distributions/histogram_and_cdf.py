"""DP_HISTOGRAM and DP_CDF: how values are spread, by counts of ranges with public ends.

Ranges are told apart by conditions that are read from the query: a row with a value is in one
of them, up to the first point, up to the next, or above the last.

Sensitivity: a unit's rows have a total weight of at most limit * scale, and each counts in one
range of one group. So one unit moves the counts of all ranges and groups by that in L1 norm,
and so in L2; replaced, by twice that, or by the root of 2 times that in L2: two vectors
without negatives are no further apart than at a right angle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, sqrt
from typing import Any, ClassVar

from dpquery.core.privacy_loss import Neighbours, decimal_text, root_above
from dpquery.core.source_text import Span
from dpquery.core.text_table import value_text
from dpquery.core.types import DOUBLE, INTEGER, Type
from dpquery.errors import QueryRefused, refusal
from dpquery.functions import error_floors
from dpquery.functions.additive_releases import (
    ADDITIVE,
    LEVEL,
    additive_noise,
    in_type,
    reaches,
    significant,
)
from dpquery.functions.base import (
    COMMON,
    EPS,
    MAX_ROWS,
    WEIGHT,
    WEIGHTS,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Measured,
    Release,
    Takes,
    Words,
)
from dpquery.functions.count_sum import both
from dpquery.functions.distributions.mode_top_k import cells_distance
from dpquery.functions.distributions.points_argument import Points
from dpquery.functions.error_floors import Floor
from dpquery.functions.order_statistics.base import too_many_groups
from dpquery.functions.quantize import code_of, from_code, in_rows, known_range
from dpquery.ir.expr import Compare, Comparison, Expr, Literal, Not, Scalar, Widen
from dpquery.ir.measures import CountRows, Weight
from dpquery.ir.query import Call
from dpquery.mechanisms import AdditiveNoise, TreeQuantiles
from dpquery.mechanisms.laplace import DiscreteLaplace, Reach, combined_reach, share_range
from dpquery.mechanisms.quantiles.tree import BRANCHES, POINT, noise_of_sums
from dpquery.mechanisms.randomness import Randomness

MOST_COUNTS = 1 << 18
"""Ranges of all groups together."""
SPREAD = 2
"""About 95 times in 100 what is normal lies within so many deviations."""


def _ranges(call: Call, facts: Facts, points: Sequence[Expr]) -> tuple[CountRows, ...]:
    """Return the counts of rows at or below each point and above those before, and above all.

    Raises:
        PlanRefused: DPQ405 too many groups.
    """
    most = MOST_COUNTS // (len(points) + 1)
    if facts.cells > most:
        label, why = f"{facts.cells:,} groups", f"each group has {len(points) + 1} counts."
        raise too_many_groups(call, f"{most:,} groups", label, why)
    weight = facts.weight(call)
    conditions = [
        points[0],
        *(both(_above(low), high) for low, high in pairwise(points)),
        _above(points[-1]),
    ]
    return tuple(CountRows(weight, both(one, call.condition)) for one in conditions)


def _above(point: Expr) -> Expr:
    """Write that a row has a value above a point; one without a value is not above it."""
    return Not(point.span, point)


def _equal_parts(call: Call) -> tuple[Expr, ...]:
    """Return the ends of so many parts of equal width between the bounds, but the last.

    Raises:
        NameRefused: DPQ205 there are fewer values than parts.
        PlanRefused: DPQ401 nobody bounds the values.
    """
    (about,), parts = call.inputs, call.number
    assert parts is not None  # noqa: S101 - the binder reads it, where there are no points
    if not known_range(about).bounded:
        raise _unbounded(call)
    code = code_of(call, origin_at_low=False)
    if code.cells < parts:
        raise _few_values(call, code.cells)
    ends = (code.low - 1 + Fraction(code.cells * part, parts) for part in range(1, parts))
    values = (_literal(floor(end), code.grid, about.expr.type, call.span) for end in ends)
    return tuple(Compare(call.span, Comparison.LE, about.expr, value) for value in values)


def _literal(place: int, grid: Fraction, type_: Type, span: Span) -> Literal:
    """Return the value of a step."""
    value: Scalar = place * grid
    if type_.kind is INTEGER.kind:
        value = int(place * grid)
    elif not type_.numeric:
        moment = from_code(place, grid, type_)
        assert isinstance(moment, date | time)  # noqa: S101 - what is ordered is a number or one
        value = moment
    return Literal(span, value, type_)


def _unbounded(call: Call) -> QueryRefused:
    return refusal(
        "DPQ401",
        f"{call.function} of a number of bins needs bounds",
        call.inputs[0].asked,
        "nobody states between which values they lie",
        "where bins end is known before the data is read: from bounds, or as a list.",
        f"{call.function}({call.written}, [0, 100, 200], eps=0.5)",
    )


def _few_values(call: Call, cells: int) -> QueryRefused:
    remedy = f"{call.function}({call.written}, {max(2, cells)}, eps=0.5)"
    return refusal(
        "DPQ205",
        f"{call.function} has more bins than there are values",
        call.span,
        f"there are {cells:,}",
        "a bin without any value between the bounds would count nothing but noise.",
        remedy if cells > 1 else f"DP_COUNT({call.written}, eps=0.5)",
    )


def _end(point: Expr) -> Scalar:
    """Return what values are compared with."""
    assert isinstance(point, Compare)  # noqa: S101 - the binder and `_equal_parts` make these
    end = point.right.operand if isinstance(point.right, Widen) else point.right
    assert isinstance(end, Literal)  # noqa: S101
    return end.value


def numbers_of(points: Sequence[Expr]) -> tuple[Fraction, ...]:
    """Return the points of what is a number."""
    ends = map(_end, points)
    return tuple(Fraction(end) for end in ends if isinstance(end, int | Fraction))


def _shown(point: Expr) -> str:
    """Write a point as a value."""
    value = _end(point)
    return decimal_text(value) if isinstance(value, Fraction) else value_text(value)


# DP_HISTOGRAM: each count with noise of its own. What is shown is the nearest list without
# negatives that has the same total.


def nearest_counts(noisy: Sequence[Fraction]) -> list[Fraction]:
    """Return the nearest counts, none below zero, with the same total; none, if that is below.

    The same is taken from each, but those that it would bring below zero are zero.

    >>> [int(one) for one in nearest_counts([Fraction(5), Fraction(-2), Fraction(3)])]
    [4, 0, 2]
    """
    total = max(sum(noisy, Fraction(0)), Fraction(0))
    taken, held = Fraction(0), Fraction(0)
    for number, one in enumerate(sorted(noisy, reverse=True), 1):
        held += one
        if one - (held - total) / number > 0:
            taken = (held - total) / number
    return [max(one - taken, Fraction(0)) for one in noisy] if total else [total] * len(noisy)


@dataclass(frozen=True, slots=True)
class HistogramRelease(Release):
    """The counts of ranges, one list per group."""

    mechanism: AdditiveNoise
    points: tuple[str, ...]
    """Where all ranges but the last end."""

    has_interval: ClassVar[bool] = True

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[tuple[int, ...]]:
        """Draw the noisy weights of each group."""
        groups = list(zip(*(exact.values(one) for one in self.measures), strict=True))
        noisy = self.mechanism.release([one for group in groups for one in group], randomness)
        size = len(self.measures)
        return (tuple(noisy[start : start + size]) for start in range(0, len(noisy), size))

    def value(self, drawn: Sequence[int]) -> list[Any]:
        """Return the counts."""
        unit = Fraction(1, self.measure.weight.scale)
        return [
            in_type(one * unit, INTEGER) for one in nearest_counts(list(map(Fraction, drawn)))
        ]

    def interval(
        self, drawn: Sequence[int], confidence: Fraction
    ) -> tuple[list[int], list[int]]:
        """Return the counts that the noise of each does not rule out, and none below zero."""
        scale, ends = self.measure.weight.scale, []
        for shown, noisy in zip(self.value(drawn), drawn, strict=True):
            low, high = self.mechanism.interval(noisy, confidence)
            ends.append((min(shown, max(0, low // scale)), max(shown, -(-high // scale))))
        lows, highs = zip(*ends, strict=True)
        return list(lows), list(highs)

    @property
    def floor(self) -> Floor | None:
        """Compare one count with the least noise of it, as of a count by itself."""
        measure, noise = self.measures[0], self.mechanism
        if noise.norm != 1 or not reaches(measure, self.distance):
            return None
        scale = measure.weight.scale
        least = error_floors.in_steps_of_noise(self.epsilon) * Fraction(self.distance, scale)
        least = Fraction(ceil(least)) if measure.weight.plain else least
        _, high = noise.interval(0, LEVEL)
        return error_floors.floor(least, Fraction(high, scale))

    @property
    def note(self) -> str:
        """Say where ranges end."""
        return f"{self.function} counts {_stretches(self.points)}"

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        weight = self.measure.weight
        _, high = self.mechanism.interval(0, LEVEL)
        return Words(
            f"{in_rows(weight, Fraction(self.distance))}, all counts",
            f"{in_rows(weight, self.mechanism.scale_shown)}, in each count",
            f"± {decimal_text(Fraction(high, weight.scale), 4)} in each count",
        )


def _stretches(points: Sequence[str]) -> str:
    """Write what is counted, the inner points left out where there are many."""
    shown = points if len(points) <= 8 else [*points[:3], "...", *points[-3:]]
    return (
        f"values up to and with each of {', '.join(shown)}, above the one before, and the rest"
    )


def _plan_histogram(call: Call, facts: Facts) -> HistogramRelease:
    points = call.points or _equal_parts(call)
    measures = _ranges(call, facts, points)
    weight = measures[0].weight
    l1 = cells_distance(weight, facts.neighbours)
    l2 = cells_l2(weight, facts.neighbours)
    noise = additive_noise(call, l1, l2)
    distance = l1 if noise.norm == 1 else l2
    type_ = replace(INTEGER, listed=True)
    shown = tuple(map(_shown, points))
    return HistogramRelease(call.function, measures, distance, noise, type_, shown)


def cells_l2(weight: Weight, neighbours: Neighbours) -> int | Fraction:
    """Return how far one unit moves the counts of cells in L2 norm."""
    replaced = neighbours is Neighbours.SUBSTITUTE
    return weight.total * root_above(2) if replaced else weight.total


HISTOGRAM = DPFunction(
    name="DP_HISTOGRAM",
    summary="How many rows have a value up to each edge and above the one before, and how many "
    "above the last, as a list; or how many in each of so many bins between the bounds.",
    positional=(
        Expression(Takes.ORDERED),
        Points("bins", "bins", "[20, 40, 60]", counted=True),
    ),
    gives=Gives.COUNTS,
    parameters=COMMON,
    mechanisms=ADDITIVE,
    plan=_plan_histogram,
    example="SELECT DP_HISTOGRAM(age, [30, 40, 50], eps=0.5) AS ages FROM staff",
)


# DP_CDF: the share of rows at or below each point, from a tree of the counts: it is made to
# agree and to rise (`TreeQuantiles`).


@dataclass(frozen=True, slots=True)
class CdfRelease(Release):
    """The shares of rows at or below points, one list per group."""

    mechanism: TreeQuantiles
    points: tuple[str, ...]

    has_interval: ClassVar[bool] = True

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[tuple[int, ...]]:
        """Draw the weight at or below each point, and that of all rows, of each group."""
        tree = self.mechanism
        for leaves in zip(*(exact.values(one) for one in self.measures), strict=True):
            yield tuple(tree.sums(tree.noisy(tree.levels(leaves), randomness))[1:])

    def value(self, drawn: Sequence[int]) -> list[float]:
        """Return the shares; those of points that are spread evenly, where no rows are left."""
        *below, total = drawn
        if not total:
            return [(place + 1) / len(drawn) for place in range(len(below))]
        return [float(Fraction(one, total)) for one in below]

    def interval(
        self, drawn: Sequence[int], confidence: Fraction
    ) -> tuple[list[float], list[float]]:
        """Return the shares that noise does not rule out, alike to both sides but cut.

        The weight below a point, less a share of all, is linear in the nodes of the tree.
        """
        if not 0 < confidence < 1:
            raise ValueError("a confidence lies between 0 and 1")
        noise, spread = DiscreteLaplace(self.mechanism.scale), float(self.mechanism.scale)
        reach = combined_reach(noise, spread, float(1 - confidence))
        *of_points, of_all = noise_of_sums(tuple(self.mechanism.sizes))
        *below, total = (float(one) / (1 << POINT) for one in drawn)
        ends = []
        for shown, part, parts in zip(self.value(drawn), below, of_points, strict=True):
            low, high = ratio_range(part, total, parts, of_all, reach)
            margin = max(shown - low, high - shown)
            ends.append((max(0.0, shown - margin), min(1.0, shown + margin)))
        lows, highs = zip(*ends, strict=True)
        return list(lows), list(highs)

    @property
    def note(self) -> str:
        """Say what the shares are of."""
        return f"{self.function} gives shares of the rows that have a value"

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows.

        A share is off most in the middle: by the noise of a quarter of a level's nodes under
        one node, at the root of their sum of squares.
        """
        weight, tree = self.measure.weight, self.mechanism
        nodes = sum(min(size, BRANCHES) for size in tree.sizes) / 4
        off = Fraction(SPREAD * sqrt(2 * nodes)) * tree.scale / weight.scale / 1000
        return Words(
            f"{in_rows(weight, Fraction(self.distance))}, in each level of a tree",
            f"{in_rows(weight, tree.scale)}, in each node",
            f"about ± {significant(min(off, Fraction(1)))} over 1,000 rows, less at the ends",
        )


def ratio_range(
    part: float, total: float, parts: Sequence[float], of_all: Sequence[float], reach: Reach
) -> tuple[float, float]:
    """Return the shares of a total, of which the noises are known as parts of others."""

    def far(share: float) -> float:
        return reach([one - share * other for one, other in zip(parts, of_all, strict=True)])

    return share_range(part, total, far, (0.0, 1.0))


def _plan_cdf(call: Call, facts: Facts) -> CdfRelease:
    measures = _ranges(call, facts, call.points)
    distance = cells_distance(measures[0].weight, facts.neighbours)
    tree = TreeQuantiles.calibrated(
        (Fraction(1, 2),), len(measures), distance, call.options.epsilon
    )
    type_, shown = replace(DOUBLE, listed=True), tuple(map(_shown, call.points))
    return CdfRelease(call.function, measures, distance, tree, type_, shown)


CDF = DPFunction(
    name="DP_CDF",
    summary="The share of rows with a value at or below each of some points, as a list.",
    positional=(Expression(Takes.ORDERED), Points("at", "points", "[20, 40, 60]")),
    gives=Gives.NUMBERS,
    parameters=(EPS, MAX_ROWS, WEIGHTS, WEIGHT),
    mechanisms=(TreeQuantiles.name,),
    plan=_plan_cdf,
    example="SELECT DP_CDF(age, at=[30, 40, 50], eps=0.5) AS shares FROM staff",
)
