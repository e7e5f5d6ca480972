"""Functions that choose among values: CASE, COALESCE, NULLIF, GREATEST, LEAST.

What a choice can be is the union of what it chooses among, and its range is their hull.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpquery.core.types import Interval, Type
from dpquery.ir.expr import Apply, Expr, IsNull, Literal
from dpquery.rowfunctions.base import (
    ANY,
    Ranged,
    RowFunction,
    Value,
    first_type,
    hull,
    same_longest,
)

NOTHING = "NULL"
FILLED = frozenset({"COALESCE", "GREATEST", "LEAST"})


def is_nothing(expr: Expr) -> bool:
    """Return whether an expression is NULL itself."""
    return isinstance(expr, Apply) and expr.function == NOTHING


def never_null(expr: Expr) -> bool:
    """Return whether an expression is known to have a value in every row."""
    match expr:
        case Literal() | IsNull():
            return True
        case Apply(function="CASE", arguments=arguments):
            return len(arguments) % 2 == 1 and all(map(never_null, branches(arguments)))
        case Apply(function=name, arguments=arguments) if name in FILLED:
            return any(map(never_null, arguments))
    return False


def branches(arguments: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return the results of a CASE: each after its condition, and the one after ELSE."""
    last = arguments[-1:] if len(arguments) % 2 else ()
    return (*arguments[1::2], *last)


def _case_type(arguments: Sequence[Expr]) -> Type:
    return next((b.type for b in branches(arguments) if not is_nothing(b)), arguments[1].type)


def _case_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    last = ranges[-1:] if len(ranges) % 2 else ()
    results = zip(branches(arguments), [*ranges[1::2], *last], strict=True)
    found = [range_ for expr, range_ in results if not is_nothing(expr)]
    return hull((), found) if found else Interval.point(0)


def _case(_: Apply, *values: Value) -> Value:
    for condition, value in zip(values[::2], values[1::2], strict=False):
        if condition is True:
            return value
    return values[-1] if len(values) % 2 else None


def _case_sql(_: Apply, *texts: str) -> str:
    pairs = zip(texts[::2], texts[1::2], strict=False)
    parts = [f"WHEN {condition} THEN {value}" for condition, value in pairs]
    parts += [f"ELSE {texts[-1]}"] if len(texts) % 2 else []
    return f"(CASE {' '.join(parts)} END)"


def _present(values: Sequence[Value]) -> list[Value]:
    return [value for value in values if value is not None]


def _greatest_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    """Return a range that starts where an argument does which always has a value."""
    kept = [r for a, r in zip(arguments, ranges, strict=True) if never_null(a)]
    lows = [r.low for r in kept if r.low is not None]
    around = hull(arguments, ranges)
    if around.low is not None:
        lows.append(around.low)
    return Interval(max(lows, default=None), around.high)


def _of_several(
    name: str,
    summary: str,
    example: str,
    meaning: Callable[..., Value],
    range_: Ranged,
    **settings: Any,
) -> RowFunction:
    return RowFunction(
        name=name,
        summary=summary,
        example=example,
        parameters=(ANY, ANY),
        variadic=True,
        alike=True,
        result=first_type,
        meaning=meaning,
        strict=False,
        range=range_,
        longest=same_longest,
        **settings,
    )


FUNCTIONS = (
    RowFunction(
        name="CASE",
        summary="The value of the first condition that is true, else the last, else NULL",
        example="CASE WHEN age < 30 THEN 'young' ELSE 'old' END",
        parameters=(),
        written=False,
        result=_case_type,
        meaning=_case,
        written_as=_case_sql,
        strict=False,
        range=_case_range,
        chosen=lambda call: branches(call.arguments),
        longest=lambda arguments: same_longest(branches(arguments)),
    ),
    RowFunction(
        name=NOTHING,
        summary="No value; inside CASE, IF and COALESCE",
        example="CASE WHEN age > 0 THEN age ELSE NULL END",
        parameters=(),
        written=False,
        result=first_type,
        meaning=lambda call: None,
        written_as=lambda call: "NULL",
        strict=False,
    ),
    _of_several(
        "COALESCE",
        "The first value that is not NULL",
        "COALESCE(bonus, 0)",
        lambda _, *values: next(iter(_present(values)), None),
        hull,
        aliases=("IFNULL", "NVL"),
        chosen=lambda call: call.arguments,
    ),
    RowFunction(
        name="NULLIF",
        summary="The first value, or NULL where both are equal",
        example="NULLIF(age, 0)",
        parameters=(ANY, ANY),
        alike=True,
        result=first_type,
        meaning=lambda _, value, other: None if value == other else value,
        strict=False,
        range=lambda _, ranges: ranges[0],
        chosen=lambda call: call.arguments[:1],
        longest=same_longest,
        repeats=2,
    ),
    _of_several(
        "GREATEST",
        "The largest value; NULL is passed over",
        "GREATEST(age, 18)",
        lambda _, *values: max(_present(values), default=None),
        _greatest_range,
    ),
    _of_several(
        "LEAST",
        "The smallest value; NULL is passed over",
        "LEAST(salary, 100000)",
        lambda _, *values: min(_present(values), default=None),
        lambda args, ranges: -_greatest_range(args, [-range_ for range_ in ranges]),
    ),
)
