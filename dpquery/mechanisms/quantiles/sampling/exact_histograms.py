"""Weighted counts of a grid, asked for where they are needed: a tree of histograms.

Several draws may share one tree. What it holds is exact and private, and leaves through a
mechanism alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import index
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dpquery.errors import internal
from dpquery.mechanisms.samplers import Bools, Integers

NARROW = 1 << 62
"""What public facts keep below this is computed in 64 bits; the rest in Python's integers."""
SPREAD_BITS = 8
"""A cell that is spread is parted into so many binary digits at a time: that costs no scan."""
REACH = 4
"""So many widths of a draw to either side of its rank are looked ahead for: it errs by more
about twice in a hundred times."""

B = TypeVar("B")
Request = tuple[int, int, int]
"""The cells from low to high - 1 of a histogram, and the width of its bins."""


class Weights(Protocol):
    """Where weighted counts come from: one snapshot of the data for all requests."""

    def __call__(self, low: int, high: int, width: int, /) -> Sequence[int] | Integers:
        """Return the weight of each bin, empty ones too, of the cells from low to high - 1.

        Bin i holds the cells from low + i width up to low + (i + 1) width - 1; the last bin
        ends at high - 1. The width is a power of two.
        """
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """The cells from low to high - 1, and the weight below each end."""

    low: int
    high: int
    below: int
    up_to: int

    @property
    def weight(self) -> int:
        """The weight inside."""
        return self.up_to - self.below

    def cut(self, cell: int, below: int) -> tuple[Part, Part]:
        """Part it before a cell, below which there is a weight."""
        return Part(self.low, cell, self.below, below), Part(cell, self.high, below, self.up_to)


class Table:
    """The bins of one request, and the weight below each of their edges."""

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
        self.open: Bools = np.ones(len(self), dtype=np.bool_)
        """Whether a bin stands for its cells itself; else a table of its own does."""

    def __len__(self) -> int:
        return len(self.edges) - 1

    def span(self, place: int) -> tuple[int, int]:
        """Return where a bin starts and where the next one does."""
        start = self.low + place * self.width
        return start, min(start + self.width, self.high)


