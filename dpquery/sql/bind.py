"""Resolves every name and argument against the policy and the signatures; sqlglot ends here.

A query over a private table is parted into its frontier, which holds the DP_ calls and the rows
they speak about, and what is computed above it from the released values.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, RuleRefused, SyntaxRefused
from dpquery.ir import Bound, ColumnRef, Filter, Frontier, Key, Relation, TableScan
from dpquery.policy.facts import PublicFacts
from dpquery.policy.model import Column, Policy
from dpquery.source import Span
from dpquery.sql.above import AboveBinder, Item
from dpquery.sql.calls import Calls
from dpquery.sql.conditions import Conditions
from dpquery.sql.keys import bind_keys, has_listed_groups
from dpquery.sql.mending import outside
from dpquery.sql.names import Scope, fold, resolve_table, unknown_column
from dpquery.sql.parse import Parsed
from dpquery.sql.spans import Spans

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
    for item in select.expressions:
        if isinstance(item, exp.Star) or (
            isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        ):
            raise _raw("*", f"SELECT {EXAMPLE} FROM {scope.table.name}", spans.of(item))
    below = _Released(
        scope, spans, bind_keys(select, relation, rows), Calls(parsed.source, rows)
    )
    above = AboveBinder(parsed.source, spans, below).over_released(select)
    calls = tuple(below.calls.found)
    if not calls:
        name, first = scope.table.name, spans.of(select.expressions[0])
        raise _unaskable(f"nothing is asked about {name}", first, below.query(EXAMPLE))
    return Bound(parsed.source, (Frontier(span, relation, calls, below.keys),), above)


@dataclass(slots=True)
class _Released:
    """The released table of the one frontier: its keys, and a column for each call."""

    scope: Scope
    spans: Spans
    keys: tuple[Key, ...]
    calls: Calls
    relation: str = "f0"

    def call(self, node: exp.Expr) -> tuple[str, str]:
        """Add a call to the frontier."""
        added = self.calls.add(node)
        return added.column, added.function

    def column(self, node: exp.Column) -> str:
        """Find a key; any other column of the table is private."""
        found = self.scope.column(node, self.spans.of(node))
        for key in self.keys:
            if isinstance(key.expr, ColumnRef) and key.expr.name == found.name:
                return key.column
        raise _raw(found.name, self._instead(found), self.spans.of(node))

    def _instead(self, column: Column) -> str:
        """Write a query that shows something of a column: as a group, or noisy."""
        if has_listed_groups(column):
            return self.query(EXAMPLE, column.name)
        quantile = f"DP_QUANTILE({column.name}, 0.5, eps=0.5)"
        return self.query(EXAMPLE if column.bounds is None else quantile)

    def query(self, call: str, *more: str) -> str:
        """Write a query with the groups of this one, and more, around a call."""
        groups = [key.expr.name for key in self.keys if isinstance(key.expr, ColumnRef)]
        groups += more
        grouped = f" GROUP BY {', '.join(groups)}" if groups else ""
        return f"SELECT {', '.join([*groups, call])} FROM {self.scope.table.name}{grouped}"

    def has(self, name: str) -> bool:
        """Say whether a key is so called."""
        columns = (key.expr for key in self.keys)
        return any(isinstance(c, ColumnRef) and fold(c.name) == fold(name) for c in columns)


def _over_public(parsed: Parsed, scope: Scope, public: PublicFacts) -> Bound:
    """Bind a query over a public table: nothing private, nothing charged."""
    _refuse_groups(parsed, f"SELECT * FROM {scope.table.name}")
    names = tuple(public.columns(scope.table.name))
    below = _Public(scope, parsed.spans, names, public.relation(scope.table.name))
    stars = [
        Item(
            name,
            f'"{below.relation}".{exp.to_identifier(name, quoted=True).sql("duckdb")}',
            None,
        )
        for name in names
    ]
    above = AboveBinder(parsed.source, parsed.spans, below).over_public(parsed.query, stars)
    return Bound(parsed.source, (), above)


@dataclass(slots=True)
class _Public:
    """A public table, which is read as it is."""

    scope: Scope
    spans: Spans
    names: tuple[str, ...]
    relation: str

    def call(self, node: exp.Expr) -> tuple[str, str]:
        """Refuse: there is nothing to protect."""
        raise RuleRefused(
            Diagnostic(
                "DPQ303",
                f"{self.scope.table.name} is a public table",
                self.spans.of(node),
                "nothing to protect here",
                ("DP_ functions ask private tables; public ones are read as they are.",),
                (f"SELECT * FROM {self.scope.table.name}",),
            )
        )

    def column(self, node: exp.Column) -> str:
        """Find a column of the table."""
        self.scope.check_qualifier(node, self.spans.of(node))
        if isinstance(node.this, exp.Star):
            return ""
        for name in self.names:
            if fold(name) == fold(node.name):
                return name
        unknown_column(node.name, self.names, self.scope.table.name, self.spans.of(node))

    def has(self, name: str) -> bool:
        """Say whether a column is so called."""
        return any(fold(column) == fold(name) for column in self.names)


def _without_table(parsed: Parsed) -> Bound:
    """Bind a query that reads no table, as `SELECT 1`."""
    _refuse_groups(parsed, "SELECT 1 + 1")
    above = AboveBinder(parsed.source, parsed.spans, _Nothing(parsed.spans))
    return Bound(parsed.source, (), above.over_public(parsed.query, []))


@dataclass(slots=True)
class _Nothing:
    """No table: literals and arithmetic on them."""

    spans: Spans
    relation: str = ""

    def call(self, node: exp.Expr) -> tuple[str, str]:
        """Refuse: there are no rows."""
        raise _unaskable("a DP_ function needs a table to ask", self.spans.of(node))

    def column(self, node: exp.Column) -> str:
        """Refuse: there are no columns."""
        raise _unaskable(f"there is no table to find {node.name} in", self.spans.of(node))

    def has(self, name: str) -> bool:
        """Say that nothing is so called."""
        return False


def _refuse_groups(parsed: Parsed, remedy: str) -> None:
    """Refuse GROUP BY and HAVING where there are no groups to be released."""
    for slot, word in (("group", "GROUP BY"), ("having", "HAVING")):
        clause = parsed.query.args.get(slot)
        if clause is not None:
            span = parsed.spans.word(word) or parsed.spans.of(clause)
            label = "only private rows are put into groups"
            raise SyntaxRefused(outside(f"{word} of public rows", span, label, remedy))


def _raw(name: str, instead: str, span: Span) -> RuleRefused:
    shown = "the rows" if name == "*" else name
    return RuleRefused(
        Diagnostic(
            "DPQ301",
            f"{shown} cannot be shown row by row",
            span,
            "not inside a DP_ function",
            (
                "a result may contain only DP_ functions and grouping columns;",
                f"one person's {'row' if name == '*' else name} is what the session protects.",
            ),
            (instead,),
        )
    )


def _unaskable(
    title: str, span: Span, remedy: str = f"SELECT {EXAMPLE} FROM a_table"
) -> RuleRefused:
    return RuleRefused(
        Diagnostic(
            "DPQ302",
            title,
            span,
            "no DP_ function over a private table",
            ("a private table is only ever counted and summed, with noise.",),
            (remedy,),
        )
    )
