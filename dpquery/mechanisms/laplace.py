"""Discrete Laplace noise: the default for counts and sums; it can be refined to less later.

What is said at the end, of sums and quotients of noisy values, is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import lcm
from operator import index
from statistics import NormalDist
from typing import ClassVar

from dpquery.core.privacy_events import Refined
from dpquery.core.privacy_loss import Loss
from dpquery.mechanisms.base import AdditiveNoise, Distance, PureEvent
from dpquery.mechanisms.max_norm import MaxNorm
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken
from dpquery.mechanisms.samplers import (
    FEW,
    coin,
    geometric,
    shrunk_coin,
    two_sided,
    two_sided_many,
)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(PureEvent):
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
        values one by one, more of them with numpy, by the same steps (`samplers.py`). The
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
    share_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise ValueError("a scale is above zero")

    @property
    def scale_shown(self) -> Fraction:
        """The scale."""
        return self.scale

    @classmethod
    def calibrated(cls, sensitivity: Distance, epsilon: Fraction) -> DiscreteLaplace:
        """Return the noise that loses exactly epsilon at a distance above zero."""
        return cls(Fraction(sensitivity) / epsilon)

    def loss(self, distance: Distance) -> Loss:
        """Return distance / scale, which is attained."""
        return Loss(Fraction(distance) / self.scale)

    def release(self, exact: Sequence[int], randomness: Randomness) -> list[int]:
        """Add fresh noise to each exact value."""
        t, s = self.scale.as_integer_ratio()
        if len(exact) <= FEW:
            return [index(value) + two_sided(t, s, randomness) for value in exact]
        noise = two_sided_many(t, s, len(exact), randomness).tolist()
        return [index(value) + extra for value, extra in zip(exact, noise, strict=True)]

    def interval(self, noisy: int, confidence: Fraction) -> tuple[int, int]:
        """Return the smallest symmetric range that holds the exact value as often as stated."""
        width = _half_width(self.scale, confidence)
        return noisy - width, noisy + width

    def log_pmf(self, noise: int) -> float:
        """Return the logarithm of tanh(1 / (2 scale)) * exp(-|noise| / scale)."""
        return math.log(math.tanh(float(1 / (2 * self.scale)))) - float(abs(noise) / self.scale)

    def pmf(self, noise: int) -> float:
        """Return the probability of one noise value."""
        return math.exp(self.log_pmf(noise))


@lru_cache(maxsize=1024)
def _half_width(scale: Fraction, confidence: Fraction) -> int:
    """Return the least m with P[|noise| > m] = 2 q^(m + 1) / (1 + q) <= 1 - confidence.

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
        in zCDP (`budget/accountant.py`). The difference of both rhos would not do: for some y
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
        """Return what comes to the loss of the earlier release."""
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
    """Return whether an exponential variate that is below a whole is below a part of it."""
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
    """Return the sum of what is proposed for so many places; None: for all from 1 on."""
    if places is None:
        return 1 if rate >= 1 else 2 * _width(rate)
    return min(places, 2 * _width(rate))


def _width(rate: Fraction) -> int:
    """Return the least number of steps over which a law of that rate falls by exp(-1)."""
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


# Floats are of use from here on: all that is computed follows from released values.

Reach = Callable[[Sequence[float]], float]
"""From coefficients to how far the noises go together."""
Beyond = Callable[[Sequence[float], float], float]
"""From coefficients and a distance to how often the noises add up to more, to one side."""
APART = 1.02
"""Scales are moved apart by so much, where a formula asks for different ones."""
MANY = 12
"""Of more scales the smallest are put together."""
STEPS = 60


