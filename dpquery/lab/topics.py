"""What can be tried: each topic is a DP function, and how far its values are from the exact.

The mechanisms come from the function itself: one that is added is tried by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpquery.functions.base import DPFunction, NoisyCell, Release
from dpquery.functions.count_sum import COUNT, SUM
from dpquery.functions.distributions.histogram_and_cdf import HISTOGRAM
from dpquery.functions.distributions.mode_top_k import MODE, TOP_K
from dpquery.functions.moments.mean_variance import AVG, PROPORTION, STDDEV_POP, VAR_POP
from dpquery.functions.order_statistics.min_max import MAX
from dpquery.functions.order_statistics.quantile import QUANTILE
from dpquery.lab.synthetic_data import Floats
from dpquery.lab.trial import Asked, Rows
from dpquery.mechanisms.randomness import Int64s

LEVEL = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class Topic:
    """A kind of question."""

    name: str
    function: DPFunction
    unit: str
    """In which errors are."""
    off: Callable[[Any, Rows, Asked], Floats]
    """How far a released value is from the exact one, at each of its places."""
    power: int = 0
    """Of the bounds' distance, in which errors are."""
    places: str = ""
    """What `--m` is the number of; empty where there is one value alone."""
    most: int = 1
    """How many there may be of them."""
    law: str = "uniform"
    """Of which values, unless another law is asked for."""

    def asked(self, top: int, places: int) -> tuple[Asked, ...]:
        """Return the calls that ask it; a mechanism answers the first that it can."""
        if self.function is QUANTILE:
            orders = tuple(Fraction(k, places + 1) for k in range(1, places + 1))
            alone = (Asked(QUANTILE, top, orders[0]),) if places == 1 else ()
            return (*alone, Asked(QUANTILE, top, orders))
        number = places if self.places else None
        return (Asked(self.function, top, number=number, of_rows=self.function is COUNT),)

    def told(self, cell: NoisyCell, asked: Asked) -> float | None:
        """Return how far off a value is at most, 95 times in 100, as its answer tells."""
        if self.function is QUANTILE:
            ranks = cell.rank_interval(LEVEL)
            return None if ranks is None else float(ranks)
        interval = cell.interval(LEVEL)
        if interval is None or isinstance(cell.value, list):
            return None
        low, value, high = map(float, (interval[0], cell.value, interval[1]))
        return max(value - low, high - value) / float(asked.top) ** self.power

    def floor(self, release: Release, asked: Asked) -> float | None:
        """Return what no mechanism keeps to on all data, where that does not hang on data.

        Ranks are off most where data are made for it, and synthetic ones are not.
        """
        floor = release.floor
        if floor is None or floor.what:
            return None
        return float(floor.least) / float(asked.top) ** self.power


def ranks_between(values: Int64s, orders: Sequence[float], found: Sequence[int]) -> Floats:
    """Return how many rows lie between values that were found and those of their ranks."""
    below = np.searchsorted(values, found, "left")
    up_to = np.searchsorted(values, found, "right")
    targets = np.array(orders) * len(values)
    return np.asarray(np.maximum(0.0, np.maximum(below - targets, targets - up_to)))


def _ranks(value: Any, rows: Rows, asked: Asked) -> Floats:
    orders = asked.order if isinstance(asked.order, tuple) else (asked.order or Fraction(1, 2),)
    found = value if isinstance(value, list) else [value]
    return ranks_between(rows.sorted, list(map(float, orders)), found)


def _from(exact: Callable[[Int64s], Any], power: int = 0) -> Callable[..., Floats]:
    """Return the distance from an exact number, over a power of the bounds' distance."""

    def off(value: Any, rows: Rows, asked: Asked) -> Floats:
        apart = abs(float(value) - float(exact(rows.sorted)))
        return np.array([apart / float(asked.top) ** power])

    return off


def _share(value: Any, rows: Rows, asked: Asked) -> Floats:
    exact = (rows.sorted >= (asked.top + 1) // 2).mean()
    return np.array([abs(float(value) - float(exact))])


def _bins(value: Any, rows: Rows, asked: Asked) -> Floats:
    places = -(-(rows.sorted + 1) * len(value) // (asked.top + 1)) - 1
    return np.abs(np.array(value, float) - np.bincount(places, minlength=len(value)))


def _lacking(value: Any, rows: Rows, asked: Asked) -> Floats:
    """Return how many rows fewer than the most frequent values have those that were chosen."""
    counts = np.bincount(rows.sorted, minlength=asked.top + 1)
    chosen = value if isinstance(value, list) else [value]
    best = np.sort(counts)[::-1][: len(chosen)]
    return np.asarray(best - np.sort(counts[chosen])[::-1], float)


DISTANCE = "shares of the bounds' distance"
TOPICS = {
    topic.name: topic
    for topic in (
        Topic("quantiles", QUANTILE, "ranks", _ranks, places="quantiles", most=499),
        Topic("counts", COUNT, "rows", _from(len)),
        Topic("sums", SUM, "multiples of the upper bound", _from(np.sum, 1), 1),
        Topic("means", AVG, DISTANCE, _from(np.mean, 1), 1),
        Topic("proportions", PROPORTION, "shares of the rows", _share),
        Topic("variances", VAR_POP, f"{DISTANCE}, squared", _from(np.var, 2), 2),
        Topic("deviations", STDDEV_POP, DISTANCE, _from(np.std, 1), 1),
        Topic("maxima", MAX, DISTANCE, _from(np.max, 1), 1),
        Topic("histograms", HISTOGRAM, "rows", _bins, places="bins", most=4096),
        Topic("modes", MODE, "rows", _lacking, law="zipf"),
        Topic("tops", TOP_K, "rows", _lacking, places="values", most=99, law="zipf"),
    )
}
"""By name."""
