"""One place of a finite list, the likelier the larger its utility.

By the exponential mechanism, or by permute-and-flip.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, compress
from operator import index
from typing import ClassVar, Self

from dpquery.core.privacy_loss import Loss
from dpquery.mechanisms.base import Distance, PureEvent, RangeEvent
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken
from dpquery.mechanisms.samplers import coins, ln2_around, shrunk_coin, tail_bound

DEEPEST = 192
"""Exponents end here: 2^64 places at 2^-192 are 2^-128 of an envelope, which is 1 or more."""
BITS = 64


def exponential_law(rate: Fraction, scores: Sequence[int | Fraction]) -> list[float]:
    """Return probabilities in proportion to exp(-rate score), for tests."""
    least = min(scores)
    sizes = [math.exp(-float(rate * (score - least))) for score in scores]
    total = math.fsum(sizes)
    return [size / total for size in sizes]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A law of one place of a list, the likelier the larger its utility."""

    rate: Fraction

    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError("a rate is above zero")

    @classmethod
    def calibrated(cls, distance: Distance, epsilon: Fraction) -> Self:
        """Return the rate that loses exactly epsilon at a distance above zero."""
        return cls(epsilon / Fraction(distance))

    def loss(self, distance: Distance) -> Loss:
        """Return rate * distance, for differences within a range of that width."""
        return Loss(self.rate * distance)

    def shortfall(self, places: int, confidence: Fraction) -> int:
        """Return by how much the chosen utility is short of the largest, as often as stated.

        The least g of which P[shortfall > g] <= places exp(-rate g) proves it, with the
        logarithm rounded up by at most 1/64: a place that lacks more than g is proposed, or
        shows heads, with probability exp(-rate g) at most. It does not depend on the utilities.
        """
        return tail_bound(places, self.rate, confidence)


@dataclass(frozen=True, slots=True)
class FiniteExponential(RangeEvent, _Choice):
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

    name: ClassVar[str] = "exponential"

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

    def pmf(self, utilities: Sequence[int]) -> list[float]:
        """Return the probability of each place, for tests."""
        return exponential_law(self.rate, [-utility for utility in utilities])


def _exponent(gap: Fraction) -> int:
    """Return an integer at most gap / ln 2, less by 1 + 2^-50 or so at most, or DEEPEST."""
    scaled = (gap.numerator << BITS) // (gap.denominator * ln2_around(BITS)[1])
    return min(scaled, DEEPEST)


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(PureEvent, _Choice):
    """Takes places in random order until one passes a coin of exp(-rate * what it lacks).

    The default where the most frequent of several values is asked for.

    Claim:
        As `FiniteExponential`, but that log-ratios may range more widely.

    Assumes:
        As `FiniteExponential`.

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
        Exact: one coin for each place (`samplers.py`), and a uniform integer below the
        number of heads. The time taken depends on coins and, in its last digits, on utilities.

    Rounding:
        As `FiniteExponential`.

    Utility:
        P[utility < max - g] <= places * exp(-rate g), and never more than for the exponential
        mechanism of the same claim (McKenna, Sheldon 2020, arXiv:2010.12603): with weights 100,
        98, 95 and twenty of 90 at rate 1/2, it lacks 1.07 rows on average and that one 1.57.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    name: ClassVar[str] = "permute_and_flip"

    def release(self, utilities: Sequence[int], randomness: Randomness) -> int:
        """Draw one place."""
        most = max(utilities)
        lacks = [(most - index(utility)) * self.rate.numerator for utility in utilities]
        tossed = coins(lacks, self.rate.denominator, randomness)
        heads = list(compress(range(len(lacks)), tossed))
        return heads[randomness.below(len(heads))]

    def pmf(self, utilities: Sequence[int]) -> list[float]:
        """Return the probability of each place, for tests.

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
