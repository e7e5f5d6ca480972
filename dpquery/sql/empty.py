"""Answers that could not contain anything: refused before they are paid for.

What is found here is plain in the text: a LIMIT of no rows, a condition over literals that is
never true, a column that is divided by zero or computed with NULL. Over public tables such
questions cost nothing, and are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, PlanRefused
from dpquery.source import Span
from dpquery.sql.conditions import chain
from dpquery.sql.literals import unwrapped
from dpquery.sql.names import is_call
from dpquery.sql.spans import Spans

__all__ = ["refuse_empty"]

_COMPARED: Mapping[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: eq,
    exp.NEQ: ne,
    exp.LT: lt,
    exp.LTE: le,
    exp.GT: gt,
    exp.GTE: ge,
}
_DIVISIONS = (exp.Div, exp.IntDiv, exp.Mod)
_ARITHMETIC = (*_DIVISIONS, exp.Add, exp.Sub, exp.Mul, exp.Neg)


def refuse_empty(query: exp.Expr, spans: Spans) -> None:
    """Refuse a statement that is charged and of which a part could not contain anything.

    Raises:
        PlanRefused: DPQ408.
    """
    for limit in query.find_all(exp.Limit):
        if _number(limit.expression) == 0:
            _refuse_limit(limit, spans)
    for clause in query.find_all(exp.Where, exp.Having, exp.Qualify):
        never = _never(clause.this)
        if never is not None:
            _refuse(spans.of(never), "no row meets this", "TRUE")
    for value in _values(query):
        nothing = _always_null(value)
        if nothing is not None:
            left, right = nothing.this, nothing.args.get("expression")
            with_null = "computed with NULL" if _is_null(left) or _is_null(right) else None
            kept = spans.text(right if _is_null(left) and right is not None else left)
            said = f"{with_null or 'divided by zero'}, this is always NULL"
            _refuse(spans.of(nothing), said, kept)


def _values(query: exp.Expr) -> list[exp.Expr]:
    """Return what columns show, and what calls are asked about."""
    shown = [item for select in query.find_all(exp.Select) for item in select.expressions]
    calls = [call for call in query.walk() if is_call(call)]
    return [*shown, *(argument for call in calls for argument in call.expressions)]


def _is_null(node: exp.Expr | None) -> bool:
    return node is not None and isinstance(unwrapped(node), exp.Null)


def _always_null(value: exp.Expr) -> exp.Expr | None:
    """Return the arithmetic with NULL, or by zero, for which a value is NULL, if any is."""
    pending = [value]
    while pending:
        node = pending.pop()
        inner = unwrapped(node.this if isinstance(node, exp.Alias) else node)
        if isinstance(inner, _DIVISIONS) and _number(inner.expression) == 0:
            return inner
        if isinstance(inner, _ARITHMETIC):
            if any(map(_is_null, (inner.this, inner.args.get("expression")))):
                return inner
            pending += [part for part in (inner.this, inner.args.get("expression")) if part]
    return None


def _never(condition: exp.Expr) -> exp.Expr | None:
    """Return the part of a condition that is true for no row, by its literals alone."""
    node = unwrapped(condition)
    match node:
        case exp.And():
            return next(filter(None, map(_never, chain(node))), None)
        case exp.Or():
            return node if all(map(_never, chain(node))) else None
        case exp.Boolean(this=True):
            return None
        case exp.Boolean() | exp.Null():
            return node
    return node if _unequal(node) else None


def _unequal(node: exp.Expr) -> bool:
    """Say whether a comparison of two literals of one kind is false."""
    compared = _COMPARED.get(type(node))
    if compared is None:
        return False
    sides = [_literal(side) for side in (node.this, node.expression)]
    if None in sides or type(sides[0]) is not type(sides[1]):
        return False
    return not compared(*sides)


def _literal(node: exp.Expr) -> Decimal | str | None:
    inner = unwrapped(node)
    text = isinstance(inner, exp.Literal) and inner.is_string
    return str(inner.this) if text else _number(inner)


def _number(node: exp.Expr) -> Decimal | None:
    """Return the number that a literal is, with its sign."""
    inner = unwrapped(node)
    if isinstance(inner, exp.Neg):
        number = _number(inner.this)
        return None if number is None else -number
    if not isinstance(inner, exp.Literal) or inner.is_string:
        return None
    return Decimal(str(inner.this))


def _refuse_limit(limit: exp.Limit, spans: Spans) -> NoReturn:
    number = spans.of(limit.expression)
    start = spans.source.text.upper().rfind("LIMIT", 0, number.start)
    _refuse(Span(start, number.end), "this shows no rows", "LIMIT 10")


def _refuse(span: Span, label: str, remedy: str) -> NoReturn:
    raise PlanRefused(
        Diagnostic(
            "DPQ408",
            "the answer could not contain anything",
            span,
            label,
            ("it would be charged, and tell nothing.",),
            (remedy,),
        )
    )
