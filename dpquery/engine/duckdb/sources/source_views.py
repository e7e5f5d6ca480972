"""Where private rows come from: each table is one view, over whatever holds its rows.

A kind of source is one case in each function here. Scans name the view and read nothing else:
`sql_allowlist.py` insists on that, and a view is made of the policy alone, never of a query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

import duckdb
import pyarrow as pa

from dpquery.core.dotted_names import dotted
from dpquery.core.types import INTEGER, TEXT, Kind, Type
from dpquery.engine.duckdb.connection import execute, found_by, start
from dpquery.engine.duckdb.expr_sql import cast
from dpquery.engine.duckdb.quoting import duckdb_name, quoted, stored, text
from dpquery.engine.duckdb.sources.duckdb_schema import stored_fitted, stored_misfits
from dpquery.engine.duckdb.sources.lines_sql import csv_rows, json_rows
from dpquery.engine.duckdb.sources.stored_columns_sql import ELEMENT, place_of, stored_sql
from dpquery.engine.file_checks import DataChanged, Fingerprint, fingerprint, require_unchanged
from dpquery.engine.text_lines import Lines
from dpquery.policy.model import (
    Column,
    Csv,
    DatabaseTable,
    External,
    Files,
    Frame,
    Json,
    Parquet,
    Table,
)
from dpquery.policy.sources.open_external import opened
from dpquery.policy.sources.schema import Schema, file_schemas, fitted, read_header, seen_schema
from dpquery.policy.sources.schema_mismatches import Misfit, file_misfits
from dpquery.policy.sources.snapshot_reader import LONGEST, Snapshot, Unreadable
from dpquery.policy.sources.temporal_overflow import MomentsOfFiles, total_batches
from dpquery.policy.value_parsers import ascii_folded
from dpquery.rowfunctions.lists import MOST_VALUES


def view_name(table: Table) -> str:
    """Return the name of the view of a table's rows: no other relation is called so."""
    return f"t:{table.name}"


def attach(connection: duckdb.DuckDBPyConnection, tables: Iterable[Table]) -> list[Path]:
    """Open what tables are read from, before the file system is shut.

    Returns:
        The files that have to stay within reach.
    """
    tables = [one for table in tables for one in table.way]
    for table in tables:
        match table.source:
            case Frame(rows):
                connection.register(_held(table), rows)
            case Files(paths, Csv(fields=fields)):
                connection.register(_held(table), Lines(paths, header=fields is None))
            case Files(paths, Json()):
                connection.register(_held(table), Lines(paths, header=False))
    sources = [table.source for table in tables]
    databases = {str(one.database) for one in sources if isinstance(one, DatabaseTable)}
    for database in sorted(databases):
        connection.execute(f"ATTACH {text(database)} AS {quoted(database)} (READ_ONLY)")
    files = [one for one in sources if isinstance(one, Files)]
    return [path for one in files if isinstance(one.format, Parquet) for path in one.paths]


def _held(table: Table) -> str:
    """Name what is registered of a table: no scan may name it."""
    return f"in:{table.name}"


def define(connection: duckdb.DuckDBPyConnection, table: Table, state: Fingerprint) -> None:
    """Make the view of a table, for the schema that its source has in a state.

    Raises:
        DataChanged: a copy would be of another state.
    """
    table = _fitted(connection, table)
    _copy(connection, table, state)
    _lend(connection, table)
    view, rows = quoted(view_name(table)), rows_sql(table)
    connection.execute(f"CREATE OR REPLACE VIEW {view} AS {rows}")


def _fitted(connection: duckdb.DuckDBPyConnection, table: Table) -> Table:
    """Return a table, and those on its way, with what is converted as it is read."""
    if isinstance(table.source, DatabaseTable):
        found = stored_fitted(connection, table)
    else:
        found = fitted(table, file_schemas(table))
    if table.through is None:
        return found
    other = _fitted(connection, table.through.table)
    return replace(found, through=replace(table.through, table=other))


