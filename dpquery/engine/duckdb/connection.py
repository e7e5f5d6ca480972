"""Opens DuckDB with everything off that a query here does not need, and locks it.

DuckDB says of itself that its settings are no privilege boundary: the wall is that only text
made by us reaches it. These pins are the second wall, and they fix semantics that the plan
relies on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import Generic, TypeVar

import duckdb

__all__ = ["KEY", "PINS", "execute", "lock", "quoted", "start", "text", "waited"]

T = TypeVar("T")

KEY = "ledger_secret"
"""The variable that holds the key of the hashes which choose among what one unit has."""
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
    # Units whose numbers span at most 2^22 are counted in arrays: three times as fast.
    ("perfect_ht_threshold", "22"),
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


def execute(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyConnection:
    """Run a query that may take long, so that ctrl-C stops it."""
    return waited(connection, lambda: connection.execute(sql))


def waited(connection: duckdb.DuckDBPyConnection, ask: Callable[[], T]) -> T:
    """Give what a query gives; ctrl-C stops it within a moment.

    DuckDB looks for signals between tasks of the main thread, and a task may last as long as
    the query; what it raises then would pass for a failed scan. So the query runs beside the
    main thread, which waits as Python waits.
    """
    if current_thread() is not main_thread():  # no other thread ever sees ctrl-C
        return ask()
    waiting: _Waiting[T] = _Waiting(ask)
    Thread(target=waiting.run, daemon=True).start()
    try:
        waiting.done.wait()
    except KeyboardInterrupt:
        while not waiting.done.is_set():
            with suppress(KeyboardInterrupt):  # impatience must not leave the query running
                connection.interrupt()  # anew: a query that begins forgets what came before
                waiting.done.wait(0.05)
        raise
    return waiting.result()


class _Waiting(Generic[T]):
    """What a query gives or raises, once it is done."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self.done = Event()
        self._ask = ask
        self._given: list[T] = []
        self._raised: Exception | None = None

    def run(self) -> None:
        """Ask, and keep what comes."""
        try:
            self._given.append(self._ask())
        except Exception as fault:  # noqa: BLE001 - raised again where it is waited for
            self._raised = fault
        finally:
            self.done.set()

    def result(self) -> T:
        """Give what was given, or raise what was raised."""
        if self._raised is not None:
            raise self._raised
        return self._given[0]


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
