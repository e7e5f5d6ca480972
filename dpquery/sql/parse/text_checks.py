"""The first look at a text: its size, its brackets, its leading word. Nothing is parsed yet.

The parser recurses, so what would exhaust it is refused here, from a flat list of tokens. So is
what it reads differently from the engine, or loses, so that no node is left to point at. Every
check depends on the text alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NoReturn

from sqlglot import Token, TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from dpquery.core.source_text import Source, Span
from dpquery.errors import QueryRefused, advice, nearest, refusal
from dpquery.sql.parse.spans import (
    example,
    incomplete,
    kinds,
    mended,
    no_number,
    outside,
    span_of,
    too_large,
)

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SET_EPSILON = re.compile(r"SET\s+(eps|epsilon|delta)\s*(?:=|TO\b)\s*([\d.]\S*)", re.I | re.A)
QUERIES = kinds("SELECT WITH FROM VALUES DELETE INSERT UPDATE SHOW PIVOT")
"""What begins a query, or a statement that sqlglot would take inside one."""

_NAMES = kinds("VAR IDENTIFIER")
_ENDS_A_VALUE = _NAMES | kinds("STRING R_PAREN R_BRACKET")
_BEFORE_A_POINT = _ENDS_A_VALUE | kinds("NUMBER DOT")
_BEFORE_A_LIST = kinds("L_PAREN L_BRACKET L_BRACE SELECT")
_BEFORE_A_VALUE = _BEFORE_A_LIST | kinds(
    "AND BETWEEN COLON_EQ COMMA DASH EQ FARROW GT GTE LT LTE NEQ NOT OR PLUS WHERE"
)
_AFTER_A_LIST = kinds(
    "COMMA R_PAREN R_BRACKET R_BRACE FROM WHERE GROUP_BY HAVING ORDER_BY LIMIT OFFSET"
)
_ENDS_A_LIST = _AFTER_A_LIST - kinds("COMMA R_BRACKET R_BRACE")
_LISTED = kinds("SELECT GROUP_BY")
"""Clauses whose list may end in a comma."""


def _with_leading_points(tokens: Sequence[Token]) -> list[Token]:
    """Return words in which `.5` is one, a number, where no value ends before the point."""
    found: list[Token] = []
    for token in tokens:
        before, point = [None, None, *found[-2:]][-2:]
        if (
            token.token_type is TokenType.NUMBER
            and point is not None
            and point.token_type is TokenType.DOT
            and point.end + 1 == token.start
            and (before is None or before.token_type not in _BEFORE_A_POINT)
        ):
            text, comments = f".{token.text}", [*point.comments, *token.comments]
            position = (point.line, token.col, point.start, token.end)
            found[-1] = Token(TokenType.NUMBER, text, *position, comments)
        else:
            found.append(token)
    return found


def _without_last_commas(tokens: Sequence[Token]) -> list[Token]:
    """Return words without the comma that may end a SELECT list, or what GROUP BY groups by."""
    found, clauses = list[Token](), [TokenType.SEMICOLON]
    before: TokenType | None = None
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        kind = token.token_type
        if kind in _OPENING:
            clauses.append(kind)
        elif kind in _CLOSING:
            clauses.pop()
        elif kind in _LISTED | _ENDS_A_LIST:
            clauses[-1] = kind
        ends = following is None or following.token_type in _ENDS_A_LIST
        one = before not in _LISTED | {TokenType.COMMA, TokenType.ALL}
        if not (kind is TokenType.COMMA and clauses[-1] in _LISTED and one and ends):
            found.append(token)
        before = kind
    return found


class _Words:
    """The words of one text, by number; past the ends there is None."""

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tokens

    def kind(self, number: int) -> TokenType | None:
        inside = 0 <= number < len(self.tokens)
        return self.tokens[number].token_type if inside else None

    def number(self, at: int) -> None:
        span = span_of(self.tokens[at])
        for after in self.tokens[at + 1 : at + 2]:
            if after.start == span.end and after.text[:1].isidentifier():
                span |= span_of(after)
        text = self.source.snippet(span)
        if not _NUMBER.fullmatch(text):
            raise no_number(text, span, "write digits, at most one point")

    def dot(self, at: int) -> None:
        """A point before digits, after a value or apart: the parser would read on."""
        if self.kind(at - 1) not in _NAMES and self.kind(at + 1) is TokenType.NUMBER:
            span = span_of(self.tokens[at], self.tokens[at + 1])
            raise no_number(self.source.snippet(span), span, "no number stands here")

    def comma(self, at: int) -> None:
        leading = at == 0 or self.kind(at - 1) in _BEFORE_A_LIST
        trailing = at + 1 == len(self.tokens) or self.kind(at + 1) in _AFTER_A_LIST
        if self.kind(at - 2) is TokenType.LIMIT:
            self._limit_with_comma(at)
        if leading or trailing:
            side, span = "before" if leading else "after", span_of(self.tokens[at])
            remedy = mended(self.source, span, "", "remove the comma")
            raise incomplete(f"nothing stands {side} this comma", span, "one too many", remedy)

    def _limit_with_comma(self, at: int) -> NoReturn:
        """Refuse `LIMIT 5, 10`, which skips five rows elsewhere."""
        remedy = example(self.source, self.tokens)
        if self.kind(at + 1) is TokenType.NUMBER:
            skipped, most = self.tokens[at - 1], self.tokens[at + 1]
            rows = f"{most.text} OFFSET {skipped.text}"
            remedy = mended(self.source, span_of(skipped, most), rows, f"LIMIT {rows}")
        raise outside("LIMIT with a comma", span_of(self.tokens[at]), "not understood", remedy)

    def in_list(self, at: int) -> None:
        """IN takes a list of values in parentheses, with something in it, or UNNEST of one."""
        if self.kind(at + 1) is TokenType.UNNEST and self.kind(at + 2) is TokenType.L_PAREN:
            return
        if self.kind(at + 1) is not TokenType.L_PAREN:
            span = span_of(self.tokens[at])
            title = "IN takes a list of values in parentheses"
            raise incomplete(title, span, "no list", "IN (1, 2, 3)")
        if self.kind(at + 2) is TokenType.R_PAREN:
            span = span_of(self.tokens[at + 1], self.tokens[at + 2])
            raise incomplete("the list after IN is empty", span, "no value", "IN (1, 2, 3)")

    def misplaced(self, at: int) -> None:
        """What the parser has no node for, or takes long with, after some words."""
        what, before = _MISPLACED[self.tokens[at].token_type]
        if self.kind(at - 1) in before:
            raise self._outside(what, span_of(self.tokens[at]))

    def colon(self, at: int) -> None:
        """A colon outside of a slice: the parser has no node for it."""
        low = at - 1 - (self.kind(at - 1) is TokenType.NUMBER)
        low -= self.kind(low) is TokenType.DASH
        if self.kind(low) is not TokenType.L_BRACKET or self.kind(low - 1) not in _ENDS_A_VALUE:
            raise self._outside("a colon", span_of(self.tokens[at]))

    def bracket(self, at: int) -> None:
        """An index after the name of a call, which was meant to have parentheses."""
        if at and self.tokens[at - 1].text.upper().startswith("DP_"):
            raise self._outside("an index in brackets", span_of(self.tokens[at]))

    def group(self, at: int) -> None:
        """GROUP BY with nothing after it, or with ALL and more: the parser reads on."""
        span, first = span_of(self.tokens[at]), self.kind(at + 1)
        if first is None or first in _AFTER_A_LIST:
            remedy = mended(self.source, span, "GROUP BY ALL", "GROUP BY ALL")
            raise incomplete("GROUP BY does not say by what", span, "by what?", remedy)
        if first is TokenType.ALL and self.kind(at + 2) is TokenType.COMMA:
            raise self._outside("ALL beside a column", span_of(self.tokens[at + 1]))

    def _outside(self, word: str, span: Span) -> QueryRefused:
        return outside(word, span, "not understood", example(self.source, self.tokens))


_ANYTHING = frozenset({None, *TokenType})
_MISPLACED: dict[TokenType, tuple[str, frozenset[TokenType | None]]] = {
    TokenType.PLUS: ("a plus before a value", frozenset(_BEFORE_A_VALUE)),
    TokenType.DISTINCT: ("DISTINCT", _ANYTHING - kinds("IS NOT L_PAREN SELECT")),
}
"""Words that are refused after others, with what they are called."""
_CHECKS: dict[TokenType, Callable[[_Words, int], None]] = {
    TokenType.NUMBER: _Words.number,
    TokenType.COMMA: _Words.comma,
    TokenType.DOT: _Words.dot,
    TokenType.IN: _Words.in_list,
    TokenType.GROUP_BY: _Words.group,
    TokenType.COLON: _Words.colon,
    TokenType.L_BRACKET: _Words.bracket,
    **dict.fromkeys(_MISPLACED, _Words.misplaced),
}


MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_CHAIN = 32
"""Prefix operators in a row: `NOT NOT ...` recurses as brackets do."""
MAX_TOKENS = 20_000

_OPENING = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSING = {TokenType.R_PAREN: ")", TokenType.R_BRACKET: "]", TokenType.R_BRACE: "}"}
_PREFIX = kinds("NOT DASH PLUS TILDE CASE")
_CLAUSES = kinds("FROM WHERE GROUP_BY HAVING LIMIT SEMICOLON")
_VERBS = kinds("SELECT FROM WITH L_PAREN PIVOT")
_FIRST_WORDS = ("SELECT", "WITH", "FROM", "EXPLAIN", "SHOW", "DESCRIBE", "REFRESH")
_WITH_FROM = {"EXTRACT", "TRIM", "SUBSTRING", "OVERLAY"}
_QUOTED = re.compile(
    r"""'[^']*'|"[^"]*"|--[^\n]*\n|/\*.*?\*/|\$\$.*?\$\$|('|"|--|/\*|\$\$)""", re.DOTALL
)
"""A quote or comment as a whole; or what opens one that swallows the end of the text."""


