"""DP_TOP_K: the values that most rows have, the most frequent first, as a list.

Sensitivity of a noisy histogram: each row counts for one value, so a unit moves all weights of
all groups together by its own weight in L1 norm, and by twice that where it is replaced.

Of one round of exponential noise: see `choice.py` for the weights. Whoever of two neighbours is
looked at first, what rises does so by one unit's weight at most, for each of the k places, and
what falls does so by one unit's weight together: where a unit is added, k times its weight and
nothing; where it is removed, once its weight; where it is replaced, both. Groups share the
weight, and so add up to the same. For one place that noise errs least, for more the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpquery.errors import Diagnostic, NameRefused
from dpquery.events import Event
from dpquery.functions.base import (
    EPS,
    MAX_ROWS,
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
    listed_code,
    require_room,
    value_of,
    weights_of,
)
from dpquery.functions.noise import LEVEL
from dpquery.ir import Call, Code, Histogram, Measure, Weight
from dpquery.mechanisms import LargestNoisyCounts, NoisyTop
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import Neighbours
from dpquery.sensitivity import sensitivity
from dpquery.types import Type

__all__ = ["TOP_K", "TopRelease"]

MOST = 100


@dataclass(frozen=True, slots=True)
class TopRelease:
    """One list of values per group."""

    function: str
    measure: Histogram
    distance: int
    mechanism: LargestNoisyCounts | NoisyTop
    type: Type
    why: str

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One histogram."""
        return (self.measure,)

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.mechanism.event(self.distance)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[ValueCell]:
        """Draw one list per group."""
        return [self._drawn(exact, group, randomness) for group in range(exact.groups)]

    def _drawn(self, exact: Measured, group: int, randomness: Randomness) -> ValueCell:
        weights = weights_of(exact, self.measure, group)
        places = self.mechanism.release(weights, randomness)
        values = [value_of(self.measure.code, place) for place in places]
        return ValueCell(values, self.mechanism.name)

    def step(self) -> Step:
        """Describe the release in rows."""
        weight, one_shot = self.measure.weight, isinstance(self.mechanism, NoisyTop)
        lacking = self.mechanism.shortfall(self.measure.code.cells, LEVEL)
        moved = in_rows(weight, self.distance)
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(self.distance).epsilon,
            sensitivity=f"{moved}, all {'places' if one_shot else 'values'}",
            noise_scale=in_rows(weight, self.mechanism.scale),
            expected_error=f"at most {-(-lacking // weight.scale):,} rows fewer in each place",
            weight=weight,
            why=self.why,
        )


def top_distance(weight: Weight, size: int, neighbours: Neighbours) -> int:
    """Give how far noise has to move so that the same list comes first, over all groups."""
    return weight.total * (size + (neighbours is Neighbours.SUBSTITUTE))


def _plan(call: Call, facts: Facts) -> TopRelease:
    assert call.number is not None  # noqa: S101 - the binder reads it
    code = listed_code(call)
    require_room(call, facts, code)
    if call.number > code.cells:
        raise _more_than_there_are(call, code)
    measure = Histogram(facts.cell_weight(call), code, call.condition)
    name, why = _chosen(call, call.number)
    distance, mechanism = _planned(name, call, measure, facts)
    type_ = replace(code.expr.type, listed=True)
    return TopRelease(call.function, measure, distance, mechanism, type_, why)


def _chosen(call: Call, size: int) -> tuple[str, str]:
    """Choose a mechanism by the number of values alone, and say why."""
    if call.options.mechanism is not None:
        return call.options.mechanism, ""
    if size == 1:
        return NoisyTop.name, "one value: its noise goes one way only"
    return LargestNoisyCounts.name, f"{size} values: it costs the same for any number of them"


def _planned(
    name: str, call: Call, measure: Histogram, facts: Facts
) -> tuple[int, LargestNoisyCounts | NoisyTop]:
    epsilon, size = call.options.epsilon, call.number or 1
    if name == NoisyTop.name:
        distance = top_distance(measure.weight, size, facts.neighbours)
        return distance, NoisyTop.calibrated(distance, epsilon, size)
    distance = sensitivity(measure, facts.neighbours, grouped=facts.grouped)
    return distance, LargestNoisyCounts.calibrated(distance, epsilon, size)


def _more_than_there_are(call: Call, code: Code) -> NameRefused:
    return NameRefused(
        Diagnostic(
            "DPQ205",
            f"{call.function} is asked for more values than there are",
            call.span,
            f"there are {code.cells:,}",
            ("every place of the list is one of the column's public values.",),
            (f"{call.function}({call.written}, {code.cells}, eps=0.5)",),
        )
    )


TOP_K = DPFunction(
    name="DP_TOP_K",
    summary="The k values that most rows have, among the column's public values, as a list.",
    star=False,
    argument=Argument.LISTED,
    number=Number("number of values", MOST, 2),
    parameters=(EPS, MAX_ROWS, MECHANISM),
    mechanisms=(LargestNoisyCounts.name, NoisyTop.name),
    plan=_plan,
    example="SELECT DP_TOP_K(dept, 2, eps=0.5) AS largest FROM staff",
)
