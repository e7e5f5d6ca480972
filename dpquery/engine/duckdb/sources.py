"""Where private rows come from: each table is one view, over whatever holds its rows.

A kind of source is one case in each function here. Scans name the view and read nothing else:
`verify.py` insists on that, and a view is made of the policy alone, never of a query.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import assert_never

import duckdb

from dpquery.engine.duckdb.connection import execute, quoted, stored, stored_misfits, text
from dpquery.engine.files import DataChanged, Fingerprint, of_state
from dpquery.policy.external import opened
from dpquery.policy.model import DatabaseTable, External, Files, Table
from dpquery.policy.schema import Misfit, file_misfits


def view_name(table: Table) -> str:
    """Return the name of the view of a table's rows: no other relation is called so."""
    return f"t:{table.name}"


def attach(connection: duckdb.DuckDBPyConnection, tables: Iterable[Table]) -> list[Path]:
    """Open what tables are read from, before the file system is shut.

    Returns:
        The files that have to stay within reach.
    """
    sources = [table.source for table in tables]
    databases = {str(one.database) for one in sources if isinstance(one, DatabaseTable)}
    for database in sorted(databases):
        connection.execute(f"ATTACH {text(database)} AS {quoted(database)} (READ_ONLY)")
    return [path for one in sources if isinstance(one, Files) for path in one.paths]


def define(connection: duckdb.DuckDBPyConnection, table: Table, state: Fingerprint) -> None:
    """Make the view of a table, for the schema that its source has in a state.

    Raises:
        DataChanged: a copy would be of another state.
    """
    if isinstance(table.source, External):
        _copy(connection, table, table.source, state)
    view = quoted(view_name(table))
    connection.execute(f"CREATE OR REPLACE VIEW {view} AS {rows_sql(table)}")


def _copy(
    connection: duckdb.DuckDBPyConnection, table: Table, source: External, state: Fingerprint
) -> None:
    """Copy the rows of a state into memory: no library has to read one state twice alike."""
    snapshot = opened(source)
    if of_state(snapshot.state()) != state:
        raise DataChanged(f"{table.name} changed before it was copied")
    with connection.cursor() as beside:  # what is registered is gone with it
        beside.register("given", snapshot.read(_names(table)))
        execute(beside, f"CREATE OR REPLACE TABLE {_copied(table)} AS FROM given")


def _copied(table: Table) -> str:
    return quoted(f"s:{table.name}")


def _names(table: Table) -> list[str]:
    return [*dict.fromkeys([*table.columns, *([] if table.unit is None else [table.unit])])]


def rows_sql(table: Table) -> str:
    """Write the rows of a table: the columns that the policy names, as their source has them.

    No value can make it fail, and each row depends on its own place in the source alone.
    """
    columns = ", ".join(map(quoted, _names(table)))
    match table.source:
        case DatabaseTable() as source:
            return f"SELECT {columns} FROM {stored(source)}"
        case Files(paths):
            # By name, so that a column gets the widest type among the files: the first file's
            # could not hold the values of the others.
            listed = ", ".join(text(str(path)) for path in paths)
            settings = "union_by_name=true, hive_partitioning=false, filename=false"
            return f"SELECT {columns} FROM read_parquet([{listed}], {settings})"
        case External():
            return f"SELECT {columns} FROM {_copied(table)}"
        case other:
            assert_never(other)


def misfits(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    """Return how the schema of a table's source differs from the policy, for the owner."""
    match table.source:
        case DatabaseTable():
            return stored_misfits(connection, table)
        case Files() | External():
            return file_misfits(table)
        case other:
            assert_never(other)
