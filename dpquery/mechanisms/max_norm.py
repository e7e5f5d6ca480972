"""Noise for values that one unit moves all at once: about two fifths of what Laplace noise is.

It is the K-norm mechanism (Hardt, Talwar 2010) of the cube, on integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import index
from statistics import NormalDist
from typing import ClassVar

from dpquery.core.privacy_loss import Loss, root_above
from dpquery.mechanisms.base import Distance, PureEvent
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken
from dpquery.mechanisms.samplers import FEW, geometric, geometric_many

HALVINGS = 60
"""A share of the radius is known to a part in 2^60 of the first guess at it."""
PARTS = 16
"""How finely the share of the largest of several terms is told."""
RADII = 96
MARGIN = Fraction(1, 10**9)
"""Far above the relative error of the functions used, and outwards."""


@dataclass(frozen=True, slots=True)
class MaxNorm(PureEvent):
    """Adds noise to lists of integers: uniform in a cube whose size is drawn.

    Claim:
        Exact values come in lists of `size`. If those of two inputs differ by d_1, d_2, ... in
        maximum norm, list by list, their outputs are ((d_1 + d_2 + ...) / scale,
        0)-indistinguishable.

    Assumes:
        The exact values are integers; d bounds the sum, over the lists, of the largest |a_i -
        b_i| in each; the integers of `Randomness` are uniform and independent; scale and size
        do not depend on the exact values, and scale >= size.

    Proof:
        With D = size, a radius R from 0 on is drawn in proportion to (2 R + 1)^D exp(-R /
        scale), then z uniformly from the (2 R + 1)^D lists of integers from -R to R. So P[z] is
        proportional to the sum of exp(-R / scale) over all R >= max |z_i|, which is exp(-max
        |z_i| / scale) times a constant. By the triangle inequality of the maximum norm the
        ratio at any output is at most exp(d_j / scale) for each list j; lists have noise of
        their own, so the exponents add up.

    Sampling:
        Exact: integers and uniform bits only. The sum R of D + 1 geometric variates has
        probability in proportion to (R + 1) ... (R + D) exp(-R / scale). It is kept with
        probability (2 R + 1)^D / ((2 R + 2) (2 R + 4) ... (2 R + 2 D)): D uniform integers
        decide, one for each factor. With scale >= size more than half are kept. The time taken
        depends on the noise and never on the exact values.

    Rounding:
        The scale is a Fraction and the loss exact; no step leaves exactness. `interval` takes
        the law of R for continuous, and is rounded outwards by a unit.

    Utility:
        Each value has variance (D + 1) (D + 2) scale^2 / 3, about. Laplace noise for the same
        claim, of values that all move by as much, has 2 D^2 scale^2: 1.9 times the deviation at
        D = 5, and 2.4 times for large D. Values of a list are not independent, and are not
        correlated: where one is far off, so are others, to either side.

    Checked:
        test_max_norm.py: the law by enumeration, the sampler against it, intervals
    """

    scale: Fraction
    size: int
    """How many values are moved together."""

    name: ClassVar[str] = "max_norm"
    weight_linear: ClassVar[bool] = True
    share_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.size < 1 or self.scale < self.size:
            raise ValueError("a scale is no less than the number of values, above zero")

    @classmethod
    def calibrated(cls, sensitivity: Distance, epsilon: Fraction, size: int) -> MaxNorm:
        """Return the noise of lists that loses exactly epsilon at a distance above zero."""
        return cls(Fraction(sensitivity) / epsilon, size)

    @property
    def scale_shown(self) -> Fraction:
        """The standard deviation of each value, rounded up."""
        return root_above(self.scale**2 * Fraction((self.size + 1) * (self.size + 2), 3))

    def loss(self, distance: Distance) -> Loss:
        """Return distance / scale, which is attained."""
        return Loss(Fraction(distance) / self.scale)

    def release(self, exact: Sequence[int], randomness: Randomness) -> list[int]:
        """Add fresh noise to each list of exact values; they stand one after another."""
        if len(exact) % self.size:
            raise ValueError("values come in lists of one size")
        noisy = list[int]()
        for start in range(0, len(exact), self.size):
            radius = self._radius(randomness)
            noisy += (
                index(value) + randomness.below(2 * radius + 1) - radius
                for value in exact[start : start + self.size]
            )
        return noisy

    def _radius(self, randomness: Randomness) -> int:
        t, s = self.scale.as_integer_ratio()
        count = self.size + 1
        for _ in range(ROUNDS):
            if count <= FEW:
                radius = sum(geometric(t, s, randomness) for _ in range(count))
            else:
                radius = sum(geometric_many(t, s, count, randomness).tolist())
            ends = (2 * radius + 2 * place for place in range(1, count))
            if all(randomness.below(end) <= 2 * radius for end in ends):
                return radius
        raise broken()

    def interval(self, noisy: int, confidence: Fraction) -> tuple[int, int]:
        """Return a symmetric range that holds one exact value as often as stated."""
        width = _half_width(self.scale, self.size, confidence)
        return noisy - width, noisy + width

    def combined_reach(self, coefficients: Sequence[float], missed: float) -> float:
        """Return r with P[|sum of c_i noise_i| > r] <= missed, about, for values of one list.

        Given the radius, the largest term is taken for uniform, as it is, and the others
        together for normal.
        """
        whole = math.hypot(*coefficients)
        share = PARTS * max(map(abs, coefficients)) / whole if whole else 0.0
        parts = {int(share), min(int(share) + 1, PARTS)}
        return whole * float(self.scale) * max(_combined(self.size, missed, p) for p in parts)

    def log_weight(self, noise: Sequence[int]) -> float:
        """Return the logarithm of the probability of a list's noise, but for a constant."""
        return -float(max(map(abs, noise)) / self.scale)


