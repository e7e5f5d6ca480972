"""AboveThreshold: the claim from its law, on all neighbours of all small streams; samples."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest
from scipy import stats

from dpquery.mechanisms import AboveThreshold
from tests.mechanisms.sources import PATTERNS, Repeating, Seeded, Stuck, ended

ONE = Fraction(1)
ALARM = 1e-6
"""How often a test below would fail for right draws and fresh bits; its seeds are fixed."""

Counts = tuple[int, ...]
STREAMS = [
    *itertools.product((-4, 0, 3), repeat=3),
    *itertools.combinations_with_replacement((-12, -3, -1, 0, 2), 4),
    (-40, -40, -40, 0), (-9, 9, 0, 0), (0, -30, 0), (-15,) * 6,
]  # fmt: skip


def worst_loss(
    mechanism: AboveThreshold, streams: Iterable[Counts], moves: Iterable[int]
) -> float:
    """The largest log-ratio where each count of a stream makes one of these moves."""

    @cache
    def law(counts: Counts) -> np.ndarray:
        return np.log(mechanism.pmf(counts, 0))

    return max(
        np.abs(law(counts) - law(tuple(map(sum, zip(counts, moved, strict=True))))).max()
        for counts in streams
        for moved in itertools.product(moves, repeat=len(counts))
    )


@pytest.mark.parametrize("epsilon", ["1/2", "1", "2"])
@pytest.mark.parametrize("whole", [1, 3])
def test_counts_that_all_rise_lose_epsilon(whole: int, epsilon: str) -> None:
    """A unit that is added adds any part of its weight to each count."""
    asked = Fraction(epsilon)
    mechanism = AboveThreshold.calibrated(whole, asked)
    assert mechanism.threshold_scale == mechanism.count_scale == 2 * whole / asked
    streams = STREAMS if whole == 1 else [s for s in STREAMS if len(s) < 4]
    worst = worst_loss(mechanism, streams, range(whole + 1))
    assert 0.8 * asked <= worst <= asked * (1 + 1e-9)


def test_counts_that_all_rise_attain_epsilon() -> None:
    """Many counts stay where they are, and the last one rises: nearly all is lost."""
    mechanism = AboveThreshold.calibrated(1, ONE)
    here = mechanism.pmf((*[0] * 200, -40), 0)
    there = mechanism.pmf((*[1] * 200, -40), 0)
    assert 0.97 <= np.log(here[-2] / there[-2]) <= 1 + 1e-9


@pytest.mark.parametrize("epsilon", ["1/2", "1"])
def test_counts_that_may_rise_and_fall_lose_epsilon(epsilon: str) -> None:
    """A unit that is replaced: the scale of a count is twice that of the threshold."""
    asked = Fraction(epsilon)
    mechanism = AboveThreshold.calibrated(2, asked, rise=1)
    assert (mechanism.threshold_scale, mechanism.count_scale) == (2 / asked, 4 / asked)
    worst = worst_loss(mechanism, STREAMS, (-1, 0, 1))
    assert 0.8 * asked <= worst <= asked * (1 + 1e-9)


def test_the_scales_of_rising_counts_fail_where_they_may_fall_too() -> None:
    """1.5 epsilon, the case of arbitrary moves."""
    wrong = AboveThreshold.calibrated(1, ONE)
    assert worst_loss(wrong, STREAMS, (-1, 0, 1)) > 1.3


def test_noise_on_the_counts_alone_fails() -> None:
    """Without noise on the threshold, each count that is passed over loses anew."""
    wrong = AboveThreshold(Fraction(1, 100), ONE)
    assert worst_loss(wrong, [(0,) * 6], (0, 1)) > 3


def test_probabilities_are_those_of_the_claim() -> None:
    """Summed over both noises one by one."""
    mechanism = AboveThreshold(Fraction(3, 2), Fraction(5, 2))
    t, q = (np.exp(-1 / scale) for scale in (1.5, 2.5))
    assert mechanism.offset == 1
    found = np.zeros(3)
    for g in range(60):
        chance = (1 - t) * t**g
        for n, m in itertools.product(range(100), repeat=2):
            both = chance * (1 - q) ** 2 * q ** (n + m)
            first, second = n - 2 > g + 1, 1 + m > g + 1
            found[0 if first else 1 if second else 2] += both
    assert mechanism.pmf((-2, 1), 0) == pytest.approx(found, abs=1e-9)
    assert mechanism.pmf((3, 6), 5) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize(
    ("threshold_scale", "count_scale"),
    [("2", "2"), pytest.param("7/3", "16/3", marks=pytest.mark.slow), ("5", "1")],
)
@pytest.mark.parametrize("many", [False, True])
def test_answers_follow_the_law(threshold_scale: str, count_scale: str, many: bool) -> None:
    """24 samples of 150, false alarm 1e-6; few and many counts take different paths."""
    mechanism = AboveThreshold(Fraction(threshold_scale), Fraction(count_scale))
    counts = tuple(place - 30 for place in range(40)) if many else (-6, -3, 1, 2, 9)
    law = np.array(mechanism.pmf(counts, 0))
    likely = np.flatnonzero(law * 150 > 5)
    assert np.sum(law) == pytest.approx(1)
    p_values = []
    for seed in range(24):
        randomness = Seeded(seed)
        drawn = Counter(mechanism.release(counts, 0, randomness) for _ in range(150))
        seen = [drawn[None if place == len(counts) else place] for place in likely.tolist()]
        pairs = zip(
            [*seen, 150 - sum(seen)],
            [*law[likely] * 150, 150 * (1 - law[likely].sum())],
            strict=True,
        )
        kept = np.array([pair for pair in pairs if pair[1] > 1e-6])
        p_values.append(stats.chisquare(kept[:, 0], kept[:, 1], sum_check=False).pvalue)
    assert stats.kstest(p_values, "uniform").pvalue > ALARM


def test_a_stream_is_answered_as_the_list_is() -> None:
    """The same bits give the same answers, asked one by one."""
    mechanism, counts = AboveThreshold(Fraction(2), Fraction(3)), [-8, -7, -2, 0, 3, 30]
    for seed in range(20):
        randomness = Seeded(seed)
        limit = mechanism.limit(0, randomness)
        asked = [mechanism.passes(count, limit, randomness) for count in counts]
        first = asked.index(True)
        assert mechanism.release(counts, 0, Seeded(seed)) == first


@pytest.mark.parametrize("confidence", ["1/2", "19/20"])
def test_the_reach_holds_on_the_law(confidence: str) -> None:
    """No count that lies further below comes first, nor is one that far above passed over."""
    mechanism, held = AboveThreshold(Fraction(2), Fraction(4)), Fraction(confidence)
    r = mechanism.reach(20, held)
    low = mechanism.pmf([-r - 1] * 20, 0)
    assert sum(low[:-1]) <= 1 - held
    assert 1 - mechanism.pmf([r + 1, *[-(10**6)] * 19], 0)[0] <= 1 - held


def test_wide_integers_are_read_exactly_and_floats_are_not() -> None:
    mechanism = AboveThreshold(ONE, ONE)
    assert mechanism.release([2**100, 2**100 + 2**60], 2**100 + 2**59, Seeded(1)) == 1
    for counts in ([0.5], [0.5] * 40):
        with pytest.raises(TypeError):
            mechanism.release(counts, 0, Seeded(1))


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_broken_source_ends(pattern: str, source: type) -> None:
    for counts in ([0] * 3, [0] * 50):
        bits = source(PATTERNS[pattern])
        place = ended(partial(AboveThreshold(ONE, ONE).release, counts, 0, bits))
        assert place in {None, "DPQ902", *range(50)}


def test_parameters_without_meaning_are_refused() -> None:
    for scales in ((Fraction(0), ONE), (ONE, Fraction(-1))):
        with pytest.raises(ValueError, match="scale"):
            AboveThreshold(*scales)
