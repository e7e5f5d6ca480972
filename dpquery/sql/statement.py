"""The first look at a text: its size, its brackets, its leading word. Nothing is parsed yet.

The parser recurses, so what would exhaust it is refused here, from a flat list of tokens. Every
check depends on the text alone.
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from typing import NoReturn

from sqlglot import Token, TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from dpquery.errors import Diagnostic, SyntaxRefused, nearest
from dpquery.source import Source, Span
from dpquery.sql.mending import example, mended, span_of
from dpquery.sql.words import QUERIES, check_words, with_leading_points

__all__ = ["read_statement"]

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_CHAIN = 32
"""Prefix operators in a row: `NOT NOT ...` recurses as brackets do."""
MAX_TOKENS = 20_000

_OPENING = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSING = {TokenType.R_PAREN: ")", TokenType.R_BRACKET: "]", TokenType.R_BRACE: "}"}
_PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE, TokenType.CASE}
_CLAUSES = {
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.LIMIT,
    TokenType.SEMICOLON,
}
_FIRST_WORDS = ("SELECT", "WITH", "FROM", "EXPLAIN", "SHOW", "DESCRIBE", "REFRESH")
_WITH_FROM = {"EXTRACT", "TRIM", "SUBSTRING", "OVERLAY"}


def read_statement(source: Source) -> list[Token]:
    """Give the tokens of the one query in a text, without the semicolon at its end.

    Raises:
        SyntaxRefused: DPQ101 brackets or quotes are open, DPQ103 several statements,
            DPQ104 nothing to run, DPQ105 too large or too deep, DPQ106 not a query.
        NameRefused: DPQ210 a number is not written in digits.
    """
    _check_text(source)
    tokens = _tokens(source)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise SyntaxRefused(
            Diagnostic(
                "DPQ104",
                "there is nothing to run",
                why=("the text holds no statement.",),
                remedy=(example(source, tokens),),
            ),
            source,
        )
    _check_single(source, tokens)
    _check_verb(source, tokens)
    _check_nesting(source, tokens)
    check_words(source, tokens)
    return tokens


def _check_text(source: Source) -> None:
    text = source.text
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SyntaxRefused(
            Diagnostic(
                "DPQ105",
                f"the query is longer than {MAX_BYTES // 1024} kB",
                Span(min(len(text), MAX_BYTES) - 1, len(text)),
                "from here on",
                why=("texts of this size are refused before they are parsed.",),
                remedy=("ask in smaller queries",),
            )
        )
    for offset, char in enumerate(text):
        if char not in "\t\n\r" and unicodedata.category(char) in {"Cc", "Cs"}:
            raise SyntaxRefused(
                Diagnostic(
                    "DPQ105",
                    f"the query holds the control character U+{ord(char):04X}",
                    Span(offset, offset + 1),
                    "not allowed in a query",
                    ("control characters can hide what a query says.",),
                    ("remove the character",),
                )
            )


def _tokens(source: Source) -> list[Token]:
    try:
        tokens: list[Token] = DuckDB().tokenize(source.text)
    except TokenError:
        raise SyntaxRefused(_open_text(source)) from None
    if len(tokens) > MAX_TOKENS:
        _too_deep(
            tokens[MAX_TOKENS], f"the query has more than {MAX_TOKENS} words", "from here on"
        )
    return with_leading_points(tokens)


def _open_text(source: Source) -> Diagnostic:
    return Diagnostic(
        "DPQ101",
        "a quote or comment is not closed",
        _open_span(source.text) or Span(0, len(source.text)),
        "opened here",
        ("the text is not a complete query.",),
        ("close it: a text ends in ', a name in \", a comment in */",),
    )


def _open_span(text: str) -> Span | None:
    """Find the quote or comment that swallows the end of the text."""
    offset = 0
    closers = {"'": "'", '"': '"', "--": "\n", "/*": "*/", "$$": "$$"}
    while offset < len(text):
        opener = next((o for o in closers if text.startswith(o, offset)), None)
        if opener is None:
            offset += 1
            continue
        end = text.find(closers[opener], offset + len(opener))
        if end < 0:
            return Span(offset, offset + len(opener))
        offset = end + len(closers[opener])
    return None


def _check_single(source: Source, tokens: list[Token]) -> None:
    for token, following in pairwise(tokens):
        if token.token_type is TokenType.SEMICOLON:
            rest = Span(following.start, following.end + 1)
            raise SyntaxRefused(
                Diagnostic(
                    "DPQ103",
                    "there is more than one statement",
                    rest,
                    "a second statement starts here",
                    ("each statement is charged and answered on its own.",),
                    (
                        mended(
                            source,
                            Span(token.start, len(source.text)),
                            "",
                            "send the first alone",
                        ),
                        "or each on its own; on the command line, -c may be repeated",
                    ),
                )
            )


def _check_verb(source: Source, tokens: list[Token]) -> None:
    verb = tokens[0]
    if verb.token_type in {
        TokenType.SELECT,
        TokenType.FROM,
        TokenType.WITH,
        TokenType.L_PAREN,
    }:
        return
    span, meant = span_of(verb), None
    if verb.token_type is TokenType.VAR:  # no word of SQL, so one that was mistyped
        meant = nearest(verb.text, _FIRST_WORDS)
    text = source.text
    raise SyntaxRefused(
        Diagnostic(
            "DPQ106",
            f"{verb.text[:40].upper()} is not a statement here",
            span,
            "only SELECT is answered" if meant is None else f"did you mean {meant}?",
            ("queries read; they change no data, settings or files.",),
            (
                f"{text[: span.start]}{meant}{text[span.end :]}".strip()
                if meant
                else example(source, tokens),
            ),
        )
    )


def _check_nesting(source: Source, tokens: list[Token]) -> None:
    """Match brackets, and refuse what would make the parser recurse too far."""
    stack: list[tuple[Token, Token | None, bool]] = []
    chain = cases = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        kind = token.token_type
        cases = max(0, cases + (kind is TokenType.CASE) - (kind is TokenType.END))
        if cases > MAX_DEPTH:
            _too_deep(token, f"CASE is nested more than {MAX_DEPTH} deep", "too deep")
        chain = chain + 1 if kind in _PREFIX else 0
        if chain > MAX_CHAIN:
            _too_deep(token, f"more than {MAX_CHAIN} operators stand in a row", "one too many")
        if kind in _OPENING:
            stack.append((token, before, False))
            if len(stack) > MAX_DEPTH:
                _too_deep(token, f"brackets are nested more than {MAX_DEPTH} deep", "too deep")
        elif kind in _CLOSING:
            if not stack or _OPENING[stack[-1][0].token_type] != _CLOSING[kind]:
                _unopened(source, token)
            stack.pop()
        elif stack and before is stack[-1][0] and kind in QUERIES:
            stack[-1] = (*stack[-1][:2], True)
        elif stack and kind in _CLAUSES and not _may_hold_clause(stack[-1]):
            if before is not None and before.token_type is TokenType.DISTINCT:
                continue  # IS DISTINCT FROM
            _unclosed(source, stack[-1], token)
    if stack:
        _unclosed(source, stack[-1], None)


def _may_hold_clause(opened: tuple[Token, Token | None, bool]) -> bool:
    """Whether a clause may stand directly inside this bracket: a subquery, FILTER, EXTRACT."""
    bracket, before, subquery = opened
    if subquery or bracket.token_type is not TokenType.L_PAREN:
        return True
    return before is not None and (
        before.token_type is TokenType.FILTER or before.text.upper() in _WITH_FROM
    )


def _too_deep(token: Token, title: str, label: str) -> NoReturn:
    raise SyntaxRefused(
        Diagnostic(
            "DPQ105",
            title,
            span_of(token),
            label,
            ("texts of this shape are refused before they are parsed.",),
            ("write the query with less nesting",),
        )
    )


def _unopened(source: Source, token: Token) -> NoReturn:
    raise SyntaxRefused(
        Diagnostic(
            "DPQ101",
            f"the bracket {token.text} closes nothing",
            span_of(token),
            "no such bracket is open here",
            ("the text is not a complete query.",),
            (mended(source, span_of(token), "", "remove it, or open it where it belongs"),),
        )
    )


def _unclosed(
    source: Source, opened: tuple[Token, Token | None, bool], found: Token | None
) -> NoReturn:
    bracket, before, _ = opened
    closer = _OPENING[bracket.token_type]
    named = before is not None and before.token_type in {TokenType.VAR, TokenType.IDENTIFIER}
    after = f" opened after {before.text}" if named and before is not None else ""
    what = "parenthesis" if closer == ")" else "bracket"
    end = len(source.text.rstrip()) if found is None else found.start
    end = len(source.text[:end].rstrip())
    raise SyntaxRefused(
        Diagnostic(
            "DPQ101",
            f"the {what}{after} is not closed",
            span_of(bracket if found is None else found),
            "opened here" if found is None else f"a {closer} is missing before this word",
            ("the text is not a complete query.",),
            (mended(source, Span(end, end), closer, f"put a {closer} where it belongs"),),
        )
    )
