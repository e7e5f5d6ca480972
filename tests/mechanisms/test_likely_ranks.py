"""What is said of ranks on even data: closed forms, and lists that are drawn."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpquery.mechanisms import FittedQuantiles, IndependentQuantiles, RecursiveQuantiles
from dpquery.mechanisms.quantiles.base import THINNER, likely_off, rows_for
from tests.mechanisms.histograms import Codes
from tests.mechanisms.sources import Seeded

LEVEL, BIG = Fraction(95, 100), 10**6
DECILES = tuple(Fraction(k, 10) for k in range(1, 10))
ROWS, CELLS = 3000, 3 * 10**6
"""As many rows as are said to be needed, for the least exact of the lists below."""


@pytest.mark.parametrize("confidence", ["1/2", "19/20", "999/1000"])
def test_one_draw_and_two_have_the_tails_of_their_closed_forms(confidence: str) -> None:
    """exp(-r), and (1 + r / 2) exp(-r) for a sum of two; on points that are 1/21 apart."""
    level = Fraction(confidence)
    missed = float(1 - level) / THINNER
    one = likely_off(((Fraction(BIG),),), level) / BIG
    assert math.exp(-one) <= missed <= math.exp(-one + 0.1)
    two = likely_off(((Fraction(BIG),) * 2,), level) / BIG
    tail = [(1 + r / 2) * math.exp(-r) for r in (two, two - 0.1)]
    assert tail[0] <= missed <= tail[1]


def test_errors_of_several_orders_add_up() -> None:
    draws = ((Fraction(BIG),),) * 7
    many = likely_off(draws, LEVEL) / BIG
    assert 7 * math.exp(-many) <= 0.05 / THINNER <= 7 * math.exp(-many + 0.1)
    mixed = likely_off((*draws, (Fraction(1),)), LEVEL) / BIG
    assert mixed == many


def test_the_rows_that_are_needed_grow_as_an_order_nears_an_end() -> None:
    draw = ((Fraction(1),),)
    needed = [
        rows_for((Fraction(order),), draw, Fraction(5)) for order in ("0.5", "0.1", "0.99", "1")
    ]
    assert needed == [20, 100, 1000, 0]


def test_the_recursion_hands_on_what_the_ends_of_a_part_are_off() -> None:
    """Of quartiles, those beside the median are half as far off as it, and their own draws."""
    quartiles = tuple(Fraction(k, 4) for k in (1, 2, 3))
    mechanism = RecursiveQuantiles.calibrated(quartiles, CELLS, BIG, 1, Fraction(1))
    median, first, third = mechanism.widths
    assert mechanism.errors[1] == (median,)
    assert sorted(mechanism.errors[0]) == sorted((first, median / 2))
    assert sorted(mechanism.errors[2]) == sorted((third, median / 2))


MADE = {
    "fitted": lambda: FittedQuantiles.calibrated(DECILES, CELLS, BIG, 1, Fraction(1)),
    "recursive": lambda: RecursiveQuantiles.calibrated(DECILES, CELLS, BIG, 1, Fraction(1)),
    "independent": lambda: IndependentQuantiles.calibrated(
        DECILES, CELLS, BIG, [max(p, 1 - p) for p in DECILES], 1, Fraction(1)
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param("fitted", marks=pytest.mark.slow), "recursive", "independent"]
)
def test_a_list_is_off_as_far_as_is_said_and_not_half_as_far(name: str) -> None:
    """100 draws over rows that differ; false alarm 1e-6 of the first, 1e-5 of the second.

    More than 19 of 100 are off farther with that chance if 5 in 100 are; fewer than 6 are off
    by more than half if a fifth is, and about a third are.
    """
    mechanism = MADE[name]()
    codes = np.sort(np.random.default_rng(8).choice(CELLS, ROWS, replace=False))
    said, histogram, randomness, farthest = (
        likely_off(mechanism.errors, LEVEL), Codes(codes), Seeded(9), [],
    )  # fmt: skip
    assert rows_for(DECILES, mechanism.errors, Fraction(said)) <= ROWS
    targets = np.array([float(order) * ROWS for order in DECILES])
    for _ in range(100):
        cells = np.array(mechanism.release(histogram, randomness))
        below, up_to = (np.searchsorted(codes, cells, side) for side in ("left", "right"))
        farthest.append(max(np.maximum(below - targets, targets - up_to)))
    assert sum(off > said for off in farthest) <= 19
    assert sum(off > said / 2 for off in farthest) >= 6
    assert mechanism.ranks_off(LEVEL)[0] > 3 * said


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("rate", ["1/100", "1/10", "1/2", "1"])
def test_what_is_said_of_one_draw_holds_for_95_to_99_in_100_and_is_not_twice_too_far(
    rate: str, whole: bool
) -> None:
    """By the law itself, over 1,000 data sets with exponential gaps; a fixed seed."""
    slope, generator = float(Fraction(rate)), np.random.default_rng(5)
    said = likely_off(((BIG / Fraction(rate),),), LEVEL) / BIG
    ranks = np.arange(-round(40 / slope), round(40 / slope) + 1)
    covered, nearer = [], []
    for _ in range(1000):
        off = abs(ranks - (0 if whole else generator.random() - 0.5))
        chances = generator.exponential(size=len(ranks)) * np.exp(-slope * off)
        chances /= chances.sum()
        covered.append(chances[off <= math.ceil(said)].sum())
        nearer.append(chances[off < math.ceil(said) / 2].sum())
    assert 0.95 <= np.mean(covered) <= 0.99
    assert np.mean(covered) - np.std(covered) >= 0.95
    assert np.mean(nearer) < 0.95


@pytest.mark.parametrize("confidence", [Fraction(0), Fraction(1)])
def test_a_confidence_outside_its_range_is_none(confidence: Fraction) -> None:
    with pytest.raises(ValueError, match="confidence"):
        likely_off(((Fraction(1),),), confidence)
