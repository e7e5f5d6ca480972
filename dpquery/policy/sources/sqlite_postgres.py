"""Tables of SQLite files and of PostgreSQL servers, row by row into Arrow.

Values are told by what they are, not by what a column calls itself: what is no value of the
column's type is NULL, so that no row can make a reader fail.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from dpquery.core.types import DECIMAL_DIGITS
from dpquery.policy.model import External
from dpquery.policy.sources.parquet_footers import SETTLED
from dpquery.policy.sources.snapshot_reader import (
    LONGEST,
    UNCUT,
    Snapshot,
    State,
    Unreadable,
    library,
)

_BATCH = 1 << 16
"""Rows that are held between a database and Arrow."""
_BYTES = 1 << 26
"""What their texts may take, of whatever length they are."""


# SQLite: every value has a type of its own, and a column an inclination to one.

_MOMENT_TEXT = "typeof({0}) = 'text' AND length(CAST({0} AS BLOB)) <= 99"
_SQLITE: tuple[tuple[str, pa.DataType, str, str], ...] = (
    ("BOOL", pa.bool_(), "typeof({0}) = 'integer' AND {0} IN (0, 1)", "{0}"),
    ("INT", pa.int64(), "typeof({0}) = 'integer'", "{0}"),
    ("CHAR|CLOB|TEXT", pa.string(), "typeof({0}) = 'text'", "{0}"),
    (
        "REAL|FLOA|DOUB|NUMERIC|DECIMAL",
        pa.float64(),
        "typeof({0}) IN ('integer', 'real')",
        "CAST({0} AS REAL)",  # Arrow takes no integer that a double has to round
    ),
    ("DATETIME|TIMESTAMP", pa.timestamp("us"), _MOMENT_TEXT, "{0}"),
    ("DATE", pa.date32(), _MOMENT_TEXT, "{0}"),
)
"""What is in the name of a type, that in Arrow, which values are of it, and as what."""


_SQLITE_TABLES = """
    SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'
    AND name NOT LIKE 'sqlite@_%' ESCAPE '@' ORDER BY name
"""


def sqlite_names(place: Path) -> list[str]:
    """Return the names of the tables in a SQLite file."""
    with closing(_sqlite(place)) as connection:
        return [name for (name,) in connection.execute(_SQLITE_TABLES)]


def sqlite_table(source: External) -> Snapshot:
    """Open a table of a SQLite file."""
    place = Path(source.place)
    with closing(_sqlite(place)) as connection:
        asked = "SELECT type, sql FROM sqlite_master WHERE lower(name) = lower(?)"
        kinds = connection.execute(asked, [source.table]).fetchall()
        if not kinds:
            raise Unreadable(f"has no table named {source.table}")
        if kinds[0][0] != "table" or str(kinds[0][1]).upper().startswith("CREATE VIRTUAL"):
            raise Unreadable(f"{source.table} is no table whose rows are stored")
        told = "SELECT name, type, hidden FROM pragma_table_xinfo(?)"
        columns = {n: t for n, t, made in connection.execute(told, [source.table]) if not made}
    types = {name: _of_sqlite(str(type_)) for name, type_ in columns.items()}
    schema = pa.schema([(name, type_) for name, (type_, _, _) in types.items()])

    def read(names: Sequence[str], cut: Mapping[str, int] = UNCUT) -> pa.RecordBatchReader:
        wanted = pa.schema([schema.field(name) for name in names])
        values = ", ".join(_sqlite_value(name, *types[name], cut) for name in names)
        query = f"SELECT {values} FROM {_name(source.table)}"
        batches = _of_rows(wanted, _asked(place, query, _at_once(wanted, cut)))
        return pa.RecordBatchReader.from_batches(wanted, batches)

    return Snapshot(schema, lambda: _files_state(place), read)


def _sqlite_value(
    name: str, type_: pa.DataType, condition: str, value: str, cut: Mapping[str, int]
) -> str:
    if type_ == pa.string():
        bytes_ = "length(CAST({0} AS BLOB))"
        value = f"CASE WHEN {bytes_} <= {LONGEST} THEN {{0}} END"
        if name in cut:  # `substr` ends a text at a NUL, so it is for long ones alone
            longest = cut[name]
            short = f"{bytes_} <= {4 * longest}"
            value = f"CASE WHEN {short} THEN {{0}} ELSE substr({{0}}, 1, {longest}) END"
    return f"CASE WHEN {condition} THEN {value} END".format(_name(name))


def _sqlite(place: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(place))}?mode=ro", uri=True, check_same_thread=False
    )
    connection.text_factory = _text
    return connection


def _text(raw: bytes) -> str | None:
    """Return a text; None of bytes that are none, of which several would else be one text."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _of_sqlite(written: str) -> tuple[pa.DataType, str, str]:
    for names, type_, condition, value in _SQLITE:
        if re.search(names, written.upper()):
            return type_, condition, value
    return pa.binary(), "false", "NULL"


