"""Several quantiles drawn one by one: the claim from its exact law, draws against the law."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from dpquery.core.events import BoundedRange, Composed, decode, encode
from dpquery.core.privacy import Loss, Neighbours
from dpquery.mechanisms import IndependentQuantiles, Randomness, rank_range
from tests.mechanisms.histograms import Rows
from tests.mechanisms.joint_laws import (
    agreement,
    drawing,
    in_two_groups,
    single_rows,
    worst_loss,
)

ADD_REMOVE, SUBSTITUTE = Neighbours
ONE = Fraction(1)
ALARM = 1e-6
MOST = 1 << 36
ORDERS = {
    "the median": (Fraction(1, 2),),
    "two": (Fraction(1, 4), Fraction(3, 4)),
    "near": (Fraction(2, 5), Fraction(1, 2)),
    "uneven": (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)),
}


def calibrated(
    name: str, cells: int, relation: Neighbours, *, weight: int = 1, grouped: bool = False
) -> IndependentQuantiles:
    orders, substitution = ORDERS[name], relation is SUBSTITUTE
    ranges = [rank_range(p, 1, substitution=substitution, grouped=grouped) for p in orders]
    return IndependentQuantiles.calibrated(orders, cells, MOST, ranges, weight, ONE)


ATTAINED = {"the median": 0.78, "two": 0.51, "near": 0.75, "uneven": 0.42}


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("name", ORDERS)
def test_rows_lose_at_most_epsilon_and_what_is_known(name: str, relation: Neighbours) -> None:
    mechanism = calibrated(name, 6, relation)
    worst = worst_loss(mechanism.pmf, single_rows(6), 3, relation)
    assert ATTAINED[name] < worst <= 1 + 1e-12


@pytest.mark.parametrize("relation", Neighbours)
def test_weighted_units_lose_at_most_epsilon(relation: Neighbours) -> None:
    kinds = [*single_rows(4, 4), (2, 2, 0, 0), (0, 2, 0, 2), (2, 0, 2, 0)]
    mechanism = calibrated("two", 4, relation, weight=4)
    assert 0.35 < worst_loss(mechanism.pmf, kinds, 2, relation) <= 1 + 1e-12


@pytest.mark.parametrize("relation", Neighbours)
def test_one_epsilon_covers_two_groups(relation: Neighbours) -> None:
    mechanism = calibrated("two", 3, relation, grouped=True)
    assert (
        0.28
        < worst_loss(in_two_groups(mechanism.pmf), single_rows(6), 2, relation)
        <= 1 + 1e-12
    )


def test_epsilon_for_each_draw_fails() -> None:
    for name in ("near", "uneven"):
        right = calibrated(name, 6, ADD_REMOVE)
        wrong = replace(right, rate=right.rate * len(right.orders))
        assert worst_loss(wrong.pmf, single_rows(6), 3, ADD_REMOVE) > 1.2


def test_the_ranges_of_added_rows_fail_for_replaced_ones() -> None:
    wrong = calibrated("the median", 6, ADD_REMOVE)
    assert worst_loss(wrong.pmf, single_rows(6), 3, SUBSTITUTE) > 1.2


@pytest.mark.parametrize("name", ["two", "uneven"])
def test_draws_follow_the_law(name: str) -> None:
    """24 x 100 draws, false alarm 1e-6."""
    weights = [4, 0, 0, 1, 2, 0, 0, 5]
    ranges = (ONE,) * len(ORDERS[name])
    mechanism = IndependentQuantiles(ORDERS[name], 8, Fraction(2), 12, ranges, 4, 12)
    law = mechanism.pmf(weights)
    assert math.fsum(law.values()) == pytest.approx(1)
    sample = drawing(mechanism, weights)
    assert agreement(law, sample, 24, 100) > ALARM
    wrong = replace(mechanism, rate=Fraction(4)).pmf(weights)
    assert agreement(wrong, sample, 24, 100) < ALARM


def test_the_rank_interval_holds_on_the_law() -> None:
    weights, held = [3, 0, 5, 1, 2], Fraction(9, 10)
    mechanism = IndependentQuantiles(ORDERS["two"], 5, Fraction(8), 11, (ONE, ONE))
    most = mechanism.rank_interval(held)

    def off(order: Fraction, cell: int) -> Fraction:
        target = order * 11
        return max(Fraction(0), sum(weights[:cell]) - target, target - sum(weights[: cell + 1]))

    law = mechanism.pmf(weights)
    beyond = sum(p for v, p in law.items() if max(map(off, mechanism.orders, v)) > most)
    assert beyond <= 1 - held


def test_loss_and_event_say_what_was_asked() -> None:
    mechanism = calibrated("uneven", 10, ADD_REMOVE, weight=2**33)
    assert mechanism.loss(2**33) == Loss(ONE)
    each = BoundedRange(ONE / 6)
    assert decode(encode(mechanism.event(2**32))) == Composed((each, each, each))
    assert len(mechanism.widths) == 3


@pytest.mark.parametrize("cells", [1, 2**63])
def test_cells_rise_on_any_grid(cells: int) -> None:
    found = calibrated("uneven", cells, ADD_REMOVE).release(Rows({0: 40}), Randomness())
    assert found == sorted(found)
    assert 0 <= found[0] <= found[-1] < cells


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"orders": ()}, "order"),
        ({"orders": (Fraction(3, 4), Fraction(1, 4))}, "above"),
        ({"orders": (Fraction(1, 4), Fraction(5, 4))}, "between"),
        ({"ranges": (ONE,)}, "range"),
        ({"ranges": (ONE, Fraction(0))}, "range"),
        ({"rate": Fraction(0)}, "rate"),
        ({"cells": 0}, "grid"),
    ],
)
def test_parameters_without_meaning_are_refused(changes: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        replace(calibrated("two", 8, ADD_REMOVE), **changes)
