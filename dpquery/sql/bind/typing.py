"""Builds typed expressions: no conversion but numeric widening, and those that were written.

Each arithmetic node gets a type and a public range by interval arithmetic; whether the range is
narrow enough to be computed is the business of `sql/rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery import rowfunctions
from dpquery.core.source import Span
from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.errors import refusal
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
from dpquery.rowfunctions.conditional import is_nothing
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


# Binds CAST, TRY_CAST and `::`: conversions that the analyst wrote, each of them total.


_TARGETS = {
    **dict.fromkeys(
        (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT), INTEGER
    ),
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.TEXT: TEXT,
    exp.DType.VARCHAR: TEXT,
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP,
}
_NAMES = {
    Kind.INTEGER: "TO_INTEGER",
    Kind.TEXT: "TO_TEXT",
    Kind.DATE: "TO_DATE",
    Kind.TIMESTAMP: "TO_TIMESTAMP",
}
_EXACT = frozenset({Kind.INTEGER, Kind.DECIMAL})
_WIDEST = 38


def target(node: exp.Cast) -> Type | None:
    """Return the type that a conversion names; None where there is no conversion to it."""
    to = node.args.get("to")
    if not isinstance(to, exp.DataType):
        return None
    if to.this is exp.DType.DECIMAL:
        digits = [str(part.this.this) for part in to.expressions]
        return _decimal(digits) if len(digits) == 2 and all(map(str.isdigit, digits)) else None
    return None if to.expressions else _TARGETS.get(to.this)


def _decimal(digits: list[str]) -> Type | None:
    if max(map(len, digits)) > 2:
        return None
    precision, scale = map(int, digits)
    fits = 1 <= precision <= _WIDEST and scale <= precision
    return Type(Kind.DECIMAL, precision, scale) if fits else None


def convert(span: Span, operand: Expr, type_: Type) -> Expr:
    """Convert a value.

    Raises:
        NameRefused: DPQ208 there is no conversion between the types.
        RuleRefused: DPQ305 a decimal has no room for every value.
    """
    kind = operand.type.kind
    if is_nothing(operand) or kind is type_.kind is not Kind.DECIMAL:
        return operand
    match type_.kind:
        case Kind.DOUBLE if operand.type.numeric:
            return to_double(operand)
        case Kind.DOUBLE if kind is Kind.BOOLEAN:
            return to_double(rowfunctions.apply(span, "TO_INTEGER", operand))
        case Kind.BOOLEAN if kind is Kind.INTEGER:
            zero = Literal(span, 0, INTEGER)
            return compare(span, Comparison.NE, operand, zero, lambda: "TRUE")
        case Kind.DECIMAL if kind in _EXACT:
            return _to_decimal(span, operand, type_)
        case Kind.INTEGER | Kind.TEXT | Kind.DATE | Kind.TIMESTAMP:
            function = rowfunctions.named(_NAMES[type_.kind])
            if kind in function.parameters[0].kinds:
                return rowfunctions.apply(span, function.name, operand)
    title = f"{with_article(operand.type)} cannot be converted to {with_article(type_)}"
    mismatch(operand.span, title, f"{with_article(operand.type)} here", "CAST(1 AS DOUBLE)")


def _to_decimal(span: Span, operand: Expr, type_: Type) -> Expr:
    """Return a number so many places; every value has to have room."""
    number = operand
    if operand.type.scale > type_.scale:
        places = Literal(span, type_.scale, INTEGER)
        number = rowfunctions.apply(span, "ROUND", operand, places)
    number = to_scale(number, type_.scale)
    low, high = number.domain.low, number.domain.high
    limit = Fraction(10) ** (type_.precision - type_.scale)
    if low is None or high is None or not -limit < low <= high < limit:
        _no_room(span, type_)
    return number


def _no_room(span: Span, type_: Type) -> NoReturn:
    raise refusal(
        "DPQ305",
        f"not every value fits {type_}",
        span,
        "too narrow for some values",
        "an error that depends on one row would tell whether that row exists.",
        f"CAST(1 AS DECIMAL({_WIDEST},{type_.scale}))",
    )
