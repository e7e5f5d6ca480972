"""DP_VAR_POP and its family: the spread of values, from Bernstein sums of degree 2.

With the sums b0, b1, b2 of (K - k)^2, 2k(K - k), k^2 and their total T, the mean of k/K is
(b1/2 + b2) / T and the mean of its square b2 / T, so all moments up to the second come from one
vector. The result is cut to what bounds allow: a quarter of their squared distance at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from dpquery.functions.base import BOUNDS, COMMON, Argument, DPFunction, Facts
from dpquery.functions.moments import BernsteinRelease, Box, bernstein
from dpquery.functions.noise import ADDITIVE, double
from dpquery.ir import Call

__all__ = ["STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP"]

QUARTER = Fraction(1, 4)


@dataclass(frozen=True, slots=True)
class Spread:
    """A variance or its root, of a population or of a sample."""

    sample: bool
    root: bool

    def value(
        self, sums: Sequence[Fraction], width: Fraction, low: Fraction, rows: Fraction
    ) -> float:
        """Give the variance from the sums."""
        total = sum(sums, Fraction(0))
        mean = (sums[1] / 2 + sums[2]) / total
        share = min(max(sums[2] / total - mean * mean, Fraction(0)), QUARTER)
        return self._shown(share, width, total / rows)

    def unit(self, width: Fraction) -> tuple[str, Fraction]:
        """A variance goes with the square of the distance between the bounds."""
        return " of the variance", width * width

    def range(
        self, box: Box, width: Fraction, low: Fraction, rows: Fraction
    ) -> tuple[float, float]:
        """Give a range from the ranges of the mean and of the mean square, each exact.

        The two are taken as if they could be at their ends independently, which is on the safe
        side: the true range is narrower.
        """
        if not any(high for _, high in box):
            two = Fraction(2)
            return self._shown(Fraction(0), width, two), self._shown(QUARTER, width, two)
        square0, square1 = _share(box, (0, 0, 1))
        mean0, mean1 = _share(box, (0, Fraction(1, 2), 1))
        least = max(square0 - mean1 * mean1, Fraction(0))
        most = min(max(square1 - mean0 * mean0, Fraction(0)), QUARTER)
        total0, total1 = (sum((side[end] for side in box), Fraction(0)) for end in (0, 1))
        return (
            self._shown(least, width, total1 / rows),
            self._shown(most, width, total0 / rows),
        )

    def _shown(self, share: Fraction, width: Fraction, count: Fraction) -> float:
        """Correct for a sample's size, never by more than a sample of two; take the root.

        The share is of the squared width, which itself may be larger than any double.
        """
        if self.sample:
            share *= count / (count - 1) if count > 2 else 2
        return sqrt(4 * share) * float(width / 2) if self.root else double(share * width**2)


def _share(box: Box, values: Sequence[Fraction | int]) -> tuple[Fraction, Fraction]:
    """Give the range of a weighted mean of values 0 <= v <= 1, over all weights in a box.

    The mean is highest when each value above it has its largest weight and each one below its
    smallest; values are in rising order, so it is enough to try each place to part them.
    """
    places = range(len(box) + 1)
    highs = [_mean(box, values, [i >= place for i in range(len(box))]) for place in places]
    lows = [_mean(box, values, [i < place for i in range(len(box))]) for place in places]
    return min(lows), max(highs)


def _mean(box: Box, values: Sequence[Fraction | int], large: Sequence[bool]) -> Fraction:
    weights = [side[1] if take else side[0] for side, take in zip(box, large, strict=True)]
    total = sum(weights, Fraction(0))
    if not total:
        return Fraction(0)
    return sum((w * v for w, v in zip(weights, values, strict=True)), Fraction(0)) / total


def _function(name: str, summary: str, shape: Spread, *aliases: str) -> DPFunction:
    def plan(call: Call, facts: Facts) -> BernsteinRelease:
        return bernstein(call, facts, shape, 2)

    return DPFunction(
        name=name,
        summary=summary,
        star=False,
        argument=Argument.NUMBER,
        parameters=(*COMMON, BOUNDS),
        mechanisms=ADDITIVE,
        plan=plan,
        aliases=aliases,
        example=f"SELECT {name}(salary, eps=0.5) AS spread FROM staff",
    )


VAR_POP = _function("DP_VAR_POP", "The population variance.", Spread(sample=False, root=False))
VAR_SAMP = _function(
    "DP_VAR_SAMP", "The sample variance.", Spread(sample=True, root=False), "DP_VARIANCE"
)
STDDEV_POP = _function(
    "DP_STDDEV_POP", "The population standard deviation.", Spread(sample=False, root=True)
)
STDDEV_SAMP = _function(
    "DP_STDDEV_SAMP",
    "The sample standard deviation.",
    Spread(sample=True, root=True),
    "DP_STDDEV",
)
