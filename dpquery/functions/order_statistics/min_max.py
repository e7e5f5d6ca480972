"""DP_MIN and DP_MAX: a value with only a few rows beyond it, on the column's own grid.

The largest value is one person's and cannot be told. What is told is where, on the way up,
the rows above become few: the first of some public candidates with fewer than 4/epsilon rows or
so above it. Candidates lie ever farther apart: at every step of the grid at first, later
at a part in 64 to 128 of their distance from zero (from the near end, for dates).

Sensitivity: the weight above a candidate falls as candidates rise. A unit that is added or
removed moves all of these weights in one direction, by its own weight at most. Where it is
replaced and there are no groups, let its old weight above c exceed the new one by b, and its
new weight above d exceed the old one by a. If c < d, b + a is at most what its old rows weigh
between the two, and if d < c, what its new ones do: rise and fall are at most one weight
together. With groups it leaves one and enters another: a weight for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import MOMENTS, Kind
from dpquery.functions.additive_releases import LEVEL
from dpquery.functions.base import (
    BOUNDS,
    EPS,
    MAX_ROWS,
    MAX_ROWS_OF_TABLE,
    MECHANISM,
    WEIGHT,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Measured,
    Number,
    Takes,
    Words,
)
from dpquery.functions.distributions.mode_top_k import ChosenRelease, small_histogram
from dpquery.functions.error_options import CONFIDENCE, RANK_ERROR
from dpquery.functions.order_statistics.base import ValueRelease, too_many_groups
from dpquery.functions.quantize import code_of, in_rows
from dpquery.ir.expr import Code
from dpquery.ir.measures import Histogram, Weight
from dpquery.ir.query import Call
from dpquery.ir.sensitivity import sensitivity
from dpquery.mechanisms import AboveThreshold, FirstNoisyCount
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.randomness import Randomness

DIGITS = 7
"""Binary digits that tell candidates apart: more of them would let noise stop earlier."""
FINE = 13
"""The first 2^FINE cells from zero are asked for one by one."""
COARSER = 6
"""From there on, each range is 2^COARSER times as long as the one before, and as coarse."""
MAX_GROUPS = 4096
LARGEST = 1 << 63

Range = tuple[int, int, int]
"""The first code, the one after the last, and the width between candidates."""


@dataclass(frozen=True, slots=True)
class ExtremeRelease(ValueRelease):
    """One value per group, by AboveThreshold over public candidates."""

    mechanism: AboveThreshold
    rise: int
    ranges: tuple[Range, ...]
    zero: int
    """From where the distances between candidates grow."""
    upwards: bool

    @property
    def moves(self) -> tuple[Distance, ...]:
        """Rise and fall together, and the rise."""
        return self.distance, self.rise

    @property
    def few(self) -> int:
        """From how much weight beyond a candidate on it is too much: none is little enough."""
        return max(1, int(2 * self.mechanism.count_scale))

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[int]:
        """Walk towards the end of each group, up to the first candidate that will do."""
        for group in range(exact.groups):
            candidates, weights = self.asked(exact, group)
            beyond, counts = sum(weights), []
            for weight in weights[:-1]:
                beyond -= weight
                counts.append(-beyond)
            place = self.mechanism.release(counts, -self.few, randomness)
            yield candidates[-1 if place is None else place]

    def asked(self, exact: Measured, group: int) -> tuple[list[int], list[int]]:
        """Return the candidates on the way, each with the weight since the one before."""
        asked = (exact.histogram(self.measure, group, *one) for one in self.ranges)
        cells = np.concatenate([np.asarray(weights) for weights in asked])
        candidates, starts = steps(self.ranges, self.zero, upwards=self.upwards)
        weights = np.add.reduceat(cells if self.upwards else cells[::-1], starts)
        return list(candidates), [int(weight) for weight in weights.tolist()]

    def ranks_off(self, confidence: Fraction, *, any_data: bool = False) -> Fraction:
        """Return a bound on the weight beyond a value, in rows of full weight.

        How far away in value these rows are is up to the data.
        """
        count = len(steps(self.ranges, self.zero, upwards=self.upwards)[0])
        beyond = self.few + self.mechanism.reach(count, confidence)
        return Fraction(beyond, self.measure.weight.scale)

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        weight = self.measure.weight
        return Words(
            in_rows(weight, self.rise),
            in_rows(weight, self.mechanism.count_scale),
            f"at most {ceil(self.ranks_off(LEVEL)):,} rows beyond it",
        )


def threshold_moves(weight: Weight, facts: Facts, *, monotone: bool) -> tuple[int, int]:
    """Return rise and fall together, and the rise, of weights in all groups together.

    Args:
        weight: how rows are weighed.
        facts: what is public where the call stands.
        monotone: whether one unit's weights fall from place to place, as those above do.
    """
    replaced = facts.neighbours is Neighbours.SUBSTITUTE
    both_ways = replaced and (facts.grouped or not monotone)
    return weight.total * (2 if both_ways else 1), weight.total


def ranges(cells: int, zero: int) -> Iterator[Range]:
    """Part a grid into ranges that get longer and coarser away from a cell.

    >>> list(ranges(10_000, 0))
    [(0, 8192, 1), (8192, 10000, 64)]
    >>> list(ranges(10_000, 100))
    [(0, 100, 1), (100, 8292, 1), (8292, 10000, 64)]
    """
    if cells <= 1 << FINE:
        yield 0, cells, 1
        return
    for low, high, width in reversed(list(_outwards(zero))):
        yield zero - high, zero - low, width
    for low, high, width in _outwards(cells - zero):
        yield zero + low, zero + high, width


@lru_cache(maxsize=256)
def steps(
    asked: tuple[Range, ...], zero: int, *, upwards: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the candidates on the way, and from which asked cell on each one's weight counts.

    A candidate is the last cell before the distance from zero, in 7 binary digits, changes.
    """
    cells = [
        (s, min(s + width, high) - 1)
        for low, high, width in asked
        for s in range(low, high, width)
    ]
    ends = [last for _, last in cells] if upwards else [first for first, _ in reversed(cells)]
    places = [_place(end - zero) for end in ends]
    last = [i for i in range(len(ends)) if i + 1 == len(ends) or places[i] != places[i + 1]]
    return tuple(ends[i] for i in last), (0, *(i + 1 for i in last[:-1]))


