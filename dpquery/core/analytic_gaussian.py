"""Gaussian noise: from its variance to delta at an epsilon, without the way by rho.

For a shift by d, normal noise of variance s2 is (epsilon, delta)-indistinguishable with delta
= Q(a) - exp(epsilon) Q(b), for m = d / sqrt(s2), a = epsilon / m - m / 2, b = a + m, and Q the
upper tail of the standard normal law; no smaller delta will do (Balle, Wang 2018,
arXiv:1805.06530). With f the density, exp(epsilon) f(b) = f(a), so that it is f(a) times R(a) -
R(b) for Mills' ratio R = Q / f. In several dimensions the length of the shift is what counts.

Our noise is discrete. What it has in common with normal noise is shown in `smoothing`.

Decimals with an explicit bound on their error; what is claimed is rounded up (I8).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache

LARGEST = Fraction(20)
"""The largest epsilon: beyond, discreteness matters more than what is gained."""
SLACK = Fraction(1, 1024)
"""The part of epsilon, and of delta, that is left to what is discrete."""
FAR = 39
"""Beyond so many deviations there is less than 10^-330 of the normal law."""
SPARE = 80
"""Digits of Mills' ratio after the point, at least."""
STEPS = 1024
"""Grid points per factor of two: the variance is within 0.1 % of the least there is."""


def smoothing(distance: Fraction, epsilon: Fraction) -> Fraction:
    """Return what is taken off a variance before it is read as that of normal noise.

    Take normal noise X of variance s2 - t, and round it to an integer k with probability in
    proportion to exp(-(k - X)^2 / (2 t)). But for the sum of these weights, which goes along
    with X, that gives the discrete Gaussian law of variance s2 exactly: exponents add. By
    Poisson summation the sum is the same for all X up to a factor between 1 - c and 1 + c, with
    c = 2 (exp(-2 pi^2 t) + exp(-8 pi^2 t) + ...). So both laws, each adding up to 1, are within
    a factor exp(h) = (1 + c) / (1 - c) of each other. The rounding commutes with shifts by
    integers, and is post-processing of noise that is (epsilon', delta')-indistinguishable. If n
    values are shifted, discrete noise is (epsilon' + 2 n h, exp(n h) delta')-indistinguishable;
    values that are not shifted say nothing. As shifts are integers, n is d^2 at most.

    This t has 2 n h <= SLACK epsilon and exp(n h) (1 - SLACK) <= 1: with n h <= x = SLACK
    min(epsilon, 1) / 2. For c <= 1/4, h <= 17/8 c, and c <= 17/8 exp(-2 pi^2 t); so 2 pi^2 t >=
    ln(5 n / x) will do, and pi^2 > 9.8. The logarithm of a float is off by far less than is
    rounded up here.
    """
    least = SLACK * min(epsilon, Fraction(1)) / 2
    ratio = 5 * max(1, math.floor(distance**2)) / least
    log = math.log(ratio.numerator) - math.log(ratio.denominator)
    return Fraction(math.ceil(log * 1024 / 19.6) + 1, 1024)


def is_proven(
    variance: Fraction, distance: Fraction, epsilon: Fraction, delta: Fraction
) -> bool:
    """Return whether discrete noise is shown to be (epsilon, delta) at a distance."""
    rest = variance - smoothing(distance, epsilon)
    if rest <= 0 or epsilon > LARGEST:
        return False
    return _delta_above(rest / distance**2, epsilon * (1 - SLACK)) <= delta * (1 - SLACK)


def least_variance(distance: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Return the least variance on a grid that is shown so; None where there is none.

    It goes with the square of the distance, so that rho is the same before a limit is found and
    after it: from 1 on, `smoothing` grows more slowly than that.
    """
    if epsilon > LARGEST or distance < 1:
        return None
    ratio = _least_ratio(epsilon * (1 - SLACK), delta * (1 - SLACK))
    return distance**2 * (ratio + smoothing(Fraction(1), epsilon))


@lru_cache(maxsize=256)
def _least_ratio(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the least variance on a grid of normal noise at distance 1."""
    places = range(-20 * STEPS, 200 * STEPS)
    found = bisect_left(places, True, key=lambda at: _delta_above(_grid(at), epsilon) <= delta)
    return _grid(places[found])


def _grid(place: int) -> Fraction:
    doublings, step = divmod(place, STEPS)
    return Fraction(STEPS + step, STEPS) * Fraction(2) ** doublings


@lru_cache(maxsize=4096)
def _delta_above(ratio: Fraction, epsilon: Fraction) -> Fraction:
    """Return at least the delta of normal noise of such a variance, at distance 1.

    With P digits each step is off by a part of 10^-P. The largest numbers are of the size of
    exp(b^2 / 2), and there are fewer than 10^4 steps: the error is below 10^(6 - P) times that.
    """
    about = math.sqrt(ratio.denominator / ratio.numerator)
    a, b = float(epsilon) / about - about / 2, float(epsilon) / about + about / 2
    if a >= FAR:
        return Fraction(1, 10**300)
    if b > FAR + 1:
        return Fraction(1)
    size = math.ceil(b * b / 4.6) + 1
    with_ = _context(SPARE + 6 + size)
    shift = with_.sqrt(with_.divide(Decimal(ratio.denominator), Decimal(ratio.numerator)))
    half = with_.divide(shift, 2)
    middle = with_.divide(
        with_.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)), shift
    )
    first, last = with_.subtract(middle, half), with_.add(middle, half)
    root = with_.sqrt(with_.multiply(2, _pi(with_)))
    apart = with_.subtract(_mills(first, root, with_), _mills(last, root, with_))
    apart = with_.add(apart, Decimal(1).scaleb(-SPARE, with_))
    density = with_.divide(_bell(first, -1, with_), root)
    return Fraction(with_.multiply(density, apart))


def _context(digits: int) -> Context:
    return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _bell(x: Decimal, sign: int, with_: Context) -> Decimal:
    """Return exp(x^2 / 2), or its inverse."""
    return with_.exp(with_.divide(with_.multiply(x, x), 2 * sign))


def _mills(x: Decimal, root: Decimal, with_: Context) -> Decimal:
    """Return Q(x) / f(x), for the root of 2 pi.

    That is half of root exp(x^2 / 2), less the sum of x^(2 n + 1) / (1 3 5 ... (2 n + 1)). From
    where a term is less than half of the one before, the rest adds up to less than the last.
    """
    square, term = with_.multiply(x, x), x
    total, n = x, 0
    least = Decimal(1).scaleb(-with_.prec, with_)
    while term.copy_abs() > least or square * 2 > 2 * n + 1:
        n += 1
        term = with_.divide(with_.multiply(term, square), 2 * n + 1)
        total = with_.add(total, term)
    return with_.subtract(with_.multiply(with_.divide(root, 2), _bell(x, 1, with_)), total)


def _pi(with_: Context) -> Decimal:
    """Return pi, by Machin's formula, in integers."""
    unit: int = 10 ** (with_.prec + 10)

    def arctangent(inverse: int) -> int:
        power = unit // inverse
        total, n = power, 1
        while power:
            power //= -inverse * inverse
            n += 2
            total += power // n
        return total

    return with_.divide(Decimal(4 * (4 * arctangent(5) - arctangent(239))), Decimal(unit))
