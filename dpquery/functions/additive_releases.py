"""Additive noise by name, calibrated to a sensitivity, and the releases made with it.

One integer per group gets noise and is turned into a value of the column's type afterwards,
which is post-processing: counts and sums differ in their measure and their unit only.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any, ClassVar, Self

from dpquery.core.privacy_loss import decimal_text
from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN, INT64, Kind, Type, decimal_value
from dpquery.errors import QueryRefused, refusal
from dpquery.functions import error_floors
from dpquery.functions.base import (
    Facts,
    Measured,
    NoisyCell,
    Release,
    Step,
    Words,
    without_option,
)
from dpquery.functions.error_floors import Floor
from dpquery.ir.expr import ColumnRef
from dpquery.ir.measures import CountRows, CountUnits, Measure, SumCodes, SumValues
from dpquery.ir.query import Call, Wanted
from dpquery.ir.sensitivity import l2_sensitivity, sensitivity
from dpquery.mechanisms import (
    PURE,
    AdditiveNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Mechanism,
    RefinedLaplace,
)
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.gaussian import GaussianMean
from dpquery.mechanisms.randomness import Randomness

Draws = tuple[tuple[Fraction, int], ...]
"""Several noisy integers of one exact one, each with the variance of its noise."""
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
    """Plan the release of one integer per group, of which a step is worth one unit of value."""
    l1 = max(1, sensitivity(measure, facts.neighbours, grouped=facts.grouped))
    l2 = max(1, l2_sensitivity(measure, facts.neighbours, grouped=facts.grouped))
    noise = additive_noise(call, l1, l2)
    distance = l1 if noise.norm == 1 else l2
    return AdditiveRelease(call.function, (measure,), distance, noise, type_, unit)


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
        raise refusal(
            "DPQ403",
            f"{call.function} with mechanism='gaussian' needs delta",
            options.mechanism_span,
            "delta is missing",
            "Gaussian noise keeps its promise but for a small probability, delta.",
            (
                without_option(call, options.mechanism_span),
                "or add delta=1e-7 to the call, under a policy whose budget has a delta",
            ),
        )
    return DiscreteGaussian.calibrated(l2, options.epsilon, options.delta)


def needless(call: Call, span: Span | None, default: str = ADDITIVE[0]) -> QueryRefused:
    """Refuse a delta where the mechanism spends none."""
    mechanism = call.options.mechanism or default
    return refusal(
        "DPQ403",
        f"{call.function} with mechanism='{mechanism}' has no use for a delta",
        span,
        "this would be passed over",
        "it keeps its promise without exception, so no delta is spent on it.",
        (
            without_option(call, span),
            "or add mechanism='gaussian', under a policy whose budget has a delta",
        ),
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


def in_steps(margin: Fraction, type_: Type) -> Fraction:
    """Round a margin up to a multiple of the step between values of an exact type."""
    if type_.kind is Kind.DOUBLE:
        return margin
    return Fraction(-(-margin * 10**type_.scale // 1), 10**type_.scale)


def _rounded_off(unit: Fraction, type_: Type) -> Fraction:
    """Return how far rounding to a type may take multiples of a unit."""
    whole = type_.kind is Kind.DOUBLE or (unit * 10**type_.scale).denominator == 1
    return Fraction(0) if whole else Fraction(1, 2 * 10**type_.scale)


@dataclass(frozen=True, slots=True)
class AdditiveRelease(Release):
    """One integer per group, with additive noise; or several draws of it, and their mean."""

    mechanism: AdditiveNoise
    unit: Fraction
    """What one step of the measure is worth in the value."""

    has_interval: ClassVar[bool] = True

    def draw(self, exact: Measured, randomness: Randomness) -> list[int]:
        """Draw one noisy integer per group."""
        return self.mechanism.release(exact.values(self.measure), randomness)

    def _law(self, drawn: Any) -> tuple[AdditiveNoise | GaussianMean, int]:
        """Return the noise of what was drawn, and the noisy integer."""
        if not isinstance(drawn, tuple):
            return self.mechanism, drawn
        mean = GaussianMean(tuple(variance for variance, _ in drawn))
        return mean, mean.of([value for _, value in drawn])

    def value(self, drawn: Any) -> int | Decimal | float:
        """Return the value in the type of the answer."""
        return in_type(self._law(drawn)[1] * self.unit, self.type)

    def drawn_by(self, drawn: Any = None) -> str:
        """Name the noise."""
        return self._law(drawn)[0].name

    def interval(self, drawn: Any, confidence: Fraction) -> tuple[object, object]:
        """Return a range, as far below the value as above."""
        noise, noisy = self._law(drawn)
        low, high = noise.interval(noisy, confidence)
        shown = Fraction(self.value(drawn))
        margin = max(shown - low * self.unit, high * self.unit - shown)
        margin = in_steps(margin, self.type)
        return in_type(shown - margin, self.type), in_type(shown + margin, self.type)

    def reach(self, confidence: Fraction) -> Fraction:
        """Return how far the noise takes the value, so often."""
        _, high = self.mechanism.interval(0, confidence)
        return high * self.unit

    def meets(self, wanted: Wanted) -> bool:
        """Compare the interval of the noise, and what is rounded off to the type."""
        far = self.reach(wanted.confidence) + _rounded_off(self.unit, self.type)
        return far <= wanted.error

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in units of the value."""
        if waiting:
            most = "as much as the bounds allow"
            return in_terms_of(most, self.mechanism, self.distance)
        return Words(
            decimal_text(self.distance * self.unit, 4),
            decimal_text(self.mechanism.scale_shown * self.unit, 4),
            self.error_of(self.mechanism),
        )

    @property
    def floor(self) -> Floor | None:
        """Compare with the least noise of what moves by steps; whole ones are whole off."""
        measure, step = self.measure, self.distance * self.unit
        if self.mechanism.norm != 1 or not reaches(measure, self.distance):
            return None
        _, high = self.mechanism.interval(0, LEVEL)
        least = error_floors.in_steps_of_noise(self.epsilon) * Fraction(step)
        least = in_steps(least, self.type) if measure.weight.plain else least
        noise, counts = (
            sqrt(2) * float(self.mechanism.scale_shown),
            isinstance(measure, CountRows),
        )
        beside = (noise, sqrt(error_floors.ROWS)) if counts and measure.weight.plain else None
        return error_floors.floor(least, in_steps(high * self.unit, self.type), "", beside)

    def error_of(self, noise: AdditiveNoise | GaussianMean) -> str:
        """Return how far noise takes the values, at the confidence at which it is shown."""
        _, high = noise.interval(0, LEVEL)
        return f"± {decimal_text(in_steps(high * self.unit, self.type), 4)}"

    def question(self) -> tuple[object, ...]:
        """Say what it is of, whatever its noise."""
        name = self.mechanism.name
        return self.function, self.measure, self.distance, name, self.unit, self.type

    @property
    def rate(self) -> Fraction | None:
        """What it loses, if it can be refined.

        That is the epsilon at a distance of 1 of Laplace noise, and the rho of Gaussian noise
        that was asked for in rho.
        """
        match self.mechanism:
            case DiscreteLaplace() as noise:
                return noise.loss(1).epsilon
            case DiscreteGaussian(concentrated=True) as noise:
                return noise.rho(self.distance)
        return None


