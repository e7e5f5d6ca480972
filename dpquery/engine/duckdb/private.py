"""The private engine: one locked DuckDB per session, which sees engine-made SQL only.

A scan is one query over one state of the files. It starts when a receipt has been opened and
not before; connecting reads no private file (I1, I3).
"""

from __future__ import annotations

import duckdb

from dpquery.budget.charge import Receipt
from dpquery.engine.base import Exact, FaultLog, guarded
from dpquery.engine.duckdb.codes import wanted_columns
from dpquery.engine.duckdb.connection import execute, lock, quoted, start, text
from dpquery.engine.duckdb.held import Held
from dpquery.engine.duckdb.ranges import DuckDBRanges
from dpquery.engine.duckdb.render import Origin
from dpquery.engine.duckdb.scan import ScanSQL
from dpquery.engine.duckdb.schema import database_types
from dpquery.engine.files import (
    DataChanged,
    Fingerprint,
    about_size,
    fingerprint,
    require_columns,
    require_types,
)
from dpquery.ir import Histogram, Scan, table_of
from dpquery.policy.model import DatabaseTable, Files, Policy, Table

__all__ = ["DuckDBEngine"]


class DuckDBEngine:
    """Reads Parquet files and DuckDB files through DuckDB."""

    def __init__(self, policy: Policy, log: FaultLog, threads: int | None = None) -> None:
        self._tables = {
            name: table for name, table in policy.tables.items() if not table.public
        }
        self._log = log
        self._threads = threads
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._held: Held | None = None
        self._verified: dict[str, Fingerprint] = {}

    def open(self, scan: Scan, receipt: Receipt, frontier: int) -> Exact:
        """Count what a scan asks for.

        Raises:
            ScanFailed: DPQ701.
        """
        receipt.open(frontier, scan)
        table = self._tables[table_of(scan.relation).table]
        try:
            return guarded(self._log, lambda: self._read(scan, table))
        except KeyboardInterrupt:
            self.close()  # what was being kept may be half made
            raise

    def about_size(self, scan: Scan) -> int:
        """Give roughly how many bytes of files a scan reads."""
        return about_size(self._tables[table_of(scan.relation).table])

    def describe(self, scan: Scan) -> str:
        """Write the query for a scan, with the table's name for its files."""
        table = self._tables[table_of(scan.relation).table]
        sql = ScanSQL(scan, table, Origin(quoted(table.name), held=False))
        return sql.sums() if sql.summed else f"histograms of ({sql.rows})"

    def close(self) -> None:
        """Let go of the instance."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, scan: Scan, table: Table) -> Exact:
        before = fingerprint(table)
        if isinstance(table.source, DatabaseTable) and self._verified.get(table.name) != before:
            self.close()  # an attached file that was replaced would go on being read
        connection = self._started()
        self._verify(
            connection, ScanSQL(scan, table, Origin(_files(table), held=False)), before
        )
        sql = ScanSQL(scan, table, self._origin(scan, table, before))
        values = {measure: [0] * scan.cells for measure in sql.summed}
        if sql.summed:
            for cell, *sums in execute(connection, sql.sums()).fetchall():
                for measure, value in zip(sql.summed, sums, strict=True):
                    values[measure][cell] = int(value)
        if fingerprint(table) != before:
            raise DataChanged(f"the files of {table.name!r} changed while they were read")
        ranges = DuckDBRanges(connection, sql, before, self._log)
        return Exact({m: tuple(cells) for m, cells in values.items()}, scan.cells, ranges)

    def _origin(self, scan: Scan, table: Table, state: Fingerprint) -> Origin:
        """Give where the scan reads: from memory what was asked for before."""
        assert self._held is not None  # noqa: S101 - made with the connection
        names = wanted_columns(scan, table)
        often = any(isinstance(measure, Histogram) for measure in scan.measures)
        return self._held.origin(table, _files(table), state, names, often=often)

    def _started(self) -> duckdb.DuckDBPyConnection:
        """Open DuckDB on first use, so that connecting touches no private file."""
        if self._connection is None:
            connection = start()
            paths = [
                p
                for t in self._tables.values()
                if isinstance(t.source, Files)
                for p in t.source.paths
            ]
            for database in _databases(self._tables):
                connection.execute(f"ATTACH {text(database)} AS {quoted(database)} (READ_ONLY)")
            if self._threads is not None:
                connection.execute(f"SET threads = {self._threads}")
            lock(connection, paths)
            self._connection = connection
            self._held = Held(connection)
        return self._connection

    def _verify(
        self, connection: duckdb.DuckDBPyConnection, sql: ScanSQL, state: Fingerprint
    ) -> None:
        """Hold a new state of the files against the policy: types, and rows per unit."""
        table = sql.table
        if self._verified.get(table.name) == state:
            return
        if isinstance(table.source, DatabaseTable):
            require_columns(table, database_types(connection, _files(table)))
        else:
            require_types(table)
        if table.single and table.unit is not None:
            row = execute(connection, sql.single()).fetchone()
            if row is None or row[0] is not True:
                raise DataChanged(
                    f"a unit of {table.name!r} has several rows against rows_per_unit = 1"
                )
        self._verified[table.name] = state


def _files(table: Table) -> str:
    """Write what stands after FROM for a table's rows."""
    if isinstance(table.source, DatabaseTable):
        return f"{quoted(str(table.source.database))}.main.{quoted(table.source.table)}"
    # By name, so that a column gets the widest type among the files: the first file's could not
    # hold the values of the others. Each file's schema was held against the policy before.
    paths = ", ".join(text(str(path)) for path in table.source.paths)
    return (
        f"read_parquet([{paths}], union_by_name=true, hive_partitioning=false, filename=false)"
    )


def _databases(tables: dict[str, Table]) -> list[str]:
    found = {
        str(t.source.database) for t in tables.values() if isinstance(t.source, DatabaseTable)
    }
    return sorted(found)
