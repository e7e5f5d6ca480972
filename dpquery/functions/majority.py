"""DP_MAJORITY: whether a condition is true for more rows than it is false for.

Sensitivity: the weight of the rows where it is true, less that of the rows where it is false,
moves by at most limit * scale where a unit is added or removed, and by twice that where it is
replaced (its rows may turn), with groups or without. Where every row counts 1 and there are no
groups, a vote that turns is one whole step of 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpquery.events import Event
from dpquery.functions.base import EPS, MAX_ROWS, Argument, DPFunction, Facts, Measured, Step
from dpquery.functions.choice import ValueCell, cells_distance, in_rows
from dpquery.functions.conditions import both
from dpquery.functions.noise import LEVEL
from dpquery.ir import Call, CountRows, Measure, Not
from dpquery.mechanisms import DiscreteLaplace, Majority
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import Neighbours
from dpquery.types import BOOLEAN, Kind, Type

__all__ = ["MAJORITY"]


@dataclass(frozen=True, slots=True)
class MajorityRelease:
    """One answer per group."""

    function: str
    measures: tuple[Measure, ...]
    """The rows where it is true, and those where it is false."""
    distance: int
    mechanism: Majority

    @property
    def type(self) -> Type:
        """True or false."""
        return BOOLEAN

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.mechanism.event(self.distance)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[ValueCell]:
        """Draw one answer per group."""
        sides = zip(*(exact.values(measure) for measure in self.measures), strict=True)
        answers = [self.mechanism.release(yes - no, randomness) for yes, no in sides]
        return [ValueCell(answer, self.mechanism.name) for answer in answers]

    def step(self) -> Step:
        """Describe the release in rows."""
        weight, spread = self.measures[0].weight, self.mechanism.step * self.mechanism.scale
        _, margin = DiscreteLaplace(spread).interval(0, 2 * LEVEL - 1)
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(self.distance).epsilon,
            sensitivity=in_rows(weight, self.distance),
            noise_scale=in_rows(weight, spread),
            expected_error=f"right where they differ by {-(-margin // weight.scale):,} rows",
            weight=weight,
        )


def _plan(call: Call, facts: Facts) -> MajorityRelease:
    condition = call.argument
    assert condition is not None  # noqa: S101 - the binder refuses a star here
    weight = facts.weight(call)
    sides = (condition, Not(condition.span, condition))
    measures = tuple(CountRows(weight, both(side, call.condition)) for side in sides)
    distance = cells_distance(weight, facts.neighbours)
    turns = facts.neighbours is Neighbours.SUBSTITUTE and weight.plain and not facts.grouped
    step = 2 if turns else 1
    mechanism = Majority.calibrated(distance, call.options.epsilon, step=step)
    return MajorityRelease(call.function, measures, distance, mechanism)


MAJORITY = DPFunction(
    name="DP_MAJORITY",
    summary="Whether a condition is true for more rows than it is false for.",
    star=False,
    argument=Argument.CONDITION,
    parameters=(EPS, MAX_ROWS),
    mechanisms=(Majority.name,),
    plan=_plan,
    releases=Kind.BOOLEAN,
    example="SELECT DP_MAJORITY(remote, eps=0.5) AS mostly_remote FROM staff",
)
