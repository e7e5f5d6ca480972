"""Sums of products that are known from above: what paths are drawn under.

Pairs of integers (a, x) stand for a 2^x or less each. How far a pair is above what it stands
for decides how often a draw starts anew, and never what it gives; that it is above, always, is
what the draw rests on. Integers only (I8).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import isqrt

import numpy as np

from dpquery.mechanisms.samplers import Int64s, Integers

Above = tuple[int, int]
"""(a, x) is a 2^x. The first has from FEW to MANY binary digits, unless the pair is NOTHING."""

POINT = 12
"""Binary digits after the point of exponents."""
FEW, BITS, MANY = 64, 96, 128
"""What is rounded upwards is one part in 2^63 at most."""
LEAST, END = 1 << FEW - 1, 1 << MANY
NOTHING: Above = (0, -1 << 200)
"""Zero; its exponent is below that of any other."""
SPARE = 32
"""`loosened` adds one part in 2^32: far more than many roundings take."""


def ceiled(a: int, x: int) -> Above:
    """Return a pair for an integer above zero, rounded upwards.

    >>> ceiled(5, 0) == (5 << 93, -93)
    True
    """
    spare = a.bit_length() - BITS
    return (a << -spare, x + spare) if spare <= 0 else ((a >> spare) + 1, x + spare)


def plus(one: Above, other: Above) -> Above:
    """Add two pairs."""
    (a, x), (b, y) = (one, other) if one[1] >= other[1] else (other, one)
    if b == 0:
        return a, x
    a += (b >> x - y if x - y < MANY else 0) + 1
    return (a, x) if a < END else ceiled(a, x)


def times(one: Above, factor: int) -> Above:
    """Multiply a pair by an integer above zero."""
    a, x = one[0] * factor, one[1]
    return (a, x) if a < END else ceiled(a, x)


def halved(one: Above, exponent: int) -> Above:
    """Multiply a pair by 2^-(exponent / 2^POINT), for an exponent from 0."""
    a, x = one
    if exponent == 0 or a == 0:
        return one
    a = (a * _FACTORS[exponent & MASK] >> FEW) + 1
    x -= exponent >> POINT
    return (a, x) if a >= LEAST else ceiled(a, x)


def loosened(one: Above) -> Above:
    """Add one part in 2^SPARE.

    A sum of n pairs is then above the sum of their integers too, where each of them was halved
    by itself and rounded upwards to the sum's own last digit: n 2^-63 + 2^-60 of all, or less.
    """
    a, x = one
    a += a >> SPARE
    return (a, x) if a < END else ceiled(a, x)


def _factors() -> list[int]:
    """Return 2^(FEW - f / 2^POINT) for f from 0, from above by less than 2.

    The root is found by taking square roots, in four times as many digits as are kept.
    """
    fine = 4 * FEW
    root = 1 << fine - 1
    for _ in range(POINT):
        root = isqrt(root << fine) + 1
    factors, power = [1 << FEW], 1 << fine
    for _ in range(1, 1 << POINT):
        power = (power * root >> fine) + 1
        factors.append((power >> fine - FEW) + 1)
    return factors


_FACTORS = _factors()
MASK = (1 << POINT) - 1

# From here on, many sums at a time: exponents x in 64 bits, each of which stands for
# 2^-(x / 2^POINT) or less.

FINE = 40
"""Binary digits of the parts of a sum; 2^22 of them fit 64 bits."""
WIDE = 62
NARROW_EXPONENT = 1 << 56
"""Exponents below this are computed in 64 bits."""
_SHRUNK: Int64s = np.array([(part >> 64 - FINE) + 1 for part in _FACTORS], np.int64)
"""2^(FINE - f / 2^POINT) for f from 0, rounded upwards."""
_GROWTHS = [1 << WIDE - 1, *(part - 2 >> 64 - WIDE for part in _FACTORS[:0:-1])]
"""2^(WIDE - 1 + f / 2^POINT) for f from 0, rounded downwards."""
_GROWTH: Int64s = np.array(_GROWTHS, np.int64)
_DOUBLED: Int64s = np.array([1 << digit for digit in range(WIDE + 1)], np.int64)


def as_exponents(numbers: Sequence[int]) -> Integers:
    """Return an array in 64 bits, or of Python's integers."""
    narrow = all(-NARROW_EXPONENT < number < NARROW_EXPONENT for number in numbers)
    return np.array(numbers, dtype=np.int64 if narrow else object)


def logarithm_above(number: int) -> int:
    """Return at least 2^POINT times the binary logarithm of an integer above zero.

    >>> logarithm_above(1), logarithm_above(8) - (3 << POINT), logarithm_above(3)
    (0, 0, 6493)
    """
    spare = number.bit_length() - WIDE
    scaled = number << -spare if spare <= 0 else -(-number >> spare)
    return (WIDE - 1 + spare << POINT) + bisect_left(_GROWTHS, scaled)


def parts_of(exponents: Int64s, least: int | Int64s) -> Int64s:
    """Return 2^(FINE + (least - exponent) / 2^POINT) for exponents from least; rounded up."""
    above = np.minimum(exponents - least, FINE + 1 << POINT)
    parts: Int64s = (_SHRUNK[above & MASK] >> (above >> POINT)) + 1
    return parts


def added(exponents: Int64s) -> Int64s:
    """Add up what exponents stand for over the axis before the last one."""
    least = exponents.min(axis=-2)
    sums = parts_of(exponents, least[..., None, :]).sum(axis=-2)
    digits = np.searchsorted(_DOUBLED, sums, "right")
    grown = np.searchsorted(_GROWTH, sums << WIDE - digits, "left")
    whole: Int64s = least + (FINE + 1 - digits << POINT) - grown
    return whole
