"""Means and shares by an exponential mechanism, for those who want to compare.

Sensitivity: the mechanisms state their loss for whole rows, of which a unit has one here. A
unit that is added, removed or replaced changes one row; neither the number of rows nor their
sum need be known. With groups a replaced unit would change a row of each of two, and parts of
rows are not in the claim: both are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.errors import Diagnostic, PlanRefused
from dpquery.events import Event
from dpquery.functions.base import Facts, Measured, Step, without_option
from dpquery.functions.choice import ValueCell
from dpquery.functions.codes import code_of
from dpquery.functions.conditions import both, present
from dpquery.functions.noise import LEVEL, needless, significant
from dpquery.ir import Call, CountRows, Measure, SumCodes, Weight
from dpquery.mechanisms import MeanExponential, MeanInverseSensitivity
from dpquery.mechanisms.certified import tail_bound
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import decimal_text
from dpquery.types import DOUBLE, Type

__all__ = ["CHOSEN", "ChosenMeanRelease", "chosen_mean"]

CHOSEN: dict[str, type[MeanExponential | MeanInverseSensitivity]] = {
    "exponential": MeanExponential,
    "inverse_sensitivity": MeanInverseSensitivity,
}
ROWS = 1
"""How many rows a unit changes."""


@dataclass(frozen=True, slots=True)
class ChosenMeanRelease:
    """One mean, on a fine public grid between its bounds."""

    function: str
    rows: CountRows
    sum: SumCodes
    mechanism: MeanExponential | MeanInverseSensitivity
    low: Fraction
    width: Fraction

    @property
    def type(self) -> Type:
        """A mean is a double."""
        return DOUBLE

    @property
    def measures(self) -> tuple[Measure, ...]:
        """How many values there are, and their sum."""
        return (self.rows, self.sum)

    def event(self) -> Event:
        """State the loss of the rows that a unit changes."""
        return self.mechanism.event(ROWS)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[ValueCell]:
        """Draw the mean."""
        (rows,), (total,) = (exact.values(measure) for measure in self.measures)
        tick = self.mechanism.release(total, rows, max(self.sum.code.size, 1), randomness)
        share = Fraction(tick, self.mechanism.ticks)
        return [ValueCell(float(self.low + self.width * share), self.mechanism.name)]

    @property
    def share(self) -> Fraction:
        """How many rows the noise is as much as, 95 times in 100."""
        return Fraction(tail_bound(1, self.mechanism.rate, LEVEL))

    def step(self) -> Step:
        """Describe the release in rows."""
        error = self.share * self.width / 1000
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(ROWS).epsilon,
            sensitivity="1 in rows",
            noise_scale=f"{decimal_text(1 / self.mechanism.rate, 4)} in rows",
            expected_error=f"± {significant(error)} over 1,000 rows",
            weight=self.rows.weight,
        )


def chosen_mean(call: Call, facts: Facts) -> ChosenMeanRelease:
    """Plan a mean that is chosen.

    Raises:
        PlanRefused: DPQ403 a delta is of no use, DPQ404 there are groups, or units with several
            rows.
    """
    options = call.options
    kind = CHOSEN[str(options.mechanism)]
    if options.delta is not None:
        raise needless(call, options.delta_span)
    if facts.grouped or facts.weighted:
        raise _whole_rows(call, grouped=facts.grouped)
    code = code_of(call, origin_at_low=True)
    rows = CountRows(Weight(), both(present(code.expr), call.condition))
    total = SumCodes(Weight(), code, 1, call.condition)
    mechanism = kind.calibrated(ROWS, options.epsilon)
    low, width = code.low * code.grid, (code.high - code.low) * code.grid
    return ChosenMeanRelease(call.function, rows, total, mechanism, low, width)


def _whole_rows(call: Call, *, grouped: bool) -> PlanRefused:
    why = "the loss of this mechanism is proven for one row per unit, without groups;"
    return PlanRefused(
        Diagnostic(
            "DPQ404",
            f"{call.function} with mechanism='{call.options.mechanism}' is of whole rows",
            call.options.mechanism_span,
            "there are groups" if grouped else "a unit may have several rows",
            (why, "that of Laplace noise holds everywhere, and it is more exact."),
            (without_option(call, call.options.mechanism_span),),
        )
    )
