"""Staircase noise: the claim from its law, the width, intervals; samples."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpquery.mechanisms import DiscreteLaplace, DiscreteStaircase
from tests.mechanisms.sources import ONES, PATTERNS, ZEROS, Repeating, Seeded, Stuck, ended

ONE = Fraction(1)
ALARM = 1e-6
"""How often a test below would fail for right noise and fresh bits; its seeds are fixed."""


def law(noise: DiscreteStaircase) -> np.ndarray:
    end = 40 * noise.step * max(1, math.ceil(1 / noise.epsilon))
    return np.array([noise.pmf(k) for k in range(-end, end + 1)])


def variance(noise: DiscreteStaircase) -> float:
    p = law(noise)
    k = np.arange(len(p)) - len(p) // 2
    return float((p * k * k).sum())


def worst_loss(noise: DiscreteStaircase, moved: int) -> float:
    logs = np.array([noise.log_pmf(k) for k in range(-6 * noise.step, 6 * noise.step + 1)])
    return float(np.abs(logs[moved:] - logs[:-moved]).max())


@pytest.mark.parametrize("epsilon", ["1/2", "1", "3"])
@pytest.mark.parametrize("step", [1, 2, 5, 9])
def test_it_loses_exactly_its_epsilon(step: int, epsilon: str) -> None:
    """At every width; and as much for a move of 1 as for a whole step."""
    asked = Fraction(epsilon)
    for width in range(1, step + 1):
        noise = DiscreteStaircase(step, width, asked)
        for moved in range(1, 3 * step + 1):
            worst = worst_loss(noise, moved)
            assert worst == pytest.approx(float(noise.loss(moved).epsilon))
    assert DiscreteStaircase.calibrated(step, asked).loss(step).epsilon == asked


def test_a_step_that_is_too_short_fails() -> None:
    assert worst_loss(DiscreteStaircase.calibrated(4, ONE), 5) > 1.99


@pytest.mark.parametrize(
    ("epsilon", "mass"), [("0.1", 1.10), ("1", 2.00), ("2", 3.03), ("5", 7.61)]
)
def test_levels_as_in_print_are_no_law(epsilon: str, mass: float) -> None:
    """All but the middle stands one level too high there: it weighs exp(epsilon) as much."""
    noise = DiscreteStaircase.calibrated(2000, Fraction(epsilon))
    middle = sum(noise.pmf(k) for k in range(-noise.width + 1, noise.width))
    assert law(DiscreteStaircase.calibrated(7, noise.epsilon)).sum() == pytest.approx(1)
    assert middle + math.exp(noise.epsilon) * (1 - middle) == pytest.approx(mass, rel=5e-3)


@pytest.mark.parametrize("epsilon", ["1/10", "1", "2", "5"])
def test_no_width_has_less_variance(epsilon: str) -> None:
    asked = Fraction(epsilon)
    for step in (1, 2, 3, 7, 12):
        chosen = DiscreteStaircase.calibrated(step, asked)
        least = min(
            variance(DiscreteStaircase(step, width, asked)) for width in range(1, step + 1)
        )
        assert variance(chosen) <= least * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "ratio"), [("1", 0.959), ("2", 0.845), ("5", 0.371)])
def test_its_variance_is_less_than_that_of_laplace_noise(epsilon: str, ratio: float) -> None:
    """1.918 / 2, 0.423 / 0.5, 0.0297 / 0.08 where values are real."""
    asked = Fraction(epsilon)
    b = math.exp(-float(asked) / 200)
    laplace = 2 * b / (1 - b) ** 2
    assert variance(DiscreteStaircase.calibrated(200, asked)) / laplace == pytest.approx(
        ratio, abs=2e-3
    )


def test_with_a_step_of_one_it_is_laplace_noise() -> None:
    noise, laplace = DiscreteStaircase.calibrated(1, Fraction(3)), DiscreteLaplace(ONE / 3)
    for k in range(-20, 21):
        assert noise.log_pmf(k) == pytest.approx(laplace.log_pmf(k))


@pytest.mark.parametrize("confidence", ["1/10", "1/2", "19/20", "999999/1000000"])
@pytest.mark.parametrize(("step", "epsilon"), [(1, "1"), (7, "2"), (12, "5"), (30, "1/4")])
def test_the_interval_is_the_smallest_that_holds_enough(
    step: int, epsilon: str, confidence: str
) -> None:
    noise, wanted = DiscreteStaircase.calibrated(step, Fraction(epsilon)), Fraction(confidence)
    low, high = noise.interval(10, wanted)
    assert low + high == 20
    held = sum(noise.pmf(k) for k in range(low - 10, high - 9))
    assert held >= float(wanted) - 1e-12
    assert high == 10 or held - 2 * noise.pmf(high - 10) < float(wanted)


@pytest.mark.parametrize("epsilon", ["1/1000000000", "1/7", "10", "1000000000"])
def test_wide_steps_and_extreme_epsilons_are_drawn(epsilon: str) -> None:
    noise = DiscreteStaircase.calibrated(2**70, Fraction(epsilon))
    drawn = noise.release([2**126] * 20, Seeded(1))
    assert {type(value) for value in drawn} == {int}
    _, width = noise.interval(0, 1 - Fraction(1, 10**6))
    assert max(abs(value - 2**126) for value in drawn) <= width
    assert len(set(drawn)) > 10 or noise.epsilon > 100  # then it is zero, but for e^-epsilon


SETTINGS = [(1, "1"), (7, "2"), (12, "5"), (6, "1/2")]


def agreement(expected: DiscreteStaircase, sampled: DiscreteStaircase) -> float:
    """Chi-square of 24 samples of 400 against the law; how likely the p-values are."""
    p = law(expected)
    middle = len(p) // 2
    likely = np.flatnonzero(p * 400 > 5)
    p_values = []
    for seed in range(24):
        drawn = Counter(sampled.release([0] * 400, Seeded(seed)))
        seen = [drawn[int(place) - middle] for place in likely]
        parts = [*(p[likely] * 400), 400 * (1 - p[likely].sum())]
        counts = [*seen, 400 - sum(seen)]
        if parts[-1] < 5:
            parts[-2:], counts[-2:] = [sum(parts[-2:])], [sum(counts[-2:])]
        p_values.append(stats.chisquare(counts, parts, sum_check=False).pvalue)
    return float(stats.kstest(p_values, "uniform").pvalue)


@pytest.mark.parametrize(("step", "epsilon"), SETTINGS)
def test_noise_follows_the_law(step: int, epsilon: str) -> None:
    """24 x 400 draws, false alarm 1e-6."""
    noise = DiscreteStaircase.calibrated(step, Fraction(epsilon))
    assert agreement(noise, noise) > ALARM


@pytest.mark.parametrize("wrong", [(7, 7, "2"), (5, 2, "2"), (7, 3, "1"), (7, 3, "4")])
def test_another_step_width_or_epsilon_is_noticed(wrong: tuple[int, int, str]) -> None:
    """At the sizes used above."""
    step, width, epsilon = wrong
    noise = DiscreteStaircase.calibrated(7, Fraction(2))
    assert (noise.step, noise.width) == (7, 3)
    assert agreement(noise, DiscreteStaircase(step, width, Fraction(epsilon))) < ALARM


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_broken_source_ends_with_noise_or_a_fault(pattern: str, source: type) -> None:
    noise, bits = DiscreteStaircase.calibrated(100, ONE), source(PATTERNS[pattern])
    drawn = ended(lambda: noise.release([0], bits))
    assert drawn == "DPQ902" or len(drawn) == 1
    if source is Repeating and PATTERNS[pattern] in {ZEROS, ONES}:
        assert drawn == "DPQ902"


def test_floats_and_parameters_without_meaning_are_refused() -> None:
    noise = DiscreteStaircase.calibrated(3, ONE)
    with pytest.raises(TypeError):
        noise.release([0.5], Seeded(1))
    with pytest.raises(ValueError, match="confidence"):
        noise.interval(0, ONE)
    for step, width, epsilon in ((3, 0, ONE), (3, 4, ONE), (3, 1, Fraction(0))):
        with pytest.raises(ValueError, match=r"width|epsilon"):
            DiscreteStaircase(step, width, epsilon)
