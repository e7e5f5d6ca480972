"""Conversions that somebody wrote: CAST, TRY_CAST and `::`, which mean the same here.

A conversion that has no value for a row gives NULL, as TRY_CAST does, so none can fail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from struct import Struct

from dpquery.core.types import DATE, DAY, NUMERIC, UNKNOWN, Interval, Kind, decimal_value
from dpquery.ir.expr import Apply, Expr, longest_of
from dpquery.rowfunctions.base import (
    DOUBLES,
    INTEGERS,
    MOMENTS,
    TO_DATE,
    TO_DOUBLE,
    TO_INTEGER,
    TO_TEXT,
    TO_TIMESTAMP,
    WHOLE,
    Parameter,
    RowFunction,
    Value,
    as_type,
    mapped,
    scalar,
)
from dpquery.rowfunctions.numeric import (
    cut_to_range,
    half_away,
    is_narrow,
    whole_number,
    whole_range,
)

_DIGITS = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_LONGEST_NUMBER = 48
_FLOAT = Struct("<f")
_LARGEST = Fraction(2**128 - 2**104)
"""The largest number of 32 bits."""


def _integer(call: Apply, value: Value) -> Value:
    argument = call.arguments[0]
    match argument.type.kind:
        case Kind.TEXT:
            return int(value) if _DIGITS.fullmatch(value) else None
        case Kind.DECIMAL:
            return half_away(value)
        case Kind.DOUBLE if is_narrow(argument):
            return whole_number(round, call, value)
        case Kind.DOUBLE:
            return round(value) if -(2.0**63) <= value < 2.0**63 else None
    return int(value)


def _integer_sql(call: Apply, text: str) -> str:
    argument = call.arguments[0]
    match argument.type.kind:
        case Kind.TEXT:
            return f"TRY_CAST(regexp_extract({text}, '\\A-?[0-9]{{1,18}}\\z') AS BIGINT)"
        case Kind.DECIMAL:
            scale = argument.type.scale
            return f"CAST(round(CAST({text} AS DECIMAL(38, {scale})), 0) AS HUGEINT)"
        case Kind.DOUBLE:
            inside = cut_to_range(argument, text) if is_narrow(argument) else text
            return f"TRY_CAST({inside} AS BIGINT)"
        case Kind.INTEGER:
            return text
    return f"CAST({text} AS BIGINT)"


def _integer_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    argument, known = arguments[0], ranges[0]
    match argument.type.kind:
        case Kind.TEXT:
            return UNKNOWN
        case Kind.BOOLEAN:
            return Interval(Fraction(0), Fraction(1))
        case Kind.DOUBLE:
            narrow = known.bounded and is_narrow(argument)
            return whole_range(round, arguments, ranges) if narrow else UNKNOWN
        case Kind.DECIMAL:
            return mapped(known, half_away)
    return known


def _text(call: Apply, value: Value) -> str:
    type_ = call.arguments[0].type
    match type_.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.DECIMAL:
            scale = type_.scale
            return format(decimal_value(int(value * 10**scale), scale), "f")
    return str(scalar(value, type_))


def _day(value: Value, argument: Expr) -> Value:
    return value if argument.type == DATE else value // DAY


def _moment(value: Value, argument: Expr) -> Value:
    return value * DAY if argument.type == DATE else value


def _narrowed(call: Apply, value: Value, low: int, high: int) -> Value:
    return value if low <= value <= high else None


def _narrow_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    """Return the part of a range that is kept; an end that nobody chose stays unknown."""
    known, *ends = ranges
    low, high = (end.low for end in ends)
    assert low is not None  # noqa: S101 - literals
    assert high is not None  # noqa: S101
    return mapped(known, lambda end: min(max(end, low), high))


def _single(value: float) -> float | None:
    """Return the nearest number of 32 bits; None where it is too large for one."""
    try:
        found: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return None
    return found


def _single_end(end: Fraction) -> Fraction:
    found = _single(float(max(-_LARGEST, min(_LARGEST, end))))
    return Fraction(0 if found is None else found)


FUNCTIONS = (
    RowFunction(
        name="TO_INTEGER",
        summary="An integer: decimals round from the middle away from zero, doubles to even; "
        "of texts, up to 18 digits",
        example="CAST(rating AS INTEGER)",
        parameters=(
            Parameter(
                "a number, a text or a truth value",
                NUMERIC | {Kind.TEXT, Kind.BOOLEAN},
            ),
        ),
        written=False,
        result=TO_INTEGER,
        meaning=_integer,
        written_as=_integer_sql,
        calls=("regexp_extract", "round"),
        range=_integer_range,
        limits=WHOLE,
        dense=True,
        repeats=3,
    ),
    RowFunction(
        name="TO_NARROW",
        summary="An integer of fewer bits, signed or not; one that is out of its range is NULL",
        example="CAST(age AS UTINYINT)",
        parameters=(INTEGERS, INTEGERS, INTEGERS),
        written=False,
        result=TO_INTEGER,
        meaning=_narrowed,
        written_as=lambda _, text, *ends: (
            f"CASE WHEN {text} BETWEEN {' AND '.join(ends)} THEN {text} END"
        ),
        range=_narrow_range,
        dense=True,
        repeats=2,
    ),
    RowFunction(
        name="TO_FLOAT",
        summary="The nearest number of 32 bits, as a double",
        example="CAST(bonus AS FLOAT)",
        parameters=(DOUBLES,),
        written=False,
        result=TO_DOUBLE,
        meaning=lambda _, value: _single(value),
        written_as=lambda _, text: f"CAST(TRY_CAST({text} AS FLOAT) AS DOUBLE)",
        range=lambda _, ranges: mapped(ranges[0], _single_end),
    ),
    RowFunction(
        name="TO_TEXT",
        summary="A text; of a date, in ISO form",
        example="CAST(age AS TEXT)",
        parameters=(
            Parameter(
                "an integer, a decimal, a text, a truth value or a date",
                frozenset(Kind) - {Kind.DOUBLE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME},
            ),
        ),
        written=False,
        result=TO_TEXT,
        meaning=_text,
        written_as=lambda _, text: f"CAST({text} AS VARCHAR)",
        dated=True,
        longest=lambda arguments: longest_of(arguments[0]) or _LONGEST_NUMBER,
    ),
    RowFunction(
        name="TO_DATE",
        summary="The date of a timestamp",
        example="CAST(seen_at AS DATE)",
        parameters=(MOMENTS,),
        written=False,
        result=TO_DATE,
        meaning=lambda call, value: _day(value, call.arguments[0]),
        written_as=as_type,
        range=lambda arguments, ranges: mapped(ranges[0], lambda e: _day(e, arguments[0])),
        dated=True,
        calendar=True,
        dense=True,
    ),
    RowFunction(
        name="TO_TIMESTAMP",
        summary="The first moment of a date",
        example="hired::TIMESTAMP",
        parameters=(MOMENTS,),
        written=False,
        result=TO_TIMESTAMP,
        meaning=lambda call, value: _moment(value, call.arguments[0]),
        written_as=as_type,
        range=lambda arguments, ranges: mapped(ranges[0], lambda e: _moment(e, arguments[0])),
        dated=True,
        calendar=True,
    ),
)