def _lend(connection: duckdb.DuckDBPyConnection, table: Table, key: str | None = None) -> None:
    """Give DuckDB what Arrow reads of Parquet files, of a table and of those on its way."""
    if table.through is not None:
        _lend(connection, table.through.table, table.through.key)
    if not isinstance(table.source, Files) or not isinstance(table.source.format, Parquet):
        return
    for part in _parts(table, table.source, key):
        if part.lent is not None:
            names = {(column.path or (column.name,))[0] for column in part.every.values()}
            rows = MomentsOfFiles(part.paths, names, _PATH if part.folders else None)
            connection.register(part.lent, rows)


def _copy(connection: duckdb.DuckDBPyConnection, table: Table, state: Fingerprint) -> None:
    """Copy the rows of a state into memory: no library has to read one state twice alike."""
    outside = {
        o.name: (o, opened(o.source)) for o in table.way if isinstance(o.source, External)
    }
    if not outside:
        return
    if fingerprint(table, {name: snapshot for name, (_, snapshot) in outside.items()}) != state:
        raise DataChanged(f"{table.name} changed before it was copied")
    keys = {o.through.table.name: o.through.key for o in table.way if o.through is not None}
    for one, snapshot in outside.values():
        _copy_rows(connection, one, snapshot, keys.get(one.name))
    require_unchanged([table], {table.name: state})


def _copy_rows(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    snapshot: Snapshot,
    key: str | None = None,
) -> None:
    """Copy what scans read of each value; of texts that tell units apart all, or NULL.

    By the connection itself: a cursor of it has no limit of time, and can be given none.
    """
    whole, every = _whole(table, key), _every(table)
    texts = {n: c for n, c in every.items() if c.type == TEXT and not c.path and n not in whole}
    cut = {name: column.max_length for name, column in texts.items()}
    columns = ", ".join(
        f"{_bounded(column, whole=name in whole)} AS {quoted(name)}"
        for name, column in every.items()
    )
    made = f"CREATE OR REPLACE TABLE {_copied(table, key)}"
    connection.register("given", total_batches(snapshot.read(_names(table), cut)))
    try:
        execute(connection, f"{made} AS SELECT {columns or '1 AS one'} FROM given")
    finally:
        connection.unregister("given")


def _whole(table: Table, key: str | None) -> set[str | None]:
    """Return the columns of which no value may become another."""
    if table.through is not None:
        return {key, table.through.column}
    return {key, table.unit, *(name for name, _ in table.together)}


def _bounded(column: Column, *, whole: bool) -> str:
    """Write a column as its source has it, as far as it is read."""
    place, text_ = place_of(column), column.type.kind is Kind.TEXT
    if column.type.listed:
        first, item = f"{place}[1:{MOST_VALUES}]", quoted(ELEMENT)
        cut = f"left(CAST({item} AS VARCHAR), {column.max_length})"
        return f"list_transform({first}, lambda {item}: {cut})" if text_ else first
    if whole and text_:  # a unit of no stated type may be an integer
        length = f"strlen(CAST({place} AS VARCHAR))"
        short = f"typeof({place}) <> 'VARCHAR' OR {length} <= {LONGEST}"
        return f"CASE WHEN {short} THEN {place} END"
    return f"left(CAST({place} AS VARCHAR), {column.max_length})" if text_ else place


def _copied(table: Table, key: str | None) -> str:
    """Name a copy: on the way to units, a table has other columns than for itself."""
    return quoted(f"s:{table.name}:{_names(table)}:{key}")


def _names(table: Table) -> list[str]:
    owner = table.unit if table.through is None else table.through.column
    if table.together and table.through is None:
        owner = None
    names = (column.path[0] if column.path else name for name, column in table.held.items())
    return [*dict.fromkeys([*names, *([] if owner is None else [owner])])]


