"""DP_QUANTILE and DP_MEDIAN: a value of the column's own grid, drawn near the rank asked for.

Sensitivity: one unit has a total weight of at most limit * scale in the histogram, so it moves
the rank score of every cell by no more than `rank_range` says. The
exponential mechanism on that score loses twice its rate per such range; values that many rows
share are found exactly, because every cell that covers the rank scores zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from dpquery.core.privacy import Neighbours, decimal_text
from dpquery.errors import refusal
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
    WEIGHTS,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Measured,
    Release,
    Share,
    Takes,
    Words,
)
from dpquery.functions.quantile_list import OF_LISTS, plan_list
from dpquery.functions.quantize import (
    ValueRelease,
    bins_for,
    draw_groups,
    grid_of,
    most_weight,
    ranks_words,
    refuse_many,
    unfit_mechanism,
    value_of,
    weight_for,
)
from dpquery.ir.measures import Histogram
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
class NoisyQuantileRelease(ValueRelease):
    """One quantile per group, with additive noise."""

    mechanism: NoisyQuantile

    has_interval: ClassVar[bool] = True

    def draw(self, exact: Measured, randomness: Randomness) -> list[int]:
        """Draw the cell of the grid of each group."""
        return draw_groups(self.mechanism, exact, self.measure, randomness)

    def drawn_by(self, drawn: int | None = None) -> str:
        """Name the noise."""
        return self.mechanism.noise.name

    def interval(self, drawn: int, confidence: Fraction) -> tuple[object, object]:
        """Return a range of the column's values."""
        low, high = self.mechanism.noise.interval(drawn, confidence)
        last = self.mechanism.cells - 1
        return value_of(self.code, max(low, 0)), value_of(self.code, min(high, last))

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in units of the value."""
        grid, noise = self.code.grid, self.mechanism.noise
        if waiting:
            return in_terms_of(WIDTH, noise, self.distance)
        _, high = noise.interval(0, LEVEL)
        return Words(
            decimal_text(self.distance * grid, 4),
            decimal_text(noise.scale_shown * grid, 4),
            f"± {decimal_text(high * grid, 4)}",
        )

    @property
    def note(self) -> str:
        """Say that there is something better."""
        return (
            f"{self.function} with mechanism='{self.mechanism.noise.name}' is for teaching: "
            "its noise spans the range of all values; the default is far nearer"
        )


def plan_noisy(call: Call, order: Fraction, facts: Facts) -> NoisyQuantileRelease:
    """Plan the release of one quantile with additive noise.

    Raises:
        PlanRefused: DPQ401 no bounds, DPQ403 a delta that is missing.
    """
    code, weight = grid_of(call), weight_for(call, facts, order.denominator)
    farthest = max(1, code.cells - 1)
    noise = additive_noise(call, farthest, farthest)
    mechanism = NoisyQuantile(order, code.cells, noise, most_weight(weight))
    measure, type_ = Histogram(weight, code, call.condition), code.expr.type
    return NoisyQuantileRelease(call.function, (measure,), farthest, mechanism, type_)


HALF = Fraction(1, 2)
OF_RANKS = {kind.name: kind for kind in (GridQuantile, GapQuantile, SmoothQuantile)}
OF_ONE = (*OF_RANKS, *OF_TEACHING)
"""The mechanisms that answer one quantile."""


@dataclass(frozen=True, slots=True)
class QuantileRelease(ValueRelease):
    """One quantile per group, by the exponential mechanism on a public grid."""

    mechanism: GridQuantile | GapQuantile | SmoothQuantile

    def draw(self, exact: Measured, randomness: Randomness) -> list[int]:
        """Draw the cell of the grid of each group."""
        return draw_groups(self.mechanism, exact, self.measure, randomness)

    def ranks_off(self, confidence: Fraction, *, any_data: bool = False) -> Fraction | None:
        """Return how many rows of full weight the rank is off; None where it may lie beside."""
        if self.steps_beside:
            return None
        most = self.mechanism.rank_interval(confidence)
        if not any_data:
            most = min(most, likely_off(self.mechanism.errors, confidence))
        return Fraction(most, self.measure.weight.scale)

    @property
    def steps_beside(self) -> int:
        """How far from a value of such a rank the smoothed one may be, in steps of the grid."""
        mechanism = self.mechanism
        if not isinstance(mechanism, SmoothQuantile):
            return 0
        return (mechanism.reach + 1) * mechanism.width - 1

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in ranks, and how far beside such a rank the value may be."""
        mechanism, weight, steps = self.mechanism, self.measure.weight, self.steps_beside
        most = mechanism.rank_interval(LEVEL)
        error = ranks_words((mechanism.order,), mechanism.errors, most, weight, LEVEL)
        beside = f"{steps:,} steps"
        if waiting and not (isinstance(mechanism, SmoothQuantile) and mechanism.smooth):
            beside = f"{short(Fraction(steps, max(self.code.size, 1)))} times {WIDTH}"
        return Words(
            f"{decimal_text(self.distance / Fraction(weight.scale), 4)} in ranks",
            f"{decimal_text(1 / (mechanism.rate * weight.scale), 4)} in ranks",
            f"{error}, or {beside} beside such a value" if steps else error,
        )


def _plan(call: Call, facts: Facts) -> Release:
    if call.options.smooth is not None and call.options.mechanism != SmoothQuantile.name:
        raise refusal(
            "DPQ205",
            "rho_smooth goes with mechanism='inverse_sensitivity'",
            call.options.smooth_span,
            "this would be passed over",
            "other mechanisms find a value that many rows share without it.",
            "mechanism='inverse_sensitivity'",
        )
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
    measure, type_ = Histogram(weight, code, call.condition), code.expr.type
    return QuantileRelease(call.function, (measure,), distance, mechanism, type_)


QUANTILE = DPFunction(
    name="DP_QUANTILE",
    summary=(
        "A value below which the given share of rows lies: 0.5 is the median. "
        "For a list of shares it gives a list of values, at one charge."
    ),
    positional=(Expression(Takes.ORDERED), Share()),
    gives=Gives.VALUE,
    parameters=(EPS, DELTA, MAX_ROWS, MECHANISM, BOUNDS, SMOOTH, WEIGHTS),
    mechanisms=(*OF_ONE, *OF_LISTS),
    plan=_plan,
    example="SELECT DP_QUANTILE(salary, 0.1, eps=1) FROM staff",
)

MEDIAN = replace(
    QUANTILE,
    name="DP_MEDIAN",
    summary="A value below which half of the rows lie.",
    positional=(Expression(Takes.ORDERED),),
    mechanisms=OF_ONE,
    example="SELECT DP_MEDIAN(salary, eps=1) FROM staff",
)