def _asked(place: Path, query: str, most: int) -> Iterator[list[tuple[Any, ...]]]:
    with closing(_sqlite(place)) as connection:
        rows = connection.execute(query)
        while batch := rows.fetchmany(most):
            yield batch


def _files_state(place: Path) -> State:
    """Return what tells the bytes of a file and of what waits to be written to it."""
    waiting = place.with_name(place.name + "-wal")
    found = [file for file in (place, waiting) if file.exists() and file.stat().st_size]
    return tuple((file.name, file.stat().st_size, _hash_of(file)) for file in found)


def _hash_of(file: Path) -> str:
    found = file.stat()
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    read = _hash if time.time_ns() - changed > SETTLED else _hash.__wrapped__
    return read(file, found.st_dev, found.st_ino, found.st_size, changed)


@lru_cache(maxsize=64)
def _hash(file: Path, *_: int) -> str:
    """Return the hash of a whole file, anew where its size or time is another, or is new."""
    with file.open("rb") as read:
        return file_digest(read, "sha256").hexdigest()


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _between(low: str, high: str) -> str:
    """Write a moment that Python's calendar holds."""
    below, above = f"WHEN {{0}} < '{low}' THEN '{low}'", f"WHEN {{0}} > '{high}' THEN '{high}'"
    return f"CASE {below} {above} ELSE {{0}} END"


# PostgreSQL: a transaction sees one state, and that is told by all values that are read of it.
# What a server calls its snapshot says when nothing can have changed since they were added up.

_POSTGRES: Mapping[str, tuple[pa.DataType, str]] = {
    **dict.fromkeys(("int2", "int4", "int8"), (pa.int64(), "{0}")),
    **dict.fromkeys(("float4", "float8"), (pa.float64(), "CAST({0} AS float8)")),
    **dict.fromkeys(("text", "varchar", "bpchar", "uuid"), (pa.string(), "CAST({0} AS text)")),
    "bool": (pa.bool_(), "{0}"),
    "date": (pa.date32(), _between("0001-01-01", "9999-12-31")),
    "timestamp": (pa.timestamp("us"), _between("0001-01-01", "9999-12-31 23:59:59.999999")),
}
"""Each type that is read, with what it is in Arrow, and as which values it is asked for."""
_DECIMAL = "CASE WHEN {0} <> 'NaN' THEN {0} END"
_STORED = ("r", "p", "m")
_RELATION = """
    SELECT c.oid, c.relkind, c.relrowsecurity, getdatabaseencoding() FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_COLUMNS = """
    SELECT a.attname, t.typname, a.atttypmod FROM pg_attribute a
    JOIN pg_type t ON t.oid = a.atttypid AND t.typnamespace = 'pg_catalog'::regnamespace
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'
    ORDER BY a.attnum
"""
"""All but those that are computed when they are read: some values could make that fail."""
_MOMENT = "SELECT CAST(pg_current_snapshot() AS text), CAST(pg_postmaster_start_time() AS text)"
_ROWS = """
    SELECT count(*), coalesce(sum(CAST(CAST('x' || left(hash, 15) AS bit(60)) AS bigint)), 0)
    FROM (SELECT encode(sha256(convert_to(whole, 'UTF8')), 'hex') AS hash
    FROM (SELECT CAST(ROW({0}) AS text) AS whole FROM {1}) AS rows) AS hashed
"""
_TOLD = """
    CASE WHEN octet_length(CAST({0} AS text)) <= 8192 THEN CAST({0} AS text)
    ELSE encode(sha256(convert_to(CAST({0} AS text), 'UTF8')), 'hex') END
