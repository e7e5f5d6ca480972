"""Functions of doubles: roots, powers, logarithms. The last digit of some is the library's own.

Such a digit cannot be told from noise, but a group would show it; groups are made of exact
functions only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from dpquery.expr import Apply, Expr
from dpquery.rowfunctions.base import DOUBLES, TO_DOUBLE, RowFunction, Value
from dpquery.types import UNKNOWN, Interval

__all__ = ["FUNCTIONS"]


def _widened(low: float, high: float) -> Interval:
    """Give a range around doubles whose last digits are not sure."""
    ends = (low - abs(low) * 1e-12, high + abs(high) * 1e-12)
    known = [None if math.isinf(end) or math.isnan(end) else Fraction(end) for end in ends]
    return Interval(*known)


def _growing(
    function: Callable[[float], float], least: Fraction | None
) -> Callable[..., Interval]:
    """Give the range of a function that grows, from the least value where it has one."""

    def end(value: Fraction | None) -> float:
        if value is None or (least is not None and value <= least):
            return math.nan
        try:
            return function(float(value))
        except OverflowError:
            return math.inf

    def ranged(_: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
        return _widened(end(ranges[0].low), end(ranges[0].high))

    return ranged


def _sqrt_range(_: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    low, high = ranges[0].low, ranges[0].high
    least = (
        Fraction(math.isqrt(math.floor(low))) if low is not None and low > 0 else Fraction(0)
    )
    return Interval(
        least, None if high is None else Fraction(math.isqrt(max(math.floor(high), 0)) + 1)
    )


def _sqrt(_: Apply, value: Value) -> Value:
    return None if value < 0 else math.sqrt(value)


def _logarithm(function: Callable[[float], float]) -> Callable[[Apply, Value], Value]:
    def meaning(_: Apply, value: Value) -> Value:
        if value <= 0:
            return None
        return function(value)

    return meaning


def _exp(_: Apply, value: Value) -> Value:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(_: Apply, value: Value, exponent: Value) -> Value:
    """Give pow as C has it; what is no number, or complex, is NULL."""
    try:
        return math.pow(value, exponent)
    except OverflowError:
        odd = exponent == int(exponent) and int(exponent) % 2 == 1
        return -math.inf if value < 0 and odd else math.inf
    except ValueError:
        return None if value < 0 else math.inf


def _power_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    """Give a range for whole exponents from 0 to 8; others have none."""
    (low, high), exponent = (ranges[0].low, ranges[0].high), ranges[1].low
    if low is None or high is None or exponent is None or exponent != ranges[1].high:
        return UNKNOWN
    if exponent.denominator != 1 or not 0 <= exponent <= 8:
        return UNKNOWN
    times = int(exponent)
    ends = sorted(Fraction(end**times) for end in (low, high))
    least = Fraction(0) if low < 0 < high and times % 2 == 0 else ends[0]
    return Interval(least, ends[1])


def _positive(text: str) -> str:
    return f"(CASE WHEN {text} > 0 THEN {text} END)"


def _of_double(name: str, summary: str, example: str, **settings: object) -> RowFunction:
    defaults: dict[str, object] = {
        "parameters": (DOUBLES,),
        "result": TO_DOUBLE,
        "sql": lambda _, text: f"{name.lower()}({text})",
    }
    return RowFunction(name=name, summary=summary, example=example, **(defaults | settings))  # type: ignore[arg-type]


def _log(
    name: str, function: Callable[[float], float], base: str, *aliases: str
) -> RowFunction:
    return _of_double(
        name,
        f"The logarithm to the base {base}; NULL where there is none",
        f"{name}(salary)",
        aliases=aliases,
        meaning=_logarithm(function),
        sql=lambda _, text: f"{name.lower()}({_positive(text)})",
        range=_growing(function, Fraction(0)),
        repeats=2,
        exact=False,
    )


FUNCTIONS = (
    _of_double(
        "SQRT",
        "The square root; NULL below zero",
        "SQRT(salary)",
        meaning=_sqrt,
        range=_sqrt_range,
        keeps_nan=True,
        makes_nan=True,
    ),
    _log("LN", math.log, "e"),
    _log("LOG10", math.log10, "10", "LOG"),
    _log("LOG2", math.log2, "2"),
    _of_double(
        "EXP",
        "e to the power of the number",
        "EXP(rating)",
        meaning=_exp,
        range=_growing(math.exp, None),
        exact=False,
        keeps_nan=True,
    ),
    _of_double(
        "POWER",
        "The first number to the power of the second; NULL where it is no real number",
        "POWER(age, 2)",
        aliases=("POW",),
        parameters=(DOUBLES, DOUBLES),
        meaning=_power,
        sql=lambda _, text, exponent: f"power({text}, {exponent})",
        range=_power_range,
        makes_nan=True,
        exact=False,
    ),
)
