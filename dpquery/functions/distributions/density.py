"""DP_DENSITY: how close together values lie at some points, by counts or sums of cosines.

The range between the bounds is parted into cells of nearly equal width, from public facts
alone, and what is released says what each cell holds: its count with noise, or with
mechanism='basis' the sums of cosines over all rows. What follows is post-processing: the counts
are smoothed by as few cosines as their noise allows, none is left below zero, and their shares
are divided by the width of a cell. So the density is never negative, and it is one altogether.

Sensitivity: each row has its weight in one cell, so one unit moves all counts by its weight in
L1 norm, and so in L2; replaced, by twice that, or the root of 2 times that in L2. A cosine lies
between -1 and 1 and is taken to a whole number of `ONE` parts, so no sum moves by more than the
weight times `ONE`: that is the maximum norm of all of them, or twice it where a unit is
replaced. Of several groups, each row is in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import floor, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from dpquery.core.privacy_loss import decimal_text
from dpquery.core.types import DOUBLE
from dpquery.functions.additive_releases import (
    ADDITIVE,
    LEVEL,
    additive_noise,
    double,
    needless,
)
from dpquery.functions.base import (
    COMMON,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Measured,
    Release,
    Takes,
    Words,
)
from dpquery.functions.distributions.histogram_and_cdf import (
    cells_l2,
    nearest_counts,
    numbers_of,
)
from dpquery.functions.distributions.mode_top_k import cells_distance
from dpquery.functions.distributions.points_argument import Points
from dpquery.functions.order_statistics.base import grid_of, too_many_groups
from dpquery.functions.quantize import in_rows
from dpquery.ir.measures import GroupRequest, Histogram
from dpquery.ir.query import Call
from dpquery.mechanisms import AdditiveNoise, DiscreteLaplace, MaxNorm
from dpquery.mechanisms.quantiles.sampling.exact_histograms import bin_width
from dpquery.mechanisms.randomness import Randomness

CELLS = 64
"""How many there are at most."""
FINE = 1 << 11
"""Ranges of which a cell is made, at most, of all cells together."""
MOST_GROUPS = 1 << 11
COSINES = 16
ONE = 1 << 40
"""What a cosine of 1 is in whole numbers: at any epsilon it is more than there are cosines."""
BASIS = "basis"
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DensityRelease(Release):
    """The density at points, one list per group."""

    measures: tuple[Histogram]
    mechanism: AdditiveNoise | MaxNorm
    points: tuple[Fraction, ...]
    cosines: bool
    """Whether their sums are released, in place of counts."""

    @property
    def _width(self) -> int:
        """How many values a range of the histogram holds, a power of two."""
        return bin_width(self.measures[0].code.cells, FINE)

    @property
    def _ends(self) -> list[int]:
        """Where cells end, in values from the first, and 0 before them."""
        values, width = self.measures[0].code.cells, self._width
        ranges = -(-values // width)
        count = min(ranges, CELLS)
        inner = (ranges * cell // count * width for cell in range(count))
        return [*inner, values]

    def drawn_by(self, drawn: Any = None) -> str:
        """Name what was summed, where it is no count."""
        return BASIS if self.cosines else self.mechanism.name

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[tuple[int, ...]]:
        """Draw the noisy counts of the cells, or the noisy sums, of each group."""
        (measure,), width = self.measures, self._width
        asked = [
            GroupRequest(group, 0, measure.code.cells, width) for group in range(exact.groups)
        ]
        for ranges in exact.histograms(measure, asked):
            noisy = self.mechanism.release(self.summed(ranges.tolist()), randomness)
            yield tuple(noisy)

    def summed(self, ranges: Sequence[int]) -> list[int]:
        """Return the counts of cells, or the sums of cosines, by those of ranges."""
        if self.cosines:
            rows = _whole_cosines(len(ranges))
            return [
                sum(weight * part for weight, part in zip(ranges, row, strict=True))
                for row in rows
            ]
        starts = [end // self._width for end in self._ends[:-1]]
        stops = [*starts[1:], len(ranges)]
        return [sum(ranges[a:b]) for a, b in zip(starts, stops, strict=True)]

    def value(self, drawn: Sequence[int]) -> list[float]:
        """Return the density at each point, straight between the middles of cells.

        Outside the bounds there is none.
        """
        ends, code = np.array(self._ends, dtype=float), self.measures[0].code
        places = [floor(point / code.grid + Fraction(1, 2)) - code.low for point in self.points]
        heights = np.array([float(one) for one in self.shares(drawn)]) / np.diff(ends)
        at = np.clip(np.array(places, dtype=float), -1, ends[-1]) + 0.5
        found = np.interp(at, (ends[1:] + ends[:-1]) / 2, heights)
        inside = [0 <= place < code.cells for place in places]
        return [
            double(Fraction(float(height)) / code.grid) if held else 0.0
            for height, held in zip(found, inside, strict=True)
        ]

    def shares(self, drawn: Sequence[int]) -> list[Fraction]:
        """Return what share of the rows is in each cell."""
        ends, scale = self._ends, self.measures[0].weight.scale
        widths = np.diff(np.array(ends, dtype=float)) / ends[-1] * (len(ends) - 1)
        noise = float(self.mechanism.scale_shown / scale)
        if isinstance(self.mechanism, DiscreteLaplace):
            noise *= sqrt(2)
        size = len(widths)
        if self.cosines:
            noise = noise * sqrt(2) / ONE
            sums = np.array([float(Fraction(one, scale * ONE)) for one in drawn[:size]])
            sums[1:] *= sqrt(2)
            found = np.zeros(size)
            found[: len(sums)] = sums
        else:
            counts = np.array([float(Fraction(one, scale)) for one in drawn])
            found = _basis(size) @ (counts / widths)
            noise *= sqrt(size)
        shape = _basis(size).T @ _smoothed(found, noise, len(drawn)) / size
        held = nearest_counts([Fraction(float(one)) for one in shape * widths])
        total = sum(held, Fraction(0))
        if not total:
            return [Fraction(b - a, ends[-1]) for a, b in pairwise(ends)]
        return [one / total for one in held]

    @property
    def note(self) -> str:
        """Say what the numbers are."""
        return (
            f"{self.function} is smoothed: times the width of a short stretch, it is the share "
            "of the rows that lies there"
        )

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        weight, unit = self.measure.weight, ONE if self.cosines else 1
        _, high = self.mechanism.interval(0, LEVEL)
        what = "cosine" if self.cosines else "count"
        number = COSINES + 1 if self.cosines else len(self._ends) - 1
        moved = in_rows(weight, Fraction(self.distance) / unit)
        return Words(
            f"{moved}, {'each sum' if self.cosines else 'all counts'}",
            f"{in_rows(weight, self.mechanism.scale_shown / unit)}, in each of {number}",
            f"± {decimal_text(Fraction(high, weight.scale * unit), 4)} in each {what}, "
            "before they are smoothed",
        )


@lru_cache(maxsize=32)
def _basis(size: int) -> Doubles:
    """Return cosines of each frequency at the middles of cells, of mean square 1."""
    places = (np.arange(size) + 0.5) / size
    cosines: Doubles = np.cos(np.pi * np.outer(np.arange(size), places))
    cosines[1:] *= sqrt(2)
    return cosines


@lru_cache(maxsize=32)
def _whole_cosines(size: int) -> list[list[int]]:
    """Return cosines at the middles of ranges, the first of frequency 0, as whole numbers."""
    places = (np.arange(size) + 0.5) / size
    cosines = np.cos(np.pi * np.outer(np.arange(COSINES + 1), places))
    return [[round(one * ONE) for one in row] for row in cosines.tolist()]


def _smoothed(found: Doubles, noise: float, known: int) -> Doubles:
    """Return the sums up to the frequency beyond which there is likely more noise than shape.

    A sum is off by its noise, and by chance, which chose the rows: of cosines of mean square 1,
    by as much as there are rows. The square error of leaving out the sums beyond a frequency is
    theirs less that; of keeping the others it is that (Efromovich 1999).

    Args:
        found: of each frequency, from 0.
        noise: the deviation in each.
        known: how many of them are.
    """
    off = noise**2 + max(found[0], noise)
    risks = np.cumsum(2 * off - found[:known] ** 2)
    kept = found.copy()
    kept[int(np.argmin(risks)) + 1 :] = 0
    return kept


def _plan(call: Call, facts: Facts) -> DensityRelease:
    if facts.cells > MOST_GROUPS:
        label, why = f"{facts.cells:,} groups", f"each group has {CELLS} counts."
        raise too_many_groups(call, f"{MOST_GROUPS:,} groups", label, why)
    weight = facts.cell_weight(call)
    measure = Histogram(weight, grid_of(call), call.condition)
    l1 = cells_distance(weight, facts.neighbours)
    noise: AdditiveNoise | MaxNorm
    cosines = call.options.mechanism == BASIS
    if cosines:
        if call.options.delta is not None:
            raise needless(call, call.options.delta_span, BASIS)
        distance: int | Fraction = l1 * ONE
        noise = MaxNorm.calibrated(distance, call.options.epsilon, COSINES + 1)
    else:
        l2 = cells_l2(weight, facts.neighbours)
        noise = additive_noise(call, l1, l2)
        distance = l1 if noise.norm == 1 else l2
    type_, points = replace(DOUBLE, listed=True), numbers_of(call.points)
    return DensityRelease(call.function, (measure,), distance, noise, type_, points, cosines)


DENSITY = DPFunction(
    name="DP_DENSITY",
    summary="How close together values lie at some points: the density of the rows that have a "
    "value, as a list.",
    positional=(Expression(Takes.NUMBER), Points("at", "points", "[20, 40, 60]")),
    gives=Gives.NUMBERS,
    parameters=COMMON,
    mechanisms=(*ADDITIVE, BASIS),
    plan=_plan,
    example="SELECT DP_DENSITY(age, at=[30, 40, 50], eps=0.5) AS density FROM staff",
)
