"""Quantiles by noisy thresholds: for each order, the first range whose sum comes far enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, product
from typing import ClassVar

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
from dpquery.mechanisms.samplers import tail_bound


def threshold_cost(order: Fraction, *, substitution: bool, grouped: bool) -> Fraction:
    """Return what one scan loses per unit of a unit's weight, over all groups, at scale 1.

    See the proof of `ThresholdQuantiles`. Where a unit is replaced, it is taken out and
    another one put in; in one group the two together move sums by no more than one.

    >>> threshold_cost(Fraction(1, 2), substitution=False, grouped=True)
    Fraction(3, 2)
    """
    if substitution and not grouped:
        return Fraction(2)
    return (2 if substitution else 1) * (1 + order)


@dataclass(frozen=True, slots=True)
class ThresholdQuantiles(PureEvent):
    """Finds for each order the first range with enough below its end, both sides noisy.

    Claim:
        If one unit of weight w is added, taken away or replaced, outputs are (rate w, 0)-
        indistinguishable: for every list v of cells, P[release(a) = v] <= exp(rate w) *
        P[release(b) = v].

    Assumes:
        All histograms show the same weights; the integers of `Randomness` are uniform and
        independent; orders, rate, cells, steps and costs do not depend on the rows; costs_i is
        `threshold_cost` of order i, or more.

    Proof:
        Let q_k = C_k - p N, C_k being the weight below the end of range k, with noise of the
        scale A on each, and on the threshold 0. Range i is the first one if q_i + noise reaches
        the threshold and no earlier one does. If the threshold's noise is moved by a, so that
        no earlier range reaches it on the other data, and that of q_i by b, so that it does,
        the probability changes by a factor of exp((|a| + |b|) / A) at most: a is at least the
        largest change of an earlier q, and b at least a less the change of q_i. No range at all
        is the same without b.
        Added weight changes q_k by between -p w and (1 - p) w, and by no less for later ranges.
        Then a is the change of q_(i-1), and b = 0. Taken away, the changes have the other sign:
        a is that of q_1, p w at most, and b what they fall by from q_1 to q_i, w at most; and
        if a is below zero, |a| + b is at most (1 - p) w. So (1 + p) w / A is lost. Replaced,
        a is w at most in size, and so is b: from range to range the changes fall by no more
        than what is taken away: 2 w / A. In groups a replaced unit counts twice, once where it
        was and once where it is.
        With A = m costs_i / rate for each of m orders, each loses rate w / m. Noise and changes
        are in steps of 1 / (denominator of p), and integers in these.

    Sampling:
        Exact, as the noise is. One histogram is asked for, always the same.

    Rounding:
        Orders, costs and rate are Fractions and the loss is exact; no step leaves exactness.

    Utility:
        About 8 m ln(steps) / epsilon ranks are lost for m orders, 7 to 25 times the error of
        the recursion: the noise of every range before the right one can end the scan too soon.
        It needs no bound on the number of ranges, and is here to be compared with.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    orders: tuple[Fraction, ...]
    """Rising."""
    cells: int
    rate: Fraction
    """What all scans together lose per unit of weight."""
    costs: tuple[Fraction, ...]
    """What the scan for each order loses per unit of weight, at scale 1."""
    steps: int = 1 << 12
    """The most ranges that are scanned: a power of two."""

    name: ClassVar[str] = "histogram"
    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_orders(self.orders, self.cells)
        if self.rate <= 0 or len(self.costs) != len(self.orders) or min(self.costs) <= 0:
            raise ValueError("a rate is above zero, and so is the cost of each order")
        if self.steps < 2 or self.steps.bit_count() > 1:
            raise ValueError("the number of steps is a power of two")

    @classmethod
    def calibrated(
        cls,
        orders: Sequence[Fraction],
        cells: int,
        costs: Sequence[Fraction],
        distance: Distance,
        epsilon: Fraction,
    ) -> ThresholdQuantiles:
        """Return the rate that loses exactly epsilon at a distance above zero."""
        return cls(tuple(orders), cells, epsilon / Fraction(distance), tuple(costs))

    @property
    def width(self) -> int:
        """How many cells a range has: a power of two."""
        return bin_width(self.cells, self.steps)

    @property
    def widths(self) -> list[Fraction]:
        """The scale of the noise for each order, in weight."""
        return [cost * len(self.orders) * Fraction(1, self.rate) for cost in self.costs]

    def loss(self, distance: Distance) -> Loss:
        """Return rate distance, where a unit has no more weight than the distance."""
        return Loss(self.rate * distance)

    def release(self, histogram: Weights, randomness: Randomness) -> list[int]:
        """Find a cell for each order, and sort them."""
        sums = list(accumulate(asked(histogram, 0, self.cells, self.width).tolist()))
        scales = zip(self.orders, self.widths, strict=True)
        return sorted(self._scanned(sums, *one, randomness) for one in scales)

    def _scanned(
        self, sums: Sequence[int], order: Fraction, scale: Fraction, randomness: Randomness
    ) -> int:
        """Find the last cell of the first range that passes, or of the grid if none does."""
        noise = DiscreteLaplace(scale * order.denominator)
        (threshold,) = noise.release([0], randomness)
        noisy = noise.release(_past(sums, order), randomness)
        passed = (place for place, past in enumerate(noisy) if past >= threshold)
        return self._end(next(passed, len(sums) - 1))

    def _end(self, place: int) -> int:
        return min((place + 1) * self.width, self.cells) - 1

    def ranks_off(self, confidence: Fraction) -> tuple[int, bool]:
        """Return how far off the ranks are, in weight, so often; proven where ranges are cells.

        All noise is below scale ln(2 n / missed) so often, n values of it in all; a range and
        the threshold have one each. Within a range of several cells, ranks are not known.
        """
        values = 2 * len(self.orders) * (min(self.steps, self.cells) + 1)
        twice = tail_bound(values, Fraction(1, 2 * max(self.widths)), confidence)
        return twice + 1, self.width == 1

    def pmf(self, weights: Sequence[int]) -> dict[tuple[int, ...], float]:
        """Return the probability of each list of cells of a small grid, for tests."""
        sums = list(accumulate(in_bins(weights, self.width)))
        scales = zip(self.orders, self.widths, strict=True)
        laws = [self._law(sums, order, float(scale)) for order, scale in scales]
        law: dict[tuple[int, ...], float] = {}
        for places in product(range(len(sums)), repeat=len(laws)):
            cells = tuple(sorted(map(self._end, places)))
            chance = math.prod(of[place] for of, place in zip(laws, places, strict=True))
            law[cells] = law.get(cells, 0) + chance
        return law

    def _law(self, sums: Sequence[int], order: Fraction, scale: float) -> list[float]:
        """Sum over all thresholds that are likely enough to count."""
        q = math.exp(-1 / (scale * order.denominator))
        far = int(-40 / math.log(q)) + 1
        law = [0.0] * len(sums)
        for threshold in range(-far, far + 1):
            left = (1 - q) / (1 + q) * q ** abs(threshold)
            for place, past in enumerate(_past(sums, order)):
                missing = threshold - past
                reached = (
                    q**missing / (1 + q) if missing > 0 else 1 - q ** (1 - missing) / (1 + q)
                )
                law[place] += left * reached
                left *= 1 - reached
            law[-1] += left
        return law


def _past(sums: Sequence[int], order: Fraction) -> list[int]:
    """Return how far each sum is past the order's share, in steps of 1 / denominator."""
    target = order.numerator * (sums[-1] if sums else 0)
    return [order.denominator * below - target for below in sums]
