"""Exact coins and counts of exponential law, from uniform integers: what noise is made of.

Each law exists twice, for one value with Python's integers and for many at once with numpy, and
a test holds both to the same law. No floats (I8).

Everything rests on von Neumann's series. Toss coins of probability x/1, x/2, x/3, ... until the
first tails: the run of heads has length n or more with probability x^n / n!, so it is even with
probability 1 - x + x^2/2! - ... = exp(-x), for x from 0 to 1. Canonne, Kamath, Steinke 2020
(arXiv:2004.00010) build the discrete Laplace and Gaussian laws on it, as do we.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken, collect, less

FEW = 32
"""Up to so many values are drawn one by one: numpy's calls would take longer."""

INT64_END = 1 << 63
COARSE = 40
"""Binary digits after the point of the variates that many coins are decided by."""
REFINE = 64
"""Binary digits drawn at a time where the first ones leave a comparison open."""

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[Any]
"""Of 64 bits where all values are shown to fit, else of Python's integers."""


def coin(numerator: int, denominator: int, randomness: Randomness) -> bool:
    """Show heads with probability exp(-numerator / denominator), for any ratio from 0."""
    whole, rest = divmod(numerator, denominator)
    survived = whole == 0 or _whole(randomness) >= whole
    return survived and _even_run(rest, denominator, randomness)


def _even_run(numerator: int, denominator: int, randomness: Randomness) -> bool:
    for k in range(1, ROUNDS + 1):
        if randomness.below(k * denominator) >= numerator:
            return k % 2 == 1
    raise broken()


@dataclass(slots=True)
class Variate:
    """An exponential variate E, known as far as number = floor(2^bits E)."""

    number: int
    bits: int

    @property
    def least(self) -> Fraction:
        """The least that it can be."""
        return Fraction(self.number, 1 << self.bits)

    @property
    def width(self) -> Fraction:
        """What it is less than this far above."""
        return Fraction(1, 1 << self.bits)

    def refine(self, randomness: Randomness) -> None:
        """Draw its next REFINE binary digits.

        Given the digits so far, the next ones u have probability proportional to exp(-u /
        2^(bits + REFINE)).
        """
        self.bits += REFINE
        self.number = (self.number << REFINE) + _offset(1 << REFINE, 1 << self.bits, randomness)


def variates(count: int, randomness: Randomness) -> list[Variate]:
    """Draw exponential variates, as far as COARSE digits after the point."""
    if count <= FEW:
        numbers = [geometric(1 << COARSE, 1, randomness) for _ in range(count)]
    else:
        numbers = geometric_many(1 << COARSE, 1, count, randomness).tolist()
    return [Variate(number, COARSE) for number in numbers]


def exceeds(variate: Variate, numerator: int, denominator: int, randomness: Randomness) -> bool:
    """Say whether an exponential variate is above a ratio, refining it until that is clear."""
    for _ in range(ROUNDS):
        scaled = numerator << variate.bits
        if variate.number * denominator >= scaled:
            return True
        if (variate.number + 1) * denominator <= scaled:
            return False
        variate.refine(randomness)
    raise broken()


def coins(numerators: Sequence[int], denominator: int, randomness: Randomness) -> list[bool]:
    """Toss one coin each of probability exp(-numerator / denominator), for ratios from 0.

    Many are decided by exponential variates, of which the first digits nearly always do.
    """
    if len(numerators) <= FEW:
        return [coin(numerator, denominator, randomness) for numerator in numerators]
    drawn = variates(len(numerators), randomness)
    return [
        exceeds(variate, numerator, denominator, randomness)
        for variate, numerator in zip(drawn, numerators, strict=True)
    ]


def geometric(t: int, s: int, randomness: Randomness) -> int:
    """Draw one natural number; m has probability proportional to exp(-m s / t).

    Offset + t * whole is such a number for s = 1: its digits in base t are independent. Its
    quotient by s has the law for s.
    """
    return (_offset(t, t, randomness) + t * _whole(randomness)) // s


def _offset(end: int, t: int, randomness: Randomness) -> int:
    """Draw u from 0 to end - 1 with probability proportional to exp(-u / t), for end <= t."""
    for _ in range(ROUNDS):
        u = randomness.below(end)
        if _even_run(u, t, randomness):
            return u
    raise broken()


