"""Lists of places that rise, drawn by a law that falls with what each share of weight is off.

A list has the weight exp(-slope score): the score is the sum, over the parts into which its
places cut the grid, of how far the weight of a part is from its share. So the weight of a list
is a product over its steps, and sums over all lists follow step by step. Integers only (I8):
sums are known from above, which is all that is needed (see `JointPaths.draw`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import comb
from typing import TypeVar

from dpquery.mechanisms.quantiles.sampling.cdf_bounds import Scale, Stretch, Terrain
from dpquery.mechanisms.quantiles.sampling.directed_rounding import (
    MANY,
    NOTHING,
    POINT,
    Above,
    ceiled,
    halved,
    loosened,
    plus,
    times,
)
from dpquery.mechanisms.quantiles.sampling.exact_histograms import HistogramTree
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken
from dpquery.mechanisms.samplers import likely_coin

Key = TypeVar("Key")
Stretches = Sequence[Stretch]

ATTEMPTS = 32
"""After so many that failed, stretches are taken half as long."""
TURNS = 48
"""After some of them all stretches are told apart, and half of all attempts succeed."""
TRIALS = 16
"""So many walks show where stretches are too long."""
OUTSIDE = 8
"""One in so many is left out at either end."""
MOST_LOOSE = 3
"""One in so many may be loose."""
LOOSE = 4 << POINT
"""Above this, the widths of a walk's stretches are too much in all."""
UNLIKELY = 512 << POINT
"""After so many halvings, it does not matter how many more places are in one stretch."""


def shares_of(orders: Sequence[Fraction]) -> list[Fraction]:
    """Return the share of each part: below the first order, between any two, above the last."""
    return [high - low for low, high in pairwise([Fraction(0), *orders, Fraction(1)])]


