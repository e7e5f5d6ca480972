"""NULL as a value of expressions: where it can come from, and whether it is a group there.

Rows whose key is NULL are a group, as in any SQL, unless the policy says of the column that
they are none. The answer is public: it follows from the query and the policy, never from rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpquery.expr import (
    Apply,
    Arithmetic,
    ColumnRef,
    Constant,
    Expr,
    IsNull,
    Literal,
    Nulls,
    Operator,
    children,
)
from dpquery.rowfunctions import named
from dpquery.rowfunctions.base import CALENDAR
from dpquery.rowfunctions.conditional import FILLED, NOTHING, branches
from dpquery.rowfunctions.ranges import NOTHING_KNOWN, Facts, implied
from dpquery.types import Interval

__all__ = ["nulls_of", "worst"]

_RANK = {Nulls.NEVER: 0, Nulls.LEFT_OUT: 1, Nulls.GROUPED: 2}
_DIVISIONS = frozenset({Operator.DIVIDE, Operator.QUOTIENT, Operator.REMAINDER})


def worst(found: Iterable[Nulls]) -> Nulls:
    """Return what is known of a value that is NULL as soon as one of several is."""
    return max(found, key=_RANK.__getitem__, default=Nulls.NEVER)


def nulls_of(expr: Expr, facts: Facts = NOTHING_KNOWN) -> Nulls:
    """Return what is known of NULL among the values of an expression."""
    if expr in facts.present:
        return Nulls.NEVER
    match expr:
        case Literal() | IsNull():
            return Nulls.NEVER
        case ColumnRef(nulls=nulls):
            return nulls
        case Constant():
            return Nulls.GROUPED
        case Apply():
            return _of_function(expr, facts)
        case Arithmetic(operator=operator, right=right) if operator in _DIVISIONS:
            if _may_be_zero(implied(right, facts)):
                return Nulls.GROUPED
    return worst(nulls_of(part, facts) for part in children(expr))


def _of_function(call: Apply, facts: Facts) -> Nulls:
    arguments = call.arguments
    if call.function == "CASE":
        chosen = worst(nulls_of(part, facts) for part in branches(arguments))
        return chosen if len(arguments) % 2 else Nulls.GROUPED
    if call.function in {"NULLIF", NOTHING}:
        return Nulls.GROUPED
    found = [nulls_of(part, facts) for part in arguments]
    if call.function in FILLED:
        return min(found, key=_RANK.__getitem__)
    if not named(call.function).strict:
        return Nulls.NEVER
    return Nulls.GROUPED if any(_beyond(part, facts) for part in arguments) else worst(found)


def _may_be_zero(divisor: Interval) -> bool:
    return (divisor.low is None or divisor.low <= 0) and (
        divisor.high is None or divisor.high >= 0
    )


def _beyond(moment: Expr, facts: Facts) -> bool:
    """Say whether a moment may lie in no year that a calendar has: functions of it are NULL."""
    calendar = CALENDAR.get(moment.type.kind)
    if calendar is None or calendar.low is None or calendar.high is None:
        return False
    if isinstance(moment, Apply) and named(moment.function).calendar:
        return False
    return not implied(moment, facts).within(int(calendar.low), int(calendar.high))
