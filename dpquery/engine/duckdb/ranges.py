"""Histograms of an open scan: each request one query, over the files or over held codes.

Rows with weights are held once, because a weight takes a pass over all rows; without weights
the files are read again, and DuckDB skips what a request does not need. Each request checks
that the files are still what they were when the scan was opened: one release sees one state of
the data.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import duckdb
import numpy as np

from dpquery.engine.base import FaultLog, guarded
from dpquery.engine.duckdb.connection import execute
from dpquery.engine.duckdb.reread import Reread
from dpquery.engine.duckdb.scan import ScanSQL
from dpquery.engine.files import State, require_unchanged
from dpquery.ir import Histogram
from dpquery.mechanisms.exponential import Integers

__all__ = ["DuckDBRanges"]

_NUMBERS = count()
"""Names of held tables: several scans may be open at once."""
Span = tuple[int, int, int]
"""Lowest code, the code after the highest, and the width of a range."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Ranges with rows in them, of all groups, sorted by group: no more than there are rows."""

    cells: Integers
    places: Integers
    weights: Integers

    def of(self, group: int, ranges: int) -> Integers:
        """Give the weights of one group's ranges, those without rows too."""
        start, end = np.searchsorted(self.cells, [group, group + 1])
        dense: Integers = np.zeros(ranges, dtype=self.weights.dtype)
        dense[self.places[start:end]] = self.weights[start:end]
        return dense


class DuckDBRanges:
    """Answers histograms of one scan."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        sql: ScanSQL,
        state: State,
        log: FaultLog,
        reread: Reread,
    ) -> None:
        self._connection = connection
        self._sql = sql
        self._state = state
        self._log = log
        self._reread = reread
        self._sources: dict[Histogram, str] = {}
        self._tables: list[str] = []
        self._whole: dict[Histogram, tuple[Span, Groups]] = {}

    def __call__(
        self, measure: Histogram, group: int, low: int, high: int, width: int
    ) -> Integers:
        """Give the weight of each range of codes of one group."""
        span = (low, high, width)
        return guarded(self._log, lambda: self._of(measure, group, span))

    def close(self) -> None:
        """Drop the codes that are held."""
        for name in self._tables:
            with suppress(duckdb.Error):  # an instance that broke has nothing left to drop
                self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        self._tables.clear()
        self._sources.clear()
        self._whole.clear()

    def _of(self, measure: Histogram, group: int, span: Span) -> Integers:
        if span[1] - span[0] == measure.code.cells:
            found = self._of_all(measure, span)
        else:
            found = self._ask(measure, group, span)
        return found.of(group, _ranges(span))

    def _of_all(self, measure: Histogram, span: Span) -> Groups:
        """Ask for the whole grid once, for all groups together."""
        known = self._whole.get(measure)
        if known is None or known[0] != span:
            known = (span, self._ask(measure, None, span))
            self._whole[measure] = known
        return known[1]

    def _ask(self, measure: Histogram, group: int | None, span: Span) -> Groups:
        source = self._source(measure)
        query = self._sql.ranges(measure, source, group, span)
        held = source if source in self._tables else None
        self._reread.require(self._sql, query, held)
        found = execute(self._connection, query).fetchnumpy()
        require_unchanged(self._sql.tables, self._state)
        cells, places, weights = (np.asarray(found[name]) for name in ("cell", "b", "t"))
        order = np.argsort(cells, kind="stable")
        return Groups(cells[order], places[order], weights[order])

    def _source(self, measure: Histogram) -> str:
        """Name the rows that a histogram counts.

        They are held where each request would weigh or number them anew, and there is memory.
        """
        if measure not in self._sources:
            rows = self._sql.held(measure)
            often = bool(self._sql.scan.keys) or not measure.weight.plain
            held = self._hold(rows) if often else None
            self._sources[measure] = held or f"({rows})"
        return self._sources[measure]

    def _hold(self, rows: str) -> str | None:
        """Keep rows in memory under a name, if it holds them."""
        name = f"held{next(_NUMBERS)}"
        self._reread.require(self._sql, rows)
        try:
            execute(self._connection, f"CREATE TEMP TABLE {name} AS {rows}")
        except duckdb.OutOfMemoryException:
            return None
        self._tables.append(name)
        return name


def _ranges(span: Span) -> int:
    low, high, width = span
    return -(-(high - low) // width)
