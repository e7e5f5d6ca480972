"""Quantiles one by one, to be compared with the defaults: smoothed, noisy, or independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, product
from math import prod
from typing import ClassVar

from dpquery.core.events import BoundedRange, Composed, Event
from dpquery.core.privacy import Loss
from dpquery.mechanisms.base import AdditiveNoise, Distance
from dpquery.mechanisms.exponential import exponential_law
from dpquery.mechanisms.quantiles.grid import GridQuantile
from dpquery.mechanisms.quantiles.histogram_tree import (
    HistogramTree,
    Weights,
    around,
    as_integers,
    asked,
    bin_width,
    in_bins,
)
from dpquery.mechanisms.quantiles.ranks import (
    Errors,
    OneRank,
    RankList,
    each_of,
    require_bins,
    require_orders,
)
from dpquery.mechanisms.quantiles.rejection import ATTEMPTS, DEEPEST, Exponents
from dpquery.mechanisms.randomness import Randomness, broken
from dpquery.mechanisms.samplers import Int64s, shrunk_coin, tail_bound


@dataclass(frozen=True, slots=True)
class SmoothQuantile(OneRank):
    """Draws a cell, the likelier the nearer in rank is the best within `smooth` of it.

    Claim:
        Let the grid be parted into ranges of `width` cells, t(r) be the score of `GridQuantile`
        of a range r on the grid of ranges, and s(g) the least t of a range at most `reach`
        ranges from that of cell g. If the scores t of two data sets differ by at most d, their
        outputs are (2 rate d, 0)-indistinguishable.

    Assumes:
        The histogram shows weights that are integers; the integers of `Randomness` are uniform
        and independent; order, rate, cells, smooth and leaves do not depend on the rows.

    Proof:
        The least of several numbers moves by no more than the one of them that moves most: the
        scores s differ by at most d too. P[g] = exp(-rate s(g)) / Z, and both factors change by
        at most exp(rate d), the second alike for all cells, as in `GridQuantile`.

    Sampling:
        Exact, by rejection: a cell is proposed with a power of two that is at least its weight
        exp(-rate s), and kept with a certified coin. One histogram is asked for, always the
        same.

    Rounding:
        Order and rate are Fractions and the loss is exact; no step leaves exactness. `smooth`
        is rounded up to whole ranges.

    Utility:
        Up to `smooth` cells from the value of the right rank, all cells are equally likely:
        the price of not missing a value that many rows share, which `GridQuantile` finds
        without it. On 100,000 rows at epsilon 1 that is 13 to 102 rows for a range of 2.4e-4 of
        the grid, against 1.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    smooth: int = 0
    """In cells."""
    bins: int = 1 << 13
    """The most ranges there are: a power of two."""

    name: ClassVar[str] = "inverse_sensitivity"

    def __post_init__(self) -> None:
        OneRank.__post_init__(self)
        if self.smooth < 0:
            raise ValueError("a distance is not below zero")
        require_bins(self.bins)

    @property
    def width(self) -> int:
        """How many cells a range has: a power of two."""
        return bin_width(self.cells, self.bins)

    @property
    def reach(self) -> int:
        """Over how many ranges to either side the best one counts."""
        return -(-self.smooth // self.width)

    def release(self, histogram: Weights, randomness: Randomness) -> int:
        """Draw one cell."""
        weights = asked(histogram, 0, self.cells, self.width).tolist()
        scores, rate = self._scores(weights), self.rate * Fraction(1, self.order.denominator)
        exponents = Exponents.of(rate)(as_integers(scores))
        for _ in range(ATTEMPTS):
            cell = self._proposed(exponents, randomness)
            place = cell // self.width
            if shrunk_coin(rate * scores[place], int(exponents[place]), randomness):
                return cell
        raise broken()

    def _proposed(self, exponents: Int64s, randomness: Randomness) -> int:
        """Draw a cell with probability in proportion to 2^-exponent."""
        masses: list[int] = [1 << DEEPEST - e for e in exponents.tolist()]
        last = self.cells - self.width * (len(masses) - 1)
        total = self.width * sum(masses[:-1]) + last * masses[-1]
        below = randomness.below(total)
        for place, mass in enumerate(masses):
            size = last if place == len(masses) - 1 else self.width
            if below < size * mass:
                return self.width * place + below // mass
            below -= size * mass
        raise broken()

    def _scores(self, weights: Sequence[int]) -> list[int]:
        """Return s of each range, times the order's denominator.

        Scores fall up to the range that covers the rank and rise behind it, so the least of
        those in reach is at one of both ends, or zero.
        """
        edges, den, n = [0, *accumulate(weights)], self.order.denominator, len(weights)
        target = self.order.numerator * edges[-1]
        starts = (den * edges[max(0, r - self.reach)] for r in range(n))
        ends = (den * edges[min(n, r + self.reach + 1)] for r in range(n))
        pairs = zip(starts, ends, strict=True)
        return [max(0, start - target, target - end) for start, end in pairs]

    def rank_interval(self, confidence: Fraction) -> int:
        """Return a weight r so that a range in reach is at most r off as often as stated."""
        return tail_bound(self.cells, self.rate, confidence)

    def pmf(self, weights: Sequence[int]) -> list[float]:
        """Return the probability of each cell of a small grid, for tests."""
        scores = self._scores(in_bins(weights, self.width))
        of_cells = [scores[cell // self.width] for cell in range(self.cells)]
        return exponential_law(self.rate / self.order.denominator, of_cells)


@dataclass(frozen=True, slots=True)
class NoisyQuantile:
    """Adds noise to the exact quantile, and clamps the sum: to be shown, not to be used.

    Claim:
        The outputs of any two data sets at all, neighbours or not, are indistinguishable as
        `noise` says of exact values that differ by cells - 1 (and by 1, where there is one
        cell).

    Assumes:
        All histograms of one release show the same weights; order, cells and noise do not
        depend on the rows.

    Proof:
        The exact quantile is a cell, from 0 to cells - 1, for every data set: two of them
        differ by cells - 1 at most, in either norm. Clamping follows from what was released.

    Sampling:
        Exact, as the noise is. Which histograms are asked for depends on the data.

    Rounding:
        As the noise.

    Utility:
        The error is that of the noise, about (cells - 1) / epsilon however many rows there are:
        of a median at epsilon 1, the range of all values. One row at the boundary can move a
        quantile as far, so nothing less is safe; `GridQuantile` is noisy in ranks instead.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    order: Fraction
    cells: int
    noise: AdditiveNoise
    max_weight: int
    """A public bound on the weight of all rows."""
    bins: int = 1 << 13
    """The most bins that one histogram has: a power of two."""

    name: ClassVar[str] = "noisy"
    weight_linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_orders((self.order,), self.cells)

    @property
    def sensitivity(self) -> int:
        """How far apart two exact quantiles can be; 1 where all are one cell."""
        return max(1, self.cells - 1)

    def loss(self, distance: Distance = 0) -> Loss:
        """Return the loss, which does not depend on how far the weights move."""
        return self.noise.loss(self.sensitivity)

    def event(self, distance: Distance = 0) -> Event:
        """State the loss for the ledger."""
        return self.noise.event(self.sensitivity)

    def release(self, histogram: Weights, randomness: Randomness) -> int:
        """Return a noisy cell."""
        (noisy,) = self.noise.release([self.exact(histogram)], randomness)
        return min(max(noisy, 0), self.cells - 1)

    def exact(self, histogram: Weights) -> int:
        """Find the first cell up to which an order's share of the weight lies; private."""
        tree = HistogramTree(histogram, self.cells, self.max_weight, self.bins, 1 << 15)
        table, target = tree.tables[0], self.order * tree.total
        while True:
            up_to = [int(edge) for edge in table.edges[1:]]
            place = next(place for place, weight in enumerate(up_to) if weight >= target)
            start, end = table.span(place)
            if end - start == 1:
                return start
            table = tree.refine(table, place)

    def pmf(self, exact: int, cell: int) -> float:
        """Return the probability of a cell inside the grid, or below its ends, for tests."""
        return self.noise.pmf(cell - exact)


@dataclass(frozen=True, slots=True)
class IndependentQuantiles(RankList):
    """Draws a cell for each of several orders as `GridQuantile` does, and sorts them.

    Claim:
        If for each order i the scores of two data sets differ by ranges_i d at most in each
        cell, their outputs are (rate d, 0)-indistinguishable: for every list v of cells,
        P[release(a) = v] <= exp(rate d) * P[release(b) = v].

    Assumes:
        As `GridQuantile`; orders and ranges do not depend on the rows.

    Proof:
        Order i is drawn at the rate rate / (2 m ranges_i), m being the number of orders: by the
        claim of `GridQuantile` it loses 2 ranges_i d times that, which is rate d / m, as a
        range. The draws are independent, so the m losses add up, and sorting follows from what
        was drawn.

    Sampling:
        Exact, as one quantile on a grid is; all draws share one tree.

    Rounding:
        Orders, ranges and rate are Fractions and the loss is exact; no step leaves exactness.
        `rank_interval` rounds outwards.

    Utility:
        Each draw errs m times as far as if it were the only one: nine deciles of 100,000 rows
        at epsilon 1 are 12 rows off, and 99 percentiles 146 rows, where the recursion is off by
        5 and 13. Better than it for two orders at most, or with few rows and a small epsilon.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    ranges: tuple[Fraction, ...]
    """How far one unit of distance moves the scores of each order."""
    bins: int = 1 << 13
    """The most bins that one histogram has: a power of two."""
    held: int = 1 << 15
    """The most bins that are kept from one attempt to the next."""

    name: ClassVar[str] = "independent"

    def __post_init__(self) -> None:
        RankList.__post_init__(self)
        if len(self.ranges) != len(self.orders) or min(self.ranges) <= 0:
            raise ValueError("the scores of every order have a range above zero")
        require_bins(self.bins)

    @classmethod
    def calibrated(
        cls,
        orders: Sequence[Fraction],
        cells: int,
        max_weight: int,
        ranges: Sequence[Fraction],
        distance: Distance,
        epsilon: Fraction,
    ) -> IndependentQuantiles:
        """Return the rate that loses exactly epsilon at a distance above zero."""
        rate = epsilon / Fraction(distance)
        return cls(tuple(orders), cells, rate, max_weight, tuple(ranges))

    @property
    def draws(self) -> tuple[GridQuantile, ...]:
        """One mechanism for each order."""
        rates = (self.rate * Fraction(1, 2 * len(self.orders) * r) for r in self.ranges)
        return tuple(
            GridQuantile(order, self.cells, rate, self.max_weight, self.bins, self.held)
            for order, rate in zip(self.orders, rates, strict=True)
        )

    @property
    def widths(self) -> list[Fraction]:
        """How widely each draw errs, in weight."""
        return [Fraction(1, draw.rate) for draw in self.draws]

    @property
    def errors(self) -> Errors:
        """The error of each draw, where rows are even."""
        return tuple((width,) for width in self.widths)

    def event(self, distance: Distance) -> Composed:
        """State the loss of each draw for the ledger."""
        each = self.loss(distance).epsilon * Fraction(1, len(self.orders))
        return Composed((BoundedRange(each),) * len(self.orders))

    def release(self, histogram: Weights, randomness: Randomness) -> list[int]:
        """Draw a cell for each order, and sort them."""
        return self.draw(self.tree(histogram), randomness)

    def tree(self, histogram: Weights) -> HistogramTree:
        """Ask for the whole grid."""
        return self.draws[0].tree(histogram)

    def near(self, tree: HistogramTree) -> list[int]:
        """Return the ranks where draws will look."""
        return around([(draw.order, draw.rate) for draw in self.draws], tree.total)

    def draw(self, tree: HistogramTree, randomness: Randomness) -> list[int]:
        """Draw the cells from such a tree."""
        return sorted(draw.draw(tree, randomness) for draw in self.draws)

    def rank_interval(self, confidence: Fraction) -> int:
        """Return a weight r so that all cells are at most r off as often as stated.

        Each draw misses its own bound with probability missed / orders at most, and sorting
        takes the farthest of them no farther: it pairs low with low, and high with high.
        """
        each = each_of(len(self.orders), confidence)
        return max(draw.rank_interval(each) for draw in self.draws)

    def ranks_off(self, confidence: Fraction) -> tuple[int, bool]:
        """Return `rank_interval`, which is proven."""
        return self.rank_interval(confidence), True

    def pmf(self, weights: Sequence[int]) -> dict[tuple[int, ...], float]:
        """Return the probability of each list of cells of a small grid, for tests."""
        laws = [draw.pmf(weights) for draw in self.draws]
        law: dict[tuple[int, ...], float] = {}
        for cells in product(range(self.cells), repeat=len(laws)):
            chance = prod(of[cell] for of, cell in zip(laws, cells, strict=True))
            key = tuple(sorted(cells))
            law[key] = law.get(key, 0) + chance
        return law
