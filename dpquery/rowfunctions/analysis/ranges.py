"""Ranges of expressions: what policy, WHERE and the expression itself say of every value.

A range here is one that somebody chose: a column without bounds in the policy has none, though
its type has limits, until a condition of the query or a function around it gives one. That
counts and their like are not below 0 is known anyway.
"""

from __future__ import annotations

from fractions import Fraction
from math import trunc

from dpquery.core.types import UNKNOWN, Interval
from dpquery.ir.expr import Apply, Arithmetic, ColumnRef, Expr, Literal, Negate, Operator, Widen
from dpquery.rowfunctions import named
from dpquery.rowfunctions.analysis.conditions import NOTHING_KNOWN, Facts
from dpquery.rowfunctions.base import mapped


def implied(expr: Expr, facts: Facts = NOTHING_KNOWN) -> Interval:
    """Return the range that an expression's values are known to be in, by somebody's choice."""
    said = facts.ranges.get(expr, UNKNOWN) if facts.ranges else UNKNOWN
    return _own(expr, facts) & said


def _own(expr: Expr, facts: Facts) -> Interval:
    match expr:
        case ColumnRef(domain=domain, bounded=bounded):
            return domain if bounded else _signed(domain)
        case Literal(domain=domain):
            return domain
        case Widen(operand=operand):
            return implied(operand, facts)
        case Negate(operand=operand):
            return -implied(operand, facts)
        case Arithmetic(operator=operator, left=left, right=right):
            return arithmetic_range(operator, implied(left, facts), implied(right, facts))
        case Apply(arguments=arguments):
            known = [implied(argument, facts) for argument in arguments]
            return named(expr.function).range_of(arguments, known)
    return UNKNOWN


def _signed(domain: Interval) -> Interval:
    """Return what is known of a sign: a count, or a sum of such values, is never below 0."""
    return Interval(
        domain.low if domain.low == 0 else None, domain.high if domain.high == 0 else None
    )


def arithmetic_range(operator: Operator, left: Interval, right: Interval) -> Interval:
    """Return the range of an operation by those of its sides."""
    match operator:
        case Operator.ADD:
            return left + right
        case Operator.SUBTRACT:
            return left - right
        case Operator.MULTIPLY:
            return left * right
        case Operator.REMAINDER:
            return _remainder(left, right)
    quotient = UNKNOWN  # of a divisor that may be 0
    if right.low is not None and right.high is not None and not right.low <= 0 <= right.high:
        quotient = left * Interval(1 / right.high, 1 / right.low)
    if operator is Operator.DIVIDE or quotient.bounded:
        return quotient if operator is Operator.DIVIDE else mapped(quotient, trunc)
    size = _largest(left)
    return UNKNOWN if size is None else Interval(-size, size)


def _remainder(left: Interval, right: Interval) -> Interval:
    """A remainder has the sign of what is divided, and is smaller than both sides."""
    sizes = [size for size in (_largest(left), _largest(right)) if size is not None]
    if not sizes:
        return UNKNOWN
    divisor = _largest(right)
    most = min(sizes) if divisor is None else min(*sizes, max(divisor - 1, Fraction(0)))
    low = -most if left.low is None else max(-most, min(left.low, Fraction(0)))
    high = most if left.high is None else min(most, max(left.high, Fraction(0)))
    return Interval(low, high)


def _largest(domain: Interval) -> Fraction | None:
    if domain.low is None or domain.high is None:
        return None
    return max(abs(domain.low), abs(domain.high))
