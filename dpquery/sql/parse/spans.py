"""The way back from sqlglot's nodes to the text: a span for each, with whole brackets.

sqlglot notes positions on names and literals only. A node's span is the union of its leaves,
widened until every bracket in it is closed; a call begins at its name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_

from sqlglot import Token, TokenType
from sqlglot import expressions as exp

from dpquery.core.source_text import Source, Span, width
from dpquery.errors import QueryRefused, advice, refusal

_WIDEST = 88
"""Longer queries are not repeated: the change would be lost in them."""


def kinds(words: str) -> frozenset[TokenType]:
    """Return kinds of tokens by their names."""
    return frozenset(TokenType[word] for word in words.split())


_NAMES = kinds("VAR IDENTIFIER STRING")
_OPENING = kinds("L_PAREN L_BRACKET L_BRACE")
_CLOSING = kinds("R_PAREN R_BRACKET R_BRACE")
_TYPES = kinds("DATE TIME TIMETZ TIMESTAMP TIMESTAMPTZ UUID")
_CLAUSES = kinds("SELECT FROM WHERE GROUP_BY HAVING ORDER_BY LIMIT OFFSET")
_AFTER_GROUPS = kinds(
    "HAVING QUALIFY WINDOW ORDER_BY LIMIT OFFSET UNION INTERSECT EXCEPT SEMICOLON"
)
_OTHER_NAMES: dict[type[exp.Expr], str] = {
    exp.GroupConcat: "STRING_AGG",
    exp.PercentileCont: "QUANTILE_CONT",
    exp.PercentileDisc: "QUANTILE_DISC",
}
"""Names of functions that the parser reads, and its nodes do not know."""


# What refusals of a text say, with mended queries made from it. Nothing here decides whether
# anything is accepted.


def span_of(first: Token, last: Token | None = None) -> Span:
    """Return the stretch from one token to another."""
    return Span(first.start, (last or first).end + 1)


def mended(source: Source, span: Span, text: str, otherwise: str) -> str:
    """Return the query with a stretch replaced, if that is one short line.

    >>> mended(Source("SELECT a == 1"), Span(9, 11), "=", "use =")
    'SELECT a = 1'
    """
    before, after = source.text[: span.start], source.text[span.end :]
    if not text and before.endswith(" "):
        after = after.lstrip()
    return shown((before + text + after).strip(), otherwise)


def shown(query: str, otherwise: str) -> str:
    """Return a query if it is one short line, and else what tells enough of it."""
    return query if width(query) <= _WIDEST and "\n" not in query else otherwise


def example(source: Source, tokens: Sequence[Token]) -> str:
    """Return a statement that is accepted: over the table that this one names, if it does."""
    for token, following in pairwise(tokens):
        if token.token_type is TokenType.FROM and following.token_type in _NAMES:
            table = source.snippet(span_of(following))
            return f"SELECT DP_COUNT(*, eps=0.5) AS n FROM {table}"
    return "SHOW TABLES"


def outside(word: str, span: Span, label: str, remedy: str) -> QueryRefused:
    """Return the refusal of a construct that is no part of the language."""
    why = "only what keeps the promise is accepted; `dpquery explain grammar` lists it."
    title = f"{word} is not part of the language here"
    return refusal("DPQ102", title, span, label, why, remedy)


def incomplete(title: str, span: Span, label: str, *remedy: str) -> QueryRefused:
    """Return the refusal of a text that is not a complete query."""
    return refusal(
        "DPQ101", title, span, label, "the text cannot be read as one query.", remedy
    )


def no_number(text: str, span: Span, label: str) -> QueryRefused:
    """Return the refusal of a number that is not written as one."""
    title = f"{text[:40]!r} is not a number here"
    return unreadable(title, span, label, advice("write the value in full, as 12.5 or 1e6"))


def unreadable(title: str, span: Span, label: str, remedy: str) -> QueryRefused:
    """Return the refusal of a literal that has no meaning, or more than one."""
    why = "values are read exactly from the text, never guessed."
    return refusal("DPQ210", title, span, label, why, remedy)


def too_large(
    title: str,
    span: Span,
    label: str = "one too many",
    why: str = "texts of this shape are refused before they are parsed.",
    remedy: str | tuple[str, ...] = advice("write the query with less nesting"),
) -> QueryRefused:
    """Return the refusal of what would take the parser, or the engine, too long."""
    return refusal("DPQ105", title, span, label, why, remedy)


def repeated(span: Span, levels: str) -> QueryRefused:
    """Return the refusal of an expression whose parts stand in the engine's text too often."""
    title = "this expression grows too large"
    label = "written out in full, its parts repeat too often"
    why = "expressions that repeat their parts double with each level."
    return too_large(title, span, label, why, advice(f"compute with fewer levels of {levels}"))


