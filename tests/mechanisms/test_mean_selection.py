"""Means that are chosen: their laws against the claims, on all small neighbours; samples."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from dpquery.core.privacy_loss import Neighbours
from dpquery.mechanisms import MeanExponential, MeanInverseSensitivity
from tests.mechanisms.sources import PATTERNS, Repeating, Seeded, Stuck, ended
from tests.turns import in_turn

ADD_REMOVE, SUBSTITUTE = Neighbours
ONE, HALF = Fraction(1), Fraction(1, 2)
ALARM = 1e-6
"""How often a test below would fail for right draws and fresh bits; its seeds are fixed."""

Kind = type[MeanExponential] | type[MeanInverseSensitivity]
KINDS = [MeanExponential, MeanInverseSensitivity]


def worst_loss(kind: Kind, rate: Fraction, top: int, rows: int, relation: Neighbours) -> float:
    """The largest log-ratio over all tables of up to so many rows of 0 to top."""
    mechanism = kind(rate, 60)

    @cache
    def law(total: int, number: int) -> np.ndarray:
        return np.log(mechanism.pmf(total, number, top))

    worst = 0.0
    for n in range(rows + 1):
        for total in range(n * top + 1):
            here = law(total, n)
            others = (
                [law(total + value, n + 1) for value in range(top + 1)]
                if relation is ADD_REMOVE
                else [law(t, n) for t in range(total + 1, min(total + top, n * top) + 1)]
            )
            worst = max([worst, *(np.abs(here - other).max() for other in others)])
    return worst


ATTAINED = {
    (MeanExponential, ADD_REMOVE): 0.72,
    (MeanExponential, SUBSTITUTE): 0.78,
    (MeanInverseSensitivity, ADD_REMOVE): 0.75,
    (MeanInverseSensitivity, SUBSTITUTE): 0.70,
}


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("top", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_chosen_mean_loses_at_most_epsilon(
    kind: Kind, top: int, relation: Neighbours
) -> None:
    """The number of rows is private too: it moves by one where a row is added."""
    rate = kind.calibrated(1, ONE).rate
    worst = worst_loss(kind, rate, top, 12, relation)
    assert ATTAINED[kind, relation] <= worst <= 1 + 1e-9


@pytest.mark.parametrize(("epsilon", "lost"), [("1", 0.8321), ("3", 2.0754)])
def test_many_rows_lose_what_the_truncated_law_says(epsilon: str, lost: float) -> None:
    """A replaced row: eps / 2 + ln(2 - exp(-eps / 2)), from below as the grid gets finer."""
    asked = Fraction(epsilon)
    mechanism = MeanExponential(asked / 2, 4000)
    laws = [np.log(mechanism.pmf(s, 40, 1)) for s in range(41)]
    worst = max(np.abs(a - b).max() for a, b in itertools.pairwise(laws))
    half = float(asked / 2)
    assert lost == pytest.approx(half + math.log(2 - math.exp(-half)), abs=1e-3)
    assert lost - 0.03 <= worst <= lost + 1e-3


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("kind", KINDS)
def test_epsilon_as_the_rate_fails(kind: Kind, relation: Neighbours) -> None:
    assert worst_loss(kind, ONE, 1, 12, relation) > 1.3


@pytest.mark.parametrize(
    ("epsilon", "rows", "lost"), [("0.1", 1000, 19.99), ("1", 100, 1.919), ("3", 100, 0.470)]
)
def test_a_share_is_off_by_rows_of_geometric_law(epsilon: str, rows: int, lost: float) -> None:
    """In the middle, 1 / sinh(eps / 2) rows; in print, 2 / (1 - exp(-eps)): 3.164 for 1.919."""
    asked = Fraction(epsilon)
    law = MeanInverseSensitivity.calibrated(1, asked)
    pmf = replace(law, ticks=20_000).pmf(rows // 2, rows, 1)
    off = sum(
        p * int(abs(Fraction(rows, 2) - Fraction(rows * t, 20_000)) + HALF)
        for t, p in enumerate(pmf)
    )
    assert off == pytest.approx(lost, rel=0.01)
    assert 1 / math.sinh(asked / 2) == pytest.approx(lost, abs=1e-2)
    assert 2 / (1 - math.exp(-asked)) > 1.04 * off


def test_a_chosen_mean_is_off_by_twice_the_noise_of_a_public_count() -> None:
    law = MeanExponential(ONE / 2, 2000).pmf(50, 100, 1)
    off = sum(p * abs(50 - t / 20) for t, p in enumerate(law))
    assert off == pytest.approx(2, rel=1e-2)


SETTINGS = [(7, 5, 3), (0, 5, 3), (15, 5, 3), (1, 1, 1), (0, 0, 1), (3, 8, 1), (5, 9, 2)]


@pytest.mark.parametrize("rate", in_turn(["1/10", "1/2", "3", "20"], 2))
@pytest.mark.parametrize("kind", KINDS)
def test_ticks_follow_the_law(kind: Kind, rate: str) -> None:
    """Seven data sets, eight samples of 400 each, false alarm 1e-6."""
    mechanism, p_values = kind(Fraction(rate), 24), []
    for place, setting in enumerate(SETTINGS):
        law = np.array(mechanism.pmf(*setting))
        likely = np.flatnonzero(law * 400 > 5)
        for seed in range(8):
            randomness = Seeded(10 * place + seed)
            drawn = Counter(mechanism.release(*setting, randomness) for _ in range(400))
            seen = [drawn[tick] for tick in likely.tolist()]
            expected = law[likely] * 400
            if expected.sum() < 395:
                seen.append(400 - sum(seen))
                expected = np.append(expected, 400 - expected.sum())
            if len(seen) > 3:
                p_values.append(stats.chisquare(seen, expected, sum_check=False).pvalue)
    assert len(p_values) >= 8
    assert stats.kstest(p_values, "uniform").pvalue > ALARM


@pytest.mark.parametrize("rate", ["1/1000000000", "1/2", "1000000000"])
@pytest.mark.parametrize("rows", [0, 1, 1000, 2**36])
@pytest.mark.parametrize("kind", KINDS)
def test_draws_end_soon_for_any_table(kind: Kind, rows: int, rate: str) -> None:
    mechanism = kind(Fraction(rate))
    for total in (0, rows * 10, rows * 7 // 2):
        tick = mechanism.release(total, rows, 10, Seeded(rows))
        assert 0 <= tick <= mechanism.ticks
        if rows > 100 and mechanism.rate > 10**5:
            assert abs(Fraction(tick, mechanism.ticks) - Fraction(total, rows * 10)) < Fraction(
                1, 100
            )


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_source_ends(kind: Kind, pattern: str, source: type) -> None:
    bits = source(PATTERNS[pattern])
    tick = ended(lambda: kind(ONE / 2).release(7, 5, 3, bits))
    assert tick == "DPQ902" or 0 <= tick <= 1 << 40


def test_floats_and_parameters_without_meaning_are_refused() -> None:
    for kind in KINDS:
        with pytest.raises(TypeError):
            kind(ONE).release(1.5, 2, 1, Seeded(1))
        for rate, ticks in ((Fraction(0), 4), (ONE, 0)):
            with pytest.raises(ValueError, match="rate"):
                kind(rate, ticks)