@lru_cache(maxsize=1024)
def _half_width(scale: Fraction, size: int, confidence: Fraction) -> int:
    """Return m with P[|noise| > m] <= 1 - confidence for one of the values.

    With x = (m + 1/2) / scale and a continuous R that is exp(-x) times the sum over k < D of
    (1 - k / D) x^k / k!, which falls as x grows.
    """
    if not 0 < confidence < 1:
        raise ValueError("a confidence lies between 0 and 1")
    missed = float(1 - confidence)
    low, high = 0.0, 2.0 * size + 60
    while _farther(high, size) > missed:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _farther(middle, size) > missed else (low, middle)
    return math.ceil(Fraction(high) * scale * (1 + MARGIN)) + 1


def _farther(x: float, size: int) -> float:
    logs = (k * math.log(x) - math.lgamma(k + 1) - x if k else -x for k in range(size))
    return math.fsum((1 - k / size) * math.exp(log) for k, log in enumerate(logs))


@lru_cache(maxsize=1024)
def _combined(size: int, missed: float, part: int) -> float:
    """Return how far noise of scale 1 goes along a line of length 1, by its largest part."""
    far = size + 1 + 12 * math.sqrt(size + 1) + 20
    radii = [far * (place + 1) / RADII for place in range(RADII)]
    logs = [size * math.log(radius) - radius for radius in radii]
    weights = [math.exp(log - max(logs)) for log in logs]
    largest = part / PARTS
    rest = math.sqrt((1 - largest**2) / 3)
    low, high = 0.0, 10 * far
    for _ in range(HALVINGS // 2):
        middle = (low + high) / 2
        pairs = zip(weights, radii, strict=True)
        beyond = math.fsum(w * _outside(middle / radius, largest, rest) for w, radius in pairs)
        low, high = (middle, high) if beyond > missed * sum(weights) else (low, middle)
    return high


def _outside(end: float, width: float, deviation: float) -> float:
    """Return how often a uniform variate and a normal one add up to more than an end."""
    if not deviation:
        return max(0.0, 1 - end / width)
    law = NormalDist(0, deviation)
    if not width:
        return 2 * law.cdf(-end)
    variance = deviation**2
    sums = [x * law.cdf(x) + variance * law.pdf(x) for x in (width - end, -width - end)]
    return (sums[0] - sums[1]) / width
