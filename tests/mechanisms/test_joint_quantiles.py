"""Quantiles drawn as one list: the claim from its exact law, draws against the law."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpquery.core.events import BoundedRange, decode, encode
from dpquery.core.privacy import Loss, Neighbours
from dpquery.errors import InternalError
from dpquery.mechanisms import JointQuantiles, Randomness, SmoothedJointQuantiles, joint_move
from dpquery.mechanisms.quantiles import joint_paths
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

ADD_REMOVE, SUBSTITUTE = Neighbours
ONE = Fraction(1)
ALARM = 1e-6
MOST = 1 << 36
DECILES = tuple(Fraction(k, 10) for k in range(1, 10))
ORDERS = {
    "the median": (Fraction(1, 2),),
    "two": (Fraction(1, 4), Fraction(3, 4)),
    "quartiles": (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)),
    "uneven": (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)),
    "with both ends": (Fraction(0), Fraction(1, 2), Fraction(1)),
}
KINDS = (JointQuantiles, SmoothedJointQuantiles)
Kind = type[JointQuantiles | SmoothedJointQuantiles]
Drawn = JointQuantiles | SmoothedJointQuantiles


def calibrated(
    kind: Kind,
    orders: tuple[Fraction, ...],
    cells: int,
    relation: Neighbours,
    *,
    weight: int = 1,
    grouped: bool = False,
    spread: int = 1,
) -> Drawn:
    move = joint_move(orders, substitution=relation is SUBSTITUTE, grouped=grouped)
    drawn = kind.calibrated(orders, cells, MOST, move, weight, ONE)
    return drawn if kind is JointQuantiles else replace(drawn, spread=spread)


ATTAINED = {
    ("the median", ADD_REMOVE): 0.95,
    ("the median", SUBSTITUTE): 0.83,
    ("two", ADD_REMOVE): 0.76,
    ("two", SUBSTITUTE): 0.91,
    ("quartiles", ADD_REMOVE): 0.70,
    ("quartiles", SUBSTITUTE): 0.84,
    ("uneven", ADD_REMOVE): 0.56,
    ("uneven", SUBSTITUTE): 0.67,
    ("with both ends", ADD_REMOVE): 0.59,
    ("with both ends", SUBSTITUTE): 0.67,
}
"""By at least one pair, on six cells that are not spread."""


@pytest.mark.parametrize(("name", "relation"), ATTAINED)
def test_rows_lose_at_most_epsilon_and_what_is_known(name: str, relation: Neighbours) -> None:
    mechanism = calibrated(JointQuantiles, ORDERS[name], 6, relation)
    worst = worst_loss(mechanism.pmf, single_rows(6), 3, relation)
    assert ATTAINED[name, relation] < worst <= 1 + 1e-12


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("name", ORDERS)
def test_rows_that_are_spread_lose_at_most_epsilon(name: str, relation: Neighbours) -> None:
    for cells, spread, rows in ((3, 1, 3), (2, 2, 4)):
        mechanism = calibrated(
            SmoothedJointQuantiles, ORDERS[name], cells, relation, spread=spread
        )
        worst = worst_loss(mechanism.pmf, single_rows(cells), rows, relation)
        assert 0.25 < worst <= 1 + 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", Neighbours)
def test_weighted_units_lose_at_most_epsilon(relation: Neighbours, kind: Kind) -> None:
    """A unit of weight 4 in one cell, 2 in each of two, or less after a filter."""
    kinds = [*single_rows(3, 4), (2, 2, 0), (0, 2, 2), (2, 0, 2), (0, 1, 0), (0, 0, 0)]
    mechanism = calibrated(kind, ORDERS["quartiles"], 3, relation, weight=4)
    assert 0.35 < worst_loss(mechanism.pmf, kinds, 2, relation) <= 1 + 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", Neighbours)
def test_one_epsilon_covers_two_groups(relation: Neighbours, kind: Kind) -> None:
    mechanism = calibrated(kind, ORDERS["two"], 3, relation, grouped=True)
    assert (
        0.26
        < worst_loss(in_two_groups(mechanism.pmf), single_rows(6), 2, relation)
        <= 1 + 1e-12
    )


def test_the_move_of_one_group_fails_for_two() -> None:
    """Where units are replaced, 2 is enough within a group; not if they leave it."""
    median = (Fraction(1, 2),)
    wrong = replace(calibrated(JointQuantiles, median, 3, SUBSTITUTE), move=ONE)
    assert worst_loss(in_two_groups(wrong.pmf), single_rows(6), 2, SUBSTITUTE) > 1.2
    orders = (Fraction(1, 20), Fraction(19, 20))
    one = calibrated(JointQuantiles, orders, 3, SUBSTITUTE)
    assert calibrated(JointQuantiles, orders, 3, SUBSTITUTE, grouped=True).move > one.move


@pytest.mark.parametrize("name", ["the median", "two"])
def test_the_move_of_added_rows_fails_for_replaced_ones(name: str) -> None:
    wrong = calibrated(JointQuantiles, ORDERS[name], 6, ADD_REMOVE)
    assert worst_loss(wrong.pmf, single_rows(6), 3, SUBSTITUTE) > 1.1


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("name", ["the median", "two"])
def test_scores_that_are_not_paid_twice_fail(name: str, relation: Neighbours) -> None:
    """exp(-epsilon score / move): the sum over all lists moves as well."""
    right = calibrated(JointQuantiles, ORDERS[name], 6, relation)
    wrong = replace(right, rate=2 * right.rate)
    assert worst_loss(wrong.pmf, single_rows(6), 3, relation) > 1.05


SETTINGS = {
    "quartiles": (JointQuantiles, "quartiles", [3, 0, 5, 1, 0, 2], 8, 0, "2"),
    "in ranges": (JointQuantiles, "quartiles", [3, 0, 5, 1, 0, 2, 4, 0, 1, 1, 0], 4, 0, "2"),
    "one heap": (JointQuantiles, "two", [0, 0, 0, 40, 0, 0, 0, 0], 8, 0, "1"),
    "no rows": (JointQuantiles, "quartiles", [0, 0, 0, 0], 4, 0, "4"),
    "steep": (JointQuantiles, "uneven", [3, 9, 0, 7, 0, 1, 8, 2], 8, 0, "2"),
    "both ends": (JointQuantiles, "with both ends", [6, 1, 0, 0, 2, 3], 8, 0, "1"),
    "spread": (SmoothedJointQuantiles, "quartiles", [3, 0, 5, 1], 2, 2, "2"),
    "spread, no rows": (SmoothedJointQuantiles, "two", [0, 0, 0, 0], 2, 1, "4"),
    "spread, steep": (SmoothedJointQuantiles, "uneven", [5, 0, 1, 30], 4, 2, "1"),
    "spread, two": (SmoothedJointQuantiles, "two", [40, 0, 31, 2], 2, 2, "1/4"),
}


def case(name: str) -> tuple[Drawn, list[int]]:
    kind, orders, weights, bins, spread, rate = SETTINGS[name]
    parameters = (len(weights), Fraction(rate), sum(weights), Fraction(2), bins)
    drawn = kind(ORDERS[orders], *parameters)
    return (drawn if kind is JointQuantiles else replace(drawn, spread=spread)), weights


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
    """24 x 200 draws, false alarm 1e-6."""
    mechanism, weights = case(name)
    assert agreement(mechanism.pmf(weights), drawing(mechanism, weights), 24, 200) > ALARM


@pytest.mark.parametrize("factor", ["1/2", "2"])
def test_draws_at_another_rate_are_noticed(factor: str) -> None:
    mechanism, weights = case("quartiles")
    wrong = replace(mechanism, rate=mechanism.rate * Fraction(factor))
    assert agreement(mechanism.pmf(weights), drawing(wrong, weights), 24, 80) < ALARM


@pytest.mark.parametrize("name", ["quartiles", "no rows", "spread, two"])
def test_how_finely_runs_are_told_apart_has_no_bearing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where one place after another is put in a stretch, in any order."""
    monkeypatch.setattr(joint_paths, "UNLIKELY", -1)
    mechanism, weights = case(name)
    sample = drawing(mechanism, weights)
    assert agreement(mechanism.pmf(weights), sample, 12, 40) > ALARM


