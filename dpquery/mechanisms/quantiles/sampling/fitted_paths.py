"""Lists of places and a total, drawn by how far the parts are from their shares of the total.

A list and a total have the weight exp(-slope score): the score is the sum, over the parts into
which the places cut the grid, of how far the weight of a part is from its share of the total.
`Sums` holds sums over lists and totals, from above, and walks in proportion to these;
`FittedPaths` draws lists under them. Integers only (I8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dpquery.mechanisms.quantiles.sampling.cdf_bounds import Outlook, Row
from dpquery.mechanisms.quantiles.sampling.directed_rounding import (
    FINE,
    NARROW_EXPONENT,
    POINT,
    added,
    as_exponents,
    logarithm_above,
    parts_of,
)
from dpquery.mechanisms.quantiles.sampling.joint_paths import shares_of
from dpquery.mechanisms.randomness import ROUNDS, Randomness, broken
from dpquery.mechanisms.samplers import Int64s, Integers, coin, likely_coin

DEEPEST = 1 << 57
"""Exponents of a step end here; so far off is also what would fall."""


@dataclass(frozen=True, slots=True)
class Block:
    """Totals from low to high, evenly spaced."""

    low: int
    high: int
    count: int


Ends = tuple[Integers, Integers]
"""Columns of exponents: the least of each, and the largest."""


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
    """Sums over the first places of all lists, by block of totals and by their last stretch.

    Each stands as an exponent: 2^-exponent is the sum or more.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        targets: Sequence[Ends],
        ends: tuple[int, int],
        blocks: Sequence[Block],
    ) -> None:
        """Sum up.

        Args:
            rows: The stretches of each order.
            targets: Around the exponent of each part's share, for each block of totals.
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
        """Return the parts of one sum, by the stretch that the step comes from."""
        before, row = self._rows[j - 1], self._rows[j]
        here = row.least[stretch : stretch + 1], row.most[stretch : stretch + 1]
        steps = _steps(self._targets[j], block, _span(before), here)[:, 0]
        steps[before.starts[:-1] >= row.starts[stretch + 1]] = DEEPEST
        steps += self._exponents[block][j - 1]
        return parts_of(steps, int(steps.min()))


def _span(row: Row) -> Ends:
    return row.least, row.most


def _steps(targets: Ends, number: int, start: Ends, end: Ends) -> Int64s:
    """Return the least exponent of a step, by where it starts and by where it ends."""
    # As arrays of one: numpy would take Python's integers for some of 64 bits.
    low, high = (of_blocks[number : number + 1] for of_blocks in targets)
    beyond = (end[0] - high)[None, :] - start[1][:, None]
    short = (start[0] + low)[:, None] - end[1][None, :]
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


CROWD = 12
"""So many proposals that fall are enough to tell why."""
ATTEMPTS = 96
"""After so many that failed, what they went through is looked at more closely."""
CUT = 8
"""Into how many parts bins are cut whose places fall."""
NEAR = 3
"""So many totals to either side of the true one are told apart; those behind are in blocks."""
LONGER = (3, 10)
"""Blocks end so many times as far away; the last one has all that is left."""
SPLIT = 4


def aims_of(orders: Sequence[Fraction], total: int) -> list[int]:
    """Return the rank of each order, about."""
    return [int(order * total) for order in orders]


@dataclass(frozen=True, slots=True)
class _Proposal:
    """A list and a total, of a known probability."""

    places: list[int]
    total: int
    walk: Walk

    @property
    def rises(self) -> bool:
        return all(low <= high for low, high in pairwise(self.places))


class FittedPaths:
    """One law of lists and totals; totals are multiples of a step."""

    def __init__(
        self,
        outlook: Outlook,
        orders: Sequence[Fraction],
        slope: Fraction,
        step: int,
        most: int,
    ) -> None:
        """Take the totals from 0, step by step, up to the first that is not below the most."""
        self._outlook, self._slope, self._step = outlook, slope, step
        self._shares, self._aims = shares_of(orders), aims_of(orders, outlook.total)
        self._blocks = list(_blocks(outlook.total // step, -(-most // step), step))
        self._cuts: list[set[int]] = [set() for _ in orders]

    def draw(self, randomness: Randomness) -> list[int]:
        """Draw one list.

        An attempt proposes a list o and a total t with a known probability q(o, t), and keeps
        them with exp(-slope score(o, t)) / (c q(o, t)), where c is twice the sum over all lists
        and totals, known from above. It thus ends with them with probability exp(-slope
        score(o, t)) / c: given that it succeeds, by the law, whatever is known from above,
        which may change from one attempt to the next by any rule that looks at the past alone.

        Raises:
            InternalError: DPQ902, the source looks broken.
        """
        for _ in range(ROUNDS):
            self._outlook.settle(self._aims)
            sums, failed = self._sums(), list[_Proposal]()
            while len(failed) < ATTEMPTS and not _crowded(failed):
                proposal = self._proposed(sums.walk(randomness), randomness)
                if proposal.rises and self._kept(proposal, randomness):
                    return proposal.places
                failed.append(proposal)
            self._look_closer(failed)
        raise broken()

    def _sums(self) -> Sums:
        outlook, blocks = self._outlook, self._blocks
        self._rows = [outlook.row(*of) for of in zip(self._aims, self._cuts, strict=True)]
        total = outlook.scale.floor(Fraction(outlook.total))
        targets = [self._targets(share) for share in self._shares]
        return Sums(self._rows, targets, (total, total + 1), blocks)

    def _targets(self, share: Fraction) -> Ends:
        """Return around what a share of each total is, if that is not more than all weight."""
        floor, end = self._outlook.scale.floor, NARROW_EXPONENT - 1
        low = [floor(block.low * share) for block in self._blocks]
        high = [floor(block.high * share) + 1 for block in self._blocks]
        if self._outlook.narrow:
            low, high = ([min(exponent, end) for exponent in each] for each in (low, high))
        return as_exponents(low), as_exponents(high)

    def _proposed(self, walk: Walk, randomness: Randomness) -> _Proposal:
        """Draw places and a total that a walk goes through, each as likely; places may fall."""
        places, block = list[int](), self._blocks[walk.block]
        for row, stretch in zip(self._rows, reversed(walk.stretches), strict=True):
            size = row.sizes[stretch]
            places.append(row.lows[stretch] + randomness.below(size))
            walk.over *= size
        walk.over *= block.count
        return _Proposal(places, block.low + self._step * randomness.below(block.count), walk)

    def _kept(self, proposal: _Proposal, randomness: Randomness) -> bool:
        """Keep it with its probability: with that by what is known, then with the rest."""
        bounds = [self._outlook.bounds(place) for place in proposal.places]
        least = self._score(bounds, proposal.total)
        walk = proposal.walk
        if not likely_coin(
            self._slope * least, walk.exponent, walk.over, walk.under, randomness
        ):
            return False
        if all(low == high for low, high in bounds):
            return True
        below = [self._outlook.below(place) for place in proposal.places]
        rest = self._score([(rank, rank) for rank in below], proposal.total) - least
        return coin(*(self._slope * rest).as_integer_ratio(), randomness)

    def _score(self, below: Sequence[tuple[int, int]], total: int) -> Fraction:
        """Return the least score of places, around the weights below which bounds are known."""
        whole = self._outlook.total
        cuts = pairwise([(0, 0), *below, (whole, whole)])
        score = Fraction(0)
        for (start, end), share in zip(cuts, self._shares, strict=True):
            target = share * total
            score += max(Fraction(0), end[0] - start[1] - target, target - end[1] + start[0])
        return score

    def _look_closer(self, failed: Sequence[_Proposal]) -> None:
        """Cut what keeps attempts from succeeding."""
        self._split_blocks({one.walk.block for one in failed})
        if _crowded(failed):
            self._part_falls([one for one in failed if not one.rises])
        else:
            self._part_stretches(failed)

    def _part_falls(self, falling: Sequence[_Proposal]) -> None:
        """Make stretches begin between places that fall."""
        spans = dict[tuple[int, int], set[int]]()
        for proposal in falling:
            for j, (one, other) in enumerate(pairwise(proposal.places)):
                if one > other:
                    span = self._outlook.around(one)
                    self._cuts[j].add(span[0])
                    self._cuts[j + 1].add(span[0])
                    if span[0] <= other:
                        spans.setdefault(span, set()).update((j, j + 1))
        for span, orders in spans.items():
            for cut in self._outlook.look(span[0], CUT):
                for j in orders:
                    self._cuts[j].add(cut)

    def _part_stretches(self, failed: Sequence[_Proposal]) -> None:
        """Tell bins apart from the stretches that they are in, and look at those not known."""
        for proposal in failed:
            stretches = reversed(proposal.walk.stretches)
            for row, cuts, place, stretch in zip(
                self._rows, self._cuts, proposal.places, stretches, strict=True
            ):
                if row.most[stretch] - row.least[stretch] > 2:
                    cuts |= set(self._outlook.around(place))
                    low, high = self._outlook.bounds(place)
                    if low < high:
                        self._outlook.look(place, CUT)

    def _split_blocks(self, numbers: set[int]) -> None:
        """Split the blocks of totals that attempts went through."""
        self._blocks = [
            part
            for number, block in enumerate(self._blocks)
            for part in (_split(block, self._step) if number in numbers else (block,))
        ]


def _crowded(failed: Sequence[_Proposal]) -> bool:
    """Return whether most proposals fall, of enough of them."""
    falls = sum(not one.rises for one in failed)
    return falls >= CROWD and 2 * falls > len(failed)


def _split(block: Block, step: int) -> Iterator[Block]:
    ends = sorted({block.count * part // SPLIT for part in range(SPLIT + 1)})
    for start, end in pairwise(ends):
        yield Block(block.low + start * step, block.low + (end - 1) * step, end - start)


def _blocks(true: int, last: int, step: int) -> Iterator[Block]:
    """Block totals: single ones near the true one, farther away ever more of them."""
    starts = {0, *range(max(0, true - NEAR), min(last, true + NEAR + 1) + 1)}
    for times in LONGER:
        starts |= {max(0, true - times * NEAR), min(last, true + times * NEAR)}
    for low, end in pairwise(sorted({*starts, last + 1})):
        yield Block(low * step, (end - 1) * step, end - low)