def _place(distance: int) -> tuple[bool, int, int]:
    coarse = max(0, distance.bit_length() - DIGITS)
    return distance < 0, coarse, abs(distance) >> coarse


def _outwards(cells: int) -> Iterator[Range]:
    low, end, width = 0, 1 << FINE, 1
    while low < cells:
        yield low, min(end, cells), width
        low, end, width = end, end << COARSER, width << COARSER


def _zero(code: Code, *, upwards: bool) -> int:
    """Return the cell from which distances count: that of zero, or of moments the near end."""
    if code.expr.type.kind in {Kind.TIME, *MOMENTS}:
        return code.cells if upwards else 0
    return min(max(-code.low, 0), code.cells)


def _plan(call: Call, facts: Facts, *, upwards: bool) -> ExtremeRelease:
    code = code_of(call, origin_at_low=True)
    if facts.cells > MAX_GROUPS or code.cells > LARGEST:
        most, label = f"{MAX_GROUPS:,} groups and 2^63 values", f"{facts.cells:,} groups"
        raise too_many_groups(call, most, label, "each group takes scans of its own.")
    weight = facts.cell_weight(call)
    distance, rise = threshold_moves(weight, facts, monotone=True)
    zero = _zero(code, upwards=upwards)
    return ExtremeRelease(
        call.function,
        (Histogram(weight, code, call.condition),),
        distance,
        AboveThreshold.calibrated(distance, call.options.epsilon, rise),
        code.expr.type,
        rise,
        tuple(ranges(code.cells, zero)),
        zero,
        upwards,
    )


