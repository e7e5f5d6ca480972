"""Groups that are added up: a count or sum of a larger group, read from smaller ones.

Where groups part all rows, what is released of each adds up to that of their union: it is
post-processing, and costs nothing. Its noise is the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt
from typing import Any, ClassVar, Self

import numpy as np

from dpquery.core.privacy_loss import decimal_text
from dpquery.functions.additive_releases import LEVEL, AdditiveRelease, in_steps, in_type
from dpquery.functions.base import Measured, Release, Step, Words
from dpquery.mechanisms import DiscreteLaplace
from dpquery.mechanisms.randomness import Randomness

WIDEST = 1 << 20
"""Of so many integers the law of a sum is computed; beyond, it is taken as continuous."""
DEVIATIONS, SCALES = 24, 60
"""How far from zero it is, in deviations of the sum and scales of one noise."""


@dataclass(frozen=True, slots=True)
class SumRelease(Release):
    """A count or sum of a group, added up from released ones: nothing is drawn for it."""

    mechanism: DiscreteLaplace
    of: AdditiveRelease
    """What is added up."""
    times: int
    """How many of these."""

    has_interval: ClassVar[bool] = True

    @classmethod
    def made(cls, of: AdditiveRelease, times: int) -> Self:
        """Return what adds up so many cells of a release."""
        noise = of.mechanism
        assert isinstance(noise, DiscreteLaplace)  # noqa: S101 - others are not added up
        return cls(of.function, of.measures, of.distance, noise, of.type, of, times)

    def draw(self, exact: Measured, randomness: Randomness) -> Iterable[object]:
        """Nothing is drawn for it."""
        raise AssertionError("it is read from what was released")

    def value(self, drawn: int) -> Any:
        """Return the value in the type of the answer."""
        return in_type(drawn * self.of.unit, self.type)

    def interval(self, drawn: int, confidence: Fraction) -> tuple[Any, Any]:
        """Return a range, as far below the value as above."""
        noisy, shown = drawn * self.of.unit, Fraction(self.value(drawn))
        margin = in_steps(self.reach(confidence) + abs(shown - noisy), self.type)
        return in_type(shown - margin, self.type), in_type(shown + margin, self.type)

    def reach(self, confidence: Fraction) -> Fraction:
        """Return how far the noise takes the value, so often."""
        if self.times == 1:
            return self.of.reach(confidence)
        return half_width(self.mechanism.scale, self.times, confidence) * self.of.unit

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in units of the value."""
        words = self.of.describe(waiting=waiting)
        error = decimal_text(in_steps(self.reach(LEVEL), self.type), 4)
        return Words(
            words.sensitivity, f"{words.noise_scale}, {self.times} times", f"± {error}"
        )

    def step(self, *, waiting: bool = False) -> Step:
        """Describe it for EXPLAIN: it loses nothing more."""
        return replace(Release.step(self, waiting=waiting), epsilon=Fraction(0))


@lru_cache(maxsize=1024)
def half_width(scale: Fraction, times: int, confidence: Fraction) -> int:
    """Return m with P[|sum of so many discrete Laplace noises| > m] <= 1 - confidence.

    The law is the inverse Fourier transform of a power of that of one noise, on a circle that
    is wide enough. A discrete noise is a difference of two exponential ones, each rounded down;
    so the sum is less than `times` beside that of continuous noises, and for large scales that
    is taken. Of those, one side is ahead by x if fewer than all of its arrivals come until x,
    and the others before the rest: a Poisson number, and tosses of a coin.
    """
    if not 0 < confidence < 1:
        raise ValueError("a confidence lies between 0 and 1")
    size, missed = float(scale), float(1 - confidence)
    far = DEVIATIONS * size * sqrt(2 * times) + SCALES * size + SCALES
    if 2 * far <= WIDEST:
        beyond = 2 * _law(size, times, 1 << ceil(far).bit_length() + 1)[::-1].cumsum()[::-1]
        return int(np.argmax(beyond[1:] <= missed * (1 - 1e-9)))
    from scipy import stats  # it takes longer to load than most queries

    arrivals = np.arange(times)
    behind = stats.binom.sf(times - 1, 2 * times - 1 - arrivals, 0.5)
    low, high = 0.0, far / size
    for _ in range(60):
        middle = (low + high) / 2
        tail = 2 * float(stats.poisson.pmf(arrivals, middle) @ behind)
        low, high = (middle, high) if tail > missed else (low, middle)
    return ceil(high * size * (1 + 1e-9)) + times


def _law(size: float, times: int, width: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the probabilities of sums from 0 on, for half the width of the circle."""
    fallen, angles = -np.expm1(-1 / size), np.pi * np.arange(width // 2 + 1) / width
    one = fallen**2 / (fallen**2 + 4 * (1 - fallen) * np.sin(angles) ** 2)
    law = np.fft.irfft(one**times, width)[: width // 2]
    return np.maximum(law, 0)
