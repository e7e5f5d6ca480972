"""Values as integers: clamped to bounds and put on a grid, from policy and query alone.

A code is floor(value / grid + 1/2), so the grid's zero is 0. Bounds come from `bounds=`, the
policy, or the range of the expression; without any there is nothing to scale the noise to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, time, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

from dpquery.core.privacy_loss import decimal_text
from dpquery.core.text_table import value_text
from dpquery.core.types import (
    BOOLEAN,
    DOUBLE,
    EPOCH,
    FIRST_INSTANT,
    INT64,
    Interval,
    Kind,
    Type,
    decimal_value,
    ordinal,
)
from dpquery.errors import QueryRefused, Worded, refusal, without
from dpquery.functions.example_bounds import example_bounds, narrower
from dpquery.ir.expr import Code, ColumnRef, Expr, Widen, columns_of
from dpquery.ir.measures import Weight
from dpquery.ir.query import Call, Input
from dpquery.rowfunctions.analysis.ranges import implied

HUGE = Fraction(10**308)
"""Doubles are clamped here at the latest, so that a step further is a double too."""
STEPS = 10**9
"""A double without a grid of its own gets about this many steps between its bounds."""


def code_of(
    call: Call,
    *,
    origin_at_low: bool,
    at: int = 0,
    most: int | None = None,
    coarse: bool = False,
) -> Code:
    """Return the integer code of one of the expressions that a call is asked about.

    Args:
        call: the call.
        origin_at_low: whether codes are counted from the lower bound, or from zero.
        at: which of its expressions.
        most: a decimal with more steps between its bounds is coded as a double is.
        coarse: whether every number with more of them is, by steps that are as few.

    Raises:
        PlanRefused: DPQ401 neither query nor policy nor expression bounds it.
        NameRefused: DPQ205 the bounds asked for lie outside the column's.
    """
    about = call.inputs[at]
    if about.expr.type == BOOLEAN:
        return flag_code(about.expr)
    range_ = Interval(*_bounds(call, about))
    code = code_between(about.expr, range_)
    decimal = most is not None and about.expr.type.kind is Kind.DECIMAL
    if coarse and most is not None and code.cells > most:
        code = _coarse(about.expr, range_, code, most)
    elif decimal and _most_cells(call, about, code) > (most or 0):
        code = code_between(Widen(about.expr, DOUBLE), range_)
    origin = code.low if origin_at_low else 0
    return replace(code, origin=origin, search=call.options.search)


def _coarse(argument: Expr, range_: Interval, fine: Code, most: int) -> Code:
    """Return the code in steps of a power of ten that are no more than `most`."""
    double = Widen(argument, DOUBLE) if argument.type.kind is not Kind.DOUBLE else argument
    grid = (
        fine.grid if fine.expr.type.kind is Kind.DOUBLE else code_between(double, range_).grid
    )
    assert range_.low is not None  # noqa: S101 - the callers looked
    assert range_.high is not None  # noqa: S101
    while (range_.high - range_.low) / grid + 2 > most:
        grid *= 10
    low, high = (math.floor(end / grid + Fraction(1, 2)) for end in (range_.low, range_.high))
    return Code(double, grid, low, high)


def code_between(argument: Expr, range_: Interval) -> Code:
    """Return the code of values clamped to a range with both ends, counted from zero."""
    low, high = range_.low, range_.high
    assert low is not None  # noqa: S101 - the callers looked
    assert high is not None  # noqa: S101
    grid = _grid(argument, max(abs(low), abs(high)))
    first, last = (math.floor(end / grid + Fraction(1, 2)) for end in (low, high))
    return Code(argument, grid, first, last)


def flag_code(condition: Expr) -> Code:
    """Return the code of a condition: 1 where it is true, 0 where it is false."""
    return Code(condition, Fraction(1), 0, 1)


def _most_cells(call: Call, about: Input, code: Code) -> int:
    """Return how many values there are between bounds, whichever ones a search may find.

    What is read must not depend on that: it is charged for before they are found.
    """
    if not call.options.auto and call.options.search is None:
        return code.cells
    widest = known_range(about)
    if not widest.bounded:
        return int(2 * 10**about.expr.type.precision) + 1
    return code_between(about.expr, widest).cells


def _bounds(call: Call, about: Input) -> tuple[Fraction, Fraction]:
    """Take the narrower of what the query asks for and what somebody chose before."""
    asked, argument = call.options.bounds, about.expr
    known = known_range(about)
    if asked is None or asked.low is None or asked.high is None:
        low, high = known.low, known.high
    else:
        low = asked.low if known.low is None else max(asked.low, known.low)
        high = asked.high if known.high is None else min(asked.high, known.high)
    if low is None or high is None:
        raise _unbounded(call, about)
    if argument.type.kind is Kind.DOUBLE:
        low, high = max(low, -HUGE), min(high, HUGE)
    if low > high:
        raise _outside(call, about)
    return low, high


def known_range(about: Input) -> Interval:
    """Return what somebody chose of an argument's range: policy, WHERE, FILTER, expression."""
    return implied(about.expr) & about.implied


