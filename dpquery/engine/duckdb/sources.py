"""Where private rows come from: each table is one view, over whatever holds its rows.

A kind of source is one case in each function here. Scans name the view and read nothing else:
`verify.py` insists on that, and a view is made of the policy alone, never of a query.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import assert_never

import duckdb

from dpquery.engine.duckdb.connection import (
    duckdb_name,
    quoted,
    stored,
    stored_misfits,
    text,
)
from dpquery.engine.duckdb.expr_sql import cast
from dpquery.policy.model import DatabaseTable, Files, Table
from dpquery.policy.schema import Misfit, file_misfits


def view_name(table: Table) -> str:
    """Return the name of the view of a table's rows: no other relation is called so."""
    return f"t:{table.name}"


def attach(connection: duckdb.DuckDBPyConnection, tables: Iterable[Table]) -> list[Path]:
    """Open what tables are read from, before the file system is shut.

    Returns:
        The files that have to stay within reach.
    """
    sources = [one.source for table in tables for one in table.way]
    databases = {str(one.database) for one in sources if isinstance(one, DatabaseTable)}
    for database in sorted(databases):
        connection.execute(f"ATTACH {text(database)} AS {quoted(database)} (READ_ONLY)")
    return [path for one in sources if isinstance(one, Files) for path in one.paths]


def define(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Make the view of a table, for the schema that its source has now."""
    view = quoted(view_name(table))
    connection.execute(f"CREATE OR REPLACE VIEW {view} AS {rows_sql(table)}")


def rows_sql(table: Table) -> str:
    """Write the rows of a table: the columns that the policy names, and the unit.

    Where other tables say whose the rows are, each row is there once for each unit that claims
    its key: `Through` has the reasons. The unit is that of the claims, whatever other columns
    the files have.
    """
    own, through = own_rows_sql(table), table.through
    if through is None:
        return own
    key, unit = quoted(through.key), quoted(table.unit or "")
    claims = (
        f"SELECT DISTINCT {cast(key, duckdb_name(through.type))} AS k, {unit} AS u "
        f"FROM ({rows_sql(through.table)}) WHERE {key} IS NOT NULL AND {unit} IS NOT NULL"
    )
    columns = "".join(f"r.{quoted(name)}, " for name in table.columns)
    return (
        f"SELECT {columns}c.u AS {unit} FROM ({own}) AS r "
        f"JOIN ({claims}) AS c ON r.{quoted(through.column)} = c.k"
    )


def own_rows_sql(table: Table) -> str:
    """Write what a table's own source holds: the columns that the policy names.

    No value can make it fail, and each row depends on its own place in the source alone.
    """
    owner = table.unit if table.through is None else table.through.column
    names = dict.fromkeys([*table.columns, *([] if owner is None else [owner])])
    columns = ", ".join(map(quoted, names))
    match table.source:
        case DatabaseTable() as source:
            return f"SELECT {columns} FROM {stored(source)}"
        case Files(paths):
            # By name, so that a column gets the widest type among the files: the first file's
            # could not hold the values of the others.
            listed = ", ".join(text(str(path)) for path in paths)
            settings = "union_by_name=true, hive_partitioning=false, filename=false"
            return f"SELECT {columns} FROM read_parquet([{listed}], {settings})"
        case other:
            assert_never(other)


def misfits(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    """Return how schemas of sources differ from the policy: of a table, and on its way."""
    return [misfit for one in table.way for misfit in _own_misfits(connection, one)]


def _own_misfits(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    match table.source:
        case DatabaseTable():
            return stored_misfits(connection, table)
        case Files():
            return file_misfits(table)
        case other:
            assert_never(other)
