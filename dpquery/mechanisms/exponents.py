"""Sums that are known from above, many at a time, as exponents in 64 bits.

It knows integers x, each of which stands for 2^-(x / 2^POINT) or less, and no claims. How far
sums are above what they stand for decides how often a draw starts anew, and never what it
gives; that they are above, always, is what the draw rests on. Integers only (I8).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from dpquery.mechanisms.above import POINT, powers_above
from dpquery.mechanisms.exponential import Int64s, Integers

__all__ = [
    "FINE",
    "NARROW_EXPONENT",
    "POINT",
    "added",
    "as_exponents",
    "logarithm_above",
    "parts_of",
]

FINE = 40
"""Binary digits of the parts of a sum; 2^22 of them fit 64 bits."""
WIDE = 62
NARROW_EXPONENT = 1 << 56
"""Exponents below this are computed in 64 bits."""
MASK = (1 << POINT) - 1
_SHRUNK: Int64s = np.array([(part >> 64 - FINE) + 1 for part in powers_above()], np.int64)
"""2^(FINE - f / 2^POINT) for f from 0, rounded upwards."""
_GROWTHS = [1 << WIDE - 1, *(part - 2 >> 64 - WIDE for part in powers_above()[:0:-1])]
"""2^(WIDE - 1 + f / 2^POINT) for f from 0, rounded downwards."""
_GROWTH: Int64s = np.array(_GROWTHS, np.int64)
_DOUBLED: Int64s = np.array([1 << digit for digit in range(WIDE + 1)], np.int64)


def as_exponents(numbers: Sequence[int]) -> Integers:
    """Give an array in 64 bits, or of Python's integers."""
    narrow = all(-NARROW_EXPONENT < number < NARROW_EXPONENT for number in numbers)
    return np.array(numbers, dtype=np.int64 if narrow else object)


def logarithm_above(number: int) -> int:
    """Give at least 2^POINT times the binary logarithm of an integer above zero.

    >>> logarithm_above(1), logarithm_above(8) - (3 << POINT), logarithm_above(3)
    (0, 0, 6493)
    """
    spare = number.bit_length() - WIDE
    scaled = number << -spare if spare <= 0 else -(-number >> spare)
    return (WIDE - 1 + spare << POINT) + bisect_left(_GROWTHS, scaled)


def parts_of(exponents: Int64s, least: int | Int64s) -> Int64s:
    """Give 2^(FINE + (least - exponent) / 2^POINT) for exponents from least; rounded up."""
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
