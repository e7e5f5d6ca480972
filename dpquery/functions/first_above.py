"""DP_FIRST_ABOVE: the first value, in order, that more rows than a threshold have.

Sensitivity of a noisy histogram: each row counts for one value, so a unit moves all weights of
all groups together by its own weight in L1 norm, and by twice that where it is replaced.

Of AboveThreshold: a unit that is added or removed moves the weights of all values in one
direction, each by its own weight at most. Where it is replaced, one value may rise and another
fall, with groups or without. It is the worse of the two here, where no row counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpquery.events import Event, Pure
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
    Number,
    Step,
)
from dpquery.functions.choice import (
    ValueCell,
    in_rows,
    require_few,
    require_room,
    value_of,
    weights_of,
)
from dpquery.functions.codes import code_of
from dpquery.functions.extremes import threshold_moves
from dpquery.functions.noise import LEVEL
from dpquery.ir import Call, Histogram, Measure
from dpquery.mechanisms import AboveThreshold, FirstNoisyCount
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import Loss
from dpquery.sensitivity import sensitivity
from dpquery.types import Type

__all__ = ["FIRST_ABOVE"]


@dataclass(frozen=True, slots=True)
class FirstAboveRelease:
    """One value per group, or NULL where none is above."""

    function: str
    measure: Histogram
    threshold: int
    """In units of weight."""
    distance: int
    """In L1 norm; of AboveThreshold, rise and fall together."""
    rise: int
    mechanism: FirstNoisyCount | AboveThreshold
    type: Type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One histogram."""
        return (self.measure,)

    @property
    def loss(self) -> Loss:
        """The loss at the proven moves."""
        if isinstance(self.mechanism, AboveThreshold):
            return self.mechanism.loss(self.distance, self.rise)
        return self.mechanism.loss(self.distance)

    def event(self) -> Event:
        """State the loss at the proven moves."""
        return Pure(self.loss.epsilon)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[ValueCell]:
        """Draw one value per group."""
        return [self._drawn(exact, group, randomness) for group in range(exact.groups)]

    def _drawn(self, exact: Measured, group: int, randomness: Randomness) -> ValueCell:
        weights = weights_of(exact, self.measure, group)
        place = self.mechanism.release(weights, self.threshold, randomness)
        value = None if place is None else value_of(self.measure.code, place)
        return ValueCell(value, self.mechanism.name)

    def step(self) -> Step:
        """Describe the release in rows."""
        weight = self.measure.weight
        reach = self.mechanism.reach(self.measure.code.cells, LEVEL)
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.loss.epsilon,
            sensitivity=in_rows(weight, self.rise),
            noise_scale=in_rows(weight, self.mechanism.scale),
            expected_error=f"right {-(-reach // weight.scale):,} rows beside the threshold",
            weight=weight,
        )


def _plan(call: Call, facts: Facts) -> FirstAboveRelease:
    assert call.number is not None  # noqa: S101 - the binder reads it
    code = code_of(call, origin_at_low=True)
    require_few(call, code)
    require_room(call, facts, code)
    measure = Histogram(facts.cell_weight(call), code, call.condition)
    distance, rise, mechanism = _planned(call, measure, facts)
    return FirstAboveRelease(
        function=call.function,
        measure=measure,
        threshold=call.number * measure.weight.scale,
        distance=distance,
        rise=rise,
        mechanism=mechanism,
        type=code.expr.type,
    )


def _planned(
    call: Call, measure: Histogram, facts: Facts
) -> tuple[int, int, FirstNoisyCount | AboveThreshold]:
    epsilon = call.options.epsilon
    if call.options.mechanism == AboveThreshold.name:
        distance, rise = threshold_moves(measure.weight, facts, monotone=False)
        return distance, rise, AboveThreshold.calibrated(distance, epsilon, rise)
    distance = sensitivity(measure, facts.neighbours, grouped=facts.grouped)
    return distance, distance, FirstNoisyCount.calibrated(distance, epsilon)


FIRST_ABOVE = DPFunction(
    name="DP_FIRST_ABOVE",
    summary=(
        "The first value, in order, that more rows have than the threshold; NULL if none has."
    ),
    star=False,
    argument=Argument.ORDERED,
    number=Number("threshold", MAX_ROWS_OF_TABLE, 100, least=0),
    parameters=(EPS, MAX_ROWS, BOUNDS, MECHANISM),
    mechanisms=(FirstNoisyCount.name, AboveThreshold.name),
    plan=_plan,
    example="SELECT DP_FIRST_ABOVE(age, 20, eps=1) AS age FROM staff",
)
