"""DP_QUANTILE of a list: several values of one column, drawn together at one charge.

Sensitivity: one unit has a total weight of at most limit * scale in the histograms of all
groups together, so it moves them by that in L1 norm, and by twice that where it is replaced;
it moves rank scores by no more than `rank_range` says. Every mechanism here loses in proportion
to how far these move: one charge covers the list, and all groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from dpquery.core.privacy import Neighbours, decimal_text
from dpquery.core.types import Type
from dpquery.errors import Diagnostic, PlanRefused
from dpquery.functions.additive import LEVEL, needless
from dpquery.functions.base import Calibrated, Facts, Measured, Step
from dpquery.functions.quantize import (
    MAX_DRAWS,
    bins_for,
    draw_groups,
    from_code,
    grid_of,
    most_weight,
    ranges_for,
    ranks_words,
    refuse_many,
    unfit_mechanism,
    weight_for,
)
from dpquery.ir.measures import Histogram, Weight, sensitivity
from dpquery.ir.query import Call
from dpquery.mechanisms import (
    FittedQuantiles,
    IndependentQuantiles,
    JointQuantiles,
    Mechanism,
    RecursiveQuantiles,
    SmoothedJointQuantiles,
    ThresholdQuantiles,
    TreeQuantiles,
    joint_move,
    rank_range,
    threshold_cost,
)
from dpquery.mechanisms.quantiles.histogram_tree import Weights
from dpquery.mechanisms.quantiles.ranks import Errors, likely_off
from dpquery.mechanisms.randomness import Randomness

MOST_DRAWN = 64
"""More quantiles than that are read from a tree of counts, if it has a leaf for each value."""
MOST_JOINT = 16
"""Quantiles that are drawn as one list: work grows with the square of their number."""
MOST_JOINT_DRAWN = 144
"""Quantiles of all groups together: by default, nine of them take about 20 ms."""
MOST_FITTED = ((9, Fraction(100)), (MOST_JOINT, Fraction(10)))
"""How many quantiles are fitted up to which epsilon: above, totals lie too close together."""
Orders = tuple[Fraction, ...]


class ListMechanism(Mechanism, Protocol):
    """Returns a cell for each of several orders."""

    @property
    def orders(self) -> Orders:
        """Each order once, and rising."""
        ...

    @property
    def cells(self) -> int:
        """How many cells the grid has."""
        ...

    @property
    def widths(self) -> list[Fraction]:
        """How widely each draw errs, in weight."""
        ...

    def release(self, histogram: Weights, randomness: Randomness) -> list[int]:
        """Draw a cell for each order; they rise or stay."""
        ...

    def ranks_off(self, confidence: Fraction) -> tuple[int, bool]:
        """Return how far off the ranks are, in weight, so often; and whether that is proven."""
        ...


@runtime_checkable
class DrawsRanks(Protocol):
    """A mechanism of which errors are known where rows are spread evenly."""

    @property
    def errors(self) -> Errors:
        """For each order the scales of the errors that add up to its own."""
        ...


def _within(mechanism: ListMechanism) -> str:
    """Name what a mechanism does not look into."""
    width = mechanism.width if isinstance(mechanism, HasRanges) else 1
    return f"a range of {width:,} values" if width > 1 else "a value that rows share"


@runtime_checkable
class HasRanges(Protocol):
    """A mechanism that parts the grid into ranges of several values."""

    @property
    def width(self) -> int:
        """How many values a range has."""
        ...


@dataclass(frozen=True, slots=True)
class QuantilesCell:
    """A released list; noise alone says in ranks, not in values, how far off it is."""

    codes: tuple[int, ...]
    release: QuantilesRelease

    @property
    def value(self) -> list[object]:
        """The values on the column's own grid, in the order that was asked for."""
        code, element = self.release.measure.code, replace(self.release.type, listed=False)
        return [from_code(cell + code.origin, code.grid, element) for cell in self.codes]

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return self.release.mechanism.name

    @property
    def drawn(self) -> tuple[int, ...]:
        """The cells of the grid."""
        return self.codes

    def interval(self, confidence: Fraction) -> None:
        """Return nothing: between which values the exact quantiles lie is up to the data."""

    def rank_interval(self, confidence: Fraction, *, any_data: bool = False) -> Fraction | None:
        """Return how many rows the farthest value is off; None where that is not known."""
        mechanism = self.release.mechanism
        most, proven = mechanism.ranks_off(confidence)
        if proven and not any_data and isinstance(mechanism, DrawsRanks):
            most = min(most, likely_off(mechanism.errors, confidence))
        return Fraction(most, self.release.measure.weight.scale) if proven else None


