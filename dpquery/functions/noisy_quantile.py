"""DP_QUANTILE with additive noise: for teaching, since the noise spans the range of all values.

Sensitivity: one unit can move a quantile from one bound to the other, however little it weighs.
So the loss is not in proportion to a unit's weight, and one charge does not cover groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.errors import Diagnostic, PlanRefused
from dpquery.events import Event
from dpquery.functions.base import Facts, Measured, Step
from dpquery.functions.codes import from_code
from dpquery.functions.noise import LEVEL, additive_noise, spread
from dpquery.functions.ranked import Asked, grid_of, most_weight, weight_for
from dpquery.ir import Call, Histogram, Measure
from dpquery.mechanisms import NoisyQuantile
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import decimal_text
from dpquery.types import Type

__all__ = ["OF_TEACHING", "plan_noisy"]

OF_TEACHING = ("laplace", "gaussian")
"""Mechanisms that add noise to the quantile itself."""


@dataclass(frozen=True, slots=True)
class NoisyQuantileCell:
    """A released value."""

    code: int
    release: NoisyQuantileRelease

    @property
    def value(self) -> object:
        """The value on the column's own grid."""
        return self._shown(self.code)

    @property
    def mechanism(self) -> str:
        """The name of the noise."""
        return self.release.mechanism.noise.name

    def interval(self, confidence: Fraction) -> tuple[object, object]:
        """Give a range of the column's values that holds the exact one so often."""
        low, high = self.release.mechanism.noise.interval(self.code, confidence)
        return self._shown(max(low, 0)), self._shown(
            min(high, self.release.mechanism.cells - 1)
        )

    def _shown(self, cell: int) -> object:
        code = self.release.measure.code
        return from_code(cell + code.origin, code.grid, self.release.type)


@dataclass(frozen=True, slots=True)
class NoisyQuantileRelease:
    """One quantile, with additive noise."""

    function: str
    measure: Histogram
    mechanism: NoisyQuantile
    type: Type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One histogram."""
        return (self.measure,)

    def event(self) -> Event:
        """State the loss between any two quantiles."""
        return self.mechanism.event()

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[NoisyQuantileCell]:
        """Draw the value."""
        return [
            NoisyQuantileCell(
                self.mechanism.release(Asked(exact, self.measure, group), randomness), self
            )
            for group in range(exact.groups)
        ]

    def step(self) -> Step:
        """Describe the release in units of the value."""
        grid, noise = self.measure.code.grid, self.mechanism.noise
        _, high = noise.interval(0, LEVEL)
        return Step(
            function=self.function,
            mechanism=noise.name,
            epsilon=self.mechanism.loss().epsilon,
            sensitivity=decimal_text(self.mechanism.sensitivity * grid, 4),
            noise_scale=decimal_text(spread(noise) * grid, 4),
            expected_error=f"± {decimal_text(high * grid, 4)}",
            weight=self.measure.weight,
        )

    @property
    def note(self) -> str:
        """Say that there is something better."""
        return (
            f"{self.function} with mechanism='{self.mechanism.noise.name}' is for teaching: "
            "its noise spans the range of all values; the default is far nearer"
        )


def plan_noisy(call: Call, order: Fraction, facts: Facts) -> NoisyQuantileRelease:
    """Plan the release of one quantile with additive noise.

    Raises:
        PlanRefused: DPQ401 no bounds, DPQ403 a delta that is missing, DPQ404 groups.
    """
    if facts.grouped:
        raise PlanRefused(
            Diagnostic(
                "DPQ404",
                f"{call.function} with mechanism={call.options.mechanism!r} has no groups",
                call.options.mechanism_span,
                "answered without GROUP BY",
                ("one person can be in several groups, and move each quantile all the way.",),
                ("mechanism='quantile'",),
            )
        )
    code, weight = grid_of(call), weight_for(call, facts, order.denominator)
    farthest = max(1, code.cells - 1)
    noise = additive_noise(call, farthest, farthest)
    mechanism = NoisyQuantile(order, code.cells, noise, most_weight(weight))
    measure = Histogram(weight, code, call.condition)
    return NoisyQuantileRelease(call.function, measure, mechanism, code.expr.type)
