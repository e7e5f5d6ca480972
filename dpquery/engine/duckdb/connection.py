"""Opens DuckDB with everything off that a query here does not need, and locks it.

DuckDB says of itself that its settings are no privilege boundary: the wall is that only text
made by us reaches it. These pins are the second wall, and they fix semantics that the plan
relies on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import TypeVar

import duckdb
import pyarrow as pa

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
        names = dict.fromkeys(name for path in paths for name in (str(path), found_by(path)))
        connection.execute("SET allowed_paths = ?", [[*names]])
    connection.execute("SET enable_external_access = false")
    if not paths:
        connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
    connection.execute("SET lock_configuration = true")


def found_by(path: Path) -> str:
    """Return the pattern by which a reader finds one file, whatever stands in its name.

    >>> found_by(Path("city=x[y]/*.parquet"))
    'city=x[[]y]/[*].parquet'
    """
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


_UNITS = {"bytes": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}


def memory_of(connection: duckdb.DuckDBPyConnection) -> int:
    """Return how many bytes DuckDB may take for a query."""
    found = execute(connection, "SELECT current_setting('memory_limit')").fetchone()
    number, unit = (found or ("0 bytes",))[0].split()
    return int(float(number) * 1024 ** _UNITS[unit])


def load(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Make a table of rows; a result that is still being read stays as it is."""
    with connection.cursor() as beside:
        beside.register("given", rows)
        beside.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")


@contextmanager
def lent(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[pa.Table], letter: str = "f"
) -> Iterator[None]:
    """Lend tables to the engine, as f0, f1, ..., for one query."""
    for number, table in enumerate(tables):
        connection.register(f"{letter}{number}", table)
    try:
        yield
    finally:
        for number in range(len(tables)):
            connection.unregister(f"{letter}{number}")


def execute(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyConnection:
    """Run a query that may take long, so that ctrl-C stops it."""
    return waited(connection, lambda: connection.execute(sql))


def waited(connection: duckdb.DuckDBPyConnection, ask: Callable[[], T]) -> T:
    """Return what a query gives; ctrl-C stops it within a moment.

    DuckDB looks for signals between tasks of the main thread, and a task may last as long as
    the query; what it raises then would pass for a failed scan. So the query runs beside the
    main thread, which waits as Python waits.
    """
    if current_thread() is not main_thread():  # no other thread ever sees ctrl-C
        return ask()
    asked: Future[T] = Future()
    try:
        _begin(asked, ask)
        return asked.result()
    except KeyboardInterrupt:
        while not (asked.done() or asked.cancel()):
            with suppress(KeyboardInterrupt):  # impatience must not leave the query running
                connection.interrupt()  # anew: a query that begins forgets what came before
                wait([asked], timeout=0.05)
        raise


def begun(make: Callable[[], T]) -> Future[T]:
    """Begin to make something while this thread goes on: DuckDB leaves Python to others.

    A process that ends waits for it: it would break off if a daemon were stopped inside DuckDB.
    """
    made: Future[T] = Future()
    _begin(made, make)
    return made


def _begin(asked: Future[T], ask: Callable[[], T]) -> None:
    Thread(target=_settle, args=(asked, ask)).start()


def _settle(asked: Future[T], ask: Callable[[], T]) -> None:
    """Ask, unless nobody waits any more, and keep what comes for whoever does."""
    if not asked.set_running_or_notify_cancel():
        return
    try:
        asked.set_result(ask())
    except Exception as fault:  # noqa: BLE001 - raised again where it is waited for
        asked.set_exception(fault)
