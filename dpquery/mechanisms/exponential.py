"""One of several outputs, the likelier the larger its utility: a place of a list, or a mean.

The exponential mechanism and permute-and-flip choose a place of a finite list; two more
exponential mechanisms choose a mean by how many rows would have to change.
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

from dpquery.core.privacy import Loss
from dpquery.mechanisms.base import Distance, PureEvent, RangeEvent
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken
from dpquery.mechanisms.samplers import (
    coin,
    coins,
    geometric,
    ln2_around,
    shrunk_coin,
    tail_bound,
)

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


TRIES = 4 * ROUNDS
"""An attempt succeeds with probability 0.1 or more: 0.9^2048 is below 2^-300."""


@dataclass(frozen=True, slots=True)
class _Ticks(RangeEvent):
    """A law of ticks, the likelier the nearer they are to the mean."""

    rate: Fraction
    """Per row."""
    ticks: int = 1 << 40

    weight_linear: ClassVar[bool] = False
    """It is claimed for whole rows."""

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.ticks < 1:
            raise ValueError("a rate is above zero, and there is a tick at each end")

    @classmethod
    def calibrated(cls, rows: int, epsilon: Fraction) -> Self:
        """Return the rate that loses at most epsilon when so many rows change."""
        return cls(epsilon / (2 * rows))

    def loss(self, distance: Distance) -> Loss:
        """Return 2 rate distance, for a distance in rows."""
        return Loss(2 * self.rate * distance)

    def release(self, total: int, rows: int, top: int, randomness: Randomness) -> int:
        """Draw one tick, given the sum, the number of rows and the largest value."""
        if not rows:
            return randomness.below(self.ticks + 1)
        sides = _sides(index(total), index(rows), top, self.ticks)
        for _ in range(TRIES):
            side = sides[randomness.below(len(sides))]
            step = self._step(side, sides, randomness)
            if step is not None and step < side.length:
                return side.tick(step)
        raise broken()

    def _step(self, side: _Side, sides: Sequence[_Side], randomness: Randomness) -> int | None:
        """Propose how many ticks from the nearest of a side, which may be too many; or none."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class MeanExponential(_Ticks):
    """Draws a tick between the bounds, the likelier the nearer it is to the mean, in rows.

    Claim:
        Let n rows with values between 0 and top have the sum s, and let tick t of `ticks`
        stand for the mean m = top t / ticks. Its distance is d(t) = |s - n m| / top. If two
        data sets differ in k rows, added, removed or replaced, their outputs are (2 rate k,
        0)-indistinguishable: for every tick t, P[release(a) = t] <= exp(2 rate k) *
        P[release(b) = t].

    Assumes:
        s and n are integers, 0 <= s <= n top, top >= 1; the integers of `Randomness` are
        uniform and independent; rate > 0, top and ticks do not depend on the rows. That n is
        known is not assumed.

    Proof:
        P[t] = exp(-rate d(t)) / Z. A row of value v that is added moves s - n m by v - m, a row
        that is replaced by the difference of two values: by at most top in size. So each d(t)
        moves by at most 1 for each such row, each numerator by a factor between exp(-rate) and
        exp(rate), and so does Z, which is one factor for all ticks (`BoundedRange`).

    Sampling:
        Exact, by rejection. Below the mean and above it, d grows by n / ticks from tick to
        tick: a side is chosen by a fair coin, the farther one with the probability of what its
        nearest tick lacks, then a step of geometric law; a step past the end is drawn again.
        Where the law is flat over a side, the step is uniform and kept with its weight. The
        time taken depends on sum, rows and coins.

    Rounding:
        The rate is a Fraction and the loss exact; no step leaves exactness.

    Utility:
        For many rows the noise in the mean is that of a Laplace law of scale top / (rate n),
        cut to the bounds: at rate epsilon / 2, twice that of Laplace noise where the number of
        rows is public, and more than that of the pair of sums. What is really lost is less
        than epsilon: rate + ln(2 - exp(-rate)) where rows are replaced. For teaching.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    name: ClassVar[str] = "exponential_mean"

    def _step(self, side: _Side, sides: Sequence[_Side], randomness: Randomness) -> int | None:
        lack = self.rate * Fraction(side.start - min(s.start for s in sides), side.row)
        if not coin(lack.numerator, lack.denominator, randomness):
            return None
        per_tick = self.rate * Fraction(side.gap, side.row)
        return _truncated(max(s.length for s in sides), per_tick, randomness)

    def pmf(self, total: int, rows: int, top: int) -> list[float]:
        """Return the probability of each tick, for tests."""
        return exponential_law(self.rate, _distances(total, rows, top, self.ticks))


@dataclass(frozen=True, slots=True)
class MeanInverseSensitivity(_Ticks):
    """As the exponential mean, with the distance in whole rows.

    Claim:
        As `MeanExponential`, with the distance d(t) = floor(|s - n m| / top + 1/2).

    Assumes:
        As `MeanExponential`.

    Proof:
        P[t] = exp(-rate d(t)) / Z. A row that is added, removed or replaced moves |s - n m| /
        top by at most 1 (see `MeanExponential`), so its rounded value by at most 1 as well;
        each numerator moves by a factor between exp(-rate) and exp(rate), and so does Z.
        Where values are 0 or top, d(t) is the number of rows that have to be replaced until
        the tick is the nearest one to be had: the inverse sensitivity. For values between, as
        many replacements are needed at least.

    Sampling:
        Exact, by rejection: a side by a fair coin, d by a geometric law cut at the largest
        there is, and one of as many ticks as a distance has at most; what does not exist is
        drawn again. With `ticks` at least twice the rows, an attempt succeeds with probability
        0.1 or more. The time taken depends on sum, rows and coins.

    Rounding:
        The rate is a Fraction and the loss exact; no step leaves exactness.

    Utility:
        The number of rows by which a share is off has the law exp(-rate |k|), cut at 0 and n:
        1 / (n sinh(rate)) on average, so at rate epsilon / 2 it is twice as far off as
        discrete Laplace noise on the count where the number of rows is public. For teaching.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    name: ClassVar[str] = "inverse_sensitivity"

    def _step(self, side: _Side, sides: Sequence[_Side], randomness: Randomness) -> int | None:
        levels = 1 + max(s.level(s.length - 1) for s in sides)
        level = _truncated(levels, self.rate, randomness)
        step = side.first(level) + randomness.below(-(-side.row // side.gap))
        return step if side.level(step) == level else None

    def pmf(self, total: int, rows: int, top: int) -> list[float]:
        """Return the probability of each tick, for tests."""
        distances = _distances(total, rows, top, self.ticks)
        return exponential_law(self.rate, [(2 * x + 1) // 2 for x in distances])


@dataclass(frozen=True, slots=True)
class _Side:
    """The ticks on one side of a mean, from the nearest outwards."""

    nearest: int
    outwards: int
    start: int
    """How far the nearest tick is from the mean; 1 row is `row`, and ticks are `gap` apart."""
    length: int
    row: int
    gap: int

    def tick(self, step: int) -> int:
        """Return the tick so many steps from the nearest."""
        return self.nearest + self.outwards * step

    def level(self, step: int) -> int:
        """Return the distance of a tick in rows, rounded to the nearest, halves up."""
        return (2 * (self.start + step * self.gap) + self.row) // (2 * self.row)

    def first(self, level: int) -> int:
        """Return the first step whose distance rounds to so many rows, or more."""
        short = level * self.row - self.row // 2 - self.start
        return max(0, -(-short // self.gap))


def _sides(total: int, rows: int, top: int, ticks: int) -> list[_Side]:
    """Part the ticks at the mean of 1 row or more: t is |total ticks - rows top t| from it."""
    row, gap = top * ticks, rows * top
    place, rest = divmod(total * ticks, gap)
    below = _Side(place, -1, rest, place + 1, row, gap)
    above = _Side(place + 1, 1, gap - rest, ticks - place, row, gap)
    return [side for side in (below, above) if side.length]


def _distances(total: int, rows: int, top: int, ticks: int) -> list[Fraction]:
    """Return the distance of each tick in rows."""
    row = top * ticks
    return [Fraction(abs(total * ticks - rows * top * t), row) for t in range(ticks + 1)]


def _truncated(length: int, rate: Fraction, randomness: Randomness) -> int:
    """Draw j from 0 to length - 1 with probability proportional to exp(-rate j)."""
    s, t = rate.numerator, rate.denominator
    flat = length * s <= t
    for _ in range(ROUNDS):
        j = randomness.below(length) if flat else geometric(t, s, randomness)
        if j < length and (not flat or coin(j * s, t, randomness)):
            return j
    raise broken()
