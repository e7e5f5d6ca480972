"""Names, texts and types as they stand in DuckDB's SQL."""

from __future__ import annotations

from dataclasses import replace

from dpquery.core.types import Kind, Type
from dpquery.policy.model import DatabaseTable


def quoted(name: str) -> str:
    """Write a name so that it can only be a name.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def stored(source: DatabaseTable) -> str:
    """Write the whole name of a table in a DuckDB file that is attached under its path."""
    return ".".join(map(quoted, (str(source.database), source.schema, source.table)))


def text(value: str) -> str:
    """Write a text so that it can only be a text.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def duckdb_name(type_: Type) -> str:
    """Return DuckDB's name of a declared type.

    >>> duckdb_name(Type(Kind.DECIMAL, 9, 2)), duckdb_name(Type(Kind.TEXT))
    ('DECIMAL(9, 2)', 'VARCHAR')
    """
    if type_.listed:
        return f"{duckdb_name(replace(type_, listed=False))}[]"
    names = {
        Kind.INTEGER: "BIGINT",
        Kind.TEXT: "VARCHAR",
        Kind.TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
    }
    if type_.kind is Kind.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return names.get(type_.kind, type_.kind.value.upper())
