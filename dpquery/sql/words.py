"""What is refused by looking at single words, before the parser runs.

The parser reads some of these differently from the engine or in silence, and others it loses,
so that no node would be left to point at. Each check depends on the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NoReturn

from sqlglot import Token, TokenType

from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused
from dpquery.source import Source, Span
from dpquery.sql.mending import example, mended, outside, span_of

__all__ = ["QUERIES", "check_words"]

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
QUERIES = {
    TokenType.SELECT,
    TokenType.WITH,
    TokenType.FROM,
    TokenType.VALUES,
    TokenType.DELETE,
    TokenType.INSERT,
    TokenType.UPDATE,
    TokenType.SHOW,
}
"""What begins a query, or a statement that sqlglot would take inside one."""

_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}
_ENDS_A_VALUE = {*_NAMES, TokenType.STRING, TokenType.R_PAREN, TokenType.R_BRACKET}
_BEFORE_A_POINT = {*_ENDS_A_VALUE, TokenType.NUMBER, TokenType.DOT}
_BEFORE_A_LIST = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.SELECT}
_BEFORE_A_VALUE = {
    *_BEFORE_A_LIST,
    TokenType.AND,
    TokenType.BETWEEN,
    TokenType.COLON_EQ,
    TokenType.COMMA,
    TokenType.DASH,
    TokenType.EQ,
    TokenType.FARROW,
    TokenType.GT,
    TokenType.GTE,
    TokenType.LT,
    TokenType.LTE,
    TokenType.NEQ,
    TokenType.NOT,
    TokenType.OR,
    TokenType.PLUS,
    TokenType.WHERE,
}
_AFTER_A_LIST = {
    TokenType.COMMA,
    TokenType.R_PAREN,
    TokenType.R_BRACKET,
    TokenType.R_BRACE,
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.OFFSET,
}


def check_words(source: Source, tokens: Sequence[Token]) -> None:
    """Look at each word with its neighbours, from left to right.

    Raises:
        SyntaxRefused: DPQ101 a comma too many or an empty list, DPQ102 outside the language.
        NameRefused: DPQ210 a number that is not written in digits.
    """
    text = _Words(source, tokens)
    for number, token in enumerate(tokens):
        check = _CHECKS.get(token.token_type)
        if check is not None:
            check(text, number)


def with_leading_points(tokens: Sequence[Token]) -> list[Token]:
    """Return words in which `.5` is one, a number, where no value ends before the point."""
    found: list[Token] = []
    for token in tokens:
        point = found[-1] if found else None
        if (
            token.token_type is TokenType.NUMBER
            and point is not None
            and point.token_type is TokenType.DOT
            and point.end + 1 == token.start
            and not (len(found) > 1 and found[-2].token_type in _BEFORE_A_POINT)
        ):
            found[-1] = Token(
                TokenType.NUMBER,
                f".{token.text}",
                point.line,
                token.col,
                point.start,
                token.end,
                [*point.comments, *token.comments],
            )
        else:
            found.append(token)
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
        token, following = self.tokens[at], self.tokens[at + 1 : at + 2]
        span = span_of(token)
        if following and following[0].start == span.end and _is_word(following[0]):
            span |= span_of(following[0])
        text = self.source.snippet(span)
        if not _NUMBER.fullmatch(text):
            raise NameRefused(
                Diagnostic(
                    "DPQ210",
                    f"{text[:40]!r} is not a number here",
                    span,
                    "write digits, at most one point",
                    ("values are read exactly from the text, never guessed.",),
                    ("write the value in full, as 12.5 or 1e6",),
                )
            )

    def dot(self, at: int) -> None:
        """A point before digits, after a value or apart: the parser would read on."""
        if self.kind(at - 1) not in _NAMES and self.kind(at + 1) is TokenType.NUMBER:
            span = span_of(self.tokens[at], self.tokens[at + 1])
            text = self.source.snippet(span)
            raise NameRefused(
                Diagnostic(
                    "DPQ210",
                    f"{text[:40]!r} is not a number here",
                    span,
                    "no number stands here",
                    ("values are read exactly from the text, never guessed.",),
                    ("write the value in full, as 12.5 or 1e6",),
                )
            )

    def comma(self, at: int) -> None:
        leading = at == 0 or self.kind(at - 1) in _BEFORE_A_LIST
        trailing = at + 1 == len(self.tokens) or self.kind(at + 1) in _AFTER_A_LIST
        if self.kind(at - 2) is TokenType.LIMIT:
            self._limit_with_comma(at)
        if leading or trailing:
            side, span = "before" if leading else "after", span_of(self.tokens[at])
            remedy = mended(self.source, span, "", "remove the comma")
            self._incomplete(f"nothing stands {side} this comma", span, "one too many", remedy)

    def _limit_with_comma(self, at: int) -> NoReturn:
        """Refuse `LIMIT 5, 10`, which skips five rows elsewhere."""
        rest = self.tokens[at + 1 : at + 2]
        remedy = example(self.source, self.tokens)
        if rest and rest[0].token_type is TokenType.NUMBER:
            rows = f"{rest[0].text} OFFSET {self.tokens[at - 1].text}"
            span = span_of(self.tokens[at - 1], rest[0])
            remedy = mended(self.source, span, rows, f"LIMIT {rows}")
        what = outside("LIMIT with a comma", span_of(self.tokens[at]), "not understood", remedy)
        raise SyntaxRefused(what)

    def plus(self, at: int) -> None:
        """A plus before a value: the parser has no node for it."""
        if self.kind(at - 1) in _BEFORE_A_VALUE:
            self._outside("a plus before a value", span_of(self.tokens[at]))

    def in_list(self, at: int) -> None:
        """IN takes a list of values in parentheses, with something in it."""
        if self.kind(at + 1) is not TokenType.L_PAREN:
            span = span_of(self.tokens[at])
            self._incomplete(
                "IN takes a list of values in parentheses", span, "no list", "IN (1, 2, 3)"
            )
        if self.kind(at + 2) is TokenType.R_PAREN:
            span = span_of(self.tokens[at + 1], self.tokens[at + 2])
            self._incomplete("the list after IN is empty", span, "no value", "IN (1, 2, 3)")

    def index(self, at: int) -> None:
        """A bracket after a value: many of them in a row would take the parser long."""
        if self.kind(at - 1) in _ENDS_A_VALUE:
            self._outside("an index in brackets", span_of(self.tokens[at]))

    def distinct(self, at: int) -> None:
        before = {TokenType.IS, TokenType.NOT, TokenType.L_PAREN, TokenType.SELECT}
        if self.kind(at - 1) not in before:
            self._outside("DISTINCT", span_of(self.tokens[at]))

    def group(self, at: int) -> None:
        """GROUP BY with nothing after it, or with ALL and more: the parser reads on."""
        span, first = span_of(self.tokens[at]), self.kind(at + 1)
        if first is None or first in _AFTER_A_LIST:
            remedy = mended(self.source, span, "GROUP BY ALL", "GROUP BY ALL")
            self._incomplete("GROUP BY does not say by what", span, "by what?", remedy)
        if first is TokenType.ALL and self.kind(at + 2) is TokenType.COMMA:
            self._outside("ALL beside a column", span_of(self.tokens[at + 1]))

    def colon(self, at: int) -> None:
        self._outside("a colon", span_of(self.tokens[at]))

    def _outside(self, word: str, span: Span) -> NoReturn:
        raise SyntaxRefused(
            outside(word, span, "not understood", example(self.source, self.tokens))
        )

    def _incomplete(self, title: str, span: Span, label: str, remedy: str) -> NoReturn:
        raise SyntaxRefused(
            Diagnostic(
                "DPQ101", title, span, label, ("the text is not a complete query.",), (remedy,)
            )
        )


def _is_word(token: Token) -> bool:
    return token.text[:1].isidentifier()


_CHECKS: dict[TokenType, Callable[[_Words, int], None]] = {
    TokenType.NUMBER: _Words.number,
    TokenType.COMMA: _Words.comma,
    TokenType.DOT: _Words.dot,
    TokenType.PLUS: _Words.plus,
    TokenType.IN: _Words.in_list,
    TokenType.L_BRACKET: _Words.index,
    TokenType.DISTINCT: _Words.distinct,
    TokenType.GROUP_BY: _Words.group,
    TokenType.COLON: _Words.colon,
}
