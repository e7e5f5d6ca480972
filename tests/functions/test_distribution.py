"""Histograms and distributions: what one unit moves, and what is shown of noisy counts."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dpquery
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import INTEGER
from dpquery.functions.base import Facts, Release
from dpquery.functions.distributions.histogram_and_cdf import nearest_counts
from dpquery.ir.expr import Compare, Comparison, Expr, Literal
from tests.functions.tables import ALONE, NOWHERE, SUBSTITUTE, Held, World, call, column, plan
from tests.mechanisms.sources import Seeded

CODES = (None, 0, 1, 2, 3)
WORLDS = {
    "rows": World(CODES),
    "limit 1": World((None, 0, 1, 2), 1, 1, True),
    "limit 2": World((None, 0, 1, 2), 1, 2, True),
    "two groups": World((0, 1, 2), 2),
    "two groups, limit 2": World((0, 2), 2, 2, True),
}


def up_to(argument: Expr, *ends: int) -> tuple[Expr, ...]:
    return tuple(
        Compare(NOWHERE, Comparison.LE, argument, Literal(NOWHERE, end, INTEGER))
        for end in ends
    )


def release(name: str, argument: Expr, facts: Facts, *ends: int, **options: object) -> Release:
    asked = call(name, argument, **options)
    return plan(replace(asked, points=up_to(argument, *ends)), facts)


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("name", ["DP_HISTOGRAM", "DP_CDF", "gaussian"])
def test_one_unit_moves_the_counts_by_the_stated_distance(
    name: str, world: World, relation: Neighbours
) -> None:
    """In L1 norm, or in L2 norm; and the loss there is the epsilon that was asked for."""
    noise = {"mechanism": name, "delta": Fraction(1, 10**6)} if name == "gaussian" else {}
    function = "DP_HISTOGRAM" if noise else name
    planned = release(function, world.argument, world.facts(relation), 0, 1, **noise)

    def counts(units: tuple[object, ...]) -> tuple[int, ...]:
        held = Held(world, units)
        return tuple(part for one in planned.measures for part in held.values(one))

    found = [counts((unit,)) for unit in world.units()]
    others = found if relation is SUBSTITUTE else [counts(())]
    norm = 2 if noise else 1
    farthest = max(
        sum(abs(a - b) ** norm for a, b in zip(one, other, strict=True)) ** (1 / norm)
        for one in found
        for other in others
    )
    assert farthest == pytest.approx(float(planned.distance), rel=1e-9)
    assert farthest <= planned.distance
    assert planned.epsilon == 1


def test_counts_are_those_of_ranges_closed_above_and_leave_out_null() -> None:
    rows = [0, 1, 1, 2, 3, 3, 3, None]
    held = Held(World((0, 3)), tuple(((0, row),) for row in rows))
    for ends, counts in (((1,), [3, 4]), ((0, 1, 2), [1, 2, 1, 3]), ((7, 9), [7, 0, 0])):
        planned = release("DP_HISTOGRAM", column(INTEGER, 0, 3), ALONE, *ends, eps=1000)
        assert [cell.value for cell in planned.run(held, Seeded(1))] == [counts]
        planned = release("DP_CDF", column(INTEGER, 0, 3), ALONE, *ends, eps=1000)
        ((*shares,),) = [cell.value for cell in planned.run(held, Seeded(1))]
        assert shares == pytest.approx([sum(counts[: at + 1]) / 7 for at in range(len(ends))])


@pytest.mark.parametrize(
    ("low", "high", "parts"), [(0, 9, 5), (-3, 7, 4), (0, 99, 10), (1, 2, 2)]
)
def test_equal_parts_hold_nearly_equally_many_values(low: int, high: int, parts: int) -> None:
    asked = replace(call("DP_HISTOGRAM", column(INTEGER, low, high), eps=1000), number=parts)
    held = Held(World((low, high)), tuple(((0, row),) for row in range(low, high + 1)))
    ((*counts,),) = [cell.value for cell in plan(asked, ALONE).run(held, Seeded(1))]
    assert len(counts) == parts
    assert sum(counts) == high - low + 1
    assert max(counts) - min(counts) <= 1


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=8))
def test_what_is_shown_is_the_nearest_list_without_negatives(noisy: list[int]) -> None:
    """By the conditions of the least squares: equal steps, and none where it would be below."""
    shown = nearest_counts(list(map(Fraction, noisy)))
    assert min(shown) >= 0
    assert sum(shown) == max(sum(noisy), 0)
    taken = {one - after for one, after in zip(noisy, shown, strict=True) if after}
    assert len(taken) <= 1
    assert all(
        one <= step
        for one, after in zip(noisy, shown, strict=True)
        if not after
        for step in taken
    )


@pytest.mark.parametrize("eps", ["1/100", "1"])
@pytest.mark.parametrize("rows", [[], [0] * 3, [0, 7, 7, 11, 30, 39]])
def test_shares_rise_between_nothing_and_all(eps: str, rows: list[int]) -> None:
    """Beyond one level of the tree, too, and whatever the noise."""
    held = Held(World((0, 39)), tuple(((0, row),) for row in rows))
    planned = release("DP_CDF", column(INTEGER, 0, 39), ALONE, *range(39), eps=eps)
    for seed in range(5):
        ((*shares,),) = [cell.value for cell in planned.run(held, Seeded(seed))]
        assert len(shares) == 39
        assert all(0 <= a <= b <= 1 for a, b in pairwise(shares))


def test_the_error_of_shares_is_about_what_is_said() -> None:
    """Of the middle one of 12, over 1,000 rows; the sample's deviation is within a fifth."""
    held = Held(World((0, 12)), tuple(((0, row % 13),) for row in range(1001)))
    planned = release("DP_CDF", column(INTEGER, 0, 12), ALONE, *range(12), eps="1/2")
    said = float(planned.step().expected_error.split()[2])
    tree, randomness = planned.mechanism, Seeded(1)
    levels = tree.levels([held.values(one)[0] for one in planned.measures])
    drawn = [tuple(tree.sums(tree.noisy(levels, randomness))[1:]) for _ in range(200)]
    off = sorted(abs(planned.value(one)[6] - 7 / 13) for one in drawn)[190]
    assert said / 2 < off < said * 1.25
    assert math.isfinite(off)


