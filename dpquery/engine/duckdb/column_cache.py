"""Columns kept in memory between scans: clamped, by state of the files, within a share.

What is kept are the columns as every expression sees them, so a scan over them gives the same
integers as one over the files. A column is kept when it is asked for a second time, or at once
where one scan asks several times, or counts the rows of units that have several: as long as all
fit a share of memory. How much fits depends on the number of rows, so the share has a secret
random part: no number of rows is the limit.

Where units have several rows, beside the columns stand how many rows the unit of a row has, and
a number of the unit: both are found once, by the one pass over all units that each scan would
make. The numbers run from 0 on, in no order that means anything, so that units are counted in
arrays whatever names them.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

import duckdb

from dpquery.core.types import Kind
from dpquery.engine.duckdb.clamped_table_sql import (
    COUNTED,
    UNIT,
    Place,
    clamped,
    held_name,
    kept_key,
)
from dpquery.engine.duckdb.connection import execute
from dpquery.engine.duckdb.group_keys_sql import enumerated, listed, no_key, short_text, uncut
from dpquery.engine.duckdb.quoting import quoted, text
from dpquery.engine.duckdb.sources.source_views import own_rows_sql
from dpquery.engine.file_checks import Fingerprint
from dpquery.ir.expr import columns_of
from dpquery.ir.measures import Candidates
from dpquery.ir.query import Scan, columns_read
from dpquery.ir.relations import TableScan, only_table, tables_of
from dpquery.policy.model import Column, Table

SHARE = 1 << 30
"""Bytes that kept columns may take, by the estimate below, but for a random part."""
_NUMBER, _WIDE, _SIGN = 8, 16, 4
_BYTES = {UNIT: 16, COUNTED: 12, "k:": 4}


@dataclass(slots=True)
class _Entry:
    """What is known of one table in one state of its files."""

    state: Fingerprint
    rows: int | None = None
    """How many there are, once something is to be kept of them."""
    bytes: int = 0
    asked: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    name: str = ""
    types: list[str] = field(default_factory=list)


class Held:
    """The kept columns of one engine."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._entries: dict[str, _Entry] = {}
        self._made = self._types = 0
        self._share = SHARE // 2 + secrets.randbelow(SHARE // 2)

    def place(
        self,
        read: Place,
        scan: TableScan,
        state: Fingerprint,
        names: Set[str],
        *,
        often: bool,
    ) -> Place:
        """Return where a scan reads its columns: from memory if they are kept, or are now.

        Args:
            read: the table, and its files.
            scan: which of its rows count.
            state: the state of the files.
            names: what the scan reads: `c:` and a column, `k:` and a key column, or the units.
            often: whether it will ask several times.
        """
        table = read.table
        if any(name[2:] in table.lists for name in names):
            return read  # how long lists are is not known
        entry = self._entry(table, state)
        if not (names <= entry.kept and entry.name):
            far = not read.near  # to find whose its rows are costs more than to keep it
            wanted = often or far or names <= entry.asked
            entry.asked |= names
            if not (wanted and self._fits(read, entry, names)):
                return read
            if not self._keep(read, scan, entry, names):
                return read
        return read.held_in(entry.name, names)

    def _entry(self, table: Table, state: Fingerprint) -> _Entry:
        entry = self._entries.get(table.name)
        if entry is None or entry.state != state:
            if entry is not None:
                self._drop(entry)
            entry = self._entries[table.name] = _Entry(state)
        return entry

    def _fits(self, read: Place, entry: _Entry, names: Set[str]) -> bool:
        """Return whether more columns fit the share; rows are counted once, and only for it."""
        if entry.rows is None:
            entry.rows = self._count(f"({own_rows_sql(read.table)})")
        others = sum(e.bytes for e in self._entries.values() if e is not entry)
        return others + entry.rows * _width(read.table, entry.kept | names) <= self._share

    def _count(self, source: str) -> int:
        row = execute(self._connection, f"SELECT count(*) FROM {source}").fetchone()
        return int(row[0]) if row else 0

    def _keep(self, read: Place, scan: TableScan, entry: _Entry, names: Set[str]) -> bool:
        """Read the columns once more, with those kept before; say whether memory held them."""
        self._drop(entry)
        self._made += 1
        name, wanted = f"kept{self._made}", sorted(entry.kept | names)
        query = f"CREATE TABLE {name} AS {self._rows(read, scan, entry, wanted)}"
        try:
            execute(self._connection, query)
        except duckdb.OutOfMemoryException:
            return False
        entry.name, entry.kept = name, set(wanted)
        if read.table.through is not None:  # a row stands there once for each of its units
            entry.rows = self._count(name)
        entry.bytes = (entry.rows or 0) * _width(read.table, entry.kept)
        return True

    def _rows(self, read: Place, scan: TableScan, entry: _Entry, wanted: Sequence[str]) -> str:
        """Write the rows that count, with what is kept of them."""
        table, owners = read.table, {UNIT, COUNTED}
        columns = [self._column(table, entry, name) for name in wanted if name not in owners]
        if table.unit is None:
            return f"SELECT {', '.join(columns) or '1 AS one'} FROM {read.source}"
        unit, named = f"{read.unit} AS u", owners & {*wanted}
        where = f"FROM {read.source} WHERE {' AND '.join(read.counted(scan))}"
        listed = ", ".join([*([unit] if named else []), *columns]) or "1 AS one"
        rows = f"SELECT {listed} {where}"
        if COUNTED not in wanted:
            return rows
        # What fits the share has far fewer rows than 2^31, and of one unit there are no more.
        units = f"(SELECT {unit} {where})" if read.near else "r"
        counted = f"SELECT u, CAST(count(*) AS INTEGER) AS n FROM {units} GROUP BY u"
        numbers = f"SELECT *, row_number() OVER () - 1 AS i FROM ({counted})"
        kept = "*" if UNIT in wanted else "* EXCLUDE (u)"
        first, rows = (
            ("", f"({rows})") if read.near else (f"WITH r AS MATERIALIZED ({rows}) ", "r")
        )
        return f"{first}SELECT {kept} FROM {rows} JOIN ({numbers}) USING (u)"

    def _column(self, table: Table, entry: _Entry, token: str) -> str:
        """Write a column to keep: clamped, or for grouping as an enumeration of its keys."""
        column = table.columns[token[2:]]
        if token.startswith("c:"):
            return f"{clamped(column)} AS {held_name(column.name)}"
        self._types += 1
        told, none = enumerated(column), text(no_key(column.keys or ()))
        values = ", ".join(none if value is None else text(str(value)) for value in told)
        type_ = f"keys{self._types}"
        self._connection.execute(f"CREATE TYPE {type_} AS ENUM ({values})")
        entry.types.append(type_)
        value = f"TRY_CAST({short_text(column, column.keys or ())} AS {type_})"
        if None in told:
            missing = f"{quoted(column.name)} IS NULL"
            value = f"CASE WHEN {missing} THEN CAST({none} AS {type_}) ELSE {value} END"
        return f"{value} AS {kept_key(column.name)}"

    def _drop(self, entry: _Entry) -> None:
        if entry.name:
            self._connection.execute(f"DROP TABLE {entry.name}")
            for type_ in entry.types:
                self._connection.execute(f"DROP TYPE {type_}")
            entry.types.clear()
            entry.name, entry.bytes = "", 0


