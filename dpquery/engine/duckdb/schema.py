"""What a DuckDB file says of its tables: names of columns, and types as a policy has them."""

from __future__ import annotations

import re
from contextlib import closing

import duckdb

from dpquery.engine.duckdb.connection import quoted, start, text
from dpquery.policy.fit import Misfit, compare
from dpquery.policy.model import DatabaseTable, Table
from dpquery.policy.schema import Schema
from dpquery.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type

__all__ = ["database_schema", "duckdb_name", "misfits_in_file", "stored_misfits"]

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
_NAMED = """
    SELECT 'table', schema_name FROM duckdb_tables()
    WHERE database_name = $1 AND lower(table_name) = lower($2)
    UNION ALL
    SELECT 'view', schema_name FROM duckdb_views()
    WHERE database_name = $1 AND lower(view_name) = lower($2)
"""
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def database_schema(connection: duckdb.DuckDBPyConnection, origin: str) -> Schema:
    """Return the columns of a table, with a type where a policy can declare it."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {origin}").fetchall()
    written = {name: type_ for name, type_, *_ in described}
    types = {name: type_ for name, one in written.items() if (type_ := _type(one))}
    return Schema(types, written=written)


def _type(written: str) -> Type | None:
    decimal = _DECIMAL.fullmatch(written)
    if decimal:
        return Type(Kind.DECIMAL, int(decimal[1]), int(decimal[2]))
    return _TYPES.get(written)


def stored_misfits(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    """Return how a table of an attached DuckDB file differs from the policy.

    A view, and a column that is generated, may give other values each time: a scan that reads
    twice would then weigh other rows than it counts.
    """
    source = table.source
    assert isinstance(source, DatabaseTable)  # noqa: S101 - other tables have files
    made = connection.execute(_MADE, [str(source.database), source.table]).fetchone()
    if made is None:
        return [Misfit(None, f"{source.database.name} {_lacks(connection, source)}")]
    if "GENERATED ALWAYS AS" in made[0].upper():
        return [Misfit(None, f"{source.table} has generated columns: store their values")]
    origin = f"{quoted(str(source.database))}.main.{quoted(source.table)}"
    return compare(table, database_schema(connection, origin), source.table)


def _lacks(connection: duckdb.DuckDBPyConnection, source: DatabaseTable) -> str:
    """Say what a database has in the place of a table."""
    asked = [str(source.database), source.table.rpartition(".")[2]]
    found = connection.execute(_NAMED, asked).fetchall()
    for kind, schema in found:
        if kind == "view":
            return f"has a view named {source.table}: store its rows in a table"
        return f"has {source.table} in the schema {schema}, and only main is read"
    return f"has no table named {source.table}"


def misfits_in_file(table: Table) -> list[Misfit]:
    """Return how a table in a DuckDB file differs from the policy; its catalogue is read."""
    source = table.source
    assert isinstance(source, DatabaseTable)  # noqa: S101 - other tables have files
    database = str(source.database)
    with closing(start()) as connection:
        try:
            connection.execute(f"ATTACH {text(database)} AS {quoted(database)} (READ_ONLY)")
            return stored_misfits(connection, table)
        except duckdb.Error:
            why = "cannot be opened as a DuckDB file; or another program writes to it"
            return [Misfit(None, f"{source.database.name} {why}")]


def duckdb_name(type_: Type) -> str:
    """Give DuckDB's name of a declared type.

    >>> duckdb_name(Type(Kind.DECIMAL, 9, 2)), duckdb_name(TEXT)
    ('DECIMAL(9, 2)', 'VARCHAR')
    """
    names = {Kind.INTEGER: "BIGINT", Kind.TEXT: "VARCHAR"}
    if type_.kind is Kind.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return names.get(type_.kind, type_.kind.value.upper())
