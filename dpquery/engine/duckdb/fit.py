"""Whether a table of a DuckDB file is what the policy says: its catalogue, and no row of it."""

from __future__ import annotations

from contextlib import closing

import duckdb

from dpquery.engine.duckdb.connection import quoted, start, text
from dpquery.engine.duckdb.schema import database_schema, unplain_columns
from dpquery.policy.fit import Misfit, compare
from dpquery.policy.model import DatabaseTable, Table

__all__ = ["misfits_in_file", "stored_misfits"]

_NAMED = """
    SELECT 'table', schema_name FROM duckdb_tables()
    WHERE database_name = $1 AND lower(table_name) = lower($2)
    UNION ALL
    SELECT 'view', schema_name FROM duckdb_views()
    WHERE database_name = $1 AND lower(view_name) = lower($2)
"""


def misfits_in_file(table: Table) -> list[Misfit]:
    """Return how a table in a DuckDB file differs from the policy."""
    source = table.source
    assert isinstance(source, DatabaseTable)  # noqa: S101 - other tables have files
    database = str(source.database)
    with closing(start()) as connection:
        try:
            connection.execute(f"ATTACH {text(database)} AS {quoted(database)} (READ_ONLY)")
            return stored_misfits(connection, table)
        except duckdb.Error:
            why = "cannot be opened as a DuckDB file, or another program writes to it"
            return [Misfit(None, f"{source.database.name} {why}")]


def stored_misfits(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    """Return how a table of a DuckDB file, attached under its path, differs from the policy."""
    source = table.source
    assert isinstance(source, DatabaseTable)  # noqa: S101 - other tables have files
    lacking = _lacking(connection, source)
    if lacking is not None:
        return [Misfit(None, f"{source.database.name} {lacking}")]
    unplain = [Misfit(name, why) for name, why in unplain_columns(connection, table)]
    origin = f"{quoted(str(source.database))}.main.{quoted(source.table)}"
    return unplain or compare(table, database_schema(connection, origin), source.table)


def _lacking(connection: duckdb.DuckDBPyConnection, source: DatabaseTable) -> str | None:
    """Say what a database has in the place of a table; None if it has the table."""
    asked = [str(source.database), source.table]
    found = connection.execute(_NAMED, asked).fetchall()
    if ("table", "main") in found:
        return None
    for kind, schema in found:
        if kind == "view":
            return f"has a view named {source.table}: store its rows in a table"
        return f"has {source.table} in the schema {schema}, and only main is read"
    return f"has no table named {source.table}"
