"""Noisy histograms: the claims from their laws, on all neighbours of small ones; samples."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest

from dpquery.mechanisms import (
    AboveThreshold,
    DiscreteLaplace,
    FirstNoisyCount,
    LargestNoisyCounts,
    NoisyTop,
)
from tests.mechanisms.joint_laws import agreement, sampling
from tests.mechanisms.sources import PATTERNS, Repeating, Seeded, Stuck, ended

ONE = Fraction(1)
ALARM = 1e-6
"""How often a test below would fail for right draws and fresh bits; its seeds are fixed."""
Counts = tuple[int, ...]
SMALL = [*itertools.product((0, 3), repeat=3), (0, 9, 9), (7, 7, 7), (-3, 2, 20)]
ADDED = [counts for counts in itertools.product((0, 1, 2), repeat=3) if sum(counts) <= 2]
REPLACED = [
    tuple(a - b for a, b in zip(here, there, strict=True))
    for here in ADDED
    for there in ADDED
    if sum(here) == sum(there) == 2
]


def log_law(mechanism: LargestNoisyCounts | FirstNoisyCount) -> Callable[[Counts], np.ndarray]:
    if isinstance(mechanism, FirstNoisyCount):
        return cache(lambda counts: np.log(mechanism.pmf(counts, 2)))
    orders = list(itertools.permutations(range(3), mechanism.size))
    return cache(lambda counts: np.log([mechanism.pmf(counts, order) for order in orders]))


def worst_loss(
    mechanism: LargestNoisyCounts | FirstNoisyCount, moves: Iterable[Counts]
) -> float:
    """The largest log-ratio where a unit of two rows makes one of these moves."""
    law = log_law(mechanism)
    return max(
        float(np.abs(law(counts) - law(tuple(map(sum, zip(counts, move, strict=True))))).max())
        for counts in SMALL
        for move in moves
    )


MADE = {
    "first above": FirstNoisyCount.calibrated,
    "largest": partial(LargestNoisyCounts.calibrated, size=1),
    "two largest": partial(LargestNoisyCounts.calibrated, size=2),
    "all": partial(LargestNoisyCounts.calibrated, size=3),
}


@pytest.mark.parametrize(("moves", "distance"), [(ADDED, 2), (REPLACED, 4)])
@pytest.mark.parametrize("name", MADE)
def test_a_unit_of_two_rows_loses_exactly_epsilon(
    name: str, moves: list[Counts], distance: int
) -> None:
    """However many places are told; half of the noise loses more than it says."""
    asked = Fraction(3, 2)
    worst = worst_loss(MADE[name](distance, asked), moves)
    assert 0.8 * asked <= worst <= asked * (1 + 1e-9)
    assert worst_loss(MADE[name](distance, 2 * asked), moves) > 1.5 * asked


def test_the_noise_of_an_added_unit_fails_for_a_replaced_one() -> None:
    for made in MADE.values():
        assert worst_loss(made(2, ONE), REPLACED) > 1.5


def test_probabilities_are_those_of_the_claim() -> None:
    """Summed over the noise of each count one by one; equal ones stand in their order."""
    counts, noise = (3, 2, 3), DiscreteLaplace(Fraction(4, 5))
    top, first = dict[Counts, float](), Counter[int | None]()
    for drawn in itertools.product(range(-24, 25), repeat=3):
        chance = math.prod(map(noise.pmf, drawn))
        noisy = [count + n for count, n in zip(counts, drawn, strict=True)]
        order = tuple(sorted(range(3), key=lambda place: -noisy[place]))[:2]
        top[order] = top.get(order, 0) + chance
        first[next((i for i, value in enumerate(noisy) if value > 2), None)] += chance
    largest = LargestNoisyCounts(noise.scale, 2)
    for order, chance in top.items():
        assert largest.pmf(counts, order) == pytest.approx(chance, abs=1e-9)
    law = FirstNoisyCount(noise.scale).pmf(counts, 2)
    assert law == pytest.approx([first[place] for place in (0, 1, 2, None)], abs=1e-9)


FEW, MANY = (7, 3, 0, 9, 9, 4), tuple(place * 37 % 50 for place in range(40))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_largest_follow_the_law(size: int) -> None:
    """24 x 120 draws, false alarm 1e-6; with half of the noise they do not."""
    scale = Fraction(7, 2)
    law: dict[Hashable, float] = {
        order: LargestNoisyCounts(scale, size).pmf(FEW, order)
        for order in itertools.permutations(range(6), size)
    }
    assert math.fsum(law.values()) == pytest.approx(1, abs=1e-9)

    def drawn(scale: Fraction) -> float:
        top = LargestNoisyCounts(scale, size)
        return agreement(law, sampling(lambda bits: tuple(top.release(FEW, bits))), 24, 120)

    assert drawn(scale) > ALARM
    assert drawn(scale / 2) < ALARM


@pytest.mark.parametrize(
    ("counts", "threshold"), [(FEW, 12), pytest.param(MANY, 54, marks=pytest.mark.slow)]
)
def test_the_first_above_follows_the_law(counts: Counts, threshold: int) -> None:
    """24 x 120 draws, false alarm 1e-6; few and many counts take different paths."""
    law = FirstNoisyCount(Fraction(7, 2)).pmf(counts, threshold)
    named: dict[Hashable, float] = dict(zip([*range(len(counts)), None], law, strict=True))

    def drawn(scale: Fraction) -> float:
        first = FirstNoisyCount(scale)
        return agreement(
            named, sampling(lambda bits: first.release(counts, threshold, bits)), 24, 120
        )

    assert drawn(Fraction(7, 2)) > ALARM
    assert drawn(Fraction(7, 4)) < ALARM


def test_equal_counts_stand_in_their_order() -> None:
    sure = Fraction(1, 10**6)
    assert LargestNoisyCounts(sure, 3).release([5, 7, 7, 5, 9], Seeded(1)) == [4, 1, 2]
    assert FirstNoisyCount(sure).release([5, 7, 7], 6, Seeded(1)) == 1
    assert FirstNoisyCount(sure).release([5, 7, 7], 7, Seeded(1)) is None


def test_from_two_places_on_one_round_of_exponential_noise_errs_more() -> None:
    """By the exact laws, at the same loss: rows that the second of five values lacks.

    Where a row is added, one_shot pays twice for two places; where it is replaced, three
    times to two.
    """
    counts, orders = (20, 14, 9, 6, 5), list(itertools.permutations(range(5), 2))
    for one, other in ((1, 2), (2, 3)):

        def lacking(law: Callable[[Counts, Counts], float]) -> float:
            return sum(law(counts, o) * (34 - counts[o[0]] - counts[o[1]]) for o in orders)

        epsilon = Fraction(1, 3)
        counted = lacking(LargestNoisyCounts.calibrated(one, epsilon, 2).pmf)
        assert counted < 0.95 * lacking(NoisyTop.calibrated(other, epsilon, 2).pmf)


def test_a_threshold_that_one_row_in_fifty_passes() -> None:
    """10 rows after 50 values that nobody has: 0.90 by counts, 0.25 by a noisy threshold."""
    counts = [*[0] * 50, 10]
    assert FirstNoisyCount.calibrated(1, ONE).pmf(counts, 5)[-2] == pytest.approx(0.9, abs=0.01)
    assert AboveThreshold.calibrated(1, ONE).pmf(counts, 5)[-2] < 0.3


@pytest.mark.parametrize("confidence", ["1/2", "19/20"])
@pytest.mark.parametrize("scale", ["1/3", "1", "9"])
def test_what_is_lacking_and_how_far_is_right_hold_on_the_law(
    scale: str, confidence: str
) -> None:
    held, width = Fraction(confidence), Fraction(scale)
    for size in (1, 2):
        top = LargestNoisyCounts(width, size)
        gap = top.shortfall(4, held)
        counts = (gap + 1, gap + 1, 0, 0)
        orders = itertools.permutations(range(4), size)
        wrong = sum(top.pmf(counts, o) for o in orders if {2, 3} & {*o})
        assert wrong <= 1 - held
    first = FirstNoisyCount(width)
    reach = first.reach(20, held)
    assert sum(first.pmf([-reach] * 20, 0)[:-1]) <= 1 - held
    assert 1 - first.pmf([reach + 1, *[-reach] * 19], 0)[0] <= 1 - held


def test_wide_integers_are_read_exactly_and_floats_are_not() -> None:
    wide = [-(2**90), 2**90, 2**90 - 2]
    drawn = {
        tuple(LargestNoisyCounts(ONE, 2).release(wide, Seeded(seed))) for seed in range(99)
    }
    assert drawn == {(1, 2), (2, 1)}
    assert (
        FirstNoisyCount(ONE).release([2**100, 2**100 + 2**60], 2**100 + 2**59, Seeded(1)) == 1
    )
    for counts in ([0.5] * 3, [0.5] * 40):
        with pytest.raises(TypeError):
            LargestNoisyCounts(ONE, 1).release(counts, Seeded(1))
        with pytest.raises(TypeError):
            FirstNoisyCount(ONE).release(counts, 0, Seeded(1))


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("counts", [FEW, MANY])
def test_a_broken_source_ends(counts: Counts, pattern: str, source: type) -> None:
    bits = partial(source, PATTERNS[pattern])
    drawn = ended(partial(LargestNoisyCounts(ONE, 2).release, counts, bits()))
    assert drawn == "DPQ902" or len(set(drawn)) == 2
    place = ended(partial(FirstNoisyCount(ONE).release, counts, 9, bits()))
    assert place in {None, "DPQ902", *range(40)}


def test_parameters_without_meaning_are_refused() -> None:
    for scale in (Fraction(0), Fraction(-1)):
        with pytest.raises(ValueError, match="scale"):
            FirstNoisyCount(scale)
        with pytest.raises(ValueError, match="scale"):
            LargestNoisyCounts(scale, 1)
    with pytest.raises(ValueError, match="size"):
        LargestNoisyCounts(ONE, 0)
