"""DP_AVG and DP_PROPORTION: a pair of sums, and their share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.functions.base import BOUNDS, COMMON, Argument, DPFunction, Facts, Release
from dpquery.functions.chosen_mean import CHOSEN, chosen_mean
from dpquery.functions.moments import Basis, bernstein
from dpquery.functions.noise import ADDITIVE, significant
from dpquery.ir import Call
from dpquery.mechanisms.combined_noise import Reach, share_range

__all__ = ["AVG", "PROPORTION"]


@dataclass(frozen=True, slots=True)
class Mean:
    """low + width * share, where the share is that of the second sum."""

    def value(self, sums: Sequence[Fraction], basis: Basis) -> float:
        """Give the mean."""
        below, above = sums
        return float(basis.low + basis.width * above / (below + above))

    def error(self, share: Fraction, width: Fraction, times: str = "") -> str:
        """A mean runs from bound to bound."""
        return f"± {significant(share * width)}{times} over 1,000 rows"

    def range(
        self, sums: Sequence[float], reach: Callable[[float], Reach], basis: Basis
    ) -> tuple[float, float]:
        """Return the means for which above - share (below + above) is within reach of zero."""
        (below, above), far = sums, reach(1)
        ends = share_range(above, below + above, lambda s: far((s, 1 - s)), (0.0, 1.0))
        least, most = (float(basis.low) + float(basis.width) * end for end in ends)
        return least, most


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
