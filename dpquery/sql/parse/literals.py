"""Values from the query's text, read exactly (I8) or refused.

No value is ever read by the engine's rules: `1e-400`, `1_0` and `'2020-02-30'` mean something
else there, or raise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact
from fractions import Fraction

from sqlglot import expressions as exp

from dpquery.core.privacy_loss import exact_number
from dpquery.core.source_text import Span
from dpquery.core.time_zones import to_instant
from dpquery.core.types import (
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS,
    DOUBLE,
    FIRST_INSTANT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UTC_ZONE,
    Kind,
    Type,
    in_every_calendar,
    ordinal,
)
from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused, advice, refusal
from dpquery.ir.expr import Literal, decimal
from dpquery.sql.parse.spans import no_number, unreadable

LONGEST = 400
"""Signs of a number, leading zeros included; more would make reading it slow, or fail."""
_SHAPES = {
    Kind.DATE: "2024-12-31",
    Kind.TIMESTAMP: "2024-12-31 23:59:59",
    Kind.TIMESTAMPTZ: "2024-12-31 23:59:59+01",
    Kind.TIME: "23:59:59",
}
_FULL = advice("write the value in full, as 12.5 or '2024-12-31'")
_DECIMAL = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)
_SCIENTIFIC = re.compile(r"(\d+(\.\d*)?|\.\d+)[eE][+-]?\d{1,4}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?", re.ASCII)
_OFFSET = re.compile(r" ?(Z|[+-]\d\d(:?\d\d)?)", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", re.ASCII)
TIMESTAMPS = frozenset({exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ})
"""DuckDB's TIMESTAMP, which has no zone, under the two names that sqlglot has for it."""
MOMENTS_WRITTEN = {
    exp.DType.DATE: DATE,
    **dict.fromkeys(TIMESTAMPS, TIMESTAMP),
    exp.DType.TIMESTAMPTZ: TIMESTAMPTZ,
    exp.DType.TIME: TIME,
}


def unwrapped(node: exp.Expr) -> exp.Expr:
    """Take off parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def is_moment(node: exp.Cast) -> bool:
    """Say whether a cast is a way to write a date or a timestamp, as DATE '2024-12-31' is."""
    text = isinstance(node.this, exp.Literal) and node.this.is_string
    return type(node) is exp.Cast and text and node.to.this in MOMENTS_WRITTEN


def read_literal(node: exp.Expr, span: Span, zone: str = UTC_ZONE) -> Literal | None:
    """Read a literal, signed or not; None where the node is something else.

    An instant without an offset is in the time zone given.

    Raises:
        NameRefused: DPQ210 the literal is out of range or no such date exists.
    """
    match node:
        case exp.Literal(is_string=True):
            return Literal(span, str(node.this), TEXT)
        case exp.Literal():
            return read_number(str(node.this), span)
        case exp.Boolean():
            return Literal(span, bool(node.this), BOOLEAN)
        case exp.Neg(this=exp.Literal(is_string=False) as number):
            positive = read_number(str(number.this), span)
            assert isinstance(positive.value, int | Fraction)  # noqa: S101 - read_number's promise
            return Literal(span, -positive.value, positive.type)
        case exp.Cast() if is_moment(node):
            type_ = MOMENTS_WRITTEN[node.to.this]
            type_ = replace(type_, zone=zone) if type_ == TIMESTAMPTZ else type_
            return as_moment(str(node.this.this), type_, span)
    return None


def read_number(text: str, span: Span) -> Literal:
    """Read an unsigned number as SQL types it: integer, exact decimal, or double."""
    if len(text) > LONGEST:
        title = f"a number has at most {LONGEST} signs"
        raise unreadable(title, span, "too many digits", _FULL)
    if _DECIMAL.fullmatch(text):
        whole, _, decimals = text.partition(".")
        if len(whole.lstrip("0")) + len(decimals) > DECIMAL_DIGITS:
            title = f"a number has at most {DECIMAL_DIGITS} digits"
            raise unreadable(title, span, "too many digits", _FULL)
        value = Fraction(text if whole else f"0{text}")
        return Literal(span, int(value) if not decimals else value, decimal(len(decimals)))
    if _SCIENTIFIC.fullmatch(text):
        value, nearest = Fraction(text), float(text)
        if math.isinf(nearest) or (nearest == 0) != (value == 0):
            title = f"the number {text[:40]} is out of range"
            raise unreadable(title, span, "out of range", _FULL)
        return Literal(span, value, DOUBLE)
    raise no_number(text, span, "write digits, at most one point")


def in_zone(clock: datetime, type_: Type, span: Span) -> Literal:
    """Return the instant at which the clock of a type's zone shows a timestamp."""
    instant = to_instant(ordinal(clock), type_.zone or UTC_ZONE)
    return Literal(span, FIRST_INSTANT + timedelta(microseconds=instant), type_)


