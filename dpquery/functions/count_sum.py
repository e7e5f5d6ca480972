"""DP_COUNT, DP_COUNT_IF and DP_SUM: how many rows, different values or units; and sums.

Sensitivity: a unit's rows have a total weight of at most limit * scale (`ir/sensitivity.py`),
and each row is counted with its weight or not at all, so adding, removing or replacing one unit
moves the weighted count by at most that much; units are counted once, or spread over the groups
they are in. Of different values, a unit shows at most `limit`, all groups together.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpquery.core.source_text import Span
from dpquery.core.types import INTEGER, WIDEST_EXACT
from dpquery.errors import QueryRefused, refusal
from dpquery.functions.additive_releases import COUNTING, AdditiveRelease, additive
from dpquery.functions.base import (
    BOUNDS,
    COMMON,
    GROUP_BOUNDS,
    MAX_GROUPS,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Reads,
    Takes,
    without_option,
)
from dpquery.functions.clipping_report import CLIPPING
from dpquery.functions.error_options import CONFIDENCE, ERROR
from dpquery.functions.quantize import code_of, number_type
from dpquery.ir.expr import Code, Expr, IsNull, Logic, Not
from dpquery.ir.measures import (
    CountRows,
    CountUnits,
    CountValues,
    SumCodes,
    SumValues,
    UnitTotals,
)
from dpquery.ir.query import Call


def present(argument: Expr | None) -> Expr | None:
    """Write `argument IS NOT NULL`; nothing for a star."""
    return None if argument is None else Not(argument.span, IsNull(argument.span, argument))


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """Write `first AND second`, leaving out what is not there."""
    if first is None or second is None:
        return first or second
    return Logic(first.span | second.span, True, (first, second))


PER_GROUP = (MAX_GROUPS, GROUP_BOUNDS)
"""What a function takes that can be bounded per group."""


def totals_of(
    call: Call, facts: Facts, code: Code | None, condition: Expr | None
) -> UnitTotals | None:
    """Plan totals per unit and group; None where the call bounds rows.

    Another bound than a limit of rows: with `contribution_bounds_per_group=[lo, hi]` a unit's
    rows in a group are added up first, and the total is clamped; `max_groups_contributed=` says
    in how many groups a unit counts in full. However many rows a unit has, its total in a group
    lies between lo and hi, and its weights add up to `limit * scale` over its groups.

    Raises:
        NameRefused: DPQ206 options that do not go together.
        PlanRefused: DPQ404 the sums would not fit at the smallest scale.
    """
    options = call.options
    if options.group_bounds is None:
        if options.max_groups_contributed is not None:
            raise _boundless(call)
        return None
    _refuse_two_limits(call)
    low, high = options.group_bounds.low, options.group_bounds.high
    assert low is not None  # noqa: S101 - bounds that are read have both ends
    assert high is not None  # noqa: S101
    grid = Fraction(1) if code is None else code.grid
    first, last = (_step(end, grid) for end in (low, high))
    size = max(abs(first), abs(last), 1 if code is None else code.size)
    return UnitTotals(facts.spread(call, size), code, first, last, condition)


def _step(end: Fraction, grid: Fraction) -> int:
    """Put an end on the grid, inside of what sums can reach."""
    place = math.floor(end / grid + Fraction(1, 2))
    return max(-WIDEST_EXACT, min(WIDEST_EXACT, place))


def _boundless(call: Call) -> QueryRefused:
    return refusal(
        "DPQ206",
        f"{call.function} needs contribution_bounds_per_group beside max_groups_contributed",
        call.options.max_groups_span,
        "this does not bound what is in a group",
        "a unit can have any number of rows in a group, so its total there is clamped too.",
        f"{call.text.removesuffix(')')}, contribution_bounds_per_group=[0, 50])",
    )


def _refuse_two_limits(call: Call) -> None:
    if call.options.max_rows_contributed is not None:
        raise _needless(
            call,
            f"{call.function} takes a limit of rows or of groups, not both",
            call.options.max_rows_span,
            "max_rows_contributed weighs rows; the other options bound groups instead.",
        )


def _needless(
    call: Call,
    title: str,
    span: Span | None,
    why: str,
    label: str = "this would be passed over",
) -> QueryRefused:
    return refusal("DPQ206", title, span, label, why, without_option(call, span))


def _count(call: Call, facts: Facts) -> AdditiveRelease:
    if call.distinct:
        return _units(call, facts) if call.argument is None else _values(call, facts)
    return _rows(call, facts, both(present(call.argument), call.condition))


def _rows(call: Call, facts: Facts, condition: Expr | None) -> AdditiveRelease:
    """Count rows, each with its weight, or what each unit has of them in each of its groups."""
    totals = totals_of(call, facts, None, condition)
    measure = totals or CountRows(facts.weight(call), condition)
    return additive(call, facts, measure, Fraction(1, measure.weight.scale), INTEGER)


def _units(call: Call, facts: Facts) -> AdditiveRelease:
    """Count units: each once without groups, in at most `limit` groups' worth with them.

    Raises:
        NameRefused: DPQ206 bounds per group, where each unit is one; or two limits.
    """
    options = call.options
    if options.group_bounds is not None:
        raise _needless(
            call,
            f"{call.function}(DISTINCT ...) has no use for contribution_bounds_per_group",
            options.group_bounds_span,
            "there is nothing to clamp; max_groups_contributed= limits its groups.",
            "a unit counts once in each group",
        )
    if options.max_groups_contributed is not None:
        _refuse_two_limits(call)
    measure = CountUnits(facts.spread(call), call.condition)
    return additive(call, facts, measure, Fraction(1, measure.weight.scale), INTEGER)


def _values(call: Call, facts: Facts) -> AdditiveRelease:
    """Count different values: a unit stands for as many of its own as rows of it count."""
    _refuse_groups(call)
    measure = CountValues(facts.shown(call), call.inputs[0].expr, call.condition)
    return additive(call, facts, measure, Fraction(1), INTEGER)


def _refuse_groups(call: Call) -> None:
    """Refuse bounds of groups where different values count.

    Raises:
        NameRefused: DPQ206.
    """
    for span in (call.options.group_bounds_span, call.options.max_groups_span):
        if span is not None:
            raise _needless(
                call,
                f"{call.function}(DISTINCT {call.written}) bounds values, not groups",
                span,
                "max_rows_contributed limits the values that a unit shows, in all groups.",
            )


COUNT = DPFunction(
    name="DP_COUNT",
    summary="The number of rows, of rows with a value, of different values, or of units.",
    positional=(Expression(star=True, distinct=True),),
    gives=Gives.COUNT,
    parameters=(*COMMON, ERROR, CONFIDENCE, *PER_GROUP),
    mechanisms=COUNTING,
    plan=_count,
    reads=Reads.ROWS,
    example="SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE age >= 40",
)

COUNT_IF = DPFunction(
    name="DP_COUNT_IF",
    summary="The number of rows for which a condition is true.",
    positional=(Expression(Takes.CONDITION),),
    gives=Gives.COUNT,
    parameters=(*COMMON, ERROR, CONFIDENCE, *PER_GROUP),
    mechanisms=COUNTING,
    plan=lambda call, facts: _rows(call, facts, both(call.argument, call.condition)),
    aliases=("DP_COUNTIF",),
    example="SELECT DP_COUNT_IF(age >= 40, eps=0.5) AS n FROM staff",
)


# DP_SUM: the sum of values clamped to their bounds, exact on their grid before the noise.
#
# Sensitivity: a unit's weights add up to at most limit * scale and each code is at most
# `size` in size, so the sum moves by no more than the product. A sum of doubles would
# depend on the order of rows; a sum of codes does not. Of different values, one unit adds at
# most `limit`, and each counts once whoever has it.


def _sum(call: Call, facts: Facts) -> AdditiveRelease:
    code = code_of(call, origin_at_low=False)
    if call.distinct:
        _refuse_groups(call)
        values = SumValues(facts.shown(call, code.size), code, 1, call.condition)
        return additive(call, facts, values, code.grid, number_type(code.expr))
    totals = totals_of(call, facts, code, call.condition)
    measure = totals or SumCodes(facts.weight(call, code.size), code, 1, call.condition)
    unit = code.grid / measure.weight.scale
    return additive(call, facts, measure, unit, number_type(code.expr))


SUM = DPFunction(
    name="DP_SUM",
    summary="The sum of the argument, or of its different values, clamped to its bounds.",
    positional=(Expression(Takes.NUMBER, distinct=True),),
    gives=Gives.SUM,
    parameters=(*COMMON, ERROR, CONFIDENCE, BOUNDS, *PER_GROUP, CLIPPING),
    mechanisms=COUNTING,
    plan=_sum,
    reads=Reads.TOTAL,
    example="SELECT DP_SUM(salary, eps=0.5) AS pay FROM staff",
)
