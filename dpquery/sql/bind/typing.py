"""Builds typed expressions: no implicit casts but numeric widening, which is inserted here.

Each arithmetic node gets a type and a public range by interval arithmetic; whether the range is
narrow enough to be computed is the business of `check.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time

from dpquery.core.source import Span
from dpquery.core.types import DOUBLE, INTEGER, TIMESTAMP, Kind, Type
from dpquery.ir.expr import (
    Arithmetic,
    Compare,
    Comparison,
    Expr,
    In,
    Literal,
    Negate,
    Operator,
    Widen,
    decimal,
)
from dpquery.rowfunctions.ranges import arithmetic_range
from dpquery.sql.parse.literals import as_moment
from dpquery.sql.suggest.queries import mismatch, with_article

Remedy = Callable[[], str]
"""What to write instead, computed where values turn out not to match."""


def compare(
    span: Span, operator: Comparison, left: Expr, right: Expr, remedy: Remedy
) -> Compare:
    """Compare two values of one family.

    Raises:
        NameRefused: DPQ208 the types do not match.
    """
    left, right = alike(span, [left, right], remedy)
    return Compare(span, operator, left, right)


def member(span: Span, operand: Expr, options: list[Literal], remedy: Remedy) -> In:
    """Ask whether a value is one of several literals."""
    operand, *found = alike(span, [operand, *options], remedy)
    return In(span, operand, tuple(option for option in found if isinstance(option, Literal)))


def arithmetic(
    span: Span, operator: Operator, left: Expr, right: Expr, remedy: Remedy
) -> Arithmetic:
    """Combine two numbers; the result's range follows from theirs.

    Raises:
        NameRefused: DPQ208 an operand is not a number, or not an integer where one is needed.
    """
    for operand in (left, right):
        if not operand.type.numeric:
            named = with_article(operand.type)
            mismatch(operand.span, f"{operator} needs numbers", named, remedy())
    match operator:
        case Operator.DIVIDE:
            left, right = to_double(left), to_double(right)
            return _combined(span, operator, left, right, DOUBLE)
        case Operator.QUOTIENT | Operator.REMAINDER:
            for operand in (left, right):
                if operand.type != INTEGER:
                    named = with_article(operand.type)
                    mismatch(operand.span, f"{operator} needs integers", named, remedy())
            return _combined(span, operator, left, right, INTEGER)
        case Operator.MULTIPLY if left.type.kind is not Kind.DOUBLE is not right.type.kind:
            type_ = decimal(left.type.scale + right.type.scale)
            return _combined(span, operator, left, right, type_)
    left, right = _one_number_type([left, right])
    return _combined(span, operator, left, right, left.type)


def _combined(
    span: Span, operator: Operator, left: Expr, right: Expr, type_: Type
) -> Arithmetic:
    domain = arithmetic_range(operator, left.domain, right.domain)
    return Arithmetic(span, operator, left, right, type_, domain)


def negate(span: Span, operand: Expr, remedy: Remedy) -> Negate:
    """Change a number's sign."""
    if not operand.type.numeric:
        mismatch(operand.span, "- needs a number", with_article(operand.type), remedy())
    return Negate(span, operand, operand.type)


def alike(span: Span, exprs: list[Expr], remedy: Remedy) -> list[Expr]:
    """Bring values to one type, by widening numbers and reading literals; or refuse."""
    if all(expr.type.numeric for expr in exprs):
        return _one_number_type(exprs)
    kinds = {expr.type.kind for expr in exprs}
    moments = kinds & {Kind.DATE, Kind.TIMESTAMP}
    if moments and not all(isinstance(expr, Literal) for expr in exprs):
        exprs = [_moment(expr, exprs) for expr in exprs]
        kinds = {expr.type.kind for expr in exprs}
    if len(kinds) > 1:
        first = exprs[0].type
        other = next(expr for expr in exprs if expr.type.kind is not first.kind)
        mismatch(
            span,
            f"{with_article(first)} cannot be compared with {with_article(other.type)}",
            "types differ",
            remedy(),
        )
    return exprs


def _one_number_type(exprs: list[Expr]) -> list[Expr]:
    if any(expr.type.kind is Kind.DOUBLE for expr in exprs):
        return [to_double(expr) for expr in exprs]
    scale = max(expr.type.scale for expr in exprs)
    return [to_scale(expr, scale) for expr in exprs]


def to_double(expr: Expr) -> Expr:
    """Widen a number to a double; a literal is read as the double nearest to it."""
    if expr.type.kind is Kind.DOUBLE:
        return expr
    return replace(expr, type=DOUBLE) if isinstance(expr, Literal) else Widen(expr, DOUBLE)


def to_scale(expr: Expr, scale: int) -> Expr:
    """Widen an exact number to so many places."""
    if expr.type.scale == scale:
        return expr
    wider = decimal(scale)
    return replace(expr, type=wider) if isinstance(expr, Literal) else Widen(expr, wider)


def _moment(expr: Expr, others: list[Expr]) -> Expr:
    """Read a literal as the date or timestamp that the columns beside it are."""
    wanted = next(other.type for other in others if not isinstance(other, Literal))
    if not isinstance(expr, Literal) or expr.type == wanted:
        return expr
    if isinstance(expr.value, str) and wanted.kind in {Kind.DATE, Kind.TIMESTAMP}:
        return as_moment(expr.value, wanted, expr.span)
    if (
        wanted == TIMESTAMP
        and isinstance(expr.value, date)
        and not isinstance(expr.value, datetime)
    ):
        return Literal(expr.span, datetime.combine(expr.value, time.min), TIMESTAMP)
    return expr
