"""DP_COVAR_POP: how two expressions vary together, from Bernstein sums of degree 1 in each.

With codes j in 0..J and k in 0..K, the sums s00, s10, s01, s11 of (J - j)(K - k), j (K - k),
(J - j) k and j k are nonnegative and add up to J K for every row that has both values. So one
unit moves the four together by at most its weight times J K in L1 norm, and by twice that where
it is replaced: each gets noise for the whole epsilon (`moments.py`). With their total T, the
mean of j/J is (s10 + s11) / T, that of k/K is (s01 + s11) / T and that of the product s11 / T,
so the covariance of both is (s00 s11 - s10 s01) / T^2. No sum is negative, so it lies between
-1/4 and 1/4, as that of any shares does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import ClassVar

from dpquery.functions.additive import ADDITIVE, double, significant
from dpquery.functions.base import COMMON, DPFunction, Expression, Takes
from dpquery.functions.moments import Basis, bernstein
from dpquery.mechanisms.laplace import Reach, share_range

CORNERS = tuple((j, i) for i, j in product((0, 1), repeat=2))
"""Where each sum's polynomial is 1 and the others are 0: both shares, in the order of sums."""


@dataclass(frozen=True, slots=True)
class Covariance:
    """The mean product of the distances from both means, times both ranges of values."""

    degrees: ClassVar[tuple[int, ...]] = (1, 1)

    def value(self, sums: Sequence[Fraction], basis: Basis) -> float:
        """Return the covariance from the sums."""
        s00, s10, s01, s11 = sums
        return double(basis.width * (s00 * s11 - s10 * s01) / sum(sums, Fraction(0)) ** 2)

    def error(self, share: Fraction, width: Fraction, times: str = "", of: str = "rows") -> str:
        """A row in a corner of the bounds moves it by as much as both ranges allow."""
        return f"± {significant(share * width)}{times} over 1,000 {of}"

    def range(
        self, sums: Sequence[float], reach: Callable[[float], Reach], basis: Basis
    ) -> tuple[float, float]:
        """Return the range of covariances that noise does not rule out, whatever the means are.

        About the means (a, b), a row at (x, y) has (x - a)(y - b), which is linear in the sums;
        about other centres it is more or less by the product of what they are beside: most so
        in a corner of the range of means.
        """
        total, mostly, seldom = sum(sums), reach(0.9), reach(0.05)
        means = [self._mean(sums, total, axis, seldom) for axis in (0, 1)]
        ends = [self._about(corner, sums, mostly) for corner in product(*means)]
        width = double(basis.width)
        return width * min(low for low, _ in ends), width * max(high for _, high in ends)

    def possible(self, basis: Basis) -> tuple[float, float]:
        """Return the covariances of values that are at their bounds together, or apart."""
        most = double(basis.width / 4)
        return -most, most

    @staticmethod
    def _mean(
        sums: Sequence[float], total: float, axis: int, reach: Reach
    ) -> tuple[float, float]:
        """Return the range of the mean of one share."""
        ones = [corner[axis] for corner in CORNERS]
        part = sum(one * size for one, size in zip(ones, sums, strict=True))
        return share_range(part, total, lambda m: reach([one - m for one in ones]), (0.0, 1.0))

    @staticmethod
    def _about(
        centre: tuple[float, ...], sums: Sequence[float], reach: Reach
    ) -> tuple[float, float]:
        """Return the range of the covariance about a centre."""
        a, b = centre
        products = [(x - a) * (y - b) for x, y in CORNERS]
        part = sum(one * size for one, size in zip(products, sums, strict=True))
        ends = (-0.25, 0.25)
        return share_range(
            part, sum(sums), lambda v: reach([one - v for one in products]), ends
        )


COVAR_POP = DPFunction(
    name="DP_COVAR_POP",
    summary="The population covariance of two expressions, each clamped to its bounds.",
    positional=(Expression(Takes.NUMBER, "y"), Expression(Takes.NUMBER, "x")),
    parameters=COMMON,
    mechanisms=ADDITIVE,
    plan=lambda call, facts: bernstein(call, facts, Covariance()),
    example="SELECT DP_COVAR_POP(salary, age, eps=0.5) AS together FROM staff",
)