def read_statement(source: Source) -> list[Token]:
    """Return the tokens of the one query in a text, without the semicolon at its end.

    Raises:
        SyntaxRefused: DPQ101 brackets or quotes are open, DPQ102 outside the language, DPQ103
            several statements, DPQ104 none, DPQ105 too large or too deep, DPQ106 no query.
        NameRefused: DPQ210 a number is not written in digits.
    """
    check_text(source)
    tokens = _tokens(source)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        why = "the text holds no statement."
        raise refusal("DPQ104", "there is nothing to run", None, "", why, "SHOW TABLES")
    _check_single(source, tokens)
    _check_verb(source, tokens)
    _check_nesting(source, tokens)
    tokens = _without_last_commas(tokens)
    words = _Words(source, tokens)
    for number, token in enumerate(tokens):
        check = _CHECKS.get(token.token_type)
        if check is not None:
            check(words, number)
    return tokens


def check_text(source: Source) -> None:
    """Refuse a text that is too long, or holds characters that do not print."""
    text = source.text
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        title = f"the query is longer than {MAX_BYTES // 1024} kB"
        span = Span(min(len(text), MAX_BYTES) - 1, len(text))
        why = "texts of this size are refused before they are parsed."
        raise too_large(title, span, "from here on", why, advice("ask in smaller queries"))
    for offset, char in enumerate(text):
        if char not in "\t\n\r" and unicodedata.category(char) in {"Cc", "Cs"}:
            title = f"the query holds the control character U+{ord(char):04X}"
            span, label = Span(offset, offset + 1), "not allowed in a query"
            why = "control characters can hide what a query says."
            raise too_large(title, span, label, why, advice("remove the character"))


