"""Conditions that nothing meets: contradictions, values beyond bounds, and mistyped keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dpquery.core.types import UNKNOWN, Interval
from dpquery.errors import nearest
from dpquery.ir.expr import ColumnRef, Comparison, Expr, Literal, Logic, Not, Scalar
from dpquery.rowfunctions.analysis.conditions import (
    MIRRORED,
    conjuncts,
    facts_of,
    with_literals,
)
from dpquery.rowfunctions.analysis.ranges import implied

_OPPOSITE = {
    Comparison.EQ: Comparison.NE,
    Comparison.NE: Comparison.EQ,
    Comparison.LT: Comparison.GE,
    Comparison.LE: Comparison.GT,
    Comparison.GT: Comparison.LE,
    Comparison.GE: Comparison.LT,
}


def contradiction(*conditions: Expr | None) -> tuple[Expr, Expr] | None:
    """Return two parts of conditions of which no value meets both, by their literals alone.

    Both are about one expression: ranges that do not meet, or lists with nothing in common.
    """
    ranges: dict[Expr, Interval] = {}
    values: dict[Expr, tuple[frozenset[Scalar], Expr]] = {}
    parts = [part for condition in conditions if condition for part in conjuncts(condition)]
    for part in parts:
        said = facts_of(part)
        for expr, range_ in said.ranges.items():
            if not ranges.get(expr, UNKNOWN).meets(range_):
                others = ((one, facts_of(one).ranges.get(expr, UNKNOWN)) for one in parts)
                return next(one for one, other in others if not other.meets(range_)), part
            ranges[expr] = ranges.get(expr, UNKNOWN) & range_
        for expr, listed in said.values.items():
            among, before = values.get(expr, (frozenset(listed), part))
            if among.isdisjoint(listed):
                return before, part
            values[expr] = (among.intersection(listed), part)
    return None


def impossible(condition: Expr) -> Expr | None:
    """Return a part of a condition that nothing within bounds meets, by its literals alone.

    Keys say what may be a group and not what rows hold, so of these only what looks like one
    of them, mistyped, is taken for impossible.
    """
    return next((part for part in conjuncts(condition) if not _can_be(part, truth=True)), None)


def _can_be(condition: Expr, *, truth: bool) -> bool:
    """Return whether a condition can be true, or false, as far as bounds and keys tell."""
    match condition:
        case Not(operand=operand):
            return _can_be(operand, truth=not truth)
        case Logic(conjunction=conjunction, parts=parts):
            found = (_can_be(part, truth=truth) for part in parts)
            return all(found) if conjunction is truth else any(found)
    compared = with_literals(condition)
    if compared is None:
        return True
    operator, expr, options = compared
    if truth and operator is Comparison.EQ and meant_key(expr, options) is not None:
        return False
    wanted, range_ = operator if truth else _OPPOSITE[operator], implied(expr)
    return any(_can_compare(wanted, range_, option.domain) for option in options)


def _can_compare(operator: Comparison, left: Interval, right: Interval) -> bool:
    """Return whether two values of such ranges can compare so."""
    match operator:
        case Comparison.EQ:
            return left.meets(right)
        case Comparison.NE:
            return left != right or left.low is None or left.low != left.high
        case Comparison.GT | Comparison.GE:
            return _can_compare(MIRRORED[operator], right, left)
    if left.low is None or right.high is None:
        return True
    return left.low < right.high or (operator is Comparison.LE and left.low == right.high)


def meant_key(expr: Expr, options: Sequence[Literal]) -> str | None:
    """Return the public key that a text looks like, where none of those compared is one."""
    others = unlisted(expr, options)
    meant = (_like_key(expr, option) for option in others if len(others) == len(options))
    return next(filter(None, meant), None)


def unlisted(expr: Expr, options: Sequence[Literal]) -> list[Literal]:
    """Return the texts compared with a column that are none of its public keys."""
    keys = expr.keys if isinstance(expr, ColumnRef) else None
    texts = [option for option in options if isinstance(option.value, str)]
    return [] if keys is None else [option for option in texts if option.value not in keys]


def _like_key(expr: Expr, option: Literal) -> str | None:
    """Return the public key of a column that a text looks like."""
    keys = (expr.keys if isinstance(expr, ColumnRef) else None) or ()
    return nearest(str(option.value), [key for key in keys if isinstance(key, str)])


class Mistyped(NamedTuple):
    """A text that looks like a key, among those that a column is asked to equal."""

    column: Expr
    options: tuple[Literal, ...]
    text: Literal
    key: str


def mistyped(condition: Expr) -> Iterator[Mistyped]:
    """Return the texts that look like keys, where equality makes a condition true."""
    if isinstance(condition, Logic):
        for part in condition.parts:
            yield from mistyped(part)
    compared = with_literals(condition)
    if compared is None or compared[0] is not Comparison.EQ:
        return
    _, column, options = compared
    for text in unlisted(column, options):
        key = _like_key(column, text)
        if key is not None:
            yield Mistyped(column, options, text, key)