MAX = DPFunction(
    name="DP_MAX",
    summary=(
        "A high quantile in the place of the largest value, which is one person's: "
        "about 4/eps rows lie above it, and few more."
    ),
    positional=(Expression(Takes.ORDERED),),
    gives=Gives.VALUE,
    parameters=(EPS, RANK_ERROR, CONFIDENCE, MAX_ROWS, BOUNDS, WEIGHT),
    mechanisms=(AboveThreshold.name,),
    plan=lambda call, facts: _plan(call, facts, upwards=True),
    example="SELECT DP_MAX(age, eps=0.5) AS oldest FROM staff",
)

MIN = replace(
    MAX,
    name="DP_MIN",
    summary=(
        "A low quantile in the place of the smallest value, which is one person's: "
        "about 4/eps rows lie below it, and few more."
    ),
    plan=lambda call, facts: _plan(call, facts, upwards=False),
    example="SELECT DP_MIN(age, eps=0.5) AS youngest FROM staff",
)


# DP_FIRST_ABOVE: the first value, in order, that more rows than a threshold have.
#
# Sensitivity of a noisy histogram: each row counts for one value, so a unit moves all
# weights of all groups together by its own weight in L1 norm, and by twice that where it is
# replaced.
#
# Of AboveThreshold: a unit that is added or removed moves the weights of all values in one
# direction, each by its own weight at most. Where it is replaced, one value may rise and
# another fall, with groups or without. It is the worse of the two here, where no row counts
# twice.


@dataclass(frozen=True, slots=True)
class FirstAboveRelease(ChosenRelease):
    """One value per group, or NULL where none is above."""

    mechanism: FirstNoisyCount | AboveThreshold
    rise: int
    threshold: int
    """In units of weight."""

    @property
    def moves(self) -> tuple[Distance, ...]:
        """The L1 norm; of AboveThreshold, rise and fall together, and the rise."""
        above = isinstance(self.mechanism, AboveThreshold)
        return (self.distance, self.rise) if above else (self.distance,)

    def chosen(self, weights: list[int], randomness: Randomness) -> int | None:
        """Choose the first that is above."""
        return self.mechanism.release(weights, self.threshold, randomness)

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        weight, reach = self.measure.weight, self.mechanism.reach(self.code.cells, LEVEL)
        return Words(
            in_rows(weight, self.rise),
            in_rows(weight, self.mechanism.scale),
            f"right {self.rows(reach)} beside the threshold",
        )


def _plan_first_above(call: Call, facts: Facts) -> FirstAboveRelease:
    assert call.number is not None  # noqa: S101 - the binder reads it
    measure = small_histogram(call, facts, code_of(call, origin_at_low=True))
    weight, epsilon = measure.weight, call.options.epsilon
    mechanism: FirstNoisyCount | AboveThreshold
    if call.options.mechanism == AboveThreshold.name:
        distance, rise = threshold_moves(weight, facts, monotone=False)
        mechanism = AboveThreshold.calibrated(distance, epsilon, rise)
    else:
        distance = rise = sensitivity(measure, facts.neighbours, grouped=facts.grouped)
        mechanism = FirstNoisyCount.calibrated(distance, epsilon)
    type_, threshold = measure.code.expr.type, call.number * weight.scale
    return FirstAboveRelease(
        call.function, (measure,), distance, mechanism, type_, rise, threshold
    )


FIRST_ABOVE = DPFunction(
    name="DP_FIRST_ABOVE",
    summary=(
        "The first value, in order, that more rows have than the threshold; NULL if none has."
    ),
    positional=(
        Expression(Takes.ORDERED),
        Number("threshold", "rows", MAX_ROWS_OF_TABLE, "100", least=0),
    ),
    gives=Gives.VALUE,
    parameters=(EPS, MAX_ROWS, BOUNDS, MECHANISM, WEIGHT),
    mechanisms=(FirstNoisyCount.name, AboveThreshold.name),
    plan=_plan_first_above,
    example="SELECT DP_FIRST_ABOVE(age, 20, eps=1) AS age FROM staff",
)
