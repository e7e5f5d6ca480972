"""Codes and weights: which integers stand for values, from policy and query alone."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    EPOCH,
    INTEGER,
    TIMESTAMP,
    Interval,
    Kind,
    Type,
    ordinal,
)
from dpquery.errors import NameRefused, PlanRefused
from dpquery.functions.base import WEIGHT_SCALE, Facts
from dpquery.functions.quantize import code_of, from_code
from dpquery.ir.measures import Weight
from dpquery.ir.query import Contribution
from tests.functions.tables import ALONE, call, column, plan

MONEY = Type(Kind.DECIMAL, 12, 2)
HUGE = Fraction(2**1023)


def coded(argument, *, origin_at_low=False, **options):
    return code_of(call("DP_SUM", argument, **options), origin_at_low=origin_at_low)


@given(st.fractions(), st.fractions())
@example(Fraction(0), Fraction(10**9))
@example(Fraction(0), Fraction(10**9) - Fraction(1, 10**9))
@example(-HUGE, HUGE)
@example(Fraction(-1, 10**290), Fraction(1, 10**300))
def test_a_double_has_a_power_of_ten_near_a_billionth_of_its_largest_bound(a, b):
    low, high = sorted((a, b))
    grid = coded(column(DOUBLE, low, high)).grid
    digits = str(max(grid, 1 / grid))
    assert digits.strip("0") == "1"
    if largest := max(abs(low), abs(high)):
        assert grid <= largest / 10**9 < 10 * grid


def test_a_decimal_of_too_many_steps_is_coded_as_a_double():
    fine = call("DP_MEDIAN", column(Type(Kind.DECIMAL, 38, 18), 0, 60))
    exact = code_of(fine, origin_at_low=True)
    assert (exact.expr, exact.size) == (fine.argument, 60 * 10**18)
    wide = code_of(fine, origin_at_low=True, most=2**63)
    assert wide.expr.type == DOUBLE
    assert wide.size == 6 * 10**9
    assert fine.about(wide.expr) == fine.about(exact.expr)
    assert code_of(fine, origin_at_low=True, most=10**20) == exact


def test_two_bounds_of_zero_leave_one_code():
    code = coded(column(DOUBLE, 0, 0))
    assert (code.low, code.high, code.size, code.cells) == (0, 0, 0, 1)


def test_the_policy_may_choose_the_grid_of_a_double():
    code = coded(column(DOUBLE, 0, 300_000, grid=Fraction(1, 100)))
    assert (code.grid, code.high) == (Fraction(1, 100), 30_000_000)


@pytest.mark.parametrize(
    ("type_", "low", "high", "codes"),
    [
        (INTEGER, -3, 120, (-3, 120)),
        (MONEY, Fraction(-1, 2), Fraction("10.25"), (-50, 1025)),
        (DATE, ordinal(date(1969, 12, 31)), ordinal(date(2000, 1, 1)), (-1, 10957)),
        (TIMESTAMP, 0, ordinal(EPOCH + timedelta(seconds=1)), (0, 10**6)),
    ],
)
def test_exact_types_stand_on_their_own_grid(type_, low, high, codes):
    code = coded(column(type_, low, high))
    assert (code.low, code.high) == codes
    assert code.grid == (Fraction(1, 100) if type_ is MONEY else 1)


def test_codes_count_from_zero_or_from_the_lower_bound():
    salary = column(INTEGER, 1000, 3000)
    assert coded(salary).size == 3000
    assert coded(salary, origin_at_low=True).size == 2000
    assert coded(column(INTEGER, -5, -2)).size == 5
    assert coded(column(INTEGER, -5, -2), origin_at_low=True).size == 3


@pytest.mark.parametrize("grid", ["1", "0.5", "3"])
@pytest.mark.parametrize(("low", "high"), [("-0.75", "0.25"), ("-7.5", "-2.5"), ("1.5", "1.5")])
def test_bounds_between_two_steps_go_to_the_nearer_one_and_halves_up(low, high, grid):
    step = Fraction(grid)
    code = coded(column(DOUBLE, low, high, grid=step))
    for end, found in ((low, code.low), (high, code.high)):
        assert -step / 2 < Fraction(end) - found * step < step / 2 or (
            found * step - Fraction(end) == step / 2
        )


def test_a_condition_is_one_or_zero():
    code = coded(column(BOOLEAN))
    assert (code.low, code.high, code.grid) == (0, 1, 1)


@pytest.mark.parametrize(
    ("asked", "found"), [((10, 20), (10, 20)), ((-10, 20), (0, 20)), ((50, 500), (50, 100))]
)
def test_a_query_may_narrow_bounds_and_not_widen_them(asked, found):
    code = coded(column(INTEGER, 0, 100), bounds=Interval(*map(Fraction, asked)))
    assert (code.low, code.high) == found


def test_bounds_beside_the_columns_own_leave_nothing():
    with pytest.raises(NameRefused) as refusal:
        coded(column(INTEGER, 0, 100), bounds=Interval(Fraction(101), Fraction(200)))
    assert refusal.value.code == "DPQ205"


def test_what_the_type_can_hold_is_no_bound_that_somebody_chose():
    unchosen = replace(column(INTEGER, -(2**63), 2**63 - 1), bounded=False)
    with pytest.raises(PlanRefused) as refusal:
        coded(unchosen)
    assert refusal.value.code == "DPQ401"
    assert coded(unchosen, bounds=Interval(Fraction(0), Fraction(9))).high == 9


@pytest.mark.parametrize(
    ("code", "grid", "type_", "value"),
    [
        (-3, Fraction(1), INTEGER, -3),
        (1025, Fraction(1, 100), MONEY, Decimal("10.25")),
        (-1, Fraction(1), DATE, date(1969, 12, 31)),
        (1, Fraction(1), TIMESTAMP, EPOCH + timedelta(microseconds=1)),
        (3, Fraction(1, 10), DOUBLE, 0.3),
    ],
)
def test_a_code_is_given_back_in_the_type_of_its_column(code, grid, type_, value):
    found = from_code(code, grid, type_)
    assert found == value
    assert type(found) is type(value)


WEIGHTED = Facts(Contribution("unit", False, 3), Neighbours.ADD_REMOVE, 1, False)


@pytest.mark.parametrize(
    ("size", "scale"),
    [(1, WEIGHT_SCALE), (2**58 - 1, WEIGHT_SCALE), (2**58, 2**31), (2**74 - 1, 2**16)],
)
def test_the_scale_of_weights_gives_way_to_wide_sums(size, scale):
    found = WEIGHTED.weight(call("DP_SUM"), size)
    assert found == Weight(3, scale)
    assert 2**36 * scale * size < 2**126


@pytest.mark.parametrize(("facts", "size"), [(WEIGHTED, 2**74), (ALONE, 2**90)])
def test_a_sum_that_cannot_fit_is_refused(facts, size):
    with pytest.raises(PlanRefused) as refusal:
        facts.weight(call("DP_SUM"), size)
    assert refusal.value.code == "DPQ404"
    facts.weight(call("DP_SUM"), size - 1)


def test_a_call_sets_its_own_limit_where_units_have_several_rows():
    asked = call("DP_COUNT", max_rows_contributed=7)
    assert WEIGHTED.weight(asked) == Weight(7, WEIGHT_SCALE)
    assert ALONE.weight(asked) == Weight()


@pytest.mark.parametrize("facts", [ALONE, WEIGHTED])
@pytest.mark.parametrize(
    ("name", "top", "degree"),
    [("DP_SUM", 2**63 - 1, 1), ("DP_AVG", 2**63 - 1, 1), ("DP_VAR_POP", 10**9, 2)],
)
def test_the_widest_sums_of_a_plan_fit_the_engines_integers(facts, name, top, degree):
    release = plan(call(name, column(INTEGER, 0, top)), facts)
    (weight,) = {measure.weight for measure in release.measures}
    assert 2**36 * weight.scale * top**degree < 2**126


@pytest.mark.parametrize("order", ["1/2", "1/10", "999/1000"])
def test_the_scores_of_a_weighted_quantile_fit_in_64_bits(order):
    release = plan(call("DP_QUANTILE", column(INTEGER, 0, 9), order=order), WEIGHTED)
    scale = release.measure.weight.scale
    assert 2**16 <= scale < WEIGHT_SCALE
    assert scale == 2**16 or Fraction(order).denominator * 2**36 * scale < 2**62


def test_a_quantile_on_more_cells_than_can_be_numbered_is_refused():
    widest = Interval(Fraction(-(2**63)), Fraction(2**63 - 1))
    with pytest.raises(PlanRefused) as refusal:
        plan(call("DP_MEDIAN", column(INTEGER, -(2**63), 2**63 - 1), bounds=widest), ALONE)
    assert refusal.value.code == "DPQ404"
    release = plan(call("DP_MEDIAN", column(INTEGER, 0, 2**63 - 1)), ALONE)
    assert math.log2(release.mechanism.cells) == 63
