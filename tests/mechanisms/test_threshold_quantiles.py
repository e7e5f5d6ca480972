"""Quantiles by noisy thresholds: the claim from the exact law, draws against the law."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpquery.core.events import Pure, decode, encode
from dpquery.core.privacy import Loss, Neighbours
from dpquery.errors import InternalError
from dpquery.mechanisms import Randomness, ThresholdQuantiles, threshold_cost
from tests.mechanisms.histograms import Codes, Law, Rows
from tests.mechanisms.joint_laws import (
    agreement,
    drawing,
    in_two_groups,
    single_rows,
    worst_loss,
)
from tests.mechanisms.sources import ZEROS, Repeating, Seeded
from tests.mechanisms.test_grid_quantile_sampler import salaries

ADD_REMOVE, SUBSTITUTE = Neighbours
ONE, HALF = Fraction(1), Fraction(1, 2)
ALARM = 1e-6
ORDERS = {
    "the least": (Fraction(0),),
    "the median": (HALF,),
    "a high one": (Fraction(3, 4),),
    "the largest": (ONE,),
    "two": (Fraction(1, 4), Fraction(3, 4)),
}


def calibrated(
    name: str, cells: int, relation: Neighbours, *, weight: int = 1, grouped: bool = False
) -> ThresholdQuantiles:
    orders, substitution = ORDERS[name], relation is SUBSTITUTE
    costs = [threshold_cost(p, substitution=substitution, grouped=grouped) for p in orders]
    return ThresholdQuantiles.calibrated(orders, cells, costs, weight, ONE)


ATTAINED = {
    "the least": 0.9,
    "the median": 0.83,
    "a high one": 0.82,
    "the largest": 0.8,
    "two": 0.82,
}


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("name", ORDERS)
def test_rows_lose_at_most_epsilon_and_what_is_known(name: str, relation: Neighbours) -> None:
    mechanism = calibrated(name, 5, relation)
    worst = worst_loss(mechanism.pmf, single_rows(5), 4, relation)
    assert ATTAINED[name] < worst <= 1 + 1e-9


@pytest.mark.parametrize("relation", Neighbours)
def test_weighted_units_lose_at_most_epsilon(relation: Neighbours) -> None:
    kinds = [*single_rows(4, 4), (2, 2, 0, 0), (0, 2, 0, 2), (2, 0, 2, 0), (0, 0, 0, 0)]
    mechanism = calibrated("the median", 4, relation, weight=4)
    assert 0.3 < worst_loss(mechanism.pmf, kinds, 2, relation) <= 1 + 1e-9


@pytest.mark.parametrize("relation", Neighbours)
def test_one_epsilon_covers_two_groups(relation: Neighbours) -> None:
    mechanism = calibrated("a high one", 3, relation, grouped=True)
    assert (
        0.25 < worst_loss(in_two_groups(mechanism.pmf), single_rows(6), 2, relation) <= 1 + 1e-9
    )


@pytest.mark.parametrize("name", ["the median", "two"])
def test_epsilon_as_the_scale_fails(name: str) -> None:
    """1 / epsilon on both sides: the share of all rows that moves with a row is not paid."""
    right = calibrated(name, 5, ADD_REMOVE)
    cost = right.costs[-1] * len(right.costs)
    wrong = replace(right, rate=right.rate * cost)
    assert worst_loss(wrong.pmf, single_rows(5), 4, ADD_REMOVE) > 1.2


def test_the_cost_of_added_rows_fails_for_replaced_ones() -> None:
    """At the order 0 an added row costs one scale and a replaced one two."""
    wrong = calibrated("the least", 5, ADD_REMOVE)
    right = calibrated("the least", 5, SUBSTITUTE)
    kinds = single_rows(5)
    assert worst_loss(right.pmf, kinds, 4, SUBSTITUTE) <= 1
    assert worst_loss(wrong.pmf, kinds, 4, SUBSTITUTE) > 1.8


def test_the_cost_of_one_group_is_too_low_for_two() -> None:
    for order in (Fraction(0), HALF, ONE):
        alone, grouped = (
            threshold_cost(order, substitution=True, grouped=grouped)
            for grouped in (False, True)
        )
        assert (alone, grouped) == (2, 2 * (1 + order))


def test_draws_follow_the_law() -> None:
    """24 x 100 draws, false alarm 1e-6."""
    weights = [4, 0, 3, 1, 2, 5]
    mechanism = ThresholdQuantiles(
        ORDERS["two"], 6, Fraction(2), (Fraction(5, 4), Fraction(7, 4))
    )
    law = mechanism.pmf(weights)
    assert math.fsum(law.values()) == pytest.approx(1)
    sample = drawing(mechanism, weights)
    assert agreement(law, sample, 24, 100) > ALARM
    wrong = replace(mechanism, rate=Fraction(5)).pmf(weights)
    assert agreement(wrong, sample, 24, 100) < ALARM


@pytest.mark.parametrize("cells", [1, 2, 1000, 4096, 4097, 2**63])
def test_cells_rise_on_any_grid_which_the_rows_do_not_choose(cells: int) -> None:
    for rows in ({}, {0: 40}, {cells - 1: 3}):
        found = calibrated("two", cells, ADD_REMOVE).release(Rows(rows), Randomness())
        assert found == sorted(found)
        assert 0 <= found[0] <= found[-1] < cells
        width = calibrated("two", cells, ADD_REMOVE).width
        assert all(cell == cells - 1 or (cell + 1) % width == 0 for cell in found)


def test_a_scan_that_never_passes_ends_with_the_last_cell() -> None:
    """In print it gives no value at all."""
    mechanism = ThresholdQuantiles((ONE,), 3, Fraction(1000), (Fraction(2),))
    assert mechanism.release(Rows({2: 10}), Seeded(1)) == [2]


def test_salaries_are_missed_by_no_more_than_is_said() -> None:
    codes = np.sort(salaries(7, 100_00))
    mechanism = calibrated("two", 3001, ADD_REMOVE)
    most, proven = mechanism.ranks_off(Fraction(999_999, 10**6))
    assert proven
    assert not calibrated("two", 2**40, ADD_REMOVE).ranks_off(HALF)[1]
    for seed in range(10):
        found = np.array(mechanism.release(Codes(codes), Seeded(seed)))
        below, up_to = np.searchsorted(codes, [found, found + 1])
        targets = np.array([0.25, 0.75]) * len(codes)
        assert np.maximum(below - targets, targets - up_to).max() <= most


def test_a_billion_rows_take_one_histogram() -> None:
    histogram = Law(10**9, 2**44, lambda t: t)
    found = calibrated("two", 2**44, ADD_REMOVE).release(histogram, Seeded(2))
    assert histogram.asked == 1
    assert np.array(found) / 2**44 == pytest.approx([0.25, 0.75], abs=1e-3)


def test_loss_and_event_say_what_was_asked() -> None:
    mechanism = calibrated("two", 10, SUBSTITUTE, weight=2**33)
    assert mechanism.loss(2**33) == Loss(ONE)
    assert decode(encode(mechanism.event(2**32))) == Pure(HALF)


def test_weights_are_integers_that_can_be() -> None:
    with pytest.raises(TypeError):
        calibrated("two", 300, ADD_REMOVE).release(lambda *_: [0.5] * 300, Seeded(1))
    for wrong in ([1] * 299, [-1] * 300):
        with pytest.raises(InternalError, match="weight"):
            calibrated("two", 300, ADD_REMOVE).release(lambda *_, found=wrong: found, Seeded(1))


def test_bits_that_never_change_release_nothing() -> None:
    with pytest.raises(InternalError):
        calibrated("two", 10, ADD_REMOVE).release(Rows({}), Repeating(ZEROS))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"orders": ()}, "orders"),
        ({"orders": (HALF, Fraction(5, 4))}, "orders"),
        ({"orders": (HALF, HALF)}, "above"),
        ({"cells": 0}, "grid"),
        ({"rate": Fraction(0)}, "rate"),
        ({"costs": (ONE,)}, "cost"),
        ({"costs": (ONE, Fraction(0))}, "cost"),
        ({"steps": 100}, "steps"),
    ],
)
def test_parameters_without_meaning_are_refused(changes: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        replace(calibrated("two", 8, ADD_REMOVE), **changes)
