"""Finite public domains: every value that an expression can have, where it is a group.

A domain comes from the policy, from the query's own literals, or from the meaning of functions
over such domains. NULL is in it where a row may have it, unless the policy says of a column
that NULL is no group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import isfinite, prod

from dpquery.core.types import Kind, Type
from dpquery.ir.expr import (
    Apply,
    Arithmetic,
    ColumnRef,
    Compare,
    Comparison,
    Constant,
    Expr,
    Literal,
    Negate,
    Nulls,
    Operator,
    Scalar,
    Widen,
    children,
    columns_of,
)
from dpquery.ir.walk import constants_in
from dpquery.rowfunctions import named
from dpquery.rowfunctions.analysis.conditions import Facts, conjuncts
from dpquery.rowfunctions.analysis.nulls import by_branch, nulls_of
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.rowfunctions.base import CALENDAR, Value, in_years, scalar
from dpquery.rowfunctions.conditional import branches, is_nothing
from dpquery.rowfunctions.evaluate import Row, combined, constant, evaluate

MAX_CELLS = 1_000_000
MAX_COMPUTED = 100_000
"""Combinations of columns for which an expression is computed, to see what it can be."""
MAX_ASKED = 10_000
"""Combinations of columns for which conditions are asked, to see what is left."""
_STEPPED = frozenset({Kind.INTEGER, Kind.DATE, Kind.DECIMAL})
_WHOLE = frozenset({Operator.QUOTIENT, Operator.REMAINDER})
"""What can be nearly every whole number of its range."""
Values = tuple[Scalar | None, ...]


def values_of(expr: Expr, facts: Facts) -> Values | None:
    """Return every value of an expression, sorted, NULL last; None where they are not public.

    Doubles are never listed: two of them can read alike.
    """
    if expr.type.kind is Kind.DOUBLE:
        return None
    found = facts.values.get(expr)
    values = _found(expr, facts) if found is None else found
    return None if values is None else _sorted(_possible(expr, values, facts))


def _possible(expr: Expr, values: Values, facts: Facts) -> Iterable[Scalar | None]:
    """Return the values for which every condition on them, or on their columns, is true."""
    if not facts.said or len(values) > MAX_COMPUTED:
        return values
    said = [one for one in facts.said if is_exact(one)]
    about = [one for one in said if _is_about(one, expr)]
    left = [
        value
        for value in values
        if all(_meaning(one, expr, constant(value, expr.type)) for one in about)
    ]
    others = [one for one in said if one not in about and not _is_range(one)]
    reached = _reached(expr, others, facts)
    return left if reached is None else [value for value in left if value in reached]


def _reached(expr: Expr, said: Sequence[Expr], facts: Facts) -> frozenset[Scalar | None] | None:
    """Return what an expression can be where conditions on its columns alone are true.

    None where there are no such conditions, or too many values to compute it for.
    """
    columns = columns_of(expr)
    own = [one for one in said if columns_of(one) and columns_of(one).keys() <= columns.keys()]
    if not own or isinstance(expr, ColumnRef) or not is_exact(expr):
        return None
    if any(constants_in((expr, *own))):
        return None
    rows = _combinations(list(columns.values()), facts, MAX_ASKED)
    if rows is None:
        return None
    met = (dict(zip(columns, values, strict=True)) for values, _ in rows)
    return frozenset(
        scalar(evaluate(expr, row), expr.type)
        for row in met
        if all(evaluate(one, row) is True for one in own)
    )


def _is_range(condition: Expr) -> bool:
    """Return whether a condition bounds a column, which its own values follow already."""
    match condition:
        case Compare(operator=operator, left=ColumnRef(), right=Literal()):
            return operator not in {Comparison.EQ, Comparison.NE}
    return False


def _is_about(condition: Expr, expr: Expr) -> bool:
    """Return whether a condition reads an expression, and nothing else that rows decide."""
    if condition == expr:
        return True
    if isinstance(condition, ColumnRef | Constant):
        return False
    return all(_is_about(part, expr) for part in children(condition))


def _meaning(condition: Expr, expr: Expr, value: Value) -> Value:
    """Return what a condition is where the expression that it reads has a value."""
    if condition == expr:
        return value
    if isinstance(condition, ColumnRef | Literal | Constant):
        return evaluate(condition, {})
    return combined(condition, [_meaning(part, expr, value) for part in children(condition)])


def _sorted(values: Iterable[Scalar | None]) -> Values:
    different = set(values)
    known = different - {None}
    missing: Values = (None,) if None in different else ()
    return (*sorted(known, key=lambda value: value), *missing)  # type: ignore[arg-type, return-value]


def _found(expr: Expr, facts: Facts) -> Values | None:
    match expr:
        case ColumnRef(keys=keys) if keys is not None:
            return _or_null(expr, keys, facts)
        case Literal(value=value):
            return (value,)
        case Apply():
            return _applied(expr, facts)
    if expr.type.kind is Kind.BOOLEAN:
        return _or_null(expr, (False, True), facts)
    whole = isinstance(expr, Arithmetic) and expr.operator in _WHOLE
    ranged = whole or isinstance(expr, ColumnRef)
    return _between(expr, facts) if ranged else _computed(expr, facts)


def _or_null(expr: Expr, values: Values, facts: Facts) -> Values:
    """Return values with NULL, where an expression has a group of it."""
    return (*values, None) if nulls_of(expr, facts) is Nulls.GROUPED else values


def _applied(call: Apply, facts: Facts) -> Values | None:
    """Return what a choice chooses among, or else what the function makes of its arguments."""
    function = named(call.function)
    chosen = function.chosen(call)
    if chosen:
        return _union(call, chosen, facts)
    columns = columns_of(call).values()
    declared = bool(columns) and all(column.keys is not None for column in columns)
    moments = (one for one in call.arguments if one.type.kind in CALENDAR)
    for moment in () if declared else moments:
        listed = function.listed(call, in_years(moment, implied(moment, facts)))
        if listed is not None:
            return _or_null(call, listed, facts)
    if call.type.kind is Kind.BOOLEAN:
        return _or_null(call, (False, True), facts)
    ranged = _between(call, facts) if function.dense and not declared else None
    return ranged or _computed(call, facts)


def _union(call: Apply, chosen: tuple[Expr, ...], facts: Facts) -> Values | None:
    found: set[Scalar | None] = set()
    for one in chosen:
        if is_nothing(one):
            found.add(None)
            continue
        values = values_of(one, facts)
        if values is None:
            return None
        found.update(_chosen(call, one, values) if call.function == "CASE" else values)
    match call:
        case Apply(function="CASE", arguments=arguments):
            found |= set() if len(arguments) % 2 else {None}
        case Apply(function="NULLIF", arguments=(_, other)):
            found = (found - {other.value} if isinstance(other, Literal) else found) | {None}
        case _ if nulls_of(call, facts) is not Nulls.GROUPED:
            found.discard(None)
    return _sorted(found)


def _chosen(case: Apply, result: Expr, values: Values) -> Values:
    """Return which values of a result a CASE can have: those for which it comes to it.

    Whether a condition on the result alone is true follows from the value, so no row of another
    value has this result by that branch. A result that is written twice is met by either.
    """
    if len(values) > MAX_COMPUTED:
        return values
    tests = [list(conjuncts(test)) for test in case.arguments[:-1:2]]
    here = [at for at, one in enumerate(branches(case.arguments)) if one == result]

    def comes(value: Scalar | None) -> bool:
        met = [_told(parts, result, constant(value, result.type)) for parts in tests]
        return any(True not in met[:at] and False not in met[at : at + 1] for at in here)

    return tuple(value for value in values if comes(value))


def _told(parts: Sequence[Expr], expr: Expr, value: Value) -> bool | None:
    """Return whether all of some conditions are true, as far as one value of them tells."""
    about = [part for part in parts if is_exact(part) and _is_about(part, expr)]
    if any(_meaning(part, expr, value) is not True for part in about):
        return False
    return True if len(about) == len(parts) else None


def _between(expr: Expr, facts: Facts) -> Values | None:
    """List a range of whole numbers or days, if it is short enough."""
    range_ = implied(expr, facts)
    stepped = _STEPPED if isinstance(expr, Apply) else _STEPPED - {Kind.DECIMAL}
    if range_.low is None or range_.high is None or expr.type.kind not in stepped:
        return None
    steps = 10**expr.type.scale
    low, high = -int(-range_.low * steps // 1), int(range_.high * steps // 1)
    if high - low >= MAX_CELLS:
        return None
    places = range(low, high + 1)
    if expr.type.kind is Kind.DECIMAL:
        return _or_null(expr, tuple(Fraction(place, steps) for place in places), facts)
    return _or_null(expr, tuple(scalar(place, expr.type) for place in places), facts)


def _computed(expr: Expr, facts: Facts) -> Values | None:
    """Compute an expression for every combination of its columns' values, or of its parts'."""
    if next(constants_in(expr), None) is not None:
        return None
    columns = columns_of(expr)
    if not columns:
        return None
    found = list[Values | None]()  # each holds all values
    if is_exact(expr):
        rows = _combinations(list(columns.values()), facts)
        if rows is not None:
            return _results(
                rows,
                lambda row: evaluate(expr, dict(zip(columns, row, strict=True))),
                expr.type,
            )
        found.append(_between(expr, facts))
    if isinstance(expr, Apply | Arithmetic | Widen | Negate) and _is_exact_of_parts(expr):
        rows = _combinations(children(expr), facts)
        if rows is not None:
            found.append(_results(rows, lambda row: combined(expr, list(row)), expr.type))
    return min((values for values in found if values is not None), key=len, default=None)


_Combined = tuple[tuple[Value, ...], bool]
"""Values of several expressions, and whether one is NULL that is no group by itself."""


def _combinations(
    exprs: Sequence[Expr], facts: Facts, most: int = MAX_COMPUTED
) -> Iterator[_Combined] | None:
    """Return every combination of what expressions can be; None where they are not public."""
    held: list[list[tuple[Value, bool]]] = []
    for expr in exprs:
        values = values_of(expr, facts)
        if values is None:
            return None
        held.append([(constant(value, expr.type), False) for value in values])
        if nulls_of(expr, facts) is Nulls.LEFT_OUT:
            held[-1].append((None, True))
    if prod(map(len, held)) > most:
        return None
    return (
        (tuple(value for value, _ in row), any(quiet for _, quiet in row))
        for row in product(*held)
    )


def _results(
    rows: Iterable[_Combined], meaning: Callable[[tuple[Value, ...]], Value], type_: Type
) -> Values:
    """Return what is computed; NULL only where it is not of a NULL that is no group."""
    results = ((meaning(row), quiet) for row, quiet in rows)
    found = {value for value, quiet in results if value is not None or not quiet}
    return _sorted(scalar(value, type_) for value in found)


def tuples_of(exprs: Sequence[Expr], rows: Iterable[Row]) -> list[tuple[Scalar | None, ...]]:
    """Return every combination of values that expressions have in some rows, sorted."""
    found = {tuple(_public(evaluate(e, row), e.type) for e in exprs) for row in rows}
    return sorted(found, key=lambda one: [(value is None, value) for value in one])


def _public(value: Value, type_: Type) -> Scalar | None:
    """Return a value as a group holds it: a double as the number that it is."""
    finite = isinstance(value, float) and isfinite(value)
    return Fraction(value) if finite else scalar(value, type_)


def undeclared(expr: Expr, facts: Facts) -> frozenset[str]:
    """Return the columns of which only declared values are in the domain of an expression."""
    if expr in facts.values or expr.type.kind is Kind.BOOLEAN:
        return frozenset()
    match expr:
        case ColumnRef(name=name, keys=keys, clamped=True) if keys is not None:
            return frozenset({name})
        case Apply(function="CASE"):
            parts = list(by_branch(expr, facts))
        case Apply():
            chosen = named(expr.function).chosen(expr) or expr.arguments
            parts = [(part, facts) for part in chosen]
        case _:
            parts = [(part, facts) for part in children(expr)]
    return frozenset[str]().union(*(undeclared(part, known) for part, known in parts))


def is_exact(expr: Expr) -> bool:
    """Return whether every library computes the same last bit of a value."""
    return _is_exact_of_parts(expr) and all(map(is_exact, children(expr)))


def _is_exact_of_parts(expr: Expr) -> bool:
    """Return whether every library computes the same of equal parts."""
    return not isinstance(expr, Apply) or named(expr.function).exact
