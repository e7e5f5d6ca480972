"""Several values with Gaussian noise, of the same exact one, made into one: no data are seen.

It knows integers and variances, and neither what they count nor who has paid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar

from dpquery.mechanisms.discrete_gaussian import LEAST_REST, MARGIN, DiscreteGaussian
from dpquery.privacy import root_above

__all__ = ["GaussianMean"]


@dataclass(frozen=True, slots=True)
class GaussianMean:
    """Weighs values with independent `DiscreteGaussian` noise by their inverse variances.

    Claim:
        What is made of released values loses nothing more. Of those of rho_1, rho_2, ... at
        one distance the mean has the variance of one release of their sum, or less, but for
        rounding. `interval` holds the exact value as often as stated.

    Proof:
        Weights w_i are in proportion to 1 / sigma2_i and add up to 1; so w_i^2 sigma2_i add up
        to s2, the inverse of the sum of 1 / sigma2_i, and each noise has variance sigma2_i or
        less. Rounding moves the mean by half at most, so an error above m means |S| >= m +
        1/2, S being the weighted sum of the noises. There are two bounds on that:
        P[noise = k] is at most the normal density at k, for exp(-k^2 / (2 sigma2)) adds up to
        its integral or more (Poisson summation), and that density is at most exp(1 / (24
        sigma2)) times its mean over the cell from k - 1/2 to k + 1/2 (Jensen). Within the
        cells, S moves by half at most. So P[|S| >= m + 1/2] is at most the product of these
        factors times P[|G| >= m], G being normal of variance s2.
        And E exp(t noise) <= exp(t^2 sigma2 / 2), as the sum of exp(-(k - c)^2 / (2 sigma2))
        is largest for whole c; so P[|S| >= u] <= 2 exp(-u^2 / (2 s2)) for every u.

    Checked:
        test_gaussian_mean.py: intervals against sums of the exact laws
    """

    variances: tuple[Fraction, ...]

    name: ClassVar[str] = DiscreteGaussian.name

    @property
    def variance(self) -> Fraction:
        """That of the mean, but for rounding, or more."""
        return Fraction(1, sum((Fraction(1, one) for one in self.variances), Fraction(0)))

    def of(self, noisy: Sequence[int]) -> int:
        """Give the mean of one value for each variance, rounded to the nearest integer."""
        pairs = zip(noisy, self.variances, strict=True)
        parts = (value * Fraction(self.variance, one) for value, one in pairs)
        return int((sum(parts, Fraction(0)) + Fraction(1, 2)) // 1)

    def interval(self, noisy: int, confidence: Fraction) -> tuple[int, int]:
        """Give a symmetric range that holds the exact value as often as stated, or oftener."""
        width = _half_width(self.variances, confidence)
        return noisy - width, noisy + width


@lru_cache(maxsize=1024)
def _half_width(variances: tuple[Fraction, ...], confidence: Fraction) -> int:
    """Give m with P[|error| > m] <= 1 - confidence, by the better of both bounds."""
    if not LEAST_REST <= 1 - confidence < 1:
        raise ValueError("a confidence lies between 0 and 1")
    root, rest = root_above(GaussianMean(variances).variance), float(1 - confidence)
    any_tail = math.sqrt(2 * math.log(2 / rest)) * (1 + MARGIN) + MARGIN
    widths = [root * Fraction(any_tail) - Fraction(1, 2)]
    spread = float(sum((1 / (24 * one) for one in variances), Fraction(0)))
    if spread < 1:
        tail = rest / 2 * math.exp(-spread) * (1 - MARGIN)
        quantile = -NormalDist().inv_cdf(tail) * (1 + MARGIN) + MARGIN
        widths.append(root * Fraction(quantile))
    return max(0, math.ceil(min(widths)))
