"""What a scan answers after it was opened: histograms, and values that nobody has listed.

Requests of one shape are one query. Rows with weights are held once, because a weight takes a
pass over all rows; without weights the files are read again, and DuckDB skips what a request
does not need. Each query checks that the files are still what they were when the scan was
opened: one release sees one state of the data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import duckdb
import numpy as np

from dpquery.engine.base import by_chance
from dpquery.engine.duckdb.connection import execute
from dpquery.engine.duckdb.scan_sql import ScanSQL
from dpquery.engine.duckdb.sql_allowlist import Verifier
from dpquery.engine.file_checks import TableStates, require_unchanged
from dpquery.ir.measures import Candidates, GroupRequest, Histogram, Told
from dpquery.mechanisms.samplers import Integers
from dpquery.rowfunctions.base import scalar

_NUMBERS = count()
"""Names of held tables: several scans may be open at once."""
Shape = tuple[int, int]
"""How many codes a request asks for, a power of two of which its lowest is a multiple, and the
width of a range."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Ranges with rows in them, of several groups: no more than there are rows."""

    cells: Integers
    places: Integers
    weights: Integers

    @classmethod
    def sorted(cls, cells: Integers, places: Integers, weights: Integers) -> Groups:
        """Sort them by group, and by place within it."""
        order = np.lexsort((places, cells))
        return cls(cells[order], places[order], weights[order])

    def of(self, group: int, first: int, ranges: int) -> Integers:
        """Return the weights of a group's ranges from the first on, those without rows too."""
        start, end = np.searchsorted(self.cells, [group, group + 1])
        places = self.places[start:end]
        low, high = np.searchsorted(places, [first, first + ranges])
        dense: Integers = np.zeros(ranges, dtype=self.weights.dtype)
        dense[places[low:high] - first] = self.weights[start + low : start + high]
        return dense


class DuckDBOpenScan:
    """Answers the requests of one scan."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        sql: ScanSQL,
        state: TableStates,
        verifier: Verifier,
    ) -> None:
        self._connection = connection
        self._sql = sql
        self._state = state
        self._verifier = verifier
        self._tables: list[str] = []
        """What is held of this scan, in memory."""
        self._sources: dict[Histogram, str] = {}
        self._whole: dict[Histogram, tuple[tuple[int, int, int], Groups]] = {}
        self._counted: dict[Candidates, tuple[str, Integers]] = {}
        """The table of each measure, and the order in which its rows are shown."""

    def histograms(
        self, measure: Histogram, requests: Sequence[GroupRequest]
    ) -> Sequence[Integers]:
        """Return the weight of each range of codes, request by request."""
        shapes: dict[Shape | None, list[GroupRequest]] = defaultdict(list)
        for request in requests:
            shapes[_shape(request, measure.code.cells)].append(request)
        found: dict[GroupRequest, Integers] = {}
        for shape, alike in shapes.items():
            if len(alike) > 1 and shape is not None:  # aligned stretches of codes: one pass
                wanted = sorted({(one.group, one.low // shape[0]) for one in alike})
                source = self._source(measure)
                groups = self._ask(self._sql.blocks(measure, source, wanted, shape), source)
                for one in alike:
                    found[one] = groups.of(one.group, one.low // one.width, _ranges(one))
            else:
                found |= {one: self._of_one(measure, one) for one in alike}
        return [found[request] for request in requests]

    def counts(self, measure: Candidates) -> Integers:
        """Count the units of each value, and keep the values under numbers of no meaning."""
        rows = self._sql.candidates(measure)
        self._verifier.require(self._sql, rows)
        name = self._made(f"SELECT row_number() OVER () - 1 AS i, * FROM ({rows})")
        require_unchanged(self._sql.tables, self._state)
        query = f"SELECT n FROM {name} ORDER BY i"
        counts = np.asarray(execute(self._connection, query).fetchnumpy()["n"], dtype=np.int64)
        order = by_chance(len(counts))
        self._counted[measure] = name, order
        found: Integers = counts[order]
        return found

    def values(self, measure: Candidates, places: Sequence[int]) -> list[Told]:
        """Return the values at some places of that order."""
        name, order = self._counted[measure]
        asked = {"i": order[list(places)], "o": np.arange(len(places))}
        self._connection.register("places", asked)
        try:
            query = f"SELECT * EXCLUDE (i, n, o) FROM {name} JOIN places USING (i) ORDER BY o"
            rows = execute(self._connection, query).fetchall()
        finally:
            self._connection.unregister("places")
        types = [expr.type for expr in measure.values]
        return [tuple(map(scalar, row, types)) for row in rows]

    def close(self) -> None:
        """Drop what is held."""
        for name in self._tables:
            with suppress(duckdb.Error):  # an instance that broke has nothing left to drop
                self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        self._tables.clear()
        for known in (self._sources, self._whole, self._counted):
            known.clear()

    def _of_one(self, measure: Histogram, request: GroupRequest) -> Integers:
        """Ask for the ranges of a group; for a whole grid once, for all groups together."""
        group, low, high, width = request
        span, whole = (low, high, width), high - low == measure.code.cells
        asked, found = self._whole.get(measure, (None, None))
        if not whole or asked != span or found is None:
            source = self._source(measure)
            query = self._sql.ranges(measure, source, None if whole else group, span)
            found = self._ask(query, source)
        if whole:
            self._whole[measure] = span, found
        return found.of(group, 0, _ranges(request))

    def _ask(self, query: str, source: str) -> Groups:
        self._verifier.require(self._sql, query, source if source in self._tables else None)
        found = execute(self._connection, query).fetchnumpy()
        require_unchanged(self._sql.tables, self._state)
        return Groups.sorted(*(np.asarray(found[name]) for name in ("cell", "b", "t")))

    def _source(self, measure: Histogram) -> str:
        """Name the rows that a histogram counts.

        They are held where each request would weigh or number them anew, and there is memory.
        """
        if measure not in self._sources:
            rows = self._sql.held(measure)
            self._sources[measure] = f"({rows})"
            if self._sql.scan.keys or not measure.weight.plain:
                self._verifier.require(self._sql, rows)
                with suppress(duckdb.OutOfMemoryException):
                    self._sources[measure] = self._made(rows)
        return self._sources[measure]

    def _made(self, rows: str) -> str:
        """Make a table of some rows; return its name."""
        name = f"held{next(_NUMBERS)}"
        execute(self._connection, f"CREATE TEMP TABLE {name} AS {rows}")
        self._tables.append(name)
        return name


def _ranges(request: GroupRequest) -> int:
    return -(-(request.high - request.low) // request.width)


def _shape(request: GroupRequest, cells: int) -> Shape | None:
    """Return the block of codes that a request asks for, and the width, if a block it is."""
    _, low, high, width = request
    block = 1 << (high - low - 1).bit_length()
    whole = high - low == block or high == cells
    return (block, width) if whole and low % block == 0 and width <= block else None
