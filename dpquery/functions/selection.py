"""What functions share that choose among the public values of a column.

Sensitivity: a unit adds at most limit * scale to the weights of all values together, in all
groups together. Where it is added or removed, all weights move in one direction; so the
largest and the smallest change in each group are at most its weight there apart, and add up to
no more than that over the groups. Where it is replaced, what one value loses stands against
what another gains: twice as much, with groups or without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Any

from dpquery.core.events import Event
from dpquery.core.privacy import Neighbours, decimal_text
from dpquery.core.types import BOOLEAN, Kind, Type, ordinal
from dpquery.errors import Diagnostic, NameRefused, PlanRefused, Worded
from dpquery.functions.additive import LEVEL
from dpquery.functions.base import (
    EPS,
    MAX_ROWS,
    MECHANISM,
    WEIGHT,
    Calibrated,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Measured,
    Number,
    Step,
    Takes,
)
from dpquery.functions.count_sum import both
from dpquery.functions.quantize import code_of, example_values, from_code
from dpquery.ir.expr import Code, ColumnRef, Not, Scalar
from dpquery.ir.measures import CountRows, Histogram, Measure, Weight, sensitivity
from dpquery.ir.query import Call
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


@dataclass(frozen=True, slots=True)
class ValueCell:
    """A released value; noise says nothing of how far in value it is from another."""

    value: object
    mechanism: str

    @property
    def drawn(self) -> tuple[object, str]:
        """The value, and what drew it."""
        return self.value, self.mechanism

    def interval(self, confidence: Fraction) -> None:
        """Return nothing: what was chosen is right or not, and the data alone know."""


class ChosenValues:
    """A release of values as they are."""

    __slots__ = ()

    def cell(self, drawn: Any, /) -> ValueCell:
        """Return a value that was chosen before."""
        return ValueCell(*drawn)


def cells_distance(weight: Weight, neighbours: Neighbours) -> int:
    """Return how far apart the largest and smallest change of a weight are, over all groups."""
    return weight.total * (2 if neighbours is Neighbours.SUBSTITUTE else 1)


def listed_code(call: Call) -> Code:
    """Return the places of a column's public values.

    Raises:
        PlanRefused: DPQ402 they are not public, DPQ404 there are too many.
        NameRefused: DPQ205 the bounds asked for lie outside the column's.
    """
    (about,) = call.inputs
    argument = about.expr
    listed = about.listed or (argument.keys if isinstance(argument, ColumnRef) else None)
    if listed:
        keys = tuple(sorted(listed, key=_order))
        code = Code(argument, Fraction(1), 0, len(keys) - 1, values=keys)
    elif argument.type.kind is Kind.TEXT:
        raise _private(call)
    else:
        code = _bounded_code(call)
    require_few(call, code)
    return code


def _bounded_code(call: Call) -> Code:
    try:
        return code_of(call, origin_at_low=True)
    except PlanRefused as refusal:
        if refusal.code != "DPQ401":
            raise
    raise _private(call)


def _order(value: Scalar) -> int | Fraction | str | date:
    return value


def require_few(call: Call, code: Code) -> None:
    """Refuse what has too many values.

    Raises:
        PlanRefused: DPQ404.
    """
    if code.cells > MOST_VALUES:
        bounds = ", bounds='auto'" if call.options.auto else ""
        remedy = f"DP_MEDIAN({call.written}, eps=0.5{bounds})"
        if code.expr.type.kind is Kind.TEXT:
            remedy = _of_named(call, code.expr.type)
        raise PlanRefused(
            Diagnostic(
                "DPQ404",
                f"{call.function} chooses among {MOST_VALUES:,} values at most",
                code.expr.span,
                f"{code.cells:,} values",
                ("each public value is weighed, whether or not a row has it.",),
                (remedy,),
            )
        )


def weights_of(exact: Measured, measure: Histogram, group: int) -> list[int]:
    """Ask for the weight of each value in one group."""
    weights = exact.histogram(measure, group, 0, measure.code.cells, 1)
    return [int(weight) for weight in weights.tolist()]


def value_of(code: Code, place: int) -> object:
    """Return the value at a place, in the type of the column."""
    type_ = code.expr.type
    if not code.values:
        return (
            bool(place)
            if type_ == BOOLEAN
            else from_code(place + code.origin, code.grid, type_)
        )
    value = code.values[place]
    if type_.kind in {Kind.TEXT, Kind.BOOLEAN}:
        return value
    number = ordinal(value) if isinstance(value, date) else Fraction(str(value))
    step = Fraction(1, 10**type_.scale)
    return from_code(int(number / step), step, type_)


def in_rows(weight: Weight, amount: Fraction | int) -> str:
    """Write an amount of weight as rows."""
    return f"{decimal_text(Fraction(amount, weight.scale), 4)} in rows"


def require_room(call: Call, facts: Facts, code: Code) -> None:
    """Refuse what would hold too many weights, over all groups together.

    Raises:
        PlanRefused: DPQ405.
    """
    most = MOST_WEIGHTS // code.cells
    if facts.cells > most:
        raise PlanRefused(
            Diagnostic(
                "DPQ405",
                f"{call.function} is answered for {most:,} groups at most",
                call.span,
                f"{facts.cells:,} groups",
                (f"each group weighs {code.cells:,} values.",),
                ("name fewer groups: WHERE a_column IN (1, 2)",),
            )
        )


def _private(call: Call) -> PlanRefused:
    argument = call.inputs[0].expr
    return PlanRefused(
        Diagnostic(
            "DPQ402",
            f"the values of {call.written} are not public",
            argument.span,
            "its values are private",
            (
                "one of the values is shown, and it could be one that a single person has,",
                "so it is chosen among values that are known before the data is read.",
            ),
            (
                *((_of_named(call, argument.type),) if call.condition is None else ()),
                Worded(
                    f"or ask the data owner to state keys or bounds of {call.written} in the "
                    "policy"
                ),
            ),
        )
    )


def _of_named(call: Call, type_: Type) -> str:
    """Write the call over rows whose values it names: two of them."""
    few = call.number is None or call.number <= 2
    asked = call.text if few else f"{call.function}({call.written}, 2, eps=0.5)"
    return f"{asked} FILTER (WHERE {call.written} IN ({example_values(type_)}))"


# DP_MODE: the value that most rows have, among the public values of a column.
#
# Sensitivity: see `choice.py`. A value that nobody has can be shown, where few rows have
# any.


@dataclass(frozen=True, slots=True)
class ModeRelease(ChosenValues, Calibrated):
    """One of the values per group."""

    function: str
    measure: Histogram
    distance: int
    mechanism: PermuteAndFlip | FiniteExponential
    type: Type

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[ValueCell]:
        """Draw one value per group."""
        places = [
            self.mechanism.release(weights_of(exact, self.measure, group), randomness)
            for group in range(exact.groups)
        ]
        code, name = self.measure.code, self.mechanism.name
        return [ValueCell(value_of(code, place), name) for place in places]

    def step(self) -> Step:
        """Describe the release in rows."""
        weight = self.measure.weight
        lacking = self.mechanism.shortfall(self.measure.code.cells, LEVEL)
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(self.distance).epsilon,
            sensitivity=in_rows(weight, self.distance),
            noise_scale=in_rows(weight, 1 / self.mechanism.rate),
            expected_error=f"at most {-(-lacking // weight.scale):,} rows fewer than the mode",
            weight=weight,
        )


def _plan_mode(call: Call, facts: Facts) -> ModeRelease:
    code = listed_code(call)
    require_room(call, facts, code)
    measure = Histogram(facts.cell_weight(call), code, call.condition)
    distance = cells_distance(measure.weight, facts.neighbours)
    exponential = call.options.mechanism == FiniteExponential.name
    kind = FiniteExponential if exponential else PermuteAndFlip
    mechanism = kind.calibrated(distance, call.options.epsilon)
    return ModeRelease(call.function, measure, distance, mechanism, code.expr.type)


MODE = DPFunction(
    name="DP_MODE",
    summary="The value that most rows have, among the column's public values.",
    positional=(Expression(Takes.LISTED),),
    gives=Gives.VALUE,
    parameters=(EPS, WEIGHT, MAX_ROWS, MECHANISM),
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
# Of one round of exponential noise: see `choice.py` for the weights. Whoever of two
# neighbours is looked at first, what rises does so by one unit's weight at most, for each
# of the k places, and what falls does so by one unit's weight together: where a unit is
# added, k times its weight and nothing; where it is removed, once its weight; where it is
# replaced, both. Groups share the weight, and so add up to the same. For one place that
# noise errs least, for more the other.


MOST = 100


@dataclass(frozen=True, slots=True)
class TopRelease(ChosenValues, Calibrated):
    """One list of values per group."""

    function: str
    measure: Histogram
    distance: int
    mechanism: LargestNoisyCounts | NoisyTop
    type: Type
    why: str

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[ValueCell]:
        """Draw one list per group."""
        return [self._drawn(exact, group, randomness) for group in range(exact.groups)]

    def _drawn(self, exact: Measured, group: int, randomness: Randomness) -> ValueCell:
        weights = weights_of(exact, self.measure, group)
        places = self.mechanism.release(weights, randomness)
        values = [value_of(self.measure.code, place) for place in places]
        return ValueCell(values, self.mechanism.name)

    def step(self) -> Step:
        """Describe the release in rows."""
        weight, one_shot = self.measure.weight, isinstance(self.mechanism, NoisyTop)
        lacking = self.mechanism.shortfall(self.measure.code.cells, LEVEL)
        moved = in_rows(weight, self.distance)
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(self.distance).epsilon,
            sensitivity=f"{moved}, all {'places' if one_shot else 'values'}",
            noise_scale=in_rows(weight, self.mechanism.scale),
            expected_error=f"at most {-(-lacking // weight.scale):,} rows fewer in each place",
            weight=weight,
            why=self.why,
        )


def top_distance(weight: Weight, size: int, neighbours: Neighbours) -> int:
    """Return how far noise has to move so that the same list comes first, over all groups."""
    return weight.total * (size + (neighbours is Neighbours.SUBSTITUTE))


def _plan_top_k(call: Call, facts: Facts) -> TopRelease:
    assert call.number is not None  # noqa: S101 - the binder reads it
    code = listed_code(call)
    require_room(call, facts, code)
    if call.number > code.cells:
        raise _more_than_there_are(call, code)
    measure = Histogram(facts.cell_weight(call), code, call.condition)
    name, why = _chosen(call, call.number)
    distance, mechanism = _planned(name, call, measure, facts)
    type_ = replace(code.expr.type, listed=True)
    return TopRelease(call.function, measure, distance, mechanism, type_, why)


def _chosen(call: Call, size: int) -> tuple[str, str]:
    """Choose a mechanism by the number of values alone, and say why."""
    if call.options.mechanism is not None:
        return call.options.mechanism, ""
    if size == 1:
        return NoisyTop.name, "one value: its noise goes one way only"
    return LargestNoisyCounts.name, f"{size} values: it costs the same for any number of them"


def _planned(
    name: str, call: Call, measure: Histogram, facts: Facts
) -> tuple[int, LargestNoisyCounts | NoisyTop]:
    epsilon, size = call.options.epsilon, call.number or 1
    if name == NoisyTop.name:
        distance = top_distance(measure.weight, size, facts.neighbours)
        return distance, NoisyTop.calibrated(distance, epsilon, size)
    distance = sensitivity(measure, facts.neighbours, grouped=facts.grouped)
    return distance, LargestNoisyCounts.calibrated(distance, epsilon, size)


def _more_than_there_are(call: Call, code: Code) -> NameRefused:
    return NameRefused(
        Diagnostic(
            "DPQ205",
            f"{call.function} is asked for more values than there are",
            call.span,
            f"there are {code.cells:,}",
            ("every place of the list is one of the column's public values.",),
            (f"{call.function}({call.written}, {code.cells}, eps=0.5)",),
        )
    )


TOP_K = DPFunction(
    name="DP_TOP_K",
    summary="The k values that most rows have, among the column's public values, as a list.",
    positional=(Expression(Takes.LISTED), Number("number of values", "k", MOST, "2")),
    gives=Gives.VALUES,
    parameters=(EPS, WEIGHT, MAX_ROWS, MECHANISM),
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
class MajorityRelease(ChosenValues):
    """One answer per group."""

    function: str
    measures: tuple[Measure, ...]
    """The rows where it is true, and those where it is false."""
    distance: int
    mechanism: Majority

    @property
    def type(self) -> Type:
        """True or false."""
        return BOOLEAN

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.mechanism.event(self.distance)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[ValueCell]:
        """Draw one answer per group."""
        sides = zip(*(exact.values(measure) for measure in self.measures), strict=True)
        answers = [self.mechanism.release(yes - no, randomness) for yes, no in sides]
        return [ValueCell(answer, self.mechanism.name) for answer in answers]

    def step(self) -> Step:
        """Describe the release in rows."""
        weight, spread = self.measures[0].weight, self.mechanism.step * self.mechanism.scale
        _, margin = DiscreteLaplace(spread).interval(0, 2 * LEVEL - 1)
        return Step(
            function=self.function,
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.loss(self.distance).epsilon,
            sensitivity=in_rows(weight, self.distance),
            noise_scale=in_rows(weight, spread),
            expected_error=f"right where they differ by {-(-margin // weight.scale):,} rows",
            weight=weight,
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
    return MajorityRelease(call.function, measures, distance, mechanism)


MAJORITY = DPFunction(
    name="DP_MAJORITY",
    summary="Whether a condition is true for more rows than it is false for.",
    positional=(Expression(Takes.CONDITION),),
    gives=Gives.TRUTH,
    parameters=(EPS, WEIGHT, MAX_ROWS),
    mechanisms=(Majority.name,),
    plan=_plan_majority,
    example="SELECT DP_MAJORITY(remote, eps=0.5) AS mostly_remote FROM staff",
)
