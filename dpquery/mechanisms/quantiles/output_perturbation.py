"""Noise added to the exact quantile: to be shown beside the defaults, not to be used."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpquery.core.privacy_events import Event
from dpquery.core.privacy_loss import Loss
from dpquery.mechanisms.base import AdditiveNoise, Distance
from dpquery.mechanisms.quantiles.base import require_orders
from dpquery.mechanisms.quantiles.sampling.exact_histograms import HistogramTree, Weights
from dpquery.mechanisms.randomness import Randomness


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
