"""What the columns of a DuckDB file are: their types, and what they bring beside values.

A collation goes with a column through every cast and function, and a column can be computed
anew each time. Rows are told apart by values alone, so such columns are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb

from dpquery.engine.duckdb.connection import quoted
from dpquery.policy.model import DatabaseTable, Table
from dpquery.policy.schema import Schema
from dpquery.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type

__all__ = ["database_schema", "duckdb_name", "unplain_columns"]

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
_STORED = """
    SELECT column_name, is_generated, data_type FROM duckdb_columns()
    JOIN duckdb_tables() USING (database_name, schema_name, table_name)
    WHERE database_name = ? AND schema_name = 'main' AND lower(table_name) = lower(?)
    ORDER BY column_index
"""
_PROBE = "SELECT sql FROM duckdb_tables() WHERE temporary AND table_name = 'probe'"
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


def unplain_columns(
    connection: duckdb.DuckDBPyConnection, table: Table
) -> list[tuple[str, str]]:
    """Return the columns of a stored table that are more than values, each with what it is.

    Of those that the policy names, the unit among them; what is missing is not here. A view is
    `*`: it may give other values each time, and a scan that reads twice would then weigh other
    rows than it counts. The file is attached under its path.
    """
    source = table.source
    assert isinstance(source, DatabaseTable)  # noqa: S101 - the caller looked
    rows = connection.execute(_STORED, [str(source.database), source.table]).fetchall()
    if not rows:
        return [("*", "is of a view, which computes it each time")]
    named = {*table.columns, table.unit}
    found = [(n, "is computed each time") for n, made, _ in rows if made and n in named]
    texts = [n for n, made, shown in rows if shown == "VARCHAR" and not made and n in named]
    origin = f"{quoted(str(source.database))}.main.{quoted(source.table)}"
    return found + [(n, "has a collation") for n in _collated(connection, origin, texts)]


def _collated(
    connection: duckdb.DuckDBPyConnection, origin: str, names: Sequence[str]
) -> list[str]:
    """Return the texts that are not compared by their bytes alone.

    DuckDB shows a collation nowhere but in the text of a table, where defaults and conditions
    stand too: so it is asked for the text of an empty one that has the columns alone.
    """
    if not names:
        return []
    listed = ", ".join(f"{quoted(name)} AS c{number}" for number, name in enumerate(names))
    try:
        connection.execute(f"CREATE TEMP TABLE probe AS SELECT {listed} FROM {origin} LIMIT 0")
        made = connection.execute(_PROBE).fetchone()
    finally:
        connection.execute("DROP TABLE IF EXISTS temp.probe")
    written = "" if made is None else made[0].replace(")", ",")
    return [name for i, name in enumerate(names) if f"c{i} VARCHAR," not in written]


def duckdb_name(type_: Type) -> str:
    """Give DuckDB's name of a declared type.

    >>> duckdb_name(Type(Kind.DECIMAL, 9, 2)), duckdb_name(TEXT)
    ('DECIMAL(9, 2)', 'VARCHAR')
    """
    names = {Kind.INTEGER: "BIGINT", Kind.TEXT: "VARCHAR"}
    if type_.kind is Kind.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return names.get(type_.kind, type_.kind.value.upper())