class HistogramTree:
    """Tables that together say what is known of each cell of the grid.

    A cell may be spread over 2^spread cells of a finer grid, which is then the grid: of a
    weight of T, unit j of 0 to T - 1 goes to the place that the last `spread` binary digits of
    j make when they are read from the right. So weights are spread evenly, and more weight
    moves none that is there. In an aligned block of 2^-t of the cell stand the units whose
    last t digits are the block's, and these are spread over it by the same rule: how a bin
    splits follows from its own weight, and no histogram is asked for.
    """

    def __init__(
        self,
        histogram: Weights,
        cells: int,
        max_weight: int,
        bins: int,
        held: int,
        spread: int = 0,
    ) -> None:
        """Ask for the whole grid.

        Args:
            histogram: Where the weights come from.
            cells: How many cells the grid has.
            max_weight: A public bound on the weight of all rows.
            bins: How many bins a table has at most, a power of two.
            held: How many bins all tables together have at most, once `prune` is done.
            spread: Over how many binary digits of further cells the histogram's are spread.
        """
        self._histogram, self._bits, self._held = histogram, bins.bit_length() - 1, held
        self._spread = spread
        self._dtype: npt.DTypeLike = np.int64 if max_weight < NARROW else object
        whole, width = (0, cells << spread), bin_width(cells, bins) << spread
        weights = self._asked(*whole, width)
        if sum(weights.tolist()) > max_weight:
            raise internal("the weight of all rows stays below its public bound")
        self.tables = [self._table((*whole, width), 0, weights, None)]

    @property
    def total(self) -> int:
        """The weight of all rows."""
        return int(self.tables[0].edges[-1])

    @property
    def whole(self) -> Part:
        """All cells of the grid."""
        return Part(0, self.tables[0].high, 0, self.total)

    @property
    def size(self) -> int:
        """The number of bins in all tables."""
        return sum(map(len, self.tables))

    def refine(self, table: Table, place: int, known: Integers | None = None) -> Table:
        """Return an open bin a table of its own; what its `request` gives may be known."""
        span = table.span(place)
        below, up_to = int(table.edges[place]), int(table.edges[place + 1])
        if span[1] - span[0] <= 1 << self._spread:
            digits = min(SPREAD_BITS, (span[1] - span[0]).bit_length() - 1)
            width = span[1] - span[0] >> digits
            weights = spread_out(up_to - below, digits)
        else:
            width = self._even_width(*span)
            weights = self._asked(*span, width) if known is None else known
        if below + sum(weights.tolist()) != up_to:
            raise internal("all histograms of a release read one snapshot of the data")
        child = self._table((*span, width), below, weights, (table, place))
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

    def wanted(self, ranks: Iterable[int]) -> list[tuple[Table, int]]:
        """Give the open bins where ranks lie, if a histogram tells more, and as many as fit."""
        size, found = self.size, list[tuple[Table, int]]()
        for rank in ranks:
            table, place = self._bin(min(max(rank, 1), self.total))
            low, high = table.span(place)
            told = high - low <= 1 << self._spread
            if told or table.edges[place] == table.edges[place + 1] or (table, place) in found:
                continue
            size += -(-(high - low) // self._even_width(low, high))
            if size > self._held:
                break
            found.append((table, place))
        return found

    def request(self, bin_of: tuple[Table, int]) -> Request:
        """Return what is asked for when a bin of several cells is refined."""
        table, place = bin_of
        low, high = table.span(place)
        return self._cells(low, high, self._even_width(low, high))

    def learn(self, answers: Iterable[tuple[tuple[Table, int], Integers]]) -> None:
        """Refine bins by what was answered."""
        for (table, place), known in answers:
            self.refine(table, place, known)

    def _bin(self, rank: int) -> tuple[Table, int]:
        """Return the open bin in which the weight passes what is below a rank."""
        parents = {table.parent: table for table in self.tables}
        table = self.tables[0]
        while True:
            place = max(0, int(np.searchsorted(table.edges, rank)) - 1)
            if table.open[place]:
                return table, place
            table = parents[table, place]

    def _even_width(self, low: int, high: int) -> int:
        """Return the width that parts a bin in as many steps as must be, all equally finely."""
        digits = (high - low - 1).bit_length() - self._spread
        steps = max(1, -(-digits // self._bits))
        return 1 << self._spread + max(0, digits - -(-digits // steps))

    def _asked(self, low: int, high: int, width: int) -> Integers:
        return asked(self._histogram, *self._cells(low, high, width))

    def _cells(self, low: int, high: int, width: int) -> Request:
        return low >> self._spread, high >> self._spread, width >> self._spread

    def _table(
        self,
        span: tuple[int, int, int],
        below: int,
        weights: Integers,
        parent: tuple[Table, int] | None,
    ) -> Table:
        # Sums of 64 bits cannot wrap here: all weights together were shown to fit.
        sums = weights.astype(self._dtype).cumsum()
        edges = np.concatenate([np.zeros(1, dtype=self._dtype), sums]) + below
        return Table(span, edges, parent)


class Ahead(Protocol[B]):
    """What may be looked at more closely before a draw."""

    def wanted(self, ranks: Iterable[int]) -> Sequence[B]:
        """Return the bins where ranks lie, if a histogram tells more, and as many as fit."""
        ...

    def request(self, bin_of: B) -> Request:
        """Return what is asked for when a bin is refined."""
        ...

    def learn(self, answers: Iterable[tuple[B, Integers]]) -> None:
        """Refine bins by what was answered."""
        ...


A = TypeVar("A", bound=Ahead[Any])


def look_ahead(
    trees: Sequence[A],
    near: Callable[[A], Sequence[int]],
    ask: Callable[[Sequence[tuple[int, Request]]], Sequence[Sequence[int] | Integers]],
) -> None:
    """Refine the bins where draws will look, before anything is drawn: one request a step.

    Bins may be refined by any rule that looks at the past alone, and no law depends on it; what
    a draw still misses it asks for itself.

    Args:
        trees: of one mechanism, each of another group.
        near: gives the ranks where draws from a tree will look, the likeliest first.
        ask: answers requests together, each with the number of its tree.
    """
    while any(wanted := [tree.wanted(near(tree)) for tree in trees]):
        requests = [
            (number, tree.request(bin_of))
            for number, (tree, bins) in enumerate(zip(trees, wanted, strict=True))
            for bin_of in bins
        ]
        told = zip(requests, ask(requests), strict=True)
        answers = (_checked(answer, *request) for (_, request), answer in told)
        for tree, bins in zip(trees, wanted, strict=True):
            tree.learn([(bin_of, next(answers)) for bin_of in bins])


def around(draws: Sequence[tuple[Fraction, Fraction]], total: int) -> list[int]:
    """Give the ranks at which draws of an order and a rate each aim, then those beside them."""
    aims = [(int(order * total), -(-REACH // rate)) for order, rate in draws]
    beside = (rank for aim, reach in aims for rank in (aim - reach, aim + reach))
    return [*(aim for aim, _ in aims), *beside]


def asked(histogram: Weights, low: int, high: int, width: int) -> Integers:
    """Ask for the weight of each bin, and refuse what cannot be."""
    return _checked(histogram(low, high, width), low, high, width)


def _checked(given: Sequence[int] | Integers, low: int, high: int, width: int) -> Integers:
    weights = as_integers(given)
    if len(weights) != -(-(high - low) // width):
        raise internal("a histogram has one weight for each bin")
    if weights.min() < 0:
        raise internal("no weight is below zero")
    return weights


def as_integers(weights: Sequence[int] | Integers) -> Integers:
    """Return weights as an array, exactly: numpy reads a list of wide integers as floats."""
    if isinstance(weights, np.ndarray) and weights.dtype.kind in "iu":
        return weights
    return np.array([index(weight) for weight in weights], dtype=object)


def bin_width(cells: int, bins: int) -> int:
    """Return the width, a power of two, of which so many bins, another one, are enough."""
    return 1 << max(0, (cells - 1).bit_length() - (bins.bit_length() - 1))


def in_bins(weights: Sequence[int], width: int) -> list[int]:
    """Return the weights of the bins of a small grid."""
    return [sum(weights[at : at + width]) for at in range(0, len(weights), width)]


def on_places(weights: Sequence[int], digits: int) -> list[int]:
    """Return the weights of the places over which those of a small grid are spread."""
    return [part for weight in weights for part in spread_out(weight, digits).tolist()]


def spread_out(weight: int, digits: int) -> Integers:
    """Return the weights of 2^digits equal blocks of a cell that is spread.

    Block b has the units j < weight with j mod 2^digits = b read from the right.

    >>> spread_out(5, 2).tolist(), spread_out(6, 2).tolist()
    ([2, 1, 1, 1], [2, 1, 2, 1])
    """
    blocks = _mirrored(digits)
    last = weight + (1 << digits) - 1
    if last >= NARROW:
        blocks = blocks.astype(object)
    weights: Integers = last - blocks >> digits
    return weights


def passing(units: Sequence[tuple[int, int]], digits: int) -> list[tuple[int, int, int]]:
    """Find where units stand: of a weight that is spread over 2^digits places, the k-th in row.

    Give the place, the weight in the places below it, and that with the place's own.

    >>> passing([(5, 2), (5, 3), (6, 6)], 2)
    [(0, 0, 2), (1, 2, 3), (3, 5, 6)]
    """
    wide = any(weight >= NARROW for weight, _ in units)
    table = np.array(units, dtype=object if wide else np.int64).reshape(-1, 2)
    held, wanted = table[:, 0], table[:, 1]
    places = below = 0 * held
    for _ in range(digits):
        # The units with even numbers are in the lower half.
        lower = held + 1 >> 1
        above = (below + lower < wanted).astype(np.bool_)
        places = 2 * places + above
        below = below + np.where(above, lower, 0)
        held = np.where(above, held >> 1, lower)
    return list(zip(places.tolist(), below.tolist(), (below + held).tolist(), strict=True))


def weight_within(weight: int, place: int, digits: int) -> int:
    """Return what a weight that is spread over 2^digits places has below one of these.

    >>> [weight_within(5, place, 2) for place in range(4)]
    [0, 2, 3, 4]
    """
    below = 0
    for digit in reversed(range(digits)):
        lower = weight + 1 >> 1
        above = place >> digit & 1
        below, weight = below + above * lower, weight >> 1 if above else lower
    return below


@lru_cache(maxsize=64)
def _mirrored(digits: int) -> Integers:
    """Return the numbers below 2^digits with their binary digits read from the right."""
    numbers: Integers = np.zeros(1, dtype=np.int64)
    for _ in range(digits):
        numbers = np.concatenate([2 * numbers, 2 * numbers + 1])
    return numbers
