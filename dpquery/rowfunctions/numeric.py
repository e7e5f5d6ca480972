"""Functions of numbers. Integers and decimals are exact; doubles are as IEEE 754 has them.

Whole parts of doubles are integers where the range of the double is known and narrow enough for
all of its values to be doubles themselves; a computed double can leave its range on the way
through infinity, so it is cut to it first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from dpquery.core.types import DOUBLE, INTEGER, UNKNOWN, Interval, Kind, Type
from dpquery.ir.expr import Apply, ColumnRef, Expr, decimal
from dpquery.rowfunctions.base import (
    DOUBLES,
    NUMBERS,
    TO_DOUBLE,
    TO_INTEGER,
    RowFunction,
    Value,
    count_to,
    cut_sql,
    first_type,
    mapped,
)

EXACT_DOUBLES = 2**53
MOST_PLACES = 15


def _abs_range(_: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    low, high = ranges[0].low, ranges[0].high
    if low is None or high is None:
        return Interval(Fraction(0), None)
    least = Fraction(0) if low <= 0 <= high else min(abs(low), abs(high))
    return Interval(least, max(abs(low), abs(high)))


# Whole numbers: FLOOR, CEIL, TRUNC, ROUND, and conversion to an integer.


def half_away(value: Value) -> int:
    """Round to the nearest whole number, and from the middle away from zero."""
    whole: int = math.floor(abs(value))
    nearest: int = whole + (abs(value) - whole >= Fraction(1, 2))
    return nearest if value >= 0 else -nearest


def is_narrow(expr: Expr) -> bool:
    """Return whether every whole number in the range of a double is a double itself."""
    return expr.domain.within(-EXACT_DOUBLES, EXACT_DOUBLES)


def _whole_type(arguments: Sequence[Expr]) -> Type:
    wide = arguments[0].type == DOUBLE and not is_narrow(arguments[0])
    return DOUBLE if wide else INTEGER


def whole_number(exact: Callable[[Value], int], call: Apply, value: Value) -> Value:
    """Return a number made whole."""
    argument = call.arguments[0]
    if argument.type == DOUBLE and call.type == INTEGER:
        low, high = _ends(argument)
        value = min(max(value, low), high)
    if isinstance(value, float) and (math.isinf(value) or abs(value) >= EXACT_DOUBLES):
        return value
    number = exact(value)
    return math.copysign(number, value) if call.type == DOUBLE else number


def _ends(argument: Expr) -> tuple[float, float]:
    """Return the whole numbers around the range of a double."""
    low, high = argument.domain.low, argument.domain.high
    assert low is not None  # noqa: S101 - only narrow ranges are asked for
    assert high is not None  # noqa: S101
    return float(math.floor(low)), float(math.ceil(high))


def _wide(argument: Expr, text: str) -> str:
    """Write a decimal with a digit to spare, whatever it is."""
    return f"CAST({text} AS DECIMAL(38, {argument.type.scale}))"


def _whole_sql(name: str, call: Apply, text: str) -> str:
    """Write a number made whole; decimals get room for a carry first."""
    argument = call.arguments[0]
    if argument.type.kind is Kind.INTEGER:
        return text
    if argument.type.kind is Kind.DECIMAL:
        return f"CAST({name}({_wide(argument, text)}) AS HUGEINT)"
    if call.type == DOUBLE:
        return f"{name}({text})"
    return f"CAST({name}({cut_to_range(argument, text)}) AS BIGINT)"


def _is_clamped(argument: Expr) -> bool:
    return isinstance(argument, ColumnRef) and argument.clamped


def cut_to_range(argument: Expr, text: str) -> str:
    """Write a double inside its range, whatever it went through on the way."""
    if _is_clamped(argument):
        return text
    low, high = (f"CAST('{end!r}' AS DOUBLE)" for end in _ends(argument))
    return cut_sql(text, low, high)


def whole_range(
    exact: Callable[[Value], int], arguments: Sequence[Expr], ranges: Sequence[Interval]
) -> Interval:
    """Return the range of numbers made whole, by a function that grows."""
    argument, known = arguments[0], ranges[0]
    if argument.type != DOUBLE:
        return mapped(known, exact)
    if not _is_clamped(argument):
        return Interval(mapped(known, math.floor).low, mapped(known, math.ceil).high)
    # The clamp cuts to the doubles that are nearest to the ends; beyond them there is none.
    low, high = (
        None if end is None or abs(end) > EXACT_DOUBLES else Fraction(float(end))
        for end in (known.low, known.high)
    )
    return mapped(Interval(low, high), exact)


def _rounding(
    name: str, exact: Callable[[Value], int], summary: str, *aliases: str
) -> RowFunction:
    return RowFunction(
        name=name,
        aliases=aliases,
        summary=summary,
        example=f"{name}(salary / 1000)",
        parameters=(NUMBERS,),
        result=_whole_type,
        meaning=partial(whole_number, exact),
        written_as=partial(_whole_sql, name.lower()),
        range=partial(whole_range, exact),
        dense=True,
        repeats=3,
    )


# Rounding to places.


def _places(arguments: Sequence[Expr]) -> int:
    return int(arguments[1].domain.low or 0) if len(arguments) > 1 else 0


def _rounded_type(arguments: Sequence[Expr]) -> Type:
    if _places(arguments) == 0:
        return _whole_type(arguments)
    if arguments[0].type.kind is Kind.DECIMAL:
        return decimal(min(arguments[0].type.scale, _places(arguments)))
    return arguments[0].type


def _round_exactly(value: Fraction, places: int) -> Fraction:
    return Fraction(half_away(value * 10**places), 10**places)


def _round(call: Apply, value: Value, *_: Value) -> Value:
    places, kind = _places(call.arguments), call.arguments[0].type.kind
    if places == 0:
        return whole_number(half_away, call, value)
    if kind is Kind.INTEGER:
        return value
    if kind is Kind.DECIMAL:
        return _round_exactly(value, places)
    shifted = value * 10.0**places
    if math.isinf(shifted):
        return value
    whole = half_away(shifted) if abs(shifted) < EXACT_DOUBLES else shifted
    return math.copysign(whole, shifted) / 10.0**places


def _round_sql(call: Apply, text: str, *_: str) -> str:
    places, argument = _places(call.arguments), call.arguments[0]
    if places == 0:
        return _whole_sql("round", call, text)
    if argument.type.kind is Kind.INTEGER:
        return text
    if argument.type.kind is Kind.DECIMAL:
        return f"round({_wide(argument, text)}, {min(places, argument.type.scale)})"
    return f"round({text}, {places})"


def _round_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    places = _places(arguments)
    if places == 0:
        return whole_range(half_away, arguments, ranges)
    return mapped(ranges[0], lambda end: _round_exactly(end, places))


# Functions of doubles: roots, powers, logarithms.
#
# The last digit of some is the library's own. It cannot be told from noise, but a group would
# show it; groups are made of exact functions only.


def _growing(
    function: Callable[[float], float], least: Fraction | None
) -> Callable[..., Interval]:
    """Return the range of a function that grows, from the least value where it has one.

    It is a little wider than computed: last digits are not sure.
    """

    def end(value: Fraction | None, outwards: float) -> Fraction | None:
        if value is None or (least is not None and value <= least):
            return None
        try:
            found = function(float(value))
        except OverflowError:
            return None
        found += outwards * abs(found)
        return None if math.isinf(found) else Fraction(found)

    return lambda _, ranges: Interval(end(ranges[0].low, -1e-12), end(ranges[0].high, 1e-12))


def _sqrt_range(_: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    low, high = ranges[0].low, ranges[0].high
    least = math.isqrt(math.floor(low)) if low is not None and low > 0 else 0
    most = None if high is None else Fraction(math.isqrt(max(math.floor(high), 0)) + 1)
    return Interval(Fraction(least), most)


def _exp(_: Apply, value: Value) -> Value:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(_: Apply, value: Value, exponent: Value) -> Value:
    """Return pow as C has it; what is no number, or complex, is NULL."""
    try:
        return math.pow(value, exponent)
    except OverflowError:
        odd = exponent == int(exponent) and int(exponent) % 2 == 1
        return -math.inf if value < 0 and odd else math.inf
    except ValueError:
        return None if value < 0 else math.inf


def _power_range(_: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    """Return a range for whole exponents from 0 to 8; others have none."""
    (low, high), exponent = (ranges[0].low, ranges[0].high), ranges[1].low
    if low is None or high is None or exponent is None or exponent != ranges[1].high:
        return UNKNOWN
    if exponent.denominator != 1 or not 0 <= exponent <= 8:
        return UNKNOWN
    times = int(exponent)
    ends = sorted(Fraction(end**times) for end in (low, high))
    least = Fraction(0) if low < 0 < high and times % 2 == 0 else ends[0]
    return Interval(least, ends[1])


def _log(
    name: str, function: Callable[[float], float], base: str, *aliases: str
) -> RowFunction:
    return RowFunction(
        name=name,
        aliases=aliases,
        summary=f"The logarithm to the base {base}; NULL where there is none",
        example=f"{name}(salary)",
        parameters=(DOUBLES,),
        result=TO_DOUBLE,
        meaning=lambda _, value: function(value) if value > 0 else None,
        written_as=lambda _, x: f"{name.lower()}((CASE WHEN {x} > 0 THEN {x} END))",
        range=_growing(function, Fraction(0)),
        repeats=2,
        exact=False,
    )


FUNCTIONS = (
    RowFunction(
        name="ABS",
        summary="The size of a number, without its sign",
        example="ABS(bonus)",
        parameters=(NUMBERS,),
        result=first_type,
        meaning=lambda _, value: abs(value),
        range=_abs_range,
        keeps_nan=True,
    ),
    RowFunction(
        name="SIGN",
        summary="-1, 0 or 1",
        example="SIGN(bonus)",
        parameters=(NUMBERS,),
        result=TO_INTEGER,
        meaning=lambda _, value: int(value > 0) - int(value < 0),
        written_as=lambda _, text: f"CAST(sign({text}) AS BIGINT)",
        limits=Interval(Fraction(-1), Fraction(1)),
        dense=True,
    ),
    _rounding("FLOOR", math.floor, "The largest whole number that is not above"),
    _rounding("CEIL", math.ceil, "The least whole number that is not below", "CEILING"),
    _rounding("TRUNC", math.trunc, "The number without its fraction"),
    RowFunction(
        name="ROUND",
        summary="The nearest number with so many places, or none; half goes away from zero",
        example="ROUND(rating, 1)",
        parameters=(NUMBERS, count_to(0, MOST_PLACES)),
        optional=1,
        result=_rounded_type,
        meaning=_round,
        written_as=_round_sql,
        range=_round_range,
        dense=True,
        repeats=3,
    ),
    RowFunction(
        name="SQRT",
        summary="The square root; NULL below zero",
        example="SQRT(salary)",
        parameters=(DOUBLES,),
        result=TO_DOUBLE,
        meaning=lambda _, value: None if value < 0 else math.sqrt(value),
        range=_sqrt_range,
        keeps_nan=True,
        makes_nan=True,
    ),
    _log("LN", math.log, "e"),
    _log("LOG10", math.log10, "10", "LOG"),
    _log("LOG2", math.log2, "2"),
    RowFunction(
        name="EXP",
        summary="e to the power of the number",
        example="EXP(rating)",
        parameters=(DOUBLES,),
        result=TO_DOUBLE,
        meaning=_exp,
        range=_growing(math.exp, None),
        exact=False,
        keeps_nan=True,
    ),
    RowFunction(
        name="POWER",
        aliases=("POW",),
        summary="The first number to the power of the second; NULL where it is no real number",
        example="POWER(age, 2)",
        parameters=(DOUBLES, DOUBLES),
        result=TO_DOUBLE,
        meaning=_power,
        range=_power_range,
        makes_nan=True,
        exact=False,
    ),
)
