"""Partition selection: which groups may be shown, where only the data know their keys.

A group without units is never shown, so the engine has to count those that exist and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import index
from typing import ClassVar

import numpy as np

from dpquery.core.privacy_events import Approximate
from dpquery.core.privacy_loss import Loss
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.randomness import Randomness, less

BITS = 126
"""Probabilities are multiples of 2^-126: two digits of `Randomness`, one in a signed word."""
DIGIT = BITS // 2
LEAST_EPSILON = Fraction(1, 1000)
"""Below it, the law would take more than some hundred thousand steps to write down."""
LARGEST_EXPONENT = 64
"""A larger epsilon buys nothing: probabilities have reached 1 by then."""
FINE = 256
"""Binary digits to which a power of e is known."""


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """Shows each group with a probability that grows with its number of units.

    Claim:
        If two lists of counts differ in at most d places, by at most 1 in each, the sets of
        places shown are (d * epsilon, d * delta)-indistinguishable: for every family F of sets,
        P[select(a) in F] <= exp(d * epsilon) * P[select(b) in F] + d * delta.

    Assumes:
        The counts are natural numbers, and one unit is counted once in each of at most d
        groups, however many it is in: which, is decided without looking at other units. The
        integers of `Randomness` are uniform and independent; epsilon and delta do not depend
        on the counts.

    Proof:
        A count n is shown with probability p(n), independently of the others. With p(0) = 0 and
        p(n + 1) = min(E p(n) + delta, 1 - (1 - p(n) - delta) / E, 1) for some E from 1 to
        exp(epsilon), p grows with n, so that of the four conditions on two neighbouring
        counts, for being shown and for not being shown in both directions, two are trivial.
        The others are p(n + 1) <= E p(n) + delta and 1 - p(n) <= E (1 - p(n + 1)) + delta: the
        two first terms. Both go on to hold where p(n + 1) is rounded down, and p(n + 1) >= p(n)
        as well, because that is a multiple of the same step. Losses of independent choices add
        up; a unit that is replaced moves 2 d counts at most. With a least count m above 1, n is
        shown with probability p(max(0, n - (m - 1))): where n grows by 1, the argument of p
        stays 0 or grows by 1, and the same conditions hold.

    Sampling:
        Exact: p(n) is a multiple of 2^-126, and a place is shown where a uniform integer below
        2^126 is less than that multiple. One integer is drawn for each place, also where p is
        0 or 1, so that the time taken does not tell counts apart.

    Rounding:
        E is a sum of rounded-down terms of the series of exp(epsilon) (epsilon cut to 64);
        delta and each p(n) are rounded down to the step: all three lose less than is claimed.

    Utility:
        No law of the same claim shows any count more often (Desfontaines, Voss, Gipson 2022,
        arXiv:2006.03684), but for the rounding. Half of the groups are shown from 14 units on
        at epsilon 1 and delta 1e-6, from 109 on at epsilon 0.1. A least count m moves all of
        that by m - 1 units.

    Checked:
        by the conformance suite and the enumeration of neighbours; claim and proof reread
        2026-11-18
    """

    epsilon: Fraction
    delta: Fraction
    """Both for one group."""
    least: int = 1
    """Smaller counts are never shown."""

    name: ClassVar[str] = "partition"
    weight_linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.epsilon < LEAST_EPSILON:
            raise ValueError(f"an epsilon for one group is at least {LEAST_EPSILON}")
        if not Fraction(1, 1 << BITS - 2) <= self.delta < 1:
            raise ValueError("a delta for one group lies between 2^-124 and 1")
        if self.least < 1:
            raise ValueError("a group that nobody is in is never shown")

    @classmethod
    def calibrated(
        cls, groups: int, epsilon: Fraction, delta: Fraction, least: int = 1
    ) -> PartitionSelection:
        """Return the selection that loses epsilon and delta where so many counts move by 1."""
        return cls(Fraction(epsilon, groups), Fraction(delta, groups), least)

    def loss(self, distance: Distance) -> Loss:
        """Return what is lost where so many counts move by 1."""
        return Loss(distance * self.epsilon, distance * self.delta)

    def event(self, distance: Distance) -> Approximate:
        """State the loss for the ledger."""
        loss = self.loss(distance)
        return Approximate(loss.epsilon, loss.delta)

    def select(self, counts: Sequence[int], randomness: Randomness) -> list[int]:
        """Return the places that are shown, in their order."""
        law = _law(self.epsilon, self.delta)
        rows = np.array([self._step(index(count), law) for count in counts], dtype=np.int64)
        drawn = randomness.digits_below(1 << BITS, len(counts))
        table = np.array([divmod(p, 1 << DIGIT) for p in law[:-1]] + [(0, 0)], dtype=np.int64)
        shown = less(drawn, table[rows].T) | (rows == len(law) - 1)
        places: list[int] = np.flatnonzero(shown).tolist()
        return places

    def probability(self, count: int) -> Fraction:
        """Return the exact probability with which a count is shown."""
        law = _law(self.epsilon, self.delta)
        return Fraction(law[self._step(count, law)], 1 << BITS)

    def enough(self, probability: Fraction) -> int:
        """Return the least count that is shown with at least a probability."""
        law, needed = _law(self.epsilon, self.delta), probability * (1 << BITS)
        return next(count for count, p in enumerate(law) if p >= needed) + self.least - 1

    def _step(self, count: int, law: Sequence[int]) -> int:
        """Return the place of a count in the law; beyond its end, all are shown."""
        return min(max(0, count - (self.least - 1)), len(law) - 1)


@lru_cache(maxsize=64)
def _law(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """Return p(0), p(1), ... as multiples of 2^-BITS, up to the first that is 1."""
    power, one = _power_below(epsilon), 1 << BITS
    step, law = (delta.numerator << BITS) // delta.denominator, [0]
    while law[-1] < one:
        grown = (power * law[-1] >> FINE) + step
        rest = -(-(max(0, one - law[-1] - step) << FINE) // power)
        law.append(min(grown, one - rest))
    return tuple(law)


def _power_below(epsilon: Fraction) -> int:
    """Return at most 2^FINE exp(epsilon), and at least 2^FINE."""
    x = min(epsilon, Fraction(LARGEST_EXPONENT))
    term = total = 1 << FINE
    k = 0
    while term:
        k += 1
        term = term * x.numerator // (x.denominator * k)
        total += term
    return total
