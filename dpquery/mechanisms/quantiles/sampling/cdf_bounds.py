"""What is known of the weight below each place, finely near some ranks and coarsely elsewhere.

Which cells are looked at closely, and which stand together in one stretch, has no bearing on
any law. What is held here is exact and private, and leaves through a mechanism alone. Integers
only (I8).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt

from dpquery.errors import internal
from dpquery.mechanisms.quantiles.sampling.directed_rounding import (
    NARROW_EXPONENT,
    POINT,
    as_exponents,
    logarithm_above,
)
from dpquery.mechanisms.quantiles.sampling.exact_histograms import (
    NARROW,
    HistogramTree,
    Request,
    Table,
    Weights,
    asked,
    bin_width,
    passing,
    weight_within,
)
from dpquery.mechanisms.samplers import Bools, Int64s, Integers, ln2_around

FINE = 256
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
        """Return it for a slope, per rank, with so many binary digits."""
        exact = slope * Fraction(1 << FINE + POINT, ln2_around(FINE)[1])
        size = exact.denominator.bit_length() - exact.numerator.bit_length()
        shift = max(0, size + digits)
        return cls(int(exact * (1 << shift)), shift, min(coarse, shift))

    def below(self, ranks: Integers) -> Integers:
        """Return exponents that are at most those of the ranks."""
        return (ranks >> self.coarse) * self.factor >> self.shift - self.coarse

    def above(self, ranks: Integers) -> Integers:
        """Return exponents that are at least those of the ranks."""
        return -self.below(-ranks)

    def first(self, exponent: int) -> int:
        """Return the least rank of which `below` gives an exponent, or more."""
        return -(-(exponent << self.shift - self.coarse) // self.factor) << self.coarse

    def floor(self, rank: Fraction) -> int:
        """Return the exponent of one rank, rounded down."""
        return rank.numerator * self.factor // (rank.denominator << self.shift)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Places in a row."""

    low: int
    size: int
    least: int
    """At most the exponent of the weight below any of them."""
    most: int
    """At least that."""
    bins: tuple[Table, int, int]
    """Of a table, the first and the one after the last."""

    @property
    def width(self) -> int:
        """How far the places may be apart in the exponent."""
        return self.most - self.least


class Terrain:
    """Stretches of a tree, which it refines where a closer look is asked for."""

    def __init__(self, tree: HistogramTree, scale: Scale) -> None:
        self._tree, self.scale = tree, scale
        self._narrow = -scale.floor(Fraction(-tree.total)) < NARROW_EXPONENT
        self._children: dict[tuple[Table, int], Table] = {}

    def whole(self) -> list[Stretch]:
        """Part the whole grid: wherever weight lies, if bins are single places."""
        root = self._tree.tables[0]
        if root.width > 1:
            return self._parted(root, 0, len(root))
        least, most = self._exponents(root, 0, len(root))
        return self._cut(root, 0, least, most, (least[1:] != least[:-1]).astype(np.bool_))

    def split(self, stretch: Stretch) -> list[Stretch]:
        """Part a stretch that is known to have more than one place."""
        table, first, end = stretch.bins
        if end - first > 1:
            return self._parted(table, first, end)
        child = self._child(table, first)
        return self._parted(child, 0, len(child))

    def weight_below(self, place: int) -> int:
        """Return the weight below a place."""
        table = self._tree.tables[0]
        while True:
            at = (place - table.low) // table.width
            low, high = table.span(at)
            if high - low == 1 or table.edges[at] == table.edges[at + 1]:
                return int(table.edges[at])
            table = self._child(table, at)

    def _child(self, table: Table, at: int) -> Table:
        if (table, at) not in self._children:
            self._children[table, at] = self._tree.refine(table, at)
        return self._children[table, at]

    def _parted(self, table: Table, first: int, end: int) -> list[Stretch]:
        """Part bins: those that alone span a part, and the others by the part they start in."""
        least, most = self._exponents(table, first, end)
        span = max(1, int(most[-1] - least[0]))
        wide = (PARTS * (most - least) > span).astype(np.bool_)
        part = PARTS * (least - least[0]) // span
        changed = (part[1:] != part[:-1]).astype(np.bool_)
        return self._cut(table, first, least, most, changed | wide[1:] | wide[:-1])

    def _cut(
        self, table: Table, first: int, least: Integers, most: Integers, changed: Bools
    ) -> list[Stretch]:
        """Cut bins wherever the next one is marked."""
        cuts = [0, *(np.flatnonzero(changed) + 1).tolist(), len(least)]
        stretches = []
        for a, b in pairwise(cuts):
            low, high = table.span(first + a)[0], table.span(first + b - 1)[1]
            bins = table, first + a, first + b
            stretches.append(Stretch(low, high - low, int(least[a]), int(most[b - 1]), bins))
        return stretches

    def _exponents(self, table: Table, first: int, end: int) -> tuple[Integers, Integers]:
        """Return the least and the largest exponent of each bin's places."""
        edges = table.edges[first : end + 1].astype(object)
        below, above = self.scale.below(edges), self.scale.above(edges)
        known = (edges[1:] == edges[:-1]).astype(np.bool_) | (table.width == 1)
        low, high = table.span(end - 1)
        known[-1] |= high - low == 1
        kind = np.int64 if self._narrow else object
        most = np.where(known, above[:-1], above[1:])
        return below[:-1].astype(kind), most.astype(kind)


