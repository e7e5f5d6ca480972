"""Opens DuckDB with everything off that a query here does not need, and locks it.

DuckDB says of itself that its settings are no privilege boundary: the wall is that only text
made by us reaches it. These pins are the second wall, and they fix semantics that the plan
relies on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from dpquery.core.types import (
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS,
    DOUBLE,
    INTEGER,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
)
from dpquery.engine.duckdb.sources.row_wise import collated, plan_of, types_of, why_not
from dpquery.policy.document import Unfit, written
from dpquery.policy.model import Column, DatabaseTable, Table
from dpquery.policy.sources.schema import Found, Misfit, Schema, compare, fitted, schema_from
from dpquery.policy.values import read_name

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

    >>> duckdb_name(Type(Kind.DECIMAL, 9, 2)), duckdb_name(TEXT)
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


# The columns of a table or a view in a DuckDB file: their types, and what they are beside.
#
# A collation goes with a column through every cast and function, and rows are told apart by
# values alone, so such columns are refused. What is computed, in a view or a column, has to
# give the same each time, for each row by itself.


INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
"""Types of which every value is a BIGINT."""
_TYPES = {
    **dict.fromkeys(INTEGERS, INTEGER),
    "UBIGINT": Type(Kind.DECIMAL, 20),
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), Type(Kind.DECIMAL, DECIMAL_DIGITS)),
    **dict.fromkeys(("FLOAT", "DOUBLE"), DOUBLE),
    **dict.fromkeys(("VARCHAR", "UUID"), TEXT),
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS"), TIMESTAMP),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"), TIMESTAMPTZ),
    **dict.fromkeys(("TIME", "TIME_NS"), TIME),
}
_AS_THEY_ARE = {name for name, type_ in _TYPES.items() if duckdb_name(type_) == name} | {
    *INTEGERS,
    "FLOAT",
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def database_schema(connection: duckdb.DuckDBPyConnection, origin: str) -> Schema:
    """Return the columns of a table, with a type where a policy can declare it."""
    rows = connection.sql(f"SELECT * FROM {origin}")
    return schema_from(_flat(zip(rows.columns, rows.types, strict=True)), {})


def _flat(columns: Iterable[tuple[str, Any]], before: tuple[str, ...] = ()) -> Iterator[Found]:
    """Yield columns, and in the place of structures their fields."""
    for name, type_ in columns:
        called = str(type_)
        if type_.id == "struct":
            yield from _flat(type_.children, (*before, name))
        else:
            yield Found((*before, name), _type(called), called, not _as_it_is(called))


def _type(name: str) -> Type | None:
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        return Type(Kind.DECIMAL, int(decimal[1]), int(decimal[2]))
    if name.endswith("[]"):
        inner = _type(name[:-2])
        return None if inner is None or inner.listed else replace(inner, listed=True)
    return TEXT if name.startswith("ENUM(") else _TYPES.get(name)


def _as_it_is(name: str) -> bool:
    name = name.removesuffix("[]")
    return name in _AS_THEY_ARE or _DECIMAL.fullmatch(name) is not None


_UNRESOLVED = "cannot be resolved by what its file holds"


def unplain_columns(
    connection: duckdb.DuckDBPyConnection, table: Table
) -> list[tuple[str, str]]:
    """Return the columns of a stored table that are more than values, each with what it is.

    Of those that the policy names, the unit among them; what is missing is not here. What is
    said of a view, or of what several columns have in common, is of `*`. The file is attached
    under its path.
    """
    source = table.source
    assert isinstance(source, DatabaseTable)  # noqa: S101 - the caller looked
    origin = stored(source)
    try:
        schema = database_schema(connection, origin)
    except duckdb.Error:
        return [("*", f"{source.table} {_UNRESOLVED}")]
    unit = table.unit if table.through is None else table.through.column
    named = [name for name in schema.written if name in {*table.held, unit}]
    names = [*dict.fromkeys(schema.paths.get(name, (name,))[0] for name in named)]
    if not names:
        return []
    plan = plan_of(connection, f"SELECT {', '.join(map(quoted, names))} FROM {origin}")
    why = _UNRESOLVED if plan is None else why_not(plan, str(source.database))
    if plan is not None and why is None:
        shown = zip(names, types_of(plan), strict=True)
        return [(name, "has a collation") for name, type_ in shown if collated(type_)]
    alone = [
        (name, plan_of(connection, f"SELECT {quoted(name)} FROM {origin}")) for name in names
    ]
    found = [
        (name, f"{source.table} {one}")
        for name, by_itself in alone
        if by_itself is not None and (one := why_not(by_itself, str(source.database)))
    ]
    return found if 0 < len(found) < len(names) else [("*", f"{source.table} {why}")]


# Whether a table of a DuckDB file is what the policy says: its catalogue, and no row of it.


_NAMED = """
    SELECT schema_name FROM duckdb_tables()
    WHERE database_name = $1 AND lower(table_name) = lower($2)
    UNION ALL
    SELECT schema_name FROM duckdb_views()
    WHERE database_name = $1 AND lower(view_name) = lower($2)