def _instant(text: str, type_: Type, span: Span) -> Literal | None:
    """Read a text as an instant, with an offset or without; None if it is none."""
    day = _TIMESTAMP.match(text) or _DATE.match(text)
    if day is None:
        return None
    moment, offset = datetime.fromisoformat(day[0]), text[day.end() :]
    if offset and not _OFFSET.fullmatch(offset):
        return None
    if not in_every_calendar(moment):
        return None
    if not offset:
        return in_zone(moment, type_, span)
    given = datetime.fromisoformat(f"{moment.isoformat()}{offset.strip()}")
    return Literal(span, given.astimezone(UTC), type_)


def as_moment(text: str, type_: Type, span: Span) -> Literal:
    """Read a text as a date or a moment, in ISO form; of a day, its midnight is that day."""
    wants_date = type_.kind is Kind.DATE
    pattern = _DATE if wants_date else _TIMESTAMP
    try:
        if type_.kind is Kind.TIMESTAMPTZ:
            found = _instant(text, type_, span)
            if found is not None:
                return found
        elif type_.kind is Kind.TIME:
            if _TIME.fullmatch(text):
                return Literal(span, time.fromisoformat(text), TIME)
        elif wants_date and pattern.fullmatch(text):
            return Literal(span, date.fromisoformat(text), DATE)
        if wants_date and _TIMESTAMP.fullmatch(text):
            moment = datetime.fromisoformat(text)
            if moment.time() == time.min:
                return Literal(span, moment.date(), DATE)
        elif not wants_date and (pattern.fullmatch(text) or _DATE.fullmatch(text)):
            return Literal(span, datetime.fromisoformat(text), TIMESTAMP)
    except ValueError:
        pass
    shape = _SHAPES[type_.kind]
    title = f"{text[:40]!r} is not a {type_}"
    likely = None if type_.kind is Kind.TIME else _likely_day(text)
    remedy = f"'{likely or shape}'"
    raise unreadable(title, span, f"written like '{shape}'", remedy)