DIGITS, FEW_BITS = 16, 44
"""Of a slope below 1, and of ranks: enough for distances, and few enough for 64 bits."""
LOOSE = 5 << POINT - 1
"""How far off exponents may be in all."""
SHIFT, FARTHEST, SPARE = 16, 4096, 24
"""Binary digits after the point of places that are counted; the most that they are doubled;
and how much farther than it must be lists are followed closely."""
DEEP = 63
"""Shifts from here on are for Python's integers."""
FINER = ((32, 9), (256, 6), (2048, 3))
"""Up to so many bins at a time are parted into so many binary digits each."""
AT_A_TIME, LANDING = 2048, 12
NEAR = 16 << POINT
"""Bins so near to an aim are compared with those that are too coarse."""
ALONE = 16
"""So many bins to either side of an aim stand alone, where slopes are steep."""
FEW, FEWER = 8, 256
"""One place in so many may be in bins that are too coarse, as a law counts them."""
Spliced = tuple[int, Integers, Integers, Integers]
"""The number of a bin, and the bins in its place: where they start, and weights below."""


@dataclass(frozen=True, slots=True)
class Row:
    """All places as stretches, as one order sees them: columns of what these have."""

    starts: Int64s
    """The number of the first bin of each, then that of all bins."""
    lows: list[int]
    sizes: list[int]
    least: Integers
    """At most the exponent of the weight below any place of a stretch."""
    most: Integers
    """At least that."""
    more: Integers
    """How much each size takes off an exponent, or more."""


