"""Smoothed inverse sensitivity: the claim from its exact law, draws against the law."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.core.privacy_events import BoundedRange, decode, encode
from dpquery.core.privacy_loss import Loss, Neighbours
from dpquery.errors import InternalError
from dpquery.mechanisms import GridQuantile, Randomness, SmoothQuantile, rank_range
from tests.mechanisms.histograms import Law, Rows
from tests.mechanisms.joint_laws import agreement, sampling, single_rows, worst_loss
from tests.mechanisms.sources import ZEROS, Repeating, Seeded

SUBSTITUTE = Neighbours.SUBSTITUTE
ONE, HALF = Fraction(1), Fraction(1, 2)
ALARM = 1e-6
ORDERS = [Fraction(text) for text in ("0", "0.5", "0.75", "1")]


def calibrated(
    order: Fraction, cells: int, relation: Neighbours, smooth: int, bins: int = 1 << 13
) -> SmoothQuantile:
    distance = rank_range(order, 1, substitution=relation is SUBSTITUTE, grouped=False)
    mechanism = SmoothQuantile.calibrated(order, cells, 1 << 36, distance, ONE)
    return replace(mechanism, smooth=smooth, bins=bins)


def law(mechanism: SmoothQuantile, weights: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    return {(cell,): chance for cell, chance in enumerate(mechanism.pmf(weights))}


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(("smooth", "bins"), [(0, 8), (1, 8), (2, 8), (1, 4)])
def test_rows_lose_at_most_epsilon(
    order: Fraction, relation: Neighbours, smooth: int, bins: int
) -> None:
    mechanism = calibrated(order, 7, relation, smooth, bins)
    found = worst_loss(partial(law, mechanism), single_rows(7), 3, relation)
    assert 0.25 < found <= 1 + 1e-12


def test_twice_the_rate_fails() -> None:
    for relation in Neighbours:
        right = calibrated(HALF, 7, relation, 1)
        wrong = replace(right, rate=2 * right.rate)
        assert worst_loss(partial(law, wrong), single_rows(7), 4, relation) > 1.1


@given(
    weights=st.lists(st.integers(0, 9), min_size=1, max_size=24),
    order=st.fractions(0, 1, max_denominator=9),
    smooth=st.integers(0, 30),
    bins=st.sampled_from([2, 4, 32]),
)
def test_scores_are_the_least_in_reach(
    weights: list[int], order: Fraction, smooth: int, bins: int
) -> None:
    """Against the definition, range by range."""
    mechanism = SmoothQuantile(order, len(weights), ONE, 1000, smooth, bins)
    parts = range(0, len(weights), mechanism.width)
    ranges = [sum(weights[at : at + mechanism.width]) for at in parts]
    target = order * sum(ranges)
    plain = [
        max(Fraction(0), sum(ranges[:r]) - target, target - sum(ranges[: r + 1]))
        for r in range(len(ranges))
    ]
    reach = mechanism.reach
    least = [min(plain[max(0, r - reach) : r + reach + 1]) for r in range(len(plain))]
    assert [Fraction(s, order.denominator) for s in mechanism._scores(ranges)] == least


def test_without_smoothing_it_is_the_default_law() -> None:
    weights = [3, 0, 5, 1, 0, 2]
    smooth = SmoothQuantile(HALF, 6, ONE, 11).pmf(weights)
    assert smooth == pytest.approx(GridQuantile(HALF, 6, ONE, 11).pmf(weights))


@pytest.mark.parametrize("bins", [4, 32])
def test_draws_follow_the_law(bins: int) -> None:
    """24 x 100 draws, false alarm 1e-6."""
    weights = [3, 0, 6, 0, 1, 0, 0, 2, 0, 4, 1]
    mechanism = SmoothQuantile(Fraction(2, 5), 11, Fraction(1, 12), 17, 1, bins)

    rows = Rows(dict(enumerate(weights)))
    sample = sampling(lambda bits: (mechanism.release(rows, bits),))
    assert agreement(law(mechanism, tuple(weights)), sample, 24, 100) > ALARM
    wrong = replace(mechanism, rate=Fraction(2, 5))
    assert agreement(law(wrong, tuple(weights)), sample, 24, 100) < ALARM


@pytest.mark.parametrize("weight", [1, 2**30, 2**66])
def test_a_billion_rows_of_any_weight_take_one_histogram(weight: int) -> None:
    histogram = Law(10**9, 2**44, lambda t: t)
    heavy = (
        histogram
        if weight == 1
        else lambda *asked: [int(count) * weight for count in histogram(*asked)]
    )
    mechanism = SmoothQuantile(HALF, 2**44, Fraction(1, weight), 2**36 * weight, 2**34)
    cell = mechanism.release(heavy, Seeded(1))
    assert histogram.asked == 1
    assert abs(cell / 2**44 - 0.5) < 2 * (2**34 + mechanism.width) / 2**44


@pytest.mark.parametrize("cells", [1, 2, 8193, 2**63])
def test_cells_are_of_the_grid(cells: int) -> None:
    for rows in ({}, {0: 40}, {cells - 1: 3}):
        found = calibrated(HALF, cells, SUBSTITUTE, 3).release(Rows(rows), Randomness())
        assert 0 <= found < cells


def test_loss_and_event_and_ranks_say_what_was_asked() -> None:
    mechanism = calibrated(HALF, 1000, SUBSTITUTE, 5)
    assert mechanism.loss(1) == Loss(ONE)
    assert decode(encode(mechanism.event(HALF))) == BoundedRange(HALF)
    default = GridQuantile(HALF, 1000, mechanism.rate, 1)
    assert mechanism.rank_interval(HALF) == default.rank_interval(HALF)
    with pytest.raises(ValueError, match="confidence"):
        mechanism.rank_interval(ONE)


def test_bits_that_never_change_release_nothing() -> None:
    with pytest.raises(InternalError):
        calibrated(HALF, 10, SUBSTITUTE, 1).release(Rows({}), Repeating(ZEROS))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"order": Fraction(2)}, "order"),
        ({"cells": 0}, "grid"),
        ({"rate": Fraction(0)}, "rate"),
        ({"smooth": -1}, "distance"),
        ({"bins": 3}, "bins"),
    ],
)
def test_parameters_without_meaning_are_refused(changes: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        replace(SmoothQuantile(HALF, 10, ONE, 1), **changes)
