"""Additive noise by name, calibrated to a sensitivity, and the releases made with it.

One integer per group gets noise and is turned into a value of the column's type afterwards,
which is post-processing: counts and sums differ in their measure and their unit only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from dpquery.core.events import Event, Refined
from dpquery.core.privacy import decimal_text
from dpquery.core.source import Span
from dpquery.core.types import INT64, Kind, Type, decimal_value
from dpquery.errors import Diagnostic, PlanRefused, internal
from dpquery.functions.base import Facts, Measured, NoisyCell, Release, Step, without_option
from dpquery.ir.expr import Apply
from dpquery.ir.measures import Measure, l2_sensitivity, sensitivity
from dpquery.ir.query import Call, Scan
from dpquery.ir.walk import nodes_in
from dpquery.mechanisms import (
    PURE,
    AdditiveNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    RefinedLaplace,
)
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.gaussian import GaussianMean
from dpquery.mechanisms.randomness import Randomness
from dpquery.rowfunctions import named

_PURE = {noise.name: noise for noise in PURE}
ADDITIVE = (*(name for name in _PURE if _PURE[name].weight_linear), DiscreteGaussian.name)
"""For several integers that one unit moves together; the first is the default."""
COUNTING = (*ADDITIVE, *(name for name in _PURE if name not in ADDITIVE))
"""For single integers."""
LEVEL = Fraction(95, 100)
"""The confidence at which errors are shown."""
LARGEST = Fraction(sys.float_info.max)


def additive(
    call: Call, facts: Facts, measure: Measure, unit: Fraction, type_: Type
) -> AdditiveRelease:
    """Plan the release of one integer per group.

    Args:
        call: the call, for its function and options.
        facts: what is public where it stands.
        measure: what is counted or summed.
        unit: what one step of the measure is worth in the value.
        type_: the type of the value.
    """
    l1 = max(1, sensitivity(measure, facts.neighbours, grouped=facts.grouped))
    l2 = max(1, l2_sensitivity(measure, facts.neighbours, grouped=facts.grouped))
    noise = additive_noise(call, l1, l2)
    distance = l1 if noise.norm == 1 else l2
    return AdditiveRelease(call.function, measure, distance, noise, unit, type_)


def additive_noise(call: Call, l1: int, l2: Distance) -> AdditiveNoise:
    """Make the noise that a call asks for.

    Raises:
        PlanRefused: DPQ403 the mechanism needs a delta, or has no use for the one given.
    """
    options = call.options
    if options.rho is not None and options.delta is not None:
        return DiscreteGaussian.of_rho(l2, options.rho, options.delta)
    if options.mechanism != DiscreteGaussian.name:
        if options.delta is not None:
            raise needless(call, options.delta_span)
        return _PURE[options.mechanism or ADDITIVE[0]].calibrated(l1, options.epsilon)
    if options.delta is None:
        raise PlanRefused(
            Diagnostic(
                "DPQ403",
                f"{call.function} with mechanism='gaussian' needs delta",
                options.mechanism_span,
                "delta is missing",
                ("Gaussian noise keeps its promise but for a small probability, delta.",),
                (
                    without_option(call, options.mechanism_span),
                    "or add delta=1e-7 to the call, under a policy whose budget has a delta",
                ),
            )
        )
    return DiscreteGaussian.calibrated(l2, options.epsilon, options.delta)


def needless(call: Call, span: Span | None, default: str = ADDITIVE[0]) -> PlanRefused:
    """Refuse a delta where the mechanism spends none."""
    mechanism = call.options.mechanism or default
    return PlanRefused(
        Diagnostic(
            "DPQ403",
            f"{call.function} with mechanism='{mechanism}' has no use for a delta",
            span,
            "this would be passed over",
            ("it keeps its promise without exception, so no delta is spent on it.",),
            (
                without_option(call, span),
                "or add mechanism='gaussian', under a policy whose budget has a delta",
            ),
        )
    )


def significant(amount: Fraction) -> str:
    """Write an error with two significant digits, or all of a whole number: never as zero.

    >>> significant(Fraction(1, 400)), significant(Fraction(12345, 10))
    ('0.0025', '1234')
    """
    if amount >= 100 or not amount:
        return decimal_text(Fraction(round(amount)))
    return decimal_text(Fraction(f"{float(amount):.2g}"))


def in_type(value: Fraction, type_: Type) -> int | Decimal | float:
    """Return a number in a type: rounded half to even, and cut to what the type can hold."""
    match type_.kind:
        case Kind.INTEGER:
            return max(INT64[0], min(INT64[1], round(value)))
        case Kind.DECIMAL:
            most = 10**38 - 1
            code = max(-most, min(most, round(value * 10**type_.scale)))
            return decimal_value(code, type_.scale)
        case _:
            return double(value)


def double(value: Fraction) -> float:
    """Return the nearest double; sums and squares can pass the largest, where they stay."""
    return float(max(-LARGEST, min(LARGEST, value)))


class Ranged(Protocol):
    """Noise of a known law: how far it takes a value from the exact one."""

    name: ClassVar[str]

    def interval(self, noisy: int, confidence: Fraction) -> tuple[int, int]:
        """Return a symmetric range that holds the exact value as often as stated."""
        ...


@dataclass(frozen=True, slots=True)
class AdditiveCell:
    """A noisy count or sum."""

    noisy: int
    unit: Fraction
    type: Type
    noise: Ranged

    @property
    def value(self) -> int | Decimal | float:
        """The value in the type of the answer."""
        return in_type(self.noisy * self.unit, self.type)

    @property
    def mechanism(self) -> str:
        """The name of the noise."""
        return self.noise.name

    @property
    def drawn(self) -> int:
        """The noisy integer."""
        return self.noisy

    def interval(self, confidence: Fraction) -> tuple[object, object]:
        """Give a range, as far below the value as above, that holds the exact one so often."""
        low, high = self.noise.interval(self.noisy, confidence)
        shown = Fraction(self.value)
        margin = max(shown - low * self.unit, high * self.unit - shown)
        margin = _in_steps(margin, self.type)
        return in_type(shown - margin, self.type), in_type(shown + margin, self.type)


def _in_steps(margin: Fraction, type_: Type) -> Fraction:
    """Round a margin up to a multiple of the step between values of an exact type."""
    if type_.kind is Kind.DOUBLE:
        return margin
    return Fraction(-(-margin * 10**type_.scale // 1), 10**type_.scale)


@dataclass(frozen=True, slots=True)
class AdditiveRelease:
    """One integer per group, with additive noise."""

    function: str
    measure: Measure
    distance: Distance
    """In the norm of the noise; at least 1, where all values are one."""
    noise: AdditiveNoise
    unit: Fraction
    type: Type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One measure."""
        return (self.measure,)

    @property
    def mechanism(self) -> AdditiveNoise:
        """The noise."""
        return self.noise

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.noise.event(self.distance)

    def cell(self, drawn: Any, /) -> AdditiveCell | AveragedCell:
        """Return a cell of one noisy integer, or of several draws of one exact one."""
        if isinstance(drawn, tuple):
            return AveragedCell(drawn, self.unit, self.type)
        return AdditiveCell(drawn, self.unit, self.type, self.noise)

    def run(self, exact: Measured, randomness: Randomness) -> list[AdditiveCell]:
        """Draw one noisy value per group."""
        noisy = self.noise.release(exact.values(self.measure), randomness)
        return [AdditiveCell(value, self.unit, self.type, self.noise) for value in noisy]

    def step(self) -> Step:
        """Describe the release in units of the value."""
        return Step(
            function=self.function,
            mechanism=self.noise.name,
            epsilon=self.noise.loss(self.distance).epsilon,
            sensitivity=decimal_text(self.distance * self.unit, 4),
            noise_scale=decimal_text(self.noise.scale_shown * self.unit, 4),
            expected_error=error_of(self.noise, self.unit, self.type),
            weight=self.measure.weight,
        )

    def step_of_found(self, _: Call) -> Step:
        """Describe the release between any bounds."""
        most = "what one unit can change between the bounds"
        return in_terms_of(most, self.step(), self.noise, self.distance)


