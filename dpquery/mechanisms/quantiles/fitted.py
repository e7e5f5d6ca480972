"""Several quantiles fitted together: one list, and the total that it parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations_with_replacement, pairwise
from math import isqrt
from typing import ClassVar

import numpy as np

from dpquery.mechanisms.base import RangeEvent
from dpquery.mechanisms.quantiles.base import (
    Errors,
    SpreadRankList,
    errors_of_parts,
    pmf_of_cells,
)
from dpquery.mechanisms.quantiles.sampling.cdf_bounds import Outlook
from dpquery.mechanisms.quantiles.sampling.exact_histograms import Weights, on_places
from dpquery.mechanisms.quantiles.sampling.fitted_paths import FittedPaths, aims_of
from dpquery.mechanisms.quantiles.sampling.joint_paths import shares_of
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.samplers import tail_bound

HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class FittedQuantiles(RangeEvent, SpreadRankList):
    """Draws a list of cells that rise or stay, and a total that is not told.

    Claim:
        If the weights of two data sets differ by d in L1 norm over all cells, their outputs are
        (rate d, 0)-indistinguishable: for every list v of cells, P[release(a) = v] <=
        exp(rate d) * P[release(b) = v]. The logarithms of these ratios, over all lists, lie in
        a range of rate d.

    Assumes:
        As `RecursiveQuantiles`.

    Proof:
        Weights are spread first: a weight of T in a cell is T units of weight 1 at
        places that depend on their numbers 0 to T - 1 alone. So where weights differ by d in L1
        norm, d units are taken away or added in all and no other one moves.
        The places o_1 to o_m of a list part the units into m + 1 parts, those at o_i being in
        the part above it; share i is the difference of the orders around part i. A candidate is
        a list o and a total t, one of the multiples of `step` from 0 to max_weight: both are
        the same for all data. Its score is the sum over parts i of |n_i - share_i t|, where n_i
        is the weight of the part. A unit more or less changes one n_i by 1, and t is not what
        the units add up to but what is drawn: so the score of each candidate moves by at most
        1 a unit, and by d in all.
        P[o, t] = exp(-rate / 2 score) / Z. Each numerator changes by a factor between exp(-rate
        d / 2) and exp(rate d / 2), and so does Z, by one that is the same for all: ratios are
        at most exp(rate d), and their logarithms lie in a range of rate d. A sum of candidates
        keeps both; t is left out, and places are told as cells.

    Sampling:
        Exact, by rejection under sums that are known from above (`FittedPaths`). Places
        stand together in stretches, the longer the farther they are from where an order is
        aimed at: how finely has no bearing on the law. Each round parts what failed, as far as
        single totals and cells; how many rounds it takes, which histograms are asked for, and
        so the time taken, depends on data and coins. With a slope of thousands a row it can be
        very long.

    Rounding:
        Orders and rate are Fractions and the loss is exact; no step leaves exactness. Bounds
        are rounded so that they stay bounds, and coins compare as many digits as they need.
        `ranks_off` rounds outwards.

    Utility:
        Were shares taken of the true total, as in Gillenwater and others 2021, a unit would
        move all of them, and scores by up to 2 (1 - least share): nearly twice as far. Drawn
        along, the total costs nearly nothing: to first order, parts are off by independent
        errors t_i of two-sided exponential law at rate / 2, less their share of the sum of all
        t_i, and an order p of m even ones by sqrt(8 (m + 1) p (1 - p)) / rate. Nine deciles of
        100,000 salaries at epsilon 1 are about 4 rows off, where the recursion errs by 6.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    name: ClassVar[str] = "fitted"

    @property
    def slope(self) -> Fraction:
        """How steeply the law falls, per unit of the score."""
        return HALF * self.rate

    @property
    def step(self) -> int:
        """How far totals are apart: by less than two standard errors of what is drawn."""
        return max(1, isqrt(25 * (len(self.orders) + 1)) // self.rate)

    @property
    def widths(self) -> list[Fraction]:
        """How widely each order errs, in weight: off by r alone, it adds 2 r to the score."""
        return [Fraction(1, self.rate)]

    @property
    def errors(self) -> Errors:
        """The errors of each order, where rows are even."""
        return errors_of_parts(self.orders, self.slope)

    def release(self, histogram: Weights, randomness: Randomness) -> list[int]:
        """Draw a cell for each order; they rise or stay."""
        return self.draw(self.tree(histogram), randomness)

    def tree(self, histogram: Weights) -> Outlook:
        """Ask for the whole grid."""
        return Outlook(
            histogram, self.cells, self.max_weight, self.bins, self.spread, self.slope
        )

    def near(self, tree: Outlook) -> list[int]:
        """Return the ranks where the draw will look."""
        return aims_of(self.orders, tree.total)

    def draw(self, tree: Outlook, randomness: Randomness) -> list[int]:
        """Draw the cells from what is known."""
        paths = FittedPaths(tree, self.orders, self.slope, self.step, self.max_weight)
        return [place >> self.spread for place in paths.draw(randomness)]

    def ranks_off(self, confidence: Fraction) -> tuple[int, bool]:
        """Return how far off ranks are, in weight, so often; proven where cells are spread.

        P[score > least + g] <= candidates exp(-slope g). The places in which the orders lie,
        and the total nearest to the true one, have a score of m + 1 places' weight and a step
        at most. An order that is r off has a score of r / max(p, 1 - p) or more, whatever the
        total: parts off by t_i move it by (1 - p) t_i each on one side, by p t_i on the other.
        """
        places, count = self.cells << self.spread, len(self.orders)
        candidates = math.comb(places + count - 1, count) * (
            -(-self.max_weight // self.step) + 1
        )
        heaviest = -(-self.max_weight >> self.spread) if self.spread else 0
        most = tail_bound(candidates, self.slope, confidence)
        farther = max(max(order, 1 - order) for order in self.orders)
        off = (most + (count + 1) * heaviest + self.step) * farther
        return -(-off // 1), self.spread > 0

    def pmf(self, weights: Sequence[int]) -> dict[tuple[int, ...], float]:
        """Return the probability of each list of cells of a small grid, for tests."""
        parts = on_places(weights, self.spread)
        edges, sizes = [0, *accumulate(parts)], dict[tuple[int, ...], float]()
        for places in combinations_with_replacement(range(len(parts)), len(self.orders)):
            cuts = [0, *(edges[place] for place in places), edges[-1]]
            sizes[places] = self._law([b - a for a, b in pairwise(cuts)])
        whole = math.fsum(sizes.values())
        law = ((places, size / whole) for places, size in sizes.items())
        return pmf_of_cells(law, self.spread)

    def _law(self, parts: Sequence[int]) -> float:
        """Return the sum over all totals for lists with such parts."""
        shares = np.array([float(share) for share in shares_of(self.orders)])
        far = sum(parts) + int(80 / self.slope)
        last = -(-min(self.max_weight, far) // self.step) * self.step
        totals = np.arange(0, last + 1, self.step)
        scores = abs(np.array(parts)[:, None] - shares[:, None] * totals).sum(axis=0)
        return float(np.exp(-float(self.slope) * scores).sum())