def reaches(measure: Measure, distance: Distance) -> bool:
    """Return whether units can each add so much: where bounds are of a column, they are met."""
    match measure:
        case SumValues():
            return False
        case SumCodes(code=code):
            known = isinstance(code.expr, ColumnRef) or code.expr.type == BOOLEAN
            return known and sensitivity(measure) == distance
        case CountRows():
            return sensitivity(measure) == distance
        case CountUnits(weight=weight):
            return weight.limit == 1 and sensitivity(measure) == distance
    return False


WIDTH = "the distance between the bounds"


def in_terms_of(most: str, noise: AdditiveNoise, distance: Distance) -> Words:
    """Return the amounts of noise as multiples of what one unit can change."""
    _, high = noise.interval(0, LEVEL)
    return Words(
        most,
        f"{short(noise.scale_shown / Fraction(distance))} times as much",
        f"± {short(high / Fraction(distance))} times as much",
    )


def short(number: Fraction) -> str:
    """Write a number with three significant digits."""
    return decimal_text(Fraction(f"{float(number):.3g}"))


# A count or sum that refines an earlier one, for the difference of what both lose.


@dataclass(frozen=True, slots=True)
class Refinement(Release):
    """A release beside an earlier one of the same, for what it loses more."""

    asked: AdditiveRelease
    """What would be released without an earlier one."""
    before: Fraction
    """What that lost: an epsilon at a distance of 1, or a rho."""
    earlier: Sequence[Any]
    """What was drawn then, for each group."""

    @classmethod
    def of(cls, asked: AdditiveRelease, before: Fraction, earlier: Sequence[Any]) -> Self:
        """Return what refines such values."""
        noise = cls.noise(asked, before)
        place = asked.function, asked.measures, asked.distance, noise, asked.type
        return cls(*place, asked, before, earlier)

    @staticmethod
    @abstractmethod
    def noise(asked: AdditiveRelease, before: Fraction) -> Mechanism:
        """Return what is drawn for the difference."""

    @property
    def wanted(self) -> AdditiveRelease:
        """What was asked."""
        return self.asked

    def cell(self, drawn: Any) -> NoisyCell:
        """Return a cell of what was asked."""
        return self.asked.cell(drawn)

    def value(self, drawn: Any) -> int | Decimal | float:
        """Return the value in the type of the answer."""
        return self.asked.value(drawn)

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts of what was asked."""
        return self.asked.describe(waiting=waiting)


@dataclass(frozen=True, slots=True)
class AveragedRelease(Refinement):
    """One Gaussian draw per group at the difference in rho, and its mean with the earlier ones.

    It is a release like any other: what it loses is added, whatever the earlier ones were.
    """

    mechanism: DiscreteGaussian

    @staticmethod
    def noise(asked: AdditiveRelease, before: Fraction) -> DiscreteGaussian:
        """Return the noise of one more draw."""
        whole, distance = asked.mechanism, asked.distance
        assert isinstance(whole, DiscreteGaussian)  # noqa: S101 - it has a rho
        return DiscreteGaussian.of_rho(distance, whole.rho(distance) - before, whole.delta)

    @property
    def paid(self) -> Fraction:
        """The rho of the earlier draws."""
        return self.before

    def draw(self, exact: Measured, randomness: Randomness) -> list[Draws]:
        """Draw one value per group, and put it beside the earlier ones."""
        noisy = self.mechanism.release(exact.values(self.measure), randomness)
        pairs = zip(self.earlier, noisy, strict=True)
        return [(*draws, (self.mechanism.sigma2, value)) for draws, value in pairs]

    def step(self, *, waiting: bool = False) -> Step:
        """Describe what was asked, for what is paid."""
        draws = self.earlier[0] if self.earlier else ()
        mean = GaussianMean((*(variance for variance, _ in draws), self.mechanism.sigma2))
        return replace(
            self.asked.step(),
            epsilon=self.epsilon,
            expected_error=self.asked.error_of(mean),
            refines=f"rho={decimal_text(self.before)}",
        )


@dataclass(frozen=True, slots=True)
class RefinedRelease(Refinement):
    """One integer per group, drawn given an earlier one with more Laplace noise."""

    mechanism: RefinedLaplace

    @staticmethod
    def noise(asked: AdditiveRelease, before: Fraction) -> RefinedLaplace:
        """Return what draws given an earlier value."""
        return RefinedLaplace(before, asked.mechanism.loss(1).epsilon)

    @property
    def paid(self) -> Fraction:
        """What the earlier release lost, at the proven distance."""
        return self.mechanism.event(self.distance).before

    def draw(self, exact: Measured, randomness: Randomness) -> list[int]:
        """Draw one value per group, in place of the earlier one."""
        return self.mechanism.release(exact.values(self.measure), self.earlier, randomness)

    def step(self, *, waiting: bool = False) -> Step:
        """Describe what was asked, for what is paid."""
        event = self.mechanism.event(self.distance)
        paid, refines = event.after - event.before, decimal_text(event.before)
        return replace(self.asked.step(), epsilon=paid, refines=refines)


def in_place_of(
    release: AdditiveRelease, before: Fraction, cells: Sequence[NoisyCell]
) -> Refinement:
    """Return what is released for the difference, beside earlier values that lost less."""
    noise, drawn = release.mechanism, [cell.drawn for cell in cells]
    if not isinstance(noise, DiscreteGaussian):
        return RefinedRelease.of(release, before, tuple(drawn))
    variance = DiscreteGaussian.of_rho(release.distance, before, noise.delta).sigma2
    draws = (one if isinstance(one, tuple) else ((variance, one),) for one in drawn)
    return AveragedRelease.of(release, before, tuple(draws))
