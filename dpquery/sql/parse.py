"""Text to one sqlglot query made only of node classes and slots on a closed list (I9).

Nothing is trusted because it parsed: a class that is not named here, or a slot that is not named
for its class, is refused at its own span. Binding reads this tree and ends it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError

from dpquery.errors import Diagnostic, RuleRefused, SyntaxRefused
from dpquery.source import Source, Span
from dpquery.sql.statement import read_statement

__all__ = ["Parsed", "Spans", "parse"]

MAX_TREE_DEPTH = 200
"""A chain of operators nests to the left; deeper ones would exhaust the stages that recurse."""

# The parser logs what it does not understand, with the text: our refusals say it instead.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

_PAIR = frozenset({"this", "expression"})
_ONE = frozenset({"this"})

ALLOWED: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset({"expressions", "from_", "where", "order", "limit", "offset"}),
    exp.From: _ONE,
    exp.Where: _ONE,
    exp.Table: frozenset({"this", "db", "catalog", "alias"}),
    exp.TableAlias: _ONE,
    exp.Order: frozenset({"expressions"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Limit: frozenset({"expression"}),
    exp.Offset: frozenset({"expression"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Star: frozenset(),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Boolean: _ONE,
    exp.Null: frozenset(),
    exp.Paren: _ONE,
    exp.And: _PAIR,
    exp.Or: _PAIR,
    exp.Not: _ONE,
    exp.EQ: _PAIR,
    exp.NEQ: _PAIR,
    exp.LT: _PAIR,
    exp.LTE: _PAIR,
    exp.GT: _PAIR,
    exp.GTE: _PAIR,
    exp.Is: _PAIR,
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Add: _PAIR,
    exp.Sub: _PAIR,
    exp.Mul: _PAIR,
    exp.Div: _PAIR | {"typed", "safe"},
    exp.IntDiv: _PAIR,
    exp.Mod: _PAIR,
    exp.Neg: _ONE,
    exp.Cast: frozenset({"this", "to"}),
    exp.DataType: frozenset({"this"}),
    exp.Anonymous: frozenset({"this", "expressions"}),
    exp.Filter: _PAIR,
    exp.Kwarg: _PAIR,
    exp.PropertyEQ: _PAIR,
    exp.Var: _ONE,
    exp.Array: frozenset({"expressions"}),
    exp.Abs: _ONE,
    exp.Round: frozenset({"this", "decimals"}),
    exp.Greatest: frozenset({"this", "expressions", "ignore_nulls"}),
    exp.Least: frozenset({"this", "expressions", "ignore_nulls"}),
    exp.Coalesce: frozenset({"this", "expressions"}),
}

_WORDS: dict[type[exp.Expr], str] = {
    exp.Join: "a join",
    exp.With: "WITH",
    exp.CTE: "WITH",
    exp.Subquery: "a subquery",
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
    exp.Group: "GROUP BY",
    exp.Having: "HAVING",
    exp.Distinct: "DISTINCT",
    exp.Window: "a window",
    exp.Case: "CASE",
    exp.Like: "LIKE",
    exp.Lambda: "a lambda",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.Hint: "a hint",
    exp.TableSample: "a sample",
    exp.Bracket: "an index in brackets",
    exp.Tuple: "a row of values",
}
_SLOT_WORDS = {
    "group": "GROUP BY",
    "having": "HAVING",
    "with_": "WITH",
    "joins": "a join",
    "distinct": "DISTINCT",
    "qualify": "QUALIFY",
    "sample": "a sample",
    "query": "a subquery",
    "windows": "a window",
    "locks": "FOR UPDATE",
    "into": "SELECT INTO",
    "hint": "a hint",
    "symmetric": "BETWEEN SYMMETRIC",
    "limit_options": "LIMIT in percent",
    "laterals": "LATERAL",
    "pivots": "PIVOT",
    "columns": "a list of column names",
}


class Spans:
    """Finds the stretch of text behind a node: its leaves, and the brackets of calls."""

    def __init__(self, tokens: list[Token]) -> None:
        self._whole = Span(tokens[0].start, tokens[-1].end + 1)
        self._call_ends = _call_ends(tokens)

    def of(self, node: exp.Expr) -> Span:
        """Give the span of a node; for one without a place of its own, that of its parent."""
        found = self._own(node)
        while found is None and node.parent is not None:
            node = node.parent
            found = self._own(node)
        return found or self._whole

    def name(self, node: exp.Expr) -> Span:
        """Give the span of a call's name alone."""
        start, end = node.meta.get("start"), node.meta.get("end")
        return self.of(node) if start is None or end is None else Span(start, end + 1)

    def _own(self, node: exp.Expr) -> Span | None:
        span: Span | None = None
        for leaf in node.walk():
            start, end = leaf.meta.get("start"), leaf.meta.get("end")
            if start is not None and end is not None:
                here = Span(start, max(end + 1, self._call_ends.get(start, 0)))
                span = here if span is None else span | here
        return span


