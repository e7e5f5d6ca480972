"""Noise by maximum norm: the claim from its law, samples of it, and intervals."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from itertools import repeat

import numpy as np
import pytest
from scipy import stats

from dpquery.mechanisms import DiscreteLaplace, MaxNorm
from dpquery.mechanisms.laplace import combined_reach
from tests.mechanisms.sources import ONES, PATTERNS, ZEROS, Repeating, Seeded, Stuck, ended

ONE = Fraction(1)
ALARM = 1e-6
"""How often a test below would fail for right noise and fresh bits; its seeds are fixed."""
LATTICE = [(1, "1"), (1, "7/2"), (2, "2"), (3, "3")]


def law(noise: MaxNorm, end: int) -> dict[tuple[int, ...], float]:
    """Return the probabilities of all lists up to an end, beyond which there is hardly any."""
    places = itertools.product(range(-end, end + 1), repeat=noise.size)
    weights = {z: math.exp(noise.log_weight(z)) for z in places}
    total = math.fsum(weights.values())
    return {z: weight / total for z, weight in weights.items()}


def radii(noise: MaxNorm) -> np.ndarray:
    """Return the law of the radius."""
    scale, size = float(noise.scale), noise.size
    radius = np.arange(int(scale * (2 * size + 60)) + 60)
    logs = size * np.log(2 * radius + 1) - radius / scale
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def beyond(noise: MaxNorm, end: int) -> float:
    """Return how often one of the values is farther than an end."""
    law_of = radii(noise)
    radius = np.arange(len(law_of))
    return float((law_of * np.maximum(2 * (radius - end), 0) / (2 * radius + 1)).sum())


@pytest.mark.parametrize(("size", "scale"), LATTICE)
def test_it_loses_the_largest_move_over_its_scale(size: int, scale: str) -> None:
    """At every output; attained where all values move alike, or one of them."""
    noise = MaxNorm(Fraction(scale), size)
    places = list(itertools.product(range(-4, 5), repeat=size))
    for moved in itertools.product(range(-2, 3), repeat=size):
        worst = max(
            noise.log_weight(z)
            - noise.log_weight([a + b for a, b in zip(z, moved, strict=True)])
            for z in places
        )
        assert worst == pytest.approx(float(noise.loss(max(map(abs, moved))).epsilon))


def test_by_the_scale_of_one_value_a_second_list_would_be_free() -> None:
    """The losses of lists add up: two that both move lose twice as much."""
    noise = MaxNorm(Fraction(2), 2)
    assert noise.loss(1 + 1).epsilon == 2 * noise.loss(1).epsilon


@pytest.mark.parametrize(("size", "scale"), LATTICE)
def test_a_radius_and_a_uniform_cube_make_the_law(size: int, scale: str) -> None:
    noise = MaxNorm(Fraction(scale), size)
    cubes = radii(noise) / (2 * np.arange(len(radii(noise))) + 1.0) ** size
    inside = cubes[::-1].cumsum()[::-1]
    for m in range(12):
        ratio = math.log(inside[m] / inside[0])
        assert ratio == pytest.approx(noise.log_weight([m] * size), abs=1e-9)


def agreement(expected: MaxNorm, sampled: MaxNorm) -> float:
    """Chi-square of 24 samples against the law; how likely the p-values are."""
    end = 5 if expected.size > 2 else 9
    known = radii(expected) / (2 * np.arange(len(radii(expected))) + 1.0) ** expected.size
    each = known[::-1].cumsum()[::-1]
    cells = {z: each[max(map(abs, z))] for z in law(expected, end)}
    groups: list[list[tuple[int, ...]]] = [[]]
    for z in sorted(cells, key=cells.get, reverse=True):
        if sum(map(cells.get, groups[-1])) > 1 / 40:
            groups.append([])
        groups[-1].append(z)
    expected_in = [400 * sum(map(cells.get, group)) for group in groups]
    expected_in.append(400 - sum(expected_in))
    p_values = []
    for seed in range(24):
        flat = sampled.release([0] * (400 * sampled.size), Seeded(seed))
        starts = range(0, len(flat), sampled.size)
        seen = Counter(tuple(flat[at : at + sampled.size]) for at in starts)
        counts = [sum(map(seen.get, group, repeat(0))) for group in groups]
        counts.append(400 - sum(counts))
        pairs = zip(expected_in, counts, strict=True)
        parts, counted = zip(*((p, c) for p, c in pairs if p > 2), strict=True)
        p_values.append(float(stats.chisquare(counted, parts, sum_check=False).pvalue))
    return float(stats.kstest(p_values, "uniform").pvalue)


@pytest.mark.parametrize(("size", "scale"), LATTICE)
def test_noise_follows_the_law(size: int, scale: str) -> None:
    """24 x 400 lists, false alarm 1e-6."""
    noise = MaxNorm(Fraction(scale), size)
    assert agreement(noise, noise) > ALARM


def test_another_scale_is_noticed() -> None:
    """At the sizes used above; so would be a radius that is never drawn again."""
    assert agreement(MaxNorm(Fraction(2), 2), MaxNorm(Fraction(3), 2)) < ALARM


def test_a_radius_that_is_always_kept_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = MaxNorm(Fraction(3), 3)
    monkeypatch.setattr("dpquery.mechanisms.max_norm.all", lambda kept: True, raising=False)
    assert agreement(noise, noise) < ALARM


@pytest.mark.parametrize("confidence", ["1/10", "1/2", "19/20", "999999/1000000"])
@pytest.mark.parametrize(
    ("size", "scale"), [(1, "1"), (2, "2"), (5, "5"), (5, "40"), (27, "27"), (152, "300")]
)
def test_the_interval_holds_enough_and_little_more(
    size: int, scale: str, confidence: str
) -> None:
    noise, wanted = MaxNorm(Fraction(scale), size), Fraction(confidence)
    low, high = noise.interval(10, wanted)
    assert low + high == 20
    assert beyond(noise, high - 10) <= float(1 - wanted) + 1e-12
    assert high <= 14 or beyond(noise, high - 14) > float(1 - wanted)


@pytest.mark.parametrize("size", [1, 5, 40])
def test_values_have_the_deviation_that_is_shown(size: int) -> None:
    """Of 20,000 values; lists are far apart, so 8 % is far more than chance."""
    noise = MaxNorm(Fraction(2**70), size)
    count = 20_000 // size
    drawn = np.array(noise.release([0] * (count * size), Seeded(1)), dtype=float)
    off = 5 * drawn.std() / math.sqrt(count)
    assert drawn.std() == pytest.approx(float(noise.scale_shown), rel=0.08)
    assert abs(drawn.mean()) < off


@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("line", [(1, 0, 0), (1, 1, 0), (1, -0.5, 0.1), (1,) * 9])
def test_several_values_are_within_their_reach_as_often_as_stated(
    line: tuple[float, ...], confidence: float
) -> None:
    """Of 4,000 lists, P[farther off] < 1e-6; half a percent is that of the law taken."""
    noise, count = MaxNorm(Fraction(10**6), len(line)), 4000
    drawn = np.array(noise.release([0] * (count * len(line)), Seeded(2))).reshape(count, -1)
    reach = combined_reach(noise, float(noise.scale_shown), 1 - confidence)(line)
    held = (abs(drawn @ np.array(line, dtype=float)) <= reach).mean()
    off = 4.9 * math.sqrt(confidence * (1 - confidence) / count)
    assert confidence - off - 0.005 < held < confidence + off + 0.015


def test_it_has_less_noise_than_laplace_for_values_that_move_together() -> None:
    for size, times in ((5, 1.88), (27, 2.33), (152, 2.43)):
        laplace = DiscreteLaplace.calibrated(1000 * size, ONE)
        noise = MaxNorm.calibrated(1000, ONE, size)
        ratio = math.sqrt(2) * float(laplace.scale_shown / noise.scale_shown)
        assert ratio == pytest.approx(times, abs=0.01)


def test_wide_values_and_arrays_are_read_as_integers() -> None:
    noise = MaxNorm(Fraction(2**90), 2)
    for exact in ([2**126, -(2**126)], np.array([2**62, -(2**62)])):
        drawn = noise.release(exact, Seeded(1))
        assert {type(value) for value in drawn} == {int}
        plain = noise.release([0, 0], Seeded(1))
        moved = [a - b for a, b in zip(drawn, plain, strict=True)]
        assert moved == [int(value) for value in exact]
    assert noise.release([], Seeded(1)) == []


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_broken_source_ends_with_noise_or_a_fault(pattern: str, source: type) -> None:
    noise, bits = MaxNorm(Fraction(100), 3), source(PATTERNS[pattern])
    drawn = ended(lambda: noise.release([0, 0, 0], bits))
    assert drawn == "DPQ902" or len(drawn) == 3
    if source is Repeating and PATTERNS[pattern] in {ZEROS, ONES}:
        assert drawn == "DPQ902"


def test_floats_and_parameters_without_meaning_are_refused() -> None:
    noise = MaxNorm(Fraction(3), 2)
    with pytest.raises(TypeError):
        noise.release([0.5, 1], Seeded(1))
    with pytest.raises(ValueError, match="one size"):
        noise.release([1, 2, 3], Seeded(1))
    for confidence in (Fraction(0), ONE):
        with pytest.raises(ValueError, match="confidence"):
            noise.interval(0, confidence)
    for scale, size in ((Fraction(1), 0), (Fraction(1), 2), (Fraction(0), 1)):
        with pytest.raises(ValueError, match="scale"):
            MaxNorm(scale, size)
