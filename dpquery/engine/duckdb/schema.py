"""DuckDB's names of types, read into the policy's types."""

from __future__ import annotations

import re

import duckdb

from dpquery.policy.model import DatabaseTable
from dpquery.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type

__all__ = ["database_types", "duckdb_name", "is_stored"]

_TYPES = {
    "TINYINT": INTEGER,
    "SMALLINT": INTEGER,
    "INTEGER": INTEGER,
    "BIGINT": INTEGER,
    "UTINYINT": INTEGER,
    "USMALLINT": INTEGER,
    "UINTEGER": INTEGER,
    "FLOAT": DOUBLE,
    "DOUBLE": DOUBLE,
    "VARCHAR": TEXT,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
}
_MADE = """
    SELECT sql FROM duckdb_tables()
    WHERE database_name = ? AND schema_name = 'main' AND lower(table_name) = lower(?)
"""
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def database_types(connection: duckdb.DuckDBPyConnection, origin: str) -> dict[str, Type]:
    """Give the columns of a table that have a type a policy can declare."""
    found: dict[str, Type] = {}
    for name, written, *_ in connection.execute(f"DESCRIBE SELECT * FROM {origin}").fetchall():
        decimal = _DECIMAL.fullmatch(written)
        if decimal:
            found[name] = Type(Kind.DECIMAL, int(decimal[1]), int(decimal[2]))
        elif written in _TYPES:
            found[name] = _TYPES[written]
    return found


def is_stored(connection: duckdb.DuckDBPyConnection, source: DatabaseTable) -> bool:
    """Say whether a database holds all values of a table.

    A view, and a column that is generated, may give others each time: a scan that reads twice
    would then weigh other rows than it counts.
    """
    made = connection.execute(_MADE, [str(source.database), source.table]).fetchone()
    return made is not None and "GENERATED ALWAYS AS" not in made[0].upper()


def duckdb_name(type_: Type) -> str:
    """Give DuckDB's name of a declared type.

    >>> duckdb_name(Type(Kind.DECIMAL, 9, 2)), duckdb_name(TEXT)
    ('DECIMAL(9, 2)', 'VARCHAR')
    """
    names = {Kind.INTEGER: "BIGINT", Kind.TEXT: "VARCHAR"}
    if type_.kind is Kind.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return names.get(type_.kind, type_.kind.value.upper())
