"""DP_COUNT and DP_COUNT_IF: how many rows, with a value or not, different values, or units.

Sensitivity: a unit's rows have a total weight of at most limit * scale (`ir/measures.py`), and
each row is counted with its weight or not at all, so adding, removing or replacing one unit
moves the weighted count by at most that much; units are counted once, or spread over the
groups they are in. Of different values, a unit shows at most `limit`, all groups together.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NoReturn

from dpquery.core.source import Span
from dpquery.core.types import INTEGER, WIDEST_EXACT
from dpquery.errors import Diagnostic, NameRefused
from dpquery.functions.additive import COUNTING, AdditiveRelease, additive
from dpquery.functions.base import (
    BOUNDS,
    COMMON,
    GROUP_BOUNDS,
    MAX_GROUPS,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Takes,
    without_option,
)
from dpquery.functions.quantize import code_of, number_type
from dpquery.ir.expr import Code, Expr, IsNull, Logic, Not
from dpquery.ir.measures import CountRows, CountUnits, CountValues, SumCodes, UnitTotals
from dpquery.ir.query import Call

# Conditions that functions put together from a call's argument and its FILTER.


def present(argument: Expr | None) -> Expr | None:
    """Write `argument IS NOT NULL`; nothing for a star."""
    return None if argument is None else Not(argument.span, IsNull(argument.span, argument))


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """Write `first AND second`, leaving out what is not there."""
    if first is None or second is None:
        return first or second
    return Logic(first.span | second.span, True, (first, second))


# What each unit has in each of its groups, clamped there: another bound than a limit of
# rows.
#
# With `contribution_bounds_per_group=[lo, hi]` a unit's rows in a group are added up first,
# and the total is clamped; `max_groups_contributed=` says in how many groups a unit counts
# in full. However many rows a unit has, its total in a group lies between lo and hi, and
# its weights add up to `limit * scale` over its groups (`ir/measures.py`).


PER_GROUP = (MAX_GROUPS, GROUP_BOUNDS)
"""What a function takes that can be bounded per group."""


def totals_of(
    call: Call, facts: Facts, code: Code | None, condition: Expr | None
) -> UnitTotals | None:
    """Plan totals per unit and group; None where the call bounds rows.

    Raises:
        NameRefused: DPQ206 options that do not go together.
        PlanRefused: DPQ404 the sums would not fit at the smallest scale.
    """
    options = call.options
    if options.group_bounds is None:
        if options.max_groups_contributed is not None:
            _needs_bounds(call, options.max_groups_span)
        return None
    if options.max_rows_contributed is not None:
        _two_limits(call, options.max_rows_span)
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


def refuse_group_bounds(call: Call) -> None:
    """Refuse bounds per group where units are counted: each is one there.

    Raises:
        NameRefused: DPQ206.
    """
    options = call.options
    if options.group_bounds is not None:
        _refuse(
            call,
            f"{call.function}(DISTINCT ...) has no use for contribution_bounds_per_group",
            options.group_bounds_span,
            "a unit counts once in each group",
            "there is nothing to clamp; max_groups_contributed= limits its groups.",
            without_option(call, options.group_bounds_span),
        )
    if options.max_groups_contributed is not None and options.max_rows_contributed is not None:
        _two_limits(call, options.max_rows_span)


def refuse_groups(call: Call) -> None:
    """Refuse what bounds groups where different values are counted.

    Raises:
        NameRefused: DPQ206.
    """
    options = call.options
    for span in (options.group_bounds_span, options.max_groups_span):
        if span is not None:
            _refuse(
                call,
                f"{call.function}(DISTINCT {call.written}) bounds values, not groups",
                span,
                "this would be passed over",
                "max_rows_contributed limits the values that a unit shows, in all groups.",
                without_option(call, span),
            )


def _needs_bounds(call: Call, span: Span | None) -> NoReturn:
    _refuse(
        call,
        f"{call.function} needs contribution_bounds_per_group beside max_groups_contributed",
        span,
        "this does not bound what is in a group",
        "a unit can have any number of rows in a group, so its total there is clamped too.",
        f"{call.text.removesuffix(')')}, contribution_bounds_per_group=[0, 50])",
    )


def _two_limits(call: Call, span: Span | None) -> NoReturn:
    _refuse(
        call,
        f"{call.function} takes a limit of rows or of groups, not both",
        span,
        "this would be passed over",
        "max_rows_contributed weighs rows; the other options bound groups instead.",
        without_option(call, span),
    )


def _refuse(
    call: Call, title: str, span: Span | None, label: str, why: str, remedy: str
) -> NoReturn:
    raise NameRefused(Diagnostic("DPQ206", title, span or call.span, label, (why,), (remedy,)))


def _count(call: Call, facts: Facts) -> AdditiveRelease:
    if call.distinct:
        return _units(call, facts) if call.argument is None else _values(call, facts)
    return _rows(call, facts, both(present(call.argument), call.condition))


def _count_if(call: Call, facts: Facts) -> AdditiveRelease:
    return _rows(call, facts, both(call.argument, call.condition))


def _rows(call: Call, facts: Facts, condition: Expr | None) -> AdditiveRelease:
    """Count rows, each with its weight, or what each unit has of them in each of its groups."""
    totals = totals_of(call, facts, None, condition)
    measure = totals or CountRows(facts.weight(call), condition)
    return additive(call, facts, measure, Fraction(1, measure.weight.scale), INTEGER)


def _units(call: Call, facts: Facts) -> AdditiveRelease:
    """Count units: each once without groups, in at most `limit` groups' worth with them."""
    refuse_group_bounds(call)
    measure = CountUnits(facts.spread(call), call.condition)
    return additive(call, facts, measure, Fraction(1, measure.weight.scale), INTEGER)