def _call_ends(tokens: list[Token]) -> dict[int, int]:
    """Map the start of each name before a parenthesis to the end of that parenthesis."""
    ends: dict[int, int] = {}
    stack: list[int | None] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.token_type is TokenType.L_PAREN:
            named = before is not None and before.text[:1].isidentifier()
            stack.append(before.start if before is not None and named else None)
        elif token.token_type is TokenType.R_PAREN and stack:
            start = stack.pop()
            if start is not None:
                ends[start] = token.end + 1
    return ends


@dataclass(frozen=True, slots=True)
class Parsed:
    """One query whose every node is on the list, with the way back to the text."""

    source: Source
    query: exp.Select
    spans: Spans


def parse(source: Source) -> Parsed:
    """Parse a text into a query of allowed nodes.

    Raises:
        SyntaxRefused: DPQ101 to DPQ106.
        RuleRefused: DPQ304 a join.
    """
    tokens = read_statement(source)
    _check_commas(tokens)
    spans = Spans(tokens)
    try:
        trees = DuckDB().parser().parse(tokens, source.text)
    except ParseError as error:
        raise SyntaxRefused(_misread(source, error)) from None
    except RecursionError:
        raise SyntaxRefused(_too_deep(None)) from None
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Expr):
        raise SyntaxRefused(Diagnostic("DPQ101", "this is not a complete query"))
    _check_depth(tree, spans)
    _check_nodes(tree, spans)
    if not isinstance(tree, exp.Select):
        _outside(tree, _word(tree), spans.of(tree))
    return Parsed(source, tree, spans)


def _check_commas(tokens: list[Token]) -> None:
    """Refuse a comma after a comma: the parser would pass over it."""
    for token, following in zip(tokens, tokens[1:], strict=False):
        if token.token_type is following.token_type is TokenType.COMMA:
            raise SyntaxRefused(
                Diagnostic(
                    "DPQ101",
                    "nothing stands between two commas",
                    Span(following.start, following.end + 1),
                    "one comma too many",
                    ("the text is not a complete query.",),
                    ("remove the comma",),
                )
            )


def _misread(source: Source, error: ParseError) -> Diagnostic:
    """Say where the parser stopped, in our words and not in its own."""
    found = error.errors[0] if error.errors else {}
    marked = str(found.get("highlight") or "")
    line_start = 0
    for _ in range(int(found.get("line") or 1) - 1):
        line_start = source.text.find("\n", line_start) + 1
    start = max(0, line_start + int(found.get("col") or 0) - len(marked))
    return Diagnostic(
        "DPQ101",
        f"this cannot be read at {marked[:40]!r}"
        if marked
        else "this cannot be read to its end",
        Span(start, start + max(1, len(marked))),
        "not understood here",
        ("the text is not a complete query.",),
        ("SELECT DP_COUNT(*, eps=0.5) AS n FROM a_table WHERE a_column > 10",),
    )


def _too_deep(span: Span | None) -> Diagnostic:
    return Diagnostic(
        "DPQ105",
        "the query is nested too deeply",
        span,
        "too deep",
        ("texts of this shape are refused before they are bound.",),
        ("write the query with less nesting, or use IN for long lists",),
    )


def _check_depth(tree: exp.Expr, spans: Spans) -> None:
    """Measure nesting without recursion; AND and OR chains are flattened later and do not count."""
    pending: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_TREE_DEPTH:
            raise SyntaxRefused(_too_deep(None))
        for child in node.iter_expressions():
            chained = isinstance(node, exp.And | exp.Or) and type(child) is type(node)
            pending.append((child, depth if chained else depth + 1))


def _check_nodes(tree: exp.Expr, spans: Spans) -> None:
    """Walk the tree in reading order and refuse the first thing that is not on the list."""
    for node in tree.dfs():
        slots = ALLOWED.get(type(node))
        if slots is None:
            if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Case):
                continue  # a function by name: binding knows the list, and the nearest name
            _outside(node, _word(node), spans.of(node))
        for slot, value in node.args.items():
            if slot not in slots and value not in (None, False, [], ""):
                part = value[0] if isinstance(value, list) else value
                inner = part if isinstance(part, exp.Expr) else node
                _outside(inner, _SLOT_WORDS.get(slot) or _word(inner), spans.of(inner))


def _word(node: exp.Expr) -> str:
    """Name a construct in the words of SQL."""
    for kind, word in _WORDS.items():
        if isinstance(node, kind):
            return word
    return f"{node.key.upper()}"


def _outside(node: exp.Expr, word: str, span: Span) -> NoReturn:
    if word == "a join":
        raise RuleRefused(
            Diagnostic(
                "DPQ304",
                "joins are not answered",
                span,
                "a second table",
                ("this version reads one table in a query.",),
                ("ask about one table at a time",),
            )
        )
    raise SyntaxRefused(
        Diagnostic(
            "DPQ102",
            f"{word} is not part of the language here",
            span,
            "not understood",
            (
                "only what is known to keep the promise is accepted; `grammar/dpsql.ebnf` lists it.",
            ),
            ("SELECT DP_COUNT(*, eps=0.5) AS n FROM a_table WHERE a_column > 10",),
        )
    )