"""
"""A value as a row of values can hold it: of texts of any length, a server makes no row."""
_REMEMBERED = 64
_KNOWN: dict[tuple[str, ...], State] = {}
"""States by table and by what the server called its snapshot when they were looked at."""


def postgres_table(source: External) -> Snapshot:
    """Open a table of a PostgreSQL server."""
    driver = library("psycopg", "postgres")
    within, _, name = source.table.partition(".")
    origin = f"{_name(within)}.{_name(name)}"
    with _transaction(driver, source) as asked:
        found = asked.execute(_RELATION, [within, name]).fetchone()
        if found is None:
            raise Unreadable(f"has no table named {source.table}")
        oid, kind, by_row, encoding = found
        if kind not in _STORED or by_row or encoding != "UTF8":
            raise Unreadable(
                f"has in {source.table} no table of stored rows, open whole, in UTF8"
            )
        types = dict(map(_of_postgres, asked.execute(_COLUMNS, [oid]).fetchall()))
    schema = pa.schema([(name, type_) for name, (type_, _) in types.items()])
    looked_at: list[State] = []

    def state() -> State:
        with _transaction(driver, source) as asked:
            looked_at[:] = [_state_of(asked, source, origin, types)]
        return looked_at[0]

    def rows(query: str, most: int) -> Iterator[list[tuple[Any, ...]]]:
        with _transaction(driver, source) as asked:
            if looked_at and looked_at != [_state_of(asked, source, origin, types)]:
                raise Unreadable(f"has other rows in {source.table} than were looked at first")
            with asked.connection.cursor("copied") as found:
                found.execute(query)
                while batch := found.fetchmany(most):
                    yield batch

    def read(names: Sequence[str], cut: Mapping[str, int] = UNCUT) -> pa.RecordBatchReader:
        wanted = pa.schema([schema.field(name) for name in names])
        values = ", ".join(_postgres_value(name, *types[name], cut) for name in names)
        query = f"SELECT {values} FROM {origin}"
        batches = _of_rows(wanted, rows(query, _at_once(wanted, cut)))
        return pa.RecordBatchReader.from_batches(wanted, batches)

    return Snapshot(schema, state, read)


def _postgres_value(name: str, type_: pa.DataType, value: str, cut: Mapping[str, int]) -> str:
    if type_ == pa.string():
        whole = f"CASE WHEN octet_length({value}) <= {LONGEST} THEN {value} END"
        value = f"left({value}, {cut[name]})" if name in cut else whole
    return value.format(_name(name))


@contextmanager
def _transaction(driver: Any, source: External) -> Iterator[Any]:
    """Begin what sees one state, and changes nothing."""
    with closing(driver.connect(source.place, connect_timeout=10)) as connection:
        connection.isolation_level = driver.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        with connection.cursor() as asked:
            asked.execute("SET LOCAL client_encoding = 'UTF8'")
            asked.execute("SET LOCAL datestyle = 'ISO'")
            asked.execute("SET LOCAL extra_float_digits = 1")
            yield asked


def _of_postgres(column: tuple[str, str, int]) -> tuple[str, tuple[pa.DataType, str]]:
    name, type_, modifier = column
    if type_ == "numeric" and modifier > 0:
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        if 0 <= scale <= precision <= DECIMAL_DIGITS:
            return name, (pa.decimal128(precision, scale), _DECIMAL)
    return name, _POSTGRES.get(type_, (pa.binary(), "NULL"))


def _state_of(
    asked: Any, source: External, origin: str, types: Mapping[str, tuple[pa.DataType, str]]
) -> State:
    """Return what tells the rows that a transaction sees: how many, and the sum of hashes."""
    moment = asked.execute(_MOMENT).fetchone()
    shown = ", ".join(
        (_TOLD if type_ == pa.string() else "CAST({0} AS text)").format(_name(name))
        for name, (type_, sql) in types.items()
        if sql != "NULL"
    )
    key = (source.place, source.table, shown, *moment)
    if key not in _KNOWN:
        if len(_KNOWN) >= _REMEMBERED:
            _KNOWN.clear()
        count, told = asked.execute(_ROWS.format(shown, origin)).fetchone()
        _KNOWN[key] = ((source.table, int(count), str(told)),)
    return _KNOWN[key]


# Rows of Python's values as Arrow's.


def _at_once(schema: pa.Schema, cut: Mapping[str, int]) -> int:
    """Return how many rows a batch has, so that its texts take no more than its bytes."""
    texts = [field.name for field in schema if field.type == pa.string()]
    longest = sum(4 * cut[name] if name in cut else LONGEST for name in texts)
    return max(1, min(_BATCH, _BYTES // max(1, longest)))


def _of_rows(
    schema: pa.Schema, batches: Iterator[list[tuple[Any, ...]]]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = zip(schema, zip(*batch, strict=True), strict=True)
        arrays = [pa.array(_read(cells, field.type), field.type) for field, cells in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _read(cells: Sequence[Any], type_: pa.DataType) -> Sequence[Any]:
    return [*map(_READ[type_], cells)] if type_ in _READ else cells


def _truth(value: Any) -> Any:
    return None if value is None else bool(value)


def _date(value: Any) -> Any:
    return _parsed(date.fromisoformat, value)


def _moment(value: Any) -> Any:
    found = _parsed(datetime.fromisoformat, value)
    return None if found is None or found.tzinfo is not None else found


def _parsed(read: Callable[[str], Any], value: Any) -> Any:
    """Return what a text says; None if it says nothing."""
    if not isinstance(value, str):
        return value
    try:
        return read(value)
    except ValueError:
        return None


_READ: Mapping[pa.DataType, Callable[[Any], Any]] = {
    pa.bool_(): _truth,
    pa.date32(): _date,
    pa.timestamp("us"): _moment,
}