@dataclass(frozen=True, slots=True)
class QuantilesRelease(Calibrated):
    """One list of quantiles per group."""

    function: str
    measure: Histogram
    distance: int
    mechanism: ListMechanism
    orders: Orders
    """As they were asked for; the mechanism has each once, and rising."""
    type: Type
    why: str

    def cell(self, drawn: Any, /) -> QuantilesCell:
        """Return a cell of what was drawn."""
        return QuantilesCell(drawn, self)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[QuantilesCell]:
        """Draw one list per group."""
        lists = draw_groups(self.mechanism, exact, self.measure, randomness)
        return [QuantilesCell(self._as_asked(cells), self) for cells in lists]

    def _as_asked(self, cells: Sequence[int]) -> tuple[int, ...]:
        of_order = dict(zip(self.mechanism.orders, cells, strict=True))
        return tuple(of_order[order] for order in self.orders)

    def _error(self) -> str:
        """Return how many rows of full weight the values are off."""
        mechanism = self.mechanism
        most, proven = mechanism.ranks_off(LEVEL)
        if not proven:
            if isinstance(mechanism, DrawsRanks):
                most = min(most, likely_off(mechanism.errors, LEVEL))
            beside = f"beside them what {_within(mechanism)} holds"
            return f"about {round(most / self._scale):,} ranks each, and {beside}"
        if not isinstance(mechanism, DrawsRanks):
            return f"at most {round(most / self._scale):,} ranks each"
        weight = self.measure.weight
        return ranks_words(mechanism.orders, mechanism.errors, most, weight, LEVEL)

    @property
    def _scale(self) -> Fraction:
        return Fraction(self.measure.weight.scale)

    def step(self) -> Step:
        """Describe the release in rows."""
        widths = [width / self._scale for width in self.mechanism.widths]
        shown = dict.fromkeys(decimal_text(end, 4) for end in (min(widths), max(widths)))
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(self.distance).epsilon,
            sensitivity=f"{decimal_text(self.distance / self._scale, 4)} in weight of rows",
            noise_scale=f"{' to '.join(shown)} in ranks",
            expected_error=self._error(),
            weight=self.measure.weight,
            why=self.why,
        )


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
    if name in _JOINT:
        _refuse_joint(call, len(rising), facts.cells)
    if name == FittedQuantiles.name:
        _refuse_slow(call, len(rising))
    refuse_many(call, facts.cells, 1 if name in _OF_ONE_SCAN else len(rising))
    weight = weight_for(call, facts, _denominator(rising))
    measure = Histogram(weight, code, call.condition)
    asked = _Asked(rising, code.cells, weight, call.options.epsilon, facts)
    mechanism, distance = _PLANNERS[name](asked, measure)
    listed = replace(code.expr.type, listed=True)
    return QuantilesRelease(call.function, measure, distance, mechanism, orders, listed, why)


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
    most = MOST_JOINT if count > MOST_JOINT else MOST_JOINT_DRAWN
    drawn = f"{count} quantiles" + (f" of {groups:,} groups" if count <= MOST_JOINT else "")
    raise PlanRefused(
        Diagnostic(
            "DPQ404",
            f"{call.function} draws at most {most} quantiles together",
            call.options.mechanism_span or call.span,
            drawn,
            ("drawn as one list, each of them makes the others take longer.",),
            ("mechanism='recursive'", "answers more of them"),
        )
    )


def _refuse_slow(call: Call, count: int) -> None:
    """Refuse a list that would not be fitted in reasonable time.

    Raises:
        PlanRefused: DPQ404.
    """
    if _is_fitted(call, count):
        return
    large = next(large for most, large in MOST_FITTED if count <= most)
    raise PlanRefused(
        Diagnostic(
            "DPQ404",
            f"{call.function} fits {count} quantiles up to an eps of {large}",
            call.options.mechanism_span or call.span,
            "eps is larger",
            ("the larger it is, the closer lie the totals that are tried.",),
            ("mechanism='recursive'", "answers them at any eps"),
        )
    )


