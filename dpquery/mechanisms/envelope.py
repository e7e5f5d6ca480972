"""Powers of two above the weights of an exponential law on a grid, and draws under them.

It knows tables of counts, a target and a rate, and neither why the rate is what it is nor what
a draw loses. Integers only (I8): each weight exp(-x) has an exponent e with 2^-e >= exp(-x),
and any integer from 0 to x / ln 2 is such an exponent. How tight it is decides how often a
draw starts anew, and never what it gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpquery.mechanisms.certified import ln2_around, shrunk_coin
from dpquery.mechanisms.exponential import Int64s, Integers
from dpquery.mechanisms.frontier import NARROW, Frontier, Table
from dpquery.mechanisms.randomness import Randomness, broken

__all__ = ["ATTEMPTS", "Envelope"]

ATTEMPTS = 1024
"""Each succeeds with probability 1/8.1 or more (see `settle`): (1 - 1/8.1)^1024 < 2^-190."""

DEEPEST = 192
"""Exponents end here: 2^64 cells at 2^-192 are 2^-128 of an envelope, which is 1 or more."""

POINT = 50
"""Binary digits after the point in products that become exponents; 192 * 2^51 fits 64 bits."""
COARSEST = 20
"""Scores are cut to multiples of a power of two that moves an exponent by less than 2^-19."""
LOOSENESS = 4
"""How far the bounds above and below the whole weight may lie apart when a draw is tried."""


@dataclass(frozen=True, slots=True)
class _Exponents:
    """Turns integer scores a into exponents: less than a rate / ln 2, by at most 1 + 2^-18."""

    shift: int
    factor: int

    @classmethod
    def of(cls, rate: Fraction) -> _Exponents:
        slope = rate * Fraction(1 << 256, ln2_around(256)[1])
        size = slope.denominator.bit_length() - slope.numerator.bit_length()
        shift = max(0, size - COARSEST)
        factor = min(int(slope * (1 << shift + POINT)), DEEPEST << POINT)
        return cls(shift, factor)

    def __call__(self, scores: Integers) -> Int64s:
        # 64 bits are gone after 63 places; Python's integers may have more.
        shift = self.shift if scores.dtype == object else min(self.shift, 63)
        end = -(-(DEEPEST << POINT) // self.factor)
        products = np.minimum(scores >> shift, end) * self.factor
        exponents: Int64s = np.minimum(products >> POINT, DEEPEST).astype(np.int64)
        return exponents


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The least scores of a table's bins, and exponents for the least and the largest."""

    table: Table
    scores: Integers
    least: Int64s
    most: Int64s

    def mass(self, exponents: Int64s) -> int:
        """Sum 2^(DEEPEST - exponent) over the cells of all open bins."""
        return sum(cells << DEEPEST - e for e, cells in self.levels(exponents))

    def levels(self, exponents: Int64s) -> Iterator[tuple[int, int]]:
        """Give exponents, each with its number of cells in open bins."""
        counts = np.bincount(exponents[self.table.open], minlength=DEEPEST + 1)
        missing = len(self.table) * self.table.width - (self.table.high - self.table.low)
        last = int(exponents[-1]) if self.table.open[-1] else -1
        for e in np.flatnonzero(counts).tolist():
            yield e, int(counts[e]) * self.table.width - (missing if e == last else 0)

    def cell(self, below: int) -> tuple[int, int]:
        """Give the bin and the cell under a number below `mass(least)`.

        Each cell of an open bin is under 2^(DEEPEST - its exponent) of these numbers.
        """
        for e, cells in self.levels(self.least):
            if below < cells << DEEPEST - e:
                nth, within = divmod(below >> DEEPEST - e, self.table.width)
                # Of the bins of a table the last alone may be short: division finds each.
                place = int(np.flatnonzero(self.table.open & (self.least == e))[nth])
                return place, self.table.span(place)[0] + within
            below -= cells << DEEPEST - e
        raise broken()

    def loosest(self) -> tuple[int, int]:
        """Give the open bin with the most between its bounds, and how much that is.

        2^-least - 2^-most is larger for a smaller least, and among equals for a larger most.
        """
        ranking = np.where(
            self.table.open & (self.most > self.least),
            self.least * (DEEPEST + 1) + DEEPEST - self.most,
            DEEPEST * (DEEPEST + 2),
        )
        place = int(ranking.argmin())
        gap = (1 << DEEPEST - int(self.least[place])) - (1 << DEEPEST - int(self.most[place]))
        return place, gap * self.table.size(place) if self.table.open[place] else 0