def _grid(argument: Expr, largest: Fraction) -> Fraction:
    """Return the step: the type's own, the policy's, or a billionth of the largest bound."""
    if argument.type.kind is not Kind.DOUBLE:
        return Fraction(1, 10**argument.type.scale)
    if isinstance(argument, ColumnRef) and argument.grid is not None:
        return argument.grid
    wanted = max(largest, Fraction(1, 10**300)) / STEPS
    digits = len(str(wanted.numerator)) - len(str(wanted.denominator))
    step = Fraction(10) ** digits  # at most one power of ten away
    while step > wanted:
        step /= 10
    while step * 10 <= wanted:
        step *= 10
    return step


def require_held(call: Call, code: Code) -> None:
    """Refuse to release values of whole numbers that a column of an answer does not hold.

    Means and sums of such numbers are doubles, or are cut to what a column holds.

    Raises:
        PlanRefused: DPQ404.
    """
    if code.expr.type.kind is not Kind.INTEGER:
        return
    ends = code.values or (code.low * code.grid, code.high * code.grid)
    numbers = [Fraction(end) for end in ends if isinstance(end, (int, Fraction))]
    if not Interval(min(numbers), max(numbers)).within(*INT64):
        raise _not_held(call)


def number_type(argument: Expr) -> Type:
    """Return the type of a sum: integers and decimals stay what they are."""
    if argument.type.kind is Kind.DECIMAL:
        return Type(Kind.DECIMAL, 38, argument.type.scale)
    return argument.type


def from_code(code: int, grid: Fraction, type_: Type) -> object:
    """Return the value of a code in its column's type, on the column's own grid."""
    value = code * grid
    match type_.kind:
        case Kind.INTEGER:
            return int(value)
        case Kind.DECIMAL:
            return decimal_value(int(value * 10**type_.scale), type_.scale)
        case Kind.DATE:
            return EPOCH.date() + timedelta(days=int(value))
        case Kind.TIMESTAMP:
            return EPOCH + timedelta(microseconds=int(value))
        case Kind.TIMESTAMPTZ:
            instant = FIRST_INSTANT + timedelta(microseconds=int(value))
            return instant.astimezone(ZoneInfo(type_.zone))
        case Kind.TIME:
            return (EPOCH + timedelta(microseconds=int(value))).time()
        case _:
            return float(value)


def written_end(code: int, grid: Fraction, type_: Type | None) -> str:
    """Write a code as a value; a total of rows is a number."""
    if type_ is None or type_.numeric:
        return decimal_text(code * grid)
    return value_text(from_code(code, grid, type_))


def written_ends(bounds: Interval, type_: Type) -> list[str]:
    """Write both ends of bounds as values of a type."""
    ends = [end for end in (bounds.low, bounds.high) if end is not None]
    if type_.kind is Kind.DOUBLE:
        return [decimal_text(end) for end in ends]
    step = Fraction(1, 10**type_.scale)
    return [written_end(int(end / step), step, type_) for end in ends]


def _own_bounds(argument: Expr) -> str:
    """Write the bounds that the policy states."""
    low, high = argument.domain.low, argument.domain.high
    if low is None or high is None:
        return "bounds=[0, 1000]"
    if argument.type.numeric:
        return f"bounds=[{decimal_text(low)}, {decimal_text(high)}]"
    ends = (from_code(int(end), Fraction(1), argument.type) for end in (low, high))
    return "bounds=['{}', '{}']".format(*ends)


