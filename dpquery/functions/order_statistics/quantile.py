"""DP_QUANTILE and DP_MEDIAN: a value of the column's own grid, drawn near the rank asked for.

Sensitivity: one unit has a total weight of at most limit * scale in the histogram, so it moves
the rank score of every cell by no more than `rank_range` says. The
exponential mechanism on that score loses twice its rate per such range; values that many rows
share are found exactly, because every cell that covers the rank scores zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from dpquery.core.privacy_loss import Neighbours, decimal_text
from dpquery.errors import refusal
from dpquery.functions import error_floors
from dpquery.functions.additive_releases import (
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
from dpquery.functions.error_floors import Floor
from dpquery.functions.error_options import CONFIDENCE, RANK_ERROR
from dpquery.functions.order_statistics.base import (
    MAX_DRAWS,
    ValueRelease,
    bins_for,
    draw_groups,
    grid_of,
    histogram_for,
    most_weight,
    ranges_for,
    ranks_words,
    refuse_many,
    unfit_mechanism,
    weight_for,
)
from dpquery.functions.quantize import counted, value_of
from dpquery.ir.expr import ColumnRef
from dpquery.ir.measures import Histogram
from dpquery.ir.query import Call
from dpquery.ir.sensitivity import sensitivity
from dpquery.mechanisms import (
    FittedQuantiles,
    GapQuantile,
    GridQuantile,
    IndependentQuantiles,
    JointQuantiles,
    NoisyQuantile,
    RecursiveQuantiles,
    SmoothedJointQuantiles,
    SmoothQuantile,
    ThresholdQuantiles,
    TreeQuantiles,
    joint_move,
    rank_range,
    threshold_cost,
)
from dpquery.mechanisms.quantiles.base import likely_off
from dpquery.mechanisms.randomness import Randomness

HALF = Fraction(1, 2)
OF_RANKS = {kind.name: kind for kind in (GridQuantile, GapQuantile, SmoothQuantile)}
OF_TEACHING = ("laplace", "gaussian")
"""Mechanisms that add noise to the quantile itself."""
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
    def floor(self) -> Floor | None:
        """Compare the rank on any data."""
        if self.steps_beside:
            return None
        most = Fraction(self.mechanism.rank_interval(LEVEL))
        return ranks_floor(self.measure, (self.mechanism.order,), self.epsilon, most)

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
            counted(self.distance / Fraction(weight.scale), "rank"),
            counted(1 / (mechanism.rate * weight.scale), "rank"),
            f"{error}, or {beside} beside such a value" if steps else error,
        )


def ranks_floor(
    measure: Histogram, orders: Iterable[Fraction], epsilon: Fraction, error: Fraction
) -> Floor | None:
    """Compare what a rank is off on any data with the least; the least of a list is of one."""
    code, weight = measure.code, measure.weight
    if not isinstance(code.expr, ColumnRef) or not any(0 < one < 1 for one in orders):
        return None
    rows = error_floors.packed(code.cells - 2, epsilon) * weight.limit
    return error_floors.floor(Fraction(rows - 1, 2), error / weight.scale, "ranks on any data")


# DP_QUANTILE with additive noise: for teaching, since the noise spans the range of all
# values.
#
# Sensitivity: one unit can move a quantile from one bound to the other, however little it
# weighs. So the loss is not in proportion to a unit's weight, and one charge does not cover
# groups.


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
    measure = histogram_for(call, facts, order.denominator)
    code, most = measure.code, most_weight(measure.weight)
    farthest = max(1, code.cells - 1)
    mechanism = NoisyQuantile(order, code.cells, additive_noise(call, farthest, farthest), most)
    return NoisyQuantileRelease(call.function, (measure,), farthest, mechanism, code.expr.type)


# DP_QUANTILE of a list: several values of one column, drawn together at one charge.
#
# Sensitivity: one unit has a total weight of at most limit * scale in the histograms of all
# groups together, so it moves them by that in L1 norm, and by twice that where it is replaced;
# it moves rank scores by no more than `rank_range` says. Every mechanism here loses in
# proportion to how far these move: one charge covers the list, and all groups.


MOST_DRAWN = 64
"""More quantiles than that are read from a tree of counts, if it has a leaf for each value."""
MOST_JOINT = 16
"""Quantiles that are drawn as one list: work grows with the square of their number."""
MOST_JOINT_DRAWN = 144
"""Quantiles of all groups together: by default, nine of them take about 20 ms."""
MOST_FITTED = ((9, Fraction(100)), (MOST_JOINT, Fraction(10)))
"""How many quantiles are fitted up to which epsilon: above, totals lie too close together."""
Orders = tuple[Fraction, ...]


Drawn = (
    RecursiveQuantiles
    | FittedQuantiles
    | IndependentQuantiles
    | JointQuantiles
    | SmoothedJointQuantiles
)
"""Mechanisms whose errors are known where rows are spread evenly."""


@dataclass(frozen=True, slots=True)
class QuantilesRelease(ValueRelease):
    """One list of quantiles per group."""

    mechanism: Drawn | TreeQuantiles | ThresholdQuantiles
    orders: Orders
    """As they were asked for; the mechanism has each once, and rising."""

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[tuple[int, ...]]:
        """Draw the cells of the grid of each group, in the order that was asked for."""
        for cells in draw_groups(self.mechanism, exact, self.measure, randomness):
            of_order = dict(zip(self.mechanism.orders, cells, strict=True))
            yield tuple(of_order[order] for order in self.orders)

    def ranks_off(self, confidence: Fraction, *, any_data: bool = False) -> Fraction | None:
        """Return how many rows the farthest value is off; None where that is not known."""
        most, proven = self.mechanism.ranks_off(confidence)
        if proven and not any_data:
            most = self._likely_off(most, confidence)
        return Fraction(most, self.measure.weight.scale) if proven else None

    def _likely_off(self, most: int, confidence: Fraction) -> int:
        """Return how far off ranks are where rows are spread evenly, if that is known."""
        if not isinstance(self.mechanism, Drawn):
            return most
        return min(most, likely_off(self.mechanism.errors, confidence))

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        weight, mechanism = self.measure.weight, self.mechanism
        widths = [width / weight.scale for width in mechanism.widths]
        shown = dict.fromkeys(decimal_text(end, 4) for end in (min(widths), max(widths)))
        moved = counted(Fraction(self.distance, weight.scale), "row")
        noise = f"{' to '.join(shown)} ranks"
        return Words(moved, noise, self._error())

    @property
    def floor(self) -> Floor | None:
        """Compare the rank that is farthest off, on any data."""
        most, proven = self.mechanism.ranks_off(LEVEL)
        if not proven:
            return None
        return ranks_floor(self.measure, self.orders, self.epsilon, Fraction(most))

    def _error(self) -> str:
        """Return how many rows of full weight the values are off."""
        mechanism, weight = self.mechanism, self.measure.weight
        most, proven = mechanism.ranks_off(LEVEL)
        if proven and isinstance(mechanism, Drawn):
            return ranks_words(mechanism.orders, mechanism.errors, most, weight, LEVEL)
        if proven:
            return f"at most {round(Fraction(most, weight.scale)):,} ranks each"
        likely = round(Fraction(self._likely_off(most, LEVEL), weight.scale))
        width = getattr(mechanism, "width", 1)  # of a range that is not looked into
        within = f"a range of {width:,} values" if width > 1 else "a value that rows share"
        return f"about {likely:,} ranks each, and beside them what {within} holds"


def plan_list(call: Call, orders: Orders, facts: Facts) -> QuantilesRelease:
    """Plan the release of a list.

    Raises:
        NameRefused: DPQ205 a mechanism that answers one quantile.
        PlanRefused: DPQ401 no bounds, DPQ404 too fine a grid or too many quantiles to be drawn
            together, DPQ405 too many groups.
    """
    if call.options.mechanism not in (None, *OF_LISTS):
        raise unfit_mechanism(call, "of a list", OF_LISTS, "one quantile")
    if call.options.delta is not None:
        raise needless(call, call.options.delta_span, OF_LISTS[0])
    code, rising = grid_of(call), tuple(sorted(set(orders)))
    name, why = _chosen(call, len(rising), facts.cells, code.cells)
    if name in {*_JOINT, FittedQuantiles.name}:
        _refuse_joint(call, len(rising), facts.cells)
    if name == FittedQuantiles.name:
        _refuse_slow(call, len(rising))
    one_scan = name in {TreeQuantiles.name, ThresholdQuantiles.name}
    refuse_many(call, facts.cells, 1 if one_scan else len(rising))
    weight = weight_for(call, facts, _denominator(rising))
    measure = Histogram(weight, code, call.condition)
    mechanism, distance = _calibrated(name, rising, measure, call.options.epsilon, facts)
    type_ = replace(code.expr.type, listed=True)
    return QuantilesRelease(
        call.function, (measure,), distance, mechanism, type_, orders, why=why
    )


def _chosen(call: Call, count: int, groups: int, cells: int) -> tuple[str, str]:
    """Choose a mechanism from epsilon, the grid and the numbers of orders and groups; say why.

    A tree has no leaves for a finer grid than its own: what lies within one, and a value that
    many share, throws it off by all that a leaf holds.
    """
    if call.options.mechanism is not None:
        return call.options.mechanism, ""
    if count > MOST_DRAWN and cells <= ranges_for(groups):
        return "tree", f"{count} quantiles: a tree of counts errs alike for any number of them"
    if count > MOST_DRAWN and count * groups > MAX_DRAWS:
        return "tree", f"{count} quantiles of {groups:,} groups: read from one scan"
    if count > 1 and _fits(count, groups) and _is_fitted(call, count):
        return "fitted", f"{count} quantiles: drawn as one list, each errs least"
    return "recursive", f"{count} quantiles: each row is in few of their draws, by halving"


def _fits(count: int, groups: int) -> bool:
    """Say whether so many quantiles of so many groups are drawn as one list in short time."""
    return count <= MOST_JOINT and count * groups <= MOST_JOINT_DRAWN


def _is_fitted(call: Call, count: int) -> bool:
    """Return whether so many quantiles are fitted in short time at the epsilon of a call."""
    return any(count <= most and call.options.epsilon <= large for most, large in MOST_FITTED)


def _refuse_joint(call: Call, count: int, groups: int) -> None:
    """Refuse more quantiles at once than a list of them can be drawn in reasonable time.

    Raises:
        PlanRefused: DPQ404.
    """
    if _fits(count, groups):
        return
    many = count > MOST_JOINT
    raise refusal(
        "DPQ404",
        f"{call.function} draws at most {MOST_JOINT if many else MOST_JOINT_DRAWN} quantiles "
        "together",
        call.options.mechanism_span or call.span,
        f"{count} quantiles" + ("" if many else f" of {groups:,} groups"),
        "drawn as one list, each of them makes the others take longer.",
        ("mechanism='recursive'", "answers more of them"),
    )


def _refuse_slow(call: Call, count: int) -> None:
    """Refuse a list that would not be fitted in reasonable time.

    Raises:
        PlanRefused: DPQ404.
    """
    if _is_fitted(call, count):
        return
    large = next(large for most, large in MOST_FITTED if count <= most)
    raise refusal(
        "DPQ404",
        f"{call.function} fits {count} quantiles up to an eps of {large}",
        call.options.mechanism_span or call.span,
        "eps is larger",
        "the larger it is, the closer lie the totals that are tried.",
        ("mechanism='recursive'", "answers them at any eps"),
    )


def _denominator(orders: Orders) -> int:
    """Return the largest denominator of an order, by itself or within its part."""
    plan = RecursiveQuantiles(orders, 1, Fraction(1), 0).plan
    return max(order.denominator for order in (*orders, *(draw.order for draw in plan)))


_BY_DISTANCE = {kind.name: kind for kind in (RecursiveQuantiles, FittedQuantiles)}
_JOINT = {kind.name: kind for kind in (JointQuantiles, SmoothedJointQuantiles)}
OF_LISTS = (
    *_BY_DISTANCE,
    IndependentQuantiles.name,
    TreeQuantiles.name,
    ThresholdQuantiles.name,
    *_JOINT,
)
"""The mechanisms that answer a list."""


def _calibrated(
    name: str, orders: Orders, measure: Histogram, epsilon: Fraction, facts: Facts
) -> tuple[Drawn | TreeQuantiles | ThresholdQuantiles, int]:
    """Return a mechanism that loses an epsilon, and the distance at which it does."""
    substitution, grouped = facts.neighbours is Neighbours.SUBSTITUTE, facts.grouped
    cells, bins, one = measure.code.cells, bins_for(facts.cells), measure.weight.total
    most = most_weight(measure.weight)
    moved = sensitivity(measure, facts.neighbours, grouped=grouped)
    if name == TreeQuantiles.name:
        leaves = ranges_for(facts.cells)
        return TreeQuantiles.calibrated(orders, cells, moved, epsilon, leaves), moved
    if name == ThresholdQuantiles.name:
        costs = [threshold_cost(p, substitution=substitution, grouped=grouped) for p in orders]
        counts = ThresholdQuantiles.calibrated(orders, cells, costs, one, epsilon)
        return replace(counts, steps=min(counts.steps, bins)), one
    drawn: Drawn
    if name in _BY_DISTANCE:
        distance = moved
        drawn = _BY_DISTANCE[name].calibrated(orders, cells, most, distance, epsilon)
    elif name in _JOINT:
        distance = one
        move = joint_move(orders, substitution=substitution, grouped=grouped)
        drawn = _JOINT[name].calibrated(orders, cells, most, move, distance, epsilon)
    else:
        distance = one
        ranges = [rank_range(p, 1, substitution=substitution, grouped=grouped) for p in orders]
        drawn = IndependentQuantiles.calibrated(orders, cells, most, ranges, one, epsilon)
    return replace(drawn, bins=min(drawn.bins, bins)), distance


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
    measure = histogram_for(call, facts, order.denominator)
    code, weight = measure.code, measure.weight
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
    return QuantileRelease(call.function, (measure,), distance, mechanism, code.expr.type)


QUANTILE = DPFunction(
    name="DP_QUANTILE",
    summary=(
        "A value below which the given share of rows lies: 0.5 is the median. "
        "For a list of shares it gives a list of values, at one charge."
    ),
    positional=(Expression(Takes.ORDERED), Share()),
    gives=Gives.VALUE,
    parameters=(
        EPS,
        RANK_ERROR,
        CONFIDENCE,
        DELTA,
        MAX_ROWS,
        MECHANISM,
        BOUNDS,
        SMOOTH,
        WEIGHTS,
        WEIGHT,
    ),
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
