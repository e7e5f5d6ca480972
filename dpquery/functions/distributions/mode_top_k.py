"""Functions that choose among the public values of a column: DP_MODE, DP_TOP_K, DP_MAJORITY.

Sensitivity: a unit adds at most limit * scale to the weights of all values together, in all
groups together. Where it is added or removed, all weights move in one direction; so the
largest and the smallest change in each group are at most its weight there apart, and add up to
no more than that over the groups. Where it is replaced, what one value loses stands against
what another gains: twice as much, with groups or without.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, time
from fractions import Fraction

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import BOOLEAN, Kind
from dpquery.errors import PlanRefused, QueryRefused, Worded, refusal
from dpquery.functions import error_floors
from dpquery.functions.additive_releases import LEVEL
from dpquery.functions.base import (
    EPS,
    MAX_ROWS,
    MECHANISM,
    WEIGHT,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Measured,
    Number,
    Release,
    Takes,
    Words,
)
from dpquery.functions.count_sum import both
from dpquery.functions.error_floors import Floor
from dpquery.functions.example_bounds import example_values
from dpquery.functions.order_statistics.base import ValueRelease, too_many_groups
from dpquery.functions.quantize import code_of, in_rows
from dpquery.ir.expr import Code, ColumnRef, Not, Scalar
from dpquery.ir.measures import CountRows, Histogram, Weight
from dpquery.ir.query import Call
from dpquery.ir.sensitivity import sensitivity
from dpquery.mechanisms import (
    DiscreteLaplace,
    FiniteExponential,
    LargestNoisyCounts,
    Majority,
    NoisyTop,
    PermuteAndFlip,
)
from dpquery.mechanisms.randomness import Randomness

MOST_VALUES = 1 << 14
"""More values than that are not chosen among."""
MOST_WEIGHTS = 1 << 22
"""Weights of all groups together."""


def cells_distance(weight: Weight, neighbours: Neighbours) -> int:
    """Return how far apart the largest and smallest change of a weight are, over all groups."""
    return weight.total * (2 if neighbours is Neighbours.SUBSTITUTE else 1)


def listed_histogram(call: Call, facts: Facts) -> Histogram:
    """Return the weights of a column's public values.

    Raises:
        PlanRefused: DPQ402 they are not public, DPQ404 there are too many, DPQ405 too many
            groups.
        NameRefused: DPQ205 the bounds asked for lie outside the column's.
    """
    (about,) = call.inputs
    argument = about.expr
    listed = about.listed or (argument.keys if isinstance(argument, ColumnRef) else None)
    if listed:
        keys = tuple(sorted(listed, key=_order))
        code = Code(argument, Fraction(1), 0, len(keys) - 1, values=keys)
        return small_histogram(call, facts, code)
    if argument.type.kind is not Kind.TEXT:
        try:
            return small_histogram(call, facts, code_of(call, origin_at_low=True))
        except PlanRefused as refused:
            if refused.code != "DPQ401":
                raise
    raise _private(call)


def _order(value: Scalar) -> int | Fraction | str | date | time:
    return value


def small_histogram(call: Call, facts: Facts, code: Code) -> Histogram:
    """Return the weights of a code's values, each of which is asked for in each group.

    Raises:
        PlanRefused: DPQ404 there are too many values, DPQ405 too many groups.
    """
    if code.cells > MOST_VALUES:
        bounds = ", bounds='auto'" if call.options.auto else ""
        remedy = f"DP_MEDIAN({call.written}, eps=0.5{bounds})"
        if code.expr.type.kind is Kind.TEXT:
            remedy = _of_named(call)
        raise refusal(
            "DPQ404",
            f"{call.function} chooses among {MOST_VALUES:,} values at most",
            code.expr.span,
            f"{code.cells:,} values",
            "each public value is weighed, whether or not a row has it.",
            remedy,
        )
    most = MOST_WEIGHTS // code.cells
    if facts.cells > most:
        label, why = f"{facts.cells:,} groups", f"each group weighs {code.cells:,} values."
        raise too_many_groups(call, f"{most:,} groups", label, why)
    return Histogram(facts.cell_weight(call), code, call.condition)


def _private(call: Call) -> QueryRefused:
    owner = f"or ask the data owner to state keys or bounds of {call.written} in the policy"
    return refusal(
        "DPQ402",
        f"the values of {call.written} are not public",
        call.inputs[0].expr.span,
        "its values are private",
        (
            "one of the values is shown, and it could be one that a single person has,",
            "so it is chosen among values that are known before the data is read.",
        ),
        (*((_of_named(call),) if call.condition is None else ()), Worded(owner)),
    )


def _of_named(call: Call) -> str:
    """Write the call over rows whose values it names: two of them."""
    few = call.number is None or call.number <= 2
    asked = call.text if few else f"{call.function}({call.written}, 2, eps=0.5)"
    values = example_values(call.inputs[0].expr.type)
    return f"{asked} FILTER (WHERE {call.written} IN ({values}))"


@dataclass(frozen=True, slots=True)
class ChosenRelease(ValueRelease):
    """Values that are chosen in each group by the weights of all."""

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[object]:
        """Draw the places of the values of each group."""
        for group in range(exact.groups):
            weights = exact.histogram(self.measure, group, 0, self.code.cells, 1)
            yield self.chosen([int(weight) for weight in weights.tolist()], randomness)

    def rows(self, amount: int) -> str:
        """Write an amount of weight as whole rows."""
        return f"{-(-amount // self.measure.weight.scale):,} rows"

    @abstractmethod
    def chosen(self, weights: list[int], randomness: Randomness) -> object:
        """Choose a place, or several, by the weights of one group."""


# DP_MODE: the value that most rows have, among the public values of a column. A value that
# nobody has can be shown, where few rows have any.


@dataclass(frozen=True, slots=True)
class ModeRelease(ChosenRelease):
    """One of the values per group."""

    mechanism: PermuteAndFlip | FiniteExponential

    def chosen(self, weights: list[int], randomness: Randomness) -> int:
        """Choose a value."""
        return self.mechanism.release(weights, randomness)

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        lacking = self.mechanism.shortfall(self.code.cells, LEVEL)
        return Words(
            in_rows(self.measure.weight, self.distance),
            in_rows(self.measure.weight, 1 / self.mechanism.rate),
            f"at most {self.rows(lacking)} fewer than the mode",
        )

    @property
    def floor(self) -> Floor | None:
        """Compare what is lacking at most."""
        weight, cells = self.measure.weight, self.code.cells
        lacking = Fraction(self.mechanism.shortfall(cells, LEVEL), weight.scale)
        least = error_floors.packed(cells, self.epsilon) * weight.limit
        return error_floors.floor(Fraction(least), lacking, "rows fewer")


def _plan_mode(call: Call, facts: Facts) -> ModeRelease:
    measure = listed_histogram(call, facts)
    distance = cells_distance(measure.weight, facts.neighbours)
    exponential = call.options.mechanism == FiniteExponential.name
    kind = FiniteExponential if exponential else PermuteAndFlip
    mechanism = kind.calibrated(distance, call.options.epsilon)
    type_ = measure.code.expr.type
    return ModeRelease(call.function, (measure,), distance, mechanism, type_)


MODE = DPFunction(
    name="DP_MODE",
    summary="The value that most rows have, among the column's public values.",
    positional=(Expression(Takes.LISTED),),
    gives=Gives.VALUE,
    parameters=(EPS, MAX_ROWS, MECHANISM, WEIGHT),
    mechanisms=(PermuteAndFlip.name, FiniteExponential.name),
    plan=_plan_mode,
    example="SELECT DP_MODE(dept, eps=0.5) AS largest FROM staff",
)


# DP_TOP_K: the values that most rows have, the most frequent first, as a list.
#
# Sensitivity of a noisy histogram: each row counts for one value, so a unit moves all
# weights of all groups together by its own weight in L1 norm, and by twice that where it is
# replaced.
#
# Of one round of exponential noise: the weights move as said above. Whoever of two
# neighbours is looked at first, what rises does so by one unit's weight at most, for each
# of the k places, and what falls does so by one unit's weight together: where a unit is
# added, k times its weight and nothing; where it is removed, once its weight; where it is
# replaced, both. Groups share the weight, and so add up to the same. For one place that
# noise errs least, for more the other.


MOST = 100


@dataclass(frozen=True, slots=True)
class TopRelease(ChosenRelease):
    """One list of values per group."""

    mechanism: LargestNoisyCounts | NoisyTop

    def chosen(self, weights: list[int], randomness: Randomness) -> list[int]:
        """Choose the values of a list."""
        return self.mechanism.release(weights, randomness)

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        moved = "places" if isinstance(self.mechanism, NoisyTop) else "values"
        lacking = self.mechanism.shortfall(self.code.cells, LEVEL)
        return Words(
            f"{in_rows(self.measure.weight, self.distance)}, all {moved}",
            in_rows(self.measure.weight, self.mechanism.scale),
            f"at most {self.rows(lacking)} fewer in each place",
        )


def top_distance(weight: Weight, size: int, neighbours: Neighbours) -> int:
    """Return how far noise has to move so that the same list comes first, over all groups."""
    return weight.total * (size + (neighbours is Neighbours.SUBSTITUTE))


def _plan_top_k(call: Call, facts: Facts) -> TopRelease:
    size, epsilon = call.number, call.options.epsilon
    assert size is not None  # noqa: S101 - the binder reads it
    measure = listed_histogram(call, facts)
    code = measure.code
    if size > code.cells:
        raise refusal(
            "DPQ205",
            f"{call.function} is asked for more values than there are",
            call.span,
            f"there are {code.cells:,}",
            "every place of the list is one of the column's public values.",
            f"{call.function}({call.written}, {code.cells}, eps=0.5)",
        )
    name, why = call.options.mechanism, ""
    if name is None and size == 1:
        name, why = NoisyTop.name, "one value: its noise goes one way only"
    elif name is None:
        why = f"{size} values: it costs the same for any number of them"
    mechanism: NoisyTop | LargestNoisyCounts
    if name == NoisyTop.name:
        distance = top_distance(measure.weight, size, facts.neighbours)
        mechanism = NoisyTop.calibrated(distance, epsilon, size)
    else:
        distance = sensitivity(measure, facts.neighbours, grouped=facts.grouped)
        mechanism = LargestNoisyCounts.calibrated(distance, epsilon, size)
    type_ = replace(code.expr.type, listed=True)
    return TopRelease(call.function, (measure,), distance, mechanism, type_, why=why)


TOP_K = DPFunction(
    name="DP_TOP_K",
    summary="The k values that most rows have, among the column's public values, as a list.",
    positional=(Expression(Takes.LISTED), Number("number of values", "k", MOST, "2")),
    gives=Gives.VALUES,
    parameters=(EPS, MAX_ROWS, MECHANISM, WEIGHT),
    mechanisms=(LargestNoisyCounts.name, NoisyTop.name),
    plan=_plan_top_k,
    example="SELECT DP_TOP_K(dept, 2, eps=0.5) AS largest FROM staff",
)


# DP_MAJORITY: whether a condition is true for more rows than it is false for.
#
# Sensitivity: the weight of the rows where it is true, less that of the rows where it is
# false, moves by at most limit * scale where a unit is added or removed, and by twice that
# where it is replaced (its rows may turn), with groups or without. Where every row counts 1
# and there are no groups, a vote that turns is one whole step of 2.


@dataclass(frozen=True, slots=True)
class MajorityRelease(Release):
    """One answer per group, from the rows where it is true and those where it is false."""

    mechanism: Majority

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[bool]:
        """Draw one answer per group."""
        sides = zip(*(exact.values(measure) for measure in self.measures), strict=True)
        return (self.mechanism.release(yes - no, randomness) for yes, no in sides)

    def value(self, drawn: bool) -> bool:
        """Return the answer."""
        return drawn

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        weight, spread = self.measure.weight, self.mechanism.step * self.mechanism.scale
        _, margin = DiscreteLaplace(spread).interval(0, 2 * LEVEL - 1)
        return Words(
            in_rows(weight, self.distance),
            in_rows(weight, spread),
            f"right where they differ by {-(-margin // weight.scale):,} rows",
        )


def _plan_majority(call: Call, facts: Facts) -> MajorityRelease:
    condition = call.inputs[0].expr
    weight = facts.weight(call)
    sides = (condition, Not(condition.span, condition))
    measures = tuple(CountRows(weight, both(side, call.condition)) for side in sides)
    distance = cells_distance(weight, facts.neighbours)
    turns = facts.neighbours is Neighbours.SUBSTITUTE and weight.plain and not facts.grouped
    step = 2 if turns else 1
    mechanism = Majority.calibrated(distance, call.options.epsilon, step=step)
    return MajorityRelease(call.function, measures, distance, mechanism, BOOLEAN)


MAJORITY = DPFunction(
    name="DP_MAJORITY",
    summary="Whether a condition is true for more rows than it is false for.",
    positional=(Expression(Takes.CONDITION),),
    gives=Gives.TRUTH,
    parameters=(EPS, MAX_ROWS, WEIGHT),
    mechanisms=(Majority.name,),
    plan=_plan_majority,
    example="SELECT DP_MAJORITY(remote, eps=0.5) AS mostly_remote FROM staff",
)
