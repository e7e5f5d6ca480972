"""NULL as a value of expressions: where it can come from, and whether it is a group there.

Rows whose key is NULL are a group, as in any SQL, unless the policy says of the column that
they are none. The answer is public: it follows from the query and the policy, never from rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dpquery.core.types import Interval
from dpquery.ir.expr import (
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
from dpquery.rowfunctions.analysis.conditions import NOTHING_KNOWN, Facts, facts_of
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.rowfunctions.base import YEARS
from dpquery.rowfunctions.conditional import FILLED, NOTHING, branches

_RANK = [Nulls.NEVER, Nulls.LEFT_OUT, Nulls.GROUPED]
DIVISIONS = frozenset({Operator.DIVIDE, Operator.QUOTIENT, Operator.REMAINDER})


def worst(found: Iterable[Nulls]) -> Nulls:
    """Return what is known of a value that is NULL as soon as one of several is."""
    return max(found, key=_RANK.index, default=Nulls.NEVER)


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
        case Arithmetic(operator=operator, right=right) if operator in DIVISIONS:
            if implied(right, facts).meets(Interval.point(0)):
                return Nulls.GROUPED
    return worst(nulls_of(part, facts) for part in children(expr))


def _of_function(call: Apply, facts: Facts) -> Nulls:
    arguments = call.arguments
    if call.function == "CASE":
        chosen = worst(nulls_of(part, known) for part, known in by_branch(call, facts))
        return chosen if len(arguments) % 2 else Nulls.GROUPED
    if call.function in {"NULLIF", NOTHING}:
        return Nulls.GROUPED
    found = [nulls_of(part, facts) for part in arguments]
    if call.function in FILLED:
        return min(found, key=_RANK.index)
    if not named(call.function).strict:
        return Nulls.NEVER
    # What a condition has compared is there. Beyond the calendar it counts as NULL, so that
    # rows with it are as those without: they make no group.
    far = (part in facts.present for part in arguments if _beyond(part, facts))
    return worst([*found, *(Nulls.LEFT_OUT if known else Nulls.GROUPED for known in far)])


def by_branch(case: Apply, facts: Facts) -> Iterator[tuple[Expr, Facts]]:
    """Return the results of a CASE, each with what its condition says of values and NULL."""
    tests = [*map(facts_of, case.arguments[:-1:2]), NOTHING_KNOWN]
    for result, test in zip(branches(case.arguments), tests, strict=False):
        values, present = {**facts.values, **test.values}, facts.present | test.present
        yield result, replace(facts, values=values, present=present)


def _beyond(moment: Expr, facts: Facts) -> bool:
    """Say whether a moment may lie in no year that a calendar has: functions of it are NULL."""
    years = YEARS.get(moment.type.kind)
    if years is None or (isinstance(moment, Apply) and named(moment.function).calendar):
        return False
    return not implied(moment, facts).within(*years)
