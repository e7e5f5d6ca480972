"""From zero-concentrated privacy (rho) to epsilon and delta: our one step through floats.

It knows three numbers and no noise. The result is rounded against the analyst (I8): the
epsilon it gives is never below what the theorem proves.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import lru_cache

__all__ = ["epsilon_above", "variance_ratio"]

SIGNIFICANT = Context(prec=9, rounding=ROUND_CEILING)
MARGIN = 1e-12
"""Of the sum of all terms: a thousand times what rounding in 53 bits can have taken."""
GOLDEN = (math.sqrt(5) - 1) / 2
NARROWINGS = 50
LOWEST, HIGHEST = -60, 100
"""Binary logarithms of order - 1 between which the best order is searched."""
STEPS = 1024
"""Grid points per factor of two: the variance is within 0.1 % of the least provable one."""


@lru_cache(maxsize=1024)
def epsilon_above(rho: Fraction, delta: Fraction) -> Fraction:
    """Give an epsilon for which rho-zCDP implies (epsilon, delta), rounded up to nine digits.

    Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), section 2.3: for every order a > 1,
    epsilon = a rho + ln(1 - 1/a) - ln(a delta) / (a - 1) will do. The least is searched; the
    search may miss it, and what it finds is proven all the same.
    """
    if not 0 < delta < 1 or rho < 0:
        raise ValueError("delta lies between 0 and 1, and rho is not negative")
    if rho == 0:
        return Fraction(0)
    rate, log_delta = float(rho), math.log(delta.numerator) - math.log(delta.denominator)

    def proven(exponent: float) -> float:
        excess = math.exp2(exponent)
        order, tail = 1 + excess, (log_delta + math.log1p(excess)) / excess
        terms = (order * rate, -math.log1p(1 / excess), -tail)
        return sum(terms) + MARGIN * sum(map(abs, terms))

    return max(Fraction(0), Fraction(SIGNIFICANT.create_decimal_from_float(_least(proven))))


def _least(curve: Callable[[float], float]) -> float:
    """Search the least value of a curve that falls, then rises, by golden sections."""
    low, high = float(LOWEST), float(HIGHEST)
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = curve(left), curve(right)
    for _ in range(NARROWINGS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = curve(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = curve(right)
    return min(at_left, at_right)


@lru_cache(maxsize=256)
def variance_ratio(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Give the least variance on a grid, for distance 1, that is proven to be (epsilon, delta).

    Raises:
        ValueError: no variance between 2^-60 and 2^140 is.
    """
    places = range(-60 * STEPS, 140 * STEPS)
    found = bisect_left(
        places, True, key=lambda at: epsilon_above(1 / (2 * _grid(at)), delta) <= epsilon
    )
    if found == len(places):
        raise ValueError("no noise of this law gives so small an epsilon at this delta")
    return _grid(places[found])


def _grid(place: int) -> Fraction:
    doublings, step = divmod(place, STEPS)
    return Fraction(STEPS + step, STEPS) * Fraction(2) ** doublings
