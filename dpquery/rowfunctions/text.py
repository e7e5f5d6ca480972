"""Functions of texts, counted in characters of Unicode; letters fold from A to Z only.

Every length is bounded by the lengths of the arguments. What other letters fold to depends on
the version of Unicode that a library was built with, so they stay as they are.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

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
)

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)


def folded(text: str) -> str:
    """Fold the letters A to Z of a text."""
    return text.translate(_LOWER)


def lower_sql(text: str) -> str:
    """Write a text with its letters A to Z folded."""
    return f"translate({text}, '{string.ascii_uppercase}', '{string.ascii_lowercase}')"


WORD = pattern(lambda text: None if text else "it is empty")
_ANY_WORD = pattern(lambda _: None)


def _cut_longest(arguments: Sequence[Expr]) -> int:
    """Return the length of a part: no longer than the text, nor than the last argument says."""
    whole, last = longest_of(arguments[0]), arguments[-1]
    said = last.value if isinstance(last, Literal) else None
    return min(whole, said) if isinstance(said, int) else whole


def _replaced_longest(arguments: Sequence[Expr]) -> int:
    text, old, new = map(longest_of, arguments)
    return text if new <= old else (text // max(old, 1)) * new + text % max(old, 1)


def _substring(_: Apply, text: str, start: int, length: int | None = None) -> str:
    return text[start - 1 :] if length is None else text[start - 1 : start - 1 + length]


def _part(_: Apply, text: str, separator: str, number: int) -> str:
    parts = text.split(separator)
    return parts[number - 1] if number <= len(parts) else ""


def _of_text(
    name: str,
    summary: str,
    example: str,
    parameters: tuple[Parameter, ...],
    meaning: Callable[..., Value],
    **settings: Any,
) -> RowFunction:
    """Return a function that makes a text no longer than its first argument."""
    made = {"result": TO_TEXT, "longest": lambda arguments: longest_of(arguments[0])}
    return RowFunction(
        name=name,
        summary=summary,
        example=example,
        parameters=parameters,
        meaning=meaning,
        **(made | settings),
    )


def _trim(
    name: str, where: str, meaning: Callable[[str, str], str], *aliases: str
) -> RowFunction:
    return _of_text(
        name,
        f"The text without blanks, or without the characters given, {where}",
        f"{name}(dept)",
        (TEXTS, WORD),
        lambda _, text, signs=" ": meaning(text, signs),
        written_as=lambda _, text, signs="' '": f"{name.lower()}({text}, {signs})",
        optional=1,
        aliases=aliases,
    )


def _test(
    name: str, summary: str, meaning: Callable[[str, str], bool], *aliases: str
) -> RowFunction:
    return RowFunction(
        name=name,
        aliases=aliases,
        summary=summary,
        example=f"{name}(dept, 'e')",
        parameters=(TEXTS, TEXTS),
        result=TO_BOOLEAN,
        meaning=lambda _, text, part: meaning(text, part),
    )


FUNCTIONS = (
    _of_text(
        "LOWER",
        "The text with A to Z made small; other letters stay",
        "LOWER(dept)",
        (TEXTS,),
        lambda _, text: folded(text),
        written_as=lambda _, text: lower_sql(text),
        aliases=("LCASE",),
        calls=("translate",),
    ),
    _of_text(
        "UPPER",
        "The text with a to z made capital; other letters stay",
        "UPPER(dept)",
        (TEXTS,),
        lambda _, text: text.translate(_UPPER),
        written_as=lambda _, text: (
            f"translate({text}, '{string.ascii_lowercase}', '{string.ascii_uppercase}')"
        ),
        aliases=("UCASE",),
        calls=("translate",),
    ),
    RowFunction(
        name="LENGTH",
        aliases=("LEN", "CHAR_LENGTH", "CHARACTER_LENGTH"),
        summary="The number of characters",
        example="LENGTH(dept)",
        parameters=(TEXTS,),
        result=TO_INTEGER,
        meaning=lambda _, text: len(text),
        range=lambda args, _: Interval(Fraction(0), Fraction(longest_of(args[0]))),
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
        longest=lambda arguments: _cut_longest(arguments if arguments[2:] else arguments[:1]),
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
        lambda _, text, count: text[max(0, len(text) - count) :],
        longest=_cut_longest,
    ),
    _trim("TRIM", "at both ends", str.strip, "BTRIM"),
    _trim("LTRIM", "at its start", str.lstrip),
    _trim("RTRIM", "at its end", str.rstrip),
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
    RowFunction(
        name="AMONG_PARTS",
        summary="Whether a text is one of the parts of another between separators",
        example="'l' IN UNNEST(string_split(dept, 'e'))",
        parameters=(TEXTS, TEXTS, WORD),
        written=False,
        result=TO_BOOLEAN,
        meaning=lambda _, part, text, separator: part in text.split(separator),
        written_as=lambda _, part, text, separator: (
            f"list_contains(string_split({text}, {separator}), {part})"
        ),
        calls=("list_contains", "string_split"),
    ),
    _of_text(
        "CONCAT",
        "The texts one after the other; NULL counts as empty",
        "CONCAT(dept, '-', dept)",
        (TEXTS, TEXTS),
        lambda _, *texts: "".join(text for text in texts if text is not None),
        variadic=True,
        strict=False,
        longest=lambda arguments: sum(map(longest_of, arguments)),
    ),
    _of_text(
        "JOIN",
        "The texts one after the other; NULL where one is",
        "dept || '-' || dept",
        (TEXTS, TEXTS),
        lambda _, one, other: one + other,
        written_as=lambda _, one, other: f"({one} || {other})",
        calls=("||",),
        written=False,
        longest=lambda arguments: sum(map(longest_of, arguments)),
    ),
    _test("STARTS_WITH", "Whether a text begins with another", str.startswith, "PREFIX"),
    _test("ENDS_WITH", "Whether a text ends with another", str.endswith, "SUFFIX"),
    _test("CONTAINS", "Whether a text holds another", str.__contains__),
    RowFunction(
        name="STRPOS",
        aliases=("INSTR",),
        summary="Where a text first holds another, counted from 1; 0 where it does not",
        example="STRPOS(dept, 'e')",
        parameters=(TEXTS, TEXTS),
        result=TO_INTEGER,
        meaning=lambda _, text, part: text.find(part) + 1,
        range=lambda args, _: Interval(Fraction(0), Fraction(longest_of(args[0]) + 1)),
        dense=True,
    ),
)
