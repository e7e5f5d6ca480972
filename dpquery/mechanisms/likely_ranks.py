"""How far off ranks are where rows lie about as densely all around: what is said beside bounds.

A bound on ranks that holds for any data holds for rows that crowd about a rank with a desert
beside it: it grows with the grid, and most data are nowhere near it. Where rows are spread
evenly, the law of the exponential mechanism is known: each draw is off by a two-sided
exponential error, whatever the grid and the number of rows, and lists are off by sums of them.
What is said here is of that law. It knows no data and decides nothing that is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

__all__ = ["Errors", "likely_off", "rows_for"]

Errors = tuple[tuple[Fraction, ...], ...]
"""For each order the scales of the independent errors that add up to its own, in weight."""
THINNER = 2
"""How many times as far apart rows may lie at one rank as at another that is nearer.

Rows that are drawn from an even law do not lie evenly. With 2, what is said at 95 % holds for
97.5 to 99 % of draws over all such data, and for 95 % or more on 9 of 10 of them at the rate
of 1 a rank, on nearly all at lower ones. With 3 it holds for up to 99.5 %: too wide.
"""
POINTS, REACH = 1 << 11, 48
"""Where a law is computed: at so many points, and so many of its largest scale to each side."""


@lru_cache(maxsize=1024)
def likely_off(errors: Errors, confidence: Fraction) -> int:
    """Return r so that all orders are off by r at most, as often as stated, on even data.

    An order is farther off with the chance of all farther ranks, each of which may be THINNER
    times as likely as if rows were even; the chances of the orders are added up.
    """
    if not 0 < confidence < 1:
        raise ValueError("a confidence lies between 0 and 1")
    largest = max(max(scales) for scales in errors)
    missed = _law(errors, float(largest))
    share = float(1 - confidence) / THINNER
    place = int(np.argmax(missed <= share)) if (missed <= share).any() else len(missed)
    return math.ceil(largest * Fraction(2 * REACH * (place + 1), POINTS))


def rows_for(orders: Sequence[Fraction], errors: Errors, most: Fraction) -> int:
    """Return over how many rows orders that are `most` off hold, in the unit of `most`.

    Twice as many as an order is off lie on either side of it then, so that the ends of the data
    are out of reach; of errors the largest is `most`. Rounded up to two digits.
    """
    sizes = [sum(scale * scale for scale in scales) for scales in errors]
    sides = [min(order, 1 - order) for order in orders]
    rows = max(
        (2 * most / side * Fraction(math.sqrt(size / max(sizes)))
         for size, side in zip(sizes, sides, strict=True) if side),
        default=Fraction(0),
    )  # fmt: skip
    whole = math.ceil(rows)
    digits: int = 10 ** max(0, len(str(whole)) - 2)
    return -(-whole // digits) * digits


def _law(errors: Errors, largest: float) -> np.ndarray:
    """Return how many orders are on average off by more than each point, from the middle on.

    A sum of two-sided exponential errors of scales a_i has the transform of the product of 1 /
    (1 + a_i^2 t^2).
    """
    t = np.pi / REACH * np.arange(POINTS // 2 + 1)
    transforms = np.ones((len(errors), len(t)))
    for number, scales in enumerate(errors):
        for scale in scales:
            transforms[number] /= 1 + (float(scale) / largest * t) ** 2
    chances = np.maximum(np.fft.irfft(transforms, POINTS, axis=1), 0)[:, : POINTS // 2]
    beyond = 2 * (chances[:, ::-1].cumsum(axis=1)[:, ::-1] - chances)
    return np.asarray(beyond.sum(axis=0))