class Outlook:
    """Bins in a row, each with the least and the most weight that lies below its places.

    A cell may be spread over 2^spread places, as `HistogramTree` spreads it.
    """

    def __init__(
        self,
        histogram: Weights,
        cells: int,
        max_weight: int,
        bins: int,
        spread: int,
        slope: Fraction,
    ) -> None:
        """Ask for the whole grid, in so many bins at most."""
        self._histogram, self._spread = histogram, spread
        self._dtype: npt.DTypeLike = np.int64 if max_weight < NARROW else object
        self._cells: dict[int, tuple[int, int]] = {}
        width = bin_width(cells, bins)
        weights = asked(histogram, 0, cells, width)
        self.total = sum(weights.tolist())
        if self.total > max_weight:
            raise internal("the weight of all rows stays below its public bound")
        digits = DIGITS + int(slope).bit_length()
        self.scale = Scale.of(slope, digits, max(0, self.total.bit_length() - FEW_BITS))
        starts, self._least, self._most = self._parted((0, cells, width), 0, weights)
        end = np.array([cells << spread], dtype=object)
        self._cuts: Integers = np.concatenate([starts, end])
        self._far = 0
        self._lower, self._upper = self._exponents(self._least, self._most)

    @property
    def narrow(self) -> bool:
        """Whether exponents are computed in 64 bits."""
        return self.scale.floor(Fraction(self.total)) < NARROW_EXPONENT >> 1

    @property
    def size(self) -> int:
        """The number of bins."""
        return len(self._least)

    def wanted(self, ranks: Iterable[int]) -> list[Request]:
        """Return what is to be asked for, so that bins near ranks are fine enough."""
        aims = [self._exponent(rank) for rank in ranks]
        while True:
            self._look_around(aims)
            rough = sorted({at for aim in aims for at in self._rough(aim)})
            inside = [at for at in rough if self._inside(at)]
            if not inside:
                return self._requests(rough[:AT_A_TIME])
            self._cut_inside(inside, aims)

    def request(self, request: Request) -> Request:
        """Return what is wanted as it is asked for."""
        return request

    def learn(self, answers: Iterable[tuple[Request, Integers]]) -> None:
        """Part bins as histograms tell."""
        self._splice([self._learnt(request, weights) for request, weights in answers])

    def settle(self, ranks: Sequence[int]) -> None:
        """Ask for what is still wanted."""
        while wanted := self.wanted(ranks):
            self.learn([(each, asked(self._histogram, *each)) for each in wanted])

    def row(self, rank: int, cuts: Iterable[int]) -> Row:
        """Return the stretches seen from a rank; further places may be where one begins."""
        aim = self._exponent(rank)
        marks = self._around(aim)
        long = self._long(marks)
        ends = [0, self.size, *self._nearest(aim), *map(self._at, cuts)]
        marked = np.searchsorted(self._lower, marks)
        starts: Int64s = np.unique(np.concatenate([ends, marked, long, long + 1]))
        places = self._cuts[starts].tolist()
        sizes = [high - low for low, high in pairwise(places)]
        more = as_exponents([logarithm_above(size) for size in sizes])
        least, most = self._lower[starts[:-1]], self._upper[starts[1:] - 1]
        return Row(starts, places[:-1], sizes, least, most, more)

    def around(self, place: int) -> tuple[int, int]:
        """Return the first place of a place's bin, and the one after its last."""
        at = self._at(place)
        return self._cuts[at], self._cuts[at + 1]

    def bounds(self, place: int) -> tuple[int, int]:
        """Return around the weight below a place, as far as it is known."""
        at = self._at(place)
        return int(self._least[at]), int(self._most[at])

    def below(self, place: int) -> int:
        """Return the weight below a place; ask for it where it is not known."""
        while True:
            at = self._at(place)
            if self._least[at] == self._most[at]:
                return int(self._least[at])
            if self._inside(at):
                below, weight = self._cell(at)
                within = place & (1 << self._spread) - 1
                return below + weight_within(weight, within, self._spread)
            self._ask(at)

    def look(self, place: int, parts: int) -> list[int]:
        """Part the bin in which a place is, into so many parts if all is known; give cuts."""
        at, before = self._at(place), self.size
        if self._least[at] == self._most[at]:
            self._splice([self._evenly(at, parts)])
        elif self._inside(at):
            self._cut_inside([at], ())
        else:
            self._ask(at)
        cuts: list[int] = self._cuts[at + 1 : at + 1 + self.size - before].tolist()
        return cuts

    def _evenly(self, at: int, parts: int) -> Spliced:
        low, high = self._cuts[at], self._cuts[at + 1]
        cuts = sorted({low + (high - low) * part // parts for part in range(parts)})
        same = self._least[at : at + 1].repeat(len(cuts))
        return at, np.array(cuts, dtype=object), same, same

    def _ask(self, at: int) -> None:
        (request,) = self._requests([at], LANDING)
        self.learn([(request, asked(self._histogram, *request))])

    def _at(self, place: int) -> int:
        return bisect_right(self._cuts, place) - 1

    def _exponent(self, rank: int) -> int:
        return self.scale.floor(Fraction(rank))

    def _exponents(self, least: Integers, most: Integers) -> tuple[Integers, Integers]:
        """Return bins the least and the largest exponent of the weight below their places."""
        scale = self.scale
        product = (self.total >> scale.coarse) * scale.factor
        if product >= NARROW or scale.shift - scale.coarse >= DEEP:
            least, most = least.astype(object), most.astype(object)
        lower, upper = scale.below(least), scale.above(most)
        # Where they are wide, targets can pass 64 bits though these do not.
        kind: npt.DTypeLike = np.int64 if self.narrow else object
        return lower.astype(kind), upper.astype(kind)

    def _around(self, aim: int) -> Integers:
        """Return the marks to both sides of an aim."""
        return np.concatenate([aim - self._marks[:0:-1], aim + self._marks])

    def _long(self, marks: Integers) -> Int64s:
        """Return the bins that reach over two marks."""
        bins = np.searchsorted(self._lower, marks[:-1], "right") - 1
        over = (bins >= 0) & (self._upper[bins] > marks[1:])
        over &= self._least[bins] != self._most[bins]
        return np.unique(bins[over]).astype(np.int64)

    def _rough(self, aim: int) -> list[int]:
        """Give the bins that are too coarse for an aim, unless few of its places are there."""
        long = self._long(self._around(aim)).tolist()
        whole, harm = self._whole(aim), dict[int, int]()
        for at in long:  # its places, doubled as often as their weights are apart
            apart = int(self._upper[at] - self._lower[at]) >> POINT
            places = int(self._cuts[at + 1] - self._cuts[at])
            harm[at] = places << SHIFT + min(apart, FARTHEST)
        if FEW * sum(harm.values()) <= whole:
            return []
        return [at for at, share in harm.items() if FEWER * share > whole]

    def _whole(self, aim: int) -> int:
        """Count the places near an aim, halved as often as they are far from it."""
        first, last = np.searchsorted(self._lower, [aim - NEAR, aim + NEAR]).tolist()
        whole = 1
        for at in range(max(0, first - 1), last):
            off = max(0, int(self._lower[at]) - aim, aim - int(self._upper[at])) >> POINT
            whole += int(self._cuts[at + 1] - self._cuts[at]) << SHIFT >> off
        return whole

    def _look_around(self, aims: Sequence[int]) -> None:
        """Find how far lists may stray at all: places there are more, and steps do not pay."""
        rare = min(self._whole(aim) >> SHIFT for aim in aims) or 1
        times = (int(self._cuts[-1]) // rare + 1).bit_length()
        # Twice as far at a time, so that what is learnt seldom leaves single bins to ask for.
        far = 1 << ((len(aims) * times >> 1) + SPARE).bit_length()
        if far != self._far:
            self._far = far
            end = self.scale.floor(Fraction(self.total)) + 1
            self._marks = _marks(end, len(aims) + 1, far << POINT)

    def _nearest(self, aim: int) -> range:
        """Give the bins around an aim that stand alone where one row is a step that counts."""
        at = int(np.searchsorted(self._lower, aim))
        first, last = max(0, at - ALONE), min(self.size - 1, at + ALONE)
        steep = self._upper[last] - self._lower[first] > NEAR
        return range(first, last + 1) if steep else range(0)

    def _inside(self, at: int) -> bool:
        return bool(self._cuts[at + 1] - self._cuts[at] <= 1 << self._spread)

    def _requests(self, bins: Sequence[int], digits: int | None = None) -> list[Request]:
        if digits is None:
            digits = next(digits for most, digits in FINER if len(bins) <= most)
        spans = ([int(cut) >> self._spread for cut in self._cuts[at : at + 2]] for at in bins)
        return [(low, high, bin_width(high - low, 1 << digits)) for low, high in spans]

    def _cell(self, at: int) -> tuple[int, int]:
        """Return the weight below the cell of which a bin is a part, and that in it."""
        cell = self._cuts[at] >> self._spread
        if cell not in self._cells:
            below = int(self._least[at])
            self._cells[cell] = below, int(self._most[at]) - below
        return self._cells[cell]

    def _cut_inside(self, bins: Sequence[int], aims: Iterable[int]) -> None:
        """Cut bins within cells where the weight below passes the marks around aims."""
        marks = [self._around(aim) for aim in aims]
        targets = [self._targets(at, marks) for at in bins]
        asked_of = [
            (weight, rank - below)
            for (below, weight), ranks in zip(map(self._cell, bins), targets, strict=True)
            for rank in ranks
        ]
        passed = iter(passing(asked_of, self._spread))
        pairs = zip(bins, targets, strict=True)
        self._splice([self._cut(at, [*islice(passed, len(ranks))]) for at, ranks in pairs])

    def _targets(self, at: int, marks: Sequence[Integers]) -> list[int]:
        """Return ranks that the weight below passes within a bin."""
        low, high = int(self._least[at]), int(self._most[at])
        lower, upper = self._lower[at], self._upper[at]
        found = {low + high + 1 >> 1}
        for of_aim in marks:
            start, end = np.searchsorted(of_aim, [lower, upper])
            found |= {self.scale.first(int(mark)) for mark in of_aim[start:end]}
        return sorted(rank for rank in found if low < rank <= high)

    def _cut(self, at: int, passed: Sequence[tuple[int, int, int]]) -> Spliced:
        """Cut a bin behind places, each with the weight below it and up to it in the cell."""
        start, end = self._cuts[at], self._cuts[at + 1]
        first, (base, _) = start >> self._spread << self._spread, self._cell(at)
        starts, least, most = [start], [int(self._least[at])], list[int]()
        for place, before, after in passed:
            cut, known = first + place + 1, after
            if cut == end:
                cut, known = cut - 1, before
            if cut > starts[-1]:
                starts.append(cut)
                least.append(base + known)
                most.append(base + before)
        most.append(least[-1] if end - starts[-1] == 1 else int(self._most[at]))
        known_of = np.array([least, most], dtype=self._dtype)
        return at, np.array(starts, dtype=object), known_of[0], known_of[1]

    def _learnt(self, request: Request, weights: Integers) -> Spliced:
        at = self._at(request[0] << self._spread)
        below = int(self._least[at])
        if below + sum(weights.tolist()) != int(self._most[at]):
            raise internal("all histograms of a release read one snapshot of the data")
        return at, *self._parted(request, below, weights)

    def _splice(self, pieces: Iterable[Spliced]) -> None:
        """Put bins in the place of others."""
        columns = [self._cuts], [self._least], [self._most], [self._lower], [self._upper]
        done = 0
        for at, starts, least, most in sorted(pieces, key=lambda piece: piece[0]):
            new = starts, least, most, *self._exponents(least, most)
            for column, bins in zip(columns, new, strict=True):
                column[-1:] = [column[-1][: at - done], bins, column[-1][at + 1 - done :]]
            done = at + 1
        joined = map(np.concatenate, columns)
        self._cuts, self._least, self._most, self._lower, self._upper = joined

    def _parted(
        self, request: Request, below: int, weights: Integers
    ) -> tuple[Integers, Integers, Integers]:
        """Return the bins of a histogram; empty ones in a row are one."""
        low, _, width = request
        # Sums of 64 bits cannot wrap here: all weights together were shown to fit.
        held = weights.astype(self._dtype)
        sums, filled = held.cumsum() + below, (held != 0).astype(np.bool_)
        begins = filled.copy()
        begins[1:] |= filled[:-1]
        begins[0] = True
        kept = np.flatnonzero(begins)
        starts = (low + kept * width).astype(object) << self._spread
        before = (sums - held)[kept]
        single = width << self._spread == 1
        return starts, before, before if single else sums[kept]


def _marks(end: int, parts: int, far: int) -> Integers:
    """Return distances from an aim, up to an end, between which stretches lie.

    Near the aim they are a grain apart; farther away, in proportion, so that what a list gains
    by how long its stretches are stays below what it loses by being there.
    """
    marks = [0]
    grain = LOOSE // parts
    while marks[-1] < end:
        last = marks[-1]
        marks.append(last + max(grain, last // parts if last < far else 3 * last))
    return as_exponents(marks)
