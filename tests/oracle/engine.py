"""The engine of the oracle: opens a scan against a receipt, and counts it row by row.

It keeps the rules of the product's engine: a scan starts when a receipt has been opened (I1,
I3), sees one state of the files, and whatever goes wrong is the one constant failure (I11). It
reads Parquet files alone; of a table in a DuckDB file, the scan fails.
"""

from __future__ import annotations

from dpquery.budget.ledger.charge_and_receipt import Receipt
from dpquery.engine.base import Exact, FaultLog, NoPublicRows, PublicRows, guarded
from dpquery.engine.file_checks import (
    DataChanged,
    Fingerprint,
    TableStates,
    Watch,
    require_unchanged,
    state_of,
    unwatched,
)
from dpquery.ir.measures import Measure, Requested, TableWeight
from dpquery.ir.query import Scan, columns_read
from dpquery.ir.relations import tables_of
from dpquery.policy.model import Policy, Table
from dpquery.policy.sources.schema_mismatches import file_misfits
from dpquery.rowfunctions.base import Value
from tests.oracle.relations import Relations
from tests.oracle.rows import read_rows
from tests.oracle.totals import Totals


class PythonEngine:
    """Reads Parquet files through pyarrow, and computes in Python's own exact numbers."""

    def __init__(
        self,
        policy: Policy,
        log: FaultLog,
        public: PublicRows | None = None,
        *,
        secret: str = "",
        watch: Watch = unwatched,
    ) -> None:
        self._tables = {
            name: table for name, table in policy.tables.items() if not table.public
        }
        self._public = public or NoPublicRows()
        self._log = log
        self._secret = secret
        self._watch = watch
        self._verified: TableStates = {}

    def open(self, scan: Scan, receipt: Receipt, frontier: int) -> Exact:
        """Count what a scan asks for.

        Raises:
            ScanFailed: DPQ701.
        """
        receipt.open(frontier, scan)
        return guarded(self._log, lambda: self._read(scan, receipt))

    def prepare(self) -> None:
        """Do nothing: nothing is opened."""

    def rehearse(self, scan: Scan) -> None:
        """Do nothing: no text is run."""

    def _read(self, scan: Scan, receipt: Receipt) -> Exact:
        tables = [self._tables[name] for name in _names(scan)]
        before = state_of(tables)
        for table in tables:
            self._verify(table, before[table.name])
        relations = Relations(self._tables, self._public, columns_read(scan))
        units = _units(scan, relations)
        totals = Totals(scan, relations.rows(scan.relation), self._secret, units)
        sums: dict[Measure, tuple[int, ...]] = {
            m: totals.of(m) for m in scan.measures if not isinstance(m, Requested)
        }
        require_unchanged(tables, before)
        for table in tables:  # what could not be read is no first state
            self._watch(table, before[table.name], receipt)
        return Exact(sums, scan.cells, totals)

    def describe(self, scan: Scan) -> str:
        """Say that rows are counted one by one."""
        return f"{', '.join(_names(scan))}, row by row"

    def close(self) -> None:
        """Forget which files were verified; nothing else is held."""
        self._verified.clear()

    def _verify(self, table: Table, state: Fingerprint) -> None:
        """Hold files of a new state against the policy: their types, and rows_per_unit = 1."""
        if self._verified.get(table.name) == state:
            return
        for misfit in (found for one in table.way for found in file_misfits(one)):
            raise DataChanged(f"{table.name}: {misfit}")
        if table.single and table.unit is not None:
            units = [unit for unit, _ in read_rows(table, []) if unit is not None]
            if len(units) > len(set(units)):
                raise DataChanged(
                    f"a unit of {table.name!r} has several rows against rows_per_unit = 1"
                )
        self._verified[table.name] = state


def _units(scan: Scan, relations: Relations) -> list[Value]:
    """Return the units of all rows of the table, where rows are weighed by these."""
    if not any(isinstance(measure.weight, TableWeight) for measure in scan.measures):
        return []
    (table,) = tables_of(scan.relation)
    return [unit for unit, _ in relations.rows(table)]


def _names(scan: Scan) -> list[str]:
    """Return the private tables that a scan reads, each once."""
    return list(dict.fromkeys(one.table for one in tables_of(scan.relation)))
