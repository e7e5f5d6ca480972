"""The recursion as it stands in print: what its orders and its ties do to the answers.

Neither mistake breaks the claim; both are seen in how far the right values are missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from dpquery.mechanisms import RecursiveQuantiles
from dpquery.mechanisms.quantiles import grid as recursive_quantiles
from dpquery.mechanisms.quantiles.grid import _Draw
from tests.mechanisms.histograms import Rows
from tests.mechanisms.joint_laws import agreement
from tests.mechanisms.sources import Seeded

DECILES = tuple(Fraction(k, 10) for k in range(1, 10))
QUARTILES = tuple(Fraction(k, 4) for k in (1, 2, 3))
SURE = Fraction(50)
"""A rate at which noise is next to none."""


def rows_off(weights: list[int], order: Fraction, cell: int) -> Fraction:
    target = order * sum(weights)
    return max(Fraction(0), sum(weights[:cell]) - target, target - sum(weights[: cell + 1]))


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
    mechanism = RecursiveQuantiles(QUARTILES, len(weights), SURE, sum(weights), spread)
    return sum(
        chance * float(rows_off(weights, order, cell)) / 3
        for cells, chance in mechanism.pmf(weights).items()
        for order, cell in zip(QUARTILES, cells, strict=True)
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

    monkeypatch.setattr(recursive_quantiles, "_cut", dropped)
    assert mean_off(ATOM, 0) > 3
    assert 0 < mean_off(ATOM, 3) < mean_off(ATOM, 0)


Span = tuple[int, int]
RIGHT = recursive_quantiles._cut
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
    mechanism = RecursiveQuantiles(QUARTILES, 6, Fraction(1), 19, spread=0)
    rows, laws = Rows(dict(enumerate(weights))), {}
    for name, cut in CUTS.items():
        with monkeypatch.context() as patched:
            patched.setattr(recursive_quantiles, "_cut", cut)
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
