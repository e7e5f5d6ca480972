"""Name resolution, all of it: nothing is left to the engine's own rules.

Names are compared after folding ASCII letters, and no others, which is what DuckDB does:
Python's `lower` would fold more, and the two would disagree about what a name means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, listed, nearest
from dpquery.ir import ColumnRef, decimal
from dpquery.policy.model import Column, Policy, Table
from dpquery.source import Span
from dpquery.types import Kind

__all__ = ["Scope", "fold", "resolve_table", "unknown_column"]

_ASCII = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def fold(name: str) -> str:
    """Fold the ASCII letters of a name.

    >>> fold("Staff"), fold("É")
    ('staff', 'É')
    """
    return name.translate(_ASCII)


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
        unknown_column(node.name, self.table.columns, self.table.name, span)

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
        return ColumnRef(span, column.name, type_, column.interval, bounded, column.grid)

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
                    (f"{self.alias}.{node.name}",),
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
                f"FROM {near or next(iter(policy.tables), 'a_table')}          "
                f"tables here: {listed(policy.tables, near)}",
            ),
        )
    )


def unknown_column(name: str, known: Iterable[str], table: str, span: Span) -> NoReturn:
    """Refuse a column that the policy does not list."""
    columns = list(known)
    near = nearest(name, columns)
    raise NameRefused(
        Diagnostic(
            "DPQ204",
            f"there is no column {name[:80]!r} in {table}",
            span,
            "not in the policy",
            ("columns that the policy does not list do not exist for queries.",),
            (f"{near or 'one of the columns'}          columns here: {listed(columns, near)}",),
        )
    )