class Repeated:
    """The same counts in many groups."""

    groups = 200

    def __init__(self, counts: list[int], planned: Release) -> None:
        self.known = dict(zip(planned.measures, counts, strict=True))

    def values(self, measure: object) -> tuple[int, ...]:
        return (self.known[measure],) * self.groups


@pytest.mark.parametrize("name", ["DP_HISTOGRAM", "DP_CDF"])
@pytest.mark.parametrize("ends", [3, 17])
def test_intervals_hold_each_exact_value_as_often_as_stated(name: str, ends: int) -> None:
    """Of 200 draws, P[more misses] < 1e-6; with and without levels above the leaves."""
    planned = release(name, column(INTEGER, 0, 99), ALONE, *range(ends), eps="1/2")
    counts = [10 * (at % 4) for at in range(ends + 1)]
    cells = planned.run(Repeated(counts, planned), Seeded(1))
    below = np.cumsum(counts)
    exact = np.array(counts) if name == "DP_HISTOGRAM" else below[:-1] / below[-1]
    found = np.array([cell.interval(Fraction(95, 100)) for cell in cells])
    shown = np.array([cell.value for cell in cells])
    missed = ((found[:, 0] > exact) | (exact > found[:, 1])).mean(axis=0)
    assert missed.max() <= stats.binom.isf(1e-6, Repeated.groups, 0.05) / Repeated.groups
    assert (found[:, 0] <= shown).all()
    assert (shown <= found[:, 1]).all()
    assert found.min() >= 0
    assert missed.max() > 0


def test_the_builder_writes_points_by_place_or_name() -> None:
    assert dpquery.histogram("age", [30, 40, 50], eps=1).written().text == (
        "DP_HISTOGRAM(age, [30, 40, 50], eps=1)"
    )
    assert dpquery.cdf("age", at=[30, 40, 50], eps=1).written().text == (
        "DP_CDF(age, at=[30, 40, 50], eps=1)"
    )