class Envelope:
    """One law on a frontier: cell g has the weight exp(-rate s(g) / den).

    s(g) = max(0, den C(<g) - target, target - den C(<=g)), where C is the weight of the rows
    in the cells named. The target lies between 0 and den C, so some cell has s = 0: the whole
    weight is 1 or more.
    """

    __slots__ = ("_bounds", "_den", "_exponents", "_frontier", "_narrow", "_rate", "_target")

    def __init__(
        self, frontier: Frontier, order: Fraction, rate: Fraction, max_weight: int
    ) -> None:
        self._frontier, self._den = frontier, order.denominator
        self._target = order.numerator * frontier.total
        self._rate = rate * Fraction(1, self._den)
        self._narrow = self._den * max_weight < NARROW
        self._exponents = _Exponents.of(self._rate)
        self._bounds: dict[Table, _Bounds] = {}

    def draw(self, randomness: Randomness) -> int:
        """Draw one cell of the law.

        Raises:
            InternalError: DPQ902, the source looks broken.
        """
        for _ in range(ATTEMPTS):
            self._frontier.prune()
            cell = self._attempt(self.settle(), randomness)
            if cell is not None:
                return cell
        raise broken()

    def settle(self) -> int:
        """Refine where bounds are loose, until an attempt is likely enough to succeed.

        An attempt succeeds with the whole weight divided by the mass above it. Mass below is
        at most 2^(1 + 2^-18) times the whole weight (and 2^-127), mass above LOOSENESS times
        that, so one attempt in 8.1 succeeds. It ends: with all bins resolved they are equal.

        Returns:
            The mass above.
        """
        while True:
            bounds = self._all()
            above = sum(each.mass(each.least) for each in bounds)
            if above <= LOOSENESS * sum(each.mass(each.most) for each in bounds):
                return above
            loosest = [(each.table, *each.loosest()) for each in bounds]
            table, place, _ = max(loosest, key=lambda bin_of: bin_of[2])
            self._frontier.refine(table, place)

    def _attempt(self, above: int, randomness: Randomness) -> int | None:
        """Propose a cell by the envelope; keep it with its weight over what was proposed.

        The cell stays the same while its bin is refined; what a finer exponent adds is paid in
        fair coins, so that a draw which ends there asks for nothing more.
        """
        bounds, place, cell = self._proposed(above, randomness)
        exponent = int(bounds.least[place])
        while not bounds.table.resolved[place]:
            child = self._frontier.refine(bounds.table, place)
            bounds, place = self._of(child), (cell - child.low) // child.width
            finer = int(bounds.least[place])
            if randomness.below(1 << finer - exponent):
                return None
            exponent = finer
        x = self._rate * int(bounds.scores[place])
        return cell if shrunk_coin(x, exponent, randomness) else None

    def _proposed(self, above: int, randomness: Randomness) -> tuple[_Bounds, int, int]:
        below = randomness.below(above)
        for bounds in self._all():
            mass = bounds.mass(bounds.least)
            if below < mass:
                return bounds, *bounds.cell(below)
            below -= mass
        raise broken()

    def _all(self) -> list[_Bounds]:
        self._bounds = {table: self._of(table) for table in self._frontier.tables}
        return list(self._bounds.values())

    def _of(self, table: Table) -> _Bounds:
        if table not in self._bounds:
            self._bounds[table] = self._computed(table)
        return self._bounds[table]

    def _computed(self, table: Table) -> _Bounds:
        edges = table.edges if self._narrow else table.edges.astype(object)
        past = edges * self._den - self._target
        start, end = past[:-1], past[1:]
        # At most one of the two is above zero.
        least = start.clip(0) - end.clip(None, 0)
        most = np.where(table.resolved, least, np.maximum(end, -start))
        return _Bounds(table, least, self._exponents(least), self._exponents(most))
