"""Uniform integers: their law, their ends, wide ones, and nothing shared after a fork."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpquery.mechanisms.randomness import Randomness, less
from dpquery.mechanisms.samplers import _quotients
from tests.mechanisms.sources import Seeded

ALARM = 1e-6
SEEDS = st.integers(0, 2**32)
BOUNDS = st.one_of(
    st.integers(1, 100),
    st.builds(
        lambda power, off: max(1, 2**power + off), st.integers(0, 200), st.integers(-2, 2)
    ),
)


def joined(digits: np.ndarray) -> list[int]:
    columns = zip(*digits.tolist(), strict=True)
    return [
        sum(digit << 63 * place for place, digit in enumerate(reversed(c))) for c in columns
    ]


@given(bound=BOUNDS, count=st.integers(0, 70), seed=SEEDS)
def test_uniform_integers_stay_below_any_bound(bound: int, count: int, seed: int) -> None:
    drawn = joined(Seeded(seed).digits_below(bound, count))
    assert len(drawn) == count
    assert all(0 <= value < bound for value in [*drawn, Seeded(seed).below(bound)])


@pytest.mark.parametrize("bound", [2, 3, 37, 64])
def test_uniform_integers_are_uniform(bound: int) -> None:
    """40,000 draws each way, false alarm 1e-6."""
    source = Seeded(2)
    for drawn in (
        source.below_many(bound, 40_000),
        [source.below(bound) for _ in range(40_000)],
    ):
        seen = np.bincount(drawn, minlength=bound)
        assert len(seen) == bound
        assert stats.chisquare(seen).pvalue > ALARM


@pytest.mark.parametrize("bound", [3 * 2**61, 3 * 2**62, 5 * 2**124, 2**130])
def test_wide_uniform_integers_are_uniform(bound: int) -> None:
    """40,000 draws each way over 48 equal parts, false alarm 1e-6."""
    source = Seeded(3)
    for drawn in (
        joined(source.digits_below(bound, 40_000)),
        [source.below(bound) for _ in range(40_000)],
    ):
        parts = [value * 48 // bound for value in drawn]
        assert stats.chisquare(np.bincount(parts, minlength=48)).pvalue > ALARM
        low = [value % 64 for value in drawn]
        assert stats.chisquare(np.bincount(low, minlength=64)).pvalue > ALARM


def test_coins_are_fair() -> None:
    """80,000 tosses, false alarm 1e-6."""
    heads = int(Seeded(4).coins(80_000).sum())
    assert stats.binomtest(heads, 80_000, 0.5).pvalue > ALARM
    assert [len(Seeded(4).coins(count)) for count in (0, 1, 8, 9)] == [0, 1, 8, 9]


@given(powers=st.lists(st.integers(0, 130), min_size=40, max_size=40), seed=SEEDS)
def test_columns_of_digits_compare_as_integers(powers: list[int], seed: int) -> None:
    def digits(numbers: list[int]) -> np.ndarray:
        mask = 2**63 - 1
        return np.array([[n >> 63 * place & mask for n in numbers] for place in (2, 1, 0)])

    source = Seeded(seed)
    left, right = ([source.below(2**power) for power in powers] for _ in range(2))
    smaller = [a < b for a, b in zip(left, right, strict=True)]
    assert less(digits(left), digits(right)).tolist() == smaller
    assert not less(digits(left), digits(left)).any()


LIMITS = st.sampled_from([1, 8, 32, 53, 54, 55, 61, 62, 63, 64, 90])


@settings(max_examples=400)
@given(t_power=LIMITS, s_power=LIMITS, near=st.booleans(), most=st.integers(0, 512), seed=SEEDS)
def test_quotients_in_64_bits_are_those_of_exact_integers(
    t_power: int, s_power: int, near: bool, most: int, seed: int
) -> None:
    """Scales around every limit of the 64-bit path; no step of it wraps."""
    source = Seeded(seed)
    t, s = (2**power - source.below(2 if near else 2**power) for power in (t_power, s_power))
    offsets, wholes = source.digits_below(t, 20), source.below_many(most + 1, 20)
    with np.errstate(all="raise"):
        quotients = _quotients(offsets, wholes, t, s)
    pairs = zip(joined(offsets), wholes.tolist(), strict=True)
    assert quotients.tolist() == [(u + t * v) // s for u, v in pairs]


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_bound_below_one_is_a_mistake(wrong: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Randomness().below(wrong)
    with pytest.raises(ValueError, match="at least 1"):
        Randomness().below_many(wrong, 1)
    with pytest.raises(ValueError, match="one digit"):
        Randomness().below_many(2**63 + 1, 1)


def test_parent_and_child_draw_different_bits_after_a_fork() -> None:
    source = Randomness()
    source.below(2**64)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, source.below(2**128).to_bytes(16, "little"))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = int.from_bytes(os.read(read, 16), "little")
    os.close(read)
    os.close(write)
    assert theirs != source.below(2**128)
