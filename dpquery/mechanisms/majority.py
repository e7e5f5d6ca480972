"""Whether a difference of two counts is above zero."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar

from dpquery.core.privacy_loss import Loss
from dpquery.mechanisms.base import Distance, PureEvent
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.samplers import two_sided


@dataclass(frozen=True, slots=True)
class Majority(PureEvent):
    """Says whether an exact difference is above zero, with noise in multiples of a step.

    Claim:
        If two exact differences lie at most m steps apart, the outputs are (m / scale,
        0)-indistinguishable: P[release(a)] <= exp(m / scale) * P[release(b)], and the same for
        the other answer.

    Assumes:
        The exact difference is an integer; the integers of `Randomness` are uniform and
        independent; scale > 0 and step >= 1 do not depend on it.

    Proof:
        The answer is the sign of a + step * Z, for P[Z = z] ~ exp(-|z| / scale), and a fair
        coin where that is zero. Let T(a) be the probability of "above". T(a + step) is T(a)
        with Z - 1 in the place of Z, so it is at most exp(1 / scale) T(a); and T rises with a.
        For a <= b <= a + m step, therefore, T(a) <= T(b) <= T(a + m step) <= exp(m / scale)
        T(a). The other answer has T(-a) by symmetry.

    Sampling:
        Exact: one discrete Laplace number, and one coin that is drawn whether it is needed or
        not.

    Rounding:
        The scale is a Fraction and the loss exact; no step leaves exactness.

    Utility:
        With q = exp(-1 / scale), the wrong side is named with probability q^r / 2 at a
        difference of r steps, and q^(r + 1) / (1 + q) strictly between r steps and r + 1. No
        symmetric rule of the same claim has less at any whole number of steps; nor, for a
        step of 2, at an odd difference: with 2k + 1 votes, of which k + r are for it, that is
        q^r / (1 + q), where one vote that turns moves the difference by 2. At epsilon 1 and
        margins r of 1, 2, 3: 0.269, 0.099, 0.036.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    scale: Fraction
    step: int = 1

    name: ClassVar[str] = "majority"

    def __post_init__(self) -> None:
        if self.scale <= 0 or self.step < 1:
            raise ValueError("a scale is above zero, and a step at least 1")

    @property
    def weight_linear(self) -> bool:
        """With a step of 1; any part of a longer one may lose as much as the whole."""
        return self.step == 1

    @classmethod
    def calibrated(cls, distance: int, epsilon: Fraction, *, step: int = 1) -> Majority:
        """Return the noise that loses exactly epsilon at a multiple of the step above zero."""
        return cls(Fraction(distance, step) / epsilon, step)

    def loss(self, distance: Distance) -> Loss:
        """Return the distance in whole steps, rounded up, over the scale; it is attained."""
        return Loss(-(-distance // self.step) / self.scale)

    def release(self, difference: int, randomness: Randomness) -> bool:
        """Return whether the difference is above zero."""
        noise = two_sided(self.scale.numerator, self.scale.denominator, randomness)
        heads = bool(randomness.below(2))
        noisy = index(difference) + self.step * noise
        return noisy > 0 or (noisy == 0 and heads)

    def pmf(self, difference: int) -> float:
        """Return the probability of "above", for tests."""
        q = math.exp(-float(1 / self.scale))
        whole, part = divmod(abs(difference), self.step)
        wrong = q ** (whole + 1) / (1 + q) if part else q**whole / 2
        return wrong if difference < 0 else 1 - wrong
