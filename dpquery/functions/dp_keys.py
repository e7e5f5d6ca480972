"""DP_KEYS: the values of an expression that enough units have, where none of them is public.

Sensitivity: a unit is counted in at most `limit` of its values, each in full, and a keyed hash
decides in which without a look at other units. Adding or removing it moves so many counts by 1;
replacing it moves twice as many. Weights have no place here: a value that one unit alone has
would be shown too often if that unit could count as less than one. Of several expressions, the
combinations are the values: all of this holds for them as it does for values of one.

After GROUP BY the values are the groups. What is asked of the groups is charged on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpquery.core.privacy_events import Composed, Event
from dpquery.core.privacy_loss import decimal_text
from dpquery.core.types import Kind, Type, decimal_value
from dpquery.errors import QueryRefused, refusal
from dpquery.functions.additive_releases import LEVEL
from dpquery.functions.base import (
    DELTA,
    EPS,
    MAX_GROUPS,
    WEIGHT,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Measured,
    Parameter,
    Release,
    Takes,
    Words,
)
from dpquery.functions.example_bounds import example_values
from dpquery.ir.expr import Expr, IsNull, Logic, Not, Nulls, Scalar
from dpquery.ir.measures import Candidates, Told, Weight
from dpquery.ir.query import Call
from dpquery.ir.sensitivity import sensitivity
from dpquery.mechanisms import DiscreteLaplace, PartitionSelection
from dpquery.mechanisms.partition_selection import LEAST_EPSILON
from dpquery.mechanisms.randomness import Randomness
from dpquery.rowfunctions.analysis.nulls import nulls_of

MOST_KEYS = 1000
"""How many values are shown unless the call says otherwise."""

GROUPS = 1
"""In how many of its values a unit counts unless somebody says more.