def rows_sql(table: Table, key: str | None = None) -> str:
    """Write the rows of a table: the columns that the policy names, and the unit.

    Where other tables say whose the rows are, each row is there once for each unit that claims
    its key: `Through` has the reasons. The unit is that of the claims, whatever other columns
    the files have.
    """
    own, through = _bounded_rows(table, key), table.through
    unit = quoted(table.owner or "")
    if through is None:
        coded = table.owner != table.unit
        return f"SELECT *, {unit_code(table)} AS {unit} FROM ({own})" if coded else own
    key = quoted(through.key)
    claims = (
        f"SELECT DISTINCT {cast(key, duckdb_name(through.type))} AS k, {unit} AS u "
        f"FROM ({rows_sql(through.table, through.key)}) "
        f"WHERE {key} IS NOT NULL AND {unit} IS NOT NULL"
    )
    columns = "".join(f"r.{quoted(name)}, " for name in table.held)
    return (
        f"SELECT {columns}c.u AS {unit} FROM ({own}) AS r "
        f"JOIN ({claims}) AS c ON r.{quoted(through.column)} = c.k"
    )


def _bounded_rows(table: Table, key: str | None) -> str:
    """Write own rows, of which no operator that holds rows is given more than what counts.

    A file has a text once that many rows repeat. So whose a row is, which goes with it through
    every operator, is no text that is longer than `LONGEST`; and where rows are held before
    they are clamped, for a join, all their values are cut.
    """
    every, whole = _every(table), _whole(table, key)
    joined = table.through is not None or table.parting is not None
    columns = {
        name: _bounded(replace(column, path=()), whole=name in whole)
        for name, column in every.items()
        if joined or name in whole
    }
    cut = [f"{sql} AS {quoted(name)}" for name, sql in columns.items() if sql != quoted(name)]
    own = own_rows_sql(table, key)
    return f"SELECT * REPLACE ({', '.join(cut)}) FROM ({own})" if cut else own


def unit_code(table: Table) -> str:
    """Write one text for each unit: of several columns, each with its length before it.

    Values are cast to the declared type first, which holds all that the files can have: so
    that one value has one text, whatever scale a decimal was stored at. Equal texts are equal
    units: DuckDB writes different values of a type in different ways, and where a length
    stands before each text, none can be taken for the end of another. NULL in any column is no
    unit, nor is an infinite moment. Above a scan there is the text alone, so that joins,
    groups, windows and hashes tell units apart alike.
    """
    if not table.together:
        assert table.unit is not None and table.unit_type is not None  # noqa: S101, PT018
        return _written(table.unit, table.unit_type)
    each = (_written(name, type_) for name, type_ in table.together)
    return " || ".join(f"CAST(strlen({one}) AS VARCHAR) || ':' || {one}" for one in each)


def _written(name: str, type_: Type) -> str:
    value = cast(quoted(name), duckdb_name(type_))
    if type_.kind in {Kind.TIMESTAMP, Kind.TIMESTAMPTZ}:
        # DuckDB cannot write the first microsecond that 64 bits hold, and falls over it.
        value = f"epoch_us({value})"
    return cast(value, "VARCHAR")


def own_rows_sql(table: Table, key: str | None = None) -> str:
    """Write what a table's own source holds: the columns that the policy names.

    No value can make it fail, and each row depends on its own place in the source alone.
    """
    every = _every(table, key)
    columns = ", ".join(map(_shown, every.values())) or "1 AS one"
    match table.source:
        case DatabaseTable() as source:
            return f"SELECT {columns} FROM {stored(source)}"
        case Frame():
            return f"SELECT {columns} FROM {quoted(_held(table))}"
        case External():  # a copy has no structures
            flat = (_shown(replace(column, path=())) for column in every.values())
            return f"SELECT {', '.join(flat) or '1 AS one'} FROM {_copied(table, key)}"
        case Files() as source:
            return _rows_of_files(table, source, every, key)
        case other:
            assert_never(other)


def _every(table: Table, key: str | None = None) -> dict[str, Column]:
    """Return the columns that are read of a table's own source."""
    every = dict(table.held)
    if table.through is not None:
        name, type_ = table.through.column, table.through.type
        every.setdefault(name, Column(name, type_, converted=type_ != INTEGER))
    elif table.unit is not None and not table.together:
        stated = table.unit_type not in {None, INTEGER}  # a text may be stored as a UUID
        unit = Column(table.unit, table.unit_type or TEXT, converted=stated)
        every.setdefault(table.unit, unit)
    whole = _whole(table, key)
    return {n: replace(column, exact=n in whole) for n, column in every.items()}


