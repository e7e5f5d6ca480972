"""Quantiles from a tree of counts: the claim from the law of its noise, and what is read."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Loss, Neighbours
from dpquery.mechanisms import DiscreteLaplace, TreeQuantiles
from dpquery.mechanisms.quantiles.tree import BRANCHES, POINT, _agreed, _rising
from tests.mechanisms.histograms import Codes, Rows, salaries
from tests.mechanisms.joint_laws import neighbours, single_rows
from tests.mechanisms.laws import Cells, log_ratio
from tests.mechanisms.quantile_suite import (
    ADD_REMOVE,
    ONE,
    ORDERS,
    SUBSTITUTE,
    calibrated,
    ranks_off,
)
from tests.mechanisms.sources import Seeded

QUARTILES = ORDERS["quartiles"]
PERCENTILES = tuple(Fraction(k, 100) for k in range(1, 100))
MANY = 300
"""Cells of a tree of three levels; rows are in a few of them."""
PLACES = (0, 1, 16, 299)


def tree(relation: Neighbours, weight: int = 1) -> TreeQuantiles:
    return calibrated(TreeQuantiles, QUARTILES, MANY, relation, weight=weight)


def worst_loss(mechanism: TreeQuantiles, relation: Neighbours, weight: int = 1) -> float:
    """The largest log-ratio of the law of the noisy tree, over all neighbours."""

    def nodes(weights: tuple[int, ...]) -> list[int]:
        rows = Rows(dict(zip(PLACES, weights, strict=True)))
        return [count for level in mechanism.counts(rows) for count in level]

    noise, kinds = DiscreteLaplace(mechanism.scale), single_rows(len(PLACES), weight)
    pairs = neighbours(kinds, 2, relation)
    return max(log_ratio(noise, nodes(a), nodes(b)) for a, b in pairs)


@pytest.mark.parametrize("weight", [1, 4])
@pytest.mark.parametrize("relation", Neighbours)
def test_the_tree_loses_exactly_its_epsilon(relation: Neighbours, weight: int) -> None:
    found = worst_loss(tree(relation, weight), relation, weight)
    assert found == pytest.approx(1, abs=1e-12)


def test_one_level_paid_for_three_fails() -> None:
    right = tree(ADD_REMOVE)
    wrong = replace(right, scale=right.scale / len(right.sizes))
    assert worst_loss(wrong, ADD_REMOVE) == pytest.approx(3)


def test_the_scale_of_added_rows_fails_for_replaced_ones() -> None:
    assert worst_loss(tree(ADD_REMOVE), SUBSTITUTE) == pytest.approx(2)


def test_the_noise_of_each_count_has_the_law() -> None:
    """20,000 counts, false alarm 1e-6; another scale is noticed."""
    mechanism = TreeQuantiles(QUARTILES, 20_000, Fraction(8))
    noisy = mechanism.noisy([[0] * 20_000, [0] * 1250], Seeded(7))
    assert Cells(DiscreteLaplace(Fraction(8))).p_value(noisy[0]) > 1e-6
    assert Cells(DiscreteLaplace(Fraction(9))).p_value(noisy[0]) < 1e-6
    assert len(set(noisy[1])) > 10


def test_release_reads_what_is_noisy_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, seen = tree(ADD_REMOVE), []
    monkeypatch.setattr(TreeQuantiles, "read", lambda _, noisy: seen.append(noisy) or [])
    mechanism.release(Rows({3: 5, 200: 7}), Seeded(1))
    assert seen == [mechanism.noisy(mechanism.counts(Rows({3: 5, 200: 7})), Seeded(1))]


@pytest.mark.parametrize(
    ("cells", "leaves", "width", "sizes"),
    [
        (1, 1 << 16, 1, [1]),
        (16, 1 << 16, 1, [16]),
        (17, 1 << 16, 1, [17, 2]),
        (300, 1 << 16, 1, [300, 19, 2]),
        (1 << 16, 1 << 16, 1, [65536, 4096, 256, 16]),
        ((1 << 16) + 1, 1 << 16, 2, [32769, 2049, 129, 9]),
        (1 << 63, 1 << 16, 1 << 47, [65536, 4096, 256, 16]),
        (300, 4, 128, [3]),
    ],
)
def test_the_tree_follows_from_the_grid(
    cells: int, leaves: int, width: int, sizes: list[int]
) -> None:
    mechanism = TreeQuantiles(QUARTILES, cells, ONE, leaves)
    assert (mechanism.width, mechanism.sizes) == (width, sizes)
    counts = mechanism.counts(Rows({cells // 2: 5}))
    assert [len(level) for level in counts] == sizes
    assert {sum(level) for level in counts} == {5}


@given(
    weights=st.lists(st.integers(0, 20), min_size=1, max_size=60),
    orders=st.sets(st.fractions(0, 1, max_denominator=20), min_size=1, max_size=5),
)
def test_without_noise_the_quantiles_are_exact(
    weights: list[int], orders: set[Fraction]
) -> None:
    mechanism = TreeQuantiles(tuple(sorted(orders)), len(weights), ONE)
    found = mechanism.read(mechanism.counts(Rows(dict(enumerate(weights)))))
    assert found == sorted(found)
    total, slack = sum(weights), Fraction(1, 1000)
    for order, cell in zip(mechanism.orders, found, strict=True):
        target = order * total
        assert sum(weights[:cell]) - slack <= target <= sum(weights[: cell + 1]) + slack


@given(
    seed=st.integers(0, 2**32),
    cells=st.integers(1, 2000),
    rows=st.dictionaries(st.integers(0, 1999), st.integers(0, 100), max_size=5),
)
def test_quantiles_are_cells_of_the_grid_and_rise(
    seed: int, cells: int, rows: dict[int, int]
) -> None:
    for leaves in (1 << 16, 8):
        mechanism = TreeQuantiles(PERCENTILES, cells, Fraction(3), leaves)
        held = Rows({cell % cells: weight for cell, weight in rows.items()})
        found = mechanism.release(held, Seeded(seed))
        assert all(a <= b for a, b in pairwise(found))
        assert 0 <= found[0] <= found[-1] < cells


def test_counts_agree_as_by_least_squares() -> None:
    """A whole tree of two levels, against the solution in doubles."""
    leaves = BRANCHES**2
    noisy = TreeQuantiles(QUARTILES, leaves, Fraction(5)).noisy(
        [[10] * leaves, [160] * BRANCHES], Seeded(5)
    )
    system = np.vstack([np.eye(leaves), np.kron(np.eye(BRANCHES), np.ones(BRANCHES))])
    expected = np.linalg.lstsq(system, np.array(noisy[0] + noisy[1], float))[0]
    found = _agreed(noisy).astype(float) / 2**POINT
    assert found == pytest.approx(expected, abs=1e-5)


def test_sums_rise_between_zero_and_all() -> None:
    unit = 1 << POINT
    sums = _rising(np.array([3, -2, 5, -1, 4], dtype=object) * unit)
    assert [weight / unit for weight in sums] == [0, 2, 2, 5.5, 5.5, 9]
    assert _rising(np.array([-3, 1], dtype=object)) == [0, 0, 0]


@pytest.mark.parametrize("unit", [10, 100])
def test_percentiles_of_salaries_are_missed_by_a_few_rows(unit: int) -> None:
    """Ten releases at epsilon 1, where leaves are no wider than the values' own grid."""
    codes = np.sort(salaries(7, unit * 100))
    mechanism = TreeQuantiles.calibrated(PERCENTILES, 300_000 // unit + 1, 1, ONE)
    drawn = [mechanism.release(Codes(codes), Seeded(seed)) for seed in range(10)]
    errors = [ranks_off(codes, PERCENTILES, found) for found in drawn]
    assert np.sqrt(np.mean(np.square(errors))) < 20
    most, proven = mechanism.ranks_off(Fraction(95, 100))
    assert not proven
    assert np.mean(np.array(errors) <= most) > 0.9


@pytest.mark.parametrize("cells", [1, 16, 17, 300, 2**63])
def test_every_level_is_paid_for(cells: int) -> None:
    mechanism = calibrated(TreeQuantiles, QUARTILES, cells, SUBSTITUTE, weight=2**33)
    assert mechanism.loss(2**34) == Loss(ONE)
    assert mechanism.widths == [mechanism.scale] == [2**34 * len(mechanism.sizes)]