def _values(call: Call, facts: Facts) -> AdditiveRelease:
    """Count different values: a unit shows as many of its own as rows of it count."""
    refuse_groups(call)
    measure = CountValues(facts.shown(call), call.inputs[0].expr, call.condition)
    return additive(call, facts, measure, Fraction(1), INTEGER)


COUNT = DPFunction(
    name="DP_COUNT",
    summary="The number of rows, of rows with a value, of different values, or of units.",
    positional=(Expression(star=True, distinct=True),),
    gives=Gives.COUNT,
    parameters=(*COMMON, *PER_GROUP),
    mechanisms=COUNTING,
    plan=_count,
    example="SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE age >= 40",
)

COUNT_IF = DPFunction(
    name="DP_COUNT_IF",
    summary="The number of rows for which a condition is true.",
    positional=(Expression(Takes.CONDITION),),
    gives=Gives.COUNT,
    parameters=(*COMMON, *PER_GROUP),
    mechanisms=COUNTING,
    plan=_count_if,
    aliases=("DP_COUNTIF",),
    example="SELECT DP_COUNT_IF(age >= 40, eps=0.5) AS n FROM staff",
)


# DP_SUM: the sum of values clamped to their bounds, exact on their grid before the noise.
#
# Sensitivity: a unit's weights add up to at most limit * scale and each code is at most
# `size` in size, so the sum moves by no more than the product. A sum of doubles would
# depend on the order of rows; a sum of codes does not.


def _plan(call: Call, facts: Facts) -> AdditiveRelease:
    code = code_of(call, origin_at_low=False)
    totals = totals_of(call, facts, code, call.condition)
    measure = totals or SumCodes(facts.weight(call, code.size), code, 1, call.condition)
    unit = code.grid / measure.weight.scale
    return additive(call, facts, measure, unit, number_type(code.expr))


SUM = DPFunction(
    name="DP_SUM",
    summary="The sum of the argument, clamped to its bounds.",
    positional=(Expression(Takes.NUMBER),),
    gives=Gives.SUM,
    parameters=(*COMMON, BOUNDS, *PER_GROUP),
    mechanisms=COUNTING,
    plan=_plan,
    example="SELECT DP_SUM(salary, eps=0.5) AS pay FROM staff",
)
