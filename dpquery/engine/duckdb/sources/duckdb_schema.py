"""Tables and views of DuckDB files: their columns, and how they differ from the policy.

A collation goes with a column through every cast and function, and rows are told apart by
values alone, so such columns are refused. What is computed, in a view or a column, has to
give the same each time, for each row by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

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
from dpquery.engine.duckdb.connection import lock, start
from dpquery.engine.duckdb.quoting import duckdb_name, quoted, stored, text
from dpquery.engine.duckdb.sources.view_plans import collated, plan_of, types_of, why_not
from dpquery.policy.document import Unfit, written
from dpquery.policy.model import Column, DatabaseTable, Table
from dpquery.policy.sources.schema import Found, Schema, fitted, schema_from
from dpquery.policy.sources.schema_mismatches import Misfit, compare
from dpquery.policy.value_parsers import read_name

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
