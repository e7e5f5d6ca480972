"""Conversions that somebody wrote: CAST, TRY_CAST and `::`, which mean the same here.

A conversion that has no value for a row gives NULL, as TRY_CAST does, so none can fail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from dpquery.core.types import DATE, UNKNOWN, Interval, Kind, decimal_value
from dpquery.ir.expr import Apply, Expr, longest_of
from dpquery.rowfunctions.base import (
    CALENDAR,
    TO_DATE,
    TO_INTEGER,
    TO_TEXT,
    TO_TIMESTAMP,
    WHOLE,
    Parameter,
    RowFunction,
    Value,
)
from dpquery.rowfunctions.dates import DAY, has_calendar, in_calendar, to_date
from dpquery.rowfunctions.numeric import (
    EXACT_DOUBLES,
    cut_to_range,
    half_away,
    whole_number,
    whole_range,
)

_DIGITS = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_LONGEST_NUMBER = 48
_TO_INTEGER = Parameter(
    "a number, a text or a truth value",
    frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.TEXT, Kind.BOOLEAN}),
)
_TO_TEXT = Parameter(
    "an integer, a decimal, a text, a truth value or a date",
    frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.TEXT, Kind.BOOLEAN, Kind.DATE}),
)
_MOMENT = Parameter("a date or a timestamp", frozenset({Kind.DATE, Kind.TIMESTAMP}))


def _narrow(expr: Expr) -> bool:
    return expr.domain.within(-EXACT_DOUBLES, EXACT_DOUBLES)


def _integer(call: Apply, value: Value) -> Value:
    argument = call.arguments[0]
    match argument.type.kind:
        case Kind.TEXT:
            return int(value) if _DIGITS.fullmatch(value) else None
        case Kind.DECIMAL:
            return half_away(value)
        case Kind.DOUBLE if _narrow(argument):
            return whole_number(round)(call, value)
        case Kind.DOUBLE:
            inside = -(2.0**63) <= value < 2.0**63
            return round(value) if inside else None
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
            inside = cut_to_range(argument, text) if _narrow(argument) else text
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
            if not known.bounded or not _narrow(argument):
                return UNKNOWN
            return whole_range(round)(arguments, ranges)
        case Kind.DECIMAL:
            ends = (known.low, known.high)
            return Interval(*(None if e is None else Fraction(half_away(e)) for e in ends))
    return known


def _text(call: Apply, value: Value) -> Value:
    argument = call.arguments[0]
    match argument.type.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.DECIMAL:
            scale = argument.type.scale
            return format(decimal_value(int(value * 10**scale), scale), "f")
        case Kind.DATE:
            return to_date(value).isoformat() if has_calendar(argument, value) else None
    return str(value)


def _text_sql(call: Apply, text: str) -> str:
    argument = call.arguments[0]
    if argument.type.kind is Kind.DATE:
        text = in_calendar(argument, text)
    return f"CAST({text} AS VARCHAR)"


def _text_longest(arguments: Sequence[Expr]) -> int:
    return longest_of(arguments[0]) or _LONGEST_NUMBER


def _date(call: Apply, value: Value) -> Value:
    argument = call.arguments[0]
    if not has_calendar(argument, value):
        return None
    return value if argument.type == DATE else value // DAY


def _date_sql(call: Apply, text: str) -> str:
    return f"CAST({in_calendar(call.arguments[0], text)} AS DATE)"


def _date_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    known = _known(arguments[0], ranges[0])
    step = 1 if arguments[0].type == DATE else DAY
    return Interval(
        *(None if e is None else Fraction(e // step) for e in (known.low, known.high))
    )


def _timestamp(call: Apply, value: Value) -> Value:
    argument = call.arguments[0]
    if not has_calendar(argument, value):
        return None
    return value * DAY if argument.type == DATE else value


def _timestamp_sql(call: Apply, text: str) -> str:
    return f"CAST({in_calendar(call.arguments[0], text)} AS TIMESTAMP)"


def _timestamp_range(arguments: Sequence[Expr], ranges: Sequence[Interval]) -> Interval:
    known = _known(arguments[0], ranges[0])
    step = DAY if arguments[0].type == DATE else 1
    return Interval(*(None if e is None else e * step for e in (known.low, known.high)))


def _known(argument: Expr, known: Interval) -> Interval:
    return known & CALENDAR[argument.type.kind] if known.bounded else UNKNOWN


FUNCTIONS = (
    RowFunction(
        name="TO_INTEGER",
        summary="An integer: decimals round from the middle away from zero, doubles to even; "
        "of texts, up to 18 digits",
        example="CAST(rating AS INTEGER)",
        parameters=(_TO_INTEGER,),
        written=False,
        result=TO_INTEGER,
        meaning=_integer,
        sql=_integer_sql,
        calls=("regexp_extract", "round"),
        range=_integer_range,
        limits=WHOLE,
        dense=True,
        repeats=3,
    ),
    RowFunction(
        name="TO_TEXT",
        summary="A text; of a date, in ISO form",
        example="CAST(age AS TEXT)",
        parameters=(_TO_TEXT,),
        written=False,
        result=TO_TEXT,
        meaning=_text,
        sql=_text_sql,
        longest=_text_longest,
    ),
    RowFunction(
        name="TO_DATE",
        summary="The date of a timestamp",
        example="CAST(seen_at AS DATE)",
        parameters=(_MOMENT,),
        written=False,
        result=TO_DATE,
        meaning=_date,
        sql=_date_sql,
        range=_date_range,
        calendar=True,
        dense=True,
    ),
    RowFunction(
        name="TO_TIMESTAMP",
        summary="The first moment of a date",
        example="hired::TIMESTAMP",
        parameters=(_MOMENT,),
        written=False,
        result=TO_TIMESTAMP,
        meaning=_timestamp,
        sql=_timestamp_sql,
        range=_timestamp_range,
        calendar=True,
    ),
)
