"""Counts a scan row by row, from Parquet files.

A scan sees one state of the files and starts when a receipt has been opened, not before (I1,
I3). What goes wrong becomes the constant failure of `engine/base.py` (I11); a table in a DuckDB
file is one of these things, for only DuckDB reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from dpquery.budget.charge import Receipt
from dpquery.engine.base import Exact, FaultLog, guarded
from dpquery.engine.files import DataChanged, Fingerprint, fingerprint, require_types
from dpquery.engine.python.rows import read_rows
from dpquery.engine.python.totals import Totals
from dpquery.ir import (
    Expr,
    Filter,
    Histogram,
    Measure,
    Relation,
    Scan,
    columns_read,
    table_of,
)
from dpquery.policy.model import Policy, Table
from dpquery.rowfunctions.base import Value
from dpquery.rowfunctions.evaluate import Row, evaluate

__all__ = ["PythonEngine"]


class PythonEngine:
    """Reads Parquet files through pyarrow, and computes in Python's own exact numbers."""

    def __init__(self, policy: Policy, log: FaultLog) -> None:
        self._tables = {
            name: table for name, table in policy.tables.items() if not table.public
        }
        self._log = log
        self._verified: dict[str, Fingerprint] = {}

    def open(self, scan: Scan, receipt: Receipt, frontier: int) -> Exact:
        """Count what a scan asks for.

        Raises:
            ScanFailed: DPQ701.
        """
        receipt.open(frontier, scan)
        table = self._tables[table_of(scan.relation).table]
        return guarded(self._log, lambda: self._read(scan, table))

    def _read(self, scan: Scan, table: Table) -> Exact:
        before = fingerprint(table)
        self._verify(table, before)
        totals = Totals(scan, list(_kept(scan, table)))
        sums: dict[Measure, tuple[int, ...]] = {
            m: totals.of(m) for m in scan.measures if not isinstance(m, Histogram)
        }
        if fingerprint(table) != before:
            raise DataChanged(f"the files of {table.name!r} changed while they were read")
        return Exact(sums, scan.cells, totals)

    def describe(self, scan: Scan) -> str:
        """Say that rows are counted one by one."""
        return f"{table_of(scan.relation).table}, row by row"

    def close(self) -> None:
        """Forget which files were verified; nothing else is held."""
        self._verified.clear()

    def _verify(self, table: Table, state: Fingerprint) -> None:
        """Hold files of a new state against the policy: their types, and rows_per_unit = 1."""
        if self._verified.get(table.name) == state:
            return
        require_types(table)
        if table.single and table.unit is not None:
            units = [unit for unit, _ in read_rows(table, []) if unit is not None]
            if len(units) > len(set(units)):
                raise DataChanged(
                    f"a unit of {table.name!r} has several rows against rows_per_unit = 1"
                )
        self._verified[table.name] = state


def _kept(scan: Scan, table: Table) -> Iterator[tuple[Value, Row]]:
    """Give each row that passes every filter, and its unit: where none is named, itself."""
    conditions = _conditions(scan.relation)
    wanted = columns_read(scan)
    numbers = count()
    for unit, row in read_rows(table, list(wanted)):
        owner = next(numbers) if table.unit is None else unit
        if owner is not None and all(evaluate(c, row) is True for c in conditions):
            yield owner, row


def _conditions(relation: Relation) -> list[Expr]:
    conditions = []
    while isinstance(relation, Filter):
        conditions.append(relation.condition)
        relation = relation.source
    return conditions
