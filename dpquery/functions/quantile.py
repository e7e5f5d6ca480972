"""DP_QUANTILE and DP_MEDIAN: a value of the column's own grid, drawn near the rank asked for.

Sensitivity: one unit has a total weight of at most limit * scale in the histogram, so it moves
the rank score of every cell by no more than `rank_range` says. The
exponential mechanism on that score loses twice its rate per such range; values that many rows
share are found exactly, because every cell that covers the rank scores zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpquery.core.events import Event
from dpquery.core.privacy import Neighbours, decimal_text
from dpquery.core.types import Type
from dpquery.errors import Diagnostic, NameRefused
from dpquery.functions.additive import (
    LEVEL,
    WIDTH,
    additive_noise,
    in_terms_of,
    needless,
    short,
)
from dpquery.functions.base import (
    BOUNDS,
    DELTA,
    EPS,
    MAX_ROWS,
    MECHANISM,
    SMOOTH,
    WEIGHT,
    WEIGHTS,
    Calibrated,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Measured,
    Release,
    Share,
    Step,
    Takes,
)
from dpquery.functions.quantile_list import OF_LISTS, plan_list
from dpquery.functions.quantize import (
    Asked,
    bins_for,
    draw_groups,
    from_code,
    grid_of,
    most_weight,
    ranks_words,
    refuse_many,
    unfit_mechanism,
    weight_for,
)
from dpquery.ir.measures import Histogram, Measure
from dpquery.ir.query import Call
from dpquery.mechanisms import (
    GapQuantile,
    GridQuantile,
    NoisyQuantile,
    SmoothQuantile,
    rank_range,
)
from dpquery.mechanisms.quantiles.ranks import likely_off
from dpquery.mechanisms.randomness import Randomness

# DP_QUANTILE with additive noise: for teaching, since the noise spans the range of all
# values.
#
# Sensitivity: one unit can move a quantile from one bound to the other, however little it
# weighs. So the loss is not in proportion to a unit's weight, and one charge does not cover
# groups.


OF_TEACHING = ("laplace", "gaussian")
"""Mechanisms that add noise to the quantile itself."""


@dataclass(frozen=True, slots=True)
class NoisyQuantileCell:
    """A released value."""

    code: int
    release: NoisyQuantileRelease

    @property
    def value(self) -> object:
        """The value on the column's own grid."""
        return self._shown(self.code)

    @property
    def mechanism(self) -> str:
        """The name of the noise."""
        return self.release.mechanism.noise.name

    @property
    def drawn(self) -> int:
        """The cell of the grid."""
        return self.code

    def interval(self, confidence: Fraction) -> tuple[object, object]:
        """Return a range of the column's values that holds the exact one so often."""
        low, high = self.release.mechanism.noise.interval(self.code, confidence)
        return self._shown(max(low, 0)), self._shown(
            min(high, self.release.mechanism.cells - 1)
        )

    def _shown(self, cell: int) -> object:
        code = self.release.measure.code
        return from_code(cell + code.origin, code.grid, self.release.type)