def combined_reach(noise: AdditiveNoise | MaxNorm, spread: float, missed: float) -> Reach:
    """Return what gives r with P[|sum of c_i noise_i| > r] <= missed, for coefficients c_i.

    Discrete noise is taken for continuous noise of the same scale, and half a unit of the
    largest is added: alone it is that, rounded. Others even out what rounding does (by the
    exact law in test_combined_noise.py).
    """

    def reach(coefficients: Sequence[float]) -> float:
        sizes = [abs(one) for one in coefficients]
        if isinstance(noise, DiscreteLaplace):
            far = _of_laplace([size * spread for size in sizes], missed)
        elif isinstance(noise, MaxNorm):
            far = noise.combined_reach(sizes, missed)
        else:
            far = -NormalDist().inv_cdf(missed / 2) * spread * math.hypot(*sizes)
        return far + max(sizes) / 2

    return reach


def _of_laplace(scales: Sequence[float], missed: float) -> float:
    """Return where a sum of two-sided exponential laws of these scales has so much beyond.

    Scales that were moved apart are shrunk to the same variance. The logarithm of what lies
    beyond is concave, so that Newton's steps, after the first, come from above.
    """
    largest = sorted(scales)[-MANY:]
    if not largest[-1]:
        return 0.0
    variance = math.fsum(scale * scale for scale in scales)
    rest = variance - math.fsum(scale * scale for scale in largest)
    apart = _apart([*largest, math.sqrt(max(rest, 0.0))])
    weights, target = _weights(apart), math.log(missed)
    far = -apart[-1] * target
    for _ in range(STEPS):
        parts = [w * math.exp(-far / a) for w, a in zip(weights, apart, strict=True)]
        beyond = sum(parts)
        density = sum(part / a for part, a in zip(parts, apart, strict=True))
        if beyond <= 0 or density <= 0:  # less than doubles can tell apart
            break
        step = (math.log(beyond) - target) * beyond / density
        far += step
        if abs(step) <= far * 1e-9:
            break
    return far * math.sqrt(variance) / math.hypot(*apart)


def _apart(scales: Sequence[float]) -> list[float]:
    """Return the scales, rising, none equal to another or far below the largest."""
    apart, least = list[float](), max(scales) / 1000
    for scale in sorted(max(scale, least) for scale in scales):
        apart.append(max(scale, APART * apart[-1] if apart else 0.0))
    return apart


def _weights(apart: Sequence[float]) -> list[float]:
    """Return by what exp(-r / a_i) is multiplied in the sum that says how much lies beyond r.

    For different scales a_i that is prod_j a_i^2 / (a_i^2 - a_j^2).
    """
    return [math.prod(a * a / (a * a - b * b) for b in apart if b != a) for a in apart]


def _farther(apart: Sequence[float], far: float) -> float:
    """Return how often a sum of two-sided exponential laws is farther, to either side."""
    pairs = zip(_weights(apart), apart, strict=True)
    return sum(w * math.exp(-far / a) for w, a in pairs)


def combined_tail(
    noise: AdditiveNoise, spread: float, coefficients: Sequence[float], far: float
) -> float:
    """Return a bound on P[sum of c_i noise_i > far], by the same laws as `combined_reach`."""
    sizes = [abs(one) * spread for one in coefficients]
    far -= sum(sizes) / spread / 2
    if far <= 0:
        return 1.0
    if isinstance(noise, DiscreteLaplace):
        return _farther(_apart(sizes), far) / 2
    return NormalDist(0, math.hypot(*sizes)).cdf(-far)


def share_range(
    part: float, whole: float, reach_at: Callable[[float], float], ends: tuple[float, float]
) -> tuple[float, float]:
    """Return a range of all shares with |part - share whole| <= reach_at(share).

    That is the set of shares that the noise does not rule out (Fieller): it holds the exact one
    as often as the noise of part - share whole stays within its reach, for no share beforehand
    and whatever the whole is. The reach is convex: between two shares no larger than at one.
    """
    low, high = ends
    if whole <= 0:
        return ends
    start = min(max(part / whole, low), high)
    most = max(reach_at(low), reach_at(high))
    below, above = (min(max((part + s * most) / whole, low), high) for s in (-1, 1))
    here = reach_at(start)
    for _ in range(2):
        below = max(below, (part - max(here, reach_at(below))) / whole)
        above = min(above, (part + max(here, reach_at(above))) / whole)
    return min(below, start), max(above, start)
