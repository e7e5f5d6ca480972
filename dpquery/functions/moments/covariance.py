"""DP_COVAR_POP: how two expressions vary together, from Bernstein sums of degree 1 in each.

With codes j in 0..J and k in 0..K, the sums s00, s10, s01, s11 of (J - j)(K - k), j (K - k), (J
- j) k and j k are nonnegative and add up to J K for every row that has both values. So one unit
moves the four together by at most its weight times J K in L1 norm, and by twice that where it
is replaced: each gets noise for the whole epsilon (`mean_variance.py`). With their total T, the
mean of j/J is (s10 + s11) / T, that of k/K is (s01 + s11) / T and that of the product s11 / T,
so the covariance of both is (s00 s11 - s10 s01) / T^2. No sum is negative, so it lies between
-1/4 and 1/4, as that of any shares does. T over J K is the number of rows, by which that of a
sample is corrected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import ClassVar

from dpquery.functions.additive_releases import ADDITIVE, double
from dpquery.functions.base import COMMON, DPFunction, Expression, Takes
from dpquery.functions.moments.mean_variance import Basis, Shape, at_most, bernstein, middle_of
from dpquery.mechanisms.laplace import Reach, share_range

CORNERS = tuple((j, i) for i, j in product((0, 1), repeat=2))
"""Where each sum's polynomial is 1 and the others are 0: both shares, in the order of sums."""


@dataclass(frozen=True, slots=True)
class Covariance:
    """The mean product of the distances from both means, times both ranges of values."""

    degrees: ClassVar[tuple[int, ...]] = (1, 1)

    sample: bool = False

    def value(self, sums: Sequence[Fraction], basis: Basis) -> float:
        """Return the covariance from the sums."""
        s00, s10, s01, s11 = sums
        total = sum(sums, Fraction(0))
        share = (s00 * s11 - s10 * s01) / total**2
        return double(basis.width * share * self._more(total / basis.row))

    def error(self, share: Fraction, basis: Basis, times: str = "", of: str = "rows") -> str:
        """A row in a corner of the bounds moves it by as much as both ranges allow."""
        return at_most(share * basis.width, times, of)

    def range(
        self, sums: Sequence[float], reach: Callable[[float], Reach], basis: Basis
    ) -> tuple[float, float]:
        """Return the range of covariances that noise does not rule out.

        About the means (a, b), a row at (x, y) has (x - a)(y - b), which is linear in the sums.
        By how far both means are off this changes as their product does, which is far below
        the noise: so those of the noisy sums are taken as they are.
        """
        total, far = sum(sums), reach(1)
        a, b = (middle_of(self._part(sums, axis), total) for axis in (0, 1))
        products = [(x - a) * (y - b) for x, y in CORNERS]
        part = sum(one * size for one, size in zip(products, sums, strict=True))
        low, high = share_range(
            part, total, lambda v: far([one - v for one in products]), (-0.25, 0.25)
        )
        count = Fraction(max(total, 0.0)) / basis.row
        times = double(basis.width * self._more(count))
        return low * times, high * times

    def possible(self, basis: Basis) -> tuple[float, float]:
        """Return the covariances of values that are at their bounds together, or apart."""
        most = double(basis.width / 4 * self._more(Fraction(0)))
        return -most, most

    def _more(self, count: Fraction) -> Fraction:
        """Return what corrects for a sample's size, never by more than a sample of two."""
        if not self.sample:
            return Fraction(1)
        return count / (count - 1) if count > 2 else Fraction(2)

    @staticmethod
    def _part(sums: Sequence[float], axis: int) -> float:
        """Return what all rows have of one share."""
        return sum(corner[axis] * size for corner, size in zip(CORNERS, sums, strict=True))


BOTH = (Expression(Takes.NUMBER, "y"), Expression(Takes.NUMBER, "x"))
"""What functions of two expressions are asked about, in the order of SQL."""


def of_pairs(name: str, summary: str, shape: Shape, alias: str) -> DPFunction:
    """Return a function of what two expressions have together."""
    return DPFunction(
        name=name,
        summary=summary,
        positional=BOTH,
        parameters=COMMON,
        mechanisms=ADDITIVE,
        plan=lambda call, facts: bernstein(call, facts, shape),
        example=f"SELECT {name}(salary, age, eps=0.5) AS {alias} FROM staff",
    )


COVAR_POP = of_pairs(
    "DP_COVAR_POP",
    "The population covariance of two expressions, each clamped to its bounds.",
    Covariance(),
    "together",
)
COVAR_SAMP = of_pairs(
    "DP_COVAR_SAMP",
    "The sample covariance of two expressions, each clamped to its bounds.",
    Covariance(sample=True),
    "together",
)
