"""Answers that would always be empty: refused before they are paid for.

What is found here is plain in the text and the policy: a LIMIT of no rows, a condition over
literals that is never true, conditions that no value meets together, or none within its bounds,
a key that is mistyped, a column that is divided by zero or computed with NULL. Over public
tables such questions cost nothing, and are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import reduce
from operator import eq, ge, gt, le, lt, ne, or_
from typing import Any, NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Source, Span
from dpquery.core.text_table import value_text
from dpquery.core.types import BOOLEAN
from dpquery.errors import listed, refusal
from dpquery.functions.quantize import written_ends
from dpquery.ir.expr import ColumnRef, Compare, Expr, Scalar, children, columns_of
from dpquery.ir.query import Frontier
from dpquery.ir.relations import Filter, walk
from dpquery.rowfunctions.analysis.conditions import with_literals
from dpquery.rowfunctions.analysis.contradictions import (
    Mistyped,
    contradiction,
    impossible,
    meant_key,
    mistyped,
)
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.sql.bind.joins.where_subqueries import said_of
from dpquery.sql.bind.scope import is_call
from dpquery.sql.parse.literals import chain, unwrapped
from dpquery.sql.parse.spans import Spans, mended
from dpquery.sql.suggest.sample_queries import without_condition

_COMPARED: Mapping[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: eq,
    exp.NEQ: ne,
    exp.LT: lt,
    exp.LTE: le,
    exp.GT: gt,
    exp.GTE: ge,
}
_WIDEST = 40
"""Longer conditions are not repeated beside the caret."""
_CLAMPED = "conditions see values clamped to their bounds;"
_DIVISIONS = (exp.Div, exp.IntDiv, exp.Mod)
_ARITHMETIC = (*_DIVISIONS, exp.Add, exp.Sub, exp.Mul, exp.Neg)


def refuse_empty(query: exp.Expr, spans: Spans) -> None:
    """Refuse a statement that is charged and of which a part would always be empty.

    Raises:
        PlanRefused: DPQ408.
    """
    for limit in query.find_all(exp.Limit):
        if _number(limit.expression) == 0:
            _refuse(_clause("LIMIT", limit, spans), "this shows no rows", "LIMIT 10")
    for clause in query.find_all(exp.Where, exp.Having, exp.Qualify):
        never = _never(clause.this)
        if never is not None:
            span = spans.of(never)
            _refuse(span, "no row meets this", without_condition(spans.source, span))
    for value in _values(query):
        nothing = _always_null(value)
        if nothing is not None:
            left, right = nothing.this, nothing.args.get("expression")
            why = "computed with NULL" if _is_null(left, right) else "divided by zero"
            kept = spans.text(right if _is_null(left) and right is not None else left)
            _refuse(spans.of(nothing), why, kept, title="this would always be NULL")


def refuse_contradictions(frontier: Frontier, source: Source) -> None:
    """Refuse rows of which none can be there: what conditions say excludes itself, or bounds.

    Raises:
        PlanRefused: DPQ408.
    """
    for node in walk(frontier.relation):
        if isinstance(node, Filter):
            _require_possible(source, said_of(node))
    for call in frontier.calls:
        asked = (one.expr for one in call.inputs if one.expr.type == BOOLEAN)
        for condition in (call.condition, *asked):
            if condition is not None:
                _require_possible(source, said_of(frontier.relation), condition)


def _require_possible(source: Source, *conditions: Expr | None) -> None:
    for condition in conditions:
        never = None if condition is None else impossible(condition)
        if never is not None:
            _refuse_beyond(never, source)
        for one in () if condition is None else mistyped(condition):
            if source.snippet(one.text.span).startswith("'"):  # and is not computed
                _refuse_mistyped(one, source)
    found = contradiction(*conditions)
    if found is None:
        return
    (first, part), text = found, source.snippet
    remedy, other = f"{text(first.span)} OR {text(part.span)}", text(first.span)
    if first.span == part.span:  # the two halves of BETWEEN
        assert isinstance(first, Compare)  # noqa: S101
        assert isinstance(part, Compare)  # noqa: S101
        ends = f"{text(part.right.span)} AND {text(first.right.span)}"
        remedy, other = f"{text(part.left.span)} BETWEEN {ends}", ""
    elif _names(first, source) != _names(part, source):  # in subqueries, of other names
        remedy = without_condition(source, part.span)
    said = f" and {other}" if 0 < len(other) <= _WIDEST else ""
    _refuse(part.span, f"no row meets this{said}", remedy)


def _refuse_beyond(part: Expr, source: Source) -> NoReturn:
    """Refuse a condition that no value within bounds and keys meets; offer the nearest one."""
    label, remedy = _nearest(part, source)
    read = columns_of(part).values()
    clamped = any(column.clamped and column.bounded for column in read)
    span = reduce(or_, (one.span for one in children(part)), part.span)
    _refuse(span, label, remedy, (_CLAMPED,) if clamped else ())


def _refuse_mistyped(found: Mistyped, source: Source) -> NoReturn:
    """Refuse a text that looks like a key; offer the key, or the list without the text."""
    text, key, written = found.text, found.key, source.snippet(found.column.span)
    left = [source.snippet(one.span) for one in found.options if one is not text]
    again = f"{written} IN ({', '.join(left)})"
    known = any(one.value == key for one in found.options)
    title = f"{value_text(text.value)[:40]} is not among the keys of {written}"
    label = f"the keys of {written} are {listed(map(value_text, _keys(found.column)), key)}"
    why = "it looks like one of them, mistyped: it would be charged, and tell nothing."
    typed = "'{}'".format(key.replace("'", "''"))
    remedy = again if known else mended(source, text.span, typed, typed)
    raise refusal("DPQ408", title, text.span, label, why, remedy)


def _keys(expr: Expr) -> tuple[Scalar, ...]:
    return (expr.keys if isinstance(expr, ColumnRef) else None) or ()


def _nearest(part: Expr, source: Source) -> tuple[str, str]:
    """Say what the values of a condition's expression are, and write one that some meet."""
    compared = with_literals(part)
    dropped = without_condition(source, part.span)
    if compared is None:
        return "no row meets this", dropped
    _, expr, options = compared
    written, range_ = source.snippet(expr.span), implied(expr)
    key = meant_key(expr, options)
    if key is not None:
        keys = listed(map(value_text, _keys(expr)), key)
        typed = "'{}'".format(key.replace("'", "''"))
        return f"the keys of {written} are {keys}", f"{written} = {typed}"
    low, high = range_.low, range_.high
    ends = written_ends(range_, expr.type)
    if low is None or high is None or any("…" in end for end in ends):
        return "no row meets this", dropped
    label, places = f"{written} is {ends[0]} to {ends[1]} here", [o.domain for o in options]
    first, last = ends if expr.type.numeric else (f"'{end}'" for end in ends)
    if all(place.low is not None and place.low >= high for place in places):
        return label, f"{written} >= {last}"
    if all(place.high is not None and place.high <= low for place in places):
        return label, f"{written} <= {first}"
    return label, f"{written} BETWEEN {first} AND {last}"


