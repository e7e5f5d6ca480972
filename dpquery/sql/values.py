"""Python values as literals of a query: exactly, or not at all (I8).

What is written here is read again by the same parser as everything else, so a value can never
be more than one value, and it means what it would mean had it been typed.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Context, Decimal, Inexact
from fractions import Fraction

from dpquery.errors import Diagnostic, NameRefused
from dpquery.privacy import exact_number
from dpquery.source import Span

__all__ = ["misfit", "written_setting", "written_value"]

MOST_DIGITS = 400
"""Longer numbers are refused where they are read; here they would only take long to write."""
_EXACT = Context(prec=MOST_DIGITS, traps=[Inexact])
_WHY = "values are stated exactly in the query, or not at all."


def misfit(title: str, remedy: str, span: Span | None = None, why: str = _WHY) -> NameRefused:
    """Refuse a Python value that does not fit where it was given."""
    label = "" if span is None else "a place for a value"
    refused = NameRefused(Diagnostic("DPQ805", title, span, label, (why,), (remedy,)))
    refused.budget = "unchanged"
    return refused


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
        return f"[{', '.join(map(_part, value))}]"
    if isinstance(value, str):
        try:
            return written_value(exact_number(value))
        except ValueError:
            pass
    return written_value(value)


def _part(value: object) -> str:
    """Write a part of a list, which is no list itself: rows of data would be."""
    if isinstance(value, list | tuple):
        raise _unwritten(value)
    return written_setting(value)


def _number(value: float | Decimal | Fraction) -> str:
    """Write a number: a float by its repr, a decimal with all its places."""
    try:
        match value:
            case int():
                return _plain(Decimal(value))
            case float():
                return _finite(float.__repr__(value))
            case Decimal():
                return _plain(value)
        return _plain(_EXACT.divide(Decimal(value.numerator), Decimal(value.denominator)))
    except (Inexact, ValueError):
        raise _unwritten(value) from None


def _plain(number: Decimal) -> str:
    """Write a decimal without an exponent, which would make it a double."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or len(digits) + abs(exponent) > MOST_DIGITS:
        raise ValueError("not a number, or too long")
    return f"{number:f}"


def _finite(text: str) -> str:
    if text.lstrip("-") in {"nan", "inf"}:
        raise ValueError("not finite")
    return text


def _unwritten(value: object) -> NameRefused:
    number = isinstance(value, int | float | Decimal | Fraction)
    what = "a number of this size or kind" if number else f"a {type(value).__name__}"
    if isinstance(value, Fraction):
        what = "a fraction that no decimal equals"
    if isinstance(value, datetime):
        what = "a datetime with a zone, or of another class"
    return misfit(
        f"{what} cannot be written as a literal",
        "int, bool, float, Decimal, str, date, datetime; a Fraction that is a decimal; None",
    )
