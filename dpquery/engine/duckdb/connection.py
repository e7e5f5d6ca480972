"""Opens DuckDB with everything off that a query here does not need, and locks it.

DuckDB says of itself that its settings are no privilege boundary: the wall is that only text
made by us reaches it. These pins are the second wall, and they fix semantics that the plan
relies on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

__all__ = ["PINS", "lock", "quoted", "start", "text"]

PINS: tuple[tuple[str, str], ...] = (
    # Nothing is fetched, loaded or stored on the side.
    ("autoinstall_known_extensions", "false"),
    ("autoload_known_extensions", "false"),
    ("allow_community_extensions", "false"),
    ("allow_persistent_secrets", "false"),
    # A name that DuckDB cannot resolve must not be looked up among Python's variables.
    ("python_enable_replacements", "false"),
    # Spilled rows would stand unencrypted on disk. Has to come before external access goes off.
    ("temp_directory", "''"),
    ("enable_progress_bar", "false"),
    # Semantics: results must not depend on where the engine runs, and division must not raise.
    ("TimeZone", "'UTC'"),
    ("error_on_division_by_zero", "false"),
    ("ieee_floating_point_ops", "true"),
    ("integer_division", "false"),
    ("default_collation", "''"),
    ("default_null_order", "'NULLS_LAST'"),
    ("dialect_compatibility_mode", "'NONE'"),
    ("max_expression_depth", "1000"),
)


def start() -> duckdb.DuckDBPyConnection:
    """Open an in-memory instance with the pins, files still within reach."""
    connection = duckdb.connect(":memory:")
    for name, value in PINS:
        connection.execute(f"SET {name} = {value}")
    return connection


def lock(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> None:
    """Shut the file system but for the paths given, and let no setting change after."""
    if paths:
        allowed = ", ".join(text(str(path)) for path in paths)
        connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    if not paths:
        connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
    connection.execute("SET lock_configuration = true")


def quoted(name: str) -> str:
    """Write a name so that it can only be a name.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Write a text so that it can only be a text.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"
