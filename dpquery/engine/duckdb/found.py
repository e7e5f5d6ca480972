"""Candidates of an open scan: counted by one query, and kept under numbers of no meaning."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import count

import duckdb
import numpy as np

from dpquery.engine.base import FaultLog, guarded
from dpquery.engine.duckdb.connection import execute
from dpquery.engine.duckdb.reread import Reread
from dpquery.engine.duckdb.scan import ScanSQL
from dpquery.engine.files import State, require_unchanged
from dpquery.engine.found import by_chance, named
from dpquery.expr import Scalar
from dpquery.ir import Candidates
from dpquery.mechanisms.exponential import Integers

__all__ = ["DuckDBFound"]

_NUMBERS = count()
"""Names of tables: several scans may be open at once."""


class DuckDBFound:
    """Answers for the candidates of one scan."""

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
        self._kept: dict[Candidates, tuple[str, Integers]] = {}
        """The table of each measure, and the order in which its rows are shown."""

    def counts(self, measure: Candidates) -> Integers:
        """Give the number of units of each value, in an order of chance."""
        return guarded(self._log, lambda: self._counts(measure))

    def values(self, measure: Candidates, places: Sequence[int]) -> list[Scalar | None]:
        """Give the values at some places of that order."""
        return guarded(self._log, lambda: self._values(measure, places))

    def close(self) -> None:
        """Drop the tables."""
        for name, _ in self._kept.values():
            with suppress(duckdb.Error):  # an instance that broke has nothing left to drop
                self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        self._kept.clear()

    def _counts(self, measure: Candidates) -> Integers:
        name = f"found{next(_NUMBERS)}"
        rows = self._sql.candidates(measure)
        self._reread.require(self._sql, rows)
        counted = f"SELECT row_number() OVER () - 1 AS i, * FROM ({rows})"
        execute(self._connection, f"CREATE TEMP TABLE {name} AS {counted}")
        require_unchanged(self._sql.tables, self._state)
        query = f"SELECT n FROM {name} ORDER BY i"
        counts = np.asarray(execute(self._connection, query).fetchnumpy()["n"], dtype=np.int64)
        order = by_chance(len(counts))
        self._kept[measure] = name, order
        found: Integers = counts[order]
        return found

    def _values(self, measure: Candidates, places: Sequence[int]) -> list[Scalar | None]:
        name, order = self._kept[measure]
        asked = {"i": order[list(places)], "o": np.arange(len(places))}
        self._connection.register("places", asked)
        try:
            query = f"SELECT x FROM {name} JOIN places USING (i) ORDER BY o"
            rows = execute(self._connection, query).fetchall()
        finally:
            self._connection.unregister("places")
        return [named(value, measure.value.type) for (value,) in rows]