def _shown(column: Column) -> str:
    """Write a column in its declared type, by its name."""
    written, name = stored_sql(column), quoted(column.name)
    return written if written == name else f"{written} AS {name}"


def _rows_of_files(
    table: Table, source: Files, every: Mapping[str, Column], key: str | None
) -> str:
    lines = quoted(_held(table))
    match source.format:
        case Csv() as format_:
            of_files = (read_header(path, format_).fields or () for path in source.paths)
            return csv_rows(format_, max(of_files, key=len), every, lines)
        case Json():
            return json_rows(every, lines)
        case Parquet():
            return " UNION ALL ".join(map(_rows_of_part, _parts(table, source, key)))
        case other:
            assert_never(other)


@dataclass(frozen=True, slots=True)
class _Part:
    """Parquet files of a table that are read together."""

    paths: list[Path]
    schemas: list[Schema]
    every: Mapping[str, Column]
    folders: Sequence[str]
    """Columns whose values are names of folders."""
    only: bool
    """Whether no files are read otherwise."""
    lent: str | None
    """What Arrow reads the files as; None: DuckDB reads them."""


def _parts(table: Table, source: Files, key: str | None) -> Iterator[_Part]:
    every = _every(table, key)
    partitions = source.format.partitions if isinstance(source.format, Parquet) else ()
    schemas = [seen_schema(path) for path in source.paths]
    kinds = {id(schema): schema for schema in schemas}
    folders = [n for n in partitions if not any(n in one.written for one in kinds.values())]
    groups = _groups(kinds.values(), every)
    for at, group in enumerate(groups):
        own = {id(schema) for schema in group}
        pairs = zip(source.paths, schemas, strict=True)
        paths = [path for path, schema in pairs if id(schema) in own]
        lent = f"{_held(table)}:{key}:{at}" if _partial(group[0], every) else None
        yield _Part(paths, group, every, folders, len(groups) == 1, lent)


def _partial(schema: Schema, every: Mapping[str, Column]) -> bool:
    """Return whether a file has a column of which DuckDB cannot read all values."""
    return any((one.path or (name,))[0] in schema.partial for name, one in every.items())


def _rows_of_part(part: _Part) -> str:
    columns = ", ".join(
        _of_folder(name, column.type)
        if name in part.folders
        else (_shown(column) if part.only else _of_group(column, part.schemas))
        for name, column in part.every.items()
    )
    if part.lent is not None:
        return f"SELECT {columns} FROM {quoted(part.lent)}"
    # No path has two slashes together; thousands of constants would be parsed slowly.
    listed = text("//".join(found_by(path) for path in part.paths))
    # By name, so that a column is there which the first file lacks. Where all have one
    # schema, no other file has to be opened to know what the columns are. A text that is
    # none, in a single row, would fail the scan.
    united = str(len(part.schemas) > 1).lower()
    named = text(_PATH) if part.folders else "false"
    settings = f"union_by_name={united}, hive_partitioning=false, filename={named}"
    settings += ", utf8_validation='replace'"
    files = f"string_split({listed}, '//')"
    return f"SELECT {columns or '1 AS one'} FROM read_parquet({files}, {settings})"


def _groups(kinds: Iterable[Schema], every: Mapping[str, Column]) -> list[list[Schema]]:
    """Return schemas in groups that have columns in one type each, or lack them.

    Of several types DuckDB would make one, which need not hold the values of each, and fail by
    those: 9999-12-31 in microseconds has no number of nanoseconds.
    """
    groups: list[tuple[dict[str, str] | None, list[Schema]]] = []
    roots = {(column.path or (name,))[0] for name, column in every.items()}
    for schema in kinds:
        types = _types(schema, roots)
        if _partial(schema, every):  # a stream has one schema
            groups.append((None, [schema]))
            continue
        for known, group in groups:
            if known is not None and all(
                known.get(name, type_) == type_ for name, type_ in types.items()
            ):
                known.update(types)
                group.append(schema)
                break
        else:
            groups.append((types, [schema]))
    return [group for _, group in groups]


