"""Name resolution, all of it: nothing is left to the engine's own rules.

Names are compared after folding ASCII letters, and no others, which is what DuckDB does:
Python's `lower` would fold more, and the two would disagree about what a name means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from dpquery.errors import Diagnostic, NameRefused, listed, nearest
from dpquery.ir import ColumnRef, decimal
from dpquery.policy.model import Column, Policy, Table
from dpquery.source import Span
from dpquery.types import Kind

__all__ = [
    "RESERVED",
    "Scope",
    "fold",
    "is_call",
    "listed_names",
    "resolve_table",
    "unknown_column",
    "written_name",
]

_RESERVED = (
    "ALL ANALYSE ANALYZE AND ANY ARRAY AS ASC ASYMMETRIC BOTH CASE CAST CHECK COLLATE "
    "COLUMN CONSTRAINT CREATE DEFAULT DEFERRABLE DESC DESCRIBE DISTINCT DO ELSE END EXCEPT "
    "FALSE FETCH FOR FOREIGN FROM GROUP HAVING IN INITIALLY INTERSECT INTO LAMBDA LATERAL "
    "LEADING LIMIT NOT NULL OFFSET ON ONLY OR ORDER PIVOT PLACING PRIMARY QUALIFY "
    "REFERENCES RETURNING SELECT SHOW SOME SUMMARIZE SYMMETRIC TABLE THEN TO TRAILING TRUE "
    "UNION UNIQUE UNPIVOT USING VARIADIC WHEN WHERE WINDOW WITH"
)
RESERVED = frozenset(_RESERVED.split())
"""Names only in quotes, as in DuckDB; the parser would take `FROM t GROUP` for an alias."""

_ASCII = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def fold(name: str) -> str:
    """Fold the ASCII letters of a name.

    >>> fold("Staff"), fold("É")
    ('staff', 'É')
    """
    return name.translate(_ASCII)


def is_call(node: exp.Expr) -> bool:
    """Say whether a node is written as a DP_ function, known or not."""
    inner = node.this if isinstance(node, exp.Filter) else node
    return isinstance(inner, exp.Anonymous) and str(inner.this).upper().startswith(
        ("DP_", "LDP_")
    )


def written_name(name: str) -> str:
    """Write a name as a query has to: in quotes, unless it reads as a name alone.

    >>> written_name("dept"), written_name("first name"), written_name("select")
    ('dept', '"first name"', '"select"')
    """
    try:
        tokens = DuckDB().tokenize(name)
    except TokenError:
        tokens = []
    bare = [(token.token_type, token.text) for token in tokens] == [(TokenType.VAR, name)]
    if bare and name.isidentifier() and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def listed_names(names: Iterable[str], first: str | None = None) -> str:
    """Join names as queries write them: the nearest first, then sorted, ten at most."""
    return listed(map(written_name, names), None if first is None else written_name(first))


@dataclass(frozen=True, slots=True)
class Scope:
    """The one table that a query reads, under the name by which the query calls it."""

    table: Table
    alias: str

    def column(self, node: exp.Column, span: Span) -> Column:
        """Resolve a column.

        Raises:
            NameRefused: DPQ201 another table's name stands before it, DPQ204 no such column.
        """
        self.check_qualifier(node, span)
        wanted = fold(node.name)
        for name, column in self.table.columns.items():
            if fold(name) == wanted:
                return column
        unknown_column(node, self.table.columns, self.table.name, span)

    def knows(self, name: str) -> bool:
        """Say whether the table has a column of that name."""
        return any(fold(name) == fold(column) for column in self.table.columns)

    def reference(self, node: exp.Column, span: Span) -> ColumnRef:
        """Resolve a column of a private table for use in an expression."""
        column = self.column(node, span)
        type_ = column.type
        if type_.kind is Kind.DECIMAL:
            type_ = decimal(type_.scale)
        bounded = column.bounds is not None
        return ColumnRef(
            span, column.name, type_, column.interval, bounded, column.grid, column.keys
        )

    def check_qualifier(self, node: exp.Column, span: Span) -> None:
        """Refuse what stands before a column unless it is the table's name in this query."""
        if (
            node.args.get("db")
            or node.args.get("catalog")
            or (node.table and fold(node.table) != fold(self.alias))
        ):
            raise NameRefused(
                Diagnostic(
                    "DPQ201",
                    f"there is no table {node.table!r} in this query",
                    span,
                    f"the table here is {self.alias}",
                    ("a column is named alone, or after the name its table has in the query.",),
                    (f"{written_name(self.alias)}.{written_name(node.name)}",),
                )
            )


def resolve_table(node: exp.Table, policy: Policy, span: Span) -> Table:
    """Find a table by its policy name, or by a path quoted byte for byte from the policy.

    Raises:
        NameRefused: DPQ201 no such table.
    """
    written = node.name
    if isinstance(node.this, exp.Identifier) and not node.args.get("db"):
        for table in policy.tables.values():
            if fold(table.name) == fold(written):
                return table
        if node.this.quoted:
            for table in policy.tables.values():
                if written in table.written:
                    return table
    shown = written[:80]
    if node.args.get("db"):
        shown = ".".join(part.name for part in node.parts)[:80]
    near = nearest(written, policy.tables)
    offered = near or next(iter(policy.tables), "")
    raise NameRefused(
        Diagnostic(
            "DPQ201",
            f"there is no table {shown!r} in this session"
            if isinstance(node.this, exp.Identifier)
            else "a function cannot be asked like a table",
            span,
            "not in the policy",
            (
                "queries reach only the tables that the policy names;",
                "no other file can be opened, by path or by a function.",
            ),
            (
                f"FROM {written_name(offered)}",
                f"tables here: {listed_names(policy.tables, near)}",
            ),
        )
    )


def unknown_column(node: exp.Column, known: Iterable[str], table: str, span: Span) -> NoReturn:
    """Refuse a column that the policy does not list; in double quotes, a text was meant."""
    columns, name = list(known), node.name
    near = nearest(name, columns)
    offered = written_name(near or columns[0])
    why = "columns that the policy does not list do not exist for queries."
    if near is None and node.this.quoted:
        offered = "'" + name.replace("'", "''") + "'"
        why = "in double quotes stands a name; a text stands in single ones."
    raise NameRefused(
        Diagnostic(
            "DPQ204",
            f"there is no column {name[:80]!r} in {table}",
            span,
            "not in the policy",
            (why,),
            (offered, f"columns here: {listed_names(columns, near)}"),
        )
    )