@dataclass(frozen=True, slots=True)
class NoisyQuantileRelease:
    """One quantile, with additive noise."""

    function: str
    measure: Histogram
    mechanism: NoisyQuantile
    type: Type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One histogram."""
        return (self.measure,)

    def event(self) -> Event:
        """State the loss between any two quantiles."""
        return self.mechanism.event()

    def cell(self, drawn: Any, /) -> NoisyQuantileCell:
        """Return a cell of what was drawn."""
        return NoisyQuantileCell(drawn, self)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[NoisyQuantileCell]:
        """Draw the value."""
        return [
            NoisyQuantileCell(
                self.mechanism.release(Asked(exact, self.measure, group), randomness), self
            )
            for group in range(exact.groups)
        ]

    def step(self) -> Step:
        """Describe the release in units of the value."""
        grid, noise = self.measure.code.grid, self.mechanism.noise
        _, high = noise.interval(0, LEVEL)
        return Step(
            function=self.function,
            mechanism=noise.name,
            epsilon=self.mechanism.loss().epsilon,
            sensitivity=decimal_text(self.mechanism.sensitivity * grid, 4),
            noise_scale=decimal_text(noise.scale_shown * grid, 4),
            expected_error=f"± {decimal_text(high * grid, 4)}",
            weight=self.measure.weight,
        )

    @property
    def note(self) -> str:
        """Say that there is something better."""
        return (
            f"{self.function} with mechanism='{self.mechanism.noise.name}' is for teaching: "
            "its noise spans the range of all values; the default is far nearer"
        )

    def step_of_found(self, _: Call) -> Step:
        """Describe the release between any bounds."""
        mechanism = self.mechanism
        return in_terms_of(WIDTH, self.step(), mechanism.noise, mechanism.sensitivity)


def plan_noisy(call: Call, order: Fraction, facts: Facts) -> NoisyQuantileRelease:
    """Plan the release of one quantile with additive noise.

    Raises:
        PlanRefused: DPQ401 no bounds, DPQ403 a delta that is missing.
    """
    code, weight = grid_of(call), weight_for(call, facts, order.denominator)
    farthest = max(1, code.cells - 1)
    noise = additive_noise(call, farthest, farthest)
    mechanism = NoisyQuantile(order, code.cells, noise, most_weight(weight))
    measure = Histogram(weight, code, call.condition)
    return NoisyQuantileRelease(call.function, measure, mechanism, code.expr.type)


HALF = Fraction(1, 2)
OF_RANKS = {kind.name: kind for kind in (GridQuantile, GapQuantile, SmoothQuantile)}
OF_ONE = (*OF_RANKS, *OF_TEACHING)
"""The mechanisms that answer one quantile."""


@dataclass(frozen=True, slots=True)
class QuantileCell:
    """A released value; noise alone says in ranks, not in values, how far off it is."""

    code: int
    release: QuantileRelease

    @property
    def value(self) -> object:
        """The value on the column's own grid."""
        code = self.release.measure.code
        return from_code(self.code + code.origin, code.grid, self.release.type)

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return self.release.mechanism.name

    @property
    def drawn(self) -> int:
        """The cell of the grid."""
        return self.code

    def interval(self, confidence: Fraction) -> None:
        """Return nothing: between which values the exact quantile lies is up to the data."""

    def rank_interval(self, confidence: Fraction, *, any_data: bool = False) -> Fraction | None:
        """Return how many rows the value's rank is off; None where it may lie beside."""
        if self.release.steps_beside:
            return None
        proven = self.release.rows_off(confidence)
        return proven if any_data else min(proven, self.release.likely_off(confidence))


@dataclass(frozen=True, slots=True)
class QuantileRelease(Calibrated):
    """One quantile per group, by the exponential mechanism on a public grid."""

    function: str
    measure: Histogram
    distance: Fraction
    mechanism: GridQuantile | GapQuantile | SmoothQuantile
    type: Type

    def cell(self, drawn: Any, /) -> QuantileCell:
        """Return a cell of what was drawn."""
        return QuantileCell(drawn, self)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[QuantileCell]:
        """Draw one value per group."""
        cells = draw_groups(self.mechanism, exact, self.measure, randomness)
        return [QuantileCell(cell, self) for cell in cells]

    def rows_off(self, confidence: Fraction) -> Fraction:
        """Return a bound on the error in rows of full weight, which holds for any data."""
        return Fraction(self.mechanism.rank_interval(confidence), self.measure.weight.scale)

    def likely_off(self, confidence: Fraction) -> Fraction:
        """Return how many rows of full weight the rank is off where rows are spread evenly."""
        off = likely_off(self.mechanism.errors, confidence)
        return Fraction(off, self.measure.weight.scale)

    @property
    def steps_beside(self) -> int:
        """How far from a value of such a rank the smoothed one may be, in steps of the grid."""
        mechanism = self.mechanism
        if not isinstance(mechanism, SmoothQuantile):
            return 0
        return (mechanism.reach + 1) * mechanism.width - 1

    def error(self, beside: str = "") -> str:
        """Return how many ranks the value is off, and how far beside such a rank."""
        steps = self.steps_beside
        far = f", or {beside or f'{steps:,} steps'} beside such a value" if steps else ""
        mechanism, weight = self.mechanism, self.measure.weight
        most = mechanism.rank_interval(LEVEL)
        return ranks_words((mechanism.order,), mechanism.errors, most, weight, LEVEL) + far

    def step(self) -> Step:
        """Describe the release in rows."""
        scale = self.measure.weight.scale
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(self.distance).epsilon,
            sensitivity=f"{decimal_text(self.distance / scale, 4)} in ranks",
            noise_scale=f"{decimal_text(1 / (self.mechanism.rate * scale), 4)} in ranks",
            expected_error=self.error(),
            weight=self.measure.weight,
        )

    def step_of_found(self, call: Call) -> Step:
        """Describe the release between any bounds."""
        if call.options.smooth is not None:
            return self.step()
        share = Fraction(self.steps_beside, max(self.measure.code.size, 1))
        return replace(self.step(), expected_error=self.error(f"{short(share)} times {WIDTH}"))


