"""Parts of a query that are written as text: each is parsed on its own before it is used.

A part that is one whole expression stays one inside a query, where brackets go around it. What
would change the query's shape, as `1=1) OR (1=1` would, or `x GROUP BY y`, is no such part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.duckdb import DuckDB

from dpquery.errors import Diagnostic, QueryRefused, SyntaxRefused
from dpquery.source import Source, Span
from dpquery.sql.parse import parse
from dpquery.sql.values import misfit

__all__ = ["Fragment", "Place", "Written", "joined", "read_fragment"]


_OTHERS = {"SHOW TABLES", "SELECT 1 FROM t", "SELECT DP_COUNT(*, eps=0.5) AS n FROM t"}
"""Examples that parse gives of whole queries."""


class Place(Enum):
    """Where a part stands, as the query around it in which it is tried; and its slot there."""

    VALUE = ("SELECT ", "expressions")
    CONDITION = ("SELECT 1 FROM t WHERE ", "where")
    KEY = ("SELECT 1 FROM t ORDER BY ", "order")


@dataclass(frozen=True, slots=True)
class Fragment:
    """One expression as the analyst wrote it, without blanks and comments around it."""

    source: Source
    span: Span
    closed: bool
    """Whether it needs no brackets: a name, a star, or a call."""

    @property
    def text(self) -> str:
        """What goes into the query."""
        return self.source.snippet(self.span)


@dataclass(frozen=True, slots=True)
class Written:
    """A text made of words of ours and of fragments, and the way back to those."""

    parts: tuple[str | Fragment, ...]

    def __add__(self, other: Written) -> Written:
        return Written(self.parts + other.parts)

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(p if isinstance(p, str) else p.text for p in self.parts)

    def pointed(self, refusal: QueryRefused) -> QueryRefused:
        """Have a refusal of the whole text point into the fragment that it is about."""
        span, start = refusal.span, 0
        for part in self.parts if span is not None else ():
            text = part if isinstance(part, str) else part.text
            place = Span(start, start + len(text))
            start = place.end
            if not isinstance(part, str) and span is not None and _covers(place, span):
                moved = max(span.start, place.start), min(span.end, place.end)
                by = part.span.start - place.start
                refusal.diagnostic = replace(
                    refusal.diagnostic,
                    span=Span(moved[0] + by, moved[1] + by),
                    remedy=self._remedies(refusal.diagnostic, place),
                )
                refusal.source = part.source
        return refusal

    def _remedies(self, diagnostic: Diagnostic, place: Span) -> tuple[str, ...]:
        """Cut a mended query down to the fragment in it."""
        before, after = self.text[: place.start], self.text[place.end :]
        return tuple(
            line[len(before) : len(line) - len(after)]
            if line.startswith(before)
            and line.endswith(after)
            and len(line) > len(before + after)
            else line
            for line in diagnostic.remedy
        )


def joined(between: str, parts: Sequence[Written]) -> Written:
    """Give parts with a text between each two of them."""
    whole = Written(())
    for number, part in enumerate(parts):
        whole += Written((between,)) + part if number else part
    return whole


def _covers(place: Span, span: Span) -> bool:
    """Say whether a span lies in a place, or also takes in the brackets around it."""
    return place.start - 1 <= span.start and span.end <= place.end + 1


def read_fragment(text: object, place: Place, taker: str) -> Fragment:
    """Read a text that has to be one expression, or one key of ORDER BY.

    Raises:
        QueryRefused: what parse refuses; DPQ101 it is more than that; DPQ805 it is no text.
    """
    if not isinstance(text, str):
        title = f"{taker} takes an expression as a text, not {type(text).__name__}"
        raise misfit(title, f'{taker}("age > 30")', why="an expression is written as in SQL.")
    source = Source(text, taker)
    before, slot = place.value
    whole = Fragment(source, Span(0, len(text)), closed=False)
    written = Written((before, whole))
    try:
        tree = parse(Source(written.text)).query
    except QueryRefused as refused:
        raise _of_fragment(refused, written, source, taker) from None
    tokens = list(DuckDB().tokenize(text))
    if not _is_one(tree, slot) or tokens[-1].token_type is TokenType.SEMICOLON:
        raise _several(source, taker)
    span = Span(tokens[0].start, tokens[-1].end + 1)
    return Fragment(source, span, _is_closed(tokens))


def _of_fragment(
    refused: QueryRefused, written: Written, source: Source, taker: str
) -> QueryRefused:
    """Have a refusal speak of the fragment alone, and not of the query around it."""
    refused.source, refused.budget = None, "unchanged"
    written.pointed(refused)
    if refused.span is not None and refused.source is None:
        return _several(source, taker)
    remedy = tuple(
        f'{taker}("age > 30")' if line in _OTHERS else line
        for line in refused.diagnostic.remedy
    )
    refused.diagnostic = replace(refused.diagnostic, remedy=remedy)
    return refused


def _is_one(tree: exp.Query, slot: str) -> bool:
    """Say whether a tried query holds the fragment in its slot and nowhere else."""
    filled = {name for name, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or filled - {"expressions", "from_", slot}:
        return False
    if slot == "expressions":
        items = tree.expressions
        return "from_" not in filled and len(items) == 1 and not isinstance(items[0], exp.Alias)
    return slot != "order" or len(tree.args["order"].expressions) == 1


def _is_closed(tokens: Sequence[Token]) -> bool:
    """Say whether words are a name, a star, or a name and one pair of brackets to the end."""
    kinds = [token.token_type for token in tokens]
    names = {TokenType.VAR, TokenType.IDENTIFIER}
    if kinds == [TokenType.STAR] or (
        set(kinds[::2]) <= names and set(kinds[1::2]) <= {TokenType.DOT}
    ):
        return True
    depth = 0
    for number, kind in enumerate(kinds[1:], 2):
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth == 0:
            return kinds[0] is TokenType.VAR and number == len(kinds) > 2
    return False


def _several(source: Source, taker: str) -> SyntaxRefused:
    return SyntaxRefused(
        Diagnostic(
            "DPQ101",
            f"{taker} takes one expression",
            Span(0, len(source.text)),
            "more than one expression, or another thing",
            ("a part of a query cannot add other parts to it.",),
            ("give each expression on its own, and each clause by its method",),
        ),
        source,
        "unchanged",
    )
