"""Discrete Gaussian noise: for releases of many values under a budget with delta.

Release is exact; the steps from the variance to epsilon and delta are rounded against the
analyst (I8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import index
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from dpquery.core.analytic_gaussian import is_proven, least_variance
from dpquery.core.privacy_events import Concentrated, Gaussian
from dpquery.core.privacy_loss import Loss, root_above
from dpquery.core.zcdp import epsilon_above, variance_ratio
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken, collect
from dpquery.mechanisms.samplers import (
    FEW,
    Bools,
    Int64s,
    Integers,
    Variate,
    coin,
    exceeds,
    geometric_many,
    two_sided,
    two_sided_many,
)

BITS = 32
"""Binary digits of the exponential variate that decides nearly all acceptances."""
FAR = 1 << 62
"""A variate is below 2^BITS * (ROUNDS + 1)."""
SUMMED = 4096
"""Up to this variance probabilities are summed; above it integrals bound the sums."""
LEAST_REST = Fraction(1, 2**1000)
"""Intervals may miss as seldom as this: rarer is beyond the tail that doubles can hold."""
MARGIN = 1e-9
"""Far above the relative error of the functions used, and outwards."""


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Adds integer noise of Gaussian shape to integers.

    Claim:
        If two lists of exact values differ by at most d in L2 norm, their outputs are
        rho-zCDP with rho = d^2 / (2 sigma2): for every order a > 1, the Renyi divergence of
        order a is at most a rho. So they are (loss(d).epsilon, delta)-indistinguishable, and
        (epsilon, delta)-indistinguishable at the sensitivity.

    Assumes:
        The exact values are integers; d bounds the L2 norm of a - b; the integers of
        `Randomness` are uniform and independent; sigma2 > 0 does not depend on the exact
        values.

    Proof:
        P[noise = k] is proportional to exp(-k^2 / (2 sigma2)), for each value independently.
        For a shift by an integer m, completing the square gives the Renyi divergence of order
        a as a m^2 / (2 sigma2) + ln(S(a m) / S(0)) / (a - 1), where S(x) is the sum over all
        integers of exp(-(k - x)^2 / (2 sigma2)). By Poisson summation S is largest at
        integers, so the last term is at most 0. Over independent values the divergences add,
        and the squares of the shifts add up to d^2 or less. Epsilon and delta follow from rho
        by Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), section 2.3 (`core/zcdp.py`); at
        the sensitivity also from the law of normal noise of slightly less variance, of which
        this noise is made by rounding (`core/analytic_gaussian.py`).

    Sampling:
        Exact: integers and uniform bits only. Algorithm 3 of the same paper: a discrete Laplace
        proposal y of scale t = floor(sqrt(sigma2)) + 1, accepted with probability exp(-g) for
        g = (|y| - sigma2 / t)^2 / (2 sigma2). Up to FEW values one by one. More of them with
        numpy: y is accepted if an exponential variate is above g; its first 32 binary digits
        and integer bounds on g, tabled for stretches of |y|, decide nearly always, and where
        they do not, g itself and further digits do. The time taken depends on the noise and
        never on the exact values.

    Rounding:
        sigma2 and rho are exact Fractions. Epsilon is computed from rho and delta, and delta
        from sigma2 and epsilon, in decimals and upwards. `interval` is rounded outwards.

    Utility:
        Variance at most sigma2. Less error than discrete Laplace noise from ten values on
        that one unit moves together, at epsilon 1 and delta 1e-6.

    Checked:
        by the conformance suite; claim and proof reread 2026-11-20
    """

    sigma2: Fraction
    sensitivity: Fraction
    """The distance, in L2 norm, at which epsilon and delta are claimed."""
    epsilon: Fraction
    delta: Fraction
    concentrated: bool = False
    """Whether it was asked for in rho: then epsilon and delta are for reading alone."""

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[int] = 2
    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.sigma2 <= 0 or self.sensitivity <= 0:
            raise ValueError("a variance and a sensitivity are above zero")
        by_rho = epsilon_above(self.rho(self.sensitivity), self.delta) <= self.epsilon
        claimed = self.sigma2, self.sensitivity, self.epsilon, self.delta
        if not by_rho and not is_proven(*claimed):
            raise ValueError("the variance is too small for what is claimed")

    @property
    def scale_shown(self) -> Fraction:
        """The standard deviation, rounded up."""
        return root_above(self.sigma2)

    @property
    def share_linear(self) -> bool:
        """In rho, which goes with the square of the distance; not shown of a delta."""
        return self.concentrated

    @classmethod
    def calibrated(
        cls, sensitivity: Distance, epsilon: Fraction, delta: Fraction
    ) -> DiscreteGaussian:
        """Return the least noise on grids of variances that is proven (epsilon, delta)."""
        distance = Fraction(sensitivity)
        by_rho = distance**2 * variance_ratio(epsilon, delta)
        by_law = least_variance(distance, epsilon, delta)
        least = by_rho if by_law is None else min(by_rho, by_law)
        return cls(least, distance, epsilon, delta)

    @classmethod
    def of_rho(cls, sensitivity: Distance, rho: Fraction, delta: Fraction) -> DiscreteGaussian:
        """Return the noise of this rho, with the epsilon that it implies at some delta."""
        distance, epsilon = Fraction(sensitivity), epsilon_above(rho, delta)
        return cls(distance**2 / (2 * rho), distance, epsilon, delta, concentrated=True)

    def rho(self, distance: Distance) -> Fraction:
        """Return the zCDP parameter at a distance, exactly."""
        return Fraction(distance) ** 2 / (2 * self.sigma2)

    def loss(self, distance: Distance) -> Loss:
        """Give what was claimed at the sensitivity; elsewhere, what rho proves for this delta.

        It never falls as the distance grows, whatever was left unused by the claim.
        """
        if distance == 0:
            return Loss(Fraction(0))
        if distance == self.sensitivity:
            return Loss(self.epsilon, self.delta)
        proven = epsilon_above(self.rho(distance), self.delta)
        choose = min if distance < self.sensitivity else max
        return Loss(choose(proven, self.epsilon), self.delta)

    def event(self, distance: Distance) -> Gaussian | Concentrated:
        """State rho, and the loss beside it, for the ledger."""
        loss = self.loss(distance)
        kind = Concentrated if self.concentrated else Gaussian
        return kind(self.rho(distance), loss.epsilon, loss.delta)

    def release(self, exact: Sequence[int], randomness: Randomness) -> list[int]:
        """Add fresh noise to each exact value."""
        if len(exact) <= FEW:
            return [index(value) + _draw(self.sigma2, randomness) for value in exact]
        noise = _draw_many(self.sigma2, len(exact), randomness).tolist()
        return [index(value) + extra for value, extra in zip(exact, noise, strict=True)]

    def interval(self, noisy: int, confidence: Fraction) -> tuple[int, int]:
        """Return a symmetric range that holds the exact value as often as stated.

        It is the smallest one for variances up to SUMMED, and at most one integer and a part in
        10^8 wider on each side above.
        """
        width = _half_width(self.sigma2, confidence)
        return noisy - width, noisy + width

    def log_pmf(self, noise: int) -> float:
        """Return the logarithm of the probability of one noise value."""
        return -float(noise**2 / (2 * self.sigma2)) - _log_total(self.sigma2)

    def pmf(self, noise: int) -> float:
        """Return the probability of one noise value."""
        return math.exp(self.log_pmf(noise))


