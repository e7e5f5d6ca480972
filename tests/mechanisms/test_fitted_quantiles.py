"""Quantiles drawn with a total that fits: the claim from its exact law, draws against it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest

from dpquery.core.events import BoundedRange, decode, encode
from dpquery.core.privacy import Loss, Neighbours
from dpquery.errors import InternalError
from dpquery.mechanisms import FittedQuantiles, Randomness
from dpquery.mechanisms.quantiles import cdf_bounds as outlook
from dpquery.mechanisms.quantiles import fitted as fitted_paths
from dpquery.mechanisms.quantiles import fitted as fitted_quantiles
from dpquery.mechanisms.quantiles.fitted import Block, FittedPaths
from dpquery.mechanisms.quantiles.histogram_tree import spread_out
from tests.mechanisms.histograms import Codes, Law, Rows
from tests.mechanisms.joint_laws import (
    agreement,
    drawing,
    in_two_groups,
    single_rows,
    worst_loss,
)
from tests.mechanisms.sources import ONES, PATTERNS, ZEROS, Failing, Repeating, Seeded, Stuck
from tests.mechanisms.test_grid_quantile_sampler import salaries
from tests.mechanisms.test_joint_quantiles import DECILES, ORDERS, off

ADD_REMOVE, SUBSTITUTE = Neighbours
ONE = Fraction(1)
EPSILON = Fraction(8)
"""Large enough that totals a step apart are near three rows."""
ALARM = 1e-6
MOST = 1 << 36


def calibrated(
    name: str, cells: int, spread: int, relation: Neighbours, weight: int = 1
) -> FittedQuantiles:
    distance = weight * (2 if relation is SUBSTITUTE else 1)
    mechanism = FittedQuantiles.calibrated(ORDERS[name], cells, 60 * weight, distance, EPSILON)
    return replace(mechanism, spread=spread)


ATTAINED = {
    ("the median", ADD_REMOVE): 0.90,
    ("the median", SUBSTITUTE): 0.72,
    ("two", ADD_REMOVE): 0.98,
    ("two", SUBSTITUTE): 0.84,
    ("quartiles", ADD_REMOVE): 0.89,
    ("quartiles", SUBSTITUTE): 0.62,
    ("uneven", ADD_REMOVE): 0.74,
    ("uneven", SUBSTITUTE): 0.49,
    ("with both ends", ADD_REMOVE): 0.87,
    ("with both ends", SUBSTITUTE): 0.77,
}
"""Parts of epsilon, by at least one pair, on six cells that are not spread."""


@pytest.mark.parametrize(("name", "relation"), ATTAINED)
def test_rows_lose_at_most_epsilon_and_what_is_known(name: str, relation: Neighbours) -> None:
    for cells, spread, rows in ((6, 0, 3), (3, 1, 3), (2, 2, 4)):
        mechanism = calibrated(name, cells, spread, relation)
        worst = worst_loss(mechanism.pmf, single_rows(cells), rows, relation) / EPSILON
        assert worst <= 1 + 1e-12
        assert spread or worst > ATTAINED[name, relation]


@pytest.mark.parametrize("relation", Neighbours)
def test_weighted_units_lose_at_most_epsilon(relation: Neighbours) -> None:
    """A unit of weight 4 in one cell, 2 in each of two, or less after a filter."""
    kinds = [*single_rows(3, 4), (2, 2, 0), (0, 2, 2), (2, 0, 2), (0, 1, 0), (0, 0, 0)]
    mechanism = calibrated("quartiles", 3, 0, relation, weight=4)
    assert 0.18 < worst_loss(mechanism.pmf, kinds, 2, relation) / EPSILON <= 1 + 1e-12


@pytest.mark.parametrize("relation", Neighbours)
def test_one_epsilon_covers_two_groups(relation: Neighbours) -> None:
    """A row is in one of two groups, and may leave it for the other; the laws multiply."""
    mechanism = calibrated("two", 3, 0, relation)
    assert (
        0.4
        < worst_loss(in_two_groups(mechanism.pmf), single_rows(6), 2, relation) / EPSILON
        <= 1 + 1e-12
    )


@pytest.mark.parametrize(("name", "relation"), [("two", ADD_REMOVE), ("quartiles", ADD_REMOVE)])
def test_a_rate_that_is_twice_too_high_fails(name: str, relation: Neighbours) -> None:
    """exp(-epsilon score): the sum over all lists moves as well."""
    right = calibrated(name, 6, 0, relation)
    wrong = replace(right, rate=2 * right.rate)
    assert worst_loss(wrong.pmf, single_rows(6), 3, relation) > 1.1 * EPSILON


def test_the_shares_of_the_true_total_fail_at_this_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A unit moves them all: only a total that is drawn along lets scores move by 1."""
    mechanism = calibrated("quartiles", 6, 0, ADD_REMOVE)

    def of_true_total(self: FittedQuantiles, parts: list[int]) -> float:
        shares = fitted_quantiles.shares_of(self.orders)
        score = sum(abs(n - p * sum(parts)) for n, p in zip(parts, shares, strict=True))
        return math.exp(-float(self.slope * score))

    monkeypatch.setattr(FittedQuantiles, "_law", of_true_total)
    assert worst_loss(mechanism.pmf, single_rows(6), 4, ADD_REMOVE) > 1.01 * EPSILON


