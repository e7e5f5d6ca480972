"""Broken sources of bits: every draw ends soon, with a value or with DPQ902 (I10)."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

import pytest

from dpquery.errors import InternalError
from dpquery.mechanisms import AdditiveNoise, Randomness
from dpquery.mechanisms.randomness import ROUNDS
from dpquery.mechanisms.samplers import coin
from tests.mechanisms.cases import NAMED, Case
from tests.mechanisms.sources import ONES, PATTERNS, ZEROS, Failing, Repeating, Seeded, Stuck

SECONDS = 5
COUNTS = (1, 1000)


def mechanisms(case: Case) -> list[AdditiveNoise]:
    return [case.of_spread(spread) for spread in (Fraction(1), *case.small, *case.large)]


def outcome(mechanism: AdditiveNoise, count: int, randomness: Randomness) -> list[int] | str:
    """The noise of one release, or the code it was refused with."""
    start = time.monotonic()
    try:
        return mechanism.release([0] * count, randomness)
    except InternalError as fault:
        return fault.code
    finally:
        assert time.monotonic() - start < SECONDS


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("name", "case"), NAMED)
def test_a_broken_source_ends_with_a_value_or_a_fault(
    name: str, case: Case, pattern: str, source: Callable[[bytes], Randomness]
) -> None:
    for mechanism in mechanisms(case):
        for count in COUNTS:
            result = outcome(mechanism, count, source(PATTERNS[pattern]))
            assert result == "DPQ902" or len(result) == count


@pytest.mark.parametrize("block", [ZEROS, ONES])
@pytest.mark.parametrize(("name", "case"), NAMED)
def test_bits_that_never_change_release_nothing(name: str, case: Case, block: bytes) -> None:
    for mechanism in mechanisms(case):
        for count in COUNTS:
            assert outcome(mechanism, count, Repeating(block)) == "DPQ902"


@pytest.mark.parametrize(("name", "case"), NAMED)
def test_bounded_loops_alone_stop_a_bare_value(name: str, case: Case) -> None:
    """Past the comparison of two lanes: zeros give nothing, ones nothing without noise."""
    for mechanism in mechanisms(case):
        for count in COUNTS:
            assert outcome(mechanism, count, Stuck(ZEROS)) == "DPQ902"
            noise = outcome(mechanism, count, Stuck(ONES))
            assert noise == "DPQ902" or 0 not in noise


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("name", "case"), NAMED)
def test_a_system_without_randomness_is_a_fault_of_ours(
    name: str, case: Case, count: int
) -> None:
    assert outcome(case.of_spread(Fraction(1)), count, Failing()) == "DPQ902"


def test_the_fault_shows_no_values() -> None:
    with pytest.raises(InternalError) as fault:
        Repeating(ZEROS).below(10)
    assert str(fault.value).splitlines()[0] == (
        "failed[DPQ902]: the randomness of the operating system looks broken"
    )


class Heads(Randomness):
    """Coins of probability 1/e show heads for ever: each run stops at its third toss."""

    __slots__ = ()

    def below(self, bound: int) -> int:
        return 0 if bound < 3 else bound - 1


def test_a_coin_of_vanishing_probability_ends_too() -> None:
    """exp(-10^12) is no reason for 10^12 tosses."""
    with pytest.raises(InternalError, match="randomness"):
        coin(10**12, 1, Heads())


class Counting(Seeded):
    """Counts how often bits are asked for."""

    __slots__ = ("asked",)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked = 0

    def _bytes(self, count: int) -> bytes:
        self.asked += 1
        return super()._bytes(count)


@pytest.mark.parametrize(("name", "case"), NAMED)
def test_honest_bits_come_nowhere_near_the_bound(name: str, case: Case) -> None:
    """500 single draws, each loop of a draw within it; alarm far below 1e-6 (0.6^128 each)."""
    for mechanism in mechanisms(case):
        randomness = Counting(9)
        for _ in range(500):
            before = randomness.asked
            mechanism.release([0], randomness)
            assert randomness.asked - before < ROUNDS
