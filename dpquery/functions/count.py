"""DP_COUNT: how many rows, or how many rows where a value is present.

Sensitivity: a unit's rows have a total weight of at most limit * scale (`calculus.md` 3), and
each row is counted with its weight or not at all, so adding, removing or replacing one unit
moves the weighted count by at most that much. The noise is scaled to it; dividing by the scale
afterwards is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpquery.events import Event
from dpquery.functions.base import COMMON, DPFunction, Facts, Measured, Step
from dpquery.functions.noise import ADDITIVE, additive_noise, spread
from dpquery.ir import Call, CountRows, Expr, IsNull, Logic, Measure, Not
from dpquery.mechanisms import AdditiveNoise
from dpquery.mechanisms.randomness import Randomness
from dpquery.sensitivity import sensitivity
from dpquery.types import INT64, INTEGER, Type

__all__ = ["COUNT"]

LEVEL = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class CountCell:
    """A noisy count of rows."""

    value: int
    noisy: int
    scale: int
    noise: AdditiveNoise

    @property
    def mechanism(self) -> str:
        """The name of the noise."""
        return self.noise.name

    def interval(self, confidence: Fraction) -> tuple[int, int]:
        """Give whole numbers, as far below as above, between which the weighted count lies."""
        low, high = self.noise.interval(self.noisy, confidence)
        margin = max(self.value - low // self.scale, -(-high // self.scale) - self.value)
        return _within(self.value - margin), _within(self.value + margin)


@dataclass(frozen=True, slots=True)
class CountRelease:
    """A weighted count with integer noise, divided by the scale of the weights."""

    function: str
    measure: CountRows
    distance: int
    noise: AdditiveNoise

    @property
    def type(self) -> Type:
        """Counts are integers."""
        return INTEGER

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One weighted count."""
        return (self.measure,)

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.noise.event(self.distance)

    def run(self, exact: Measured, randomness: Randomness) -> list[CountCell]:
        """Draw one noisy count per group."""
        noisy = self.noise.release(exact.values(self.measure), randomness)
        return [
            CountCell(self._rows(value), value, self.measure.weight.scale, self.noise)
            for value in noisy
        ]

    def _rows(self, noisy: int) -> int:
        return _within(round(Fraction(noisy, self.measure.weight.scale)))

    def step(self, column: str) -> Step:
        """Describe the release in rows."""
        weight = self.measure.weight
        _, high = self.noise.interval(0, LEVEL)
        return Step(
            column,
            self.function,
            self.noise.name,
            Fraction(self.distance, weight.scale),
            spread(self.noise) / weight.scale,
            -(-high // weight.scale),
            weight,
        )


def _within(rows: int) -> int:
    """Cut to BIGINT: noise has no end, columns have."""
    return max(INT64[0], min(INT64[1], rows))


def _present(argument: Expr | None, condition: Expr | None) -> Expr | None:
    """Write `argument IS NOT NULL AND condition`, leaving out what is not there."""
    parts: list[Expr] = [] if condition is None else [condition]
    if argument is not None:
        parts.insert(0, Not(argument.span, IsNull(argument.span, argument)))
    if len(parts) < 2:
        return parts[0] if parts else None
    return Logic(parts[0].span | parts[1].span, True, tuple(parts))


def _plan(call: Call, facts: Facts) -> CountRelease:
    weight = facts.weight(call.options.max_rows_contributed)
    measure = CountRows(weight, _present(call.argument, call.condition))
    distance = sensitivity(measure)
    return CountRelease(call.function, measure, distance, additive_noise(call, distance))


COUNT = DPFunction(
    name="DP_COUNT",
    summary="The number of rows, or of rows where the argument is not NULL.",
    star=True,
    parameters=COMMON,
    mechanisms=ADDITIVE,
    plan=_plan,
    example="SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE age >= 40",
)
