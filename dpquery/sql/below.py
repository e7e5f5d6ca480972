"""What stands below the query above: released groups and calls, a public table, or nothing.

Each knows its columns, binds the DP_ calls that it can answer, and refuses the rest in its own
words. Nothing here reads a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import (
    Diagnostic,
    NameRefused,
    QueryRefused,
    RuleRefused,
    SyntaxRefused,
)
from dpquery.functions import find
from dpquery.ir import Call, ColumnRef, Expr, Key
from dpquery.source import Span
from dpquery.sql.above import FUNCTIONS
from dpquery.sql.calls import Calls
from dpquery.sql.keys import has_listed_groups
from dpquery.sql.meant import a_slip_away, is_aggregate, nearest_function
from dpquery.sql.mending import outside
from dpquery.sql.names import Scope, fold, is_call, unknown_column, written_name
from dpquery.sql.offers import COUNT, query_about
from dpquery.sql.spans import Spans
from dpquery.types import Kind

__all__ = ["Nothing", "Public", "Released", "raw", "unaskable"]


@dataclass(slots=True)
class Released:
    """The released table of the one frontier: its keys, and a column for each call."""

    scope: Scope
    spans: Spans
    keys: tuple[Key, ...]
    calls: Calls
    number: int = 0
    """Of the frontier, among those of the statement."""

    @property
    def relation(self) -> str:
        """The engine's name of the released table."""
        return f"f{self.number}"

    def call(self, node: exp.Expr) -> tuple[str, str]:
        """Add a call to the frontier."""
        added = self.calls.add(node)
        return added.column, added.function

    def key(self, node: exp.Expr) -> str | None:
        """Find the key that an expression over the rows is; None where it is none."""
        if all(isinstance(key.expr, ColumnRef) for key in self.keys):
            return None
        try:
            expr = self.calls.rows.bind(node)
        except QueryRefused:
            return None
        return next((key.column for key in self.keys if key.expr == expr), None)

    def column(self, node: exp.Column) -> str:
        """Find a key; any other column of the table is private."""
        found = self.scope.reference(node, self.spans.of(node))
        for key in self.keys:
            if key.expr == found:
                return key.column
        raise raw(node.name, self._instead(found), self.spans.of(node))

    def _instead(self, found: Expr) -> str:
        """Write a query that shows something of a column: as a group, or noisy."""
        if not isinstance(found, ColumnRef) or found.name not in self.scope.table.columns:
            return self.query(COUNT)
        if has_listed_groups(found):
            return self.query(COUNT, found.name)
        quantile = f"DP_QUANTILE({written_name(found.name)}, 0.5, eps=0.5)"
        return self.query(quantile if found.bounded else COUNT)

    def query(self, call: str, *more: str) -> str:
        """Write a query with the groups of this one, and more, around a call."""
        columns = self.scope.table.columns
        exprs = (key.expr for key in self.keys)
        groups = [e.name for e in exprs if isinstance(e, ColumnRef) and e.name in columns]
        return query_about(self.scope.table, call, groups=[*groups, *more])

    def has(self, name: str) -> bool:
        """Say whether a key is so called."""
        if not self.scope.knows(name):
            return False
        node = exp.column(name, quoted=True)
        found = self.scope.reference(node, self.spans.of(node))
        return any(key.expr == found for key in self.keys)

    def kind(self, column: str) -> Kind:
        """Give the kind of a key, or of what a call releases."""
        for key in self.keys:
            if key.column == column:
                return key.expr.type.kind
        return _kind(next(call for call in self.calls.found if call.column == column))

    def refuse_function(self, call: exp.Func, name: str) -> NoReturn:
        """Refuse an exact aggregate, or an unknown function."""
        if not is_aggregate(call, name):
            near = nearest_function(name)
            meant = None if near is None else self.calls.meant(near, call)
            inner = next(filter(is_call, call.iter_expressions()), None)
            asked = COUNT if inner is None else self.spans.text(inner)
            raise _unknown(call, name, self.spans, meant or asked)
        raise RuleRefused(
            Diagnostic(
                "DPQ302",
                f"{name} would be exact",
                self.spans.of(call),
                "no noise is added here",
                ("an exact result shows, when one person is added, that they were.",),
                (self.calls.meant(name, call) or COUNT,),
            )
        )


