"""Many quantiles, or a whole distribution: noisy counts of a tree of ranges, read off at once.

What is read off is computed in integers as well, so that it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpquery.core.privacy_loss import Loss
from dpquery.mechanisms.base import Distance, PureEvent
from dpquery.mechanisms.laplace import DiscreteLaplace
from dpquery.mechanisms.quantiles.base import require_orders
from dpquery.mechanisms.quantiles.sampling.exact_histograms import (
    Weights,
    asked,
    bin_width,
    in_bins,
)
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.samplers import Integers

BRANCHES = 16
"""Nodes under one node: the error of a distribution is least about here."""
POINT = 24
"""Binary digits after the point in means; what is cut off is far below the noise."""


@dataclass(frozen=True, slots=True)
class TreeQuantiles(PureEvent):
    """Adds noise to the counts of a tree of ranges, and reads quantiles from the sums.

    Claim:
        If the weights of two data sets differ by d in L1 norm over all cells, their outputs are
        (levels d / scale, 0)-indistinguishable: for every list v of cells, P[release(a) = v] <=
        exp(levels d / scale) * P[release(b) = v]. The same holds for the noisy tree itself.

    Assumes:
        The histogram shows weights that are integers; the integers of `Randomness` are uniform
        and independent; orders, scale, cells and leaves do not depend on the rows.

    Proof:
        Each level parts the cells, so its counts differ by d at most in L1 norm, and those of
        all levels by levels d. With the noise of `DiscreteLaplace` on each of them, the noisy
        counts lose levels d / scale by its claim. All else follows from the noisy counts.

    Sampling:
        Exact, as the noise is. One histogram of `leaves` ranges at most is asked for, always
        the same: neither it nor the time depends on the data.

    Rounding:
        The scale is a Fraction and the loss exact; no step leaves exactness. What is read off
        is cut to multiples of 2^-24 of a weight. Quantiles within a leaf of several cells are
        interpolated, and are cells of the grid.

    Utility:
        The error does not depend on how many orders there are: about 16 rows at epsilon 1 on
        65,536 leaves, and less on fewer. The recursion is better up to about 64 orders. The
        counts of a node and of those under it are made to agree by least squares (Hay and
        others 2010), and the sums to rise. A column of more cells than leaves has ranges for
        leaves; what is finer is not seen.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    orders: tuple[Fraction, ...]
    """Rising."""
    cells: int
    scale: Fraction
    """Of the noise in each count."""
    leaves: int = 1 << 16
    """The most ranges of the finest level: a power of two."""

    name: ClassVar[str] = "tree"
    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_orders(self.orders, self.cells)
        if self.scale <= 0:
            raise ValueError("a scale is above zero")
        if self.leaves < 2 or self.leaves.bit_count() > 1:
            raise ValueError("the number of leaves is a power of two")

    @classmethod
    def calibrated(
        cls,
        orders: Sequence[Fraction],
        cells: int,
        distance: Distance,
        epsilon: Fraction,
        leaves: int = 1 << 16,
    ) -> TreeQuantiles:
        """Return the scale that loses exactly epsilon at a distance above zero."""
        levels = len(cls(tuple(orders), cells, Fraction(1), leaves).sizes)
        return cls(tuple(orders), cells, levels * Fraction(distance) / epsilon, leaves)

    @property
    def width(self) -> int:
        """How many cells a leaf has: a power of two."""
        return bin_width(self.cells, self.leaves)

    @property
    def sizes(self) -> list[int]:
        """How many nodes each level has, the leaves first; there is no root."""
        sizes = [-(-self.cells // self.width)]
        while sizes[-1] > BRANCHES:
            sizes.append(-(-sizes[-1] // BRANCHES))
        return sizes

    @property
    def widths(self) -> list[Fraction]:
        """The scale of the noise in each count."""
        return [self.scale]

    def loss(self, distance: Distance) -> Loss:
        """Return levels distance / scale, which is attained."""
        return Loss(len(self.sizes) * Fraction(distance) / self.scale)

    def release(self, histogram: Weights, randomness: Randomness) -> list[int]:
        """Return a cell for each order; they rise or stay."""
        return self.read(self.noisy(self.counts(histogram), randomness))

    def counts(self, histogram: Weights) -> list[list[int]]:
        """Count what each node holds, the leaves first; private."""
        return self.levels(asked(histogram, 0, self.cells, self.width).tolist())

    def levels(self, leaves: Sequence[int]) -> list[list[int]]:
        """Count what each node holds by the weights of the leaves; private."""
        levels = [list(leaves)]
        for _ in self.sizes[1:]:
            levels.append(in_bins(levels[-1], BRANCHES))
        return levels

    def noisy(self, counts: Sequence[Sequence[int]], randomness: Randomness) -> list[list[int]]:
        """Add fresh noise to the count of each node."""
        noise = DiscreteLaplace(self.scale)
        return [noise.release(level, randomness) for level in counts]

    def read(self, noisy: Sequence[Sequence[int]]) -> list[int]:
        """Read the quantiles from noisy counts."""
        sums = self.sums(noisy)
        return [self._cell(sums, order) for order in self.orders]

    @staticmethod
    def sums(noisy: Sequence[Sequence[int]]) -> list[int]:
        """Return the weight below the start of each leaf, and of all, in 2^-POINT."""
        return _rising(_agreed(noisy))

    def _cell(self, sums: Sequence[int], order: Fraction) -> int:
        """Return the cell at which the weight below reaches an order's share of all.

        `sums` has the weight below the start of each leaf, and at last that of all.
        """
        if sums[-1] == 0:  # nothing is there to be parted
            return int(order * (self.cells - 1))
        target = -(-order.numerator * sums[-1] // order.denominator)
        leaf = int(np.searchsorted(np.array(sums, dtype=object), target, side="left")) - 1
        if leaf < 0:  # the first leaf that holds anything
            return self.width * (sum(1 for weight in sums if weight == 0) - 1)
        low, high = self.width * leaf, min(self.width * (leaf + 1), self.cells)
        part = (target - sums[leaf]) * (high - low)
        return min(low + part // (sums[leaf + 1] - sums[leaf]), high - 1)

    def ranks_off(self, confidence: Fraction) -> tuple[int, bool]:
        """Return about what the ranks are off at most, by experience and without a proof.

        On four levels, sums of leaves are off by 4.3 scales at their root mean square, and by
        less than 9 about 95 times in 100, whatever the confidence that is asked for.
        """
        return -(-9 * self.scale // 1), False


def _agreed(noisy: Sequence[Sequence[int]]) -> Integers:
    """Return the leaves' counts, in 2^-POINT, such that nodes hold what is under them.

    Upwards, each node is averaged with the sum of those under it, in inverse proportion to
    their variances; downwards, what is still missing is shared out equally.
    """
    given = [np.array(level, dtype=object) << POINT for level in noisy]
    means = given[:1]
    for height, level in enumerate(given[1:], 2):
        whole, part = BRANCHES**height - 1, BRANCHES**height - BRANCHES ** (height - 1)
        means.append((part * level + (whole - part) * _summed(means[-1])) // whole)
    agreed = means[-1]
    for level in reversed(means[:-1]):
        under = np.array([BRANCHES] * len(agreed), dtype=object)
        under[-1] = len(level) - BRANCHES * (len(agreed) - 1)
        shares = (agreed - _summed(level)) // under
        agreed = level + np.repeat(shares, BRANCHES)[: len(level)]
    return agreed


@lru_cache(maxsize=64)
def noise_of_sums(sizes: tuple[int, ...]) -> tuple[tuple[float, ...], ...]:
    """Return by what the noise of each node is multiplied in the weight below each leaf's end.

    Before sums are made to rise, which takes them no farther from what they were.
    """
    large, columns = 1 << POINT, []
    for height, size in enumerate(sizes):
        for place in range(size):
            noise = [[0] * other for other in sizes]
            noise[height][place] = large
            columns.append([one / (large << POINT) for one in _agreed(noise).cumsum().tolist()])
    return tuple(zip(*columns, strict=True))


def _summed(level: Integers) -> Integers:
    sums: Integers = np.add.reduceat(level, np.arange(0, len(level), BRANCHES))
    return sums


def _rising(leaves: Integers) -> list[int]:
    """Return the weight below each edge: the nearest sums that rise, from 0 to that of all.

    Of the least sums that rise above the given ones and the largest that rise below, the mean.
    """
    sums = leaves.cumsum().clip(0, max(0, sum(leaves.tolist())))
    above = np.maximum.accumulate(sums)
    below = np.minimum.accumulate(sums[::-1])[::-1]
    return [0, *((above + below) // 2).tolist()]