def _scale(sigma2: Fraction) -> int:
    return math.isqrt(sigma2 // 1) + 1


def _exponent(sigma2: Fraction) -> tuple[Callable[[int], int], int]:
    """Return numerator, by size, and denominator of g = (size - sigma2 / t)^2 / (2 sigma2)."""
    p, q, t = sigma2.numerator, sigma2.denominator, _scale(sigma2)
    return lambda size: (size * t * q - p) ** 2, 2 * p * q * t * t


def _draw(sigma2: Fraction, randomness: Randomness) -> int:
    numerator, unit = _exponent(sigma2)
    for _ in range(ROUNDS):
        noise = two_sided(_scale(sigma2), 1, randomness)
        if coin(numerator(abs(noise)), unit, randomness):
            return noise
    raise broken()


def _draw_many(sigma2: Fraction, count: int, randomness: Randomness) -> Integers:
    t = _scale(sigma2)

    def kept(missing: int) -> Integers:
        noise = two_sided_many(t, 1, missing, randomness)
        accepted: Integers = noise[_accepted(sigma2, abs(noise), randomness)]
        return accepted

    return collect(count, kept)


def _accepted(sigma2: Fraction, sizes: Integers, randomness: Randomness) -> Bools:
    """Accept each size with probability exp(-g): when an exponential variate is above g.

    Longer stretches of sizes make a shorter table and leave more of them open. With about the
    root of the count of stretches to a standard deviation, both stay near that root.
    """
    shift = max(0, _scale(sigma2).bit_length() - sizes.size.bit_length() // 2)
    stretch = (sizes >> shift).astype(np.int64)
    below, above = _bounds(sigma2, shift, int(stretch.max()) + 1)
    variate = geometric_many(1 << BITS, 1, sizes.size, randomness)
    accepted: Bools = variate >= above[stretch]
    numerator, unit = _exponent(sigma2)
    for cell in np.flatnonzero(~accepted & (variate >= below[stretch])):
        g = numerator(int(sizes[cell]))
        accepted[cell] = exceeds(Variate(int(variate[cell]), BITS), g, unit, randomness)
    return accepted


def _bounds(sigma2: Fraction, shift: int, stretches: int) -> tuple[Int64s, Int64s]:
    """Return integers around all values 2^BITS g of each stretch of 2^shift sizes.

    As a function of the size, g falls to zero and rises again: its extremes over a stretch
    are at the ends, or zero where it turns inside. Whatever lies above FAR is cut there: no
    variate does.
    """
    numerator, unit = _exponent(sigma2)
    turn = sigma2 // _scale(sigma2)
    below, above = [], []
    for first in range(0, stretches << shift, 1 << shift):
        last = first + (1 << shift) - 1
        left, right = numerator(first), numerator(last)
        least = 0 if first <= turn <= last else min(left, right)
        below.append(min(FAR, (least << BITS) // unit))
        above.append(min(FAR, -((-max(left, right) << BITS) // unit)))
    return np.array(below, dtype=np.int64), np.array(above, dtype=np.int64)


@lru_cache(maxsize=1024)
def _half_width(sigma2: Fraction, confidence: Fraction) -> int:
    """Return m with P[|noise| > m] <= 1 - confidence, rounded outwards.

    Above SUMMED the quantile of a continuous Gaussian will do. The sum of exp(-k^2 / (2
    sigma2)) over k > m is at most its integral from m, as it falls; and over all k it is at
    least its integral, by Poisson summation.
    """
    if not LEAST_REST <= 1 - confidence < 1:
        raise ValueError("a confidence lies between 0 and 1")
    rest = float(1 - confidence)
    if sigma2 > SUMMED:
        quantile = -NormalDist().inv_cdf(rest / 2) * (1 + MARGIN) + MARGIN
        return math.ceil(root_above(sigma2) * Fraction(quantile))
    width, tail = _reach(sigma2), 0.0
    while width > 0:
        tail += 2 * math.exp(-float(width**2 / (2 * sigma2)) - _log_total(sigma2))
        if tail * (1 + MARGIN) > rest:
            return width
        width -= 1
    return 0


@lru_cache(maxsize=1024)
def _log_total(sigma2: Fraction) -> float:
    """Return the logarithm of the sum of exp(-k^2 / (2 sigma2)) over all integers k.

    Above SUMMED it is the integral: by Poisson summation they differ by a factor 1 +
    exp(-80,000).
    """
    if sigma2 > SUMMED:
        log_variance = math.log(sigma2.numerator) - math.log(sigma2.denominator)
        return (math.log(2 * math.pi) + log_variance) / 2
    terms = (math.exp(-float(k * k / (2 * sigma2))) for k in range(1, _reach(sigma2)))
    return math.log1p(2 * math.fsum(terms))


def _reach(sigma2: Fraction) -> int:
    """Return a size of which a probability in double precision is zero."""
    return math.isqrt(math.ceil(1600 * sigma2)) + 1


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
        """Return the mean of one value for each variance, rounded to the nearest integer."""
        pairs = zip(noisy, self.variances, strict=True)
        parts = (value * Fraction(self.variance, one) for value, one in pairs)
        return int((sum(parts, Fraction(0)) + Fraction(1, 2)) // 1)

    def interval(self, noisy: int, confidence: Fraction) -> tuple[int, int]:
        """Give a symmetric range that holds the exact value as often as stated, or oftener."""
        width = _half_width_of_mean(self.variances, confidence)
        return noisy - width, noisy + width


@lru_cache(maxsize=1024)
def _half_width_of_mean(variances: tuple[Fraction, ...], confidence: Fraction) -> int:
    """Return m with P[|error| > m] <= 1 - confidence, by the better of both bounds."""
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