As many times the units that a value needs, it would have at most: more is no gain, and much of
a loss where units have few values. Rows are no measure of it.
"""
FEW = 1000
"""Units that a value may need where the query did not choose in how many a unit counts."""

OTHER = Parameter("other", "a group for all values that are not shown, as in other='elsewhere'")
MIN_UNITS = Parameter(
    "min_units", "how many units a value has at least that is shown, as in min_units=20"
)
MOST = Parameter("max_keys", "how many values are found at most, as in max_keys=500")
LEFT_OUT = Parameter(
    "left_out_eps",
    "how much of eps buys a note of how much is in no group shown, as in left_out_eps=0.1",
)


@dataclass(frozen=True, slots=True)
class KeysRelease(Release):
    """One list of values; noise decides which, and moves none."""

    measures: tuple[Candidates]
    mechanism: PartitionSelection
    most: int
    unit: str = "row"
    """Whose values these are; a row's where each is a unit of its own."""
    other: Scalar | None = None
    noise: DiscreteLaplace | None = None
    """What is added to the number of what was left out, where somebody asks for it."""

    @property
    def measure(self) -> Candidates:
        """The values, without their names."""
        return self.measures[0]

    @property
    def epsilon(self) -> Fraction:
        """The loss of the selection, and of the number of what was left out."""
        selected = self.mechanism.loss(self.distance).epsilon
        if self.noise is None:
            return selected
        return selected + self.noise.loss(self.measure.weight.limit).epsilon

    def event(self) -> Event:
        """State the loss at the proven distance."""
        selected = self.mechanism.event(self.distance)
        if self.noise is None:
            return selected
        return Composed((selected, self.noise.event(self.measure.weight.limit)))

    def draw(self, exact: Measured, randomness: Randomness) -> list[object]:
        """Draw the values, and what is said of others."""
        counts = exact.counts(self.measure)
        found = self.mechanism.select(counts.tolist(), randomness)
        places = found[: self.most]  # they stand in an order of chance
        groups = ordered(exact.chosen(self.measure, places))
        if self.other is not None:
            rest = (self.other,)
            groups = (*(value for value in groups if value != rest), rest)
        left = int(counts.sum()) - int(counts[places].sum())
        return [(groups, tuple(self._notes(left, len(found), randomness)))]

    def value(self, drawn: Any) -> list[object]:
        """Return the values that were found, as they are shown.

        Of several expressions, nobody reads the list: their values are groups.
        """
        return [_shown(value, self.type) for value, *_ in self.groups(drawn)]

    def groups(self, drawn: Any) -> tuple[Told, ...]:
        """Return the values as groups."""
        return tuple(drawn[0])

    def notes(self, drawn: Any) -> tuple[str, ...]:
        """Return what is said of values that were not found."""
        return tuple(drawn[1])

    @property
    def note(self) -> str:
        """Return what is not shown."""
        enough, limit = self.mechanism.enough(LEVEL), self.measure.weight.limit
        said = f"groups with fewer than {enough:,} {self.unit}s may be missing"
        if limit == 1:
            return said
        shared = self.mechanism
        epsilon, delta = shared.epsilon * limit, shared.delta * limit
        alone = PartitionSelection(epsilon, delta, shared.least).enough(LEVEL)
        return f"{said}; with max_groups_contributed=1, those with fewer than {alone:,}"

    def _notes(self, left: int, found: int, randomness: Randomness) -> Iterator[str]:
        if found > self.most:
            yield f"{found:,} values were found; chance chose {self.most:,} of them (max_keys)"
        if self.noise is not None:
            (noisy,) = self.noise.release([left], randomness)
            low, high = self.noise.interval(noisy, LEVEL)
            number = f"about {max(0, noisy):,} (± {(high - low) // 2:,})"
            yield f"{number} pairs of a unit and a value are of no value that is shown"

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in units."""
        enough, moved = self.mechanism.enough, self.distance
        return Words(
            "1, in 1 count" if moved == 1 else f"1, in each of {moved} counts",
            f"none; {enough(Fraction(1, 2)):,} units show a value with probability 1/2",
            f"a value of {enough(LEVEL):,} units is shown",
        )


def ordered(values: Iterable[Told]) -> tuple[Told, ...]:
    """Sort values; NULL comes last."""
    return tuple(sorted(values, key=lambda told: [(value is None, value) for value in told]))


def _shown(value: Scalar | None, type_: Type) -> object:
    if type_.kind is Kind.DECIMAL and isinstance(value, int | Fraction):
        return decimal_value(int(value * 10**type_.scale), type_.scale)
    return value


def _plan(call: Call, facts: Facts) -> KeysRelease:
    told, options = tuple(one.expr for one in call.inputs), call.options
    if facts.grouped:
        raise refusal(
            "DPQ404",
            f"{call.function} is answered without groups",
            call.span,
            "there are groups here",
            "it finds groups; to have both, group by the values that it finds.",
            f"GROUP BY {call.text}",
        )
    if options.delta is None:
        raise _without_delta(call)
    limit = options.max_groups_contributed or facts.contribution.groups or GROUPS
    weight = Weight(limit if facts.weighted else 1)
    measure = Candidates(weight, told, _listed(call))
    distance = sensitivity(measure, facts.neighbours)
    least, noise = distance * LEAST_EPSILON, None
    if options.left_out is not None:
        least += options.left_out
        noise = DiscreteLaplace.calibrated(weight.limit, options.left_out)
    if options.epsilon < least:
        raise refusal(
            "DPQ205",
            f"{call.function} needs an eps of {decimal_text(least)} at least",
            options.epsilon_span,
            f"given as {decimal_text(options.epsilon)}",
            "with less, no value would be shown that fewer than thousands of units have.",
            f"eps={decimal_text(least)}",
        )
    epsilon = options.epsilon - (options.left_out or 0)
    fewest = options.min_units or 1
    mechanism = PartitionSelection.calibrated(distance, epsilon, options.delta, fewest)
    if options.max_groups_contributed is None and weight.limit > 1:
        _require_findable(call, mechanism.enough(LEVEL) - fewest + 1, weight.limit)
    type_, most = replace(told[0].type, listed=True), most_of(call)
    unit = facts.contribution.unit or "row"
    return KeysRelease(
        call.function, (measure,), distance, mechanism, type_, most, unit, options.other, noise
    )


def _listed(call: Call) -> Expr | None:
    """Return which rows have a value that may be shown: NULL only where it may be a group."""
    asked = () if call.condition is None else (call.condition,)
    told = [one.expr for one in call.inputs]
    present = (
        Not(expr.span, IsNull(expr.span, expr))
        for expr in told
        if nulls_of(expr) is Nulls.LEFT_OUT
    )
    conditions = (*asked, *present)
    if len(conditions) < 2:
        return next(iter(conditions), None)
    return Logic(told[0].span, True, conditions)


def _require_findable(call: Call, enough: int, limit: int) -> None:
    """Refuse to share an epsilon among so many groups that hardly a value would be found."""
    if enough > FEW:
        raise refusal(
            "DPQ205",
            f"{call.function} would find no value of fewer than {enough:,} units",
            call.span,
            f"eps and delta are shared by {limit:,} values of each unit",
            (
                f"the policy lets a unit count in {limit:,} groups, and what each of them gets",
                "of eps and delta is little.",
            ),
            f"{call.text.removesuffix(')')}, max_groups_contributed=1)",
        )


def most_of(call: Call) -> int:
    """Return how many values a call finds at most."""
    return MOST_KEYS if call.options.most is None else call.options.most


def _without_delta(call: Call) -> QueryRefused:
    shown, few = call.written, example_values(call.inputs[0].expr.type)
    named = (f"or name them: WHERE {shown} IN ({few}) GROUP BY {shown}",) if few else ()
    return refusal(
        "DPQ403",
        f"{call.function} needs delta",
        call.span,
        "delta is missing",
        (
            "a value that a single unit has is shown with a small probability, delta,",
            "which the budget of the policy has to allow.",
        ),
        (f"{call.text.removesuffix(')')}, delta=1e-7)", *named),
    )


KEYS = DPFunction(
    name="DP_KEYS",
    summary="The values that enough units have, where they are not public; or groups of them.",
    positional=(Expression(Takes.DISCRETE),),
    gives=Gives.VALUES,
    parameters=(EPS, DELTA, MAX_GROUPS, MIN_UNITS, MOST, OTHER, LEFT_OUT, WEIGHT),
    mechanisms=(PartitionSelection.name,),
    plan=_plan,
    price="eps=0.5, delta=1e-7",
    example="SELECT DP_KEYS(dept, eps=0.5, delta=1e-7) AS depts FROM staff",
    several=True,
)
