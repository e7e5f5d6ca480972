"""What draws will look at, asked for before and together: fewer requests, and the same law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpquery.errors import InternalError
from dpquery.mechanisms import (
    GapQuantile,
    GridQuantile,
    IndependentQuantiles,
    RecursiveQuantiles,
)
from dpquery.mechanisms.quantiles.sampling.exact_histograms import (
    HistogramTree,
    Request,
    around,
    look_ahead,
)
from tests.mechanisms.histograms import Law, Rows
from tests.mechanisms.joint_laws import agreement
from tests.mechanisms.sources import Seeded

ALARM = 1e-6
HALF, ONE = Fraction(1, 2), Fraction(1)
QUARTILES = tuple(Fraction(k, 4) for k in (1, 2, 3))
DECILES = tuple(Fraction(k, 10) for k in range(1, 10))
WEIGHTS = [3, 0, 5, 1, 0, 2, 4, 0, 1]


def of_one(order: Fraction) -> Fraction:
    return max(order, 1 - order)


ALL = {
    "grid": GridQuantile(Fraction(1, 3), 9, Fraction(4, 5), 16, 2, 12),
    "gap": GapQuantile(HALF, 9, Fraction(4, 5), 16, 2, 2, 12),
    "recursive": RecursiveQuantiles(QUARTILES, 9, Fraction(4, 3), 16, 2, 2, 12),
    "independent": IndependentQuantiles(
        QUARTILES, 9, Fraction(4), 16, tuple(map(of_one, QUARTILES)), 2, 12
    ),
}
"""With so few bins, and so few kept, that several steps are taken and some forgotten."""


def ahead(mechanism, histogram: Callable, randomness) -> object:
    """Release as the planner's functions do, where a histogram answers one group."""
    tree = mechanism.tree(histogram)
    look_ahead([tree], mechanism.near, lambda asked: [histogram(*one) for _, one in asked])
    return mechanism.draw(tree, randomness)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in ("gap", "independent") else [])
        for name in ALL
    ],
)
def test_the_law_is_the_same(name: str) -> None:
    """24 x 100 draws of one cell, or 24 x 40 of lists, false alarm 1e-6."""
    mechanism, rows = ALL[name], Rows(dict(enumerate(WEIGHTS)))
    law = mechanism.pmf(WEIGHTS)
    law = law if isinstance(law, dict) else dict(enumerate(law))

    def sample(seed: int, draws: int) -> list[object]:
        randomness = Seeded(seed)
        found = [ahead(mechanism, rows, randomness) for _ in range(draws)]
        return [tuple(one) if isinstance(one, list) else one for one in found]

    assert agreement(law, sample, 24, 100 if hasattr(mechanism, "order") else 40) > ALARM


class Together(Law):
    """Counts what is asked for together as one."""

    rounds = 0

    def together(self, asked: Sequence[tuple[int, Request]]) -> list[np.ndarray]:
        self.rounds += 1
        assert sum(-(-(high - low) // width) for _, (low, high, width) in asked) <= 2**16
        return [super(Together, self).__call__(*one) for _, one in asked]


@pytest.mark.parametrize(
    ("digits", "rows", "most"),
    [(25, 10**6, 4), (25, 10**9, 0.5), (30, 10**6, 8), (30, 10**9, 0.5), (44, 10**9, 4)],
)
def test_nine_deciles_take_one_more_request_for_each_step_into_the_grid(
    digits: int, rows: int, most: float
) -> None:
    """The whole grid, then up to 13 binary digits of it a step; a draw seldom looks elsewhere.

    Well above the requests missed in the mean of forty releases: 0.8, 0.05, 4.7, 0.2, 2.4. A
    million rows are about 120 in each of 2^13 ranges, so draws look at neighbours more often.
    """
    cells, steps, missed = 2**digits, -(-digits // 13) - 1, []
    mechanism = RecursiveQuantiles.calibrated(DECILES, cells, 2**36, 1, ONE)
    for seed in range(10):
        histogram = Together(rows, cells, lambda t: t**2)
        tree = mechanism.tree(histogram)
        look_ahead([tree], mechanism.near, histogram.together)
        assert histogram.rounds <= steps
        assert tree.size <= mechanism.held
        before = histogram.asked
        mechanism.draw(tree, Seeded(seed))
        missed.append(histogram.asked - before)
    assert np.mean(missed) < most


def test_many_groups_share_their_requests() -> None:
    mechanism = GridQuantile(HALF, 2**40, HALF, 2**36)
    laws = [Law(10**6, 2**40, lambda t, k=k: t**k) for k in range(1, 31)]
    trees, rounds = [mechanism.tree(law) for law in laws], []

    def ask(requests: Sequence[tuple[int, Request]]) -> list[np.ndarray]:
        rounds.append(len(requests))
        return [laws[number](*request) for number, request in requests]

    look_ahead(trees, mechanism.near, ask)
    assert len(rounds) == 3
    assert min(rounds) >= 30
    asked = [law.asked for law in laws]
    for tree in trees:
        mechanism.draw(tree, Seeded(1))
    assert sum(law.asked for law in laws) - sum(asked) < 30


@pytest.mark.parametrize("rows", [{}, {0: 1}, {7: 5}, {0: 3, 2**40 - 1: 3}])
@pytest.mark.parametrize("kept", [1, 1 << 14])
def test_the_barest_tables_end(rows: dict[int, int], kept: int) -> None:
    """Also where nothing may be kept: then nothing is looked ahead for."""
    mechanism = RecursiveQuantiles.calibrated(DECILES, 2**40, 100, 1, ONE)
    found = ahead(replace(mechanism, held=kept), Rows(rows), Seeded(1))
    assert found == sorted(found)


def test_ranks_are_looked_for_where_draws_aim_first() -> None:
    draws = [(HALF, ONE), (Fraction(1, 4), HALF)]
    assert around(draws, 100) == [50, 25, 46, 54, 17, 33]


@pytest.mark.parametrize(
    "answer", [[1], [1] * 9, [-1, 1, 1, 9], [1, 1, 1, 1]], ids=["few", "many", "below", "other"]
)
def test_answers_that_cannot_be_are_faults(answer: list[int]) -> None:
    mechanism = GridQuantile(HALF, 16, ONE, 100, 4)
    tree = mechanism.tree(lambda low, high, width: [0, 10, 0, 0])
    with pytest.raises(InternalError) as fault:
        look_ahead([tree], mechanism.near, lambda asked: [answer for _ in asked])
    assert fault.value.code == "DPQ901"


def test_a_bin_is_parted_evenly_in_as_few_steps_as_can_be() -> None:
    tree = HistogramTree(Rows({5: 9}), 2**40, 10, 2**13, 2**16)
    table, widths = tree.tables[0], [tree.tables[0].width]
    while table.width > 1:
        table = tree.refine(table, 5 // table.width if table.low == 0 else 0)
        widths.append(table.width)
    assert widths == [2**27, 2**18, 2**9, 1]
