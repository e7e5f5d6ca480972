"""From noisy integers to values: post-processing, which must hold for any integers at all."""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dpquery.core.types import DOUBLE, INTEGER, Kind, Type
from dpquery.functions.additive_releases import in_type
from dpquery.mechanisms import DiscreteLaplace
from tests.functions.tables import ALONE, Held, World, call, column, exact_vector, plan

NOISY = st.integers(-(10**40), 10**40) | st.integers(-100, 100)
BOUNDS = [(0, 10), (-7, -2), (-1, 1), (5, 5), (0, 10**12)]
SPREADS = ["DP_VAR_POP", "DP_VAR_SAMP", "DP_STDDEV_POP", "DP_STDDEV_SAMP"]
LARGEST = sys.float_info.max


def cell(function: str, noisy: tuple[int, ...], low=0, high=10, type_=INTEGER, eps=1):
    return plan(call(function, column(type_, low, high), eps=eps), ALONE).cell(noisy)


@given(NOISY, NOISY, st.sampled_from(BOUNDS))
def test_a_mean_is_what_the_calculus_says_and_stays_inside_the_bounds(q, p, bounds):
    low, high = bounds
    found = cell("DP_AVG", (q, p), low, high).value
    scale, p, q = max(high - low, 1), max(p, 0), max(q, 0)
    share = (p + Fraction(scale, 2)) / (p + q + scale)
    assert found == float(low + (high - low) * share)
    assert low <= found <= high


@given(NOISY, NOISY, NOISY, st.sampled_from(BOUNDS))
def test_a_variance_stays_inside_what_bounds_allow(b0, b1, b2, bounds):
    low, high = bounds
    found = cell("DP_VAR_POP", (b0, b1, b2), low, high).value
    assert 0 <= found <= (high - low) ** 2 / 4
    scale = Fraction(max(high - low, 1) ** 2, 3)
    b0, b1, b2 = (max(b, 0) + scale for b in (b0, b1, b2))
    total = b0 + b1 + b2
    share = b2 / total - ((b1 / 2 + b2) / total) ** 2
    assert found == pytest.approx(
        float((high - low) ** 2 * max(0, min(share, Fraction(1, 4)))), rel=1e-9
    )


@given(NOISY, NOISY, NOISY)
def test_samples_and_roots_follow_from_the_variance(b0, b1, b2):
    pop, samp, dev, dev_samp = (cell(name, (b0, b1, b2)).value for name in SPREADS)
    assert pop <= samp <= 2 * pop
    assert dev == pytest.approx(pop**0.5)
    assert dev_samp == pytest.approx(samp**0.5)


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_an_empty_input_gives_the_middle_of_the_bounds(low, high):
    assert cell("DP_AVG", (0, 0), low, high).value == (low + high) / 2
    assert cell("DP_VAR_POP", (0, 0, 0), low, high).value == pytest.approx(
        (high - low) ** 2 / 12
    )


@given(NOISY, NOISY, NOISY)
def test_bounds_of_one_point_leave_no_choice(b0, b1, b2):
    assert cell("DP_AVG", (b0, b1), 5, 5).value == 5
    assert cell("DP_VAR_SAMP", (b0, b1, b2), 5, 5).value == 0
    assert cell("DP_AVG", (b0, b1), 5, 5).interval(Fraction(95, 100)) == (5, 5)


ROWS = st.lists(st.integers(-2, 7) | st.none(), min_size=1, max_size=6)


@given(ROWS)
@example([None, 7])
def test_without_noise_to_speak_of_moments_are_those_of_the_rows(rows):
    """One unit per row, at so large an epsilon that the damping is below 1e-8 of a row."""
    values = [row for row in rows if row is not None]
    assume(values)
    world = World((-2, 7, None))
    held = Held(world, tuple(((0, row),) for row in rows))

    def found(name: str) -> float:
        release = plan(call(name, world.argument, eps=10**9), ALONE)
        return release.value(exact_vector(release, held))

    assert found("DP_AVG") == pytest.approx(statistics.mean(values), abs=1e-6)
    assert found("DP_VAR_POP") == pytest.approx(statistics.pvariance(values), abs=1e-6)
    if len(values) > 1:
        assert found("DP_VAR_SAMP") == pytest.approx(statistics.variance(values), abs=1e-5)


MONEY = Type(Kind.DECIMAL, 38, 2)


@pytest.mark.parametrize(
    ("value", "type_", "found"),
    [
        (Fraction(1, 2), INTEGER, 0),
        (Fraction(3, 2), INTEGER, 2),
        (Fraction(-1, 2), INTEGER, 0),
        (Fraction(-5, 2), INTEGER, -2),
        (Fraction(2**63), INTEGER, 2**63 - 1),
        (Fraction(-(2**64)), INTEGER, -(2**63)),
        (Fraction(1, 200), MONEY, Decimal("0.00")),
        (Fraction(3, 200), MONEY, Decimal("0.02")),
        (Fraction(-7, 3), MONEY, Decimal("-2.33")),
        (Fraction(10**40), MONEY, Decimal("9" * 36 + ".99")),
        (Fraction(-(10**40)), MONEY, Decimal("-" + "9" * 36 + ".99")),
        (Fraction(1, 3), DOUBLE, 1 / 3),
        (Fraction(10**400), DOUBLE, LARGEST),
        (Fraction(-(10**400)), DOUBLE, -LARGEST),
    ],
)
def test_a_number_is_rounded_half_to_even_and_cut_to_its_type(value, type_, found):
    given_back = in_type(value, type_)
    assert given_back == found
    assert type(given_back) is type(found)


def test_bounds_near_the_end_of_doubles_raise_nothing():
    """A sum, a variance or a width can pass the largest double though no value does."""
    ends = {"low": -Fraction(LARGEST), "high": Fraction(LARGEST), "type_": DOUBLE}
    for noisy in (-(10**30), 0, 10**30):
        assert abs(cell("DP_AVG", (0, noisy), **ends).value) <= LARGEST
        for name in SPREADS:
            found = cell(name, (noisy, 0, noisy), **ends)
            assert 0 <= found.value <= LARGEST
            low, high = found.interval(Fraction(95, 100))
            assert low <= found.value <= high
        release = plan(call("DP_SUM", column(DOUBLE, ends["low"], ends["high"])), ALONE)
        total = release.cell(noisy)
        assert abs(total.value) <= LARGEST
        low, high = total.interval(Fraction(95, 100))
        assert low <= total.value <= high


@given(NOISY, st.sampled_from([INTEGER, MONEY, DOUBLE]), st.integers(1, 2**32))
def test_the_interval_of_a_sum_holds_the_noise_around_the_value_that_is_shown(
    noisy, type_, scale
):
    noise, unit = DiscreteLaplace(Fraction(7 * scale)), Fraction(1, 100 * scale)
    count = plan(call("DP_COUNT"), ALONE)
    shown = replace(count, unit=unit, type=type_, mechanism=noise).cell(noisy)
    low, high = shown.interval(Fraction(95, 100))
    least, most = noise.interval(noisy, Fraction(95, 100))
    assert low <= shown.value <= high
    if type_ is not DOUBLE and abs(noisy * unit) < 2**60:
        assert Fraction(low) <= least * unit
        assert most * unit <= Fraction(high)
        assert shown.value - low == high - shown.value
