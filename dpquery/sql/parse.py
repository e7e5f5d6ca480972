"""Text to one sqlglot query made only of node classes and slots on a closed list (I9).

Nothing is trusted because it parsed: a class that is not named here, or a slot that is not
named for its class, is refused at its own span. Binding reads this tree and ends it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError

from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused
from dpquery.source import Source, Span
from dpquery.sql.allowed import ALLOWED
from dpquery.sql.constructs import is_misused, refuse_construct
from dpquery.sql.mending import example, mended
from dpquery.sql.misread import misread, unfinished
from dpquery.sql.names import RESERVED
from dpquery.sql.reading import Parser
from dpquery.sql.slips import READ, with_slip_mended
from dpquery.sql.spans import Spans
from dpquery.sql.statement import read_statement
from dpquery.sql.unread import check_all_read

__all__ = ["Parsed", "parse"]

MAX_TREE_DEPTH = 200
"""A chain of operators nests to the left; deeper ones would exhaust the stages that recurse."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """One query whose every node is on the list, with the way back to the text."""

    source: Source
    query: exp.Query
    spans: Spans


def parse(source: Source) -> Parsed:
    """Parse a text into a query of allowed nodes.

    Raises:
        SyntaxRefused: DPQ101 to DPQ106.
        NameRefused: DPQ210 a number is not written in digits.
        RuleRefused: DPQ304 a join that names no columns.
    """
    try:
        return _parsed(source)
    except (SyntaxRefused, NameRefused) as refused:
        refused.diagnostic = with_slip_mended(refused.diagnostic, source, _parsed, READ)
        raise


def _parsed(source: Source) -> Parsed:
    tokens = read_statement(source)
    spans = Spans(source, tokens)
    try:
        trees = Parser(dialect=DuckDB()).parse(tokens, source.text)
    except ParseError as error:
        raise SyntaxRefused(misread(source, tokens, error)) from None
    except RecursionError:
        raise SyntaxRefused(_too_deep(Span(0, len(source.text)), "somewhere here")) from None
    except ValueError:  # as of an empty name before =>
        raise SyntaxRefused(unfinished(source, tokens, "this cannot be read")) from None
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Expr):
        raise SyntaxRefused(unfinished(source, tokens, "this is not a complete query"))
    _check_depth(tree, spans)
    _check_nodes(source, tree, spans)
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        refuse_construct(source, tree, spans)
    if any(not select.expressions for select in tree.find_all(exp.Select)):
        raise SyntaxRefused(unfinished(source, tokens, "nothing is selected"))
    if all(type(node) in ALLOWED for node in tree.walk()):
        check_all_read(source, tree, spans)  # else binding refuses a function by its name
    return Parsed(source, tree, spans)


def _too_deep(span: Span, label: str) -> Diagnostic:
    return Diagnostic(
        "DPQ105",
        "the query is nested too deeply",
        span,
        label,
        why=("texts of this shape are refused before they are bound.",),
        remedy=("write the query with less nesting, or use IN for long lists",),
    )


def _check_depth(tree: exp.Expr, spans: Spans) -> None:
    """Measure nesting without recursion; AND and OR chains are flattened, and do not count."""
    pending: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_TREE_DEPTH:
            label = f"more than {MAX_TREE_DEPTH} levels down"
            raise SyntaxRefused(_too_deep(spans.of(node), label))
        for child in node.iter_expressions():
            chained = isinstance(node, exp.And | exp.Or) and type(child) is type(node)
            pending.append((child, depth if chained else depth + 1))


def _check_nodes(source: Source, tree: exp.Expr, spans: Spans) -> None:
    """Walk the tree in reading order and refuse the first thing that is not on the list."""
    for node in tree.dfs():
        slots = ALLOWED.get(type(node))
        if slots is None or _hides(node, tree):
            if _is_function(node, spans):
                continue  # a function by name: binding knows the list, and the nearest name
            refuse_construct(source, node, spans)
        if is_misused(node):
            refuse_construct(source, node, spans)
        for slot, value in node.args.items():
            if slot not in (slots or ()) and value not in (None, False, [], ""):
                part = value[0] if isinstance(value, list) else value
                inner = part if isinstance(part, exp.Expr) else node
                refuse_construct(source, inner, spans, slot)
        if isinstance(node, exp.Identifier) and not node.quoted:
            _check_name(source, node, spans)
        if isinstance(node, exp.Join) and node.args.get("using"):
            _check_using(source, node.args["using"], spans)


def _check_using(source: Source, names: list[exp.Expr], spans: Spans) -> None:
    """Insist on names in brackets: the parser takes one without, and calls of functions."""
    whole = Span(spans.of(names[0]).start, spans.of(names[-1]).end)
    before = [token.token_type for token in spans.tokens if token.end < whole.start]
    after = [token.token_type for token in spans.tokens if token.start >= whole.end]
    brackets = before[-1:] == [TokenType.L_PAREN] and after[:1] == [TokenType.R_PAREN]
    if brackets and all(isinstance(name, exp.Identifier) for name in names):
        return
    columns = [column for name in names for column in name.find_all(exp.Identifier)]
    listed = ", ".join(spans.text(column) for column in columns)
    raise SyntaxRefused(
        Diagnostic(
            "DPQ101",
            "USING needs names in brackets",
            whole,
            "not a list of names",
            ("the text is not a complete query.",),
            (mended(source, whole, f"({listed})", f"USING ({listed})"),),
        )
    )


def _hides(node: exp.Expr, tree: exp.Expr) -> bool:
    """Say whether a query stands where there is no place for one."""
    places = exp.Subquery | exp.CTE | exp.Exists | exp.SetOperation
    return (
        isinstance(node, exp.Query)
        and node is not tree
        and not (isinstance(node, exp.Subquery) or isinstance(node.parent, places))
    )


def _is_function(node: exp.Expr, spans: Spans) -> bool:
    if not isinstance(node, exp.Func) or isinstance(node, exp.Connector | exp.Case):
        return False
    return spans.written_as_call(node)


def _check_name(source: Source, node: exp.Identifier, spans: Spans) -> None:
    if str(node.this).upper() not in RESERVED:
        return
    span = spans.of(node)
    raise SyntaxRefused(
        Diagnostic(
            "DPQ101",
            f"{source.snippet(span).upper()} stands where a name is expected",
            span,
            "a word of SQL, not a name",
            ("the text is not a complete query.",),
            (
                example(source, spans.tokens),
                f'a name that is also a word of SQL stands in quotes: "{node.this}"',
            ),
        )
    )