@dataclass(slots=True)
class _Bracket:
    """A pair of brackets by the numbers of their tokens, inside another pair or none."""

    opened: int
    closed: int
    outer: int | None


class Spans:
    """Finds the stretch of text behind a node."""

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self._starts = [token.start for token in tokens]
        self._brackets: list[_Bracket] = []
        self._inside = self._match()
        self._opened = {bracket.opened: i for i, bracket in enumerate(self._brackets)}
        self._known: dict[int, tuple[Span | None, exp.Expr]] = {}
        """The spans that nodes have of their own, with the nodes, so that their ids stay."""
        self._reached: dict[int, tuple[Span | None, exp.Expr]] = {}
        """From the first leaf of a node to its last."""

    def of(self, node: exp.Expr) -> Span:
        """Return the span of a node; for one without a position, that of its parent."""
        found = self._own(node)
        while found is None and node.parent is not None:
            node = node.parent
            found = self._own(node)
        return found or span_of(self.tokens[0], self.tokens[-1])

    def text(self, node: exp.Expr) -> str:
        """Return the text behind a node, as it was typed."""
        return self.source.snippet(self.of(node))

    def clause(self, word: TokenType) -> Span | None:
        """Give the span of a clause of the query: its word, and all before the next clause."""
        outer = (i for i in range(len(self.tokens)) if self._inside[i] is None)
        starts = [i for i in outer if self.tokens[i].token_type in _CLAUSES]
        for start, end in pairwise([*starts, len(self.tokens)]):
            if self.tokens[start].token_type is word:
                return span_of(self.tokens[start], self.tokens[end - 1])
        return None

    def grouping(self, select: exp.Select) -> Span:
        """Return what stands after GROUP BY in a query; without it, the clause's place."""
        parts = [select.args["from_"].this, *select.expressions]
        places = [self._at(self.of(part).start) for part in parts]
        first = min(places, key=lambda place: len([*self._around(place)]))
        within = self._inside[first]
        last = len(self.tokens) if within is None else self._brackets[within].closed
        same = [n for n in range(first, last) if self._inside[n] == within]
        end = next((n for n in same if self.tokens[n].token_type in _AFTER_GROUPS), last)
        start = next((n for n in same if self.tokens[n].token_type is TokenType.GROUP_BY), None)
        if start is not None and start < end:
            return span_of(self.tokens[start + 1], self.tokens[end - 1])
        return Span(self.tokens[end - 1].end + 1, self.tokens[end - 1].end + 1)

    def name(self, node: exp.Expr) -> Span:
        """Return the span of a call's name alone."""
        start = self.of(node).start
        return span_of(self.tokens[self._at(start)])

    def written_as_call(self, node: exp.Expr) -> bool:
        """Return whether a function stands in the text as a name before brackets, or alone."""
        return _position(node) is not None or self._call_around(node) is not None

    def word(self, *words: str) -> Span | None:
        """Return the span of the first token that reads as one of some words."""
        for token in self.tokens:
            if token.text.upper() in words and token.token_type is not TokenType.STRING:
                return span_of(token)
        return None

    def _match(self) -> list[int | None]:
        """Pair the brackets, and note for each token the pair that it stands in."""
        inside: list[int | None] = []
        stack: list[int] = []
        for number, token in enumerate(self.tokens):
            if token.token_type in _CLOSING and stack:
                self._brackets[stack.pop()].closed = number
            inside.append(stack[-1] if stack else None)
            if token.token_type in _OPENING:
                outer = stack[-1] if stack else None
                self._brackets.append(_Bracket(number, number, outer))
                stack.append(len(self._brackets) - 1)
        return inside

    def _own(self, node: exp.Expr) -> Span | None:
        if id(node) not in self._known:
            self._known[id(node)] = self._found(node), node
        return self._known[id(node)][0]

    def _reach(self, root: exp.Expr) -> Span | None:
        """Unite the positions in a node; each node is looked at once, without recursion."""
        pending = [(root, False)]
        while pending:
            node, seen = pending.pop()
            if id(node) in self._reached:
                continue
            inner = list(node.iter_expressions())
            if not seen:
                pending += [(node, True), *((child, False) for child in inner)]
                continue
            spans = [_position(node), *(self._reached[id(child)][0] for child in inner)]
            known = [span for span in spans if span is not None]
            whole = reduce(or_, known) if known else None
            if whole is not None and isinstance(node, exp.Cast):
                whole = self._with_type(whole)
            self._reached[id(node)] = whole, node
        return self._reached[id(root)][0]

    def _found(self, node: exp.Expr) -> Span | None:
        span = self._reach(node)
        if isinstance(node, exp.Func) and _position(node) is None:
            call = self._call_around(node)
            if call is not None:
                return call if span is None else span | call
        if span is None:
            return None
        span = self._closed(span)
        if isinstance(node, exp.Cast):
            span = self._with_type(span)
        if isinstance(node, exp.Array | exp.Tuple | exp.Subquery):
            bracket = self._inside[self._at(span.start)]
            return span if bracket is None else span | self._bracket(bracket)
        return span

    def _with_type(self, span: Span) -> Span:
        """Add the type of `DATE '2024-12-31'` or `x::DATE`: it has no node with a position."""
        first, last = self._at(span.start), self._at(span.end - 1)
        after = self.tokens[last + 1 : last + 3]
        if len(after) == 2 and after[0].token_type is TokenType.DCOLON:
            return span | span_of(after[1])
        if first and self.tokens[first - 1].token_type in _TYPES:
            return span | span_of(self.tokens[first - 1])
        return span

    def _closed(self, span: Span) -> Span:
        """Widen a span until every bracket in it has its partner."""
        first, last = self._at(span.start), self._at(span.end - 1)
        empty, after = self._opened.get(last + 1), self.tokens[last + 1 : last + 2]
        named = self.tokens[last].text[:1].isidentifier()
        if empty is not None and named and after[0].token_type is TokenType.L_PAREN:
            span |= self._bracket(empty)  # a name before brackets: a call without arguments
        cut = set(self._around(first)) ^ set(self._around(last))
        return reduce(or_, map(self._bracket, cut), span)

    def _call_around(self, node: exp.Expr) -> Span | None:
        """Find the brackets around a function's arguments, with its name before them."""
        assert isinstance(node, exp.Func)  # noqa: S101 - the callers ask for functions only
        leaf = next((at for at in map(_position, node.walk()) if at is not None), None)
        if leaf is None:
            return None
        kind = type(node)
        names = {*kind.sql_names(), kind.__name__.upper(), _OTHER_NAMES.get(kind, "")}
        for number in self._around(self._at(leaf.start)):
            opened = self._brackets[number].opened
            if opened and self.tokens[opened - 1].text.upper() in names:
                return span_of(self.tokens[opened - 1]) | self._bracket(number)
        return None

    def _around(self, number: int) -> Iterator[int]:
        """Return the brackets around a token, from the innermost outwards."""
        bracket = self._inside[number]
        while bracket is not None:
            yield bracket
            bracket = self._brackets[bracket].outer

    def _bracket(self, number: int) -> Span:
        bracket = self._brackets[number]
        return span_of(self.tokens[bracket.opened], self.tokens[bracket.closed])

    def _at(self, offset: int) -> int:
        return max(0, bisect_right(self._starts, offset) - 1)


def _position(node: exp.Expr) -> Span | None:
    start, end = node.meta.get("start"), node.meta.get("end")
    return None if start is None or end is None else Span(start, end + 1)
