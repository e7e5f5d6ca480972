"""Resolves every name and argument against the policy and the signatures; sqlglot ends here.

A query over a private table is parted into its frontier, which holds the DP_ calls and the rows
they speak about, and what is computed above it from the released values.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, RuleRefused
from dpquery.ir import Bound, Filter, Frontier, Relation, TableScan
from dpquery.policy.facts import PublicFacts
from dpquery.policy.model import Policy, Table
from dpquery.source import Span
from dpquery.sql.above import AboveBinder, Item
from dpquery.sql.calls import Calls
from dpquery.sql.conditions import Conditions
from dpquery.sql.names import Scope, fold, resolve_table, unknown_column
from dpquery.sql.parse import Parsed

__all__ = ["bind"]

EXAMPLE = "DP_COUNT(*, eps=0.5)"


def bind(parsed: Parsed, policy: Policy, public: PublicFacts) -> Bound:
    """Bind a parsed query.

    Raises:
        NameRefused: DPQ2xx.
        RuleRefused: DPQ301, DPQ302, DPQ303.
    """
    from_ = parsed.query.args.get("from_")
    if from_ is None:
        return _without_table(parsed)
    node = from_.this
    if not isinstance(node, exp.Table):
        raise _unaskable("only a table can be asked", parsed.spans.of(node))
    table = resolve_table(node, policy, parsed.spans.of(node))
    scope = Scope(table, node.alias or table.name)
    if table.public:
        return _over_public(parsed, scope, public)
    return _over_private(parsed, scope, parsed.spans.of(node))


def _over_private(parsed: Parsed, scope: Scope, span: Span) -> Bound:
    """Bind a query over private rows: one frontier, and arithmetic on what it releases."""
    select, spans = parsed.query, parsed.spans
    rows = Conditions(scope, spans)
    relation: Relation = TableScan(span, scope.table.name)
    where = select.args.get("where")
    if where is not None:
        relation = Filter(spans.of(where.this), relation, rows.condition(where.this))
    calls = Calls(parsed.source, rows)

    def call(node: exp.Expr) -> tuple[str, str]:
        added = calls.add(node)
        return added.column, added.function

    def column(node: exp.Column) -> str:
        found = scope.column(node, spans.of(node))
        _raw(found.name, scope.table, spans.of(node))

    for item in select.expressions:
        if isinstance(item, exp.Star) or (
            isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        ):
            _raw("*", scope.table, spans.of(item))
    above = AboveBinder(parsed.source, spans, "f0", call, column).over_released(select)
    if not calls.found:
        raise _unaskable(
            f"nothing is asked about {scope.table.name}", spans.of(select.expressions[0])
        )
    return Bound(parsed.source, (Frontier(span, relation, tuple(calls.found)),), above)


def _over_public(parsed: Parsed, scope: Scope, public: PublicFacts) -> Bound:
    """Bind a query over a public table: nothing private, nothing charged."""
    names = public.columns(scope.table.name)

    def column(node: exp.Column) -> str:
        scope.check_qualifier(node, parsed.spans.of(node))
        if isinstance(node.this, exp.Star):
            return ""
        for name in names:
            if fold(name) == fold(node.name):
                return name
        unknown_column(node.name, names, scope.table.name, parsed.spans.of(node))

    def call(node: exp.Expr) -> tuple[str, str]:
        raise RuleRefused(
            Diagnostic(
                "DPQ303",
                f"{scope.table.name} is a public table",
                parsed.spans.of(node),
                "nothing to protect here",
                ("DP_ functions ask private tables; public ones are read as they are.",),
                (f"SELECT * FROM {scope.table.name}",),
            )
        )

    relation = public.relation(scope.table.name)
    stars = [
        Item(name, f'"{relation}".{exp.to_identifier(name, quoted=True).sql("duckdb")}', None)
        for name in names
    ]
    binder = AboveBinder(parsed.source, parsed.spans, relation, call, column)
    return Bound(parsed.source, (), binder.over_public(parsed.query, stars))


def _without_table(parsed: Parsed) -> Bound:
    """Bind a query that reads no table, as `SELECT 1`."""

    def column(node: exp.Column) -> str:
        raise _unaskable(f"there is no table to find {node.name} in", parsed.spans.of(node))

    def call(node: exp.Expr) -> tuple[str, str]:
        raise _unaskable("a DP_ function needs a table to ask", parsed.spans.of(node))

    binder = AboveBinder(parsed.source, parsed.spans, "", call, column)
    return Bound(parsed.source, (), binder.over_public(parsed.query, []))


def _raw(name: str, table: Table, span: Span) -> NoReturn:
    shown = "the rows" if name == "*" else name
    raise RuleRefused(
        Diagnostic(
            "DPQ301",
            f"{shown} cannot be shown row by row",
            span,
            "not inside a DP_ function",
            (
                "a result may contain only DP_ functions;",
                f"one person's {'row' if name == '*' else name} is what the session protects.",
            ),
            (f"SELECT {EXAMPLE} FROM {table.name}",),
        )
    )


def _unaskable(title: str, span: Span) -> RuleRefused:
    return RuleRefused(
        Diagnostic(
            "DPQ302",
            title,
            span,
            "no DP_ function over a private table",
            ("a private table is only ever counted and summed, with noise.",),
            (f"SELECT {EXAMPLE} FROM a_table",),
        )
    )
