"""Binds CAST, TRY_CAST and `::`: conversions that the analyst wrote, each of them total."""

from __future__ import annotations

from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery import rowfunctions
from dpquery.errors import Diagnostic, RuleRefused
from dpquery.ir import Comparison, Expr, Literal
from dpquery.rowfunctions.conditional import is_nothing
from dpquery.source import Span
from dpquery.sql.expressions import compare, to_double, to_scale
from dpquery.sql.mismatches import mismatch, with_article
from dpquery.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type

__all__ = ["convert", "target"]

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
    """Give the type that a conversion names; None where there is no conversion to it."""
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
    """Give a number so many places; every value has to have room."""
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
    raise RuleRefused(
        Diagnostic(
            "DPQ305",
            f"not every value fits {type_}",
            span,
            "too narrow for some values",
            ("an error that depends on one row would tell whether that row exists.",),
            (f"CAST(1 AS DECIMAL({_WIDEST},{type_.scale}))",),
        )
    )
