"""Gaussian noise by its own law: what is proven holds exactly, and little is given away."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpquery.core.analytic_gaussian import _delta_above, is_proven, least_variance, smoothing
from dpquery.core.privacy_loss import root_above
from dpquery.core.zcdp import variance_ratio
from dpquery.mechanisms import DiscreteGaussian
from tests.mechanisms.laws import hockey_stick, pmf_vector

ONE = Fraction(1)


def exact_delta(spread: float, epsilon: float) -> float:
    """That of normal noise, where doubles know it."""
    shift = 1 / spread
    ends = (epsilon / shift - shift / 2, epsilon / shift + shift / 2)
    first, last = map(stats.norm.logsf, ends)
    return math.exp(first) * -math.expm1(epsilon + last - first)


@settings(max_examples=60)
@given(st.floats(0.3, 100), st.floats(0.01, 19))
def test_delta_is_that_of_the_normal_law_and_not_less(spread: float, epsilon: float):
    ratio = Fraction(spread) ** 2
    found, exact = float(_delta_above(ratio, Fraction(epsilon))), exact_delta(spread, epsilon)
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-70)


def test_delta_of_laws_that_doubles_cannot_tell_apart():
    """For a shift so small that delta is about f(a) m, the first term of its series."""
    spread, epsilon = Fraction(10**12), Fraction(1, 10**12)
    first = math.exp(-0.5) / math.sqrt(2 * math.pi) - stats.norm.sf(1)
    assert float(_delta_above(spread**2, epsilon)) * 1e12 == pytest.approx(first, rel=1e-9)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), ONE, Fraction(3), Fraction(9)])
@pytest.mark.parametrize("shifts", [(1,), (2,), (3,), (1, 1), (1, 2)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**3), Fraction(1, 10**6)])
def test_discrete_noise_keeps_its_delta(
    shifts: tuple[int, ...], epsilon: Fraction, delta: Fraction
):
    """By the exact law, in one and two dimensions."""
    distance = root_above(sum(one * one for one in shifts))
    noise = DiscreteGaussian.calibrated(distance, epsilon, delta)
    attained = hockey_stick(pmf_vector(noise), shifts, float(epsilon))
    assert attained <= delta
    if noise.sigma2 > 30:
        assert attained >= delta / 2


def test_less_noise_than_by_way_of_rho():
    for epsilon, delta, spread in (("1", 5, 3.79), ("0.1", 5, 30.9), ("1", 6, 4.28)):
        noise = DiscreteGaussian.calibrated(1, Fraction(epsilon), Fraction(1, 10**delta))
        assert float(noise.scale_shown) == pytest.approx(spread, rel=0.01)
        by_rho = variance_ratio(Fraction(epsilon), Fraction(1, 10**delta))
        assert noise.sigma2 < Fraction(93, 100) * by_rho


def test_what_is_least_is_proven_and_less_is_not():
    for distance in (ONE, root_above(2), Fraction(10**9)):
        for epsilon in (Fraction(1, 100), ONE, Fraction(19)):
            least = least_variance(distance, epsilon, Fraction(1, 10**6))
            assert least is not None
            claimed = distance, epsilon, Fraction(1, 10**6)
            assert is_proven(least, *claimed)
            # Farther off there is room to spare: the least has one rho at all distances.
            assert distance != ONE or not is_proven(least * Fraction(99, 100), *claimed)
            assert least == distance**2 * (least_variance(ONE, *claimed[1:]) or 0)
    assert least_variance(ONE, Fraction(21), Fraction(1, 10**6)) is None
    assert not is_proven(Fraction(10**6), ONE, Fraction(21), Fraction(1, 10**6))


@pytest.mark.parametrize("distance", [1, 100, 10**12])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), ONE, Fraction(20)])
def test_what_is_taken_off_is_enough(distance: int, epsilon: Fraction):
    """Every n values that move: n h stays below half of what is left to it."""
    taken = smoothing(Fraction(distance), epsilon)
    apart = 2 * sum(math.exp(-2 * math.pi**2 * n * n * float(taken)) for n in (1, 2, 3))
    moved = distance**2 * (math.log1p(apart) - math.log1p(-apart))
    assert moved <= float(min(epsilon, ONE)) / 2048
    assert moved >= float(min(epsilon, ONE)) / 2048 / 100
