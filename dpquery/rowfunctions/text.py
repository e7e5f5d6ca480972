"""Functions of texts, counted in characters of Unicode; letters fold from A to Z only.

Every length is bounded by the lengths of the arguments. What other letters fold to depends on
the version of Unicode that a library was built with, so they stay as they are.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from fractions import Fraction

from dpquery.core.types import Interval
from dpquery.ir.expr import Apply, Expr, Literal, longest_of
from dpquery.rowfunctions.base import (
    TEXTS,
    TO_BOOLEAN,
    TO_INTEGER,
    TO_TEXT,
    Parameter,
    RowFunction,
    Value,
    count_to,
    pattern,
    same_longest,
)

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)


def folded(text: str) -> str:
    """Fold the letters A to Z of a text."""
    return text.translate(_LOWER)


def lower_sql(text: str) -> str:
    """Write a text with its letters A to Z folded."""
    return f"translate({text}, '{string.ascii_uppercase}', '{string.ascii_lowercase}')"


def _upper_sql(_: Apply, text: str) -> str:
    return f"translate({text}, '{string.ascii_lowercase}', '{string.ascii_uppercase}')"


def _not_empty(text: str) -> str | None:
    return None if text else "it is empty"


WORD = pattern(_not_empty)
_ANY_WORD = pattern(lambda _: None)


def _sum_longest(arguments: Sequence[Expr]) -> int:
    return sum(map(longest_of, arguments))


def _length_range(arguments: Sequence[Expr], _: Sequence[Interval]) -> Interval:
    return Interval(Fraction(0), Fraction(longest_of(arguments[0])))


def _cut_longest(arguments: Sequence[Expr]) -> int:
    """Return the length of a part: no longer than the text, nor than the last argument says."""
    last = arguments[-1]
    said = last.value if isinstance(last, Literal) and len(arguments) > 1 else None
    whole = longest_of(arguments[0])
    return min(whole, said) if isinstance(said, int) else whole


def _from_longest(arguments: Sequence[Expr]) -> int:
    return _cut_longest(arguments) if len(arguments) > 2 else longest_of(arguments[0])


def _replaced_longest(arguments: Sequence[Expr]) -> int:
    text, old, new = map(longest_of, arguments)
    return text if new <= old else (text // max(old, 1)) * new + text % max(old, 1)


def _substring(_: Apply, text: str, start: int, length: int | None = None) -> str:
    return text[start - 1 :] if length is None else text[start - 1 : start - 1 + length]


def _right(_: Apply, text: str, count: int) -> str:
    return text[max(0, len(text) - count) :]


def _part(_: Apply, text: str, separator: str, number: int) -> str:
    parts = text.split(separator)
    return parts[number - 1] if number <= len(parts) else ""


def _stripped(side: str) -> Callable[..., Value]:
    def meaning(_: Apply, text: str, signs: str = " ") -> str:
        result: str = getattr(text, side)(signs)
        return result

    return meaning


def _trim(name: str, side: str, where: str, *aliases: str) -> RowFunction:
    def sql(_: Apply, text: str, signs: str = "' '") -> str:
        return f"{name.lower()}({text}, {signs})"

    return _of_text(
        name,
        f"The text without blanks, or without the characters given, {where}",
        f"{name}(dept)",
        (TEXTS, WORD),
        _stripped(side),
        sql,
        optional=1,
        aliases=aliases,
    )


def _of_text(
    name: str,
    summary: str,
    example: str,
    parameters: tuple[Parameter, ...],
    meaning: Callable[..., Value],
    sql: Callable[..., str] | None = None,
    **settings: object,
) -> RowFunction:
    defaults: dict[str, object] = {"result": TO_TEXT, "longest": _first_longest}

    def plain(_: Apply, *texts: str) -> str:
        return f"{name.lower()}({', '.join(texts)})"

    return RowFunction(
        name=name,
        summary=summary,
        example=example,
        parameters=parameters,
        meaning=meaning,
        sql=sql or plain,
        **(defaults | settings),  # type: ignore[arg-type]
    )


def _first_longest(arguments: Sequence[Expr]) -> int:
    return same_longest(arguments[:1])


def _test(name: str, summary: str, meaning: Callable[..., Value], *aliases: str) -> RowFunction:
    return _of_text(
        name,
        summary,
        f"{name}(dept, 'e')",
        (TEXTS, TEXTS),
        meaning,
        result=TO_BOOLEAN,
        longest=lambda _: 0,
        aliases=aliases,
    )


FUNCTIONS = (
    _of_text(
        "LOWER",
        "The text with A to Z made small; other letters stay",
        "LOWER(dept)",
        (TEXTS,),
        lambda _, text: folded(text),
        lambda _, text: lower_sql(text),
        aliases=("LCASE",),
        calls=("translate",),
    ),
    _of_text(
        "UPPER",
        "The text with a to z made capital; other letters stay",
        "UPPER(dept)",
        (TEXTS,),
        lambda _, text: text.translate(_UPPER),
        _upper_sql,
        aliases=("UCASE",),
        calls=("translate",),
    ),
    _of_text(
        "LENGTH",
        "The number of characters",
        "LENGTH(dept)",
        (TEXTS,),
        lambda _, text: len(text),
        aliases=("LEN", "CHAR_LENGTH", "CHARACTER_LENGTH"),
        result=TO_INTEGER,
        range=_length_range,
        longest=lambda _: 0,
        dense=True,
    ),
    _of_text(
        "SUBSTRING",
        "The part from a place on, counted from 1, of a length if one is given",
        "SUBSTRING(dept, 1, 2)",
        (TEXTS, count_to(1), count_to(0)),
        _substring,
        aliases=("SUBSTR",),
        optional=1,
        longest=_from_longest,
    ),
    _of_text(
        "LEFT",
        "The first characters",
        "LEFT(dept, 1)",
        (TEXTS, count_to(0)),
        lambda _, text, count: text[:count],
        longest=_cut_longest,
    ),
    _of_text(
        "RIGHT",
        "The last characters",
        "RIGHT(dept, 1)",
        (TEXTS, count_to(0)),
        _right,
        longest=_cut_longest,
    ),
    _trim("TRIM", "strip", "at both ends", "BTRIM"),
    _trim("LTRIM", "lstrip", "at its start"),
    _trim("RTRIM", "rstrip", "at its end"),
    _of_text(
        "REPLACE",
        "The text with each occurrence of a text replaced by another",
        "REPLACE(dept, 'e', 'E')",
        (TEXTS, WORD, _ANY_WORD),
        lambda _, text, old, new: text.replace(old, new),
        longest=_replaced_longest,
    ),
    _of_text(
        "SPLIT_PART",
        "One of the parts between separators, counted from 1; empty where there is none",
        "SPLIT_PART(dept, '-', 1)",
        (TEXTS, WORD, count_to(1)),
        _part,
    ),
    _of_text(
        "CONCAT",
        "The texts one after the other; NULL counts as empty",
        "CONCAT(dept, '-', dept)",
        (TEXTS, TEXTS),
        lambda _, *texts: "".join(text for text in texts if text is not None),
        variadic=True,
        strict=False,
        longest=_sum_longest,
    ),
    _of_text(
        "JOIN",
        "The texts one after the other; NULL where one is",
        "dept || '-' || dept",
        (TEXTS, TEXTS),
        lambda _, one, other: one + other,
        lambda _, one, other: f"({one} || {other})",
        calls=("||",),
        written=False,
        longest=_sum_longest,
    ),
    _test(
        "STARTS_WITH",
        "Whether a text begins with another",
        lambda _, text, part: text.startswith(part),
        "PREFIX",
    ),
    _test(
        "ENDS_WITH",
        "Whether a text ends with another",
        lambda _, text, part: text.endswith(part),
        "SUFFIX",
    ),
    _test("CONTAINS", "Whether a text holds another", lambda _, text, part: part in text),
    _of_text(
        "STRPOS",
        "Where a text first holds another, counted from 1; 0 where it does not",
        "STRPOS(dept, 'e')",
        (TEXTS, TEXTS),
        lambda _, text, part: text.find(part) + 1,
        aliases=("INSTR",),
        result=TO_INTEGER,
        range=lambda arguments, _: Interval(
            Fraction(0), Fraction(longest_of(arguments[0]) + 1)
        ),
        longest=lambda _: 0,
        dense=True,
    ),
)
