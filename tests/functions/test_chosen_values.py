"""From places to values: types, answers where noise is next to none, how far DP_MAX is off."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.errors import NameRefused, PlanRefused
from dpquery.functions.base import Facts
from dpquery.functions.distributions.mode_top_k import MOST_VALUES
from dpquery.functions.order_statistics import min_max as extremes
from dpquery.functions.quantize import value_of
from dpquery.ir.expr import ColumnRef
from dpquery.ir.query import Contribution
from tests.functions.tables import ALONE, Held, World, call, column, plan
from tests.mechanisms.histograms import Codes
from tests.mechanisms.sources import Seeded

MONEY = Type(Kind.DECIMAL, 0, 2)
SURE = 10**6
"""An epsilon at which noise is next to none."""


def listed(type_: Type, *keys: object) -> ColumnRef:
    return replace(column(type_), keys=keys)


@pytest.mark.parametrize(
    ("argument", "place", "value"),
    [
        (listed(TEXT, "a", "b"), 1, "b"),
        (listed(BOOLEAN, False, True), 0, False),
        (listed(INTEGER, -3, 2**62), 1, 2**62),
        (listed(MONEY, Fraction(1, 4), Fraction(5)), 0, Decimal("0.25")),
        (listed(MONEY, 5), 0, Decimal("5.00")),
        (listed(DATE, date(1969, 12, 31), date(2024, 2, 29)), 1, date(2024, 2, 29)),
        (listed(DATE, date(1969, 12, 31)), 0, date(1969, 12, 31)),
    ],
)
def test_a_listed_value_comes_back_in_the_type_of_its_column(argument, place, value):
    release = plan(call("DP_MODE", argument), ALONE)
    found = value_of(release.measure.code, place)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("type_", "low", "high", "place", "value"),
    [
        (BOOLEAN, None, None, 1, True),
        (INTEGER, -3, 5, 2, -1),
        (MONEY, "0.25", 5, 0, Decimal("0.25")),
        (DATE, 19_000, 19_010, 3, date(2022, 1, 11)),
    ],
)
def test_a_value_between_bounds_comes_back_in_the_type_of_its_column(
    type_, low, high, place, value
):
    release = plan(call("DP_MODE", column(type_, low, high)), ALONE)
    found = value_of(release.measure.code, place)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("type_", [TEXT, INTEGER, DATE])
def test_values_that_are_not_public_are_refused(type_):
    for function in ("DP_MODE", "DP_TOP_K"):
        with pytest.raises(PlanRefused) as refused:
            plan(replace(call(function, column(type_)), number=1), ALONE)
        assert refused.value.code == "DPQ402"


def test_more_values_than_can_be_weighed_are_refused():
    just = plan(call("DP_MODE", column(INTEGER, 1, MOST_VALUES)), ALONE)
    assert just.measure.code.cells == MOST_VALUES
    for facts, high, code in (
        (ALONE, MOST_VALUES + 1, "DPQ404"),
        (groups(257), MOST_VALUES, "DPQ405"),
    ):
        with pytest.raises(PlanRefused) as refused:
            plan(call("DP_MODE", column(INTEGER, 1, high)), facts)
        assert refused.value.code == code


def groups(number: int) -> Facts:
    return Facts(Contribution("unit", True, 1), Neighbours.ADD_REMOVE, number, True)


def test_a_list_is_no_longer_than_there_are_values():
    with pytest.raises(NameRefused):
        plan(replace(call("DP_TOP_K", column(INTEGER, 1, 3)), number=4), ALONE)


ROWS = [0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 5, None, None, None, None, None]
CERTAIN = [
    ("DP_MODE", None, 3),
    ("DP_MODE exponential", None, 3),
    ("DP_TOP_K", 3, [3, 1, 2]),
    ("DP_MIN", None, 0),
    ("DP_MAX", None, 5),
    ("DP_FIRST_ABOVE", 2, 1),
    ("DP_FIRST_ABOVE", 4, 3),
    ("DP_FIRST_ABOVE", 6, None),
    ("DP_AVG exponential", None, 27 / 12),
    ("DP_AVG inverse_sensitivity", None, 27 / 12),
]


BOTH = [(*case, weighted) for case in CERTAIN for weighted in (False, True)]


@pytest.mark.parametrize(
    ("query", "number", "value", "weighted"),
    [case for case in BOTH if not (case[-1] and case[0].startswith("DP_AVG"))],
)
def test_where_noise_is_next_to_none_the_answer_is_that_of_the_rows(
    query: str, number: int | None, value: object, weighted: bool
):
    name, _, mechanism = query.partition(" ")
    world = World(tuple(range(8)), 1, 1, weighted)
    held = Held(world, tuple(((0, row),) for row in ROWS))
    asked = call(name, world.argument, eps=SURE, mechanism=mechanism or None)
    release = plan(replace(asked, number=number), world.facts(Neighbours.SUBSTITUTE))
    (cell,) = release.run(held, Seeded(1))
    assert cell.interval(Fraction(95, 100)) is None
    if isinstance(value, float):
        assert cell.value == pytest.approx(value, abs=0.3 if "inverse" in query else 1e-4)
    else:
        assert cell.value == value


@pytest.mark.parametrize(("yes", "no"), [(3, 2), (2, 3), (1, 0)])
def test_a_majority_is_that_of_the_rows_with_a_truth_value(yes: int, no: int):
    world = World((None, False, True))
    rows = [True] * yes + [False] * no + [None] * 5
    held = Held(world, tuple(((0, row),) for row in rows))
    for relation in Neighbours:
        release = plan(call("DP_MAJORITY", world.argument, eps=SURE), world.facts(relation))
        assert [cell.value for cell in release.run(held, Seeded(2))] == [yes > no]


@pytest.mark.parametrize("function", ["DP_MIN", "DP_MAX"])
@pytest.mark.parametrize(
    ("type_", "low", "high"), [(INTEGER, -5, 5), (DOUBLE, -1, 1), (TIMESTAMP, 0, 10**15)]
)
def test_over_no_rows_an_extreme_is_the_end_where_the_search_starts(function, type_, low, high):
    release = plan(call(function, column(type_, low, high), eps=SURE), ALONE)
    (cell,) = release.run(Salaries(np.zeros(0, dtype=np.int64)), Seeded(3))
    candidates, _ = release.asked(Salaries(np.zeros(0, dtype=np.int64)), 0)
    assert cell.value == value_of(release.measure.code, candidates[0])


class Salaries:
    """One group of codes."""

    groups = 1

    def __init__(self, codes: np.ndarray) -> None:
        self.codes = Codes(codes)

    def histogram(
        self, measure: object, group: int, low: int, high: int, width: int
    ) -> np.ndarray:
        return self.codes(low, high, width)


@pytest.mark.parametrize("top", [10**6, 10**9])
def test_the_largest_salary_is_passed_by_a_few_rows_whatever_the_bound(top: int):
    """1,000 rows at epsilon 1, 200 draws: about 6 rows above, and far below the bound.

    The bounds are five standard errors away.
    """
    numbers = np.random.default_rng(4)
    codes = np.minimum(np.exp(numbers.normal(10.5, 0.5, 1000)), top).astype(np.int64)
    release = plan(call("DP_MAX", column(INTEGER, 0, top)), ALONE)
    randomness = Seeded(5)
    drawn = [release.run(Salaries(codes), randomness)[0].value for _ in range(200)]
    above = np.array([(codes > value).sum() for value in drawn])
    assert 4 < above.mean() < 8
    assert np.median(drawn) < 1.1 * codes.max()
    least = plan(call("DP_MIN", column(INTEGER, 0, top)), ALONE)
    drawn = [least.run(Salaries(codes), randomness)[0].value for _ in range(200)]
    assert 4 < np.mean([(codes < value).sum() for value in drawn]) < 14


@pytest.mark.parametrize("cells", [1, 100, 8193, 10**6, 2**63])
@pytest.mark.parametrize("zero", [0, 77, None])
@pytest.mark.parametrize("upwards", [False, True])
def test_candidates_reach_both_ends_and_grow_in_proportion(cells, zero, upwards):
    zero = cells if zero is None else min(zero, cells)
    found, starts = extremes.steps(tuple(extremes.ranges(cells, zero)), zero, upwards=upwards)
    assert len(found) == len(starts) <= 64 * 115
    assert found[-1] == (cells - 1 if upwards else 0)
    ways = [b - a if upwards else a - b for a, b in pairwise(found)]
    assert all(way > 0 for way in ways)
    for start, way in zip(found, ways, strict=False):
        assert way <= max(1, -(-(abs(start - zero) + way) // 32))


def test_asked_candidates_carry_all_weight_in_order():
    codes = np.random.default_rng(6).integers(-(10**5), 10**6, 5000)
    for function in ("DP_MIN", "DP_MAX"):
        release = plan(call(function, column(INTEGER, -(10**5), 10**6)), ALONE)
        candidates, weights = release.asked(Salaries(codes + 10**5), 0)
        assert sum(weights) == 5000
        steps = np.diff(candidates)
        assert (steps > 0).all() if function == "DP_MAX" else (steps < 0).all()
        running = np.cumsum(weights)
        for place in (0, 70, 500, len(candidates) - 1):
            value = candidates[place] - 10**5
            beyond = (codes <= value).sum() if function == "DP_MAX" else (codes >= value).sum()
            assert running[place] == beyond
