"""Exponential mechanisms: the range of their losses, and their rho, by exact laws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpquery.budget.accountant import additive
from dpquery.core.privacy_events import BoundedRange, Pure
from dpquery.core.privacy_loss import Neighbours
from dpquery.mechanisms import (
    FiniteExponential,
    GapQuantile,
    GridQuantile,
    IndependentQuantiles,
    JointQuantiles,
    MeanExponential,
    MeanInverseSensitivity,
    PermuteAndFlip,
    SmoothQuantile,
    joint_move,
    rank_range,
)
from tests.mechanisms.joint_laws import neighbours, single_rows

ONE, HALF = Fraction(1), Fraction(1, 2)
ORDERS = (Fraction(1, 4), Fraction(3, 4))
CELLS, ROWS, VALUES = 4, 3, 3
Weights = Sequence[int]


def chosen(kind: type[FiniteExponential] | type[PermuteAndFlip]) -> Callable[[Weights], object]:
    """A mode, where a unit that is replaced may raise one count and lower another."""
    return kind.calibrated(2, ONE).pmf


class SmallGaps(GapQuantile):
    """Four places a cell, so that its law can be written down."""

    @classmethod
    def calibrated(cls, *settings: object) -> GapQuantile:
        return replace(GapQuantile.calibrated(*settings), spread=2)


def of_quantile(kind: type, relation: Neighbours) -> Callable[[Weights], object]:
    distance = rank_range(
        ORDERS[1], 1, substitution=relation is Neighbours.SUBSTITUTE, grouped=False
    )
    return kind.calibrated(ORDERS[1], CELLS, 1 << 36, distance, ONE).pmf


def of_mean(kind: type) -> Callable[[Weights], object]:
    """Rows of whole values; a row that is replaced is one row that changes."""
    mechanism = kind(HALF, 12)

    def pmf(weights: Weights) -> list[float]:
        total = sum(value * count for value, count in enumerate(weights))
        return mechanism.pmf(total, sum(weights), VALUES)

    return pmf


def joint(relation: Neighbours) -> JointQuantiles:
    move = joint_move(ORDERS, substitution=relation is Neighbours.SUBSTITUTE, grouped=False)
    return JointQuantiles.calibrated(ORDERS, CELLS, 1 << 36, move, 1, ONE)


def in_order(
    pmf: Callable[[Weights], Mapping[tuple[int, ...], float]],
) -> Callable[..., object]:
    """Return the probabilities of lists alone, always in one order."""
    return lambda weights: [chance for _, chance in sorted(pmf(weights).items())]


def laws(name: str, relation: Neighbours) -> Callable[[Weights], object]:
    match name:
        case "finite":
            return chosen(FiniteExponential)
        case "grid":
            return of_quantile(GridQuantile, relation)
        case "gap":
            return of_quantile(SmallGaps, relation)
        case "smooth":
            return of_quantile(SmoothQuantile, relation)
        case "mean":
            return of_mean(MeanExponential)
        case "joint":
            return in_order(joint(relation).pmf)
    return of_mean(MeanInverseSensitivity)


def pairs(
    pmf: Callable[[Weights], object], relation: Neighbours
) -> Iterator[tuple[object, object]]:
    for one, other in neighbours(single_rows(CELLS), ROWS, relation):
        yield pmf(one), pmf(other)
        yield pmf(other), pmf(one)


def width(one: Sequence[float], other: Sequence[float]) -> float:
    ratios = [math.log(p / q) for p, q in zip(one, other, strict=True)]
    return max(ratios) - min(ratios)


def renyi(one: np.ndarray, other: np.ndarray, order: float) -> float:
    return float(np.log(np.sum(one**order * other ** (1 - order))) / (order - 1))


NAMES = ["finite", "grid", "gap", "smooth", "mean", "inverse", "joint"]


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("name", NAMES)
def test_losses_lie_in_a_range_of_epsilon(name: str, relation: Neighbours) -> None:
    found = max(width(one, other) for one, other in pairs(laws(name, relation), relation))
    assert 0.4 < found <= 1 + 1e-9


def test_permute_and_flip_has_a_wider_range_and_does_not_claim_this_one() -> None:
    """Of the same epsilon, on three candidates: so it is charged as any pure release."""
    mechanism = PermuteAndFlip.calibrated(1, ONE)
    counts = product(range(4), repeat=3)
    moved = [(a, (a[0] + 1, *a[1:])) for a in counts]
    found = max(width(mechanism.pmf(a), mechanism.pmf(b)) for a, b in moved)
    assert found > 1.05
    assert isinstance(mechanism.event(1), Pure)


@pytest.mark.parametrize("name", NAMES)
def test_renyi_divergences_keep_the_rho_that_is_charged(name: str) -> None:
    """An eighth of the square of epsilon; the law of a fair choice takes nearly all of it."""
    rho = float(additive([BoundedRange(ONE)]).rho)
    relation = Neighbours.SUBSTITUTE
    for one, other in pairs(laws(name, relation), relation):
        for order in (1.5, 2, 8, 64):
            assert renyi(np.array(one), np.array(other), order) <= order * rho + 1e-9


def test_an_even_choice_takes_nearly_all_of_its_rho() -> None:
    half = FiniteExponential.calibrated(1, Fraction(1, 5))
    one, other = np.array(half.pmf([0, 0])), np.array(half.pmf([1, 0]))
    attained = max(renyi(one, other, order) / order for order in (1.001, 1.1, 2))
    assert 0.95 < attained / float(additive([half.event(1)]).rho) <= 1


def test_draws_one_by_one_add_up_their_ranges_and_their_rho() -> None:
    ranges = [rank_range(p, 1, substitution=False, grouped=False) for p in ORDERS]
    mechanism = IndependentQuantiles.calibrated(ORDERS, CELLS, 1 << 36, ranges, 1, ONE)
    rho = additive([mechanism.event(1)]).rho
    assert rho == Fraction(1, 16)
    for one, other in neighbours(single_rows(CELLS), ROWS, Neighbours.ADD_REMOVE):
        first, second = mechanism.pmf(one), mechanism.pmf(other)
        p, q = (np.array([law[key] for key in first]) for law in (first, second))
        for order in (1.5, 2, 8, 64):
            assert renyi(p, q, order) <= order * float(rho) + 1e-9


def test_an_epsilon_that_a_claim_understates_is_seen() -> None:
    wrong = GridQuantile.calibrated(HALF, CELLS, 1 << 36, HALF, 2 * ONE)
    relation = Neighbours.ADD_REMOVE
    assert max(width(a, b) for a, b in pairs(wrong.pmf, relation)) > 1
