"""A frontier as a row of stretches, each with the ranks that its places can have, as exponents.

It knows weights and how steeply a law falls in ranks, and neither why it does nor what a draw
loses. Which cells are looked at closely, and which stand together in one stretch, has no
bearing on any law. Integers only (I8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpquery.mechanisms.above import POINT
from dpquery.mechanisms.certified import ln2_around
from dpquery.mechanisms.exponential import Bools, Integers
from dpquery.mechanisms.frontier import Frontier, Table

__all__ = ["Scale", "Stretch", "Terrain"]

FINE = 256
NARROW = 1 << 56
"""Exponents below this are computed in 64 bits."""
PARTS = 4
"""Into how many parts a stretch is split, evenly in the exponent."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Turns ranks into exponents, multiples of 2^-POINT: slope rank / ln 2, or hardly less."""

    factor: int
    shift: int
    coarse: int = 0
    """So many binary digits of ranks are rounded first."""

    @classmethod
    def of(cls, slope: Fraction, digits: int = 64, coarse: int = 0) -> Scale:
        """Give it for a slope, per rank, with so many binary digits."""
        exact = slope * Fraction(1 << FINE + POINT, ln2_around(FINE)[1])
        size = exact.denominator.bit_length() - exact.numerator.bit_length()
        shift = max(0, size + digits)
        return cls(int(exact * (1 << shift)), shift, min(coarse, shift))

    def below(self, ranks: Integers) -> Integers:
        """Give exponents that are at most those of the ranks."""
        return (ranks >> self.coarse) * self.factor >> self.shift - self.coarse

    def above(self, ranks: Integers) -> Integers:
        """Give exponents that are at least those of the ranks."""
        return -self.below(-ranks)

    def first(self, exponent: int) -> int:
        """Give the least rank of which `below` gives an exponent, or more."""
        return -(-(exponent << self.shift - self.coarse) // self.factor) << self.coarse

    def floor(self, rank: Fraction) -> int:
        """Give the exponent of one rank, rounded down."""
        return rank.numerator * self.factor // (rank.denominator << self.shift)


Piece = tuple[Table, int, int]
"""Bins of a table: the first, and the one after the last."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Places in a row."""

    low: int
    size: int
    least: int
    """At most the exponent of the weight below any of them."""
    most: int
    """At least that."""
    pieces: tuple[Piece, ...]

    @property
    def width(self) -> int:
        """How far the places may be apart in the exponent."""
        return self.most - self.least


class Terrain:
    """Stretches of a frontier, which it refines where a closer look is asked for."""

    __slots__ = ("_children", "_frontier", "_narrow", "scale")

    def __init__(self, frontier: Frontier, scale: Scale) -> None:
        self._frontier, self.scale = frontier, scale
        self._narrow = scale.above(np.array([frontier.total], dtype=object))[0] < NARROW
        self._children: dict[tuple[Table, int], Table] = {}

    def whole(self) -> list[Stretch]:
        """Part the whole grid: wherever weight lies, if bins are single places."""
        root = self._frontier.tables[0]
        pieces = ((root, 0, len(root)),)
        if root.width > 1:
            return self._parted(pieces)
        least, most = self._of(pieces[0])
        return self._cut(pieces, least, most, (least[1:] != least[:-1]).astype(np.bool_))

    def split(self, stretch: Stretch) -> list[Stretch]:
        """Part a stretch that is known to have more than one place."""
        if len(stretch.pieces) == 1:
            table, first, end = stretch.pieces[0]
            if end - first == 1:
                child = self._child(table, first)
                return self._parted(((child, 0, len(child)),))
        return self._parted(stretch.pieces)

    def weight_below(self, place: int) -> int:
        """Give the weight below a place."""
        table = self._frontier.tables[0]
        while True:
            at = (place - table.low) // table.width
            low, high = table.span(at)
            if high - low == 1 or table.edges[at] == table.edges[at + 1]:
                return int(table.edges[at])
            table = self._child(table, at)

    def _child(self, table: Table, at: int) -> Table:
        if (table, at) not in self._children:
            self._children[table, at] = self._frontier.refine(table, at)
        return self._children[table, at]

    def _parted(self, pieces: Sequence[Piece]) -> list[Stretch]:
        """Part bins: those that alone span a part, and the others by the part they start in."""
        least, most = map(np.concatenate, zip(*map(self._of, pieces), strict=True))
        span = max(1, int(most[-1] - least[0]))
        wide = (PARTS * (most - least) > span).astype(np.bool_)
        part = PARTS * (least - least[0]) // span
        changed = (part[1:] != part[:-1]).astype(np.bool_)
        return self._cut(pieces, least, most, changed | wide[1:] | wide[:-1])

    def _cut(
        self, pieces: Sequence[Piece], least: Integers, most: Integers, changed: Bools
    ) -> list[Stretch]:
        """Cut bins wherever the next one is marked."""
        starts = [0, *(np.flatnonzero(changed) + 1).tolist()]
        ends = [*starts[1:], len(least)]
        return [
            self._stretch(_between(pieces, a, b), int(least[a]), int(most[b - 1]))
            for a, b in zip(starts, ends, strict=True)
        ]

    def _stretch(self, pieces: tuple[Piece, ...], least: int, most: int) -> Stretch:
        (first, at, _), (last, _, end) = pieces[0], pieces[-1]
        low, high = first.span(at)[0], last.span(end - 1)[1]
        return Stretch(low, high - low, least, most, pieces)

    def _of(self, piece: Piece) -> tuple[Integers, Integers]:
        """Give the least and the largest exponent of each bin's places."""
        table, first, end = piece
        edges = table.edges[first : end + 1].astype(object)
        below, above = self.scale.below(edges), self.scale.above(edges)
        known = (edges[1:] == edges[:-1]).astype(np.bool_) | (table.width == 1)
        low, high = table.span(end - 1)
        known[-1] |= high - low == 1
        kind = np.int64 if self._narrow else object
        most = np.where(known, above[:-1], above[1:])
        return below[:-1].astype(kind), most.astype(kind)


def _between(pieces: Sequence[Piece], start: int, end: int) -> tuple[Piece, ...]:
    """Give the bins from one up to another, counted over all pieces."""
    found, passed = [], 0
    for table, first, last in pieces:
        a, b = max(start - passed, 0), min(end - passed, last - first)
        if a < b:
            found.append((table, first + a, first + b))
        passed += last - first
    return tuple(found)