def read_digits(text: str) -> int | None:
    """Return the small number that a text writes in ASCII digits; None of any other text.

    >>> read_digits("12"), read_digits("²"), read_digits("-1")
    (12, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def read_place(node: exp.Expr, count: int, span: Span, word: str) -> int:
    """Read a number that counts the columns of a result from 1; return it counted from 0."""
    text = str(node.this)
    number = read_digits(text)
    if number is not None and 1 <= number <= count:
        return number - 1
    title = f"there is no column number {text[:20]} in the result"
    why = f"a number in {word} counts the columns of the result."
    raise refusal("DPQ205", title, span, f"the columns are 1 to {count}", why, f"{word} 1")


def _likely_day(text: str) -> str | None:
    """Write the day that another way of writing dates means: a year alone is its first day.

    >>> _likely_day("2020/1/31"), _likely_day("31.01.2020"), _likely_day("2020")
    ('2020-01-31', '2020-01-31', '2020-01-01')
    """
    digits = re.findall(r"\d+", text[:40], re.ASCII)
    if digits and len(digits[-1]) == 4 and len(digits) == 3:
        month_first = "/" in text and int(digits[1]) > 12  # 01/31/2020
        digits = [digits[2], *(digits[:2] if month_first else digits[1::-1])]
    elif len(digits) == 1 and len(digits[0]) == 8:
        digits = [digits[0][:4], digits[0][4:6], digits[0][6:]]
    year, month, day = map(int, [*digits, "1", "1"][:3]) if digits else (0, 0, 0)
    try:
        return date(year, month, day).isoformat() if year > 1000 else None
    except ValueError:
        return None


# Python values as literals of a query: exactly, or not at all (I8).
#
# What is written is read again by the same parser as everything else, so a value can never be
# more than one value, and it means what it would mean had it been typed.


_EXACT = Context(prec=LONGEST, traps=[Inexact])
_WHY = "values are stated exactly in the query, or not at all."


def misfit(title: str, remedy: str, span: Span | None = None, why: str = _WHY) -> NameRefused:
    """Refuse a Python value that does not fit where it was given."""
    label = "" if span is None else "a place for a value"
    refused = NameRefused(Diagnostic("DPQ805", title, span, label, (why,), (remedy,)))
    refused.budget = "unchanged"
    return refused


def require_name(name: object, remedy: str) -> None:
    """Require that a table is named by a text.

    Raises:
        NameRefused: DPQ805 it is something else.
    """
    if not isinstance(name, str):
        title = f"a table is named by a text, not {type(name).__name__}"
        raise misfit(title, remedy, why="names are as in SQL.")


def no_statement(given: object) -> SyntaxRefused:
    """Return the refusal of a statement that is no text at all."""
    title = f"a statement is a text, not {type(given).__name__}"
    return SyntaxRefused(Diagnostic("DPQ104", title, remedy=("session.sql('SHOW TABLES')",)))


def written_value(value: object) -> str:
    """Write a value as a literal.

    >>> written_value("O'Hara"), written_value(0.1), written_value(Fraction(-1, 8))
    ("'O''Hara'", '0.1', '-0.125')

    Raises:
        NameRefused: DPQ805 no literal is exactly this value.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float | Decimal | Fraction):
        return _number(value)
    if isinstance(value, str):
        return "'" + str.replace(value, "'", "''") + "'"
    if type(value) is datetime and value.tzinfo is None:
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if type(value) is datetime and in_every_calendar(value):
        return f"TIMESTAMPTZ '{value.astimezone(UTC).isoformat(sep=' ')}'"
    if type(value) is time and value.tzinfo is None:
        return f"TIME '{value.isoformat()}'"
    if type(value) is date:
        return f"DATE '{value.isoformat()}'"
    raise _unwritten(value)


def written_setting(value: object) -> str:
    """Write what an option is set to: `"0.5"` is a number too, and a pair stands in brackets.

    >>> written_setting("1e-7"), written_setting("gaussian"), written_setting((0, 100))
    ('0.0000001', "'gaussian'", '[0, 100]')

    Raises:
        NameRefused: DPQ805 no literal is exactly this value.
    """
    if isinstance(value, list | tuple):
        for one in value:
            if isinstance(one, list | tuple):  # as rows of data would be
                raise _unwritten(one)
        return f"[{', '.join(map(written_setting, value))}]"
    if isinstance(value, str):
        try:
            return written_value(exact_number(value))
        except ValueError:
            pass
    return written_value(value)


def _number(value: float | Decimal | Fraction) -> str:
    """Write a number: a float by its repr, a decimal with all its digits."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _unwritten(value)
        return float.__repr__(value)
    try:
        number = (
            value
            if isinstance(value, Decimal)
            else _EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))
        )
    except Inexact:
        raise _unwritten(value) from None
    # Without an exponent, which would make it a double.
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or len(digits) + abs(exponent) > LONGEST:
        raise _unwritten(value)
    return f"{number:f}"


def _unwritten(value: object) -> NameRefused:
    match value:
        case Fraction():
            what = "a fraction that no decimal equals"
        case int() | float() | Decimal():
            what = "a number of this size or kind"
        case datetime():
            what = "a datetime with a zone, or of another class"
        case _:
            what = f"a {type(value).__name__}"
    remedy = (
        "int, bool, float, Decimal, str, date, datetime; a Fraction that is a decimal; None"
    )
    return misfit(f"{what} cannot be written as a literal", remedy)


def chain(node: exp.Expr) -> Iterator[exp.Expr]:
    """Flatten `a AND b AND c`, however long, from left to right."""
    pending = [node]
    while pending:
        one = pending.pop()
        inner = unwrapped(one)
        if type(inner) is type(node):
            pending += [inner.expression, inner.this]
        else:
            yield one


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions between the outer ANDs of one."""
    if node is None:
        return []
    inner = unwrapped(node)
    return [*map(unwrapped, chain(inner))] if isinstance(inner, exp.And) else [inner]
