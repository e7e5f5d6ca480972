"""DP_VAR_POP and its family: the spread of values, from Bernstein sums of degree 2.

With the sums b0, b1, b2 of (K - k)^2, 2k(K - k), k^2 and their total T, the mean of k/K is
(b1/2 + b2) / T and the mean of its square b2 / T, so all moments up to the second come from one
vector. The result is cut to what bounds allow: a quarter of their squared distance at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from dpquery.functions.base import BOUNDS, COMMON, Argument, DPFunction, Facts
from dpquery.functions.moments import Basis, BernsteinRelease, bernstein
from dpquery.functions.noise import ADDITIVE, double, significant
from dpquery.ir import Call
from dpquery.mechanisms.combined_noise import Reach, share_range

__all__ = ["STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP"]

QUARTER = Fraction(1, 4)


@dataclass(frozen=True, slots=True)
class Spread:
    """A variance or its root, of a population or of a sample."""

    sample: bool
    root: bool

    def value(self, sums: Sequence[Fraction], basis: Basis) -> float:
        """Give the variance from the sums."""
        total = sum(sums, Fraction(0))
        mean = (sums[1] / 2 + sums[2]) / total
        share = min(max(sums[2] / total - mean * mean, Fraction(0)), QUARTER)
        return self._shown(share, basis.width, total / basis.row)

    def error(self, share: Fraction, width: Fraction, times: str = "") -> str:
        """A variance goes with the square of the distance between the bounds.

        A deviation d is off by sqrt(d^2 + e) - d: most where it is zero, and less and less.
        """
        squared = share * width * width
        if not self.root:
            power = ", squared," if times else ""
            return f"± {significant(squared)}{times}{power} over 1,000 rows"
        most = significant(Fraction(sqrt(squared)))
        if times:
            return f"at most {most}{times} over 1,000 rows"
        usual = width / 4
        off = significant(Fraction(sqrt(usual**2 + squared)) - usual)
        return f"± {off} over 1,000 rows that deviate by {significant(usual)}, at most {most}"

    def range(
        self, sums: Sequence[float], reach: Callable[[float], Reach], basis: Basis
    ) -> tuple[float, float]:
        """Return the range of spreads that noise does not rule out, whatever the mean is.

        About the mean m, a row at x has (x - m)^2, which is linear in the sums; about another
        centre only their squared distance more. So little hangs on where the mean is.
        """
        total, mostly, seldom = sum(sums), reach(0.9), reach(0.05)
        means = share_range(
            sums[1] / 2 + sums[2], total, lambda m: seldom((m, 0.5 - m, 1 - m)), (0.0, 1.0)
        )
        spreads = [
            self._about(means[0] + (means[1] - means[0]) * place / 4, sums, mostly)
            for place in range(5)
        ]
        most = (total + seldom((1, 1, 1))) / float(basis.row)
        least = max(total - seldom((1, 1, 1)), 0) / float(basis.row)
        return (
            self._shown(Fraction(min(one for one, _ in spreads)), basis.width, Fraction(most)),
            self._shown(Fraction(max(one for _, one in spreads)), basis.width, Fraction(least)),
        )

    @staticmethod
    def _about(mean: float, sums: Sequence[float], reach: Reach) -> tuple[float, float]:
        """Return the range of the spread about a mean."""
        squares = (mean * mean, mean * (mean - 1), (1 - mean) ** 2)
        part = sum(size * one for size, one in zip(squares, sums, strict=True))
        return share_range(
            part, sum(sums), lambda v: reach([size - v for size in squares]), (0.0, 0.25)
        )

    def _shown(self, share: Fraction, width: Fraction, count: Fraction) -> float:
        """Correct for a sample's size, never by more than a sample of two; take the root.

        The share is of the squared width, which itself may be larger than any double.
        """
        if self.sample:
            share *= count / (count - 1) if count > 2 else 2
        return sqrt(4 * share) * float(width / 2) if self.root else double(share * width**2)


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