def _bounds_of_ones_own(names: Sequence[str]) -> str:
    """Write how who asks their own files bounds columns."""
    said = f"{names[0]}=0:1000" if len(names) == 1 else "COLUMN=LOW:HIGH"
    python = f", in Python bounds={{'{names[0]}': (0, 1000)}}" if len(names) == 1 else ""
    return f"or --bounds {said} for the whole session{python}"


def _unbounded(call: Call, about: Input) -> QueryRefused:
    argument, written = about.expr, call.snippet(about.asked)
    unbounded = [c.name for c in columns_of(argument).values() if not c.bounded]
    loose = [name for name in unbounded if name.lower() in written.lower()]  # not computed
    offered = [
        f"{call.text.removesuffix(')')}, {example_bounds(argument.type)})",
        "or bounds='auto': a fifth of the eps then finds them, and they are kept",
    ]
    if len(call.inputs) > 1:  # bounds= would be of all of them
        offered = [call.changed(about.asked, _cut(written))]
    owner = Worded(
        f"or ask the data owner to add bounds for {', '.join(loose)} to the policy",
        _bounds_of_ones_own(loose),
    )
    asked = ", ".join(call.snippet(one.asked) for one in call.inputs)
    return refusal(
        "DPQ401",
        f"{call.function}({asked}) has no bounds",
        about.asked,
        Worded("no bounds in the query or the policy", "no bounds in the query or the options"),
        (
            "the noise is scaled to the largest change one person can make,",
            "so values must be clamped to bounds chosen without looking at the data.",
        ),
        (*offered, owner) if loose else tuple(offered),
    )


def _cut(written: str) -> str:
    return f"LEAST(GREATEST({written}, 0), 1000)"


def _not_held(call: Call) -> QueryRefused:
    """Offer bounds in place of those asked for, or values that are cut to a range."""
    given, about = call.options.bounds_span, call.inputs[0]
    near = known_range(about) & Interval(Fraction(0), Fraction(1000))
    if given is not None and near.within(*INT64):
        remedy = narrower(call, f"[{near.low}, {near.high}]")
    else:
        remedy = call.changed(about.asked, _cut(call.written))
        if given is not None:
            more = len(remedy) - len(call.text) - call.span.start
            remedy = without(remedy, given.start + more, given.end + more)
    return refusal(
        "DPQ404",
        f"{call.function} cannot show the values between these bounds",
        given or about.asked,
        "whole numbers of more than 64 bits",
        (
            "it shows one of the values, and a whole number of an answer has 64 bits;",
            "means of such values are doubles, and are answered.",
        ),
        remedy,
    )


def _outside(call: Call, about: Input) -> QueryRefused:
    return refusal(
        "DPQ205",
        "the bounds lie outside the column's own",
        call.options.bounds_span or about.expr.span,
        "nothing of the column is left",
        "the policy clamps first; a query can narrow its bounds, not move past them.",
        (_own_bounds(about.expr), "these are the column's own"),
    )


def value_of(code: Code, place: int) -> object:
    """Return the value at a place, in the type of the column."""
    type_ = code.expr.type
    if type_ == BOOLEAN and not code.values:
        return bool(place)
    if not code.values:
        return from_code(place + code.origin, code.grid, type_)
    value = code.values[place]
    if type_.kind in {Kind.TEXT, Kind.BOOLEAN}:
        return value
    number = ordinal(value) if isinstance(value, date | time) else Fraction(str(value))
    step = Fraction(1, 10**type_.scale)
    return from_code(int(number / step), step, type_)


def in_rows(weight: Weight, amount: Fraction | int) -> str:
    """Write an amount of weight as rows."""
    return counted(Fraction(amount, weight.scale), "row")


def counted(amount: Fraction, what: str) -> str:
    """Write how many there are of something.

    >>> counted(Fraction(1), "row"), counted(Fraction(5, 2), "rank")
    ('1 row', '2.5 ranks')
    """
    return f"{decimal_text(amount, 4)} {what}{'' if amount == 1 else 's'}"
