"""Values of open queries among private rows: literals, where they are known, or constants.

A constant is any value of its type, or NULL: numbers become doubles, what is no number becomes
NULL, and texts are cut, so that whatever is released can be written into a scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import NoReturn

from dpquery.errors import Diagnostic, SyntaxRefused
from dpquery.expr import LONGEST_CONSTANT
from dpquery.ir import Literal, decimal
from dpquery.source import Span
from dpquery.sql.above.froms import OpenColumn
from dpquery.sql.mismatches import mismatch
from dpquery.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type

__all__ = ["constant_of", "literals"]

MOST_VALUES = 100_000
_NOT_NUMBERS = {
    Kind.TEXT: TEXT,
    Kind.BOOLEAN: BOOLEAN,
    Kind.DATE: DATE,
    Kind.TIMESTAMP: TIMESTAMP,
}
_FITTING = {
    Kind.TEXT: f"left({{0}}, {LONGEST_CONSTANT})",
    Kind.BOOLEAN: "{0}",
    Kind.DATE: "CASE WHEN year({0}) BETWEEN 1 AND 9999 THEN {0} END",
    Kind.TIMESTAMP: "CASE WHEN year({0}) BETWEEN 1 AND 9999 THEN {0} END",
}
_NUMBER = "CASE WHEN isfinite(TRY_CAST({0} AS DOUBLE)) THEN TRY_CAST({0} AS DOUBLE) END"


def constant_of(column: OpenColumn, span: Span) -> tuple[Type, str]:
    """Give the type of a constant, and the text that makes a column's values of it."""
    if column.kind is None:
        title = "the type of this value is not known"
        mismatch(span, title, "of any type", "CAST(... AS DOUBLE)")
    if column.kind in _NOT_NUMBERS:
        return _NOT_NUMBERS[column.kind], _FITTING[column.kind].format(column.sql)
    return DOUBLE, _NUMBER.format(column.sql)


def literals(found: Sequence[object] | None, kind: Kind | None, span: Span) -> list[Literal]:
    """Give the values of a public column as if they had been typed.

    Raises:
        NameRefused: DPQ208 values that a list cannot hold.
        SyntaxRefused: DPQ105 too many.
    """
    if found is None or kind is None:
        mismatch(span, "these values cannot be compared", "of no known type", "IN (1, 2)")
    if len(found) > MOST_VALUES:
        _too_many(span)
    if None in found:
        title = "NULL is among these values, and nothing equals it"
        mismatch(span, title, "holds NULL", "WHERE ... IS NOT NULL")
    made = [_literal(value, kind, span) for value in found]
    return [one for one in made if one is not None]


def _literal(value: object, kind: Kind, span: Span) -> Literal | None:
    match value:
        case float():
            finite = value == value and abs(value) != float("inf")  # noqa: PLR0124 - NaN differs
            return Literal(span, Fraction(value), DOUBLE) if finite else None
        case Decimal():
            exponent = value.as_tuple().exponent
            scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
            return Literal(span, Fraction(value), decimal(scale))
        case bool() | str() | date():
            return Literal(span, value, _NOT_NUMBERS[kind])
        case int():
            return Literal(span, value, INTEGER)
    mismatch(span, "these values cannot be compared", f"a {kind}", "IN (1, 2)")


def _too_many(span: Span) -> NoReturn:
    raise SyntaxRefused(
        Diagnostic(
            "DPQ105",
            f"a list has at most {MOST_VALUES:,} values",
            span,
            "gives more",
            ("the values are read now, and become a part of the query.",),
            ("SELECT DISTINCT ... LIMIT 1000",),
        )
    )
