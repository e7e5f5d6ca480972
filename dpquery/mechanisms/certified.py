"""Coins of probability exp(-x) 2^e, exactly: what decides under an envelope of powers of two.

It knows rationals, the integers that enclose ln 2, and no claims. No floats (I8).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from dpquery.mechanisms.exponential import coin
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken

__all__ = ["likely_coin", "ln2_around", "log_above", "shrunk_coin", "tail_bound"]

STEP = 64
"""Binary digits by which a comparison is sharpened each time it stays open."""
LONGEST = 8 * STEP
"""Honest digits leave a comparison open for so long with probability below (e + 1) 2^-510."""


@lru_cache(maxsize=64)
def ln2_around(bits: int) -> tuple[int, int]:
    """Give integers below and above 2^bits ln 2, at most two apart.

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
    """Give at least ln(number), and at most 2^-bits more, for a number from 1.

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
    return coin(known, 1 << STEP, randomness) and _even_run(x, e, known, randomness)


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
    """Give integers around 2^bits (x - e ln 2)."""
    below, above = ln2_around(bits)
    scaled = x.numerator << bits
    return scaled // x.denominator - e * above, -(-scaled // x.denominator) - e * below


def _even_run(x: Fraction, e: int, known: int, randomness: Randomness) -> bool:
    for k in range(1, ROUNDS + 1):
        if randomness.below(k) or not _below_rest(x, e, known, randomness):
            return k % 2 == 1
    raise broken()


def _below_rest(x: Fraction, e: int, known: int, randomness: Randomness) -> bool:
    """Say whether a uniform variate is below x - e ln 2 - known / 2^STEP.

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
