"""DP_AVG and DP_PROPORTION: a pair of sums, and their share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.functions.base import BOUNDS, COMMON, Argument, DPFunction, Facts, Release
from dpquery.functions.chosen_mean import CHOSEN, chosen_mean
from dpquery.functions.moments import Box, bernstein
from dpquery.functions.noise import ADDITIVE
from dpquery.ir import Call

__all__ = ["AVG", "PROPORTION"]


@dataclass(frozen=True, slots=True)
class Mean:
    """low + width * share, where the share is that of the second sum."""

    def value(
        self, sums: Sequence[Fraction], width: Fraction, low: Fraction, rows: Fraction
    ) -> float:
        """Give the mean."""
        below, above = sums
        return float(low + width * above / (below + above))

    def unit(self, width: Fraction) -> tuple[str, Fraction]:
        """A mean runs from bound to bound."""
        return "", width

    def range(
        self, box: Box, width: Fraction, low: Fraction, rows: Fraction
    ) -> tuple[float, float]:
        """Give the means at two corners: the share rises with one sum, falls with the other."""
        (below0, below1), (above0, above1) = box
        least = above0 / (above0 + below1) if above0 + below1 else Fraction(0)
        most = above1 / (above1 + below0) if above1 + below0 else Fraction(1)
        return float(low + width * least), float(low + width * most)


def _plan(call: Call, facts: Facts) -> Release:
    if call.options.mechanism in CHOSEN:
        return chosen_mean(call, facts)
    return bernstein(call, facts, Mean(), 1)


AVG = DPFunction(
    name="DP_AVG",
    summary="The mean of the argument, clamped to its bounds.",
    star=False,
    argument=Argument.NUMBER,
    parameters=(*COMMON, BOUNDS),
    mechanisms=(*ADDITIVE, *CHOSEN),
    plan=_plan,
    aliases=("DP_MEAN",),
    example="SELECT DP_AVG(salary, eps=0.5) AS pay FROM staff",
)

PROPORTION = DPFunction(
    name="DP_PROPORTION",
    summary="The share of rows for which a condition is true, where it is not NULL.",
    star=False,
    argument=Argument.CONDITION,
    parameters=COMMON,
    mechanisms=(*ADDITIVE, *CHOSEN),
    plan=_plan,
    example="SELECT DP_PROPORTION(remote, eps=0.5) AS share FROM staff",
)
