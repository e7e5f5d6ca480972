"""DP_QUANTILE and DP_MEDIAN: a value of the column's own grid, drawn near the rank asked for.

Sensitivity: one unit has a total weight of at most limit * scale in the histogram, so it moves
the rank score of every cell by no more than `rank_range` says. The
exponential mechanism on that score loses twice its rate per such range; values that many rows
share are found exactly, because every cell that covers the rank scores zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpquery.errors import Diagnostic, PlanRefused
from dpquery.events import Event
from dpquery.functions.base import (
    BOUNDS,
    EPS,
    MAX_ROWS,
    MAX_ROWS_OF_TABLE,
    MECHANISM,
    Argument,
    DPFunction,
    Facts,
    Measured,
    Step,
    narrower,
)
from dpquery.functions.codes import code_of, from_code
from dpquery.functions.noise import LEVEL
from dpquery.ir import Call, Histogram, Measure, Weight
from dpquery.mechanisms import GridQuantile, rank_range
from dpquery.mechanisms.grid_quantile import LARGEST_GRID
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import Neighbours, decimal_text
from dpquery.types import Type

__all__ = ["MEDIAN", "QUANTILE"]

HALF = Fraction(1, 2)
MAX_GROUPS = 4096
MOST_BINS = 1 << 13
MOST_RANGES = 1 << 22
"""Ranges of one histogram over all groups together."""
NARROW = 2**62
"""Below this, scores are computed in 64 bits."""


@dataclass(frozen=True, slots=True)
class QuantileCell:
    """A released value; noise alone says in ranks, not in values, how far off it is."""

    code: int
    release: QuantileRelease

    @property
    def value(self) -> object:
        """The value on the column's own grid."""
        code = self.release.measure.code
        return from_code(self.code + code.origin, code.grid, self.release.type)

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return self.release.mechanism.name

    def interval(self, confidence: Fraction) -> None:
        """Give nothing: between which values the exact quantile lies is up to the data."""

    def rank_interval(self, confidence: Fraction) -> Fraction:
        """Give how many rows the value's rank is off at most, as often as stated."""
        return self.release.rows_off(confidence)


@dataclass(frozen=True, slots=True)
class QuantileRelease:
    """One quantile per group, by the exponential mechanism on a public grid."""

    function: str
    measure: Histogram
    distance: Fraction
    mechanism: GridQuantile
    type: Type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One histogram."""
        return (self.measure,)

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.mechanism.event(self.distance)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[QuantileCell]:
        """Draw one value per group."""
        return [
            QuantileCell(
                self.mechanism.release(_Asked(exact, self.measure, group), randomness), self
            )
            for group in range(exact.groups)
        ]

    def rows_off(self, confidence: Fraction) -> Fraction:
        """Give a bound on the error in rows of full weight."""
        return Fraction(self.mechanism.rank_interval(confidence), self.measure.weight.scale)

    def step(self) -> Step:
        """Describe the release in rows."""
        scale = self.measure.weight.scale
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(self.distance).epsilon,
            sensitivity=f"{decimal_text(self.distance / scale, 4)} in ranks",
            noise_scale=f"{decimal_text(1 / (self.mechanism.rate * scale), 4)} in ranks",
            expected_error=f"at most {round(self.rows_off(LEVEL))} ranks",
            weight=self.measure.weight,
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """The histogram of one group, as the mechanism asks for it."""

    exact: Measured
    measure: Histogram
    group: int

    def __call__(self, low: int, high: int, width: int, /) -> npt.NDArray[np.int64]:
        return self.exact.histogram(self.measure, self.group, low, high, width)


def _plan(call: Call, facts: Facts) -> QuantileRelease:
    order = HALF if call.order is None else call.order
    code = code_of(call, origin_at_low=True)
    if code.cells > LARGEST_GRID:
        raise _too_fine(call)
    weight = _weight(call, facts, order)
    substitution = facts.neighbours is Neighbours.SUBSTITUTE
    distance = rank_range(order, weight.total, substitution=substitution, grouped=facts.grouped)
    most = MAX_ROWS_OF_TABLE * weight.scale
    if facts.cells > MAX_GROUPS:
        raise _too_many(call, facts.cells)
    mechanism = GridQuantile.calibrated(order, code.cells, most, distance, call.options.epsilon)
    mechanism = replace(mechanism, bins=_bins(facts.cells))
    measure = Histogram(weight, code, call.condition)
    return QuantileRelease(call.function, measure, distance, mechanism, code.expr.type)


def _too_fine(call: Call) -> PlanRefused:
    return PlanRefused(
        Diagnostic(
            "DPQ404",
            f"{call.function} has too many values to draw from between these bounds",
            call.options.bounds_span or call.span,
            "more than 2^63 values",
            ("a quantile is one of the values that lie on a grid between the bounds.",),
            (narrower(call), "with fewer steps between the bounds"),
        )
    )


def _bins(groups: int) -> int:
    """Give how finely a histogram parts the grid: all groups together stay within a bound."""
    bins = MOST_BINS
    while bins * groups > MOST_RANGES:
        bins //= 2
    return bins


def _too_many(call: Call, groups: int) -> PlanRefused:
    return PlanRefused(
        Diagnostic(
            "DPQ405",
            f"{call.function} is answered for {MAX_GROUPS:,} groups at most",
            call.span,
            f"{groups:,} groups",
            ("each group of a quantile takes scans of its own.",),
            ("name fewer groups: WHERE a_column IN (1, 2)",),
        )
    )


def _weight(call: Call, facts: Facts, order: Fraction) -> Weight:
    """Give weights that leave scores in 64 bits, where the smallest scale allows it."""
    weight = facts.weight(call)
    while not weight.plain and weight.scale > 2**16:
        if order.denominator * MAX_ROWS_OF_TABLE * weight.scale < NARROW:
            break
        weight = Weight(weight.limit, weight.scale // 2)
    return weight


QUANTILE = DPFunction(
    name="DP_QUANTILE",
    summary="A value below which the given share of rows lies: 0.5 is the median.",
    star=False,
    argument=Argument.ORDERED,
    order=True,
    parameters=(EPS, MAX_ROWS, MECHANISM, BOUNDS),
    mechanisms=("quantile",),
    plan=_plan,
    example="SELECT DP_QUANTILE(salary, 0.1, eps=1) FROM staff",
)

MEDIAN = DPFunction(
    name="DP_MEDIAN",
    summary="A value below which half of the rows lie.",
    star=False,
    argument=Argument.ORDERED,
    parameters=(EPS, MAX_ROWS, MECHANISM, BOUNDS),
    mechanisms=("quantile",),
    plan=_plan,
    example="SELECT DP_MEDIAN(salary, eps=1) FROM staff",
)