def _types(schema: Schema, roots: Iterable[str]) -> dict[str, str]:
    """Return the types of columns as a file has them; of structures, those of all fields.

    DuckDB takes names that differ in case for one.
    """
    found = {}
    for root in roots:
        if root in schema.written:
            found[root] = schema.written[root]
            continue
        before = dotted((root, ""))
        fields = {name: t for name, t in schema.written.items() if name.startswith(before)}
        found |= {**fields, root: "struct"} if fields else {}
    return {ascii_folded(name): type_ for name, type_ in found.items()}


def _of_group(column: Column, group: Iterable[Schema]) -> str:
    """Write a column of files that have it in one type, in the type that all files give it."""
    name, type_ = column.name, duckdb_name(column.type)
    schema = next((one for one in group if name in one.types), None)
    if schema is None:
        return f"CAST(NULL AS {type_}) AS {quoted(name)}"
    converted = column.converted and schema.converts(column)
    own = replace(column, converted=converted, path=schema.paths.get(name, ()))
    written, kind = stored_sql(own), column.type.kind
    if kind is Kind.TEXT and schema.types[name] == INTEGER and not converted:  # a unit
        return f"{written} AS {quoted(name)}"
    how = "TRY_CAST" if kind is Kind.DECIMAL else "CAST"  # a value can be wider than its type
    return f"{how}({written} AS {type_}) AS {quoted(name)}"


_PATH = "\npath"
"""The column of the place of each row's file: no column of a policy has a name like it."""
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def _of_folder(name: str, type_: Type) -> str:
    """Write a column whose values are names of folders: the innermost one that is named so.

    DuckDB leaves out files of which a condition on such a column is false, without opening
    them. It can read such names itself, but fails by one that is no text or has no value of the
    type, and people in the data can choose such names.
    """
    pattern = text(f".*/{re.escape(name)}=([^/]*)/")
    found = f"nullif(regexp_extract({quoted(_PATH)}, {pattern}, 1, 's'), '')"
    value = f"TRY(url_decode(nullif({found}, {text(_NO_VALUE)})))"
    return f"TRY_CAST({value} AS {duckdb_name(type_)}) AS {quoted(name)}"


def misfits(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    """Return how schemas of sources differ from the policy: of a table, and on its way."""
    return [misfit for one in table.way for misfit in _own_misfits(connection, one)]


def _own_misfits(connection: duckdb.DuckDBPyConnection, table: Table) -> list[Misfit]:
    match table.source:
        case DatabaseTable():
            return stored_misfits(connection, table)
        case Files(format=Parquet()):
            return file_misfits(table, seen_schema)
        case Files() | External():
            return file_misfits(table)
        case Frame():  # its own schema is the policy
            return []
        case other:
            assert_never(other)


def batches(table: Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of what a table's own source holds, as scans read it: for the owner.

    Raises:
        OSError: they cannot be read.
    """
    columns = ", ".join(map(quoted, names)) or "1 AS one"
    named = {name: column for name, column in table.columns.items() if name in names}
    unit = table.unit if table.through is None and table.unit in names else None
    through = table.through if table.through and table.through.column in names else None
    table = replace(table, columns=named, lists={}, unit=unit, through=through)
    with closing(start()) as connection:
        try:
            attach(connection, [replace(table, through=None)])
            table = _fitted(connection, table)
            if isinstance(table.source, External):
                snapshot = opened(table.source)
                table = replace(table, columns={n: _long(c) for n, c in table.columns.items()})
                _copy_rows(connection, table, snapshot)
            _lend(connection, replace(table, through=None))
            rows = connection.sql(f"SELECT {columns} FROM ({own_rows_sql(table)})")
            yield from rows.to_arrow_reader()
        except (duckdb.Error, Unreadable, DataChanged):
            raise OSError from None


def _long(column: Column) -> Column:
    """Return a column whose texts are not cut where they may tell units apart."""
    return replace(column, max_length=max(column.max_length, LONGEST))
