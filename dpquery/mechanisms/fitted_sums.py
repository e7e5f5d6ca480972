"""Sums over lists of places and totals, from above, and walks in proportion to these.

It knows stretches of places and blocks of totals by their exponents, and neither data nor what
a draw loses. Integers only (I8): each sum stands as an exponent, and 2^-exponent is the sum or
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from dpquery.mechanisms.exponential import Int64s, Integers
from dpquery.mechanisms.exponents import (
    FINE,
    POINT,
    added,
    as_exponents,
    logarithm_above,
    parts_of,
)
from dpquery.mechanisms.outlook import Row
from dpquery.mechanisms.randomness import Randomness

__all__ = ["Block", "Sums", "Walk"]

DEEPEST = 1 << 57
"""Exponents of a step end here; so far off is also what would fall."""


@dataclass(frozen=True, slots=True)
class Block:
    """Totals from low to high, evenly spaced."""

    low: int
    high: int
    count: int


@dataclass(frozen=True, slots=True)
class Targets:
    """Between which exponents a share of the total lies, for each block of totals."""

    low: Integers
    high: Integers

    @classmethod
    def of(cls, low: Sequence[int], high: Sequence[int]) -> Targets:
        """Give them as columns."""
        return cls(as_exponents(low), as_exponents(high))


@dataclass(slots=True)
class Walk:
    """Through which stretches a list goes.

    2^exponent over / under is one over the whole sum times the probability of the walk.
    """

    block: int
    exponent: int
    under: int
    over: int = 1
    stretches: list[int] = field(default_factory=list)
    """The last ones first."""

    def picked(self, parts: Int64s, randomness: Randomness) -> int:
        """Pick a part in proportion."""
        at, own, whole = _picked(parts, randomness)
        self.over *= whole
        self.under *= own
        return at


class Sums:
    """Sums over the first places of all lists, by block of totals and by their last stretch."""

    __slots__ = ("_ends", "_exponents", "_last", "_rows", "_targets")

    def __init__(
        self,
        rows: Sequence[Row],
        targets: Sequence[Targets],
        ends: tuple[int, int],
        blocks: Sequence[Block],
    ) -> None:
        """Sum up.

        Args:
            rows: The stretches of each order.
            targets: Of each part.
            ends: Around the exponent of all weight.
            blocks: The totals.
        """
        self._rows, self._targets = rows, targets
        self._ends = as_exponents(ends[:1]), as_exponents(ends[1:])
        self._exponents: list[list[Int64s]] = []
        last = [self._through(number, block.count) for number, block in enumerate(blocks)]
        self._last: Int64s = np.array(last)

    def _through(self, number: int, totals: int) -> Int64s:
        """Sum up for one block of totals, step by step."""
        start, rows = as_exponents([0]), self._rows
        first = _steps(self._targets[0], number, (start, start), _span(rows[0]))[0]
        summed = [first - logarithm_above(totals) - rows[0].more]
        for j, (before, row) in enumerate(pairwise(rows), 1):
            steps = _steps(self._targets[j], number, _span(before), _span(row))
            # What would fall is left out: no place of one stretch is below one of the other.
            steps[row.starts[None, 1:] <= before.starts[:-1, None]] = DEEPEST
            steps += summed[-1][:, None]
            summed.append(added(steps) - row.more)
        self._exponents.append(summed)
        whole: Int64s = (
            summed[-1] + _steps(self._targets[-1], number, _span(rows[-1]), self._ends)[:, 0]
        )
        return whole

    def walk(self, randomness: Randomness) -> Walk:
        """Walk from the last place to the first, each step in proportion to what is known."""
        lowest = int(self._last.min()) >> POINT
        parts = parts_of(self._last.ravel(), lowest << POINT)
        at, own, _ = _picked(parts, randomness)
        block, stretch = divmod(at, self._last.shape[1])
        walk = Walk(block, lowest + FINE, own)
        for j in range(len(self._rows) - 1, 0, -1):
            walk.stretches.append(stretch)
            stretch = walk.picked(self._before(j, block, stretch), randomness)
        walk.stretches.append(stretch)
        return walk

    def _before(self, j: int, block: int, stretch: int) -> Int64s:
        """Give the parts of one sum, by the stretch that the step comes from."""
        before, row = self._rows[j - 1], self._rows[j]
        here = row.least[stretch : stretch + 1], row.most[stretch : stretch + 1]
        steps = _steps(self._targets[j], block, _span(before), here)[:, 0]
        steps[before.starts[:-1] >= row.starts[stretch + 1]] = DEEPEST
        steps += self._exponents[block][j - 1]
        return parts_of(steps, int(steps.min()))


def _span(row: Row) -> tuple[Integers, Integers]:
    return row.least, row.most


def _steps(
    targets: Targets,
    number: int,
    start: tuple[Integers, Integers],
    end: tuple[Integers, Integers],
) -> Int64s:
    """Give the least exponent of a step, by where it starts and by where it ends."""
    beyond = (end[0] - targets.high[number])[None, :] - start[1][:, None]
    short = (start[0] + targets.low[number])[:, None] - end[1][None, :]
    steps = np.maximum(np.maximum(beyond, short, out=beyond), 0, out=beyond)
    if steps.dtype == object:
        steps = np.minimum(steps, DEEPEST)
    exponents: Int64s = steps.astype(np.int64, copy=False)
    return exponents


def _picked(parts: Int64s, randomness: Randomness) -> tuple[int, int, int]:
    """Pick a part in proportion; give it, its size and that of all."""
    ends = parts.cumsum()
    whole = int(ends[-1])
    at = int(np.searchsorted(ends, randomness.below(whole), "right"))
    return at, int(parts[at]), whole
