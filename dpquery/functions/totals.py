"""What each unit has in each of its groups, clamped there: another bound than a limit of rows.

With `contribution_bounds_per_group=[lo, hi]` a unit's rows in a group are added up first, and
the total is clamped; `max_groups_contributed=` says in how many groups a unit counts in full.
However many rows a unit has, its total in a group lies between lo and hi, and its weights add
up to `limit * scale` over its groups (`sensitivity.py`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NoReturn

from dpquery.errors import Diagnostic, NameRefused
from dpquery.functions.base import GROUP_BOUNDS, MAX_GROUPS, Facts, without_option
from dpquery.ir import Call, Code, Expr, UnitTotals
from dpquery.source import Span
from dpquery.types import WIDEST_EXACT

__all__ = ["PER_GROUP", "refuse_group_bounds", "refuse_groups", "totals_of"]

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
