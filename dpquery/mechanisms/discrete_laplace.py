"""Discrete Laplace noise: the default for counts and sums.

It knows integers and a scale, and neither what they count nor who pays. Release and loss are
exact (I8); the probabilities at the end are for tests and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from operator import index
from typing import ClassVar

from dpquery.events import Pure
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.exponential import FEW, two_sided, two_sided_many
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import Loss

__all__ = ["DiscreteLaplace"]


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Adds two-sided geometric noise to integers.

    Claim:
        If two lists of exact values differ by at most d in L1 norm, their outputs are
        (d / scale, 0)-indistinguishable: for every list y of integers,
        P[release(a) = y] <= exp(d / scale) * P[release(b) = y].

    Assumes:
        The exact values are integers; d bounds |a_1 - b_1| + |a_2 - b_2| + ...; the integers of
        `Randomness` are uniform and independent; scale > 0 does not depend on the exact values.

    Proof:
        P[noise = k] = tanh(1 / (2 scale)) * exp(-|k| / scale), for each value independently.
        The ratio at y is the product of exp((|y_i - b_i| - |y_i - a_i|) / scale), which is at
        most exp(|a_i - b_i| / scale) each, by the triangle inequality; the exponents add up
        to d / scale or less.

    Sampling:
        Exact: integers and uniform bits only. Canonne, Kamath, Steinke 2020 (arXiv:2004.00010),
        algorithm 2: with scale = t / s, a digit below t thinned by exp(-u / t), plus t times a
        geometric count, divided by s; then a sign, and minus zero is drawn again. Up to FEW
        values one by one, more of them with numpy, by the same steps (`exponential.py`). The
        time taken depends on the noise and never on the exact values.

    Rounding:
        The scale is a Fraction and the loss exact; no step leaves exactness. `interval` takes
        logarithms of 30 digits more than the result has, and rounds outwards.

    Utility:
        Mean absolute error 1 / sinh(1 / scale), variance 2 q / (1 - q)^2 with q = exp(-1 /
        scale): 1.84 at scale 1, and about 2 scale^2 for large scales. For one count no other
        noise of the same claim serves any loss function better (Ghosh, Roughgarden,
        Sundararajan 2009).

    Checked:
        by the conformance suite; claim and proof reread 2026-11-18
    """

    scale: Fraction

    name: ClassVar[str] = "laplace"
    norm: ClassVar[int] = 1
    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise ValueError("a scale is above zero")

    @classmethod
    def calibrated(cls, sensitivity: Distance, epsilon: Fraction) -> DiscreteLaplace:
        """Give the noise that loses exactly epsilon at a distance above zero."""
        return cls(Fraction(sensitivity) / epsilon)

    def loss(self, distance: Distance) -> Loss:
        """Give distance / scale, which is attained."""
        return Loss(Fraction(distance) / self.scale)

    def event(self, distance: Distance) -> Pure:
        """State the loss for the ledger."""
        return Pure(self.loss(distance).epsilon)

    def release(self, exact: Sequence[int], randomness: Randomness) -> list[int]:
        """Add fresh noise to each exact value."""
        t, s, count = self.scale.numerator, self.scale.denominator, len(exact)
        if count <= FEW:
            return [index(value) + two_sided(t, s, randomness) for value in exact]
        noise = two_sided_many(t, s, count, randomness).tolist()
        return [index(value) + extra for value, extra in zip(exact, noise, strict=True)]

    def interval(self, noisy: int, confidence: Fraction) -> tuple[int, int]:
        """Give the smallest symmetric range that holds the exact value as often as stated."""
        width = _half_width(self.scale, confidence)
        return noisy - width, noisy + width

    def log_pmf(self, noise: int) -> float:
        """Give the logarithm of tanh(1 / (2 scale)) * exp(-|noise| / scale)."""
        return math.log(math.tanh(float(1 / (2 * self.scale)))) - float(abs(noise) / self.scale)

    def pmf(self, noise: int) -> float:
        """Give the probability of one noise value."""
        return math.exp(self.log_pmf(noise))


@lru_cache(maxsize=1024)
def _half_width(scale: Fraction, confidence: Fraction) -> int:
    """Give the least m with P[|noise| > m] = 2 q^(m + 1) / (1 + q) <= 1 - confidence.

    That is m + 1 >= scale * ln(2 / ((1 + q) (1 - confidence))) for q = exp(-1 / scale). The
    margin is upwards and far above the error of 30 spare digits.
    """
    if not 0 < confidence < 1:
        raise ValueError("a confidence lies between 0 and 1")
    with localcontext(Context(prec=40 + len(str(int(scale))))):
        size = Decimal(scale.numerator) / scale.denominator
        rest = 1 - confidence
        share = (1 + (-1 / size).exp()) * rest.numerator / rest.denominator
        least = size * (2 / share).ln() - 1 + Decimal(10) ** -25
        return max(0, int(least.to_integral_value(ROUND_CEILING)))
