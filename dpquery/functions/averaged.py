"""A count or sum with Gaussian noise, made better by one more draw for the rest of a rho."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from dpquery.events import Event
from dpquery.functions.base import Measured, Step
from dpquery.functions.noise import AdditiveCell, AdditiveRelease, error_of
from dpquery.ir import Measure
from dpquery.mechanisms import DiscreteGaussian
from dpquery.mechanisms.gaussian_mean import GaussianMean
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import decimal_text
from dpquery.types import Type

__all__ = ["AveragedCell", "AveragedRelease", "Bettered", "Draws"]

Draws = tuple[tuple[Fraction, int], ...]
"""Several noisy integers of one exact one, each with the variance of its noise."""


@dataclass(frozen=True, slots=True)
class AveragedCell:
    """A noisy count or sum that is the mean of several draws."""

    draws: Draws
    unit: Fraction
    type: Type

    @property
    def _mean(self) -> AdditiveCell:
        noise = GaussianMean(tuple(variance for variance, _ in self.draws))
        noisy = noise.of([value for _, value in self.draws])
        return AdditiveCell(noisy, self.unit, self.type, noise)

    @property
    def value(self) -> int | Decimal | float:
        """The value in the type of the answer."""
        return self._mean.value

    @property
    def mechanism(self) -> str:
        """The name of the noise."""
        return GaussianMean.name

    def interval(self, confidence: Fraction) -> tuple[object, object]:
        """Give a range, as far below the value as above, that holds the exact one so often."""
        return self._mean.interval(confidence)


@dataclass(frozen=True, slots=True)
class Bettered:
    """A release beside an earlier one of the same, for what it loses more."""

    wanted: AdditiveRelease
    """What would be released without an earlier one."""
    before: Fraction
    """What that lost: an epsilon at a distance of 1, or a rho."""

    @property
    def paid(self) -> Fraction:
        """What the earlier one lost, at the proven distance."""
        return self.before

    @property
    def type(self) -> Type:
        """That of what is wanted."""
        return self.wanted.type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Those of what is wanted."""
        return self.wanted.measures


@dataclass(frozen=True, slots=True)
class AveragedRelease(Bettered):
    """One draw per group at the difference in rho, and its mean with the earlier ones.

    It is a release like any other: what it loses is added, whatever the earlier ones were.
    """

    earlier: Sequence[Draws]

    @property
    def noise(self) -> DiscreteGaussian:
        """What is drawn once more."""
        noise, distance = self.wanted.noise, self.wanted.distance
        assert isinstance(noise, DiscreteGaussian)  # noqa: S101 - it has a rho
        return DiscreteGaussian.of_rho(distance, noise.rho(distance) - self.before, noise.delta)

    def event(self) -> Event:
        """State what the one more draw loses, at the proven distance."""
        return self.noise.event(self.wanted.distance)

    def run(self, exact: Measured, randomness: Randomness) -> list[AveragedCell]:
        """Draw one value per group, and put it beside the earlier ones."""
        wanted, noise = self.wanted, self.noise
        noisy = noise.release(exact.values(wanted.measure), randomness)
        return [
            AveragedCell((*draws, (noise.sigma2, value)), wanted.unit, wanted.type)
            for draws, value in zip(self.earlier, noisy, strict=True)
        ]

    def step(self) -> Step:
        """Describe what is wanted, for what is paid."""
        wanted, noise = self.wanted, self.noise
        step = replace(wanted.step(), epsilon=noise.loss(wanted.distance).epsilon)
        draws = self.earlier[0] if self.earlier else ()
        mean = GaussianMean((*(variance for variance, _ in draws), noise.sigma2))
        error = error_of(mean, wanted.unit, wanted.type)
        return replace(step, expected_error=error, refines=f"rho={decimal_text(self.before)}")
