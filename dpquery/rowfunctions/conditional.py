"""Functions that choose among values: CASE, COALESCE, NULLIF, GREATEST, LEAST.

What a choice can be is the union of what it chooses among, and its range is their hull.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpquery.core.types import Interval, Type
from dpquery.ir.expr import Apply, Expr, IsNull, Literal
from dpquery.rowfunctions.base import ANY, RowFunction, Value, first_type, hull, same_longest

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


def _some(exprs: Sequence[Expr]) -> list[int]:
    """Return the places of the arguments that are not NULL itself."""
    return [i for i, expr in enumerate(exprs) if not is_nothing(expr)]


def _case_type(arguments: Sequence[Expr]) -> Type:
    return next((b.type for b in branches(arguments) if not is_nothing(b)), arguments[1].type)


def _case_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    last = ranges[-1:] if len(ranges) % 2 else ()
    found, results = [*ranges[1::2], *last], branches(arguments)
    kept = _some(results)
    return hull((), [found[i] for i in kept]) if kept else Interval(Fraction(0), Fraction(0))


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


def _coalesced(_: Apply, *values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def _nullif(_: Apply, value: Value, other: Value) -> Value:
    return None if value is not None and value == other else value


def _first_range(_: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    return ranges[0]


def _greatest(_: Apply, *values: Value) -> Value:
    return max((value for value in values if value is not None), default=None)


def _least(_: Apply, *values: Value) -> Value:
    return min((value for value in values if value is not None), default=None)


def _greatest_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    """Return a range that starts where an argument does which always has a value."""
    kept = [r for a, r in zip(arguments, ranges, strict=True) if never_null(a)]
    lows = [r.low for r in kept if r.low is not None]
    around = hull(arguments, ranges)
    if around.low is not None:
        lows.append(around.low)
    return Interval(max(lows, default=None), around.high)


def _least_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    return -_greatest_range(arguments, [-range_ for range_ in ranges])


FUNCTIONS = (
    RowFunction(
        name="CASE",
        summary="The value of the first condition that is true, else the last, else NULL",
        example="CASE WHEN age < 30 THEN 'young' ELSE 'old' END",
        parameters=(),
        written=False,
        result=_case_type,
        meaning=_case,
        sql=_case_sql,
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
        sql=lambda call: "NULL",
        strict=False,
    ),
    RowFunction(
        name="COALESCE",
        aliases=("IFNULL", "NVL"),
        summary="The first value that is not NULL",
        example="COALESCE(bonus, 0)",
        parameters=(ANY, ANY),
        variadic=True,
        alike=True,
        result=first_type,
        meaning=_coalesced,
        sql=lambda _, *texts: f"coalesce({', '.join(texts)})",
        strict=False,
        range=hull,
        chosen=lambda call: call.arguments,
        longest=same_longest,
    ),
    RowFunction(
        name="NULLIF",
        summary="The first value, or NULL where both are equal",
        example="NULLIF(age, 0)",
        parameters=(ANY, ANY),
        alike=True,
        result=first_type,
        meaning=_nullif,
        sql=lambda _, value, other: f"nullif({value}, {other})",
        strict=False,
        range=_first_range,
        chosen=lambda call: call.arguments[:1],
        longest=same_longest,
        repeats=2,
    ),
    RowFunction(
        name="GREATEST",
        summary="The largest value; NULL is passed over",
        example="GREATEST(age, 18)",
        parameters=(ANY, ANY),
        variadic=True,
        alike=True,
        result=first_type,
        meaning=_greatest,
        sql=lambda _, *texts: f"greatest({', '.join(texts)})",
        strict=False,
        range=_greatest_range,
        longest=same_longest,
    ),
    RowFunction(
        name="LEAST",
        summary="The smallest value; NULL is passed over",
        example="LEAST(salary, 100000)",
        parameters=(ANY, ANY),
        variadic=True,
        alike=True,
        result=first_type,
        meaning=_least,
        sql=lambda _, *texts: f"least({', '.join(texts)})",
        strict=False,
        range=_least_range,
        longest=same_longest,
    ),
)
