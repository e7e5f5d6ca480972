"""What the conditions on rows say of expressions: ranges, values, and what is not NULL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from dpquery.core.types import MOMENTS, UNKNOWN, Interval, Kind
from dpquery.ir.expr import (
    Apply,
    Compare,
    Comparison,
    Expr,
    In,
    IsNull,
    Literal,
    Logic,
    Not,
    Scalar,
    Widen,
    children,
)
from dpquery.rowfunctions import named
from dpquery.rowfunctions.base import hull
from dpquery.rowfunctions.conditional import is_nothing

MIRRORED = {
    Comparison.LT: Comparison.GT,
    Comparison.LE: Comparison.GE,
    Comparison.GT: Comparison.LT,
    Comparison.GE: Comparison.LE,
}
_WHOLE_STEPS = frozenset({Kind.INTEGER, Kind.TIME, *MOMENTS})


@dataclass(frozen=True, slots=True)
class Facts:
    """What the conditions on the rows say of expressions; NULL meets none of them."""

    ranges: Mapping[Expr, Interval] = field(default_factory=dict)
    values: Mapping[Expr, tuple[Scalar, ...]] = field(default_factory=dict)
    present: frozenset[Expr] = frozenset()
    """What has a value in every row that meets the conditions."""
    said: tuple[Expr, ...] = ()
    """The conditions themselves, parted at their outer ANDs."""


NOTHING_KNOWN = Facts()


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """Part a condition at its outer ANDs."""
    if isinstance(condition, Logic) and condition.conjunction:
        for part in condition.parts:
            yield from conjuncts(part)
        return
    parts = condition.parts if isinstance(condition, Logic) else ()
    known = [part for part in parts if not is_nothing(part)]
    if len(known) == 1:  # NULL beside it makes nothing true
        yield from conjuncts(known[0])
    else:
        yield condition


def facts_of(*conditions: Expr | None) -> Facts:
    """Read what conditions say that all hold."""
    ranges: dict[Expr, Interval] = {}
    values: dict[Expr, tuple[Scalar, ...]] = {}
    present: frozenset[Expr] = frozenset()
    said = tuple(p for condition in conditions if condition for p in conjuncts(condition))
    for part in said:
        present |= _present(part)
        compared = with_literals(part)
        if compared is None:
            continue
        operator, expr, options = compared
        plain = _plain(expr)
        ranges[plain] = ranges.get(plain, UNKNOWN) & _beside(operator, options, plain)
        listed = _listed(options, expr, plain) if operator is Comparison.EQ else ()
        if listed:
            values.setdefault(plain, listed)
    return Facts(ranges, values, present, said)


class Named(NamedTuple):
    """Several expressions, and the rows of values that one condition says they are among."""

    exprs: tuple[Expr, ...]
    rows: tuple[tuple[Scalar, ...], ...]

    def column(self, expr: Expr) -> list[Scalar]:
        """Return what one of them is, row by row."""
        return [row[self.exprs.index(expr)] for row in self.rows]


def rows_named(part: Expr) -> Named | None:
    """Read a condition like `(a, b) IN ((1, 'x'), (2, 'y'))`, if it is one."""
    branches = part.parts if isinstance(part, Logic) and not part.conjunction else ()
    rows = [facts_of(branch).values for branch in branches if not is_nothing(branch)]
    if not rows or any(len(listed) != 1 for row in rows for listed in row.values()):
        return None
    exprs = tuple(rows[0])
    if not exprs or any({*row} != {*exprs} for row in rows):
        return None
    return Named(exprs, tuple(tuple(row[expr][0] for expr in exprs) for row in rows))


def with_literals(part: Expr) -> tuple[Comparison, Expr, tuple[Literal, ...]] | None:
    """Read a part of a condition that compares an expression with literals, if it does."""
    match part:
        case In(operand=expr, options=options):
            return Comparison.EQ, expr, options
        case Compare(operator=operator, left=expr, right=Literal() as right):
            return operator, expr, (right,)
        case Compare(operator=operator, left=Literal() as left, right=expr):
            return MIRRORED.get(operator, operator), expr, (left,)
    return None


def _present(condition: Expr) -> frozenset[Expr]:
    """Return what has a value in every row for which a condition is true."""
    match condition:
        case Not(operand=IsNull(operand=operand)):
            return _needed(operand)
        case Logic(conjunction=True, parts=parts):
            return frozenset[Expr]().union(*map(_present, parts))
        case Logic(parts=parts):
            first, *others = map(_present, parts)
            return first.intersection(*others)
    return _needed(condition)


def _needed(expr: Expr) -> frozenset[Expr]:
    """Return what has a value wherever an expression has one."""
    match expr:
        case IsNull() | Logic():
            return frozenset({expr})
        case Apply(function=name) if not named(name).strict:
            return frozenset({expr})
    return frozenset({expr}).union(*map(_needed, children(expr)))


def _plain(expr: Expr) -> Expr:
    """Take off an exact widening: what is said of the wider number is said of the number."""
    while isinstance(expr, Widen) and expr.type.kind is not Kind.DOUBLE:
        expr = expr.operand
    return expr


def _listed(options: Sequence[Literal], expr: Expr, plain: Expr) -> tuple[Scalar, ...]:
    """Return what an expression can be; of a widened number, what its own type can hold."""
    values = [option.value for option in options]
    if plain is not expr:
        scale = 10**plain.type.scale
        numbers = [v for v in values if isinstance(v, int | Fraction) and v * scale % 1 == 0]
        whole = plain.type.kind is Kind.INTEGER
        values = [int(number) if whole else number for number in numbers]
    return tuple(values)


def _beside(operator: Comparison, options: Sequence[Literal], plain: Expr) -> Interval:
    """Return the range of what compares so with a literal, or equals one of several."""
    around = hull((), [option.domain for option in options])
    place = around.low
    if operator is Comparison.EQ or place is None:
        return around
    step = 1 if plain.type.kind in _WHOLE_STEPS and place.denominator == 1 else 0
    match operator:
        case Comparison.LT:
            return Interval(None, place - step)
        case Comparison.LE:
            return Interval(None, place)
        case Comparison.GT:
            return Interval(place + step, None)
        case Comparison.GE:
            return Interval(place, None)
    return UNKNOWN
