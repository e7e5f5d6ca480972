"""WHERE chooses rows before anything is released; what asks for a result belongs in HAVING.

Refuses results among the rows, by their call or by their name, and writes the query that was
meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sqlglot import TokenType
from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, RuleRefused
from dpquery.sql.conditions import chain
from dpquery.sql.literals import unwrapped
from dpquery.sql.names import Scope, fold, is_call
from dpquery.sql.spans import Spans

__all__ = ["refuse_results_in_where"]

_AFTER = (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET)


def refuse_results_in_where(select: exp.Select, scope: Scope, spans: Spans) -> None:
    """Refuse a WHERE that speaks of what the query releases.

    Raises:
        RuleRefused: DPQ303.
    """
    where = select.args.get("where")
    aliases = {
        fold(item.alias)
        for item in select.expressions
        if isinstance(item, exp.Alias) and any(map(is_call, item.walk(prune=_is_query)))
    }

    def is_result(node: exp.Expr) -> bool:
        if isinstance(node, exp.Column) and not node.table and not scope.knows(node.name):
            return fold(node.name) in aliases
        return is_call(node)

    # A query inside WHERE is one of its own, and may release what is compared here.
    for node in where.dfs(prune=_is_query) if where is not None else ():
        if is_result(node):
            _refuse(select, spans, node, is_result)


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def _refuse(
    select: exp.Select, spans: Spans, node: exp.Expr, is_result: Callable[[exp.Expr], bool]
) -> NoReturn:
    called = is_call(node)
    span = spans.name(node) if called else spans.of(node)
    name = spans.source.snippet(span)
    raise RuleRefused(
        Diagnostic(
            "DPQ303",
            f"{name.upper() if called else name} cannot stand here",
            span,
            "among the rows it would count" if called else "computed from the rows chosen here",
            ("WHERE chooses rows, before anything is counted; HAVING chooses results.",),
            (_with_having(select, spans, is_result),),
        )
    )


def _with_having(
    select: exp.Select, spans: Spans, is_result: Callable[[exp.Expr], bool]
) -> str:
    """Write the query with what WHERE says of results moved to HAVING."""
    condition = unwrapped(select.args["where"].this)
    kept: list[str] = []
    moved: list[str] = []
    for part in chain(condition) if isinstance(condition, exp.And) else [condition]:
        (moved if any(map(is_result, part.walk(prune=_is_query))) else kept).append(
            _operand(part, spans)
        )
    having = select.args.get("having")
    if having is not None:
        moved.append(_operand(having.this, spans))
    asked = f"HAVING {' AND '.join(moved)}"
    clauses = [
        *(_clause(spans, word) for word in (TokenType.SELECT, TokenType.FROM)),
        f"WHERE {' AND '.join(kept)}" if kept else "",
        _clause(spans, TokenType.GROUP_BY),
        asked,
        *(_clause(spans, word) for word in _AFTER),
    ]
    query = " ".join(filter(None, clauses))
    return asked if "\n" in query else query


def _operand(part: exp.Expr, spans: Spans) -> str:
    inner = unwrapped(part)
    text = spans.text(inner)
    return f"({text})" if isinstance(inner, exp.Or) else text


def _clause(spans: Spans, word: TokenType) -> str:
    span = spans.clause(word)
    return "" if span is None else spans.source.snippet(span)
