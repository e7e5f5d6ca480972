"""What fitted quantiles alone have: totals that are drawn along, and sums known from above."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from types import ModuleType

import numpy as np
import pytest

from dpquery.mechanisms import FittedQuantiles, Randomness
from dpquery.mechanisms.quantiles.sampling import cdf_bounds, fitted_paths
from dpquery.mechanisms.quantiles.sampling.exact_histograms import on_places
from dpquery.mechanisms.quantiles.sampling.fitted_paths import Block, FittedPaths
from dpquery.mechanisms.quantiles.sampling.joint_paths import shares_of
from tests.mechanisms.histograms import Law, Rows
from tests.mechanisms.joint_laws import agreement, drawing, single_rows, worst_loss
from tests.mechanisms.quantile_suite import (
    ADD_REMOVE,
    ALARM,
    BILLION,
    DECILES,
    DRAWN,
    ORDERS,
    calibrated,
)
from tests.mechanisms.sources import Seeded


def test_the_shares_of_the_true_total_fail_at_this_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A unit moves them all: only a total that is drawn along lets scores move by 1."""
    mechanism = calibrated(
        FittedQuantiles, ORDERS["quartiles"], 6, epsilon=Fraction(8), most=60, spread=0
    )

    def of_true_total(self: FittedQuantiles, parts: list[int]) -> float:
        shares = shares_of(self.orders)
        score = sum(abs(n - p * sum(parts)) for n, p in zip(parts, shares, strict=True))
        return math.exp(-float(self.slope * score))

    monkeypatch.setattr(FittedQuantiles, "_law", of_true_total)
    assert worst_loss(mechanism.pmf, single_rows(6), 4, ADD_REMOVE) > 1.01 * 8


@pytest.mark.parametrize(
    ("module", "setting", "value"),
    [
        (cdf_bounds, "LOOSE", 1 << 15),
        pytest.param(cdf_bounds, "FEW", 0, marks=pytest.mark.slow),
        (fitted_paths, "ATTEMPTS", 1),
    ],
)
def test_how_finely_one_looks_has_no_bearing(
    module: ModuleType, setting: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, setting, value)
    mechanism, weights, times = DRAWN["fitted, spread, two"]
    sample = drawing(mechanism, weights)
    assert agreement(mechanism.pmf(weights), sample, *times) > ALARM


@pytest.mark.parametrize("near", [0, 2])
def test_how_totals_stand_together_has_no_bearing(
    near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitted_paths, "NEAR", near)
    mechanism, weights, times = DRAWN["fitted"]
    sample = drawing(mechanism, weights)
    assert agreement(mechanism.pmf(weights), sample, *times) > ALARM


@pytest.mark.parametrize("name", [name for name in DRAWN if name.startswith("fitted")])
def test_sums_are_above_those_of_all_lists(name: str) -> None:
    mechanism, weights, _ = DRAWN[name]
    tree = mechanism.tree(Rows(dict(enumerate(weights))))
    tree.settle(mechanism.near(tree))
    sums = FittedPaths(
        tree, mechanism.orders, mechanism.slope, mechanism.step, mechanism.max_weight
    )._sums()
    above = float(np.exp2(-sums._last / 4096).sum())
    parts = on_places(weights, mechanism.spread)
    edges = [0, *np.cumsum(parts).tolist()]
    lists = combinations_with_replacement(range(len(parts)), len(mechanism.orders))
    exact = sum(
        mechanism._law([b - a for a, b in pairwise([0, *(edges[o] for o in of), edges[-1]])])
        for of in lists
    )
    assert exact <= above


def test_blocks_have_each_total_once() -> None:
    for true, last in ((0, 0), (0, 5), (5, 5), (100, 10_000), (9_990, 10_000)):
        blocks = list(fitted_paths._blocks(true, last, 7))
        told = [t for b in blocks for t in range(b.low, b.high + 1, 7)]
        assert told == [7 * number for number in range(last + 1)]
        assert all(b == Block(b.low, b.high, (b.high - b.low) // 7 + 1) for b in blocks)
        assert len(blocks) < 40


def test_a_billion_rows_take_little_memory() -> None:
    rows = Law(BILLION, 2**44, lambda t: 0.5 * t + 0.5 * (t > 0.3))
    mechanism = calibrated(FittedQuantiles, DECILES, rows.cells)
    tree = mechanism.tree(rows)
    mechanism.draw(tree, Seeded(1))
    assert tree.size <= 1 << 16


@pytest.mark.parametrize("total", [12_192, 12_196, 20_000])
def test_exponents_of_more_than_64_bits_are_answered(total: int) -> None:
    """Of totals that quarters part evenly: no other list is as near."""
    mechanism = calibrated(FittedQuantiles, ORDERS["quartiles"], 8, epsilon=Fraction(10**9))
    rows = {cell: total // 8 + (cell < total % 8) for cell in range(8)}
    assert mechanism.release(Rows(rows), Randomness()) == [1, 3, 5]
