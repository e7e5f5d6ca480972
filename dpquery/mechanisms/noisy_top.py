"""The k largest of a list, in order, from one round of exponential noise.

It knows integers and a rate, and neither what is chosen among nor who pays. Release and loss
are exact (I8); the probabilities at the end are for tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from operator import index
from typing import ClassVar

import numpy as np

from dpquery.events import Pure
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.certified import tail_bound
from dpquery.mechanisms.exponential import Variate, variates
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken
from dpquery.privacy import Loss

__all__ = ["NoisyTop"]


@dataclass(frozen=True, slots=True)
class NoisyTop:
    """Adds exponential noise to each utility once, and gives the places of the largest few.

    Claim:
        Let each place of a list have an integer utility. Between two lists a and b, let every
        utility rise by `rise` >= 0 at most, and let all that fall do so by `fall` together; if
        size * rise + fall <= d, then for every sequence y of `size` places, P[release(a) = y]
        <= exp(rate d) * P[release(b) = y].

    Assumes:
        Both lists have the same places, `size` or more; utilities are integers; d bounds size *
        rise + fall from a to b and from b to a; the integers of `Randomness` are uniform and
        independent; rate > 0 and size do not depend on the utilities.

    Proof:
        y is released from a when rate a_i + E_i is largest at y_1, next at y_2, and so on, for
        independent E_i of the standard exponential law. Add rate (rise - (b_i - a_i)), which is
        not negative, to E_i for the places i of y. Then b with the new noise is a with the old
        one, rate * rise higher at the places of y, and by that at most at all others: y is
        released from b. Noise that is moved up by s stays noise, and its density falls by a
        factor exp(-s); what is added for all of y is at most rate (size * rise + fall). So the
        claim holds given the noise of the other places, and on the whole.
        Where utilities are counts, a unit that is added moves them by size * its largest count,
        one that is removed by the sum of its counts, and one that is replaced by both.

    Sampling:
        Exact: the first binary digits of every E_i, and more of them where an order is still
        open. The time taken depends on the noise and, in its last digits, on utilities.

    Rounding:
        The rate is a Fraction and the loss exact; no step leaves exactness.

    Utility:
        For size 1 it is permute-and-flip; from 2 on, counts are better served by
        `LargestNoisyCounts`, whose loss does not grow with the size. P[the utility at y_r is
        more than g below the r-th largest] <= places * exp(-rate g) for each r. Against drawing
        one place after the other by permute-and-flip at the same loss, noise is drawn once and
        what is left is not drawn anew.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    rate: Fraction
    size: int

    name: ClassVar[str] = "one_shot"
    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.size < 1:
            raise ValueError("a rate is above zero, and a size at least 1")

    @classmethod
    def calibrated(cls, distance: Distance, epsilon: Fraction, size: int) -> NoisyTop:
        """Give the rate that loses exactly epsilon at a distance above zero."""
        return cls(epsilon / Fraction(distance), size)

    @property
    def scale(self) -> Fraction:
        """The mean of the noise, in units of utility."""
        return Fraction(1, self.rate)

    def loss(self, distance: Distance) -> Loss:
        """Give rate * distance, for a distance of size * rise + fall."""
        return Loss(self.rate * distance)

    def event(self, distance: Distance) -> Pure:
        """State the loss for the ledger."""
        return Pure(self.loss(distance).epsilon)

    def release(self, utilities: Sequence[int], randomness: Randomness) -> list[int]:
        """Draw `size` places, the noisily largest first."""
        drawn = variates(len(utilities), randomness)
        shifts = [index(utility) * self.rate.numerator for utility in utilities]
        noisy = [
            _Noisy(place, shift, variate, self.rate.denominator)
            for place, (shift, variate) in enumerate(zip(shifts, drawn, strict=True))
        ]
        for _ in range(ROUNDS):
            noisy.sort(key=lambda one: one.least, reverse=True)
            loose = _overlapping(noisy, self.size)
            if not loose:
                return [one.place for one in noisy[: self.size]]
            for one in loose:
                one.variate.refine(randomness)
        raise broken()

    def shortfall(self, places: int, confidence: Fraction) -> int:
        """Give g so that none of the chosen is further below its rank, as often as stated."""
        return tail_bound(places, self.rate, confidence)

    def pmf(self, utilities: Sequence[int], places: Sequence[int]) -> float:
        """Give the probability of a sequence of places, for tests.

        Above v, let S_r(v) be the probability that noisy y_1 > ... > y_r > v. Between the
        utilities each S_r is a polynomial in z = exp(-v), and so is each distribution function;
        from the top piece down, S_r(v) adds up the density of y_r times S_(r-1).
        """
        scaled = [float(self.rate * utility) for utility in utilities]
        shifts = [math.exp(value - max(scaled)) for value in scaled]
        others = [shift for place, shift in enumerate(shifts) if place not in places]
        knots = [0.0, *sorted(1 / shift for shift in shifts)]
        ends = [np.polynomial.Polynomial([1.0])] * (len(knots) - 1)
        for step, place in enumerate(places):
            last = others if step == len(places) - 1 else []
            ends, total = _integrated(knots, ends, shifts[place], last)
        return total


@dataclass(slots=True)
class _Noisy:
    """One place: its utility times the rate, in parts of the denominator, and its noise."""

    place: int
    shift: int
    variate: Variate
    denominator: int

    @property
    def least(self) -> Fraction:
        """The least that utility and noise can be together."""
        return Fraction(self.shift, self.denominator) + self.variate.least

    @property
    def most(self) -> Fraction:
        """What they stay below together."""
        return self.least + self.variate.width


def _overlapping(noisy: Sequence[_Noisy], size: int) -> list[_Noisy]:
    """Give those of which it is open whether they are among the first, or in which order."""
    floor = noisy[size - 1].least
    contenders = [one for one in noisy if one.most > floor]
    return [
        one
        for one in contenders
        if any(o is not one and o.most > one.least and one.most > o.least for o in contenders)
    ]


def _integrated(
    knots: Sequence[float],
    inner: Sequence[np.polynomial.Polynomial],
    shift: float,
    below: Sequence[float],
) -> tuple[list[np.polynomial.Polynomial], float]:
    """Integrate density times inner function times the chances that others lie below.

    A place of shift s has density s z dv above v = ln s, that is for z < 1 / s, where the
    chance to lie below v is 1 - s z; from there on both are zero.
    """
    found, total = [], 0.0
    for number, (low, high) in enumerate(pairwise(knots)):
        middle, piece = (low + high) / 2, inner[number]
        alive = middle * shift < 1 and all(middle * other < 1 for other in below)
        rate = piece * shift if alive else np.polynomial.Polynomial([0.0])
        for other in below:
            rate = rate * np.polynomial.Polynomial([1.0, -other])
        grown = rate.integ()
        found.append(grown - grown(low) + total)
        total += float(grown(high) - grown(low))
    return found, total
