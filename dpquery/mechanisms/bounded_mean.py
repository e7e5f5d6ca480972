"""A mean chosen between its bounds: two laws, by how many rows would have to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar, Self

from dpquery.core.privacy_loss import Loss
from dpquery.mechanisms.base import Distance, RangeEvent
from dpquery.mechanisms.exponential import exponential_law
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken
from dpquery.mechanisms.samplers import coin, geometric

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