def _whole(randomness: Randomness) -> int:
    """Draw m with probability proportional to exp(-m)."""
    for heads in range(ROUNDS):
        if not _even_run(1, 1, randomness):
            return heads
    raise broken()


def two_sided(t: int, s: int, randomness: Randomness) -> int:
    """Draw one integer; k has probability proportional to exp(-|k| s / t)."""
    for _ in range(ROUNDS):
        size, negative = geometric(t, s, randomness), randomness.below(2)
        if size or not negative:  # else zero would come twice as often: as +0 and as -0
            return -size if negative else size
    raise broken()


def two_sided_many(t: int, s: int, count: int, randomness: Randomness) -> Integers:
    """Draw many integers of the law of `two_sided`."""

    def kept(missing: int) -> Integers:
        size, negative = geometric_many(t, s, missing, randomness), randomness.coins(missing)
        signed: Integers = np.where(negative, -size, size)
        return np.compress((size != 0) | ~negative, signed)

    return collect(count, kept)


def geometric_many(t: int, s: int, count: int, randomness: Randomness) -> Integers:
    """Draw many natural numbers of the law of `geometric`."""
    offsets, wholes = _offsets(t, count, randomness), _wholes(count, randomness)
    return _quotients(offsets, wholes, t, s)


def _offsets(t: int, count: int, randomness: Randomness) -> Int64s:
    def kept(missing: int) -> Int64s:
        u = randomness.digits_below(t, missing)

        def heads(k: int, alive: Int64s) -> Int64s:
            # A coin of probability u / (t k) is two coins: 1 / k, and u / t. No product, so
            # nothing can overflow.
            alive = alive[randomness.below_many(k, alive.size) == 0]
            drawn = randomness.digits_below(t, alive.size)
            return alive[less(drawn, np.take(u, alive, axis=-1))]

        accepted: Int64s = np.compress(_even_runs(missing, heads), u, axis=-1)
        return accepted

    return collect(count, kept)


def _wholes(count: int, randomness: Randomness) -> Int64s:
    def heads(k: int, alive: Int64s) -> Int64s:
        return np.compress(randomness.below_many(k, alive.size) == 0, alive)

    wholes = np.zeros(count, dtype=np.int64)
    alive = np.arange(count)
    for _ in range(ROUNDS):
        alive = alive[_even_runs(alive.size, heads)]
        if not alive.size:
            return wholes
        wholes[alive] += 1
    raise broken()


def _even_runs(count: int, heads: Callable[[int, Int64s], Int64s]) -> Bools:
    """Say per cell whether its run is even; `heads(k, alive)` gives who shows heads at k."""
    even = np.ones(count, dtype=np.bool_)
    alive = np.arange(count)
    for k in range(1, ROUNDS + 1):
        alive = heads(k, alive)
        if not alive.size:
            return even
        even[alive] = k % 2 == 0
    raise broken()


