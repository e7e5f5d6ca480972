"""DP_FIRST_ABOVE: the first value, in order, that more rows than a threshold have.

Sensitivity: a unit that is added or removed moves the weights of all values in one direction,
each by its own weight at most. Where it is replaced, one value may rise and another fall, with
groups or without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpquery.events import Event
from dpquery.functions.base import (
    BOUNDS,
    EPS,
    MAX_ROWS,
    MAX_ROWS_OF_TABLE,
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
from dpquery.mechanisms import AboveThreshold
from dpquery.mechanisms.randomness import Randomness
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
    rise: int
    mechanism: AboveThreshold
    type: Type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One histogram."""
        return (self.measure,)

    def event(self) -> Event:
        """State the loss at the proven moves."""
        return self.mechanism.event(self.distance, self.rise)

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
            epsilon=self.mechanism.loss(self.distance, self.rise).epsilon,
            sensitivity=in_rows(weight, self.rise),
            noise_scale=in_rows(weight, self.mechanism.count_scale),
            expected_error=f"right {-(-reach // weight.scale):,} rows beside the threshold",
            weight=weight,
        )


def _plan(call: Call, facts: Facts) -> FirstAboveRelease:
    assert call.number is not None  # noqa: S101 - the binder reads it
    code = code_of(call, origin_at_low=True)
    require_few(call, code)
    require_room(call, facts, code)
    weight = facts.cell_weight(call)
    distance, rise = threshold_moves(weight, facts, monotone=False)
    return FirstAboveRelease(
        function=call.function,
        measure=Histogram(weight, code, call.condition),
        threshold=call.number * weight.scale,
        distance=distance,
        rise=rise,
        mechanism=AboveThreshold.calibrated(distance, call.options.epsilon, rise),
        type=code.expr.type,
    )


FIRST_ABOVE = DPFunction(
    name="DP_FIRST_ABOVE",
    summary=(
        "The first value, in order, that more rows have than the threshold; NULL if none has."
    ),
    star=False,
    argument=Argument.ORDERED,
    number=Number("threshold", MAX_ROWS_OF_TABLE, 100, least=0),
    parameters=(EPS, MAX_ROWS, BOUNDS),
    mechanisms=(AboveThreshold.name,),
    plan=_plan,
    example="SELECT DP_FIRST_ABOVE(age, 20, eps=1) AS age FROM staff",
)