SETTINGS = {
    "quartiles": ("quartiles", [3, 0, 5, 1, 0, 2], 8, 0, "2"),
    "coarse bins": ("quartiles", [3, 0, 5, 1, 0, 2, 4, 0, 1, 1, 0], 2, 0, "2"),
    "no rows": ("quartiles", [0, 0, 0, 0], 4, 0, "4"),
    "steep": ("uneven", [3, 9, 0, 7, 0, 1, 8, 2], 8, 0, "2"),
    "both ends": ("with both ends", [6, 1, 0, 0, 2, 3], 8, 0, "1"),
    "spread": ("quartiles", [3, 0, 5, 1], 2, 2, "2"),
    "spread, no rows": ("two", [0, 0, 0, 0], 2, 1, "4"),
    "spread, two": ("two", [40, 0, 31, 2], 2, 2, "1/8"),
}


def case(name: str) -> tuple[FittedQuantiles, list[int]]:
    orders, weights, bins, spread, rate = SETTINGS[name]
    most = sum(weights) + 20
    return FittedQuantiles(
        ORDERS[orders], len(weights), Fraction(rate), most, spread, bins
    ), weights


@pytest.mark.parametrize("name", SETTINGS)
def test_draws_follow_the_law(name: str) -> None:
    """12 x 40 draws, false alarm 1e-6."""
    mechanism, weights = case(name)
    law = mechanism.pmf(weights)
    assert math.fsum(law.values()) == pytest.approx(1)
    assert agreement(law, drawing(mechanism, weights), 12, 40) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_many_draws_follow_the_law(name: str) -> None:
    """24 x 300 draws, false alarm 1e-6."""
    mechanism, weights = case(name)
    assert agreement(mechanism.pmf(weights), drawing(mechanism, weights), 24, 300) > ALARM


def test_draws_at_another_rate_are_noticed() -> None:
    mechanism, weights = case("quartiles")
    wrong = replace(mechanism, rate=2 * mechanism.rate)
    assert agreement(mechanism.pmf(weights), drawing(wrong, weights), 16, 60) < ALARM


@pytest.mark.parametrize(
    ("module", "setting", "value"),
    [(outlook, "LOOSE", 1 << 15), (outlook, "FEW", 0), (fitted_paths, "ATTEMPTS", 1)],
)
def test_how_finely_one_looks_has_no_bearing(
    module: ModuleType, setting: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, setting, value)
    mechanism, weights = case("spread, two")
    sample = drawing(mechanism, weights)
    assert agreement(mechanism.pmf(weights), sample, 12, 40) > ALARM


