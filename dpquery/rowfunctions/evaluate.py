"""What an expression means for one row: SQL's three-valued logic over exact values.

None is NULL, and an operation on NULL is NULL. Integers and decimals are computed exactly;
doubles as IEEE 754 says, but what is no number is NULL, so is a division by zero, and no zero
has a sign. No expression raises (I12).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import date, time
from fractions import Fraction

from dpquery.core.types import Kind, Type, ordinal
from dpquery.ir.expr import (
    Apply,
    Arithmetic,
    ColumnRef,
    Compare,
    Comparison,
    Constant,
    Expr,
    In,
    IsNull,
    Literal,
    Logic,
    Negate,
    Not,
    Operator,
    Scalar,
    Widen,
    children,
)
from dpquery.rowfunctions import named
from dpquery.rowfunctions.base import Value

Row = Mapping[tuple[int, str], Value]
"""Values by relation and name of their column."""
Compound = Widen | Negate | Not | Compare | In | Arithmetic | IsNull | Logic | Apply
"""What has operands."""

_OPERATIONS: Mapping[Comparison | Operator, Callable[[Value, Value], Value]] = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
    Operator.ADD: operator.add,
    Operator.SUBTRACT: operator.sub,
    Operator.MULTIPLY: operator.mul,
}


def evaluate(expr: Expr, row: Row) -> Value:
    """Return the value of an expression for one row of clamped columns."""
    match expr:
        case ColumnRef(of=number, name=name):
            return row[number, name]
        case Literal(value=value, type=type_):
            return constant(value, type_)
        case Constant(value=value, type=type_):
            assert expr.known  # noqa: S101 - a scan is opened when its constants are there
            return None if value is None else constant(value, type_)
    return combined(expr, [evaluate(child, row) for child in children(expr)])


def combined(expr: Compound, operands: list[Value]) -> Value:
    """Return the value of a node whose operands have these values."""
    match expr:
        case Apply():
            return settled(named(expr.function).value(expr, *operands))
        case IsNull():
            return operands[0] is None
        case Logic(conjunction=conjunction):
            return _joined(conjunction, operands)
    if any(value is None for value in operands):
        return None
    return settled(_applied(expr, operands))


def settled(value: Value) -> Value:
    """Return a double in its one form: what is no number is NULL, and a zero has no sign."""
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else value + 0.0


def constant(value: Scalar | float | None, type_: Type) -> Value:
    """Return a value of query or policy as the rows hold it: a double's is the nearest double.

    >>> from dpquery.core.types import DATE, DOUBLE
    >>> constant(Fraction(1, 10), DOUBLE), constant(date(1970, 1, 3), DATE)
    (0.1, 2)
    """
    if isinstance(value, date | time):
        return ordinal(value)
    if type_.kind is Kind.DOUBLE and isinstance(value, int | Fraction):
        return settled(float(value))
    return value


def _joined(conjunction: bool, truths: list[bool | None]) -> bool | None:
    """AND is false as soon as one part is, OR true; else NULL as soon as one part is."""
    decisive = not conjunction
    if any(truth is decisive for truth in truths):
        return decisive
    return None if None in truths else conjunction


def _applied(
    expr: Widen | Negate | Not | Compare | In | Arithmetic, operands: list[Value]
) -> Value:
    """Apply a node to operands of which none is NULL."""
    first, *others = operands
    match expr:
        case Widen(type=type_):
            # To the nearest double, ties to even; a decimal of more places is the same number.
            if type_.kind is not Kind.DOUBLE:
                return first
            if type_.listed:
                return [None if one is None else float(one) for one in first]
            return float(first)
        case Negate():
            return -first
        case Not():
            return not first
        case In():
            return first in others
        case Compare(operator=how) | Arithmetic(operator=how):
            return _computed(how, first, others[0])


def _computed(how: Comparison | Operator, left: Value, right: Value) -> Value:
    if how in _OPERATIONS:
        return _OPERATIONS[how](left, right)
    if right == 0:
        return None
    if how is Operator.DIVIDE:
        return left / right
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    return quotient if how is Operator.QUOTIENT else left - right * quotient
