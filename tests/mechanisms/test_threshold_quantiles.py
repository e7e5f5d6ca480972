"""What noisy thresholds alone have: what a scan costs, and where it ends."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpquery.mechanisms import Randomness, ThresholdQuantiles, threshold_cost
from tests.mechanisms.histograms import Codes, Rows, salaries
from tests.mechanisms.joint_laws import single_rows, worst_loss
from tests.mechanisms.quantile_suite import (
    HALF,
    ONE,
    ORDERS,
    SUBSTITUTE,
    calibrated,
    ranks_off,
)
from tests.mechanisms.sources import Seeded

TWO = ORDERS["two"]


def test_the_cost_of_a_replaced_row_is_enough_at_the_least_order() -> None:
    """An added row costs one scale there, and a replaced one two."""
    right = calibrated(ThresholdQuantiles, ORDERS["the least"], 5, SUBSTITUTE)
    assert worst_loss(right.pmf, single_rows(5), 4, SUBSTITUTE) <= 1


def test_the_cost_of_one_group_is_too_low_for_two() -> None:
    for order in (Fraction(0), HALF, ONE):
        alone, grouped = (
            threshold_cost(order, substitution=True, grouped=grouped)
            for grouped in (False, True)
        )
        assert (alone, grouped) == (2, 2 * (1 + order))


@pytest.mark.parametrize("cells", [1, 2, 1000, 4096, 4097, 2**63])
def test_cells_are_those_of_ranges_which_the_rows_do_not_choose(cells: int) -> None:
    for rows in ({}, {0: 40}, {cells - 1: 3}):
        mechanism = calibrated(ThresholdQuantiles, TWO, cells)
        found = mechanism.release(Rows(rows), Randomness())
        assert all(cell == cells - 1 or (cell + 1) % mechanism.width == 0 for cell in found)


def test_a_scan_that_never_passes_ends_with_the_last_cell() -> None:
    """In print it gives no value at all."""
    mechanism = ThresholdQuantiles((ONE,), 3, Fraction(1000), (Fraction(2),))
    assert mechanism.release(Rows({2: 10}), Seeded(1)) == [2]


def test_salaries_are_missed_by_no_more_than_is_said() -> None:
    codes = np.sort(salaries(7, 100_00))
    mechanism = calibrated(ThresholdQuantiles, TWO, 3001)
    most, proven = mechanism.ranks_off(Fraction(999_999, 10**6))
    assert proven
    assert not calibrated(ThresholdQuantiles, TWO, 2**40).ranks_off(HALF)[1]
    for seed in range(10):
        found = mechanism.release(Codes(codes), Seeded(seed))
        assert ranks_off(codes, TWO, found).max() <= most
