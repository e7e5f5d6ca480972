"""Functions that hold a text against a literal pattern, in time that the pattern bounds."""

from __future__ import annotations

import re
from functools import lru_cache

from dpquery.expr import Apply, Literal
from dpquery.rowfunctions.base import TEXTS, TO_BOOLEAN, Parameter, RowFunction, pattern
from dpquery.rowfunctions.regexes import (
    Pattern,
    check_like,
    check_regex,
    like_regex,
    read_regex,
)
from dpquery.rowfunctions.text import folded, lower_sql
from dpquery.types import Kind

__all__ = ["FUNCTIONS"]

_read = lru_cache(256)(read_regex)
_compiled = lru_cache(256)(re.compile)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _written(call: Apply) -> str:
    """Give the pattern, which is a literal text."""
    given = call.arguments[1]
    assert isinstance(given, Literal)  # noqa: S101 - the signature says so
    return str(given.value)


def _pattern(call: Apply) -> Pattern:
    return _read(_written(call))


def _like(call: Apply, text: str, written: str) -> bool:
    return bool(_compiled(like_regex(written), re.DOTALL).fullmatch(text))


def _like_sql(call: Apply, text: str, _: str) -> str:
    """Write LIKE where it only looks for texts in order; `_` needs the automaton."""
    return _liked(text, _written(call))


def _liked(text: str, written: str) -> str:
    if "_" in written:
        return f"regexp_full_match({text}, {_quoted(like_regex(written))}, 's')"
    return f"({text} LIKE {_quoted(re.sub('%+', '%', written))})"


def _ilike_sql(call: Apply, text: str, _: str) -> str:
    return _liked(lower_sql(text), folded(_written(call)))


def _search(call: Apply, text: str, _: str) -> bool:
    return bool(_compiled(_pattern(call).python).search(text))


def _full(call: Apply, text: str, _: str) -> bool:
    return bool(_compiled(_pattern(call).python).fullmatch(text))


_LIKE = pattern(check_like)
_REGEX = Parameter("a literal pattern", frozenset({Kind.TEXT}), True, check=check_regex)

FUNCTIONS = (
    RowFunction(
        name="LIKE",
        summary="Whether a text has a form: % stands for any characters, _ for one",
        example="dept LIKE 'e%'",
        parameters=(TEXTS, _LIKE),
        written=False,
        result=TO_BOOLEAN,
        meaning=_like,
        sql=_like_sql,
    ),
    RowFunction(
        name="ILIKE",
        summary="As LIKE, with the letters A to Z in any case",
        example="dept ILIKE 'E%'",
        parameters=(TEXTS, _LIKE),
        written=False,
        result=TO_BOOLEAN,
        meaning=lambda call, text, written: _like(call, folded(text), folded(written)),
        sql=_ilike_sql,
    ),
    RowFunction(
        name="REGEXP_MATCHES",
        aliases=("REGEXP_LIKE", "REGEXP_CONTAINS"),
        summary="Whether a text holds a match of a regular expression",
        example="REGEXP_MATCHES(dept, '^e')",
        parameters=(TEXTS, _REGEX),
        result=TO_BOOLEAN,
        meaning=_search,
        sql=lambda call, text, _: f"regexp_matches({text}, {_quoted(_pattern(call).engine)})",
    ),
    RowFunction(
        name="REGEXP_FULL_MATCH",
        summary="Whether a whole text matches a regular expression; also x SIMILAR TO pattern",
        example="dept SIMILAR TO '[a-z]+'",
        parameters=(TEXTS, _REGEX),
        result=TO_BOOLEAN,
        meaning=_full,
        sql=lambda call, text, _: (
            f"regexp_full_match({text}, {_quoted(_pattern(call).engine)})"
        ),
    ),
)
