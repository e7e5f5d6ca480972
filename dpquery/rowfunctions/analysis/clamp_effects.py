"""Which columns an expression reads by value: where a clamp could change its result."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dpquery.ir.expr import (
    Apply,
    Arithmetic,
    ColumnRef,
    Comparison,
    Constant,
    Expr,
    IsNull,
    Logic,
    Widen,
    children,
)
from dpquery.rowfunctions.analysis.conditions import with_literals
from dpquery.rowfunctions.analysis.nulls import DIVISIONS


def read_by_value(expr: Expr) -> Iterator[ColumnRef]:
    """Return the columns of which a clamp could change the result of an expression.

    It changes neither what is NULL nor, of a literal within the bounds, on which side of it
    a value is.
    """
    match expr:
        case ColumnRef():
            yield expr
        case IsNull(operand=operand) if _null_by_columns(operand):
            pass
        case _ if not _keeps_sides(expr):
            for part in children(expr):
                yield from read_by_value(part)


def _null_by_columns(expr: Expr) -> bool:
    """Return whether an expression is NULL only where a column that it reads is."""
    divided = isinstance(expr, Arithmetic) and expr.operator in DIVISIONS
    chosen = isinstance(expr, Apply | Logic | IsNull | Constant)
    return not (divided or chosen) and all(map(_null_by_columns, children(expr)))


def _keeps_sides(condition: Expr) -> bool:
    """Return whether a condition is true of a clamped value where it is of the value itself."""
    compared = with_literals(condition)
    if compared is None:
        return False
    operator, column, options = compared
    while isinstance(column, Widen):
        column = column.operand
    if not (isinstance(column, ColumnRef) and column.clamped and column.bounded):
        return False
    from_low = operator in {Comparison.GT, Comparison.LE}
    to_high = operator in {Comparison.GE, Comparison.LT}
    ends = column.domain.low, column.domain.high
    return all(
        _lies_inside((ends[0], option.domain.low, ends[1]), from_low, to_high)
        for option in options
    )


def _lies_inside(trio: tuple[Fraction | None, ...], from_low: bool, to_high: bool) -> bool:
    """Return whether a value lies between two ends, or on one that may be; as doubles."""
    numbers = [float(number) for number in trio if number is not None]
    if len(numbers) < len(trio):
        return False
    low, value, high = numbers
    return low < value < high or (from_low and low == value) or (to_high and value == high)
