"""Means and variances from Bernstein sums: vectors that one unit moves by one row's weight.

With codes k in 0..K, the sums of (K - k), k (degree 1), or of (K - k)^2, 2k(K - k), k^2
(degree 2) are nonnegative and add up to K^degree for every row. So one unit moves the whole
vector by at most its weight times K^degree in L1 norm, whatever its values: each sum gets
noise for the whole epsilon, and nothing is split. The scale of the noise is added to what is
divided by, so that an empty input gives the middle of the bounds and nothing is divided by
zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import NamedTuple, Protocol

from dpquery.events import Event
from dpquery.functions.base import Facts, Measured, Step
from dpquery.functions.codes import code_of
from dpquery.functions.conditions import both, present
from dpquery.functions.noise import LEVEL, additive_noise, spread
from dpquery.ir import Call, CountRows, Measure, SumCodes
from dpquery.mechanisms import AdditiveNoise
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.combined_noise import Reach, combined_reach
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import decimal_text
from dpquery.sensitivity import simplex_l2_sensitivity, simplex_sensitivity
from dpquery.types import DOUBLE, Type

__all__ = ["Basis", "BernsteinCell", "BernsteinRelease", "Shape", "bernstein"]


class Basis(NamedTuple):
    """What Bernstein sums are of."""

    low: Fraction
    """The lower bound."""
    width: Fraction
    """The distance between the bounds."""
    row: Fraction
    """What one row adds to the sums together."""


class Shape(Protocol):
    """What is computed from the shares of the Bernstein sums: a mean, a variance."""

    def value(self, sums: Sequence[Fraction], basis: Basis) -> float:
        """Return the value."""
        ...

    def error(self, share: Fraction, width: Fraction, times: str = "") -> str:
        """Say what noise of such a share of a thousand rows does to the value.

        Where the bounds are not known yet, `times` names their distance, and `width` is 1.
        """
        ...

    def range(
        self, sums: Sequence[float], reach: Callable[[float], Reach], basis: Basis
    ) -> tuple[float, float]:
        """Return a range of the values that noise does not rule out.

        Args:
            sums: the noisy ones.
            reach: how far their noises go together, for a share of what may be missed.
            basis: what the sums are of.
        """
        ...


@dataclass(frozen=True, slots=True)
class BernsteinCell:
    """The noisy sums of one group, and what is computed from them."""

    noisy: tuple[int, ...]
    release: BernsteinRelease

    @property
    def value(self) -> float:
        """The value, inside its bounds whatever the noise."""
        damping = self.release.damping / len(self.noisy)
        sums = [max(Fraction(part), Fraction(0)) + damping for part in self.noisy]
        return self.release.computed(sums)

    @property
    def mechanism(self) -> str:
        """The name of the noise."""
        return self.release.noise.name

    def interval(self, confidence: Fraction) -> tuple[float, float]:
        """Return the values that the noise does not rule out, as far to both sides."""
        low, high = self.release.ranged(self.noisy, confidence)
        value = self.value
        margin = max(value - low, high - value)
        return value - margin, value + margin


@dataclass(frozen=True, slots=True)
class BernsteinRelease:
    """The Bernstein sums of a degree with additive noise, one vector per group."""

    function: str
    shape: Shape
    sums: tuple[SumCodes, ...]
    rows: CountRows
    distance: Distance
    """In the norm of the noise."""
    noise: AdditiveNoise
    low: Fraction
    width: Fraction

    @property
    def type(self) -> Type:
        """Means and variances are doubles."""
        return DOUBLE

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The count of values and their power sums, which give the Bernstein sums exactly."""
        return (self.rows, *self.sums)

    @property
    def damping(self) -> Fraction:
        """The scale of the noise."""
        return spread(self.noise)

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.noise.event(self.distance)

    def run(self, exact: Measured, randomness: Randomness) -> list[BernsteinCell]:
        """Draw the noisy sums of each group."""
        powers = zip(*(exact.values(measure) for measure in self.measures), strict=True)
        vectors = [self._bernstein(moments) for moments in powers]
        flat = [part for vector in vectors for part in vector]
        noisy = self.noise.release(flat, randomness)
        size = len(self.measures)
        starts = range(0, len(noisy), size)
        return [BernsteinCell(tuple(noisy[start : start + size]), self) for start in starts]

    def _bernstein(self, moments: tuple[int, ...]) -> list[int]:
        """Turn sums of 1, k, k^2 into sums of comb(d, i) k^i (K - k)^(d - i)."""
        degree, top = len(self.sums), max(self.sums[0].code.size, 1)
        vector = []
        for i in range(degree + 1):
            terms = (
                comb(degree - i, j) * top ** (degree - i - j) * (-1) ** j * moments[i + j]
                for j in range(degree - i + 1)
            )
            vector.append(comb(degree, i) * sum(terms))
        return vector

    def computed(self, sums: Sequence[Fraction]) -> float:
        """Compute the value from the sums."""
        return self.shape.value(sums, self._basis)

    def ranged(self, noisy: Sequence[int], confidence: Fraction) -> tuple[float, float]:
        """Compute the range of the value from the noisy sums."""
        if not 0 < confidence < 1:
            raise ValueError("a confidence lies between 0 and 1")
        spread, missed = float(self.damping), float(1 - confidence)

        def reach(share: float) -> Reach:
            return combined_reach(self.noise, spread, missed * share)

        sums = [float(part) for part in noisy]
        return self.shape.range(sums, reach, self._basis)

    @property
    def _basis(self) -> Basis:
        return Basis(self.low, self.width, self._row)

    @property
    def _row(self) -> Fraction:
        """What one row of full weight adds to the sums together."""
        top = max(self.sums[0].code.size, 1)
        return Fraction(self.rows.weight.scale * top ** len(self.sums))

    def step(self) -> Step:
        """Describe the release in rows."""
        return Step(
            function=self.function,
            mechanism=self.noise.name,
            epsilon=self.noise.loss(self.distance).epsilon,
            sensitivity=f"{decimal_text(self.distance / self._row, 4)} in rows, all sums",
            noise_scale=f"{decimal_text(self.damping / self._row, 4)} in rows, each sum",
            expected_error=self._error(),
            weight=self.rows.weight,
        )

    @property
    def share(self) -> Fraction:
        """How many rows the noise is as much as, 95 times in 100; at least what damps it."""
        _, high = self.noise.interval(0, LEVEL)
        return max(Fraction(high), self.damping) / self._row

    def _error(self) -> str:
        """Say what the noise does to a mean or variance of a thousand rows."""
        return self.shape.error(self.share / 1000, self.width)


def bernstein(call: Call, facts: Facts, shape: Shape, degree: int) -> BernsteinRelease:
    """Plan a release of the Bernstein sums of a degree."""
    code = code_of(call, origin_at_low=True)
    weight = facts.weight(call, max(code.size, 1) ** degree)
    sums = tuple(SumCodes(weight, code, power + 1, call.condition) for power in range(degree))
    rows = CountRows(weight, both(present(code.expr), call.condition))
    l1 = simplex_sensitivity(sums[0], facts.neighbours, degree)
    l2 = simplex_l2_sensitivity(sums[0], facts.neighbours, degree)
    noise = additive_noise(call, l1, l2)
    distance = l1 if noise.norm == 1 else l2
    low, width = code.low * code.grid, (code.high - code.low) * code.grid
    return BernsteinRelease(call.function, shape, sums, rows, distance, noise, low, width)
