"""The claim of the grid quantile, from its law on all neighbours of all small data sets.

No sampling: the loss is at most what is claimed and at least what is known to be attained, so
a rate that is too low is noticed as well as one that is too high.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.core.privacy_events import BoundedRange, decode, encode
from dpquery.core.privacy_loss import Loss, Neighbours
from dpquery.mechanisms import GridQuantile, rank_range
from tests.turns import in_turn

ADD_REMOVE, SUBSTITUTE = Neighbours
ORDERS = [Fraction(text) for text in ("0", "0.1", "0.5", "0.75", "0.9", "0.99", "1")]
ONE = Fraction(1)
HEADINGS = ["Claim", "Assumes", "Proof", "Sampling", "Rounding", "Utility", "Checked"]

Unit = tuple[int, ...]
"""A unit's weight in each cell."""


def calibrated(
    order: Fraction, cells: int, relation: Neighbours, *, total: int = 1, grouped: bool = False
) -> GridQuantile:
    distance = rank_range(order, total, substitution=relation is SUBSTITUTE, grouped=grouped)
    return GridQuantile.calibrated(order, cells, 1 << 36, distance, ONE)


def units(cells: int, limit: int, whole: int) -> list[Unit]:
    """What one unit may add: up to limit + 1 rows, weighted floor(W min(1, k / n))."""
    most = 1 if whole == 1 else limit + 1
    return [
        tuple(whole * min(rows, limit) // rows * counts[cell] for cell in range(cells))
        for rows in range(1, most + 1)
        for counts in _counts(cells, rows)
    ]


def _counts(cells: int, rows: int) -> Iterator[tuple[int, ...]]:
    for held in itertools.combinations_with_replacement(range(cells), rows):
        yield tuple(held.count(cell) for cell in range(cells))


def bases(units: list[Unit], most: int) -> Iterator[np.ndarray]:
    """The rows of all other units."""
    seen = set()
    for number in range(most + 1):
        for chosen in itertools.combinations_with_replacement(units, number):
            seen.add(tuple(map(sum, zip(*chosen, strict=True))) or (0,) * len(units[0]))
    return map(np.array, seen)


def worst_loss(
    mechanism: GridQuantile, units: list[Unit], most: int, relation: Neighbours, groups: int = 1
) -> float:
    """The largest log-ratio between neighbours, at the worst output in each group."""

    @cache
    def law(weights: tuple[int, ...]) -> np.ndarray:
        return np.log(mechanism.pmf(weights))

    def laws(weights: np.ndarray) -> np.ndarray:
        return np.array([law(tuple(part)) for part in weights.reshape(groups, -1).tolist()])

    worst = 0.0
    for base in bases(units, most):
        here = np.array([laws(base)])
        there = np.array([laws(base + unit) for unit in units])
        if relation is SUBSTITUTE:
            here = np.concatenate([here, there])
            there = here
        moved = here[:, None] - there[None]
        worst = max(
            worst,
            moved.max(axis=-1).sum(axis=-1).max(),
            (-moved).max(axis=-1).sum(axis=-1).max(),
        )
    return worst


ATTAINED = {
    (ADD_REMOVE, "0.5"): 0.8729,
    (ADD_REMOVE, "0.75"): 0.8729,
    (ADD_REMOVE, "0.9"): 0.7061,
    (SUBSTITUTE, "0.5"): 0.8197,
    (SUBSTITUTE, "0.75"): 0.8220,
    (SUBSTITUTE, "0.9"): 0.6426,
}
"""Figures of `mechanisms.md`, at epsilon 1 and up to seven rows."""


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_rows_of_their_own_units_lose_at_most_epsilon(
    order: Fraction, relation: Neighbours
) -> None:
    """Up to eight rows on four, five and six cells."""
    worst = max(
        worst_loss(calibrated(order, cells, relation), units(cells, 1, 1), 7, relation)
        for cells in (4, 5, 6)
    )
    assert worst <= 1 + 1e-12
    assert worst > ATTAINED.get((relation, str(float(order))), 0.45) - 1e-4


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(("limit", "whole"), [(1, 4), (2, 4), (2, 16)])
@pytest.mark.parametrize("order", in_turn(ORDERS, 2), ids=str)
def test_weighted_units_lose_at_most_epsilon(
    order: Fraction, limit: int, whole: int, relation: Neighbours
) -> None:
    mechanism = calibrated(order, 4, relation, total=limit * whole)
    worst = worst_loss(mechanism, units(4, limit, whole), 2, relation)
    assert 0.2 <= worst <= 1 + 1e-12


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(("limit", "whole"), [(1, 1), (1, 4)])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_one_epsilon_covers_two_groups(
    order: Fraction, limit: int, whole: int, relation: Neighbours
) -> None:
    """A unit may leave one group for the other, or have rows in both."""
    mechanism = calibrated(order, 3, relation, total=limit * whole, grouped=True)
    worst = worst_loss(mechanism, units(6, limit, whole), 2, relation, groups=2)
    assert 0.2 <= worst <= 1 + 1e-12


def loss_of_adding_a_row(mechanism: GridQuantile) -> float:
    """Nearly the worst: most of the law lies below the rows; it and the rest part."""
    low = mechanism.cells - 3
    rows = math.ceil(mechanism.order / (1 - mechanism.order))
    here = mechanism.pmf([0] * low + [rows, 0, 0])
    there = mechanism.pmf([0] * low + [rows, 0, 1])
    return abs(math.log(here[low + 1] / there[low + 1]))


def loss_of_replacing_a_row(mechanism: GridQuantile) -> float:
    """Nearly the worst for the median: the row jumps over most of the law."""
    low = mechanism.cells - 4
    here = mechanism.pmf([1, *[0] * low, 1, 0, 0])
    there = mechanism.pmf([0, *[0] * low, 1, 0, 1])
    return abs(math.log(here[low + 2] / there[low + 2]))


WIDE = 40_000


@pytest.mark.parametrize("text", ["0.5", "0.75", "0.9"])
def test_adding_a_row_attains_epsilon(text: str) -> None:
    loss = loss_of_adding_a_row(calibrated(Fraction(text), WIDE, ADD_REMOVE))
    assert 0.99 < loss <= 1 + 1e-12


def test_replacing_a_row_attains_epsilon() -> None:
    loss = loss_of_replacing_a_row(calibrated(Fraction(1, 2), WIDE, SUBSTITUTE))
    assert 0.99 < loss <= 1 + 1e-12


@pytest.mark.parametrize("text", ["0.75", "0.9"])
def test_epsilon_as_the_rate_fails_when_a_row_is_added(text: str) -> None:
    """exp(-epsilon |rank - p n|), as in print: 2 max(p, 1 - p) epsilon is lost."""
    order = Fraction(text)
    wrong = GridQuantile(order, WIDE, ONE, 1 << 36)
    assert loss_of_adding_a_row(wrong) > 1.4
    assert (
        worst_loss(GridQuantile(order, 5, 2 * ONE, 1 << 36), units(5, 1, 1), 5, ADD_REMOVE) > 1
    )


def test_epsilon_as_the_rate_fails_when_a_row_is_replaced() -> None:
    assert loss_of_replacing_a_row(GridQuantile(ONE / 2, WIDE, ONE, 1 << 36)) > 1.9
    for order in ORDERS[2:4]:
        wrong = GridQuantile(order, 5, ONE, 1 << 36)
        assert worst_loss(wrong, units(5, 1, 1), 5, SUBSTITUTE) > 1.4


def test_the_ungrouped_distance_fails_with_groups() -> None:
    """A unit leaves one group and enters another: either loses as if a row were added."""
    wrong = calibrated(Fraction(9, 10), WIDE, SUBSTITUTE, grouped=False)
    assert 2 * loss_of_adding_a_row(wrong) > 1.7


@given(
    order=st.fractions(0, 1, max_denominator=50),
    weights=st.lists(st.integers(0, 10**12), min_size=1, max_size=6),
    rate=st.fractions(Fraction(1, 10**12), 10, max_denominator=10**12),
)
def test_probabilities_are_those_of_the_claim(
    order: Fraction, weights: list[int], rate: Fraction
) -> None:
    total = sum(weights)
    scores = [
        max(0, sum(weights[:g]) - order * total, order * total - sum(weights[: g + 1]))
        for g in range(len(weights))
    ]
    assert min(scores) == 0
    sizes = np.exp([-float(rate * score) for score in scores])
    law = GridQuantile(order, len(weights), rate, total).pmf(weights)
    assert law == pytest.approx(sizes / sizes.sum(), rel=1e-6, abs=1e-300)


@pytest.mark.parametrize("confidence", ["1/10", "1/2", "19/20", "999999/1000000"])
@pytest.mark.parametrize("cells", [1, 2, 2**32, 2**63])
def test_the_rank_interval_is_proven_and_tight(cells: int, confidence: str) -> None:
    held = Fraction(confidence)
    for rate in (Fraction(1, 2**33), Fraction(1, 7), Fraction(5, 9)):
        r = GridQuantile(ONE, cells, rate, 1).rank_interval(held)
        least = (math.log(cells) - math.log1p(-float(held))) / float(rate)
        assert least * (1 - 1e-12) <= r <= least + 1 / (60 * float(rate)) + 1


def test_the_rank_interval_holds_on_the_law() -> None:
    weights = [3, 0, 0, 5, 0, 1, 0, 0, 9, 0, 0, 0]
    mechanism = GridQuantile(Fraction(1, 3), 12, Fraction(7, 10), 18)
    law = mechanism.pmf(weights)
    for confidence in (Fraction(1, 2), Fraction(9, 10), Fraction(99, 100)):
        r = mechanism.rank_interval(confidence)
        beyond = sum(
            law[g]
            for g in range(12)
            if max(sum(weights[:g]) - 6, 6 - sum(weights[: g + 1])) > r
        )
        assert beyond <= 1 - confidence


@pytest.mark.parametrize("relation", Neighbours)
def test_loss_and_event_say_what_was_asked(relation: Neighbours) -> None:
    for order in ORDERS:
        mechanism = calibrated(order, 10, relation, total=2**33, grouped=True)
        distance = rank_range(order, 2**33, substitution=relation is SUBSTITUTE, grouped=True)
        assert mechanism.loss(distance) == Loss(ONE)
        assert mechanism.loss(0) == Loss(Fraction(0))
        assert mechanism.event(distance) == BoundedRange(ONE)
        assert decode(encode(mechanism.event(distance / 2))) == BoundedRange(ONE / 2)


def test_docstring_has_the_headings_in_order() -> None:
    lines = [line.strip() for line in (inspect.getdoc(GridQuantile) or "").splitlines()]
    assert [line[:-1] for line in lines if line[:-1] in HEADINGS] == HEADINGS


@pytest.mark.parametrize(
    ("order", "cells", "rate", "max_weight", "bins", "match"),
    [
        (Fraction(-1, 10), 1, ONE, 1, 2, "order"),
        (Fraction(11, 10), 1, ONE, 1, 2, "order"),
        (ONE, 0, ONE, 1, 2, "grid"),
        (ONE, 2**63 + 1, ONE, 1, 2, "grid"),
        (ONE, 1, Fraction(0), 1, 2, "rate"),
        (ONE, 1, ONE, -1, 2, "weight"),
        (ONE, 1, ONE, 1, 1, "bins"),
        (ONE, 1, ONE, 1, 100, "bins"),
    ],
)
def test_parameters_without_meaning_are_refused(
    order: Fraction, cells: int, rate: Fraction, max_weight: int, bins: int, match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        GridQuantile(order, cells, rate, max_weight, bins)


@pytest.mark.parametrize("confidence", [Fraction(0), ONE, Fraction(-1), Fraction(2)])
def test_a_confidence_outside_its_range_is_no_interval(confidence: Fraction) -> None:
    with pytest.raises(ValueError, match="confidence"):
        GridQuantile(ONE, 10, ONE, 1).rank_interval(confidence)