def _plan(call: Call, facts: Facts) -> Release:
    if call.options.smooth is not None and call.options.mechanism != SmoothQuantile.name:
        raise _unsmoothed(call)
    if isinstance(call.order, tuple):
        return plan_list(call, call.order, facts)
    if call.options.mechanism not in (None, *OF_ONE):
        raise unfit_mechanism(call, "of one order", OF_ONE, "a list")
    order = HALF if call.order is None else call.order
    if call.options.mechanism in OF_TEACHING:
        return plan_noisy(call, order, facts)
    kind = OF_RANKS[call.options.mechanism or GridQuantile.name]
    if call.options.delta is not None:
        raise needless(call, call.options.delta_span, kind.name)
    code = grid_of(call)
    weight = weight_for(call, facts, order.denominator)
    refuse_many(call, facts.cells)
    substitution = facts.neighbours is Neighbours.SUBSTITUTE
    distance = rank_range(order, weight.total, substitution=substitution, grouped=facts.grouped)
    mechanism = kind.calibrated(
        order, code.cells, most_weight(weight), distance, call.options.epsilon
    )
    mechanism = replace(mechanism, bins=min(mechanism.bins, bins_for(facts.cells)))
    if isinstance(mechanism, SmoothQuantile) and call.options.smooth is not None:
        steps = -(-call.options.smooth // code.grid)
        mechanism = replace(mechanism, smooth=min(steps, code.cells))
    measure = Histogram(weight, code, call.condition)
    return QuantileRelease(call.function, measure, distance, mechanism, code.expr.type)


def _unsmoothed(call: Call) -> NameRefused:
    return NameRefused(
        Diagnostic(
            "DPQ205",
            "rho_smooth goes with mechanism='inverse_sensitivity'",
            call.options.smooth_span,
            "this would be passed over",
            ("other mechanisms find a value that many rows share without it.",),
            ("mechanism='inverse_sensitivity'",),
        )
    )


QUANTILE = DPFunction(
    name="DP_QUANTILE",
    summary=(
        "A value below which the given share of rows lies: 0.5 is the median. "
        "For a list of shares it gives a list of values, at one charge."
    ),
    positional=(Expression(Takes.ORDERED), Share()),
    gives=Gives.VALUE,
    parameters=(EPS, WEIGHT, DELTA, MAX_ROWS, MECHANISM, BOUNDS, SMOOTH, WEIGHTS),
    mechanisms=(*OF_ONE, *OF_LISTS),
    plan=_plan,
    example="SELECT DP_QUANTILE(salary, 0.1, eps=1) FROM staff",
)

MEDIAN = DPFunction(
    name="DP_MEDIAN",
    summary="A value below which half of the rows lie.",
    positional=(Expression(Takes.ORDERED),),
    gives=Gives.VALUE,
    parameters=(EPS, WEIGHT, DELTA, MAX_ROWS, MECHANISM, BOUNDS, SMOOTH, WEIGHTS),
    mechanisms=OF_ONE,
    plan=_plan,
    example="SELECT DP_MEDIAN(salary, eps=1) FROM staff",
)
