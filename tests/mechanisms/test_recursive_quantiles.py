"""Several quantiles by recursion: what the loss rests on, how cells are spread, and its plan.

What it shares with other mechanisms of lists is in `test_quantile_lists.py`. At the end stand
mistakes of the recursion in print that do not break the claim: both are seen in how far the
right values are missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.mechanisms import RecursiveQuantiles
from dpquery.mechanisms.quantiles import recursive
from dpquery.mechanisms.quantiles.recursive import _Draw
from dpquery.mechanisms.quantiles.sampling.exact_histograms import HistogramTree, spread_out
from tests.mechanisms.histograms import Law, Rows
from tests.mechanisms.joint_laws import agreement, apart, single_rows, worst_loss
from tests.mechanisms.quantile_suite import (
    ADD_REMOVE,
    BILLION,
    DECILES,
    MOST,
    ONE,
    ORDERS,
    calibrated,
    ranks_off_law,
    rows_off,
)
from tests.mechanisms.sources import Seeded


def not_spread(name: str, cells: int) -> RecursiveQuantiles:
    return calibrated(RecursiveQuantiles, ORDERS[name], cells, spread=0)


Changed = Callable[[_Draw, Fraction], _Draw]


def in_full(draw: _Draw, budget: Fraction) -> _Draw:
    """Each draw has the whole budget, as if the parts were not of the same rows."""
    return replace(draw, lower=budget, upper=budget)


def as_the_rate(draw: _Draw, budget: Fraction) -> _Draw:
    """exp(-epsilon |rank - p n|), as in print: twice the farther side is not paid."""
    return replace(draw, rate=budget)


def light_on_both_sides(draw: _Draw, budget: Fraction) -> _Draw:
    """Both sides are taken to have been moved by less than all."""
    light = max(draw.lower, draw.upper)
    return replace(draw, lower=light, upper=light)


def with_mistake(monkeypatch: pytest.MonkeyPatch, change: Changed) -> None:
    right = RecursiveQuantiles._planned

    def wrong(
        self: RecursiveQuantiles, span: tuple[int, int], budget: Fraction
    ) -> _Draw | None:
        draw = right(self, span, budget)
        return None if draw is None else change(draw, budget)

    monkeypatch.setattr(RecursiveQuantiles, "_planned", wrong)


@pytest.mark.parametrize(
    ("change", "name"),
    [(in_full, "quartiles"), (as_the_rate, "uneven"), (as_the_rate, "quartiles")],
)
def test_a_budget_that_is_spent_more_than_once_fails(
    change: Changed, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = not_spread(name, 6)
    assert worst_loss(mechanism.pmf, single_rows(6), 3, ADD_REMOVE) <= 1 + 1e-12
    with_mistake(monkeypatch, change)
    assert worst_loss(mechanism.pmf, single_rows(6), 3, ADD_REMOVE) > 1.2


def loss_on_the_heavy_side() -> float:
    """The order of 1/5 is drawn beside its row, that of 1/10 below: both draws lose in full."""
    mechanism = not_spread("low", 40)
    weights = [7 * (cell == 38) for cell in range(40)]
    here = mechanism.pmf(weights)
    weights[1] += 1
    return apart(here, mechanism.pmf(weights))


def test_the_light_sides_budget_on_the_heavy_side_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert 0.9 < loss_on_the_heavy_side() <= 1
    with_mistake(monkeypatch, light_on_both_sides)
    assert loss_on_the_heavy_side() > 1.15


def keep_in_both(
    part: tuple[int, int], place: int, high: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    return (part[0], place + 1), (place, part[1])


def loss_of_a_row_at_the_released_value() -> float:
    """A row is added at the median; most of the law of either quartile lies beyond it."""
    wide = 40
    mechanism = not_spread("quartiles", 2 * wide + 1)
    weights = [int(abs(cell - wide) == 2) for cell in range(2 * wide + 1)]
    here = mechanism.pmf(weights)
    weights[wide] = 1
    there = mechanism.pmf(weights)
    drawn = (wide - 1, wide, wide + 1)
    return abs(math.log(here[drawn] / there[drawn]))


def test_rows_of_a_released_value_kept_on_both_sides_lose_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert 0.6 < loss_of_a_row_at_the_released_value() <= 1
    monkeypatch.setattr(recursive, "_cut", keep_in_both)
    assert loss_of_a_row_at_the_released_value() > 1.05


@given(
    weight=st.one_of(st.integers(0, 500), st.integers(0, 2**70)),
    digits=st.integers(0, 6),
    more=st.integers(0, 4),
)
def test_spreading_a_block_again_is_spreading_the_cell(
    weight: int, digits: int, more: int
) -> None:
    """Weights stay what they were; each unit added goes to one place and moves no other."""
    blocks = spread_out(weight, digits).tolist()
    assert sum(blocks) == weight
    assert max(blocks) - min(blocks) <= 1
    finer = [part for block in blocks for part in spread_out(block, more).tolist()]
    assert finer == spread_out(weight, digits + more).tolist()
    added = spread_out(weight + 1, digits).tolist()
    assert sorted(b - a for a, b in zip(blocks, added, strict=True))[-2:] in ([0, 1], [1])


def test_spread_rows_are_found_without_more_histograms() -> None:
    """Down to single places: what the tree says of them is the rule, unit by unit."""
    rows = Rows({0: 5, 1: 0, 2: 11})
    tree = HistogramTree(rows, 3, 16, 4, 1 << 16, spread=5)
    assert [table.width for table in tree.tables] == [32]
    asked = rows.asked
    waiting, found = [(tree.tables[0], place) for place in range(3)], {}
    while waiting:
        child = tree.refine(*waiting.pop())
        for place in range(len(child)):
            if child.width > 1:
                waiting.append((child, place))
            else:
                weight = int(child.edges[place + 1] - child.edges[place])
                found[child.low + place] = weight
    expected = [0] * 96
    for cell, weight in rows.weights.items():
        for unit in range(weight):
            expected[32 * cell + int(f"{unit % 32:05b}"[::-1], 2)] += 1
    assert [found[place] for place in range(96)] == expected
    assert rows.asked == asked


def spent(mechanism: RecursiveQuantiles, span: tuple[int, int], budget: Fraction) -> Fraction:
    """The most that any way through the parts loses, each draw by the proof's own count."""
    draw = mechanism._planned(span, budget)
    if draw is None:
        return Fraction(0)
    heavy = 2 * max(draw.order, 1 - draw.order) * draw.rate
    lower, upper = (draw.rate, heavy) if draw.high else (heavy, draw.rate)
    return max(
        lower + spent(mechanism, (span[0], draw.number), draw.lower),
        upper + spent(mechanism, (draw.number + 1, span[1]), draw.upper),
    )


