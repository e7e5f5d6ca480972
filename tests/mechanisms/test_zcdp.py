"""From rho to epsilon: never below what the theorem proves, and little above it."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.budget.accountant import basic
from dpquery.core.privacy_events import Concentrated
from dpquery.core.zcdp import epsilon_above, variance_ratio
from dpquery.mechanisms import DiscreteGaussian

RHOS = st.floats(-12, 6).map(lambda power: Fraction(Decimal(10) ** Decimal(power)))
DELTAS = st.integers(1, 40).map(lambda power: Fraction(1, 10**power))


def proven(rho: Fraction, delta: Fraction) -> Decimal:
    """The least epsilon over a fine choice of orders, in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        rate, share = (Decimal(x.numerator) / x.denominator for x in (rho, delta))

        def at(power: Decimal) -> Decimal:
            order = 1 + Decimal(2) ** power
            return order * rate + (1 - 1 / order).ln() - (order * share).ln() / (order - 1)

        best = min((Decimal(power) for power in range(-40, 80)), key=at)
        for digit in range(1, 9):
            steps = (best + place * Decimal(10) ** -digit for place in range(-10, 11))
            best = min(steps, key=at)
        return at(best)


@settings(max_examples=25)
@given(rho=RHOS, delta=DELTAS)
def test_epsilon_is_above_the_theorem_and_not_far(rho: Fraction, delta: Fraction) -> None:
    """The reference knows the best order to 1e-8, which it feels in its 16th digit."""
    exact = max(Decimal(0), proven(rho, delta))
    value = Decimal(epsilon_above(rho, delta).numerator)
    value /= epsilon_above(rho, delta).denominator
    assert exact * (1 - Decimal("1e-14")) <= value <= exact * (1 + Decimal("2e-8"))


def test_epsilon_grows_with_rho_and_falls_with_delta() -> None:
    rhos = [Fraction(place, 100) for place in range(60)]
    for delta in (Fraction(1, 10), Fraction(1, 10**6), Fraction(1, 10**300)):
        assert all(
            epsilon_above(a, delta) <= epsilon_above(b, delta) for a, b in pairwise(rhos)
        )
    deltas = [Fraction(1, 2**power) for power in range(1, 100)]
    for rho in (Fraction(1, 100), Fraction(3)):
        assert all(epsilon_above(rho, a) <= epsilon_above(rho, b) for a, b in pairwise(deltas))


@pytest.mark.parametrize("epsilon", ["1e-9", "0.1", "1", "7.5", "1e9"])
@pytest.mark.parametrize("delta", [Fraction(1, 2), Fraction(1, 10**6), Fraction(1, 10**400)])
def test_the_variance_is_the_least_on_its_grid(epsilon: str, delta: Fraction) -> None:
    wanted = Fraction(epsilon)
    ratio = variance_ratio(wanted, delta)
    assert epsilon_above(1 / (2 * ratio), delta) <= wanted
    assert epsilon_above(1 / (2 * ratio * Fraction(998, 1000)), delta) > wanted


def test_impossible_conversions_are_mistakes() -> None:
    for delta in (Fraction(0), Fraction(1), Fraction(-1)):
        with pytest.raises(ValueError, match="delta"):
            epsilon_above(Fraction(1), delta)
    with pytest.raises(ValueError, match="no noise"):
        variance_ratio(Fraction(1, 10**40), Fraction(1, 10**100))


def test_noise_that_was_asked_for_in_rho_has_it_exactly_and_says_so() -> None:
    rho, delta = Fraction(1, 200), Fraction(1, 10**6)
    noise = DiscreteGaussian.of_rho(3, rho, delta)
    assert noise.sigma2 == 900
    assert noise.event(3) == Concentrated(rho, epsilon_above(rho, delta), delta)
    assert noise.event(6).rho == 4 * rho
    assert basic([noise.event(3)]) == noise.loss(3)


def test_claims_at_other_distances_are_proven_there() -> None:
    noise = DiscreteGaussian.calibrated(10, Fraction(1), Fraction(1, 10**6))
    for distance in (1, 5, 9, 11, 20):
        loss = noise.loss(distance)
        assert loss.epsilon >= epsilon_above(noise.rho(distance), loss.delta)
        assert (loss.epsilon <= 1) == (distance < 10)
