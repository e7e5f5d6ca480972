"""Values whose types do not match: refused with the comparison that was meant, if plain.

A text that holds a number, 1 for true, a year for its days: each is written anew as a literal
of the other side's type. Nothing is converted here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import NoReturn

from dpquery.core.source_text import Source, Span
from dpquery.core.types import MOMENTS, Kind, Type
from dpquery.errors import refusal
from dpquery.ir.expr import Comparison, Expr, Literal
from dpquery.rowfunctions import named
from dpquery.rowfunctions.analysis.conditions import facts_of
from dpquery.rowfunctions.analysis.key_domains import values_of
from dpquery.sql.suggest.sample_queries import sample_literal, sample_text

_SILENT = (
    "values are never converted silently: a conversion can fail on one row,",
    "and a failure would tell whether that row exists.",
)
_NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?", re.ASCII)
_MOMENT = re.compile(r"(?i)\b(DATE|TIMESTAMPTZ|TIMESTAMP|TIME)\s+$")
"""What stands before a literal that is written in another type."""
_TRUTHS = {"1": "TRUE", "true": "TRUE", "yes": "TRUE", "t": "TRUE", "y": "TRUE"}
_FALSEHOODS = {"0": "FALSE", "false": "FALSE", "no": "FALSE", "f": "FALSE", "n": "FALSE"}
_AFTER_A_YEAR = {Comparison.GT, Comparison.LE}
"""`hired > 2020` means after its last day; `hired >= 2020`, from its first."""
_MIRRORED = {
    Comparison.LT: Comparison.GT,
    Comparison.LE: Comparison.GE,
    Comparison.GT: Comparison.LT,
    Comparison.GE: Comparison.LE,
}


_NUMBERS_OF: dict[Kind | None, str] = {
    Kind.TEXT: "LENGTH({})",
    Kind.BOOLEAN: "CAST({} AS BIGINT)",
    Kind.DATE: "YEAR({})",
    Kind.TIMESTAMP: "YEAR({})",
    Kind.TIMESTAMPTZ: "YEAR({})",
    Kind.TIME: "HOUR({})",
}
"""What of a value is a number."""


def number_of(kind: Kind | None, written: str, literal: object = None) -> str:
    """Write what of a value is a number: of a literal text, the number that it holds."""
    if isinstance(literal, str):
        return number_in(literal)
    return _NUMBERS_OF.get(kind, "{}").format(written)


def number_in(text: str) -> str:
    """Return the number that a text holds; where it holds none, any number."""
    plain = text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < 30
    return text if plain and text[0] != "." else "1"


def with_article(type_: Type) -> str:
    """Name a type in a sentence.

    >>> with_article(Type(Kind.INTEGER)), with_article(Type(Kind.DOUBLE))
    ('an integer', 'a double')
    """
    return f"{'an' if type_.kind is Kind.INTEGER else 'a'} {type_.kind.value}"


def mismatch(
    span: Span, title: str, label: str, remedy: str, why: tuple[str, ...] = _SILENT
) -> NoReturn:
    """Refuse values whose types do not match."""
    raise refusal("DPQ208", title, span, label, why, remedy)


def no_null(span: Span, label: str, remedy: str) -> NoReturn:
    """Refuse NULL as a value."""
    why = ("a value that is missing is neither equal to anything nor different from it.",)
    mismatch(span, "nothing equals NULL, and nothing differs from it", label, remedy, why)


def as_compared(
    source: Source, span: Span, operator: Comparison | None, exprs: Sequence[Expr]
) -> str:
    """Write a comparison anew, its literals in the type of what they are compared with.

    Args:
        source: the query.
        span: where the comparison stands; its text is kept but for the literals.
        operator: what compares two sides; None where the values are a list or two ends.
        exprs: what is compared, from left to right.
    """
    model = next((expr for expr in exprs if not isinstance(expr, Literal)), exprs[0])
    others = [expr for expr in exprs if expr is not model]
    literals = [expr for expr in others if isinstance(expr, Literal)]
    if not literals or len(literals) < len(others):
        return _compared_anew(source, operator or Comparison.EQ, model, others)
    year = _year(source.snippet(literals[0].span)) if model.type.kind in MOMENTS else None
    if year is not None and operator in {Comparison.EQ, Comparison.NE}:
        negated = "NOT " if operator is Comparison.NE else ""
        ends = " AND ".join(_day(year, model.type, last=last) for last in (False, True))
        return f"{source.snippet(model.span)} {negated}BETWEEN {ends}"
    if operator is not None and exprs[0] is not model:
        operator = _MIRRORED.get(operator, operator)
    text, end, below = "", span.start, operator in {Comparison.LT, Comparison.LE}
    for number, literal in enumerate(literals):
        last = operator in _AFTER_A_YEAR if operator is not None else number > 0
        before = _MOMENT.sub("", source.text[end : literal.span.start])
        at = -below if operator is not None else number
        text += before + _rewritten(_plain(literal, source), model, at, last=last)
        end = literal.span.end
    return text + source.text[end : span.end]


def _compared_anew(
    source: Source, operator: Comparison, model: Expr, others: Sequence[Expr]
) -> str:
    """Write a comparison of what is no literal: of moments converted, or with a sample."""
    left, other = source.snippet(model.span), next(iter(others), model)
    if {model.type.kind, other.type.kind} <= MOMENTS or _free_text(model, other, operator):
        right = f"CAST({source.snippet(other.span)} AS {model.type.kind.name})"
        return f"{left} {operator.value} {right}"
    if _free_text(other, model, operator):
        return f"CAST({left} AS TEXT) {operator.value} {source.snippet(other.span)}"
    downwards = operator in {Comparison.LT, Comparison.LE}
    return f"{left} {operator.value} {sample_literal(model, high=downwards)}"


def _free_text(expr: Expr, other: Expr, operator: Comparison) -> bool:
    """Return whether a text that can be any is to equal what can be written as a text."""
    equal = operator in {Comparison.EQ, Comparison.NE}
    texts = expr.type.kind is Kind.TEXT is not other.type.kind
    castable = other.type.kind in named("TO_TEXT").parameters[0].kinds
    return equal and texts and castable and values_of(expr, facts_of()) is None


def _rewritten(text: str, model: Expr, at: int, *, last: bool) -> str:
    """Write a literal in the type of another expression; a sample, where it has no meaning."""
    type_, year = model.type, _year(text)
    if type_.numeric and _NUMBER.fullmatch(text):
        return text
    if type_.kind is Kind.TEXT:
        return sample_text(model, text, at)
    if type_.kind is Kind.BOOLEAN:
        return {**_TRUTHS, **_FALSEHOODS}.get(text.lower(), "TRUE")
    if type_.kind in MOMENTS and year is not None:
        return _day(year, type_, last=last)
    return sample_literal(model, high=at != 0)


def _plain(literal: Literal, source: Source) -> str:
    """Return what a literal says, without quotes."""
    if isinstance(literal.value, str | date):
        return str(literal.value)
    return source.snippet(literal.span)


def _year(text: str) -> int | None:
    digits = text.strip("'")
    return int(digits) if re.fullmatch("[12][0-9]{3}", digits) else None


def _day(year: int, type_: Type, *, last: bool) -> str:
    """Write the first or the last moment of a year."""
    day = f"{year}-12-31" if last else f"{year}-01-01"
    if type_.kind is Kind.DATE:
        return f"DATE '{day}'"
    return f"{type_.kind.upper()} '{day} {'23:59:59.999999' if last else '00:00:00'}'"
