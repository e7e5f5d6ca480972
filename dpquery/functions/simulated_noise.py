"""What might be true, given what was released: values around it, by the law of its noise.

A released value is the exact one with noise, so the released one with fresh noise of the same
law is as far from it as the exact one may be. Many such values at once, each set called a
world, show how far noise takes what is computed from several of them. That is post-processing:
nothing is drawn from any data, and no chance is needed. Each number has each quantile of its
noise once over all worlds (a Latin hypercube), and worlds come in pairs of opposite noise; how
numbers meet in a world is an arbitrary order that never changes, so that an answer that is
repeated has the same intervals.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from math import exp, log1p, prod
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from dpquery.core.types import NUMERIC, Kind
from dpquery.functions.additive_releases import AdditiveRelease
from dpquery.functions.base import NoisyCell
from dpquery.functions.gaussian_vector import VectorRelease
from dpquery.functions.moments.joint_draw import JointRelease
from dpquery.functions.moments.mean_variance import BernsteinRelease, Mean, Spread
from dpquery.mechanisms import AdditiveNoise, DiscreteGaussian, DiscreteLaplace

Floats = npt.NDArray[np.float64]
FEW = 64
"""Of so many cells of a column intervals are asked, where its law is known by these alone."""
CONFIDENCES = tuple(
    map(Fraction, ("0.2", "0.5", "0.8", "0.9", "0.95", "0.98", "0.99", "0.998"))
)


class Worlds:
    """Values that might be true, for each of an even number of worlds."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._taken = 0
        """How many numbers of the one sequence decided how noises meet."""
        self._shared: dict[Hashable, Floats] = {}
        """The noise of vectors that several columns are read from."""

    def of(self, cells: Sequence[NoisyCell]) -> Floats | None:
        """Return values for the cells of a column, a row for each world; None without a law.

        Those of exact types are whole steps beside the released ones, which are rounded too: a
        pair of worlds lies about what they were before.
        """
        values = self._values(cells) if cells else None
        if values is None or cells[0].release.type.kind is Kind.DOUBLE:
            return values
        half, step = self.count // 2, 10.0 ** -cells[0].release.type.scale
        middle = (values[:half] + values[half:]) / 2
        shown = np.array([float(cell.value) for cell in cells])
        beside = np.concatenate([values[:half] - middle, values[half:] - middle])
        return shown + np.rint(beside / step) * step

    def _values(self, cells: Sequence[NoisyCell]) -> Floats | None:
        release, drawn = cells[0].release, [cell.drawn for cell in cells]
        type_ = release.type
        if type_.listed or type_.kind not in NUMERIC or any(c.value is None for c in cells):
            return None
        match release:
            case AdditiveRelease() if all(isinstance(one, int) for one in drawn):
                noise = self._noise(release.mechanism, len(cells))
                return ((np.array(drawn, float)[:, None] + noise) * float(release.unit)).T
            case BernsteinRelease(shape=Mean() | Spread()):
                return np.array(
                    [_read(release, one) for one in self._vectors(release, drawn)]
                ).T
            case VectorRelease():
                return self._numbers(release, drawn)
        return self._by_intervals(cells) if len(cells) <= FEW else None

    def _vectors(
        self, release: BernsteinRelease, drawn: Sequence[tuple[int, ...]]
    ) -> list[Floats]:
        """Return vectors with fresh noise, in all worlds; columns of one draw have the same."""
        size, key = len(drawn[0]), (release.measures, release.mechanism, tuple(drawn))
        if not isinstance(release, JointRelease) or key not in self._shared:
            self._shared[key] = self._noise(release.mechanism, size * len(drawn))
        parts = self._shared[key].reshape(len(drawn), size, self.count)
        return [
            np.array(one, float)[:, None] + noise
            for one, noise in zip(drawn, parts, strict=True)
        ]

    def _numbers(self, release: VectorRelease, drawn: Sequence[tuple[int, ...]]) -> Floats:
        """Return numbers with fresh noise; those of one draw share the noise of its rows.

        What a draw holds of one number stands in as many columns as are read from it.
        """
        total: Floats = np.zeros((len(drawn), self.count))
        for worth, measure, column in zip(
            release.worth, release.measures, zip(*drawn, strict=True), strict=True
        ):
            key = (release.mechanism, measure, column)
            if key not in self._shared:
                self._shared[key] = self._noise(release.mechanism, len(drawn))
            noisy = np.array(column, float)[:, None] + self._shared[key]
            total = total + float(worth) * noisy
        return total.T

    def _noise(self, law: AdditiveNoise, size: int) -> Floats:
        """Return noise for so many integers, in all worlds: half have that of the others."""
        sizes = _sizes(law, self.count // 2)
        signed = np.array(
            [np.where(up, 1, -1) * sizes[order] for up, order in self._orders(size)]
        )
        return np.concatenate([signed, -signed], axis=1)

    def _orders(
        self, size: int
    ) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]]:
        """Return for each number in which worlds it goes up, and how far in what order."""
        half = self.count // 2
        numbers = _scrambled(self._taken, size * half).reshape(size, half)
        self._taken += numbers.size
        yield from zip(numbers % 2 == 1, np.argsort(numbers, axis=1), strict=True)

    def _by_intervals(self, cells: Sequence[NoisyCell]) -> Floats | None:
        """Return values by the intervals of each cell, taken for a law of the exact value."""
        found = []
        for cell, (up, order) in zip(cells, self._orders(len(cells)), strict=True):
            ends = [cell.interval(confidence) for confidence in CONFIDENCES]
            known = [end for end in ends if end is not None]
            if len(known) < len(ends):
                return None
            low, high = (
                _between(CONFIDENCES, [cell.value, *side], len(order))[order]
                for side in zip(*known, strict=True)
            )
            found.append([*np.where(up, high, low), *np.where(up, low, high)])
        return np.array(found).T