def _denominator(orders: Orders) -> int:
    """Return the largest denominator of an order, by itself or within its part."""
    plan = RecursiveQuantiles(orders, 1, Fraction(1), 0).plan
    return max(order.denominator for order in (*orders, *(draw.order for draw in plan)))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a mechanism is planned from."""

    orders: Orders
    cells: int
    weight: Weight
    epsilon: Fraction
    facts: Facts

    @property
    def bins(self) -> int:
        return bins_for(self.facts.cells)


Planned = tuple[ListMechanism, int]


def _recursive(asked: _Asked, measure: Histogram) -> Planned:
    return _by_distance(RecursiveQuantiles, asked, measure)


def _fitted(asked: _Asked, measure: Histogram) -> Planned:
    return _by_distance(FittedQuantiles, asked, measure)


def _by_distance(
    kind: type[RecursiveQuantiles | FittedQuantiles], asked: _Asked, measure: Histogram
) -> Planned:
    distance = sensitivity(measure, asked.facts.neighbours, grouped=asked.facts.grouped)
    most = most_weight(asked.weight)
    mechanism = kind.calibrated(asked.orders, asked.cells, most, distance, asked.epsilon)
    return replace(mechanism, bins=min(mechanism.bins, asked.bins)), distance


def _independent(asked: _Asked, measure: Histogram) -> Planned:
    substitution = asked.facts.neighbours is Neighbours.SUBSTITUTE
    ranges = [
        rank_range(order, 1, substitution=substitution, grouped=asked.facts.grouped)
        for order in asked.orders
    ]
    distance, most = measure.weight.total, most_weight(asked.weight)
    mechanism = IndependentQuantiles.calibrated(
        asked.orders, asked.cells, most, ranges, distance, asked.epsilon
    )
    return replace(mechanism, bins=min(mechanism.bins, asked.bins)), distance


def _joint(asked: _Asked, measure: Histogram) -> Planned:
    return _drawn_together(JointQuantiles, asked, measure)


def _smoothed_joint(asked: _Asked, measure: Histogram) -> Planned:
    return _drawn_together(SmoothedJointQuantiles, asked, measure)


def _drawn_together(
    kind: type[JointQuantiles | SmoothedJointQuantiles], asked: _Asked, measure: Histogram
) -> Planned:
    substitution = asked.facts.neighbours is Neighbours.SUBSTITUTE
    move = joint_move(asked.orders, substitution=substitution, grouped=asked.facts.grouped)
    distance, most = measure.weight.total, most_weight(asked.weight)
    mechanism = kind.calibrated(asked.orders, asked.cells, most, move, distance, asked.epsilon)
    return replace(mechanism, bins=min(mechanism.bins, asked.bins)), distance


def _tree(asked: _Asked, measure: Histogram) -> Planned:
    distance = sensitivity(measure, asked.facts.neighbours, grouped=asked.facts.grouped)
    leaves = ranges_for(asked.facts.cells)
    return (
        TreeQuantiles.calibrated(asked.orders, asked.cells, distance, asked.epsilon, leaves),
        distance,
    )


def _thresholds(asked: _Asked, measure: Histogram) -> Planned:
    substitution = asked.facts.neighbours is Neighbours.SUBSTITUTE
    costs = [
        threshold_cost(order, substitution=substitution, grouped=asked.facts.grouped)
        for order in asked.orders
    ]
    distance = measure.weight.total
    mechanism = ThresholdQuantiles.calibrated(
        asked.orders, asked.cells, costs, distance, asked.epsilon
    )
    return replace(mechanism, steps=min(mechanism.steps, asked.bins)), distance


_PLANNERS: dict[str, Callable[[_Asked, Histogram], Planned]] = {
    "recursive": _recursive,
    "fitted": _fitted,
    "independent": _independent,
    "tree": _tree,
    "histogram": _thresholds,
    "joint": _joint,
    "smoothed_joint": _smoothed_joint,
}
_JOINT = frozenset({"joint", "smoothed_joint", "fitted"})
_OF_ONE_SCAN = frozenset({"tree", "histogram"})
OF_LISTS = tuple(_PLANNERS)
"""The mechanisms that answer a list."""