def _tokens(source: Source) -> list[Token]:
    try:
        tokens: list[Token] = DuckDB().tokenize(source.text)
    except TokenError:
        opened = _QUOTED.finditer(source.text)
        raise incomplete(
            "a quote or comment is not closed",
            next((Span(*one.span(1)) for one in opened if one[1]), Span(0, len(source.text))),
            "opened here",
            advice("close it: a text ends in ', a name in \", a comment in */"),
        ) from None
    if len(tokens) > MAX_TOKENS:
        span = span_of(tokens[MAX_TOKENS])
        raise too_large(f"the query has more than {MAX_TOKENS} words", span, "from here on")
    return _with_leading_points(tokens)


def _check_single(source: Source, tokens: list[Token]) -> None:
    for token, following in pairwise(tokens):
        if token.token_type is TokenType.SEMICOLON:
            rest = Span(token.start, len(source.text))
            first = mended(source, rest, "", "send the first alone")
            title = "there is more than one statement"
            label = "a second statement starts here"
            why = "each statement is charged and answered on its own."
            remedy = (first, "or each on its own; on the command line, -c may be repeated")
            raise refusal("DPQ103", title, span_of(following), label, why, remedy)


def _check_verb(source: Source, tokens: list[Token]) -> None:
    verb = tokens[0]
    if verb.token_type in _VERBS:
        return
    span, meant = span_of(verb), None
    if verb.token_type is TokenType.VAR:  # no word of SQL, so one that was mistyped
        meant = nearest(verb.text, _FIRST_WORDS)
    text = source.text
    query = f"{text[: span.start]}{meant}{text[span.end :]}".strip()
    title = f"{verb.text[:40].upper()} is not a statement here"
    label = "only SELECT is answered" if meant is None else f"did you mean {meant}?"
    why = "queries read; they change no data, settings or files."
    remedy = query if meant else example(source, tokens)
    setting = _SET_EPSILON.match(text, span.start)
    if setting is not None:
        remedy = f"SET dp.{setting[1]} = {setting[2]}"
    raise refusal("DPQ106", title, span, label, why, remedy)