def _quotients(offsets: Int64s, wholes: Int64s, t: int, s: int) -> Integers:
    """Return (offset + t * whole) // s, in 64 bits only if no step can pass them.

    With offset = a s + b and t = q s + r it is a + q whole + (b + r whole) // s. For whole < n
    these stay at or below n (q + 1), and b + r whole below n s.
    """
    q, r = divmod(t, s)
    n = int(wholes.max(initial=0)) + 1
    if len(offsets) == 1 and n * (q + 1) < INT64_END and n * s < INT64_END:
        a, b = np.divmod(offsets[0], s)
        quotients: Integers = a + q * wholes + (b + r * wholes) // s
        return quotients
    joined = offsets[0].tolist()
    for row in offsets[1:]:
        joined = [high << 63 | low for high, low in zip(joined, row.tolist(), strict=True)]
    exact = [(u + t * v) // s for u, v in zip(joined, wholes.tolist(), strict=True)]
    return np.array(exact, dtype=object)


# Coins of probability exp(-x) 2^e: they decide under an envelope of powers of two.

STEP = 64
"""Binary digits by which a comparison is sharpened each time it stays open."""
LONGEST = 8 * STEP
"""Honest digits leave a comparison open for so long with probability below (e + 1) 2^-510."""


@lru_cache(maxsize=64)
def ln2_around(bits: int) -> tuple[int, int]:
    """Return integers below and above 2^bits ln 2, at most two apart.

    ln 2 is the sum of 1 / (k 2^k). Of `fine` terms each loses less than 1 by the floor, and
    the terms that follow add up to less than 1.

    >>> ln2_around(10)
    (709, 710)
    """
    spare = bits.bit_length() + 8
    fine = bits + spare
    terms = sum((1 << fine - k) // k for k in range(1, fine + 1))
    return terms >> spare, (terms + fine + 1 >> spare) + 1


def log_above(number: Fraction, bits: int = 6) -> Fraction:
    """Return at least ln(number), and at most 2^-bits more, for a number from 1.

    >>> log_above(Fraction(1)), 0 < log_above(Fraction(8)) - 3 * Fraction(693147, 10**6) < 0.016
    (Fraction(0, 1), True)
    """
    power = number ** (1 << bits)
    doublings = (-(-power.numerator // power.denominator) - 1).bit_length()
    return Fraction(doublings * ln2_around(STEP)[1], 1 << bits + STEP)


def tail_bound(places: int, rate: Fraction, confidence: Fraction) -> int:
    """Give g with places * exp(-rate g) <= 1 - confidence: the least one, or 1/64 / rate more.

    >>> tail_bound(1000, Fraction(1), Fraction(19, 20))
    10
    """
    if not 0 < confidence < 1:
        raise ValueError("a confidence lies between 0 and 1")
    missed = 1 - confidence
    bound = log_above(Fraction(places * missed.denominator, missed.numerator))
    return -(-bound // rate)


def shrunk_coin(x: Fraction, e: int, randomness: Randomness) -> bool:
    """Show heads with probability exp(-x) 2^e, for a natural number e with e ln 2 <= x.

    With z = x - e ln 2 = known + rest, where `known` is a multiple of 2^-STEP and `rest` is
    tiny, that is two coins: exp(-known), and exp(-rest) by von Neumann's series.
    """
    known = max(0, _around(x, e, STEP)[0])
    return coin(known, 1 << STEP, randomness) and _even_run_of_rest(x, e, known, randomness)


def likely_coin(
    x: Fraction, exponent: int, over: int, under: int, randomness: Randomness
) -> bool:
    """Show heads with probability exp(-x) 2^(exponent - 1) over / under: 1/2 at most."""
    digits = over.bit_length() - under.bit_length()
    if over << max(0, -digits) > under << max(0, digits):
        digits += 1
    # Now over / under lies between 2^(digits - 1) and 2^digits.
    shown = exponent + digits - 1
    spare = digits + max(0, -shown)
    if randomness.below(under << max(0, spare)) >= over << max(0, -spare):
        return False
    return shrunk_coin(x, max(0, shown), randomness)


def _around(x: Fraction, e: int, bits: int) -> tuple[int, int]:
    """Return integers around 2^bits (x - e ln 2)."""
    below, above = ln2_around(bits)
    scaled = x.numerator << bits
    return scaled // x.denominator - e * above, -(-scaled // x.denominator) - e * below


def _even_run_of_rest(x: Fraction, e: int, known: int, randomness: Randomness) -> bool:
    for k in range(1, ROUNDS + 1):
        if randomness.below(k) or not _below_rest(x, e, known, randomness):
            return k % 2 == 1
    raise broken()


def _below_rest(x: Fraction, e: int, known: int, randomness: Randomness) -> bool:
    """Return whether a uniform variate is below x - e ln 2 - known / 2^STEP.

    Its binary digits are drawn until they decide; the first STEP do, but for a probability of
    about e / 2^STEP.
    """
    digits = 0
    for bits in range(STEP, LONGEST + 1, STEP):
        digits = digits << STEP | randomness.below(1 << STEP)
        low, high = (bound - (known << bits - STEP) for bound in _around(x, e, bits))
        if digits >= high:
            return False
        if digits < low:
            return True
    raise broken()
