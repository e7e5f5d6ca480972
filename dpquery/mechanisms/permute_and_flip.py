"""Permute-and-flip: one place of a finite list, the likelier the larger its weight.

The default where the most frequent of several values is asked for. It knows integers and a
rate, and neither what is chosen among nor who pays. Release and loss are exact (I8); the
probabilities at the end are for tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar

from dpquery.events import Pure
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.certified import tail_bound
from dpquery.mechanisms.exponential import coins
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import Loss

__all__ = ["PermuteAndFlip"]


@dataclass(frozen=True, slots=True)
class PermuteAndFlip:
    """Takes places in random order until one passes a coin of exp(-rate * what it lacks).

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
        The output has the law of the noisy maximum: the place where rate a_i + E_i is largest,
        for independent E_i of the standard exponential law. For let the maximum of rate a be
        zero, at a place *. Then E_* >= 0, so only the places with rate a_i + E_i >= 0 can be
        the largest; each is one of them with probability exp(rate a_i), independently, and
        what it has above zero is again standard exponential (no memory). So the largest of
        them is any one with equal probability: a coin of exp(rate a_i) for each place, and
        one drawn among those with heads, of which * is one. Going through the places in a
        random order until the first heads draws just that.
        Now fix E_j for all j but i, and let t be the least E_i at which i is largest in a,
        or 0. In b, i is largest at t + rate d or before, for b_i - a_i >= b_j - a_j - d. As
        P[E_i >= t + rate d] >= exp(-rate d) P[E_i >= t], the claim holds given all E_j, and so
        on the whole. Where utilities are counts and a unit is added, the width is its largest
        count (not twice that).

    Sampling:
        Exact: one coin for each place (`exponential.py`), and a uniform integer below the
        number of heads. The time taken depends on coins and, in its last digits, on utilities.

    Rounding:
        The rate is a Fraction and the loss exact; no step leaves exactness, and coins compare
        as many digits as they need.

    Utility:
        P[utility < max - g] <= places * exp(-rate g), and never more than for the exponential
        mechanism of the same claim (McKenna, Sheldon 2020, arXiv:2010.12603): with weights 100,
        98, 95 and twenty of 90 at rate 1/2, it lacks 1.07 rows on average and that one 1.57.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    rate: Fraction

    name: ClassVar[str] = "permute_and_flip"
    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError("a rate is above zero")

    @classmethod
    def calibrated(cls, distance: Distance, epsilon: Fraction) -> PermuteAndFlip:
        """Give the rate that loses exactly epsilon at a distance above zero."""
        return cls(epsilon / Fraction(distance))

    def loss(self, distance: Distance) -> Loss:
        """Give rate * distance, for differences within a range of that width."""
        return Loss(self.rate * distance)

    def event(self, distance: Distance) -> Pure:
        """State the loss for the ledger."""
        return Pure(self.loss(distance).epsilon)

    def release(self, utilities: Sequence[int], randomness: Randomness) -> int:
        """Draw one place."""
        most = max(utilities)
        lacks = [(most - index(utility)) * self.rate.numerator for utility in utilities]
        heads = [
            place
            for place, head in enumerate(coins(lacks, self.rate.denominator, randomness))
            if head
        ]
        return heads[randomness.below(len(heads))]

    def shortfall(self, places: int, confidence: Fraction) -> int:
        """Give g so that the chosen utility is at most g below the largest as often as stated.

        A place that lacks more than g shows heads with probability exp(-rate g) at most, and
        one of `places` does with at most so many times that; the logarithm is rounded up by at
        most 1/64. It does not depend on the utilities.
        """
        return tail_bound(places, self.rate, confidence)

    def pmf(self, utilities: Sequence[int]) -> list[float]:
        """Give the probability of each place, for tests.

        With heads of probability p_j, place i is drawn with probability p_i times the mean of
        1 / (1 + the number of other heads): the sum over h of P[h other heads] / (1 + h).
        """
        most = max(utilities)
        chances = [math.exp(-float(self.rate * (most - utility))) for utility in utilities]
        return [
            p * _mean_share([*chances[:i], *chances[i + 1 :]]) for i, p in enumerate(chances)
        ]


def _mean_share(chances: Sequence[float]) -> float:
    heads = [1.0]
    for p in chances:
        both = zip([*heads, 0.0], [0.0, *heads], strict=True)
        heads = [(1 - p) * same + p * more for same, more in both]
    return math.fsum(chance / (1 + h) for h, chance in enumerate(heads))
