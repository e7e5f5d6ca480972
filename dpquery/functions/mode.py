"""DP_MODE: the value that most rows have, among the public values of a column.

Sensitivity: see `choice.py`. A value that nobody has can be shown, where few rows have any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpquery.events import Event
from dpquery.functions.base import (
    EPS,
    MAX_ROWS,
    MECHANISM,
    Argument,
    DPFunction,
    Facts,
    Measured,
    Step,
)
from dpquery.functions.choice import (
    ValueCell,
    cells_distance,
    in_rows,
    listed_code,
    require_room,
    value_of,
    weights_of,
)
from dpquery.functions.noise import LEVEL
from dpquery.ir import Call, Histogram, Measure
from dpquery.mechanisms import FiniteExponential, PermuteAndFlip
from dpquery.mechanisms.randomness import Randomness
from dpquery.types import Type

__all__ = ["MODE"]


@dataclass(frozen=True, slots=True)
class ModeRelease:
    """One of the values per group."""

    function: str
    measure: Histogram
    distance: int
    mechanism: PermuteAndFlip | FiniteExponential
    type: Type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One histogram."""
        return (self.measure,)

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.mechanism.event(self.distance)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[ValueCell]:
        """Draw one value per group."""
        places = [
            self.mechanism.release(weights_of(exact, self.measure, group), randomness)
            for group in range(exact.groups)
        ]
        code, name = self.measure.code, self.mechanism.name
        return [ValueCell(value_of(code, place), name) for place in places]

    def step(self) -> Step:
        """Describe the release in rows."""
        weight = self.measure.weight
        lacking = self.mechanism.shortfall(self.measure.code.cells, LEVEL)
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(self.distance).epsilon,
            sensitivity=in_rows(weight, self.distance),
            noise_scale=in_rows(weight, 1 / self.mechanism.rate),
            expected_error=f"at most {-(-lacking // weight.scale):,} rows fewer than the mode",
            weight=weight,
        )


def _plan(call: Call, facts: Facts) -> ModeRelease:
    code = listed_code(call)
    require_room(call, facts, code)
    measure = Histogram(facts.cell_weight(call), code, call.condition)
    distance = cells_distance(measure.weight, facts.neighbours)
    exponential = call.options.mechanism == FiniteExponential.name
    kind = FiniteExponential if exponential else PermuteAndFlip
    mechanism = kind.calibrated(distance, call.options.epsilon)
    return ModeRelease(call.function, measure, distance, mechanism, code.expr.type)


MODE = DPFunction(
    name="DP_MODE",
    summary="The value that most rows have, among the column's public values.",
    star=False,
    argument=Argument.LISTED,
    parameters=(EPS, MAX_ROWS, MECHANISM),
    mechanisms=(PermuteAndFlip.name, FiniteExponential.name),
    plan=_plan,
    example="SELECT DP_MODE(dept, eps=0.5) AS largest FROM staff",
)