WIDTH = "the distance between the bounds"


def in_terms_of(most: str, step: Step, noise: AdditiveNoise, distance: Distance) -> Step:
    """Return a step whose noise is said as a multiple of what one unit can change."""
    _, high = noise.interval(0, LEVEL)
    return replace(
        step,
        sensitivity=most,
        noise_scale=f"{short(noise.scale_shown / Fraction(distance))} times as much",
        expected_error=f"± {short(high / Fraction(distance))} times as much",
    )


def short(number: Fraction) -> str:
    """Write a number with three significant digits."""
    return decimal_text(Fraction(f"{float(number):.3g}"))


def error_of(noise: Ranged, unit: Fraction, type_: Type) -> str:
    """Return how far noise takes values of a type, at the confidence at which it is shown."""
    _, high = noise.interval(0, LEVEL)
    return f"± {decimal_text(_in_steps(high * unit, type_), 4)}"


# A count or sum with Gaussian noise, made better by one more draw for the rest of a rho.


Draws = tuple[tuple[Fraction, int], ...]
"""Several noisy integers of one exact one, each with the variance of its noise."""


@dataclass(frozen=True, slots=True)
class AveragedCell:
    """A noisy count or sum that is the mean of several draws."""

    drawn: Draws
    unit: Fraction
    type: Type

    @property
    def _mean(self) -> AdditiveCell:
        noise = GaussianMean(tuple(variance for variance, _ in self.drawn))
        noisy = noise.of([value for _, value in self.drawn])
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

    def cell(self, drawn: Any, /) -> AdditiveCell | AveragedCell:
        """Return a cell of what is wanted."""
        return self.wanted.cell(drawn)


