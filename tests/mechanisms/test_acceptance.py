"""How the discrete Gaussian decides many proposals at once: cell by cell as exact arithmetic.

Statistics would not see a slip of one part in a hundred here; these tests compare decisions.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.mechanisms.gaussian import BITS, FAR, _accepted, _bounds, _exponent
from dpquery.mechanisms.samplers import geometric_many, two_sided_many
from tests.mechanisms.sources import Seeded


@given(
    root=st.fractions(Fraction(1, 20), 2**40, max_denominator=10**6),
    shift=st.integers(0, 6),
    place=st.integers(0, 63),
)
def test_tabled_bounds_hold_every_exponent_of_their_stretch(
    root: Fraction, shift: int, place: int
) -> None:
    sigma2 = root**2
    below, above = _bounds(sigma2, shift, 64)
    numerator, unit = _exponent(sigma2)
    turn = min(sigma2 // (math.isqrt(sigma2 // 1) + 1), (64 << shift) - 1)
    for size in (place << shift, (place + 1 << shift) - 1, turn):
        exact = Fraction(numerator(size) << BITS, unit)
        low, high = int(below[size >> shift]), int(above[size >> shift])
        assert low <= exact
        assert exact <= high or high == FAR


@pytest.mark.parametrize("root", ["1/9", "1", "20/3", "1000", "34811343", str(2**70)])
@pytest.mark.parametrize("count", [40, 5000])
def test_proposals_are_decided_as_exact_arithmetic_would(root: str, count: int) -> None:
    """The same bits give the same exponential variates; each is held to its exact exponent."""
    sigma2 = Fraction(root) ** 2
    sizes = abs(two_sided_many(math.isqrt(sigma2 // 1) + 1, 1, count, Seeded(1)))
    accepted = _accepted(sigma2, sizes, Seeded(2))
    variates = geometric_many(1 << BITS, 1, count, Seeded(2)).tolist()
    numerator, unit = _exponent(sigma2)
    exponents = [numerator(size) << BITS for size in sizes.tolist()]
    decided = [variate * unit >= g for variate, g in zip(variates, exponents, strict=True)]
    assert accepted.tolist() == decided
