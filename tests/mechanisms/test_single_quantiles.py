"""Quantiles by the law of gaps, and by noise on the value: their exact laws, and samples."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.core.privacy_events import BoundedRange, Gaussian, decode, encode
from dpquery.core.privacy_loss import Loss, Neighbours
from dpquery.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    GapQuantile,
    GridQuantile,
    NoisyQuantile,
    Randomness,
    rank_range,
)
from tests.mechanisms.histograms import Codes, Rows, salaries
from tests.mechanisms.joint_laws import agreement, sampling, single_rows, worst_loss
from tests.mechanisms.laws import log_ratio
from tests.mechanisms.sources import Seeded

ADD_REMOVE, SUBSTITUTE = Neighbours
ONE, HALF = Fraction(1), Fraction(1, 2)
ALARM = 1e-6
MOST = 1 << 36
ORDERS = [Fraction(text) for text in ("0", "0.5", "0.75", "0.9", "1")]


def gaps(order: Fraction, cells: int, relation: Neighbours, *, spread: int = 2) -> GapQuantile:
    distance = rank_range(order, 1, substitution=relation is SUBSTITUTE, grouped=False)
    mechanism = GapQuantile.calibrated(order, cells, MOST, distance, ONE)
    return replace(mechanism, spread=spread)


def law(mechanism: GapQuantile, weights: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    return {(cell,): chance for cell, chance in enumerate(mechanism.pmf(weights))}


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_gaps_lose_at_most_epsilon(order: Fraction, relation: Neighbours) -> None:
    for cells, spread in ((6, 0), (4, 2)):
        mechanism = gaps(order, cells, relation, spread=spread)
        found = worst_loss(partial(law, mechanism), single_rows(cells), 4, relation)
        assert 0.35 < found <= 1 + 1e-12


def test_epsilon_as_the_rate_of_gaps_fails() -> None:
    """exp(-epsilon |i - p n|), as in print: 2 max(p, 1 - p) times too much, or twice."""
    for order, relation in ((Fraction(3, 4), ADD_REMOVE), (HALF, SUBSTITUTE)):
        wrong = replace(gaps(order, 6, relation, spread=0), rate=ONE)
        assert worst_loss(partial(law, wrong), single_rows(6), 5, relation) > 1.1


def test_gaps_are_drawn_in_proportion_to_their_length() -> None:
    """No two rows share a cell: the law in print, but for the cells of the rows themselves."""
    rows, cells, rate = (100, 250, 700), 1000, Fraction(4, 5)
    weights = [int(cell in rows) for cell in range(cells)]
    found = GapQuantile(HALF, cells, rate, 3, spread=0).pmf(weights)
    stretches = list(pairwise((0, *rows, cells)))
    sizes = [(b - a) * np.exp(-0.8 * abs(i - 1.5)) for i, (a, b) in enumerate(stretches)]
    for (a, b), size in zip(stretches, sizes, strict=True):
        assert sum(found[a:b]) == pytest.approx(size / sum(sizes), rel=0.02)


def test_draws_of_gaps_follow_the_law() -> None:
    """24 x 100 draws, false alarm 1e-6."""
    weights = [3, 0, 6, 0, 1, 0, 0, 2]
    mechanism = GapQuantile(Fraction(2, 5), 8, HALF, 12, 3, 4, 12)

    rows = Rows(dict(enumerate(weights)))
    sample = sampling(lambda bits: (mechanism.release(rows, bits),))
    assert agreement(law(mechanism, tuple(weights)), sample, 24, 100) > ALARM
    wrong = replace(mechanism, rate=ONE)
    assert agreement(law(wrong, tuple(weights)), sample, 24, 100) < ALARM


def test_shared_salaries_are_found() -> None:
    codes = np.sort(salaries(7, 1))
    mechanism = GapQuantile.calibrated(HALF, 30_000_001, MOST, HALF, ONE)
    randomness, errors = Seeded(3), []
    for _ in range(50):
        cell = mechanism.release(Codes(codes), randomness)
        below, up_to = np.searchsorted(codes, [cell, cell + 1])
        errors.append(max(0, below - len(codes) / 2, len(codes) / 2 - up_to))
    assert np.mean(errors) <= 4


def test_the_rank_interval_of_gaps_counts_places() -> None:
    mechanism = GapQuantile(HALF, 1000, Fraction(1, 3), MOST, 10)
    grid = GridQuantile(HALF, 1000 << 10, Fraction(1, 3), MOST)
    assert mechanism.rank_interval(HALF) == grid.rank_interval(HALF)
    with pytest.raises(ValueError, match="confidence"):
        mechanism.rank_interval(ONE)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"order": Fraction(2)}, "order"),
        ({"cells": 0}, "grid"),
        ({"rate": Fraction(0)}, "rate"),
        ({"spread": 31}, "spread"),
        ({"bins": 3}, "bins"),
    ],
)
def test_gaps_without_meaning_are_refused(changes: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        replace(GapQuantile(HALF, 10, ONE, 1), **changes)


def test_losses_of_gaps_say_what_was_asked() -> None:
    for order in ORDERS:
        mechanism = gaps(order, 10, ADD_REMOVE)
        distance = max(order, 1 - order)
        assert mechanism.loss(distance) == Loss(ONE)
        assert decode(encode(mechanism.event(distance / 2))) == BoundedRange(HALF)


def noisy(cells: int, epsilon: Fraction = ONE) -> NoisyQuantile:
    noise = DiscreteLaplace.calibrated(max(1, cells - 1), epsilon)
    return NoisyQuantile(HALF, cells, noise, MOST, 4)


@given(
    weights=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    order=st.fractions(0, 1, max_denominator=12),
)
def test_the_exact_quantile_is_the_first_cell_that_has_the_share(
    weights: list[int], order: Fraction
) -> None:
    mechanism = replace(noisy(len(weights)), order=order)
    found = mechanism.exact(Rows(dict(enumerate(weights))))
    target = order * sum(weights)
    assert sum(weights[: found + 1]) >= target
    assert found == 0 or sum(weights[:found]) < target


@pytest.mark.parametrize("cells", [2, 3, 10, 40])
def test_noise_on_the_value_loses_exactly_epsilon(cells: int) -> None:
    """One row moves the median from one end to the other: of 0 0 1 1, a 0 is taken out."""
    mechanism, last = noisy(cells), cells - 1
    low = mechanism.exact(Rows({0: 2, last: 2}))
    high = mechanism.exact(Rows({0: 1, last: 2}))
    assert (low, high) == (0, last)
    assert log_ratio(mechanism.noise, (low,), (high,)) == pytest.approx(1, abs=1e-12)
    assert mechanism.loss() == Loss(ONE)
    scaled_to_a_row = DiscreteLaplace.calibrated(1, ONE)
    assert log_ratio(scaled_to_a_row, (low,), (high,)) == pytest.approx(last)


def test_noisy_values_have_the_law_and_are_clamped() -> None:
    """20,000 draws; each frequency within five standard deviations, false alarm 1e-5."""
    mechanism, randomness, rows = noisy(9, Fraction(4)), Seeded(5), Rows({6: 3})
    found = Counter(mechanism.release(rows, randomness) for _ in range(20_000))
    assert set(found) == set(range(9))
    for cell in range(1, 8):
        chance = mechanism.pmf(6, cell)
        assert abs(found[cell] - 20_000 * chance) < 5 * (20_000 * chance) ** 0.5


def test_a_noisy_quantile_says_that_groups_are_not_covered() -> None:
    assert not NoisyQuantile.weight_linear
    assert noisy(1).sensitivity == 1
    gaussian = DiscreteGaussian.calibrated(9, ONE, Fraction(1, 10**6))
    event = NoisyQuantile(HALF, 10, gaussian, MOST).event()
    assert isinstance(event, Gaussian)
    assert event.epsilon == ONE
    assert noisy(1).release(Rows({}), Randomness()) == 0


@pytest.mark.parametrize(
    ("changes", "match"), [({"order": Fraction(2)}, "order"), ({"cells": 0}, "grid")]
)
def test_noisy_values_without_meaning_are_refused(
    changes: dict[str, object], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        replace(noisy(10), **changes)
