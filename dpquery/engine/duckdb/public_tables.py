"""The rows of public tables, read whole as the policy declares them, or why they cannot be.

A session and `dpquery policy check` read them by the one function here. They are nobody's data,
so that what is wrong with them is said: which column, and how many of its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from dpquery.core.types import Type
from dpquery.engine.duckdb.connection import found_by, lent, lock, start
from dpquery.engine.duckdb.quoting import duckdb_name, quoted, stored, text
from dpquery.engine.duckdb.sources.duckdb_schema import fit_in_file
from dpquery.policy.model import Csv, DatabaseTable, Files, Format, Json, Parquet, Table
from dpquery.policy.sources.schema_mismatches import Misfit, file_misfits, why_unread
from dpquery.policy.value_parsers import ascii_folded


def load_public(
    connection: duckdb.DuckDBPyConnection, table: Table, relation: str
) -> list[Misfit]:
    """Make a relation of the rows of a public table, or return why they are not as declared."""
    try:
        with lent(connection, _stored_rows(table)):
            rows = f"SELECT {_listed(table)} FROM {_reader(table)}"
            connection.execute(f"CREATE TABLE {relation} AS {rows}")
        return _repeated(connection, table, relation) if table.unique else []
    except duckdb.Error:
        return _causes(connection, table)


def public_misfits(table: Table) -> list[Misfit]:
    """Return how a public table differs from the policy, as a session finds it: for the owner.

    A type of Parquet that is not the declared one is told although its values may be cast.
    """
    found = _schema_misfits(table)
    if found:
        return found
    with _loaded(table) as (_, found):
        return found


def public_rows(table: Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a public table as a session holds them, for the owner.

    Raises:
        OSError: they cannot be read.
    """
    with _loaded(table) as (connection, misfits):
        if misfits:
            raise OSError(str(misfits[0]))
        columns = ", ".join(map(quoted, names)) or "1 AS one"
        try:
            found_rows = connection.sql(f"SELECT {columns} FROM p0")
        except duckdb.Error:  # of columns that its files name otherwise
            raise OSError(f"{table.name} has no such columns") from None
        yield from found_rows.to_arrow_reader()


@contextmanager
def _loaded(table: Table) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[Misfit]]]:
    with closing(start()) as connection:
        connection.execute(f"SET TimeZone = {text(table.zone)}")
        yield connection, load_public(connection, table, "p0")


def _listed(table: Table) -> str:
    columns = table.columns.values()
    written = (f"{_cast(table, one.name, one.type)} AS {quoted(one.name)}" for one in columns)
    return ", ".join(written) or "*"


def _cast(table: Table, name: str, type_: Type, how: str = "CAST") -> str:
    source = table.source
    json = isinstance(source, Files) and isinstance(source.format, Json)
    value = f"{quoted(name)} ->> '$'" if json else quoted(name)
    return f"{how}({value} AS {duckdb_name(type_)})"


def _stored_rows(table: Table) -> list[pa.Table]:
    """Return the rows of a table in a DuckDB file, as values: without a collation."""
    source = table.source
    if not isinstance(source, DatabaseTable):
        return []
    with closing(start()) as own:
        database = str(source.database)
        own.execute(f"ATTACH {text(database)} AS {quoted(database)} (READ_ONLY)")
        lock(own, [source.database])  # a view may name any file
        return [own.sql(f"SELECT * FROM {stored(source)}").to_arrow_table()]


def _reader(table: Table, paths: Sequence[Path] | None = None, *, texts: bool = False) -> str:
    """Write what reads the rows of a table.

    Args:
        table: what is read.
        paths: some of its files, if not all.
        texts: whether values of CSV are read as they are written, whatever they look like.
    """
    source = table.source
    if not isinstance(source, Files):
        return "f0"
    files = ", ".join(text(found_by(path)) for path in paths or source.paths)
    match _read_as(source):
        case Parquet():
            return f"read_parquet([{files}], union_by_name=false, hive_partitioning=false)"
        case Json():  # fields are known by all lines; of declared ones, the text is cast
            apart = ", maximum_depth=1" if table.columns else ""
            return f"read_json([{files}], union_by_name=true, sample_size=-1{apart})"
        case _:
            settings = "header=true, union_by_name=false, hive_partitioning=false"
            return f"read_csv([{files}], {settings}{', all_varchar=true' * texts})"


def _read_as(source: Files) -> Format:
    """Return how DuckDB reads public files: those of no known name as CSV, of any delimiter."""
    if isinstance(source.format, Json):
        return source.format
    parquet = all(path.suffix.lower() == ".parquet" for path in source.paths)
    return Parquet() if parquet else Csv()


def _repeated(
    connection: duckdb.DuckDBPyConnection, table: Table, relation: str
) -> list[Misfit]:
    """Return how many rows are not told apart by the columns that are said to do it."""
    names = ", ".join(map(quoted, table.unique))
    missing = " OR ".join(f"{quoted(column)} IS NULL" for column in table.unique)
    different = f"SELECT DISTINCT {names} FROM {relation} WHERE NOT ({missing})"
    counts = f"count(*), count(*) FILTER ({missing}), (SELECT count(*) FROM ({different}))"
    ((rows, nulls, values),) = connection.execute(f"SELECT {counts} FROM {relation}").fetchall()
    found = {"repeat another": rows - nulls - values, "have NULL there": nulls}
    return [
        Misfit(", ".join(table.unique), f"not unique: {count} of {rows} rows {what}")
        for what, count in found.items()
        if count
    ]


# Why rows cannot be read: in our words, whatever the engine says of it.


def _causes(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    if found := _schema_misfits(table):
        return found
    try:
        with lent(connection, _stored_rows(table)):
            return _of_columns(connection, table) or _of_files(connection, table)
    except duckdb.Error:
        return _of_files(connection, table)


def _schema_misfits(table: Table) -> list[Misfit]:
    source = table.source
    parquet = isinstance(source, Files) and isinstance(_read_as(source), Parquet)
    return file_misfits(table) if parquet else []


def _of_columns(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    """Return which columns are not there, or which have values of another type."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {_reader(table)}").fetchall()
    there = {ascii_folded(name) for name, *_ in described}
    named = dict.fromkeys([*table.columns, *table.unique])
    found = [
        Misfit(name, f"{_place(table)} has no such column", lacking=True)
        for name in named
        if ascii_folded(name) not in there
    ]
    for name, column in table.columns.items():
        if ascii_folded(name) in there:
            value = _cast(table, name, column.type, "TRY_CAST")
            rows = _reader(table, texts=True)
            counts = f"SELECT count({quoted(name)}), count({value}) FROM {rows}"
            ((values, fit),) = connection.execute(counts).fetchall()
            if fit < values:
                told = f"{values - fit} of {values} values are no {column.type}"
                found.append(Misfit(name, told))
    return found


def _place(table: Table) -> str:
    match table.source:
        case Files(paths):
            return paths[0].name
        case DatabaseTable(database):
            return database.name
        case _:
            return table.name


def _of_files(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    """Return which file cannot be read, the first one."""
    source = table.source
    if isinstance(source, DatabaseTable):
        return fit_in_file(table)[1] or [Misfit(None, f"{_place(table)} cannot be read")]
    if isinstance(source, Files):
        for path in source.paths:
            rows = _reader(table, [path])
            try:
                connection.execute(f"SELECT sum(hash(r)) FROM {rows} AS r").fetchall()
            except duckdb.Error:
                return [Misfit(None, f"{path.name} {why_unread(path, _read_as(source))}")]
    return [Misfit(None, "its files cannot be read as one table")]
