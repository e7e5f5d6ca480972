"""Mended queries for the last lines of a refusal: the analyst's own text, with a change or two.

What stands after `try:` should work when it is pasted, so it is made from the text itself. This
module knows characters and words only; it never decides whether anything is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

from dpquery.source import Source, Span, width

__all__ = ["example", "mended", "span_of"]

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
    query = (before + text + after).strip()
    return query if width(query) <= _WIDEST and "\n" not in query else otherwise


def example(source: Source, tokens: Sequence[Token]) -> str:
    """Give a query that is accepted, over the table that this one names."""
    table = "a_table"
    for token, following in zip(tokens, tokens[1:], strict=False):
        if token.token_type is TokenType.FROM and following.token_type in _NAMES:
            table = source.snippet(span_of(following))
            break
    return f"SELECT DP_COUNT(*, eps=0.5) AS n FROM {table}"


_NAMES = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING}
