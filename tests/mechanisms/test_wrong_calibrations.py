"""Calibrations that stand in print and are wrong, put back here: each breaks its promise.

Those of one mechanism stand with its law: epsilon as the rate of a quantile
(`test_grid_quantile.py`, `test_single_quantiles.py`), the recursion and lists as one for
replaced rows (`test_recursive_quantiles.py`, `test_joint_quantiles.py`), the levels of a
staircase (`test_discrete_staircase.py`), epsilon as the scale of thresholds
(`test_threshold_quantiles.py`), the rate of chosen means (`test_mean_selection.py`), floats
near noise (`test_source_text.py`).
"""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpquery.mechanisms import (
    ALL,
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteStaircase,
    GridQuantile,
    ThresholdQuantiles,
)
from tests.mechanisms.joint_laws import apart
from tests.mechanisms.laws import hockey_stick, pmf_vector

ONE, HALF = Fraction(1), Fraction(1, 2)
FINE = 60
"""Steps of a distance: so many that discrete noise is as good as continuous."""


def classic_delta(epsilon: float, delta: float) -> float:
    """What Gaussian noise of variance 2 ln(1.25 / delta) / epsilon^2 loses beyond epsilon."""
    spread = FINE * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    noise = DiscreteGaussian(Fraction(spread) ** 2, ONE, Fraction(10**6), Fraction(delta))
    return hockey_stick(pmf_vector(noise), (FINE,), epsilon)


@pytest.mark.parametrize(
    ("delta", "first"), [(1e-3, 7.47), (1e-5, 8.43), (1e-6, 8.78), (1e-9, 9.62)]
)
def test_the_classic_gaussian_fails_from_a_known_epsilon_on(delta: float, first: float) -> None:
    assert classic_delta(first - 0.02, delta) < delta < classic_delta(first + 0.02, delta)


def test_the_classic_gaussian_is_far_off_at_a_large_epsilon() -> None:
    assert classic_delta(20, 1e-5) == pytest.approx(153e-5, rel=0.02)


def test_gaussian_noise_is_within_no_epsilon_alone() -> None:
    noise = DiscreteGaussian.calibrated(1, ONE, Fraction(1, 10**6))
    ratios = [noise.log_pmf(k) - noise.log_pmf(k + 1) for k in (10, 100, 1000)]
    assert ratios[0] < 1
    assert ratios[-1] > 20


@pytest.mark.parametrize(("epsilon", "lost"), [(1, 1.349), (3, 3.606), (5, 5.670)])
def test_staircase_noise_drawn_again_until_it_is_in_range_loses_more(
    epsilon: int, lost: float
) -> None:
    """Up to ln 2 more: how much of the law is in the range depends on the value."""
    step = 2000
    noise = DiscreteStaircase.calibrated(step, Fraction(epsilon))
    law = np.array([noise.pmf(k) for k in range(-step, step + 1)])
    within = [law[step - value : 2 * step + 1 - value].sum() for value in range(step + 1)]
    worst = epsilon + math.log(max(within) / min(within))
    assert worst == pytest.approx(lost, abs=2e-3)


def test_noise_of_a_mean_that_is_scaled_to_the_number_of_rows_shows_it() -> None:
    """Far out, noise for one row more is less likely by any factor one likes."""
    few, more = (DiscreteLaplace(Fraction(10**4, rows)) for rows in (100, 101))
    ratios = [few.log_pmf(far) - more.log_pmf(far) for far in (10**3, 10**4, 10**5)]
    assert ratios[0] > 0
    assert ratios[-1] > 9


def test_ranges_as_many_as_the_rows_ask_for_show_how_many_there_are() -> None:
    """With one row more, there are answers that were impossible before."""
    four = ThresholdQuantiles((HALF,), 16, ONE, (Fraction(3, 2),), 4)
    weights = [1, 0, 2, 0] * 4
    assert apart(four.pmf(weights), replace(four, steps=8).pmf(weights)) == math.inf


def test_bounds_read_off_the_rows_show_the_largest() -> None:
    def law(weights: list[int]) -> dict[tuple[int, ...], float]:
        cells = max(cell for cell, weight in enumerate(weights) if weight) + 1
        drawn = GridQuantile(HALF, cells, HALF, 10).pmf(weights[:cells])
        return {(cell,): chance for cell, chance in enumerate(drawn)}

    assert apart(law([3, 1, 2, 0, 0]), law([3, 1, 2, 0, 1])) == math.inf


@pytest.mark.parametrize("kind", ALL)
def test_no_calibration_looks_at_rows(kind: type) -> None:
    """No epsilon, rate or grid that fits the data at hand: there is none to be seen."""
    if hasattr(kind, "calibrated"):
        names = set(inspect.signature(kind.calibrated).parameters)
        assert not names & {"weights", "histogram", "exact", "utilities", "counts"}
        assert "epsilon" in names
