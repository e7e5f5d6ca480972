"""Means of values with Gaussian noise: their intervals, against sums of the exact laws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpquery.core.privacy_loss import root_above
from dpquery.mechanisms import DiscreteGaussian
from dpquery.mechanisms.gaussian import GaussianMean

DELTA = Fraction(1, 10**6)
VARIANCES = [
    ("1/50", "1/20"),
    ("1/9", "3"),
    ("1/2", "1/2"),
    ("2", "1/3"),
    ("5", "20"),
    ("100", "100/3"),
    ("400", "7"),
    ("90", "30", "60"),
    ("40",),
]
CONFIDENCES = [Fraction(text) for text in ("0.3", "0.5", "0.9", "0.95", "0.999")]


def law(variance: Fraction) -> tuple[range, np.ndarray]:
    """Return the noise of a variance, and its probabilities, as far as doubles reach."""
    noise = DiscreteGaussian.of_rho(1, 1 / (2 * variance), DELTA)
    reach = 9 * int(root_above(variance)) + 9
    places = range(-reach, reach + 1)
    return places, np.array([noise.pmf(place) for place in places])


def errors(mean: GaussianMean) -> dict[int, float]:
    """Return the law of the mean of values whose exact one is 0."""
    unit = Fraction(1)
    for one in mean.variances:
        unit = Fraction(1, np.lcm(unit.denominator, (mean.variance / one).denominator))
    sums, weights = np.zeros(1, dtype=np.int64), np.ones(1)
    for one in mean.variances:
        places, chances = law(one)
        step = int(mean.variance / one / unit)
        sums = np.add.outer(sums, step * np.array(places)).ravel()
        weights = np.multiply.outer(weights, chances).ravel()
    whole = unit.denominator
    rounded = (2 * sums + whole) // (2 * whole)
    found = np.bincount(rounded - rounded.min(), weights)
    return {int(place + rounded.min()): float(chance) for place, chance in enumerate(found)}


@pytest.mark.parametrize("written", VARIANCES)
def test_intervals_hold_and_are_no_wider_than_a_whole_number_or_two(written: tuple[str, ...]):
    mean = GaussianMean(tuple(map(Fraction, written)))
    found = errors(mean)
    assert sum(found.values()) == pytest.approx(1, abs=1e-9)
    for confidence in CONFIDENCES:
        low, high = mean.interval(7, confidence)
        width = high - 7
        assert low == 7 - width
        missed = sum(chance for place, chance in found.items() if abs(place) > width)
        assert missed <= 1 - confidence
        narrower = sum(chance for place, chance in found.items() if abs(place) > width - 3)
        assert width < 3 or narrower > 1 - confidence


@pytest.mark.parametrize("written", VARIANCES)
def test_values_are_weighed_by_inverse_variances(written: tuple[str, ...]):
    mean = GaussianMean(tuple(map(Fraction, written)))
    assert 1 / mean.variance == sum(1 / one for one in mean.variances)
    noisy = [10 * n for n, _ in enumerate(written)]
    exact = sum(n / one for n, one in zip(noisy, mean.variances, strict=True)) * mean.variance
    assert abs(mean.of(noisy) - exact) <= Fraction(1, 2)
    assert mean.of([5] * len(written)) == 5


def test_the_mean_is_as_good_as_one_release_of_all_of_the_rho():
    """Rounding adds up to half a step, and nothing else does."""
    for written in VARIANCES:
        mean = GaussianMean(tuple(map(Fraction, written)))
        second = sum(chance * place**2 for place, chance in errors(mean).items())
        assert second**0.5 <= float(mean.variance) ** 0.5 + 0.5


def test_a_confidence_lies_between_0_and_1():
    mean = GaussianMean((Fraction(3),))
    for wrong in (Fraction(0), Fraction(1), Fraction(3, 2), 1 - Fraction(1, 2**1001)):
        with pytest.raises(ValueError, match="confidence"):
            mean.interval(0, wrong)
