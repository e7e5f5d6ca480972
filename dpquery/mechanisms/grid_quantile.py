"""One quantile on a public grid: the default for medians, quantiles, and high or low ranks.

It knows cells, weights and a rate, and neither what the cells stand for nor who pays. Release
and loss are exact (I8); the probabilities at the end are for tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpquery.mechanisms.certified import tail_bound
from dpquery.mechanisms.envelope import Envelope
from dpquery.mechanisms.frontier import Frontier, Histogram, around
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.ranks import OneRank, require_bins

__all__ = ["GridQuantile", "rank_range"]


def rank_range(
    order: Fraction, total_weight: int, *, substitution: bool, grouped: bool
) -> Fraction:
    """Give how far one unit can move the score of any cell, over all groups together.

    A unit's total weight is w. Where it is added, C(<g) - p N moves by between -p w and
    (1 - p) w, and p N - C(<=g) by between -(1 - p) w and p w. Where it is replaced, the parts
    of the two units add up to at most w in one group; in two groups each counts by itself.

    >>> rank_range(Fraction(9, 10), 4, substitution=False, grouped=True)
    Fraction(18, 5)
    >>> rank_range(Fraction(9, 10), 4, substitution=True, grouped=False)
    Fraction(4, 1)
    """
    single = max(order, 1 - order) * total_weight
    if not substitution:
        return single
    return 2 * single if grouped else Fraction(total_weight)


@dataclass(frozen=True, slots=True)
class GridQuantile(OneRank):
    """Draws a cell of a grid, the likelier the nearer its rank is to an order.

    Claim:
        Let C(<g) be the weight of all rows in cells below g, C(<=g) that up to g, N that of
        all, and s(g) = max(0, C(<g) - order N, order N - C(<=g)). If the scores s of two data
        sets differ by at most d in each cell, their outputs are (2 rate d, 0)-
        indistinguishable: for every cell g, P[release(a) = g] <= exp(2 rate d) *
        P[release(b) = g].

    Assumes:
        All histograms of one release show the same weights, integers from 0 that add up to
        max_weight or less; the integers of `Randomness` are uniform and independent; order,
        rate, cells and max_weight do not depend on the rows.

    Proof:
        P[g] = exp(-rate s(g)) / Z, where Z is the sum of the numerators over all cells. Each
        numerator changes by a factor between exp(-rate d) and exp(rate d), and so does Z. The
        ratio at g is at most the product of the two factors. The factor of Z is the same for
        all cells, so the logarithms of the ratios lie in a range of 2 rate d (`BoundedRange`).

    Sampling:
        Exact, by rejection under a step function (`envelope.py`). On a bin the score is at
        least that of its nearer end, which the weights at both ends give; so exp(-rate s) is
        at most 2^-e there, for an integer e. A cell is proposed with probability 2^-e(g) / V,
        V being the sum over all cells, and kept with probability exp(-rate s(g)) 2^e(g). An
        attempt thus ends with cell g with probability exp(-rate s(g)) / V: given that it
        succeeds, with P[g], whatever the bins were. So they may be refined, shared by several
        draws or forgotten between attempts by any rule that looks at the past alone. Bins that
        leave too much open are refined before an attempt; the bin of a proposed cell is
        refined, and the coin tossed piece by piece, until its score is known. Which histograms
        are asked for, and so the time taken, depends on data and coins.

    Rounding:
        Order and rate are Fractions and the loss is exact; no step leaves exactness. Exponents
        are rounded downwards, which is always valid; coins compare as many digits as they
        need. Scores are computed in 64 bits if order and max_weight show that they fit, else
        in Python's integers. `rank_interval` rounds outwards.

    Utility:
        P[s > r] <= cells exp(-rate r), since some cell has s = 0: with 2^32 cells and epsilon
        1 the median is within 26 rows 95 times in 100. On 100,000 salaries in cents, a fifth
        of them equal, it is 0.6 rows off on average. Any mechanism of the same claim errs by
        a multiple of ln(cells) / rate on some data.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    bins: int = 1 << 13
    """The most bins that one histogram has: a power of two."""
    held: int = 1 << 16
    """The most bins that are kept from one attempt to the next."""

    name: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        OneRank.__post_init__(self)
        require_bins(self.bins)

    def release(self, histogram: Histogram, randomness: Randomness) -> int:
        """Draw one cell."""
        return self.draw(self.frontier(histogram), randomness)

    def frontier(self, histogram: Histogram) -> Frontier:
        """Ask for the whole grid, for one draw or for several of any order and rate."""
        return Frontier(histogram, self.cells, self.max_weight, self.bins, self.held)

    def near(self, frontier: Frontier) -> list[int]:
        """Give the ranks where a draw will look."""
        return around([(self.order, self.rate)], frontier.total)

    def draw(self, frontier: Frontier, randomness: Randomness) -> int:
        """Draw one cell from a frontier on the same grid."""
        return Envelope(frontier, self.order, self.rate, self.max_weight).draw(randomness)[0]

    def rank_interval(self, confidence: Fraction) -> int:
        """Give a weight r so that s of the released cell is at most r as often as stated.

        The least r of which P[s > r] <= cells exp(-rate r) <= 1 - confidence proves it, with
        the logarithm rounded up by at most 1/64. It does not depend on the data.
        """
        return tail_bound(self.cells, self.rate, confidence)

    def pmf(self, weights: Sequence[int]) -> list[float]:
        """Give the probability of each cell of a small grid, for tests."""
        den, below, scores = self.order.denominator, 0, []
        target = self.order.numerator * sum(weights)
        for weight in weights:
            scores.append(max(0, den * below - target, target - den * (below + weight)))
            below += weight
        slope = float(self.rate / den)
        sizes = [math.exp(-slope * score) for score in scores]
        total = math.fsum(sizes)
        return [size / total for size in sizes]