class JointPaths:
    """One law of lists on a tree."""

    def __init__(
        self, tree: HistogramTree, orders: Sequence[Fraction], slope: Fraction
    ) -> None:
        self._slope, self._total = slope, tree.total
        self._shares = [share * tree.total for share in shares_of(orders)]
        self._terrain = Terrain(tree, Scale.of(slope))
        self._stretches = self._terrain.whole()

    def draw(self, randomness: Randomness) -> list[int]:
        """Draw one list.

        An attempt proposes a list o with a known probability q(o), and keeps it with exp(-slope
        score(o)) / (2 q(o) Z), where Z is above the sum over all lists. It thus ends with o
        with probability exp(-slope score(o)) / (2 Z): given that it succeeds, by the law,
        whatever is known from above, which may change from one attempt to the next by any rule
        that looks at the past alone.

        Raises:
            InternalError: DPQ902, the source looks broken.
        """
        loose = LOOSE
        for _ in range(TURNS):
            sums = self._settled(loose, randomness)
            for _ in range(ATTEMPTS):
                proposal = sums.proposed(randomness)
                if proposal is not None and self._kept(*proposal, randomness):
                    return proposal[0]
            loose = max(loose >> 1, 2 * len(self._shares))
        raise broken()

    def _settled(self, loose: int, randomness: Randomness) -> _Sums:
        """Split stretches where trial walks go, until few of these are loose."""
        scale = self._terrain.scale
        ends = scale.floor(Fraction(self._total)), -scale.floor(Fraction(-self._total))
        steps = [scale.floor(share) for share in self._shares]
        for _ in range(ROUNDS):
            sums = _Sums(self._stretches, steps, ends)
            found = [sums.walked(randomness) for _ in range(TRIALS)]
            paths = [walk.path for walk in found if walk is not None]
            widths = [sum(self._stretches[b].width for b in path) for path in paths]
            if MOST_LOOSE * sum(width > loose for width in widths) <= len(paths) > 0:
                return sums
            self._split(paths, loose // len(steps))
        raise broken()

    def _split(self, paths: Sequence[Sequence[int]], least: int) -> None:
        """Split what lies between where most lists have a place, for each of their places."""
        chosen: set[int] = set()
        for visited in map(sorted, zip(*paths, strict=True)):
            outside = len(visited) // OUTSIDE
            chosen.update(range(visited[outside], visited[-1 - outside] + 1))
        parted = []
        for b, stretch in enumerate(self._stretches):
            split = b in chosen and stretch.width > max(least, 1)
            parted += self._terrain.split(stretch) if split else [stretch]
        self._stretches = parted

    def _kept(self, places: Sequence[int], walk: _Walk, randomness: Randomness) -> bool:
        below = [self._terrain.weight_below(place) for place in places]
        parts = zip(pairwise([0, *below, self._total]), self._shares, strict=True)
        score = sum((abs(b - a - share) for (a, b), share in parts), Fraction(0))
        x = self._slope * score
        return likely_coin(x, walk.exponent, walk.over, walk.under, randomness)


@dataclass(slots=True)
class _Walk:
    """What a list goes through, and what its probability of being proposed is.

    2^exponent over / under is one over Z times that probability.
    """

    runs: list[tuple[int, int]]
    """Stretches, each with how many places are in it; the last ones first."""
    over: int
    under: int
    exponent: int

    @property
    def path(self) -> list[int]:
        """The stretch of each place."""
        return [b for b, count in reversed(self.runs) for _ in range(count)]

    def picked(
        self, whole: Above, parts: Iterable[tuple[Key, Above]], randomness: Randomness
    ) -> Key | None:
        """Pick a part of a sum with probability own / whole, or none with what is missing."""
        end, exponent = whole
        number = randomness.below(max(1, end))
        for key, part in parts:
            own = _rounded(part, exponent)
            if number < own:
                self.over *= end
                self.under *= own
                return key
            number -= own
        return None


def _rounded(part: Above, exponent: int) -> int:
    """Return a pair as a multiple of 2^exponent, rounded upwards."""
    a, x = part
    if x >= exponent:
        return a << x - exponent
    return (a >> min(exponent - x, MANY)) + 1 if a else 0


class _Sums:
    """From above: the sums over the first places of all lists, by where the last of them is.

    `entered[j][b]` is the sum over lists of j places before stretch b, with the step into b;
    `held[j][b]` that over lists of j places of which the last is in b.
    """

    def __init__(
        self, stretches: Sequence[Stretch], steps: Sequence[int], ends: tuple[int, int]
    ) -> None:
        """Sum up.

        Args:
            stretches: All places, in order.
            steps: The exponent of each part's share, rounded down.
            ends: Around the exponent of all weight.
        """
        self._on = on = stretches
        self._steps, self._ends = steps, ends
        first = (self._step((0, 0), self._span(b), 0) for b in range(len(on)))
        self.entered = [[halved(ceiled(1, 0), exponent) for exponent in first]]
        self.held: list[list[Above]] = [[]]
        for j in range(1, len(steps)):
            self.held.append([_sum(self._runs(j, b)) for b in range(len(on))])
            if j < len(steps) - 1:
                self.entered.append(_entered(on, self.held[j], steps[j]))
        self.whole = _sum(self._last())

    def walked(self, randomness: Randomness) -> _Walk | None:
        """Walk from the last place to the first, each step in proportion to what is known.

        Where the parts of a sum do not make up all of it, the walk is given up with what is
        missing.
        """
        walk = _Walk([], 1, self.whole[0], -self.whole[1])
        b, j = walk.picked(self.whole, self._last(), randomness), len(self._steps) - 1
        while b is not None and j:
            run = walk.picked(self.held[j][b], self._runs(j, b), randomness)
            if run is None:
                return None
            count, again = run
            walk.runs.append((b, count))
            j -= count
            if j and not again:
                b = walk.picked(self.entered[j][b], self._before(j, b), randomness)
        return None if b is None else walk

    def proposed(self, randomness: Randomness) -> tuple[list[int], _Walk] | None:
        """Draw a list that goes through a walk's stretches."""
        walk = self.walked(randomness)
        if walk is None:
            return None
        places: list[int] = []
        for b, count in walk.runs:
            rising = _rising(self._on[b].size, count, randomness)
            places[:0] = [self._on[b].low + place for place in rising]
            walk.over *= comb(self._on[b].size + count - 1, count)
        rises = all(low <= high for low, high in pairwise(places))
        return (places, walk) if rises else None

    def _last(self) -> Iterator[tuple[int, Above]]:
        """Return the sums over whole lists, by where their last place is."""
        j = len(self._steps) - 1
        for b in reversed(range(len(self._on))):
            yield b, halved(self.held[j][b], self._step(self._span(b), self._ends, j))

    def _runs(self, j: int, b: int) -> Iterator[tuple[tuple[int, bool], Above]]:
        """Return the parts of `held[j][b]`, by how many of the last places are in b.

        Where more of them are too unlikely to be told apart, those lists are one part, and need
        not rise.
        """
        size, width = self._on[b].size, self._on[b].width
        ways, exponent = 1, 0
        for count in range(1, j + 1):
            ways = ways * (size + count - 1) // count
            entered = times(self.entered[j - count][b], ways)
            yield (count, False), halved(entered, exponent)
            exponent += max(0, self._steps[j - count] - width)
            if exponent > UNLIKELY and count < j:
                yield (count, True), halved(times(self.held[j - count][b], ways), exponent)
                return

    def _before(self, j: int, b: int) -> Iterator[tuple[int, Above]]:
        """Return the parts of `entered[j][b]`, by the stretch that the step comes from."""
        after = self._span(b)
        for a in reversed(range(b)):
            yield a, halved(self.held[j][a], self._step(self._span(a), after, j))

    def _span(self, b: int) -> tuple[int, int]:
        return self._on[b].least, self._on[b].most

    def _step(self, start: tuple[int, int], end: tuple[int, int], part: int) -> int:
        """Give the least exponent of a step from any place of one stretch to any of another."""
        share = self._steps[part]
        return max(0, end[0] - start[1] - share - 1, share + start[0] - end[1])


def _rising(size: int, count: int, randomness: Randomness) -> list[int]:
    """Draw one of comb(size + count - 1, count) lists that rise or stay, each as likely.

    That is a set of count of so many numbers, drawn by Floyd's method.
    """
    chosen: set[int] = set()
    for end in range(size, size + count):
        number = randomness.below(end)
        chosen.add(end - 1 if number in chosen else number)
    return [number - at for at, number in enumerate(sorted(chosen))]


def _sum(parts: Iterable[tuple[object, Above]]) -> Above:
    total = NOTHING
    for _, part in parts:
        total = plus(total, part)
    return loosened(total)


def _entered(on: Stretches, held: Sequence[Above], share: int) -> list[Above]:
    """Give the sum of what enters each stretch from those before it, with the step's halvings.

    Seen from b, stretches a come in three kinds. From the first ones, even the shortest step is
    longer than the share: with b, all of them fall alike. From the last ones, even the longest
    step is shorter. Between them are those from which a step may be just right.
    """
    far, ends = _from_far(on, held, share)
    near, starts = _from_near(on, held, share)
    sums = []
    for b in range(len(on)):
        total = plus(far[b], near[b])
        for a in range(ends[b], min(starts[b], b)):
            total = plus(total, held[a])
        sums.append(loosened(total))
    return sums


def _from_far(
    on: Stretches, held: Sequence[Above], share: int
) -> tuple[list[Above], list[int]]:
    """Sum over the stretches that are too far before each; say where they end."""
    total, end, sums, ends = NOTHING, 0, [], []
    for b, least in enumerate(one.least for one in on):
        if b:
            total = halved(total, least - on[b - 1].least)
        while end < b and on[end].most + share + 1 <= least:
            total = plus(total, halved(held[end], least - on[end].most - share - 1))
            end += 1
        sums.append(total)
        ends.append(end)
    return sums, ends


def _from_near(
    on: Stretches, held: Sequence[Above], share: int
) -> tuple[list[Above], list[int]]:
    """Sum over the stretches that are too near before each; say where they start.

    They are a window whose two ends move upwards. Sums from each of its places to a fixed one,
    and from that one onwards, are all that is needed: nothing is ever subtracted.
    """
    start, middle, onwards = 0, 0, NOTHING
    until: dict[int, Above] = {}
    sums, starts = [], []
    for b, most in enumerate(one.most for one in on):
        if b:
            onwards = plus(onwards, halved(held[b - 1], on[b - 1].least - on[middle].least))
        while start < b and on[start].least + share < most:
            start += 1
        if start >= middle:
            middle, onwards, until = b, NOTHING, _sums_until(on, held, start, b)
        total = NOTHING
        if start < middle:
            total = halved(until[start], on[start].least + share - most)
        if middle < b:
            total = plus(total, halved(onwards, on[middle].least + share - most))
        sums.append(total)
        starts.append(start)
    return sums, starts


def _sums_until(on: Stretches, held: Sequence[Above], start: int, end: int) -> dict[int, Above]:
    """Sum from each of some stretches to the last of them."""
    sums, total = {}, NOTHING
    for a in range(end - 1, start - 1, -1):
        gap = on[a + 1].least - on[a].least if a + 1 < end else 0
        total = sums[a] = plus(held[a], halved(total, gap))
    return sums
