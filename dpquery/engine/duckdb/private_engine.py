"""The private engine: one locked DuckDB per session, which sees engine-made SQL only.

A scan is one query over one state of the files. It starts when a receipt has been opened and
not before; connecting reads no private file (I1, I3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from math import prod
from time import monotonic

import duckdb

from dpquery.budget.ledger.charge_and_receipt import Receipt
from dpquery.engine.base import Exact, FaultLog, NoPublicRows, PublicRows, guarded
from dpquery.engine.distinct_matching import Slots
from dpquery.engine.duckdb.clamped_table_sql import COUNTED, Place
from dpquery.engine.duckdb.column_cache import Held, wanted_columns
from dpquery.engine.duckdb.connection import KEY, begun, execute, load, lock, memory_of, start
from dpquery.engine.duckdb.histogram_queries import DuckDBOpenScan
from dpquery.engine.duckdb.quoting import quoted, text
from dpquery.engine.duckdb.scan_sql import ScanSQL, public_names, weighs_all_rows
from dpquery.engine.duckdb.sources.source_views import attach, define, misfits, rows_sql
from dpquery.engine.duckdb.sql_allowlist import Rehearsal, Verifier
from dpquery.engine.file_checks import (
    DataChanged,
    Fingerprint,
    TableStates,
    Watch,
    claim_of,
    require_unchanged,
    state_of,
    unwatched,
)
from dpquery.ir.measures import Histogram, Measure, OfValues
from dpquery.ir.query import Scan
from dpquery.ir.relations import tables_of
from dpquery.policy.model import DatabaseTable, Policy, Table

FETCHED = 64
"""Values that are taken from the engine at a time, each with all units that have it."""


class DuckDBEngine:
    """Reads Parquet files and DuckDB files through DuckDB."""

    def __init__(
        self,
        policy: Policy,
        log: FaultLog,
        public: PublicRows | None = None,
        threads: int | None = None,
        *,
        secret: str = "",
        watch: Watch = unwatched,
    ) -> None:
        tables = policy.tables.values()
        self._limits = policy.limits
        self._tables = {table.name: table for table in tables if not table.public}
        names = (table.name for table in tables if table.public)
        self._publics = {name: f"p{number}" for number, name in enumerate(names)}
        self._public = public or NoPublicRows()
        self._log = log
        self._threads = threads
        self._secret = secret
        self._watch = watch
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._opening: Future[duckdb.DuckDBPyConnection] | None = None
        self._held: Held | None = None
        self._verifier = Verifier()
        self._rehearsal = Rehearsal(self._verifier, self._publics, self._public)
        self._verified: TableStates = {}
        self._viewed: TableStates = {}
        """The states of files for whose schemas this instance has views."""
        self._derived: set[str] = set()
        """The tables that queries made of public ones, and that are loaded."""

    def open(self, scan: Scan, receipt: Receipt, frontier: int) -> Exact:
        """Count what a scan asks for.

        Raises:
            ScanFailed: DPQ701.
        """
        receipt.open(frontier, scan)
        return guarded(self._log, lambda: self._read_whole(scan, receipt))

    def describe(self, scan: Scan) -> str:
        """Write the query for a scan, with each table's name for its files."""
        places = {table.name: Place(table, quoted(table.name)) for table in self._read_by(scan)}
        publics = {name: quoted(name) for name in public_names(scan, self._publics)}
        sql = ScanSQL(scan, places, publics)
        return "; ".join(sql.whole()) or f"histograms of ({sql.rows})"

    def prepare(self) -> None:
        """Begin to open empty instances, while a query is planned."""
        self._verifier.prepare()
        if self._connection is None:
            self._opening = self._opening or begun(start)

    def rehearse(self, scan: Scan) -> None:
        """Check and plan the SQL of a scan, as it is where nothing is kept of the files."""
        self._rehearsal.require(scan, self._read_by(scan))

    def close(self) -> None:
        """Let go of the instance."""
        self._rehearsal.close()
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.result().close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read_by(self, scan: Scan) -> list[Table]:
        """Return the tables that a scan reads, each once."""
        names = dict.fromkeys(one.table for one in tables_of(scan.relation))
        return [self._tables[name] for name in names]

    def _read_whole(self, scan: Scan, receipt: Receipt) -> Exact:
        """Read, and let go of an instance that broke: it would fail every scan after this.

        One under which files changed may have copied another state than it says.
        """
        try:
            return self._read(scan, receipt)
        except DataChanged:
            self.close()
            self._verified.clear()
            raise
        except (duckdb.FatalException, duckdb.InternalException):
            self.close()
            raise

    def _read(self, scan: Scan, receipt: Receipt) -> Exact:
        tables = self._read_by(scan)
        before = state_of(tables)
        for table in tables:
            attached = any(isinstance(one.source, DatabaseTable) for one in table.way)
            if attached and self._verified.get(table.name) != before[table.name]:
                self.close()  # an attached file that was replaced would go on being read
        connection = self._started()
        for table in tables:
            self._verify(connection, table, before[table.name])
        places = {table.name: self._place(scan, table, before[table.name]) for table in tables}
        self._load_derived(connection, scan)
        sql = ScanSQL(scan, places, public_names(scan, self._publics))
        values = {measure: [0] * scan.cells for measure in sql.summed}
        for measures, query in sql.queries() if scan.cells else ():
            self._verifier.require(sql, query)
            for cell, *sums in execute(connection, query).fetchall():
                for measure, value in zip(measures, sums, strict=True):
                    values[measure][cell] += int(value)  # many values can be of one group
        for of_values, query in sql.contested() if scan.cells else ():
            self._verifier.require(sql, query)
            self._add_placed(values, of_values, connection, query)
        require_unchanged(tables, before)
        for table in tables:  # what could not be read is no first state
            self._watch(table, before[table.name], receipt)
        opened = DuckDBOpenScan(connection, sql, before, self._verifier)
        exact = {measure: tuple(cells) for measure, cells in values.items()}
        return Exact(exact, scan.cells, opened, self._log)

    def _load_derived(self, connection: duckdb.DuckDBPyConnection, scan: Scan) -> None:
        """Load what the scan joins of that queries made, in place of what others did."""
        wanted = {*public_names(scan, self._publics)} - {*self._publics}
        for name in self._derived - wanted:
            connection.execute(f"DROP TABLE {name}")
        for name in wanted - self._derived:
            load(connection, name, self._public.rows(name))
        self._derived = wanted

    def _add_placed(
        self,
        values: Mapping[Measure, list[int]],
        measures: Sequence[OfValues],
        connection: duckdb.DuckDBPyConnection,
        query: str,
    ) -> None:
        """Add the values that can be given to units, each to as few as may stand for it.

        Raises:
            TimeoutError: that takes longer than one query may.
            MemoryError: that takes more memory than DuckDB may take for one.
        """
        until = monotonic() + self._limits.seconds
        slots = Slots(measures[0].weight.limit, memory_of(connection))
        codes = [*dict.fromkeys(code for measure in measures for code in measure.codes)]
        rows = execute(connection, query)
        while batch := rows.fetchmany(FETCHED):
            for cell, *found, units in batch:
                if slots.place(units):
                    known = dict(zip(codes, map(int, found), strict=True))
                    for m in measures:
                        values[m][cell] += prod(known[code] for code in m.factors)
                if monotonic() > until:
                    raise TimeoutError

    def _place(self, scan: Scan, table: Table, state: Fingerprint) -> Place:
        """Return where the scan reads: from memory what was asked for before."""
        assert self._held is not None  # noqa: S101 - made with the connection
        names = wanted_columns(scan, table)
        often = any(isinstance(measure, Histogram) for measure in scan.measures)
        often |= COUNTED in names and weighs_all_rows(scan)
        read = Place.in_files(table)
        rows = next(one for one in tables_of(scan.relation) if one.table == table.name)
        return self._held.place(read, rows, state, names, often=often)

    def _started(self) -> duckdb.DuckDBPyConnection:
        """Open DuckDB on first use, so that connecting touches no private file."""
        if self._connection is None:
            opening, self._opening = self._opening, None
            connection = start() if opening is None else opening.result()
            self._derived = set()
            self._viewed = {}
            within_reach = attach(connection, self._tables.values())
            connection.execute(f"SET VARIABLE {KEY} = ?", [self._secret])
            if self._threads is not None:
                connection.execute(f"SET threads = {self._threads}")
            for name, relation in self._publics.items():
                load(connection, relation, self._public.rows(name))
            connection.execute(f"SET max_execution_time = {self._limits.seconds * 1000}")
            if self._limits.memory is not None:
                connection.execute(f"SET memory_limit = {text(self._limits.memory)}")
            lock(connection, within_reach)
            self._connection = connection
            self._held = Held(connection)
        return self._connection

    def _verify(
        self, connection: duckdb.DuckDBPyConnection, table: Table, state: Fingerprint
    ) -> None:
        """Hold a new state of the files against the policy: types, and rows per unit."""
        verified = self._verified.get(table.name) == state
        told = [] if verified else misfits(connection, table)
        if told:
            raise DataChanged(f"{table.name}: {told[0]}")
        if self._viewed.get(table.name) != state:
            define(connection, table, state)
            self._viewed[table.name] = state
        if verified:
            return
        if table.single and table.unit is not None:
            self._require_single(connection, table, state)
        self._verified[table.name] = state

    def _require_single(
        self, connection: duckdb.DuckDBPyConnection, table: Table, state: Fingerprint
    ) -> None:
        """Count the units of all rows, unless that was done for this state by any session."""
        unit = quoted(table.owner or "")
        different = f"SELECT count({unit}) = count(DISTINCT {unit}) FROM ({rows_sql(table)})"
        claim = claim_of(different, table, state)
        if claim is not None and self._watch.is_proven(claim):
            return
        row = execute(connection, different).fetchone()
        if row is None or row[0] is not True:
            raise DataChanged(
                f"a unit of {table.name!r} has several rows against rows_per_unit = 1"
            )
        require_unchanged([table], {table.name: state})
        if claim is not None:
            self._watch.prove(claim)