@pytest.mark.parametrize("near", [0, 2])
def test_how_totals_stand_together_has_no_bearing(
    near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitted_paths, "NEAR", near)
    mechanism, weights = case("quartiles")
    sample = drawing(mechanism, weights)
    assert agreement(mechanism.pmf(weights), sample, 12, 40) > ALARM


@pytest.mark.parametrize("name", SETTINGS)
def test_sums_are_above_those_of_all_lists(name: str) -> None:
    mechanism, weights = case(name)
    tree = mechanism.tree(Rows(dict(enumerate(weights))))
    tree.settle(mechanism.near(tree))
    sums = FittedPaths(
        tree, mechanism.orders, mechanism.slope, mechanism.step, mechanism.max_weight
    )._sums()
    above = float(np.exp2(-sums._last / 4096).sum())
    parts = [
        part for weight in weights for part in spread_out(weight, mechanism.spread).tolist()
    ]
    edges = [0, *np.cumsum(parts).tolist()]
    lists = fitted_quantiles.combinations_with_replacement(
        range(len(parts)), len(mechanism.orders)
    )
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


def test_an_atom_does_not_throw_what_is_beside_it_off() -> None:
    """A third of the rows in one cell."""
    weights = {cell: 100 for cell in range(200)} | {100: 10_000}
    mechanism = FittedQuantiles.calibrated(DECILES, 200, 1 << 20, 1, ONE)
    assert max(off(weights, mechanism.release(Rows(weights), Seeded(2)))) < 40


def test_deciles_of_salaries_are_missed_by_few_rows() -> None:
    """Rank RMSE of 30 releases at epsilon 1: 3 to 4; by the recursion, more than 6."""
    codes = np.sort(salaries(7, 1))
    mechanism = FittedQuantiles.calibrated(DECILES, 30_000_001, MOST, 1, ONE)
    targets = np.array([float(order) * len(codes) for order in DECILES])
    randomness, errors = Seeded(3), []
    for _ in range(30):
        found = np.array(mechanism.release(Codes(codes), randomness))
        assert (np.diff(found) >= 0).all()
        below, up_to = np.searchsorted(codes, [found, found + 1])
        errors.append(np.maximum(0, np.maximum(below - targets, targets - up_to)))
    assert np.sqrt(np.mean(np.square(errors))) <= 5


def test_a_billion_rows_take_few_histograms_and_little_memory() -> None:
    """Half of them in one cell; the deciles are off by no more than is proven."""
    cells = 2**44
    for weight in (1, 2**20):
        mechanism = FittedQuantiles.calibrated(DECILES, cells, MOST * weight, weight, ONE)
        histogram = Law(10**9 * weight, cells, lambda t: 0.5 * t + 0.5 * (t > 0.3))
        tree = mechanism.tree(histogram)
        found = mechanism.draw(tree, Seeded(1))
        edges = np.array([found, np.add(found, 1)]) / cells
        below, up_to = 10**9 * (0.5 * edges + 0.5 * (edges > 0.3))
        targets = np.array([float(order) * 10**9 for order in DECILES])
        errors = np.maximum(0, np.maximum(below - targets, targets - up_to))
        most, proven = mechanism.ranks_off(1 - Fraction(1, 10**7))
        assert proven
        assert errors.max() <= most / weight + 2
        assert histogram.asked < 400
        assert tree.size <= 1 << 16


@pytest.mark.parametrize("cells", [1, 2, 8193, 2**63])
@pytest.mark.parametrize("rows", [{}, {0: 1}, {0: 10_000}])
def test_any_grid_is_answered_with_cells_of_it_that_rise(
    cells: int, rows: dict[int, int]
) -> None:
    mechanism = FittedQuantiles.calibrated(DECILES, cells, 10_000, 1, ONE)
    found = mechanism.release(Rows(rows), Randomness())
    assert found == sorted(found)
    assert 0 <= found[0] <= found[-1] < cells
    assert rows.get(0, 0) < 10_000 or found == [0] * 9