@dataclass(frozen=True, slots=True)
class AveragedRelease(Bettered):
    """One draw per group at the difference in rho, and its mean with the earlier ones.

    It is a release like any other: what it loses is added, whatever the earlier ones were.
    """

    earlier: Sequence[Draws]

    @property
    def mechanism(self) -> DiscreteGaussian:
        """What is drawn once more."""
        noise, distance = self.wanted.noise, self.wanted.distance
        assert isinstance(noise, DiscreteGaussian)  # noqa: S101 - it has a rho
        return DiscreteGaussian.of_rho(distance, noise.rho(distance) - self.before, noise.delta)

    def event(self) -> Event:
        """State what the one more draw loses, at the proven distance."""
        return self.mechanism.event(self.wanted.distance)

    def run(self, exact: Measured, randomness: Randomness) -> list[AveragedCell]:
        """Draw one value per group, and put it beside the earlier ones."""
        wanted, noise = self.wanted, self.mechanism
        noisy = noise.release(exact.values(wanted.measure), randomness)
        return [
            AveragedCell((*draws, (noise.sigma2, value)), wanted.unit, wanted.type)
            for draws, value in zip(self.earlier, noisy, strict=True)
        ]

    def step(self) -> Step:
        """Describe what is wanted, for what is paid."""
        wanted, noise = self.wanted, self.mechanism
        step = replace(wanted.step(), epsilon=noise.loss(wanted.distance).epsilon)
        draws = self.earlier[0] if self.earlier else ()
        mean = GaussianMean((*(variance for variance, _ in draws), noise.sigma2))
        error = error_of(mean, wanted.unit, wanted.type)
        return replace(step, expected_error=error, refines=f"rho={decimal_text(self.before)}")


# A count or sum with less noise in place of one with more, for the difference of both.


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
    """Return what a release stands for: itself, or what is wanted of one that refines."""
    return release.wanted if isinstance(release, Bettered) else release


def paid_before(release: Release) -> Fraction:
    """Return what was paid for earlier of what a release tells."""
    return release.paid if isinstance(release, Bettered) else Fraction(0)


def rate_of(release: Release, scan: Scan) -> Fraction | None:
    """Return what a release from a scan loses, if it can be refined.

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
    """Return whether another processor could find other exact values in the same rows."""
    return any(not named(one.function).exact for one in nodes_in(scan, Apply))


def in_place_of(
    release: AdditiveRelease, before: Fraction, cells: Sequence[NoisyCell]
) -> RefinedRelease | AveragedRelease:
    """Return what is released for the difference, beside earlier values that lost less."""
    noise = release.noise
    if not isinstance(noise, DiscreteGaussian):
        noisy = tuple(cell.noisy for cell in cells if isinstance(cell, AdditiveCell))
        return RefinedRelease(release, before, noisy)
    variance = DiscreteGaussian.of_rho(release.distance, before, noise.delta).sigma2
    return AveragedRelease(release, before, tuple(_draws(cell, variance) for cell in cells))


def _draws(cell: NoisyCell, variance: Fraction) -> Draws:
    match cell:
        case AveragedCell(drawn=draws):
            return draws
        case AdditiveCell(noisy=noisy):
            return ((variance, noisy),)
    raise internal("what is refined is a count or sum")
