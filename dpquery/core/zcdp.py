"""From zero-concentrated privacy (rho) to epsilon and delta, and back.

It knows three numbers and no noise. Floats only search an order; what that order proves is
computed in decimals of 50 digits, each step rounded against the analyst (I8).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

UP, DOWN = Context(prec=50, rounding=ROUND_CEILING), Context(prec=50, rounding=ROUND_FLOOR)
"""A logarithm is rounded to nearest in either: its neighbours enclose it."""
SHORT_UP = Context(prec=9, rounding=ROUND_CEILING)
SHORT_DOWN = Context(prec=9, rounding=ROUND_FLOOR)
"""What a conversion gives has nine digits."""
ORDER = Context(prec=17)
GOLDEN = (math.sqrt(5) - 1) / 2
NARROWINGS = 50
LOWEST, HIGHEST = -60, 100
"""Binary logarithms of order - 1 between which the best order is searched."""
STEPS = 1024
"""Grid points per factor of two: the variance is within 0.1 % of the least provable one."""


@lru_cache(maxsize=1024)
def epsilon_above(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon for which rho-zCDP implies (epsilon, delta), rounded up to nine digits.

    Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), section 2.3: for every order a > 1,
    epsilon = a rho + ln(1 - 1/a) - ln(a delta) / (a - 1) will do. The least is searched; the
    search may miss it, and what it finds is proven all the same.
    """
    _require(rho, delta)
    if rho == 0:
        return Fraction(0)
    rate, tail = float(rho), _about_tail(delta)
    excess = _least(lambda exponent: (1 + math.exp2(exponent)) * rate + tail(exponent))
    spread = UP.multiply(UP.add(1, excess), UP.divide(rho.numerator, rho.denominator))
    proven = UP.add(spread, _tail_above(excess, delta))
    return max(Fraction(0), Fraction(SHORT_UP.plus(proven)))


@lru_cache(maxsize=1024)
def rho_below(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a rho for which rho-zCDP implies (epsilon, delta), rounded down to nine digits.

    It solves the same inequality for rho, at the order where that gives most; 0 if none does.
    """
    _require(epsilon, delta)
    limit, tail = float(epsilon), _about_tail(delta)
    excess = _least(lambda exponent: (tail(exponent) - limit) / (1 + math.exp2(exponent)))
    whole = DOWN.divide(epsilon.numerator, epsilon.denominator)
    left = DOWN.subtract(whole, _tail_above(excess, delta))
    proven = DOWN.divide(left, UP.add(1, excess))
    return max(Fraction(0), Fraction(SHORT_DOWN.plus(proven)))


def _require(loss: Fraction, delta: Fraction) -> None:
    if not 0 < delta < 1 or loss < 0:
        raise ValueError("delta lies between 0 and 1, and a loss is not negative")


def _about_tail(delta: Fraction) -> Callable[[float], float]:
    """Return ln(1 - 1/a) - ln(a delta) / (a - 1) as a function of log2(a - 1), about."""
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)

    def tail(exponent: float) -> float:
        excess = math.exp2(exponent)
        return -math.log1p(1 / excess) - (log_delta + math.log1p(excess)) / excess

    return tail


def _tail_above(excess: Decimal, delta: Fraction) -> Decimal:
    """Return the same, and no less than it is; excess is a - 1."""
    order = UP.add(1, excess)  # exact: between 2^-60 and 2^100, with 17 digits
    log_order = UP.next_minus(UP.ln(order))
    log_least = DOWN.subtract(
        UP.next_minus(UP.ln(delta.numerator)), UP.next_plus(UP.ln(delta.denominator))
    )
    first = UP.subtract(UP.next_plus(UP.ln(excess)), log_order)
    return UP.add(first, UP.divide(DOWN.add(log_least, log_order).copy_negate(), excess))


def _least(curve: Callable[[float], float]) -> Decimal:
    """Search where a curve that falls, then rises, is least, and give 2 to that power."""
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
    best = left if at_left < at_right else right
    return ORDER.create_decimal_from_float(math.exp2(best))


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