def _names(part: Expr, source: Source) -> set[str]:
    return {source.snippet(column.span) for column in columns_of(part).values()}


def refuse_offset(offset: exp.Offset, rows: int, spans: Spans) -> None:
    """Refuse to leave out as many rows of a released table as it has, or more.

    Raises:
        PlanRefused: DPQ408.
    """
    number = _number(offset.expression)
    if number is not None and number >= rows:
        shown = "1 row" if rows == 1 else f"{rows:,} rows"
        _refuse(_clause("OFFSET", offset, spans), f"there are {shown} at most", "OFFSET 0")


def _values(query: exp.Expr) -> list[exp.Expr]:
    """Return what columns show, and what calls are asked about."""
    shown = [item for select in query.find_all(exp.Select) for item in select.expressions]
    calls = [call for call in query.walk() if is_call(call)]
    return [*shown, *(argument for call in calls for argument in call.expressions)]


def _is_null(*nodes: exp.Expr | None) -> bool:
    """Return whether one of some nodes is NULL."""
    return any(node is not None and isinstance(unwrapped(node), exp.Null) for node in nodes)


def _always_null(value: exp.Expr) -> exp.Expr | None:
    """Return the arithmetic with NULL, or by zero, for which a value is NULL, if any is."""
    pending = [value]
    while pending:
        node = pending.pop()
        inner = unwrapped(node.this if isinstance(node, exp.Alias) else node)
        if not isinstance(inner, _ARITHMETIC):
            continue
        left, right = inner.this, inner.args.get("expression")
        by_zero = isinstance(inner, _DIVISIONS) and _number(inner.expression) == 0
        if by_zero or _is_null(left, right):
            return inner
        pending += [part for part in (left, right) if part]
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
    """Return whether a comparison of two literals of one kind is false."""
    compared = _COMPARED.get(type(node))
    if compared is None:
        return False
    left, right = _literal(node.this), _literal(node.expression)
    alike = left is not None and type(left) is type(right)
    return alike and not compared(left, right)


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


def _clause(word: str, clause: exp.Limit | exp.Offset, spans: Spans) -> Span:
    """Return where a clause of one number stands, with its word."""
    number = spans.of(clause.expression)
    return Span(spans.source.text.upper().rfind(word, 0, number.start), number.end)


def _refuse(
    span: Span,
    label: str,
    remedy: str,
    reasons: tuple[str, ...] = (),
    title: str = "the answer would always be empty",
) -> NoReturn:
    why = "it would be charged, and tell nothing."
    raise refusal("DPQ408", title, span, label, (*reasons, why), remedy)
