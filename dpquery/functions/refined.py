"""A count or sum with less noise in place of one with more, for the difference of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.constants import nodes_in
from dpquery.errors import internal
from dpquery.events import Refined
from dpquery.expr import Apply
from dpquery.functions.averaged import AveragedCell, AveragedRelease, Bettered, Draws
from dpquery.functions.base import Measured, NoisyCell, Release, Step
from dpquery.functions.noise import AdditiveCell, AdditiveRelease
from dpquery.ir import Scan
from dpquery.mechanisms import DiscreteGaussian, DiscreteLaplace, RefinedLaplace
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import decimal_text
from dpquery.rowfunctions import named

__all__ = ["RefinedRelease", "in_place_of", "paid_before", "rate_of", "wanted_of"]

MOST_CELLS = 10_000
"""Values are refined one by one; more of them are drawn anew, and paid in full."""


@dataclass(frozen=True, slots=True)
class RefinedRelease(Bettered):
    """One integer per group, drawn given an earlier one with more noise."""

    earlier: tuple[int, ...]

    @property
    def paid(self) -> Fraction:
        """What was lost by the earlier release, at the proven distance."""
        return self.event().before

    @property
    def mechanism(self) -> RefinedLaplace:
        """What draws."""
        return RefinedLaplace(self.before, self.wanted.noise.loss(1).epsilon)

    def event(self) -> Refined:
        """State what is lost beside the earlier release, at the proven distance."""
        return self.mechanism.event(self.wanted.distance)

    def run(self, exact: Measured, randomness: Randomness) -> list[AdditiveCell]:
        """Draw one value per group, in place of the earlier one."""
        wanted, values = self.wanted, exact.values(self.wanted.measure)
        noisy = self.mechanism.release(values, self.earlier, randomness)
        return [AdditiveCell(value, wanted.unit, wanted.type, wanted.noise) for value in noisy]

    def step(self) -> Step:
        """Describe what is wanted, for what is paid."""
        event = self.event()
        step = replace(self.wanted.step(), epsilon=event.after - event.before)
        return replace(step, refines=decimal_text(event.before))


def wanted_of(release: Release) -> Release:
    """Give what a release stands for: itself, or what is wanted of one that refines."""
    return release.wanted if isinstance(release, Bettered) else release


def paid_before(release: Release) -> Fraction:
    """Give what was paid for earlier of what a release tells."""
    return release.paid if isinstance(release, Bettered) else Fraction(0)


def rate_of(release: Release, scan: Scan) -> Fraction | None:
    """Give what a release from a scan loses, if it can be refined.

    That is the epsilon at a distance of 1 of Laplace noise, and the rho of Gaussian noise that
    was asked for in rho.
    """
    if scan.cells > MOST_CELLS or _vague(scan):
        return None
    match release:
        case AdditiveRelease(noise=DiscreteLaplace() as noise):
            return noise.loss(1).epsilon
        case AdditiveRelease(noise=DiscreteGaussian(concentrated=True) as noise):
            return noise.rho(release.distance)
    return None


def _vague(scan: Scan) -> bool:
    """Say whether another processor could find other exact values in the same rows."""
    return any(not named(one.function).exact for one in nodes_in(scan, Apply))


def in_place_of(
    release: AdditiveRelease, before: Fraction, cells: Sequence[NoisyCell]
) -> RefinedRelease | AveragedRelease:
    """Give what is released for the difference, beside earlier values that lost less."""
    noise = release.noise
    if not isinstance(noise, DiscreteGaussian):
        noisy = tuple(cell.noisy for cell in cells if isinstance(cell, AdditiveCell))
        return RefinedRelease(release, before, noisy)
    variance = DiscreteGaussian.of_rho(release.distance, before, noise.delta).sigma2
    return AveragedRelease(release, before, tuple(_draws(cell, variance) for cell in cells))


def _draws(cell: NoisyCell, variance: Fraction) -> Draws:
    match cell:
        case AveragedCell(draws=draws):
            return draws
        case AdditiveCell(noisy=noisy):
            return ((variance, noisy),)
    raise internal("what is refined is a count or sum")