@given(
    orders=st.sets(st.fractions(0, 1, max_denominator=100), min_size=1, max_size=20),
    rate=st.fractions(Fraction(1, 100), 10, max_denominator=100),
)
def test_no_way_through_the_parts_loses_more_than_the_rate(
    orders: set[Fraction], rate: Fraction
) -> None:
    mechanism = RecursiveQuantiles(tuple(sorted(orders)), 10, rate, MOST)
    assert spent(mechanism, (0, len(orders)), rate) == rate
    plan = list(mechanism.plan)
    assert sorted(draw.number for draw in plan) == list(range(len(orders)))
    assert all(0 <= draw.order <= 1 < draw.rate + 1 for draw in plan)


def test_orders_are_rescaled_to_their_parts() -> None:
    plan = list(RecursiveQuantiles(DECILES, 10, ONE, MOST).plan)
    assert [str(draw.order) for draw in plan[:4]] == ["1/2", "3/5", "2/3", "1/2"]
    assert [str(draw.rate) for draw in plan[:2]] == ["1/4", "15/58"]


LAWS = {
    "uniform": lambda t: t,
    "a heap at one end": lambda t: t**0.125,
    "an atom of 40 %": lambda t: 0.6 * t + 0.4 * (t > 0.3),
    "all in a small part": lambda t: np.clip((t - 0.7) * 1e6, 0, 1),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("epsilon", ["1", "1/1000"])
def test_a_billion_rows_take_few_histograms_and_little_memory(
    law: str, epsilon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, sizes = 2**44, []
    refine = HistogramTree.refine

    def watched(self: HistogramTree, *bin_of: object) -> object:
        child = refine(self, *bin_of)
        sizes.append(self.size)
        return child

    monkeypatch.setattr(HistogramTree, "refine", watched)
    for weight in (1, 2**20):
        mechanism = RecursiveQuantiles.calibrated(
            DECILES, cells, MOST * weight, weight, Fraction(epsilon)
        )
        for seed in range(4):
            histogram = Law(BILLION * weight, cells, LAWS[law])
            found = mechanism.release(histogram, Seeded(seed))
            assert max(sizes) <= 2**16
            assert histogram.asked <= 60
            most = mechanism.rank_interval(1 - Fraction(1, 10**7))
            assert ranks_off_law(histogram, DECILES, found).max() <= most + 2 * weight


@pytest.mark.parametrize("factor", [2**30, 3 * 2**70])
def test_weights_of_any_size_give_laws_alike(factor: int) -> None:
    """In 64 bits and in Python's integers: the same rows, heavier, at a rate as much lower."""
    weights = {3: 5, 40: 1, 41: 7, 500: 2, 777: 9}
    heavy = RecursiveQuantiles(DECILES, 1000, Fraction(9, factor), 24 * factor, 30, 8, 40)
    rows = Rows({cell: weight * factor for cell, weight in weights.items()})
    drawn = {tuple(heavy.release(rows, Seeded(seed))) for seed in range(20)}
    assert len(drawn) > 5
    middles = [one[4] for one in drawn]
    assert sum(40 <= middle <= 500 for middle in middles) > len(middles) / 2


SURE = Fraction(50)
"""A rate at which noise is next to none."""


def farthest(weights: list[int]) -> Fraction:
    """By how many rows a draw of nine deciles misses at most."""
    mechanism = RecursiveQuantiles(DECILES, len(weights), SURE, sum(weights))
    cells = mechanism.release(Rows(dict(enumerate(weights))), Seeded(1))
    return max(rows_off(weights, *pair) for pair in zip(DECILES, cells, strict=True))


def test_orders_that_are_not_rescaled_to_their_parts_miss_all_but_the_middle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tenth of all is a fifth of the lower half; as a tenth of it, 50 rows are missed."""
    rows = [1] * 1000
    assert farthest(rows) <= 3
    planned = RecursiveQuantiles._planned

    def in_print(
        self: RecursiveQuantiles, span: tuple[int, int], budget: Fraction
    ) -> _Draw | None:
        draw = planned(self, span, budget)
        return None if draw is None else replace(draw, order=self.orders[draw.number])

    monkeypatch.setattr(RecursiveQuantiles, "_planned", in_print)
    assert farthest(rows) > 50


def mean_off(weights: list[int], spread: int) -> float:
    """How many rows the quartiles miss on average, from the law."""
    mechanism = RecursiveQuantiles(
        ORDERS["quartiles"], len(weights), SURE, sum(weights), spread
    )
    return sum(
        chance * float(rows_off(weights, order, cell)) / 3
        for cells, chance in mechanism.pmf(weights).items()
        for order, cell in zip(ORDERS["quartiles"], cells, strict=True)
    )


ATOM = [10, 10, 10, 5, 30, 5, 10, 10, 10]
"""The median, and 30 of 100 rows, are in one cell."""


def test_rows_at_the_released_value_that_are_dropped_are_missed_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the median's 30 rows, quartiles are taken of 35 on either side."""
    assert mean_off(ATOM, 3) < 0.01

    def dropped(
        part: tuple[int, int], place: int, high: bool
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        return (part[0], place), (place + 1, part[1])

    monkeypatch.setattr(recursive, "_cut", dropped)
    assert mean_off(ATOM, 0) > 3
    assert 0 < mean_off(ATOM, 3) < mean_off(ATOM, 0)


Span = tuple[int, int]
RIGHT = recursive._cut
CUTS: dict[str, Callable[[Span, int, bool], tuple[Span, Span]]] = {
    "kept on one side": RIGHT,
    "dropped": lambda part, place, high: ((part[0], place), (place + 1, part[1])),
    "kept on both sides": lambda part, place, high: ((part[0], place + 1), (place, part[1])),
    "kept on the other side": lambda part, place, high: RIGHT(part, place, not high),
}


def test_draws_keep_rows_at_the_released_value_on_one_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """24 x 40 draws, false alarm 1e-6: they follow the right law, and no other is near."""
    weights = [2, 1, 9, 1, 2, 4]
    mechanism = RecursiveQuantiles(ORDERS["quartiles"], 6, Fraction(1), 19, spread=0)
    rows, laws = Rows(dict(enumerate(weights))), {}
    for name, cut in CUTS.items():
        with monkeypatch.context() as patched:
            patched.setattr(recursive, "_cut", cut)
            laws[name] = mechanism.pmf(weights)

    @cache
    def sample(seed: int, draws: int) -> list[tuple[int, ...]]:
        randomness = Seeded(seed)
        return [tuple(mechanism.release(rows, randomness)) for _ in range(draws)]

    everywhere = set().union(*laws.values())
    agreed = {
        name: agreement({key: law.get(key, 1e-15) for key in everywhere}, sample, 24, 40)
        for name, law in laws.items()
    }
    assert [name for name, p_value in agreed.items() if p_value > 1e-6] == ["kept on one side"]