def _read(release: BernsteinRelease, parts: Floats) -> Floats:
    """Return what a release shows of noisy vectors, one in each column."""
    row = float(release.measure.weight.scale * prod(max(c.size, 1) for c in release.factors))
    if isinstance(release, JointRelease) and release.linear is not None:
        weights = np.array([float(w) for w in release.linear.weights(release.degree)])
        linear: Floats = weights @ parts / row
        return linear
    damping = float(release.mechanism.scale_shown) / len(parts)
    sums = np.maximum(parts[1:] if isinstance(release, JointRelease) else parts, 0) + damping
    total, width = sums.sum(axis=0), float(release.width)
    above = sums[1] if len(sums) == 2 else sums[1] / 2 + sums[2]
    mean: Floats = above / total
    if not isinstance(release.shape, Spread):
        return float(release.low) + width * mean
    share: Floats = np.clip(sums[2] / total - mean**2, 0, 0.25)
    if release.shape.sample:
        count = total / row
        share = share * np.where(count > 2, count / np.maximum(count - 1, 1), 2)
    return np.sqrt(share) * width if release.shape.root else share * width**2


def _sizes(law: AdditiveNoise, count: int) -> Floats:
    """Return how far noise takes a value so many times alike often, rising."""
    levels = (np.arange(count) + 0.5) / count
    match law:
        case DiscreteLaplace(scale):
            size = float(scale)
            beyond = np.log(2 / ((1 + exp(-1 / size)) * (1 - levels)))
            return np.maximum(np.ceil(size * beyond - 1), 0)
        case DiscreteGaussian():
            normal = NormalDist(0, float(law.sigma2) ** 0.5)
            return np.rint([normal.inv_cdf((1 + level) / 2) for level in levels.tolist()])
    known = (*CONFIDENCES, Fraction("0.9998"))
    return np.rint(_between(known, [0, *(law.interval(0, one)[1] for one in known)], count))


def _between(levels: Sequence[Fraction], ends: Sequence[Any], count: int) -> Floats:
    """Return ends so many times alike often: nothing is off 0 times, and the rest as said.

    Between two levels they follow a law that falls off exponentially.
    """
    steps = [-log1p(-float(level)) for level in (Fraction(0), *levels)]
    wanted = -np.log1p(-(np.arange(count) + 0.5) / count)
    return np.interp(wanted, steps, list(map(float, ends)))


def _scrambled(start: int, count: int) -> npt.NDArray[np.uint64]:
    """Return whole numbers in no order, always the same ones (SplitMix64)."""
    number = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    number *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        number ^= number >> np.uint64(shift)
        number *= np.uint64(factor)
    return number ^ (number >> np.uint64(31))
