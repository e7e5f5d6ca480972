"""Sums known from above: never below what they stand for, and hardly above it."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.mechanisms.quantiles.sampling.directed_rounding import (
    NOTHING,
    POINT,
    Above,
    ceiled,
    halved,
    loosened,
    plus,
    times,
)

PAIRS = st.builds(ceiled, st.integers(1, 2**200), st.integers(-400, 400))
HARDLY = 1 + Fraction(1, 2**60)


def value(pair: Above) -> Fraction:
    return pair[0] * Fraction(2) ** pair[1] if pair[0] else Fraction(0)


def shrunk(pair: Above, exponent: int) -> tuple[Decimal, Decimal]:
    """A pair times a power of two, and the pair that is said to be above it."""
    with localcontext() as context:
        context.prec = 80
        power = Decimal(2) ** (Decimal(-exponent) / 2**POINT)
        exact = pair[0] * Decimal(2) ** pair[1] * power
        a, x = halved(pair, exponent)
        return exact, a * Decimal(2) ** x


@given(one=PAIRS, other=st.one_of(st.just(NOTHING), PAIRS), factor=st.integers(1, 2**300))
def test_sums_and_products_are_above_by_hardly_anything(
    one: Above, other: Above, factor: int
) -> None:
    for found, exact in (
        (plus(one, other), value(one) + value(other)),
        (plus(other, one), value(one) + value(other)),
        (times(one, factor), value(one) * factor),
    ):
        assert exact <= value(found) <= exact * HARDLY
        assert 64 <= found[0].bit_length() <= 128


@given(number=st.integers(1, 2**300), exponent=st.integers(-(10**9), 10**9))
def test_a_number_is_kept_in_96_digits(number: int, exponent: int) -> None:
    a, x = ceiled(number, exponent)
    exact = number * Fraction(2) ** (exponent - x)
    assert exact <= a <= exact + 1
    assert a.bit_length() in {96, 97}


@given(pair=PAIRS, exponent=st.one_of(st.integers(0, 3 << POINT), st.integers(0, 10**6)))
def test_halving_is_above_by_hardly_anything(pair: Above, exponent: int) -> None:
    exact, found = map(Fraction, shrunk(pair, exponent))
    assert exact * (1 - Fraction(1, 10**70)) <= found <= exact * (1 + Fraction(1, 10**17))


@given(pair=PAIRS, exponents=st.lists(st.integers(0, 10**5), max_size=100))
def test_many_small_steps_keep_their_digits(pair: Above, exponents: list[int]) -> None:
    found = pair
    for exponent in exponents:
        found = halved(found, exponent)
    exact, once = shrunk(pair, sum(exponents))
    stepped = found[0] * Fraction(2) ** found[1]
    assert Fraction(exact) * (1 - Fraction(1, 10**20)) <= stepped
    assert stepped <= Fraction(once) * (1 + (len(exponents) + 1) * Fraction(1, 2**60))


@given(parts=st.lists(PAIRS, min_size=1, max_size=50))
def test_a_loosened_sum_has_room_for_its_rounded_parts(parts: list[Above]) -> None:
    total = NOTHING
    for part in parts:
        total = plus(total, part)
    end, exponent = loosened(total)
    rounded = [-(-value(part) // Fraction(2) ** exponent) for part in parts]
    assert sum(rounded) <= end


@pytest.mark.parametrize("exponent", [0, 1, 10**9])
def test_nothing_stays_nothing(exponent: int) -> None:
    assert halved(NOTHING, exponent) == NOTHING == plus(NOTHING, NOTHING) == loosened(NOTHING)
