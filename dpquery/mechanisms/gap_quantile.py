"""One quantile by the law of gaps between sorted values, as the literature has it.

It knows cells, weights and a rate, and neither what the cells stand for nor who pays. Release
and loss are exact (I8); the probabilities at the end are for tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpquery.mechanisms.certified import tail_bound
from dpquery.mechanisms.envelope import Envelope
from dpquery.mechanisms.frontier import Frontier, Histogram, around, spread_out
from dpquery.mechanisms.grid_quantile import GridQuantile
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.ranks import SPREAD, OneRank, require_bins, require_spread

__all__ = ["GapQuantile"]


@dataclass(frozen=True, slots=True)
class GapQuantile(OneRank):
    """Draws a place between sorted values, in proportion to the gap and to exp(-rate error).

    Claim:
        Let each cell have 2^spread places over which its weight is spread (`Frontier`). If the
        scores s of `GridQuantile` on these places differ by at most d between two data sets,
        their outputs are (2 rate d, 0)-indistinguishable.

    Assumes:
        As `GridQuantile`; spread does not depend on the rows. A unit moves the score of a place
        by no more than that of a cell, for weight that is added moves none that is there.

    Proof:
        That of `GridQuantile`, on the grid of the places; which cell a place belongs to follows
        from what was drawn.

    Sampling:
        Exact, as `GridQuantile`; how a cell's weight is spread follows from the weight alone.

    Rounding:
        As `GridQuantile`.

    Utility:
        A stretch of places without rows is as likely as it is long, times exp(-rate s): the law
        of gaps (Smith 2011). Where all rows have different values it errs as `GridQuantile`
        does. A value that many rows share is spread over the places of one cell, and found; in
        the literature it is a gap of length zero, which is never drawn: 1,500 rows off on
        100,000 salaries of which a fifth are equal, against 2 here.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    spread: int = SPREAD
    """Over how many binary digits of places the weight of a cell is spread."""
    bins: int = 1 << 13
    """The most bins that one histogram has: a power of two."""
    held: int = 1 << 15
    """The most bins that are kept from one attempt to the next."""

    name: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        OneRank.__post_init__(self)
        require_spread(self.spread)
        require_bins(self.bins)

    def release(self, histogram: Histogram, randomness: Randomness) -> int:
        """Draw one cell."""
        return self.draw(self.frontier(histogram), randomness)

    def frontier(self, histogram: Histogram) -> Frontier:
        """Ask for the whole grid."""
        return Frontier(
            histogram, self.cells, self.max_weight, self.bins, self.held, self.spread
        )

    def near(self, frontier: Frontier) -> list[int]:
        """Give the ranks where a draw will look."""
        return around([(self.order, self.rate)], frontier.total)

    def draw(self, frontier: Frontier, randomness: Randomness) -> int:
        """Draw one cell from such a frontier."""
        envelope = Envelope(frontier, self.order, self.rate, self.max_weight)
        return envelope.draw(randomness)[0] >> self.spread

    def rank_interval(self, confidence: Fraction) -> int:
        """Give a weight r so that the cell's rank is at most r off as often as stated.

        As `GridQuantile`, over places: a cell is no farther off than its places are.
        """
        return tail_bound(self.cells << self.spread, self.rate, confidence)

    def pmf(self, weights: Sequence[int]) -> list[float]:
        """Give the probability of each cell of a small grid, for tests."""
        spread = [part for w in weights for part in spread_out(w, self.spread).tolist()]
        grid = GridQuantile(self.order, len(spread), self.rate, self.max_weight)
        law, size = grid.pmf(spread), 1 << self.spread
        return [sum(law[at : at + size]) for at in range(0, len(law), size)]
