"""The exponential mechanism over a finite list: one place, the likelier the larger its weight.

It knows integers and a rate, and neither what is chosen among nor who pays. Release and loss
are exact (I8); the probabilities at the end are for tests.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from operator import index
from typing import ClassVar

from dpquery.events import BoundedRange
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.certified import ln2_around, shrunk_coin, tail_bound
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken
from dpquery.privacy import Loss

__all__ = ["FiniteExponential"]

DEEPEST = 192
"""Exponents end here: 2^64 places at 2^-192 are 2^-128 of an envelope, which is 1 or more."""
BITS = 64


@dataclass(frozen=True, slots=True)
class FiniteExponential:
    """Draws one of several places, with probability proportional to exp(rate * utility).

    Claim:
        Let each place of a list have an integer utility. If the differences of the utilities
        of two lists, place by place, lie within a range of width d, their outputs are (rate d,
        0)-indistinguishable: for every place i, P[release(a) = i] <= exp(rate d) *
        P[release(b) = i].

    Assumes:
        Both lists have the same places, one or more; utilities are integers; d bounds max(b_i -
        a_i) - min(b_i - a_i); the integers of `Randomness` are uniform and independent; rate >
        0 does not depend on the utilities.

    Proof:
        P[i] = exp(rate a_i) / Z, with Z the sum over all places. If all differences b_i - a_i
        lie between l and h, the numerator grows by a factor exp(rate l) or more, and Z by at
        most exp(rate h), alike for all places (`BoundedRange`). So P[release(b) = i] >=
        exp(-rate (h - l)) * P[release(a) = i], and h - l <= d. The other way round, the
        differences lie between -h and -l. Where utilities are counts and a unit is added, the
        width is its largest count (not twice that).

    Sampling:
        Exact, by rejection under powers of two. With x_i = rate (max - a_i), any integer e_i
        from 0 to x_i / ln 2 gives exp(-x_i) <= 2^-e_i. A place is proposed with probability
        2^-e_i / V, V being the sum over all, and kept with probability exp(-x_i) 2^e_i. An
        attempt thus gives place i with probability exp(-x_i) / V, so given that it succeeds
        with P[i]. Exponents are rounded down and stop at DEEPEST, both of which is valid, and
        an attempt succeeds with probability 0.49 or more. The time taken depends on utilities
        and coins.

    Rounding:
        The rate is a Fraction and the loss exact; no step leaves exactness, and coins compare
        as many digits as they need.

    Utility:
        P[utility < max - g] <= places * exp(-rate g): among 1,000 places, at rate 1, the
        chosen one is 10 short of the largest at most, 95 times in 100. Permute-and-flip of the
        same claim is never worse on average; this one has a smaller loss where losses are
        added up in zCDP.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    rate: Fraction

    name: ClassVar[str] = "exponential"
    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError("a rate is above zero")

    @classmethod
    def calibrated(cls, distance: Distance, epsilon: Fraction) -> FiniteExponential:
        """Give the rate that loses exactly epsilon at a distance above zero."""
        return cls(epsilon / Fraction(distance))

    def loss(self, distance: Distance) -> Loss:
        """Give rate * distance, for differences within a range of that width."""
        return Loss(self.rate * distance)

    def event(self, distance: Distance) -> BoundedRange:
        """State the loss for the ledger."""
        return BoundedRange(self.loss(distance).epsilon)

    def release(self, utilities: Sequence[int], randomness: Randomness) -> int:
        """Draw one place."""
        most = max(utilities)
        gaps = [self.rate * (most - index(utility)) for utility in utilities]
        exponents = [_exponent(gap) for gap in gaps]
        heaps = list(accumulate(1 << DEEPEST - e for e in exponents))
        for _ in range(ROUNDS):
            place = bisect_right(heaps, randomness.below(heaps[-1]))
            if shrunk_coin(gaps[place], exponents[place], randomness):
                return place
        raise broken()

    def shortfall(self, places: int, confidence: Fraction) -> int:
        """Give g so that the chosen utility is at most g below the largest as often as stated.

        The least g of which P[shortfall > g] <= places exp(-rate g) proves it, with the
        logarithm rounded up by at most 1/64. It does not depend on the utilities.
        """
        return tail_bound(places, self.rate, confidence)

    def pmf(self, utilities: Sequence[int]) -> list[float]:
        """Give the probability of each place, for tests."""
        most = max(utilities)
        sizes = [math.exp(-float(self.rate * (most - utility))) for utility in utilities]
        total = math.fsum(sizes)
        return [size / total for size in sizes]


def _exponent(gap: Fraction) -> int:
    """Give an integer at most gap / ln 2, less by 1 + 2^-50 or so at most, or DEEPEST."""
    scaled = (gap.numerator << BITS) // (gap.denominator * ln2_around(BITS)[1])
    return min(scaled, DEEPEST)
