"""What parse-time refusals say: mended queries, made from the analyst's own text.

What stands after `try:` should work when it is pasted. This module knows characters and words
only; it never decides whether anything is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot import Token, TokenType

from dpquery.errors import Diagnostic
from dpquery.source import Source, Span, width

__all__ = ["example", "mended", "outside", "shown", "span_of"]

_WIDEST = 88
"""Longer queries are not repeated: the place of the change would be lost in them."""


def span_of(first: Token, last: Token | None = None) -> Span:
    """Give the stretch from one token to another."""
    return Span(first.start, (last or first).end + 1)


def mended(source: Source, span: Span, text: str, otherwise: str) -> str:
    """Give the query with a stretch replaced, if that is one short line.

    >>> mended(Source("SELECT a == 1"), Span(9, 11), "=", "use =")
    'SELECT a = 1'
    """
    before, after = source.text[: span.start], source.text[span.end :]
    if not text and before.endswith(" "):
        after = after.lstrip()
    return shown((before + text + after).strip(), otherwise)


def shown(query: str, otherwise: str) -> str:
    """Give a query if it is one short line, and else what tells enough of it."""
    return query if width(query) <= _WIDEST and "\n" not in query else otherwise


def example(source: Source, tokens: Sequence[Token]) -> str:
    """Give a statement that is accepted: over the table that this one names, if it does."""
    for token, following in pairwise(tokens):
        if token.token_type is TokenType.FROM and following.token_type in _NAMES:
            table = source.snippet(span_of(following))
            return f"SELECT DP_COUNT(*, eps=0.5) AS n FROM {table}"
    return "SHOW TABLES"


def outside(word: str, span: Span, label: str, remedy: str) -> Diagnostic:
    """Say that a construct is no part of the language."""
    return Diagnostic(
        "DPQ102",
        f"{word} is not part of the language here",
        span,
        label,
        ("only what is known to keep the promise is accepted; `grammar/dpsql.ebnf` lists it.",),
        (remedy,),
    )


_NAMES = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING}