@pytest.mark.parametrize("epsilon", ["1e-9", "1e9"])
def test_the_least_and_the_largest_epsilon_are_answered(epsilon: str) -> None:
    weight, orders = 2**32, DECILES[::4]
    mechanism = FittedQuantiles.calibrated(
        orders, 1000, 100 * weight, weight, Fraction(epsilon)
    )
    rows = {cell: weight for cell in range(0, 1000, 100)}
    found = mechanism.release(Rows(rows), Randomness())
    assert found == sorted(found)
    assert (
        Fraction(epsilon) < 1
        or max(abs(cell - order * 1000) for cell, order in zip(found, orders, strict=True))
        <= 200
    )


@pytest.mark.parametrize("total", [12_192, 12_196, 20_000])
def test_exponents_of_more_than_64_bits_are_answered(total: int) -> None:
    """Of totals that quarters part evenly: no other list is as near."""
    quartiles = ORDERS["quartiles"]
    mechanism = FittedQuantiles.calibrated(quartiles, 8, 2**36, 1, Fraction(10**9))
    rows = {cell: total // 8 + (cell < total % 8) for cell in range(8)}
    assert mechanism.release(Rows(rows), Randomness()) == [1, 3, 5]


@pytest.mark.parametrize("confidence", ["1/2", "19/20"])
def test_the_ranks_off_hold_on_the_law(confidence: str) -> None:
    weights, held = [3, 0, 5, 1, 2], Fraction(confidence)
    mechanism = FittedQuantiles(ORDERS["quartiles"], 5, Fraction(20), 11, spread=1)
    most, total = mechanism.ranks_off(held)[0], sum(weights)

    def far(order: Fraction, cell: int) -> Fraction:
        target = order * total
        return max(Fraction(0), sum(weights[:cell]) - target, target - sum(weights[: cell + 1]))

    beyond = sum(
        chance
        for cells, chance in mechanism.pmf(weights).items()
        if max(map(far, mechanism.orders, cells)) > most
    )
    assert beyond <= 1 - held


def test_loss_and_event_say_what_was_asked() -> None:
    mechanism = FittedQuantiles.calibrated(DECILES, 10, MOST, 2**33, ONE)
    assert mechanism.loss(2**33) == Loss(ONE)
    assert mechanism.loss(0) == Loss(Fraction(0))
    assert decode(encode(mechanism.event(2**32))) == BoundedRange(ONE / 2)


def outcome(randomness: Randomness) -> list[int] | str:
    mechanism = FittedQuantiles(DECILES[::4], 2**40, Fraction(1, 3), MOST)
    try:
        return mechanism.release(Rows({5: 40, 2**39: 3, 2**40 - 1: 41}), randomness)
    except InternalError as fault:
        return fault.code


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_broken_source_ends_with_cells_or_a_fault(
    pattern: str, source: Callable[[bytes], Randomness]
) -> None:
    result = outcome(source(PATTERNS[pattern]))
    assert result == "DPQ902" or len(result) == 3


@pytest.mark.parametrize("source", [Repeating(ZEROS), Repeating(ONES), Failing()])
def test_bits_that_never_change_release_nothing(source: Randomness) -> None:
    assert outcome(source) == "DPQ902"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"orders": ()}, "orders"),
        ({"orders": (Fraction(11, 10),)}, "orders"),
        ({"orders": (Fraction(1, 2), Fraction(1, 2))}, "above"),
        ({"cells": 0}, "grid"),
        ({"rate": Fraction(0)}, "rate"),
        ({"max_weight": -1}, "weight"),
        ({"spread": 31}, "spread"),
        ({"bins": 3}, "bins"),
    ],
)
def test_parameters_without_meaning_are_refused(changes: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        replace(FittedQuantiles(DECILES, 10, ONE, 1), **changes)
