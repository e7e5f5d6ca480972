"""Ranges of expressions: what policy, WHERE and the expression itself say of every value.

A range here is one that somebody chose: a column without bounds in the policy has none, though
its type has limits, until a condition of the query or a function around it gives one. That
counts and their like are not below 0 is known anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import trunc
from typing import NamedTuple

from dpquery.core.types import MOMENTS, UNKNOWN, Interval, Kind
from dpquery.errors import nearest
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
    Nulls,
    Operator,
    Scalar,
    Widen,
    children,
)
from dpquery.rowfunctions import named
from dpquery.rowfunctions.base import YEARS, hull, mapped
from dpquery.rowfunctions.conditional import FILLED, NOTHING, branches, is_nothing

_MIRRORED = {
    Comparison.LT: Comparison.GT,
    Comparison.LE: Comparison.GE,
    Comparison.GT: Comparison.LT,
    Comparison.GE: Comparison.LE,
}
_OPPOSITE = {
    Comparison.EQ: Comparison.NE,
    Comparison.NE: Comparison.EQ,
    Comparison.LT: Comparison.GE,
    Comparison.LE: Comparison.GT,
    Comparison.GT: Comparison.LE,
    Comparison.GE: Comparison.LT,
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
            return _MIRRORED.get(operator, operator), expr, (left,)
    return None


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
            return _can_compare(_MIRRORED[operator], right, left)
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
    divided = isinstance(expr, Arithmetic) and expr.operator in _DIVISIONS
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


# NULL as a value of expressions: where it can come from, and whether it is a group there.
#
# Rows whose key is NULL are a group, as in any SQL, unless the policy says of the column
# that they are none. The answer is public: it follows from the query and the policy, never
# from rows.


_RANK = [Nulls.NEVER, Nulls.LEFT_OUT, Nulls.GROUPED]
_DIVISIONS = frozenset({Operator.DIVIDE, Operator.QUOTIENT, Operator.REMAINDER})


def worst(found: Iterable[Nulls]) -> Nulls:
    """Return what is known of a value that is NULL as soon as one of several is."""
    return max(found, key=_RANK.index, default=Nulls.NEVER)


def nulls_of(expr: Expr, facts: Facts = NOTHING_KNOWN) -> Nulls:
    """Return what is known of NULL among the values of an expression."""
    if expr in facts.present:
        return Nulls.NEVER
    match expr:
        case Literal() | IsNull():
            return Nulls.NEVER
        case ColumnRef(nulls=nulls):
            return nulls
        case Constant():
            return Nulls.GROUPED
        case Apply():
            return _of_function(expr, facts)
        case Arithmetic(operator=operator, right=right) if operator in _DIVISIONS:
            if implied(right, facts).meets(Interval.point(0)):
                return Nulls.GROUPED
    return worst(nulls_of(part, facts) for part in children(expr))


def _of_function(call: Apply, facts: Facts) -> Nulls:
    arguments = call.arguments
    if call.function == "CASE":
        chosen = worst(nulls_of(part, known) for part, known in by_branch(call, facts))
        return chosen if len(arguments) % 2 else Nulls.GROUPED
    if call.function in {"NULLIF", NOTHING}:
        return Nulls.GROUPED
    found = [nulls_of(part, facts) for part in arguments]
    if call.function in FILLED:
        return min(found, key=_RANK.index)
    if not named(call.function).strict:
        return Nulls.NEVER
    # What a condition has compared is there. Beyond the calendar it counts as NULL, so that
    # rows with it are as those without: they make no group.
    far = (part in facts.present for part in arguments if _beyond(part, facts))
    return worst([*found, *(Nulls.LEFT_OUT if known else Nulls.GROUPED for known in far)])


def by_branch(case: Apply, facts: Facts) -> Iterator[tuple[Expr, Facts]]:
    """Return the results of a CASE, each with what its condition says of values and NULL."""
    tests = [*map(facts_of, case.arguments[:-1:2]), NOTHING_KNOWN]
    for result, test in zip(branches(case.arguments), tests, strict=False):
        values, present = {**facts.values, **test.values}, facts.present | test.present
        yield result, replace(facts, values=values, present=present)


def _beyond(moment: Expr, facts: Facts) -> bool:
    """Say whether a moment may lie in no year that a calendar has: functions of it are NULL."""
    years = YEARS.get(moment.type.kind)
    if years is None or (isinstance(moment, Apply) and named(moment.function).calendar):
        return False
    return not implied(moment, facts).within(*years)
