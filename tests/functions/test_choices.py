"""What a planned choice loses, from its exact law on all small tables and their neighbours.

No sampling: the largest log-ratio is at most epsilon and at least what is known to be attained
on so few rows, so noise that is too large is noticed as well as noise that is too small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.functions import base
from dpquery.functions.distributions import mode_top_k
from dpquery.functions.order_statistics import min_max as extremes
from dpquery.functions.order_statistics import min_max as first_above
from dpquery.mechanisms import (
    AboveThreshold,
    DiscreteStaircase,
    FirstNoisyCount,
    LargestNoisyCounts,
    Majority,
    MeanExponential,
    MeanInverseSensitivity,
    NoisyTop,
)
from tests.choosing import handed
from tests.functions.tables import ADD_REMOVE, SUBSTITUTE, Held, World, call, plan

W = 4
"""The weight of a row where units have several, so that laws can be written down."""


@pytest.fixture(autouse=True)
def _small_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "WEIGHT_SCALE", W)


def log_law(mechanism: Any, given: tuple[Any, ...]) -> np.ndarray:
    match mechanism:
        case Majority():
            return np.log([mechanism.pmf(given[0]), mechanism.pmf(-given[0])])
        case MeanExponential() | MeanInverseSensitivity():
            return np.log(replace(mechanism, ticks=60).pmf(*given))
        case NoisyTop() | LargestNoisyCounts():
            orders = permutations(range(len(given[0])), mechanism.size)
            return np.log([mechanism.pmf(given[0], order) for order in orders])
        case DiscreteStaircase():
            ((value,),) = given
            return np.array([mechanism.log_pmf(y - value) for y in range(-80, 81)])
    return np.log(mechanism.pmf(*given))


def losses(
    query: str, world: World, rows: int = 3, **options: object
) -> dict[Neighbours, float]:
    """The largest log-ratio between neighbours, at the worst output of each group."""
    name, _, mechanism = query.partition(" ")
    if mechanism:
        options["mechanism"] = mechanism
    number = options.pop("number", None)
    asked = replace(call(name, world.argument, **options), number=number)
    found = {}
    for relation in Neighbours:
        release = plan(asked, world.facts(relation))
        real = release.mechanism
        laws: dict[Any, np.ndarray] = {}

        def law(held: Held, release=release, real=real, laws=laws) -> np.ndarray:
            given = handed(release, held)
            if given not in laws:
                laws[given] = np.array([log_law(real, each) for each in given])
            return laws[given]

        worst = 0.0
        for others in world.bases(rows):
            there = np.array([law(Held(world, (*others, unit))) for unit in world.units()])
            here = there if relation is SUBSTITUTE else there[:1]
            moved = here[:, None] - there[None]
            up, down = moved.max(axis=-1).sum(axis=-1), (-moved).max(axis=-1).sum(axis=-1)
            worst = max(worst, up.max(), down.max())
        found[relation] = float(worst)
    return found


CODES, FLAGS = (None, 0, 1, 2), (None, False, True)
WORLDS = {
    "one row": (1, 1, False),
    "limit 1": (1, 1, True),
    "limit 2": (1, 2, True),
    "two groups": (2, 1, False),
    "two groups, limit 2": (2, 2, True),
}
QUERIES = {
    # query: its values, its number, and what is attained at least: added, replaced
    "DP_MODE": (CODES, None, 0.99, 0.85),
    "DP_MODE exponential": (CODES, None, 0.68, 0.59),
    "DP_TOP_K": (CODES, 2, 0.95, 0.8),
    "DP_TOP_K one_shot": (CODES, 2, 0.9, 0.9),
    "DP_MAJORITY": (FLAGS, None, 0.99, 0.99),
    "DP_MAX": (CODES, None, 0.45, 0.4),
    "DP_MIN": (CODES, None, 0.45, 0.4),
    "DP_FIRST_ABOVE": (CODES, 1, 0.99, 0.95),
    "DP_FIRST_ABOVE above_threshold": (CODES, 1, 0.6, 0.55),
}


def world(query: str, name: str) -> tuple[World, int]:
    groups, limit, weighted = WORLDS[name]
    values = QUERIES[query][0]
    if groups == 2 and weighted:
        values = values[1:]
    return World(
        values, groups, limit, weighted
    ), 1 if groups == 2 and weighted else 2 if weighted else 3


LARGE = {
    ("DP_TOP_K", "two groups, limit 2"),
    ("DP_TOP_K one_shot", "two groups"),
    ("DP_TOP_K one_shot", "two groups, limit 2"),
}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] if case in LARGE else [])
        for case in product(QUERIES, WORLDS)
    ],
)
def test_a_choice_loses_its_epsilon(query: str, name: str) -> None:
    of, rows = world(query, name)
    _, number, added, replaced = QUERIES[query]
    found = losses(query, of, rows, number=number)
    share = 0.7 if of.groups == 2 else 1
    assert share * added <= found[ADD_REMOVE] <= 1 + 1e-9
    assert share * replaced <= found[SUBSTITUTE] <= 1 + 1e-9


@pytest.mark.parametrize("query", ["DP_AVG", "DP_PROPORTION"])
@pytest.mark.parametrize("mechanism", ["exponential", "inverse_sensitivity"])
def test_a_chosen_mean_loses_at_most_its_epsilon(query: str, mechanism: str) -> None:
    of = World(CODES if query == "DP_AVG" else FLAGS)
    for worst in losses(f"{query} {mechanism}", of, 5).values():
        assert 0.6 <= worst <= 1 + 1e-9


@pytest.mark.parametrize("name", ["one row", "limit 1", "limit 2"])
@pytest.mark.parametrize(
    ("query", "values"), [("DP_COUNT", CODES), ("DP_SUM", (None, 0, 2)), ("DP_SUM", (-2, 0, 1))]
)
def test_staircase_noise_loses_exactly_its_epsilon(
    query: str, values: tuple, name: str
) -> None:
    of = World(values, *WORLDS[name])
    for worst in losses(f"{query} staircase", of, 2 if of.weighted else 3).values():
        assert worst == pytest.approx(1)


def added_even_if_replaced(weight: object, neighbours: Neighbours) -> int:
    """No doubling where a unit is replaced."""
    return weight.total


def of_one_direction(weight: object, facts: object, *, monotone: bool) -> tuple[int, int]:
    """All weights are taken to move one way."""
    return weight.total, weight.total


def rate_in_print(rows: int, epsilon: Fraction) -> MeanExponential:
    """exp(-epsilon n |t - mean|), twice the rate that the claim allows."""
    return MeanExponential(epsilon / rows)


def two_votes_at_once(distance: int, epsilon: Fraction, *, step: int) -> Majority:
    """A step of 2 whether there are groups or not."""
    return Majority(Fraction(distance, 2) / epsilon, 2)


def noise_on_counts_alone(distance: int, epsilon: Fraction, rise: int) -> AboveThreshold:
    """The threshold as it is, but for a little."""
    return AboveThreshold(Fraction(1, 5), distance / epsilon)


def one_place(weight: object, size: int, neighbours: Neighbours) -> int:
    """An epsilon that is not split between the places."""
    return weight.total


def replaced_like_added(measure: object, neighbours: Neighbours, *, grouped: bool) -> int:
    """A replaced unit moves two counts, and one is taken."""
    return measure.weight.total


def noise_for_half(distance: int, epsilon: Fraction, size: int = 0) -> object:
    """Half of the noise, as if the order of counts told half of what they tell."""
    scale = Fraction(distance, 2) / epsilon
    return LargestNoisyCounts(scale, size) if size else FirstNoisyCount(scale)


SCALES, RATE = (AboveThreshold, "calibrated"), (MeanExponential, "calibrated")
MODE, SIDES = (mode_top_k, "cells_distance"), (mode_top_k, "cells_distance")
TOP, LARGEST = (mode_top_k, "top_distance"), (mode_top_k, "sensitivity")
FIRST = (first_above, "sensitivity")
MOVES = (first_above, "threshold_moves")
MISTAKES = [
    (MODE, added_even_if_replaced, "DP_MODE", "one row", SUBSTITUTE),
    (MODE, added_even_if_replaced, "DP_MODE exponential", "two groups", SUBSTITUTE),
    (SIDES, added_even_if_replaced, "DP_MAJORITY", "two groups", SUBSTITUTE),
    (MOVES, of_one_direction, "DP_FIRST_ABOVE above_threshold", "one row", SUBSTITUTE),
    (FIRST, replaced_like_added, "DP_FIRST_ABOVE", "one row", SUBSTITUTE),
    (FIRST, replaced_like_added, "DP_FIRST_ABOVE", "two groups", SUBSTITUTE),
    (LARGEST, replaced_like_added, "DP_TOP_K", "one row", SUBSTITUTE),
    (LARGEST, replaced_like_added, "DP_TOP_K", "two groups", SUBSTITUTE),
    ((LargestNoisyCounts, "calibrated"), noise_for_half, "DP_TOP_K", "one row", ADD_REMOVE),
    ((FirstNoisyCount, "calibrated"), noise_for_half, "DP_FIRST_ABOVE", "one row", ADD_REMOVE),
    ((Majority, "calibrated"), two_votes_at_once, "DP_MAJORITY", "two groups", SUBSTITUTE),
    (TOP, one_place, "DP_TOP_K one_shot", "one row", ADD_REMOVE),
    (SCALES, noise_on_counts_alone, "DP_FIRST_ABOVE above_threshold", "one row", ADD_REMOVE),
    (SCALES, noise_on_counts_alone, "DP_MAX", "one row", ADD_REMOVE),
    (RATE, rate_in_print, "DP_AVG exponential", "one row", ADD_REMOVE),
    (RATE, rate_in_print, "DP_AVG exponential", "one row", SUBSTITUTE),
]  # fmt: skip


@pytest.mark.parametrize(("place", "mistake", "query", "name", "relation"), MISTAKES)
def test_a_wrong_calibration_fails_the_law(
    place: tuple[Any, str],
    mistake: Callable[..., object],
    query: str,
    name: str,
    relation: Neighbours,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups, limit, weighted = WORLDS[name]
    values, number, *_ = QUERIES.get(query, (CODES, None))
    of = World(values, groups, limit, weighted)
    assert losses(query, of, number=number)[relation] <= 1 + 1e-9
    monkeypatch.setattr(*place, mistake)
    assert losses(query, of, number=number)[relation] > 1.05


def test_the_moves_of_weights_above_are_those_that_are_claimed() -> None:
    """Rise and fall of a replaced unit with rows anywhere: together one weight, not two."""
    of = World((0, 1, 2, 3), 1, 2, True)
    release = plan(call("DP_MAX", of.argument), of.facts(SUBSTITUTE))
    counts = [np.array(handed(release, Held(of, (unit,)))[0][0]) for unit in of.units()[1:]]
    moves = [b - a for a in counts for b in counts]
    widths = [max(*move, 0) - min(*move, 0) for move in moves]
    assert max(widths) == release.distance == 2 * W
    assert max(max(move) for move in moves) == release.rise == 2 * W
    grouped = World((0, 3), 2, 1, False)
    release = plan(call("DP_MAX", grouped.argument), grouped.facts(SUBSTITUTE))
    assert (release.distance, release.rise) == (2, 1)


@pytest.mark.parametrize("cells", [1, 8192, 8193, 10**6, 2**63])
@pytest.mark.parametrize("zero", [0, 5, 1])
def test_ranges_cover_the_grid_and_get_coarser_in_proportion(cells: int, zero: int) -> None:
    zero = {0: 0, 5: min(5, cells), 1: cells}[zero]
    found = list(extremes.ranges(cells, zero))
    assert found[0][0] == 0
    assert found[-1][1] == cells
    assert all(a[1] == b[0] for a, b in pairwise(found))
    for low, high, width in found:
        assert width & (width - 1) == 0
        assert len(range(low, high, width)) <= 8192
        nearest = min(abs(low - zero), abs(high - zero)) if not low <= zero < high else 0
        assert width == 1 or width <= nearest // 128 + 1


@pytest.mark.parametrize("relation", Neighbours)
def test_a_largest_value_attains_its_epsilon(relation: Neighbours) -> None:
    """A row that is taken away just where the search stops, after a long empty stretch.

    All candidates before it come nearer by one row; where it stood, nothing changes. Under
    substitution it moves below them all.
    """
    of = World(tuple(range(600)))
    release = plan(call("DP_MAX", of.argument), of.facts(relation))
    top, place = 599, 250
    crowd = [((0, top),)] * (release.few + 3)
    candidates, _ = release.asked(Held(of, ()), 0)
    at = ((0, candidates[place]),)
    gone = ((0, 0),) if relation is SUBSTITUTE else ()
    laws = [
        release.mechanism.pmf(*handed(release, Held(of, (*crowd, one)))[0])
        for one in (at, gone)
    ]
    assert 0.95 <= abs(np.log(laws[0][place] / laws[1][place])) <= 1 + 1e-9
