"""Several quantiles drawn as one list, the likelier the nearer each part is to its share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations_with_replacement, pairwise
from typing import ClassVar, Self

from dpquery.mechanisms.base import Distance, RangeEvent
from dpquery.mechanisms.exponential import exponential_law
from dpquery.mechanisms.quantiles.base import (
    SPREAD,
    Errors,
    RankList,
    errors_of_parts,
    pmf_of_cells,
    require_bins,
)
from dpquery.mechanisms.quantiles.sampling.exact_histograms import (
    HistogramTree,
    Weights,
    bin_width,
    in_bins,
    on_places,
)
from dpquery.mechanisms.quantiles.sampling.joint_paths import JointPaths, shares_of
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.samplers import Integers, tail_bound

ZERO = Fraction(0)


def joint_move(orders: Sequence[Fraction], *, substitution: bool, grouped: bool) -> Fraction:
    """Return how far a unit of total weight 1 moves scores, over all groups together.

    See the proof of `JointQuantiles`. Where a unit is replaced, it leaves one part and enters
    another; in two groups each of these moves the total of its group as well.

    >>> thirds = (Fraction(1, 3), Fraction(2, 3))
    >>> joint_move(thirds, substitution=False, grouped=True)
    Fraction(4, 3)
    >>> joint_move(thirds, substitution=True, grouped=True)
    Fraction(8, 3)
    """
    single = 2 * (1 - min(shares_of(orders)))
    if not substitution:
        return single
    return 2 * single if grouped else Fraction(2)


@dataclass(frozen=True, slots=True)
class _Joint(RangeEvent, RankList):
    """An exponential law of lists."""

    move: Fraction
    """How far a unit of weight moves the score of a list."""
    bins: int
    """The most bins that one histogram has: a power of two."""

    MOST_BINS: ClassVar[int]

    def __post_init__(self) -> None:
        RankList.__post_init__(self)
        if self.move <= 0:
            raise ValueError("a move is above zero")
        require_bins(self.bins)

    @classmethod
    def calibrated(
        cls,
        orders: Sequence[Fraction],
        cells: int,
        max_weight: int,
        move: Fraction,
        distance: Distance,
        epsilon: Fraction,
    ) -> Self:
        """Return the rate that loses exactly epsilon at a distance above zero."""
        rate = epsilon / Fraction(distance)
        return cls(tuple(orders), cells, rate, max_weight, move, cls.MOST_BINS)

    @property
    def slope(self) -> Fraction:
        """How steeply the law falls, per unit of the score."""
        return self.rate * Fraction(1, 2 * self.move)

    @property
    def widths(self) -> list[Fraction]:
        """How widely each order errs, in weight: off by r, it adds 2 r to the score."""
        return [Fraction(1, 2 * self.slope)]

    @property
    def errors(self) -> Errors:
        """The errors of each order, where rows are even."""
        return errors_of_parts(self.orders, self.slope)

    def _off(self, places: int, heaviest: int, confidence: Fraction) -> int:
        """Return how far off the ranks are, in weight, so often, if no place weighs more.

        P[score > least + g] <= lists exp(-slope g), and an order that is off by r alone makes a
        score of 2 r. The least score is (m + 1) heaviest at most: that of the places in which
        the orders lie.
        """
        count = len(self.orders)
        lists = math.comb(places + count - 1, count)
        return -(-(tail_bound(lists, self.slope, confidence) + (count + 1) * heaviest) // 2)

    def _law(self, weights: Sequence[int]) -> dict[tuple[int, ...], float]:
        """Return the probability of each list of places, for tests."""
        edges = [0, *accumulate(weights)]
        shares = [share * edges[-1] for share in shares_of(self.orders)]
        lists = [*combinations_with_replacement(range(len(weights)), len(self.orders))]
        cuts = (pairwise([0, *(edges[at] for at in places), edges[-1]]) for places in lists)
        scores = [
            sum((abs(b - a - share) for (a, b), share in zip(of, shares, strict=True)), ZERO)
            for of in cuts
        ]
        return dict(zip(lists, exponential_law(self.slope, scores), strict=True))


@dataclass(frozen=True, slots=True)
class JointQuantiles(_Joint):
    """Draws a list of cells that rise or stay, in proportion to exp(-slope score).

    Claim:
        Let the cells o_1 to o_m of a list part the rows into m + 1 parts, those of o_i being in
        the part above it. A part's share is the difference of the orders around it, times the
        weight of all rows; the score is the sum of how far the weight of each part is from its
        share. If one unit of weight w is added, taken away or replaced, and moves the score of
        no list by more than move w, outputs are (rate w, 0)-indistinguishable: for every list
        v, P[release(a) = v] <= exp(rate w) * P[release(b) = v].

    Assumes:
        The histogram shows weights, integers from 0 that add up to max_weight or less; the
        integers of `Randomness` are uniform and independent; orders, rate, move, cells, bins
        and max_weight do not depend on the rows; move is `joint_move` of the orders, or more.

    Proof:
        With slope = rate / (2 move), P[v] = exp(-slope score(v)) / Z. Each numerator changes by
        a factor between exp(-slope move w) and exp(slope move w), and so does Z: exp(rate w).
        The factor of Z is the same for all lists, so the logarithms of the ratios lie in a
        range of 2 slope move w = rate w (`BoundedRange`).
        Added weight w goes to one part, whose share is d of all: that part comes nearer or goes
        away by (1 - d) w at most, and the others by their own shares of w, which together are
        (1 - d) w. So scores move by 2 (1 - d) w at most, d being the smallest share; what is in
        several cells adds up. Replaced weight w leaves the total as it is, and two parts change
        by w at most: 2 w; where less of it comes than goes, the rest is taken away, at 2 (1 -
        d) or less. In two groups, a replaced unit is taken out of one and put into the other.

    Sampling:
        Exact, by rejection under sums that are known from above (`joint_paths.py`), over lists
        of the first cells of ranges. One histogram of `bins` ranges at most is asked for,
        always the same. About m^2 times as many terms are summed up for m orders at most; the
        time taken depends on data and coins.

    Rounding:
        Orders, rate and move are Fractions and the loss is exact; no step leaves exactness.
        Bounds are rounded upwards, which is always valid, and coins compare as many digits as
        they need.

    Utility:
        The law is that of Gillenwater and others 2021 over a public list of cells. On a column
        with no more values than `bins` it is as good as any up to about nine orders; a column
        with more has ranges, and answers fall on where these begin. A value that many rows
        share lies in one part as a whole, and parts miss their shares by as much: on salaries,
        of which a fifth are equal, by thousands of rows of 100,000 (see
        `SmoothedJointQuantiles`).

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    name: ClassVar[str] = "joint"
    MOST_BINS: ClassVar[int] = 1 << 11

    @property
    def width(self) -> int:
        """How many cells a range has: a power of two."""
        return bin_width(self.cells, self.bins)

    def release(self, histogram: Weights, randomness: Randomness) -> list[int]:
        """Draw a cell for each order; they rise or stay."""
        width, ranges = self.width, -(-self.cells // self.width)

        def of_ranges(low: int, high: int, count: int, /) -> Sequence[int] | Integers:
            return histogram(low * width, min(high * width, self.cells), count * width)

        tree = HistogramTree(of_ranges, ranges, self.max_weight, self.bins, self.bins)
        drawn = JointPaths(tree, self.orders, self.slope).draw(randomness)
        return [place * width for place in drawn]

    def ranks_off(self, confidence: Fraction) -> tuple[int, bool]:
        """Return about how far off the ranks are, in weight, so often.

        It is not proven: how much weight a range has is up to the data.
        """
        return self._off(-(-self.cells // self.width), 0, confidence), False

    def pmf(self, weights: Sequence[int]) -> dict[tuple[int, ...], float]:
        """Return the probability of each list of cells of a small grid, for tests."""
        law = self._law(in_bins(weights, self.width))
        return {tuple(self.width * place for place in of): law[of] for of in law}


@dataclass(frozen=True, slots=True)
class SmoothedJointQuantiles(_Joint):
    """Draws as `JointQuantiles` does, from places over which the weight of each cell is spread.

    Claim:
        As `JointQuantiles`.

    Assumes:
        As `JointQuantiles`, for all histograms of one release, which show the same weights;
        spread does not depend on the rows.

    Proof:
        A weight of T in a cell is T units of weight 1 at places that depend on their numbers 0
        to T - 1 alone (`HistogramTree`): weight that is added or taken away moves none that is
        there. So a unit moves the weights of places by no more than those of cells, and the
        proof of `JointQuantiles` holds for lists of places. Cells follow from what was drawn.

    Sampling:
        Exact, as `JointQuantiles`. Places stand together in stretches, which are split, and
        asked about more finely, where trial walks go: how finely has no bearing on the law.
        Which histograms are asked for, and so the time taken, depends on data and coins.

    Rounding:
        As `JointQuantiles`. `ranks_off` rounds outwards.

    Utility:
        A value that many rows share is found: deciles of 100,000 salaries, of which a fifth are
        equal, are 3 to 4 rows off at epsilon 1, a little nearer than by the recursion, and take
        about a second.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    spread: int = SPREAD
    """Over how many binary digits of places the weight of a cell is spread."""

    name: ClassVar[str] = "smoothed_joint"
    MOST_BINS: ClassVar[int] = 1 << 13

    def __post_init__(self) -> None:
        _Joint.__post_init__(self)
        require_bins(self.bins, self.spread)

    def release(self, histogram: Weights, randomness: Randomness) -> list[int]:
        """Draw a cell for each order; they rise or stay."""
        tree = HistogramTree(
            histogram, self.cells, self.max_weight, self.bins, self.bins, self.spread
        )
        places = JointPaths(tree, self.orders, self.slope).draw(randomness)
        return [place >> self.spread for place in places]

    def ranks_off(self, confidence: Fraction) -> tuple[int, bool]:
        """Return how far off ranks are, in weight, so often; proven where cells are spread."""
        heaviest = -(-self.max_weight >> self.spread) if self.spread else 0
        return self._off(self.cells << self.spread, heaviest, confidence), self.spread > 0

    def pmf(self, weights: Sequence[int]) -> dict[tuple[int, ...], float]:
        """Return the probability of each list of cells of a small grid, for tests."""
        law = self._law(on_places(weights, self.spread))
        return pmf_of_cells(law.items(), self.spread)