def test_coarse_stretches_have_no_bearing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is split, whatever the walks are like."""
    monkeypatch.setattr(joint_paths, "LOOSE", 1 << 40)
    mechanism, weights = case("spread, two")
    sample = drawing(mechanism, weights)
    assert agreement(mechanism.pmf(weights), sample, 12, 40) > ALARM


@pytest.mark.parametrize("name", SETTINGS)
def test_sums_are_above_those_of_all_lists_and_not_far(name: str) -> None:
    """What proposals are drawn under: equal but for roundings, once all is told apart."""
    mechanism, weights = case(name)
    if isinstance(mechanism, SmoothedJointQuantiles):
        weights = [
            part for weight in weights for part in joint_paths_parts(weight, mechanism.spread)
        ]
        mechanism = JointQuantiles(
            mechanism.orders, len(weights), mechanism.rate, MOST, mechanism.move, 64
        )
    mechanism = replace(mechanism, bins=64, cells=len(weights))
    tree = joint_paths.HistogramTree(Rows(dict(enumerate(weights))), len(weights), MOST, 64, 64)
    paths = joint_paths.JointPaths(tree, mechanism.orders, mechanism.slope)
    whole, exponent = paths._settled(joint_paths.LOOSE, Seeded(1)).whole
    law = mechanism.pmf(weights)
    (best, share) = max(law.items(), key=lambda item: item[1])
    edges = [0, *(sum(weights[:place]) for place in best), sum(weights)]
    shares = joint_paths.shares_of(mechanism.orders)
    score = sum(
        abs(b - a - part * edges[-1])
        for (a, b), part in zip(pairwise(edges), shares, strict=True)
    )
    exact = math.exp(-float(mechanism.slope * score)) / share
    assert 1 - 1e-9 <= whole * 2.0**exponent / exact <= 1.02


def joint_paths_parts(weight: int, digits: int) -> list[int]:
    return [
        sum(1 for unit in range(weight) if mirrored(unit, digits) == place)
        for place in range(1 << digits)
    ]


def mirrored(unit: int, digits: int) -> int:
    return int(f"{unit % (1 << digits):0{digits}b}"[::-1], 2)


def off(weights: dict[int, int], found: list[int]) -> list[Fraction]:
    total = sum(weights.values())
    return [
        max(
            Fraction(0),
            sum(w for c, w in weights.items() if c < cell) - order * total,
            order * total - sum(w for c, w in weights.items() if c <= cell),
        )
        for order, cell in zip(DECILES, found, strict=True)
    ]


def test_without_spreading_an_atom_ruins_what_is_beside_it() -> None:
    """A third of the rows in one cell: thousands of rows off, or fewer than a hundred."""
    weights = {cell: 100 for cell in range(200)} | {100: 10_000}
    move = joint_move(DECILES, substitution=False, grouped=False)
    worst = {}
    for kind in KINDS:
        mechanism = kind.calibrated(DECILES, 200, 1 << 20, move, 1, ONE)
        found = mechanism.release(Rows(weights), Seeded(2))
        assert found == sorted(found)
        worst[kind] = max(off(weights, found))
    assert worst[JointQuantiles] > 500
    assert worst[SmoothedJointQuantiles] < 100


@pytest.mark.slow
def test_deciles_of_salaries_are_missed_by_a_few_rows() -> None:
    """Rank RMSE of 30 releases at epsilon 1: about 5.5, as the recursion or less."""
    codes = np.sort(salaries(7, 100))
    mechanism = calibrated(SmoothedJointQuantiles, DECILES, 300_001, ADD_REMOVE, spread=30)
    targets = np.array([float(order) * len(codes) for order in DECILES])
    randomness, errors = Seeded(3), []
    for _ in range(30):
        found = np.array(mechanism.release(Codes(codes), randomness))
        below, up_to = np.searchsorted(codes, [found, found + 1])
        errors.append(np.maximum(0, np.maximum(below - targets, targets - up_to)))
    assert np.sqrt(np.mean(np.square(errors))) <= 9


def test_a_billion_rows_are_answered() -> None:
    """Half of them in one cell; the quartiles are off by no more than is proven."""
    cells, orders = 2**44, ORDERS["quartiles"]
    for weight in (1, 2**20):
        move = joint_move(orders, substitution=False, grouped=False)
        mechanism = SmoothedJointQuantiles.calibrated(
            orders, cells, MOST * weight, move, weight, ONE
        )
        histogram = Law(10**9 * weight, cells, lambda t: 0.5 * t + 0.5 * (t > 0.3))
        found = mechanism.release(histogram, Seeded(1))
        edges = np.array([found, np.add(found, 1)]) / cells
        below, up_to = 10**9 * (0.5 * edges + 0.5 * (edges > 0.3))
        targets = np.array([float(order) * 10**9 for order in orders])
        errors = np.maximum(0, np.maximum(below - targets, targets - up_to))
        most, proven = mechanism.ranks_off(1 - Fraction(1, 10**7))
        assert proven
        assert errors.max() <= most / weight + 2
        assert histogram.asked < 400


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cells", [1, 2, 8193, 2**63])
@pytest.mark.parametrize("rows", [{}, {0: 1}, {0: 10_000}])
def test_any_grid_is_answered_with_cells_of_it_that_rise(
    cells: int, rows: dict[int, int], kind: Kind
) -> None:
    mechanism = kind.calibrated(DECILES[::3], cells, 10_000, ONE, 1, Fraction(1, 2))
    found = mechanism.release(Rows(rows), Randomness())
    assert found == sorted(found)
    assert 0 <= found[0] <= found[-1] < cells
    assert kind is JointQuantiles or rows.get(0, 0) < 10_000 or found == [0] * 3


@pytest.mark.parametrize("epsilon", ["1e-9", "1e9"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_least_and_the_largest_epsilon_are_answered(kind: Kind, epsilon: str) -> None:
    weight = 2**32
    mechanism = kind.calibrated(
        DECILES[::4], 1000, 100 * weight, ONE, weight, Fraction(epsilon)
    )
    rows = Rows({cell: weight for cell in range(0, 1000, 100)})
    found = mechanism.release(rows, Randomness())
    assert found == sorted(found)
    assert (
        Fraction(epsilon) < 1
        or max(
            abs(cell - order * 1000) for cell, order in zip(found, DECILES[::4], strict=True)
        )
        <= 200
    )


@pytest.mark.parametrize("confidence", ["1/2", "19/20"])
def test_the_ranks_off_hold_on_the_law(confidence: str) -> None:
    weights, held = [3, 0, 5, 1, 2], Fraction(confidence)
    mechanism = SmoothedJointQuantiles(
        ORDERS["quartiles"], 5, Fraction(20), 11, Fraction(2), 64, spread=1
    )
    most, total = mechanism.ranks_off(held)[0], sum(weights)

    def far(order: Fraction, cell: int) -> Fraction:
        target = order * total
        return max(Fraction(0), sum(weights[:cell]) - target, target - sum(weights[: cell + 1]))

    law = mechanism.pmf(weights)
    beyond = sum(p for v, p in law.items() if max(map(far, mechanism.orders, v)) > most)
    assert beyond <= 1 - held


def test_loss_and_event_say_what_was_asked() -> None:
    for kind in KINDS:
        mechanism = calibrated(kind, ORDERS["uneven"], 10, SUBSTITUTE, weight=2**33)
        assert mechanism.loss(2**33) == Loss(ONE)
        assert mechanism.loss(0) == Loss(Fraction(0))
        assert decode(encode(mechanism.event(2**32))) == BoundedRange(ONE / 2)
        assert mechanism.widths == [4 * 2**33 / 2]


def outcome(kind: Kind, randomness: Randomness) -> list[int] | str:
    mechanism = kind.calibrated(ORDERS["quartiles"], 2**40, MOST, ONE, 1, Fraction(1, 3))
    try:
        return mechanism.release(Rows({5: 40, 2**39: 3, 2**40 - 1: 41}), randomness)
    except InternalError as fault:
        return fault.code


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_broken_source_ends_with_cells_or_a_fault(
    pattern: str, source: Callable[[bytes], Randomness], kind: Kind
) -> None:
    result = outcome(kind, source(PATTERNS[pattern]))
    assert result == "DPQ902" or len(result) == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", [Repeating(ZEROS), Repeating(ONES), Failing()])
def test_bits_that_never_change_release_nothing(source: Randomness, kind: Kind) -> None:
    assert outcome(kind, source) == "DPQ902"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"orders": ()}, "orders"),
        ({"orders": (Fraction(1, 2), Fraction(11, 10))}, "orders"),
        ({"orders": (Fraction(1, 2), Fraction(1, 2))}, "above"),
        ({"cells": 0}, "grid"),
        ({"cells": 2**63 + 1}, "grid"),
        ({"rate": Fraction(0)}, "rate"),
        ({"move": Fraction(0)}, "move"),
        ({"max_weight": -1}, "weight"),
        ({"bins": 3}, "bins"),
        ({"spread": 31}, "spread"),
    ],
)
def test_parameters_without_meaning_are_refused(changes: dict[str, object], match: str) -> None:
    for kind in KINDS if "spread" not in changes else KINDS[1:]:
        with pytest.raises(ValueError, match=match):
            replace(calibrated(kind, DECILES, 10, ADD_REMOVE), **changes)


@pytest.mark.parametrize("confidence", [Fraction(0), ONE])
def test_a_confidence_outside_its_range_is_no_bound(confidence: Fraction) -> None:
    with pytest.raises(ValueError, match="confidence"):
        calibrated(JointQuantiles, DECILES, 10, ADD_REMOVE).ranks_off(confidence)
