"""Samples against the exact law, on every path of the code: single, many, wide integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from scipy import stats

from dpquery.mechanisms import AdditiveNoise, DiscreteLaplace
from dpquery.mechanisms.samplers import FEW, Variate, coin, exceeds, geometric
from tests.mechanisms.cases import CASES, NAMED, WRONG_SPREADS, Case
from tests.mechanisms.laws import Cells
from tests.mechanisms.sources import Seeded
from tests.turns import in_turn

SEEDS = 24
MANY, SINGLE = 6000, 1600
ALARM = 1e-6
"""How often a test below would fail for right noise and fresh bits; its seeds are fixed."""

SMALL = [(name, case, spread) for name, case in NAMED for spread in case.small]
LARGE = [(name, case, spread) for name, case in NAMED for spread in case.large]


def many(mechanism: AdditiveNoise, seed: int) -> list[int]:
    return mechanism.release([0] * MANY, Seeded(seed))


def single(mechanism: AdditiveNoise, seed: int) -> list[int]:
    randomness, few = Seeded(seed), [0] * FEW
    return [noise for _ in range(SINGLE // FEW) for noise in mechanism.release(few, randomness)]


def agreement(
    law: AdditiveNoise, sampled: AdditiveNoise, draw: Callable[[AdditiveNoise, int], list[int]]
) -> float:
    """Chi-square per seed; how likely the p-values are as a sample of the uniform law."""
    cells = Cells(law)
    p_values = [cells.p_value(draw(sampled, seed)) for seed in range(SEEDS)]
    return float(stats.kstest(p_values, "uniform").pvalue)


@pytest.mark.parametrize(("name", "case", "spread"), in_turn(SMALL + LARGE, 2))
def test_many_values_follow_the_law(name: str, case: Case, spread: Fraction) -> None:
    """24 x 6000 draws, false alarm 1e-6."""
    mechanism = case.of_spread(spread)
    assert agreement(mechanism, mechanism, many) > ALARM


@pytest.mark.parametrize(("name", "case", "spread"), in_turn(SMALL + LARGE, 2))
def test_single_values_follow_the_law(name: str, case: Case, spread: Fraction) -> None:
    """24 x 1600 draws, false alarm 1e-6."""
    mechanism = case.of_spread(spread)
    assert agreement(mechanism, mechanism, single) > ALARM


@pytest.mark.parametrize(
    ("factor", "draw"),
    [
        pytest.param(factor, draw, marks=[pytest.mark.slow] if rare else [])
        for factor in WRONG_SPREADS
        for draw in (many, single)
        for rare in [draw is single and factor != WRONG_SPREADS[0]]
    ],
)
@pytest.mark.parametrize(("name", "case"), NAMED)
def test_noise_of_another_spread_is_noticed(
    name: str, case: Case, factor: Fraction, draw: Callable[[AdditiveNoise, int], list[int]]
) -> None:
    """Half and twice the spread, 30 % too little and too much, at the sizes used above."""
    spread = case.small[0]
    wrong = agreement(case.of_spread(spread), case.of_spread(spread * factor), draw)
    assert wrong < ALARM


@pytest.mark.parametrize("draw", [many, single])
@pytest.mark.parametrize("spread", [Fraction(1, 3), Fraction(1)])
@pytest.mark.parametrize(("name", "case"), NAMED)
def test_narrow_noise_follows_its_few_probabilities(
    name: str, case: Case, spread: Fraction, draw: Callable[[AdditiveNoise, int], list[int]]
) -> None:
    """1600 or 6000 draws, five values of noise, false alarm 1e-6 in all."""
    mechanism = case.of_spread(spread)
    noise = draw(mechanism, 5)
    for value in range(-2, 3):
        test = stats.binomtest(noise.count(value), len(noise), mechanism.pmf(value))
        assert test.pvalue > ALARM / 5


def test_noise_without_its_zero_is_noticed() -> None:
    """A sampler that never draws minus zero again gives zero twice as often."""
    case = CASES[DiscreteLaplace]
    cells = Cells(case.of_spread(case.small[0]))
    noise = many(case.of_spread(case.small[0]), 1)
    doubled = noise + [0] * noise.count(0)
    assert cells.p_value(noise) > 1e-4
    assert cells.p_value(doubled) < ALARM


@pytest.mark.parametrize("ratio", ["0", "1/7", "1", "5/2"])
def test_coins_of_exponential_probability_are_fair(ratio: str) -> None:
    """20,000 tosses, false alarm 1e-6."""
    x, randomness = Fraction(ratio), Seeded(11)
    heads = sum(coin(x.numerator, x.denominator, randomness) for _ in range(20_000))
    assert stats.binomtest(heads, 20_000, math.exp(-x)).pvalue > ALARM


@pytest.mark.parametrize("ratio", ["1/7", "1", "7/10", "5/2"])
def test_an_exponential_variate_passes_a_ratio_as_often_as_it_must(ratio: str) -> None:
    """Known to whole numbers only, so further digits decide often; 20,000 tries, alarm 1e-6."""
    x, randomness = Fraction(ratio), Seeded(12)
    passed = sum(
        exceeds(Variate(geometric(1, 1, randomness), 0), x.numerator, x.denominator, randomness)
        for _ in range(20_000)
    )
    assert stats.binomtest(passed, 20_000, math.exp(-x)).pvalue > ALARM
