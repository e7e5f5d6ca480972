"""Powers of two above the weights of an exponential law on a grid, and draws under them.

Integers only (I8): each weight exp(-x) has an exponent e with 2^-e >= exp(-x), and any integer
from 0 to x / ln 2 is such an exponent. How tight it is decides how often a draw starts anew,
and never what it gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpquery.mechanisms.quantiles.sampling.exact_histograms import (
    NARROW,
    HistogramTree,
    Part,
    Table,
)
from dpquery.mechanisms.randomness import Randomness, broken
from dpquery.mechanisms.samplers import Bools, Int64s, Integers, ln2_around, shrunk_coin

ATTEMPTS = 1024
"""Each succeeds with probability 1/8.1 or more (see `settle`): (1 - 1/8.1)^1024 < 2^-190."""

DEEPEST = 192
"""Exponents end here: 2^96 cells at 2^-192 are 2^-96 of an envelope, which is 1 or more."""

POINT = 50
"""Binary digits after the point in products that become exponents; 192 * 2^51 fits 64 bits."""
COARSEST = 20
"""Scores are cut to multiples of a power of two that moves an exponent by less than 2^-19."""
LOOSENESS = 4
"""How far the bounds above and below the whole weight may lie apart when a draw is tried."""


@dataclass(frozen=True, slots=True)
class Exponents:
    """Turns integer scores a into exponents: less than a rate / ln 2, by at most 1 + 2^-18."""

    shift: int
    factor: int

    @classmethod
    def of(cls, rate: Fraction) -> Exponents:
        """Return them for a rate."""
        slope = rate * Fraction(1 << 256, ln2_around(256)[1])
        size = slope.denominator.bit_length() - slope.numerator.bit_length()
        shift = max(0, size - COARSEST)
        factor = min(int(slope * (1 << shift + POINT)), DEEPEST << POINT)
        return cls(shift, factor)

    def __call__(self, scores: Integers) -> Int64s:
        """Return the exponents of scores, in 64 bits or in Python's integers."""
        # 64 bits are gone after 63 places; Python's integers may have more.
        shift = self.shift if scores.dtype == object else min(self.shift, 63)
        end = -(-(DEEPEST << POINT) // self.factor)
        products = np.minimum(scores >> shift, end) * self.factor
        exponents: Int64s = np.minimum(products >> POINT, DEEPEST).astype(np.int64)
        return exponents


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The bins of a table that reach into a part, cut to it.

    Least scores, and exponents for the least and the largest.
    """

    table: Table
    first: int
    """The place of the first bin in its table; here it is 0."""
    front: int
    """How many cells of the first bin lie before the part."""
    back: int
    """How many cells the last one has not, or has behind the part."""
    edges: Integers
    scores: Integers
    resolved: Bools
    """Whether the score of each cell of a bin is known: one cell, or no rows."""
    least: Int64s
    most: Int64s

    @property
    def open(self) -> Bools:
        """Whether a bin stands for its cells itself."""
        return self.table.open[self.first : self.first + len(self.scores)]

    def size(self, place: int) -> int:
        """Count the cells of a bin."""
        last = place == len(self.scores) - 1
        return self.table.width - (0 if place else self.front) - (self.back if last else 0)

    def mass(self, exponents: Int64s) -> int:
        """Sum 2^(DEEPEST - exponent) over the cells of all open bins."""
        return sum(cells << DEEPEST - e for e, cells in self.levels(exponents))

    def levels(self, exponents: Int64s) -> Iterator[tuple[int, int]]:
        """Return exponents, each with its number of cells in open bins."""
        counts = np.bincount(exponents[self.open], minlength=DEEPEST + 1)
        first = int(exponents[0]) if self.open[0] else -1
        last = int(exponents[-1]) if self.open[-1] else -1
        for e in np.flatnonzero(counts).tolist():
            missing = (self.front if e == first else 0) + (self.back if e == last else 0)
            yield e, int(counts[e]) * self.table.width - missing

    def cell(self, below: int) -> tuple[int, int]:
        """Return the bin and the cell under a number below `mass(least)`.

        Each cell of an open bin is under 2^(DEEPEST - its exponent) of these numbers.
        """
        for e, cells in self.levels(self.least):
            if below < cells << DEEPEST - e:
                # The first and the last bin of a table alone may be short: division finds each.
                short = self.front if self.open[0] and self.least[0] == e else 0
                nth, within = divmod((below >> DEEPEST - e) + short, self.table.width)
                place = int(np.flatnonzero(self.open & (self.least == e))[nth])
                return place, self.table.span(self.first + place)[0] + within
            below -= cells << DEEPEST - e
        raise broken()

    def loosest(self) -> tuple[int, int]:
        """Return the open bin with the most between its bounds, and how much that is.

        2^-least - 2^-most is larger for a smaller least, and among equals for a larger most.
        """
        ranking = np.where(
            self.open & (self.most > self.least),
            self.least * (DEEPEST + 1) + DEEPEST - self.most,
            DEEPEST * (DEEPEST + 2),
        )
        place = int(ranking.argmin())
        gap = (1 << DEEPEST - int(self.least[place])) - (1 << DEEPEST - int(self.most[place]))
        return place, gap * self.size(place) if self.open[place] else 0


class Envelope:
    """One law on a part of a tree: cell g has the weight exp(-rate s(g) / den).

    s(g) = max(0, den C(<g) - target, target - den C(<=g)), where C is the weight of the rows
    of the part in the cells named. The target lies between 0 and den C, so some cell has s = 0:
    the whole weight is 1 or more.
    """

    def __init__(
        self,
        tree: HistogramTree,
        order: Fraction,
        rate: Fraction,
        max_weight: int,
        part: Part | None = None,
    ) -> None:
        self._frontier, self._den = tree, order.denominator
        self._part = part or tree.whole
        self._target = order.numerator * self._part.weight
        self._rate = rate * Fraction(1, self._den)
        self._narrow = self._den * max_weight < NARROW
        self._exponents = Exponents.of(self._rate)
        self._bounds: dict[Table, _Bounds] = {}

    def draw(self, randomness: Randomness) -> tuple[int, int, int]:
        """Draw one cell of the law; give it with the weight below it, and up to it.

        Raises:
            InternalError: DPQ902, the source looks broken.
        """
        for _ in range(ATTEMPTS):
            self._frontier.prune()
            found = self._attempt(self.settle(), randomness)
            if found is not None:
                return found
        raise broken()

    def settle(self) -> int:
        """Refine where bounds are loose, until an attempt is likely enough to succeed.

        An attempt succeeds with the whole weight divided by the mass above it. Mass below is
        at most 2^(1 + 2^-18) times the whole weight (and 2^-96), mass above LOOSENESS times
        that, so one attempt in 8.1 succeeds. It ends: with all bins resolved they are equal.

        Returns:
            The mass above.
        """
        while True:
            bounds = self._all()
            above = sum(each.mass(each.least) for each in bounds)
            if above <= LOOSENESS * sum(each.mass(each.most) for each in bounds):
                return above
            loosest = [(each, *each.loosest()) for each in bounds]
            each, place, _ = max(loosest, key=lambda bin_of: bin_of[2])
            self._frontier.refine(each.table, each.first + place)

    def _attempt(self, above: int, randomness: Randomness) -> tuple[int, int, int] | None:
        """Propose a cell by the envelope; keep it with its weight over what was proposed.

        The cell stays the same while its bin is refined; what a finer exponent adds is paid in
        fair coins, so that a draw which ends there asks for nothing more.
        """
        bounds, place, cell = self._proposed(above, randomness)
        exponent = int(bounds.least[place])
        while not bounds.resolved[place]:
            child = self._frontier.refine(bounds.table, bounds.first + place)
            bounds = self._of(child)
            place = (cell - child.low) // child.width - bounds.first
            finer = int(bounds.least[place])
            if randomness.below(1 << finer - exponent):
                return None
            exponent = finer
        x = self._rate * int(bounds.scores[place])
        if not shrunk_coin(x, exponent, randomness):
            return None
        # A bin whose scores are known is one cell, or has the same weight at both ends.
        return cell, int(bounds.edges[place]), int(bounds.edges[place + 1])

    def _proposed(self, above: int, randomness: Randomness) -> tuple[_Bounds, int, int]:
        below = randomness.below(above)
        for bounds in self._all():
            mass = bounds.mass(bounds.least)
            if below < mass:
                return bounds, *bounds.cell(below)
            below -= mass
        raise broken()

    def _all(self) -> list[_Bounds]:
        low, high = self._part.low, self._part.high
        tables = [t for t in self._frontier.tables if t.low < high and low < t.high]
        self._bounds = {table: self._of(table) for table in tables}
        return list(self._bounds.values())

    def _of(self, table: Table) -> _Bounds:
        if table not in self._bounds:
            self._bounds[table] = self._computed(table)
        return self._bounds[table]

    def _computed(self, table: Table) -> _Bounds:
        part, width = self._part, table.width
        first = max(0, part.low - table.low) // width
        last = (min(part.high, table.high) - 1 - table.low) // width
        front = max(0, part.low - table.low - first * width)
        back = table.low + (last + 1) * width - min(part.high, table.high)
        edges = table.edges[first : last + 2].clip(part.below, part.up_to)
        past = (edges if self._narrow else edges.astype(object)) - part.below
        past = past * self._den - self._target
        start, end = past[:-1], past[1:]
        # At most one of the two is above zero.
        scores = start.clip(0) - end.clip(None, 0)
        resolved = (start == end).astype(np.bool_)
        resolved[0] |= width - front == 1
        resolved[-1] |= width - back == 1
        if width == 1:
            resolved[:] = True
        most = np.where(resolved, scores, np.maximum(end, -start))
        exponents = (self._exponents(scores), self._exponents(most))
        return _Bounds(table, first, front, back, edges, scores, resolved, *exponents)
