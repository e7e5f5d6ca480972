"""Samples of the grid quantile against its law, and the accuracy it is meant to have.

The law must not depend on how bins are made, shared or forgotten: most trees here have few
bins, and forget tables between attempts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpquery.mechanisms import GridQuantile, rank_range
from dpquery.mechanisms import samplers as certified
from dpquery.mechanisms.samplers import shrunk_coin
from tests.mechanisms.histograms import Codes, Rows, salaries
from tests.mechanisms.sources import Seeded

ALARM = 1e-6
"""How often a test below would fail for right draws and fresh bits; its seeds are fixed."""
SEEDS, DRAWS, SHARED = 24, 160, 8
"""Eight draws share a tree; then a fresh one starts."""


def clumped(seed: int, rows: int, cells: int) -> np.ndarray:
    """Weights with a quarter of the rows in one cell."""
    numbers = np.random.default_rng(seed)
    codes = np.minimum(numbers.gamma(2, cells / 10, rows).astype(int), cells - 1)
    codes[: rows // 4] = cells // 7
    return np.bincount(codes, minlength=cells)


SETTINGS = {
    "the median, two bins": (40, 60, "1/2", "3/10", 2, 12),
    "a high order, four bins": (300, 300, "9/10", "1/20", 4, 12),
    "a low order, eight bins": (300, 300, "1/4", "1/2", 8, 24),
    "the least": (60, 300, "0", "2/5", 4, 8),
    "the largest": (60, 300, "1", "1/5", 4, 8),
    "no forgetting": (100, 256, "1/3", "1/10", 16, 1 << 16),
}


def case(name: str) -> tuple[GridQuantile, np.ndarray]:
    rows, cells, order, rate, bins, held = SETTINGS[name]
    mechanism = GridQuantile(Fraction(order), cells, Fraction(rate), rows, bins, held)
    return mechanism, clumped(rows, rows, cells)


def sample(mechanism: GridQuantile, weights: np.ndarray, seed: int) -> list[int]:
    randomness, drawn = Seeded(seed), []
    rows = Rows({cell: int(weights[cell]) for cell in np.flatnonzero(weights)})
    for _ in range(DRAWS // SHARED):
        tree = mechanism.tree(rows)
        drawn += [mechanism.draw(tree, randomness) for _ in range(SHARED)]
    return drawn


def agreement(law: GridQuantile, sampled: GridQuantile, weights: np.ndarray) -> float:
    """Chi-square per seed; how likely the p-values are as a sample of the uniform law."""
    pmf = np.array(law.pmf(weights.tolist()))
    likely = np.argsort(-pmf, kind="stable")
    pool = np.empty(len(pmf), dtype=int)
    pool[likely] = np.minimum(np.cumsum(pmf[likely]) * 20, 19).astype(int)
    expected = np.bincount(pool, pmf, minlength=20) * DRAWS
    pool = np.searchsorted(np.flatnonzero(expected > 4), pool, side="right")
    expected = np.bincount(pool, pmf) * DRAWS
    p_values = []
    for seed in range(SEEDS):
        seen = np.bincount(pool[sample(sampled, weights, seed)], minlength=len(expected))
        held = expected > 0
        assert not seen[~held].any()
        test = stats.chisquare(seen[held], expected[held], sum_check=False)
        p_values.append(float(test.pvalue))
    return float(stats.kstest(p_values, "uniform").pvalue)


SLOW = {"the median, two bins", "a low order, eight bins", "the largest", "the least"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in SETTINGS],
)
def test_draws_follow_the_law(name: str) -> None:
    """24 x 160 draws, false alarm 1e-6."""
    mechanism, weights = case(name)
    assert agreement(mechanism, mechanism, weights) > ALARM


@pytest.mark.parametrize("factor", ["1/2", "3/2", pytest.param("2", marks=pytest.mark.slow)])
def test_draws_at_another_rate_are_noticed(factor: str) -> None:
    """At the sizes used above."""
    mechanism, weights = case("no forgetting")
    wrong = replace(mechanism, rate=mechanism.rate * Fraction(factor))
    assert agreement(mechanism, wrong, weights) < ALARM


@pytest.mark.parametrize(
    ("x", "e"), [("0", 0), ("7/5", 2), ("9/4", 0), ("70", 100), ("70", 99)]
)
def test_coins_of_shrunk_probability_are_fair(x: str, e: int) -> None:
    """20,000 tosses, false alarm 1e-6."""
    exponent, randomness = Fraction(x), Seeded(11)
    heads = sum(shrunk_coin(exponent, e, randomness) for _ in range(20_000))
    chance = math.exp(e * math.log(2) - float(exponent))
    assert stats.binomtest(heads, 20_000, min(1, chance)).pvalue > ALARM


def test_the_last_coin_is_fair_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It decides once in 2^55 tosses; with a rest of 1 it must show exp(-1). Alarm 1e-6."""
    monkeypatch.setattr(certified, "_below_rest", lambda *_: True)
    randomness = Seeded(13)
    heads = sum(
        certified._even_run_of_rest(Fraction(0), 0, 0, randomness) for _ in range(20_000)
    )
    assert stats.binomtest(heads, 20_000, math.exp(-1)).pvalue > ALARM


@pytest.mark.parametrize(
    ("text", "unit", "most"), [("0.5", 1, 2), ("0.9", 1, 4), ("0.9", 100, 2)]
)
def test_salaries_with_an_atom_are_missed_by_a_few_rows(
    text: str, unit: int, most: int
) -> None:
    """Mean rank error of 100 draws at epsilon 1; the bounds are five standard errors away."""
    order = Fraction(text)
    codes = np.sort(salaries(7, unit))
    distance = rank_range(order, 1, substitution=False, grouped=False)
    mechanism = GridQuantile.calibrated(
        order, 30_000_000 // unit + 1, len(codes), distance, Fraction(1)
    )
    randomness, errors = Seeded(3), []
    for _ in range(100):
        cell = mechanism.release(Codes(codes), randomness)
        below, up_to = np.searchsorted(codes, [cell, cell + 1])
        errors.append(max(0, below - order * len(codes), order * len(codes) - up_to))
    assert np.mean(errors) <= most
