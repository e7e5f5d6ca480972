"""What is said of a text that is not a complete query: where reading stopped, in our words."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType
from sqlglot.errors import ParseError

from dpquery.errors import Diagnostic, nearest
from dpquery.source import Source, Span
from dpquery.sql.mending import example, mended, shown, span_of

__all__ = ["misread", "unfinished"]

_CLAUSES = ("CUBE", "FROM", "GROUP", "HAVING", "LIMIT", "OFFSET", "ORDER", "ROLLUP", "WHERE")


def misread(source: Source, tokens: Sequence[Token], error: ParseError) -> Diagnostic:
    """Say where the parser stopped, in our words and not in its own."""
    ticks = [token.start for token in tokens if token.token_type is TokenType.UNKNOWN]
    ticks = [start for start in ticks if source.text[start] == "`"]
    if ticks:
        return _ticked(source, tokens, ticks)
    found = error.errors[0] if error.errors else {}
    marked = str(found.get("highlight") or "")
    line_start = 0
    for _ in range(int(found.get("line") or 1) - 1):
        line_start = source.text.find("\n", line_start) + 1
    start = max(0, line_start + int(found.get("col") or 0) - len(marked))
    mistyped = next((t for t in reversed(tokens) if t.end < start), None)
    meant = nearest(mistyped.text, _CLAUSES) if mistyped is not None else None
    if mistyped is not None and meant is not None and mistyped.text.upper().split()[0] != meant:
        return _mistyped(source, tokens, mistyped, meant)
    title = (
        f"this cannot be read at {marked[:40]!r}"
        if marked
        else "this cannot be read to its end"
    )
    return unfinished(source, tokens, title, Span(start, start + max(1, len(marked))))


def _ticked(source: Source, tokens: Sequence[Token], ticks: Sequence[int]) -> Diagnostic:
    text = "".join('"' if at in ticks else char for at, char in enumerate(source.text))
    return Diagnostic(
        "DPQ101",
        "names stand in double quotes, or in none",
        Span(ticks[0], ticks[0] + 1),
        "no quote in this language",
        ("the text is not a complete query.",),
        (shown(text.strip(), example(source, tokens)),),
    )


def _mistyped(source: Source, tokens: Sequence[Token], token: Token, meant: str) -> Diagnostic:
    return Diagnostic(
        "DPQ101",
        f"{token.text[:40]!r} is not understood here",
        span_of(token),
        f"is it {meant}?",
        ("the text is not a complete query.",),
        (mended(source, span_of(token), meant, example(source, tokens)),),
    )


def unfinished(
    source: Source, tokens: Sequence[Token], title: str, span: Span | None = None
) -> Diagnostic:
    """Say that a text is no complete query: from its first word on, or at a stretch."""
    return Diagnostic(
        "DPQ101",
        title,
        span or span_of(tokens[0]),
        "not understood here" if span else "nothing follows that could be answered",
        ("the text is not a complete query.",),
        (example(source, tokens),),
    )
