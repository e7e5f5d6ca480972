"""Weighted counts of a grid, asked for where they are needed: a tree of histograms.

It knows cells and weights: no order, no rate and no chance. Several draws may share one
frontier. What it holds is exact and private, and leaves through a mechanism alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpquery.errors import internal
from dpquery.mechanisms.exponential import Bools, Integers

__all__ = ["NARROW", "Frontier", "Histogram", "Table"]

NARROW = 1 << 62
"""What public facts keep below this is computed in 64 bits; the rest in Python's integers."""


class Histogram(Protocol):
    """Where weighted counts come from: one snapshot of the data for all requests."""

    def __call__(self, low: int, high: int, width: int, /) -> Sequence[int] | Integers:
        """Give the weight of each bin, empty ones too, of the cells from low to high - 1.

        Bin i holds the cells from low + i width up to low + (i + 1) width - 1; the last bin
        ends at high - 1. The width is a power of two.
        """
        ...


class Table:
    """The bins of one request, and the weight below each of their edges."""

    __slots__ = ("edges", "high", "low", "open", "parent", "resolved", "width")

    def __init__(
        self,
        span: tuple[int, int, int],
        edges: Integers,
        parent: tuple[Table, int] | None,
    ) -> None:
        self.low, self.high, self.width = span
        self.edges = edges
        """Of all cells of the grid below; one more than there are bins."""
        self.parent = parent
        self.resolved: Bools = (edges[1:] == edges[:-1]).astype(np.bool_)
        """Whether the score of each cell of a bin is known: one cell, or no rows."""
        if self.width == 1:
            self.resolved[:] = True
        self.resolved[-1] |= self.size(len(self) - 1) == 1
        self.open: Bools = np.ones(len(self), dtype=np.bool_)
        """Whether a bin stands for its cells itself; else a table of its own does."""

    def __len__(self) -> int:
        return len(self.edges) - 1

    def span(self, place: int) -> tuple[int, int]:
        """Give where a bin starts and where the next one does."""
        start = self.low + place * self.width
        return start, min(start + self.width, self.high)

    def size(self, place: int) -> int:
        """Count the cells of a bin."""
        start, end = self.span(place)
        return end - start


class Frontier:
    """Tables that together say what is known of each cell of the grid."""

    __slots__ = ("_bits", "_dtype", "_held", "_histogram", "tables")

    def __init__(
        self, histogram: Histogram, cells: int, max_weight: int, bins: int, held: int
    ) -> None:
        """Ask for the whole grid.

        Args:
            histogram: Where the weights come from.
            cells: How many cells the grid has.
            max_weight: A public bound on the weight of all rows.
            bins: How many bins a table has at most, a power of two.
            held: How many bins all tables together have at most, once `prune` is done.
        """
        self._histogram, self._bits, self._held = histogram, bins.bit_length() - 1, held
        self._dtype: npt.DTypeLike = np.int64 if max_weight < NARROW else object
        weights = self._asked(0, cells)
        if sum(weights.tolist()) > max_weight:
            raise internal("the weight of all rows stays below its public bound")
        self.tables = [self._table((0, cells), 0, weights, None)]

    @property
    def total(self) -> int:
        """The weight of all rows."""
        return int(self.tables[0].edges[-1])

    @property
    def size(self) -> int:
        """The number of bins in all tables."""
        return sum(map(len, self.tables))

    def refine(self, table: Table, place: int) -> Table:
        """Give an open bin a table of its own."""
        span, below = table.span(place), int(table.edges[place])
        weights = self._asked(*span)
        if below + sum(weights.tolist()) != table.edges[place + 1]:
            raise internal("all histograms of a release read one snapshot of the data")
        child = self._table(span, below, weights, (table, place))
        table.open[place] = False
        self.tables.append(child)
        return child

    def prune(self) -> None:
        """Forget the oldest tables, whose bins then stand for themselves again."""
        while self.size > self._held and len(self.tables) > 1:
            oldest = next(table for table in self.tables[1:] if table.open.all())
            if oldest.parent is not None:
                table, place = oldest.parent
                table.open[place] = True
            self.tables.remove(oldest)

    def _width(self, low: int, high: int) -> int:
        return 1 << max(0, (high - low - 1).bit_length() - self._bits)

    def _asked(self, low: int, high: int) -> Integers:
        width = self._width(low, high)
        weights = _integers(self._histogram(low, high, width))
        if len(weights) != -(-(high - low) // width):
            raise internal("a histogram has one weight for each bin")
        if weights.min() < 0:
            raise internal("no weight is below zero")
        return weights

    def _table(
        self,
        span: tuple[int, int],
        below: int,
        weights: Integers,
        parent: tuple[Table, int] | None,
    ) -> Table:
        # Sums of 64 bits cannot wrap here: all weights together were shown to fit.
        sums = weights.astype(self._dtype).cumsum()
        edges = np.concatenate([np.zeros(1, dtype=self._dtype), sums]) + below
        return Table((*span, self._width(*span)), edges, parent)


def _integers(weights: Sequence[int] | Integers) -> Integers:
    """Give weights as an array, exactly: numpy reads a list of wide integers as floats."""
    if isinstance(weights, np.ndarray) and weights.dtype.kind in "iu":
        return weights
    return np.array([index(weight) for weight in weights], dtype=object)
