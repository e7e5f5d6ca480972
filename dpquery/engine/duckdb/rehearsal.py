"""Plans the SQL of a scan before it is charged, over empty tables in place of the files.

The tables have the columns that the policy declares, so no file is read. Values that are not
known before the charge stand in the SQL as NULL, and groups that are still to be found as any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import duckdb

from dpquery.core.types import EPOCH, INTEGER, Kind, Type
from dpquery.engine.base import PublicRows
from dpquery.engine.duckdb.column_sql import Place
from dpquery.engine.duckdb.connection import duckdb_name, quoted
from dpquery.engine.duckdb.scan_sql import ScanSQL
from dpquery.engine.duckdb.verify import REMEMBERED, Verifier
from dpquery.errors import internal
from dpquery.ir.expr import Scalar
from dpquery.ir.measures import Histogram
from dpquery.ir.query import Key, Scan
from dpquery.ir.relations import PublicJoin, walk
from dpquery.ir.walk import constants_in, filled
from dpquery.policy.model import Table

_NAME_OR_CONSTANT = re.compile(r"""("(?:[^"]|"")*")|'(?:[^']|'')*'|\b\d+\b""")


class Rehearsal:
    """Checks and plans the queries of scans, each scan once, in the verifier's instance."""

    def __init__(
        self, verifier: Verifier, publics: Mapping[str, str], public: PublicRows
    ) -> None:
        """Take the engine's names of the public tables, and where their columns are told."""
        self.verifier = verifier
        self._publics = publics
        self._public = public
        self._made: dict[tuple[str, Type | None], str] = {}
        self._passed: set[Scan] = set()
        self._planned: set[str] = set()
        """Texts without their constants, whose types do not depend on their values."""

    def require(self, scan: Scan, tables: Sequence[Table]) -> None:
        """Check and plan all queries of a scan, which reads these private tables.

        Raises:
            InternalError: DPQ901 one of them may not be run, or cannot be planned.
        """
        if scan in self._passed:
            return
        places = {table.name: Place.in_files(table) for table in tables}
        sql = ScanSQL(foreseen(scan), places, self._publics)
        histograms = (one for one in scan.measures if isinstance(one, Histogram))
        for query in (*sql.whole(), *map(sql.held, histograms)):
            self.plan(sql, query)
        if len(self._passed) >= REMEMBERED:
            self._passed.clear()
        self._passed.add(scan)

    def plan(self, sql: ScanSQL, query: str) -> None:
        """Check one query of a scan, and have DuckDB resolve its names and types.

        Raises:
            InternalError: DPQ901 it may not be run, or cannot be planned.
        """
        self.verifier.require(sql, query)
        unit = _unit_type([place.table for place in sql.places.values()])
        for place in sql.places.values():
            query = query.replace(place.source, self._empty(place.table, unit))
        for join in walk(sql.scan.relation):
            if isinstance(join, PublicJoin):
                self._empty_public(join.table, sql.publics[join.table])
        shape = _NAME_OR_CONSTANT.sub(r"\1", query)  # names stay
        if shape in self._planned:
            return
        try:
            self.verifier.connection.sql(query)
        except (duckdb.OutOfMemoryException, MemoryError):
            raise MemoryError from None  # which is no fault of the text
        except duckdb.Error:
            raise internal("DuckDB can plan the SQL of a scan") from None
        if len(self._planned) >= REMEMBERED:
            self._planned.clear()
        self._planned.add(shape)

    def close(self) -> None:
        """Let go of the verifier's instance, and forget what was made in it."""
        self._made.clear()
        self._planned.clear()
        self.verifier.close()

    def _empty(self, table: Table, unit: Type) -> str:
        """Return an empty table with the columns of a private one, by name."""
        key = table.name, unit
        if key not in self._made:
            types = {column.name: column.type for column in table.columns.values()}
            if table.unit is not None:
                types.setdefault(table.unit, unit)
            columns = ", ".join(f"{quoted(n)} {duckdb_name(t)}" for n, t in types.items())
            name = self._made[key] = f"empty{len(self._made)}"
            made = f"CREATE TABLE {name} ({columns or 'one INTEGER'})"
            self.verifier.connection.execute(made)
        return self._made[key]

    def _empty_public(self, table: str, name: str) -> None:
        """Make an empty table with the columns of a public one, under the engine's name."""
        if (table, None) not in self._made:
            self._made[table, None] = name
            connection = self.verifier.connection
            connection.register("given", self._public.rows(table).schema.empty_table())
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            connection.unregister("given")


def _unit_type(tables: Sequence[Table]) -> Type:
    """Return the type of the units that tables share; where none declares it, any will do."""
    columns = (table.columns.get(table.unit or "") for table in tables)
    known = [*(c.type for c in columns if c is not None), *(t.unit_type for t in tables)]
    return next((type_ for type_ in known if type_ is not None), INTEGER)


def foreseen(scan: Scan) -> Scan:
    """Return a scan with any values in the places of those that earlier releases give."""
    constants = {constant.number: None for constant in constants_in(scan)}
    scan = filled(scan, constants) if constants else scan
    if all(key.finding is None for key in scan.keys):
        return scan
    return replace(scan, keys=tuple(map(_with_any_groups, scan.keys)))


def _with_any_groups(key: Key) -> Key:
    if key.finding is None:
        return key
    values = (_ANY[key.expr.type.kind], None)
    return replace(key, finding=replace(key.finding, values=values, known=True))


_ANY: dict[Kind, Scalar] = {
    Kind.INTEGER: 0,
    Kind.DECIMAL: Fraction(0),
    Kind.TEXT: "",
    Kind.BOOLEAN: False,
    Kind.DATE: EPOCH.date(),
    Kind.TIMESTAMP: EPOCH,
}
"""A value of each type that groups have."""