def _width(table: Table, names: Set[str]) -> int:
    """Return the most bytes of a row: its unit, numbers, keys, and texts of full length."""
    return sum(_BYTES.get(name[:2]) or _bytes(table.columns[name[2:]]) for name in names)


def _bytes(column: Column) -> int:
    if column.type.kind is Kind.TEXT:
        return _WIDE + _SIGN * column.max_length
    return _WIDE if column.type.kind is Kind.DECIMAL else _NUMBER


def wanted_columns(scan: Scan, table: Table) -> frozenset[str]:
    """Return what a scan wants kept: columns, listed values of key columns, and units.

    The number of a unit follows from what other units there are. So it stands for the unit
    where units are told from each other alone: not in joins, and not where it is hashed.
    """
    if only_table(scan.relation) is None:
        numbers = {one.number for one in tables_of(scan.relation) if one.table == table.name}
        of_table = (f"c:{ref.name}" for ref in columns_read(scan) if ref.of in numbers)
        return frozenset(of_table) | _unit(table, UNIT)
    named = any(isinstance(measure, Candidates) for measure in scan.measures)
    names = {f"c:{ref.name}" for ref in columns_read(replace(scan, keys=()))}
    if named or not table.single:
        names |= _unit(table, UNIT if named else COUNTED)
    for key in scan.keys:
        column = uncut(table, key)
        if column is not None and listed(column, key):
            names.add(f"k:{column.name}")
        else:
            names |= {f"c:{ref.name}" for ref in columns_of(key.expr).values()}
    return frozenset(names)


def _unit(table: Table, wanted: str) -> set[str]:
    return set() if table.unit is None else {wanted}