def _check_nesting(source: Source, tokens: list[Token]) -> None:
    """Match brackets, and refuse what would make the parser recurse too far."""
    stack: list[tuple[Token, Token | None, bool]] = []
    chain = cases = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        kind = token.token_type
        cases = max(0, cases + (kind is TokenType.CASE) - (kind is TokenType.END))
        if cases > MAX_DEPTH:
            raise _too_deep("CASE is", token)
        chain = chain + 1 if kind in _PREFIX else 0
        if chain > MAX_CHAIN:
            title = f"more than {MAX_CHAIN} operators stand in a row"
            raise too_large(title, span_of(token))
        if kind in _OPENING:
            stack.append((token, before, False))
            if len(stack) > MAX_DEPTH:
                raise _too_deep("brackets are", token)
        elif kind in _CLOSING:
            if not stack or _OPENING[stack[-1][0].token_type] != _CLOSING[kind]:
                remedy = mended(
                    source, span_of(token), "", "remove it, or open it where it belongs"
                )
                title = f"the bracket {token.text} closes nothing"
                raise incomplete(title, span_of(token), "no such bracket is open here", remedy)
            stack.pop()
        elif stack and before is stack[-1][0] and kind in QUERIES:
            stack[-1] = (*stack[-1][:2], True)
        elif stack and kind in _CLAUSES and not _may_hold_clause(stack[-1]):
            if before is not None and before.token_type is TokenType.DISTINCT:
                continue  # IS DISTINCT FROM
            raise _unclosed(source, stack[-1], token)
    if stack:
        raise _unclosed(source, stack[-1], None)


def _may_hold_clause(opened: tuple[Token, Token | None, bool]) -> bool:
    """Whether a clause may stand directly inside this bracket: a subquery, FILTER, EXTRACT."""
    bracket, before, subquery = opened
    if subquery or bracket.token_type is not TokenType.L_PAREN:
        return True
    return before is not None and (
        before.token_type in {TokenType.FILTER, TokenType.PIVOT}
        or before.text.upper() in _WITH_FROM
    )


def _too_deep(what: str, token: Token) -> QueryRefused:
    return too_large(f"{what} nested more than {MAX_DEPTH} deep", span_of(token), "too deep")


def _unclosed(
    source: Source, opened: tuple[Token, Token | None, bool], found: Token | None
) -> QueryRefused:
    bracket, before, _ = opened
    closer = _OPENING[bracket.token_type]
    named = before is not None and before.token_type in {TokenType.VAR, TokenType.IDENTIFIER}
    after = f" opened after {before.text}" if named and before is not None else ""
    what = "parenthesis" if closer == ")" else "bracket"
    end = len(source.text.rstrip()) if found is None else found.start
    end = len(source.text[:end].rstrip())
    return incomplete(
        f"the {what}{after} is not closed",
        span_of(bracket if found is None else found),
        "opened here" if found is None else f"a {closer} is missing before this word",
        mended(source, Span(end, end), closer, f"put a {closer} where it belongs"),
    )