def _kind(call: Call) -> Kind:
    """Give the kind of what a call releases: a value of its argument, or else a number."""
    function = find(call.function)
    if function is None or call.argument is None:
        return Kind.DOUBLE
    other = function.releases or Kind.DOUBLE
    return call.argument.type.kind if function.of_argument else other


@dataclass(slots=True)
class Public:
    """A public table, which is read as it is."""

    scope: Scope
    spans: Spans
    names: tuple[str, ...]
    relation: str
    number: int = 0

    @property
    def query(self) -> str:
        """A query that is answered: the whole table."""
        return f"SELECT * FROM {written_name(self.scope.table.name)}"

    def call(self, node: exp.Expr) -> tuple[str, str]:
        """Refuse: there is nothing to protect."""
        raise RuleRefused(
            Diagnostic(
                "DPQ303",
                f"{self.scope.table.name} is a public table",
                self.spans.of(node),
                "nothing to protect here",
                ("DP_ functions ask private tables; public ones are read as they are.",),
                (self.query,),
            )
        )

    def key(self, node: exp.Expr) -> None:
        """Give nothing: public rows are in no groups."""

    def column(self, node: exp.Column) -> str:
        """Find a column of the table."""
        self.scope.check_qualifier(node, self.spans.of(node))
        if isinstance(node.this, exp.Star):
            return ""
        for name in self.names:
            if fold(name) == fold(node.name):
                return name
        unknown_column(node, self.names, self.scope.table.name, self.spans.of(node))

    def has(self, name: str) -> bool:
        """Say whether a column is so called."""
        return any(fold(column) == fold(name) for column in self.names)

    def kind(self, column: str) -> None:
        """Give nothing: the engine reads the file, and turns what it cannot use into NULL."""

    def refuse_function(self, call: exp.Func, name: str) -> NoReturn:
        """Refuse: of public rows there are no aggregates."""
        if not is_aggregate(call, name):
            raise _unknown(call, name, self.spans, self.query)
        label = "aggregates of public rows are not answered yet"
        span = self.spans.of(call)
        raise SyntaxRefused(outside(f"{name} of public rows", span, label, self.query))


@dataclass(slots=True)
class Nothing:
    """No table: literals and arithmetic on them."""

    spans: Spans
    query: str
    """A query that names a table."""
    relation: str = ""
    number: int = 0

    def call(self, node: exp.Expr) -> tuple[str, str]:
        """Refuse: there are no rows."""
        raise self._without_table("a DP_ function needs a table to ask", node)

    def key(self, node: exp.Expr) -> None:
        """Give nothing: there are no groups."""

    def column(self, node: exp.Column) -> str:
        """Refuse: there are no columns."""
        raise self._without_table(f"there is no table to find {node.name} in", node)

    def has(self, name: str) -> bool:
        """Say that nothing is so called."""
        return False

    def kind(self, column: str) -> None:
        """Give nothing: there are no columns."""

    def refuse_function(self, call: exp.Func, name: str) -> NoReturn:
        """Refuse: there is nothing to aggregate."""
        if is_aggregate(call, name):
            raise self._without_table(f"{name} needs a table to ask", call)
        raise _unknown(call, name, self.spans, "SELECT 1 + 1")

    def _without_table(self, title: str, node: exp.Expr) -> RuleRefused:
        return unaskable(title, self.spans.of(node), "FROM is missing", self.query)


def _unknown(call: exp.Func, name: str, spans: Spans, otherwise: str) -> NameRefused:
    """Refuse a function of no meaning here; offer the one that is a slip away."""
    near = a_slip_away(name, FUNCTIONS)
    return NameRefused(
        Diagnostic(
            "DPQ202",
            f"there is no function {name}",
            spans.name(call),
            "unknown function",
            (f"on results there are {', '.join(FUNCTIONS)} and arithmetic.",),
            (otherwise if near is None else near + spans.text(call)[len(name) :],),
        )
    )


def raw(name: str, instead: str, span: Span) -> RuleRefused:
    """Refuse a private column that would be shown as it is."""
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


def unaskable(title: str, span: Span, label: str, remedy: str) -> RuleRefused:
    """Refuse a query that asks nothing of a private table."""
    return RuleRefused(
        Diagnostic(
            "DPQ302",
            title,
            span,
            label,
            ("a private table is asked by DP_ functions only, which add noise.",),
            (remedy,),
        )
    )
