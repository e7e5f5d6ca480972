"""DP_QUANTILE of a list: several values of one column, drawn together at one charge.

Sensitivity: one unit has a total weight of at most limit * scale in the histograms of all
groups together, so it moves them by that in L1 norm, and by twice that where it is replaced.
The mechanisms here lose in proportion to how far the histogram moves: one charge covers the
list, and all groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.events import Event
from dpquery.functions.base import Facts, Measured, Step
from dpquery.functions.codes import from_code
from dpquery.functions.noise import LEVEL
from dpquery.functions.ranked import (
    Asked,
    bins_for,
    grid_of,
    most_weight,
    refuse_many,
    unfit_mechanism,
    weight_for,
)
from dpquery.ir import Call, Histogram, Measure, Weight
from dpquery.mechanisms import RecursiveQuantiles
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import decimal_text
from dpquery.sensitivity import sensitivity
from dpquery.types import Type

__all__ = ["OF_LISTS", "plan_list"]

OF_LISTS = ("recursive",)
"""The mechanisms that answer a list."""


@dataclass(frozen=True, slots=True)
class QuantilesCell:
    """A released list; noise alone says in ranks, not in values, how far off it is."""

    codes: tuple[int, ...]
    release: QuantilesRelease

    @property
    def value(self) -> list[object]:
        """The values on the column's own grid, in the order that was asked for."""
        code, element = self.release.measure.code, replace(self.release.type, listed=False)
        return [from_code(cell + code.origin, code.grid, element) for cell in self.codes]

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return self.release.mechanism.name

    def interval(self, confidence: Fraction) -> None:
        """Give nothing: between which values the exact quantiles lie is up to the data."""


@dataclass(frozen=True, slots=True)
class QuantilesRelease:
    """One list of quantiles per group."""

    function: str
    measure: Histogram
    distance: int
    mechanism: RecursiveQuantiles
    orders: tuple[Fraction, ...]
    """As they were asked for; the mechanism has each once, and rising."""
    type: Type
    why: str

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One histogram."""
        return (self.measure,)

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.mechanism.event(self.distance)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[QuantilesCell]:
        """Draw one list per group."""
        return [
            self._drawn(Asked(exact, self.measure, g), randomness) for g in range(exact.groups)
        ]

    def _drawn(self, histogram: Asked, randomness: Randomness) -> QuantilesCell:
        drawn = self.mechanism.release(histogram, randomness)
        of_order = dict(zip(self.mechanism.orders, drawn, strict=True))
        return QuantilesCell(tuple(of_order[order] for order in self.orders), self)

    def rows_off(self, confidence: Fraction) -> Fraction:
        """Give a bound on the error of every value in rows of full weight."""
        return Fraction(self.mechanism.rank_interval(confidence), self.measure.weight.scale)

    def step(self) -> Step:
        """Describe the release in rows."""
        scale = self.measure.weight.scale
        widths = sorted(1 / (draw.rate * scale) for draw in self.mechanism.plan)
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(self.distance).epsilon,
            sensitivity=f"{decimal_text(Fraction(self.distance, scale), 4)} in weight of rows",
            noise_scale=(
                f"{decimal_text(widths[0], 4)} to {decimal_text(widths[-1], 4)} in ranks"
            ),
            expected_error=f"at most {round(self.rows_off(LEVEL))} ranks each",
            weight=self.measure.weight,
            why=self.why,
        )


def plan_list(call: Call, orders: tuple[Fraction, ...], facts: Facts) -> QuantilesRelease:
    """Plan the release of a list.

    Raises:
        NameRefused: DPQ205 a mechanism that answers one quantile.
        PlanRefused: DPQ401 no bounds, DPQ404 too fine a grid, DPQ405 too many groups.
    """
    if call.options.mechanism not in (None, *OF_LISTS):
        raise unfit_mechanism(call, "of a list", OF_LISTS, "one quantile")
    code, rising = grid_of(call), tuple(sorted(set(orders)))
    refuse_many(call, facts.cells, len(rising))
    weight = weight_for(call, facts, _denominator(rising, code.cells))
    measure = Histogram(weight, code, call.condition)
    distance = sensitivity(measure, facts.neighbours, grouped=facts.grouped)
    mechanism = _recursive(rising, code.cells, weight, distance, call.options.epsilon)
    mechanism = replace(mechanism, bins=min(mechanism.bins, bins_for(facts.cells)))
    listed = replace(code.expr.type, listed=True)
    why = "" if call.options.mechanism else _why(len(rising))
    return QuantilesRelease(call.function, measure, distance, mechanism, orders, listed, why)


def _recursive(
    orders: tuple[Fraction, ...], cells: int, weight: Weight, distance: int, epsilon: Fraction
) -> RecursiveQuantiles:
    return RecursiveQuantiles.calibrated(orders, cells, most_weight(weight), distance, epsilon)


def _denominator(orders: tuple[Fraction, ...], cells: int) -> int:
    """Give the largest denominator of an order within its part."""
    plan = RecursiveQuantiles(orders, cells, Fraction(1), 0).plan
    return max(draw.order.denominator for draw in plan)


def _why(count: int) -> str:
    return f"{count} quantiles: each row is in few of their draws, by halving"
