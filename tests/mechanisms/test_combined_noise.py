"""What released values tell of a share: tails of combined noise, and ranges that hold it."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import pytest

from dpquery.mechanisms import DiscreteGaussian, DiscreteLaplace
from dpquery.mechanisms.laplace import combined_reach, share_range

SCALES = (Fraction(1, 3), Fraction(1), Fraction(6))
COEFFICIENTS = [
    (1, 0),
    (0.5, 0.5),
    (0.3, 0.7),
    (0.9, -0.1),
    (-1, 1),
    (0.05, 0.95),
    (0.4, 0.6),
    (1, 1, 1),
    (0.2, 0.1, 0.7),
]


@pytest.mark.parametrize("missed", [0.3, 0.05, 0.001])
@pytest.mark.parametrize("coefficients", COEFFICIENTS, ids=str)
def test_discrete_noise_stays_within_its_reach(
    coefficients: tuple[float, ...], missed: float
) -> None:
    """By the exact law; and it is no more than 1 in 7 too far, or a unit for each noise."""
    for scale in SCALES[: 3 if len(coefficients) == 2 else 2]:
        noise = DiscreteLaplace(scale)
        far = combined_reach(noise, float(scale), missed)(coefficients)
        size = math.ceil(18 * scale)
        law = {n: noise.pmf(n) for n in range(-size, size + 1)}
        beyond, near, units = 0.0, 0.0, sum(map(abs, coefficients))
        for drawn in product(law, repeat=len(coefficients)):
            off = abs(sum(c * n for c, n in zip(coefficients, drawn, strict=True)))
            chance = math.prod(law[n] for n in drawn)
            beyond += chance * (off > far)
            near += chance * (off > 0.85 * far - 1.2 * units)
        assert beyond <= missed * 1.01 + 1e-6
        assert near > missed


def test_gaussian_noise_adds_up_by_squares() -> None:
    noise = DiscreteGaussian(Fraction(10**8), Fraction(1), Fraction(10**9), Fraction(1, 10**6))
    far = combined_reach(noise, 1e4, 0.05)((0.6, -0.8))
    assert far == pytest.approx(1.96e4, rel=1e-3)
    assert combined_reach(noise, 1e4, 1e-30)((1.0,)) == pytest.approx(11.5e4, rel=0.01)


def test_the_range_holds_every_share_that_noise_leaves_open() -> None:
    """Held against a search of all shares; within 1 in 50 of it where the whole is large."""
    reach = combined_reach(DiscreteLaplace(Fraction(4)), 4.0, 0.05)
    for part, rest in product((-6, 0, 3, 40, 400), (-6, 2, 90, 1000)):
        whole = part + rest

        def far(share: float) -> float:
            return reach((share, 1 - share))

        low, high = share_range(part, whole, far, (0.0, 1.0))
        assert 0 <= low <= high <= 1
        open_ = [s / 500 for s in range(501) if abs(part - s / 500 * whole) <= far(s / 500)]
        if whole > 0 and open_:
            assert low <= open_[0] + 1e-9
            assert high >= open_[-1] - 1e-9
            assert whole < 400 or high - low <= 1.02 * (open_[-1] - open_[0]) + 0.005


def test_reach_grows_with_each_coefficient_and_confidence() -> None:
    reaches = [
        combined_reach(DiscreteLaplace(Fraction(5)), 5.0, missed)(coefficients)
        for missed in (0.1, 0.01)
        for coefficients in ((0.5, 0.0), (0.5, 0.5), (1.0, 0.5), (1.0, 1.0))
    ]
    assert all(a < b for a, b in pairwise(reaches[:4]))
    assert all(a < b for a, b in zip(reaches[:4], reaches[4:], strict=True))
    assert combined_reach(DiscreteLaplace(Fraction(5)), 5.0, 0.1)((0.0, 0.0)) == 0
