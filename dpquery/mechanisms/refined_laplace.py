"""Less discrete Laplace noise in place of more: the later value is drawn given the earlier one.

Both together tell what one release of the smaller scale tells, so that only the difference has
to be paid. It knows integers and scales, and neither what they count nor who pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from operator import index
from typing import ClassVar

from dpquery.events import Refined
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.certified import shrunk_coin
from dpquery.mechanisms.discrete_laplace import DiscreteLaplace
from dpquery.mechanisms.exponential import coin, geometric
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken
from dpquery.privacy import Loss

__all__ = ["RefinedLaplace"]

LONGER = 4
"""A proposal is kept with probability above 0.18, and 0.82^(4 ROUNDS) is below 2^-586."""


@dataclass(frozen=True, slots=True)
class RefinedLaplace:
    """Replaces integers with discrete Laplace noise by others with less, given the former.

    Claim:
        Let y be `DiscreteLaplace` noise of scale 1 / before on exact values, and z be drawn by
        this from the same ones and y. Then z has exactly the law of noise of scale 1 / after,
        and y and z together lose what z alone does: d * after at an L1 distance of d. This
        holds if other releases came between, chosen by y, and if y decided whether to draw z.
        Given y, z is rho-zCDP with rho = (d * after)^2 / 2.

    Assumes:
        The y that it is given was drawn as said, from these exact values, and no other z was
        drawn given it; d bounds the L1 distance; before < after, neither depends on the values.

    Proof:
        Write p = exp(-before), q = exp(-after), q < p, for one value x. The generating function
        of noise of ratio q is (1 - q)^2 / ((1 - q t)(1 - q / t)). That of p, divided by that of
        q, is b + (1 - b) (1 - p)^2 / ((1 - p t)(1 - p / t)) with b = q (1 - p)^2 / (p (1 -
        q)^2), from 0 to 1: so noise of ratio p is noise of ratio q, plus 0 with probability b,
        or else plus noise of ratio p. With D for that second summand, y = z + D has the law of
        y if z has that of ratio q, and D says nothing of x. So (y, z) is a function of z and of
        chance, and loses what z does. Here y comes first and z is drawn from what the joint law
        says of z given y, in proportion to q^|z - x| P[D = y - z].
        Whatever is asked between depends on y and not on z, so the joint law of all answers is
        the same as if z were drawn at once and shown late; along each sequence of answers the
        ratio is the product of that of (y, z), or of y alone, and those of the others.
        Given y, the law of z for x is q^|z - x| P[D = y - z] / P[y]: its log-ratio against
        that for x' lies, over all z, in a range of 2 |x - x'| after, which is (d * after)^2 / 2
        in zCDP (`accountant.additive`). The difference of both rhos would not do: for some y
        z says more, and y may decide whether to ask for it (3 times that at order 2, before 1
        and after 1.01).

    Sampling:
        Exact: integers and uniform bits only. With d = |y - x|, z is y by itself, for D = 0,
        with probability sinh(before) / sinh(after) exp(-h d), h = after - before; that is
        exp(-h (d + 1)) (1 - exp(-2 before)) / (1 - exp(-2 after)), two coins, of which the
        second says whether an exponential variate below 2 after is below 2 before. Otherwise z
        is drawn in proportion to exp(-|z - x| after - |y - z| before): falling by exp(-h) a
        step between x and y, and by exp(-c) beyond both, c = after + before. Proposals are
        uniform on the former, or halved from each stretch of 1 / h (or 1 / c) to the next, and
        kept by a coin of the quotient. The time taken depends on d, by some microseconds: less
        than that of a scan depends on its rows.

    Rounding:
        Rates are Fractions, losses exact; no step leaves exactness.

    Utility:
        That of noise of scale 1 / after, for after - before of epsilon.

    Checked:
        test_refined_laplace.py: the joint law by enumeration; the sampler against it
    """

    before: Fraction
    """What the earlier release lost at a distance of 1."""
    after: Fraction

    name: ClassVar[str] = DiscreteLaplace.name
    norm: ClassVar[int] = 1
    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.before < self.after:
            raise ValueError("a rate is above zero, and the later one the larger")

    def loss(self, distance: Distance) -> Loss:
        """Give what comes to the loss of the earlier release."""
        return Loss(distance * (self.after - self.before))

    def event(self, distance: Distance) -> Refined:
        """State both for the ledger."""
        return Refined(distance * self.before, distance * self.after)

    def release(
        self, exact: Sequence[int], earlier: Sequence[int], randomness: Randomness
    ) -> list[int]:
        """Draw a new noisy value for each exact one and its earlier noisy one."""
        pairs = zip(exact, earlier, strict=True)
        return [self._refined(index(value), noisy, randomness) for value, noisy in pairs]

    def _refined(self, value: int, noisy: int, randomness: Randomness) -> int:
        distance = abs(noisy - value)
        if self._stays(distance, randomness):
            return noisy
        step = self._step(distance, randomness)
        return value + (step if noisy >= value else -step)

    def _stays(self, distance: int, randomness: Randomness) -> bool:
        slope = (self.after - self.before) * (distance + 1)
        within = _first_part(2 * self.before, 2 * self.after, randomness)
        return coin(slope.numerator, slope.denominator, randomness) and within

    def _step(self, distance: int, randomness: Randomness) -> int:
        """Draw how far from the exact value, towards the noisy one and beyond, or away."""
        between, beyond = self.after - self.before, self.after + self.before
        middle, tail = _mass(distance + 1, between), _mass(None, beyond)
        for _ in range(LONGER * ROUNDS):
            part = randomness.below(middle + 2 * tail)
            if part < middle:
                step, kept = _inside(distance + 1, between, randomness)
                if kept:
                    return step
                continue
            step, kept = _outside(beyond, randomness)
            if not kept:
                continue
            if part < middle + tail:
                return -step
            fall = between * distance
            if coin(fall.numerator, fall.denominator, randomness):
                return distance + step
        raise broken()


def _first_part(part: Fraction, whole: Fraction, randomness: Randomness) -> bool:
    """Say whether an exponential variate that is below a whole is below a part of it."""
    unit = lcm(part.denominator, whole.denominator)
    first, end = int(part * unit), int(whole * unit)
    for _ in range(ROUNDS):
        if end > unit:
            place = geometric(unit, 1, randomness)
            kept = place < end
        else:
            place = randomness.below(end)
            kept = coin(place, unit, randomness)
        if kept:
            return place < first
    raise broken()


def _mass(places: int | None, rate: Fraction) -> int:
    """Give the sum of what is proposed for so many places; None: for all from 1 on."""
    if places is None:
        return 1 if rate >= 1 else 2 * _width(rate)
    return min(places, 2 * _width(rate))


def _width(rate: Fraction) -> int:
    """Give the least number of steps over which a law of that rate falls by exp(-1)."""
    return -(-rate.denominator // rate.numerator)


def _inside(places: int, rate: Fraction, randomness: Randomness) -> tuple[int, bool]:
    """Propose a place from 0, and toss whether it is kept: exp(-rate place) to its proposal."""
    width = _width(rate)
    if places <= 2 * width:
        place, halvings = randomness.below(places), 0
    else:
        halvings = _halvings(randomness)
        place = width * halvings + randomness.below(width)
    kept = place < places and shrunk_coin(rate * place, halvings, randomness)
    return place, kept


def _outside(rate: Fraction, randomness: Randomness) -> tuple[int, bool]:
    """Propose a place from 1, and toss whether it is kept."""
    halvings = _halvings(randomness)
    if rate >= 1:
        place = halvings = halvings + 1
    else:
        width = _width(rate)
        place = width * halvings + randomness.below(width) + 1
    return place, shrunk_coin(rate * place, halvings, randomness)


def _halvings(randomness: Randomness) -> int:
    """Draw n with probability 2^-(n + 1)."""
    for count in range(ROUNDS):
        if randomness.below(2):
            return count
    raise broken()