"""


_TABLES = """
    SELECT schema_name, table_name FROM duckdb_tables()
    WHERE database_name = $1 AND NOT internal
    UNION ALL
    SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = $1 AND NOT internal
    ORDER BY ALL
"""


def fit_in_file(table: Table) -> tuple[Table, list[Misfit]]:
    """Return a table in a DuckDB file with where its columns are, and how it differs."""
    source = table.source
    assert isinstance(source, DatabaseTable)  # noqa: S101 - other tables have files
    database = str(source.database)
    with closing(start()) as connection:
        try:
            connection.execute(f"ATTACH {text(database)} AS {quoted(database)} (READ_ONLY)")
            lock(connection, [source.database])  # a view may name any file
            misfits = stored_misfits(connection, table)
            return table if misfits else stored_fitted(connection, table), misfits
        except duckdb.Error:
            why = "cannot be opened as a DuckDB file, or another program writes to it"
            return table, [Misfit(None, f"{source.database.name} {why}")]


def stored_fitted(connection: duckdb.DuckDBPyConnection, table: Table) -> Table:
    """Return a table of a DuckDB file, attached under its path, with where its columns are."""
    source = table.source
    assert isinstance(source, DatabaseTable)  # noqa: S101 - other tables have files
    return fitted(table, [database_schema(connection, stored(source))])


def schemas_in_file(database: Path) -> dict[tuple[str, str], Schema]:
    """Return what of the tables and views of a DuckDB file a policy can declare, by name."""
    if database.with_name(f"{database.name}.wal").exists():
        what = f"names a DuckDB file with changes beside it: {written(str(database))}"
        why = "to open it would be to read these, and they are rows."
        close = f"duckdb.connect({str(database)!r}).execute('CHECKPOINT')"
        raise Unfit(what, why, f'python -c "import duckdb; {close}"', code="DPQ601")
    with closing(start()) as connection:
        try:
            connection.execute(
                f"ATTACH {text(str(database))} AS {quoted(str(database))} (READ_ONLY)"
            )
            lock(connection, [database])  # a view may name any file
            named = connection.execute(_TABLES, [str(database)]).fetchall()
            tables = [DatabaseTable(database, name, schema) for schema, name in named]
            return {(one.schema, one.table): _plain_schema(connection, one) for one in tables}
        except duckdb.Error:
            what = f"names no DuckDB file that can be opened: {written(str(database))}"
            why = "it is of another kind, is not there, or another program writes to it."
            raise Unfit(
                what, why, "mend the path, or close that program", code="DPQ601"
            ) from None


def _plain_schema(connection: duckdb.DuckDBPyConnection, source: DatabaseTable) -> Schema:
    """Return the columns of a stored table, without those that are more than values."""
    try:
        schema = database_schema(connection, stored(source))
    except duckdb.Error:  # a view of what is no longer there
        return Schema({}, written={"*": _UNRESOLVED})
    columns = {one: Column(one, type_) for one, type_ in schema.types.items()}
    unplain = dict(unplain_columns(connection, Table(source.table, source, (), columns)))
    if (why := unplain.get("*")) is not None:
        unplain = dict.fromkeys(schema.written, why)
    fits = {n: type_ for n, type_ in schema.types.items() if read_name.fits(n)}
    types = {name: type_ for name, type_ in fits.items() if name not in unplain}
    return replace(schema, types=types, left_out={**schema.left_out, **unplain})


def stored_misfits(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    """Return how a table of a DuckDB file, attached under its path, differs from the policy."""
    source = table.source
    assert isinstance(source, DatabaseTable)  # noqa: S101 - other tables have files
    lacking = _lacking(connection, source)
    if lacking is not None:
        return [Misfit(None, f"{source.database.name} {lacking}")]
    unplain = [Misfit(name, why) for name, why in unplain_columns(connection, table)]
    if unplain:
        return unplain
    return compare(table, database_schema(connection, stored(source)), source.table)


def _lacking(connection: duckdb.DuckDBPyConnection, source: DatabaseTable) -> str | None:
    """Return what a database has in the place of a table; None if it has the table."""
    asked = [str(source.database), source.table]
    found = [schema for (schema,) in connection.execute(_NAMED, asked).fetchall()]
    if source.schema.lower() in map(str.lower, found):
        return None
    if found:
        there = f'table = "{found[0]}.{source.table}"'
        return f"has {source.table} in the schema {found[0]}, not {source.schema}: {there}"
    return f"has no table named {source.table}"
