"""Values from the query's text, read exactly (I8) or refused.

No value is ever read by the engine's rules: `1e-400`, `1_0` and `'2020-02-30'` mean something
else there, or raise.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused
from dpquery.ir import Literal, decimal
from dpquery.source import Span
from dpquery.types import BOOLEAN, DATE, DECIMAL_DIGITS, DOUBLE, TEXT, TIMESTAMP, Kind, Type

__all__ = [
    "TIMESTAMPS",
    "as_moment",
    "is_moment",
    "read_literal",
    "read_number",
    "unwrapped",
]

LONGEST = 400
"""Signs of a number, leading zeros included; more would make reading it slow, or fail."""
_DECIMAL = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)
_SCIENTIFIC = re.compile(r"(\d+(\.\d*)?|\.\d+)[eE][+-]?\d{1,4}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?", re.ASCII)
TIMESTAMPS = frozenset({exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ})
"""DuckDB's TIMESTAMP, which has no zone, under the two names that sqlglot has for it."""
_MOMENTS = {exp.DType.DATE: DATE, **dict.fromkeys(TIMESTAMPS, TIMESTAMP)}


def unwrapped(node: exp.Expr) -> exp.Expr:
    """Take off parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def is_moment(node: exp.Cast) -> bool:
    """Say whether a cast is a way to write a date or a timestamp, as DATE '2024-12-31' is."""
    text = isinstance(node.this, exp.Literal) and node.this.is_string
    return type(node) is exp.Cast and text and node.to.this in _MOMENTS


def read_literal(node: exp.Expr, span: Span) -> Literal | None:
    """Read a literal, signed or not; None where the node is something else.

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
            return as_moment(str(node.this.this), _MOMENTS[node.to.this], span)
    return None


def read_number(text: str, span: Span) -> Literal:
    """Read an unsigned number as SQL types it: integer, exact decimal, or double."""
    if len(text) > LONGEST:
        _unreadable(span, f"a number has at most {LONGEST} signs", "too many digits")
    if _DECIMAL.fullmatch(text):
        whole, _, places = text.partition(".")
        if len(whole.lstrip("0")) + len(places) > DECIMAL_DIGITS:
            _unreadable(
                span, f"a number has at most {DECIMAL_DIGITS} digits", "too many digits"
            )
        value = Fraction(text if whole else f"0{text}")
        return Literal(span, int(value) if not places else value, decimal(len(places)))
    if _SCIENTIFIC.fullmatch(text):
        value, nearest = Fraction(text), float(text)
        if math.isinf(nearest) or (nearest == 0) != (value == 0):
            _unreadable(span, f"the number {text[:40]} is out of range", "out of range")
        return Literal(span, value, DOUBLE)
    _unreadable(span, f"{text[:40]!r} is not a number here", "write digits, at most one point")


def as_moment(text: str, type_: Type, span: Span) -> Literal:
    """Read a text as a date or a timestamp, in ISO form."""
    wants_date = type_.kind is Kind.DATE
    pattern = _DATE if wants_date else _TIMESTAMP
    try:
        if wants_date and pattern.fullmatch(text):
            return Literal(span, date.fromisoformat(text), DATE)
        if not wants_date and (pattern.fullmatch(text) or _DATE.fullmatch(text)):
            return Literal(span, datetime.fromisoformat(text), TIMESTAMP)
    except ValueError:
        pass
    shape = "2024-12-31" if wants_date else "2024-12-31 23:59:59"
    title = f"{text[:40]!r} is not a {type_}"
    _unreadable(span, title, f"written like '{shape}'", f"'{_likely_day(text) or shape}'")


def _likely_day(text: str) -> str | None:
    """Write the day that another way of writing dates means: a year alone is its first day.

    >>> _likely_day("2020/1/31"), _likely_day("31.01.2020"), _likely_day("2020")
    ('2020-01-31', '2020-01-31', '2020-01-01')
    """
    parts = re.findall(r"\d+", text[:40], re.ASCII)
    if parts and len(parts[-1]) == 4 and len(parts) == 3:
        month_first = "/" in text and int(parts[1]) > 12  # 01/31/2020
        parts = [parts[2], *(parts[:2] if month_first else parts[1::-1])]
    elif len(parts) == 1 and len(parts[0]) == 8:
        parts = [parts[0][:4], parts[0][4:6], parts[0][6:]]
    year, month, day = map(int, [*parts, "1", "1"][:3]) if parts else (0, 0, 0)
    try:
        return date(year, month, day).isoformat() if year > 1000 else None
    except ValueError:
        return None


def _unreadable(
    span: Span,
    title: str,
    label: str,
    remedy: str = "write the value in full, as 12.5 or '2024-12-31'",
) -> NoReturn:
    raise NameRefused(
        Diagnostic(
            "DPQ210",
            title,
            span,
            label,
            ("values are read exactly from the text, never guessed.",),
            (remedy,),
        )
    )
