"""Queries over tables that share their units, and the SQL of their scans; no file is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpquery.core.privacy_loss import Neighbours
from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.engine.duckdb.column_cache import wanted_columns
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.engine.duckdb.scan_sql import ScanSQL, public_names
from dpquery.engine.duckdb.sql_allowlist import foreseen
from dpquery.ir.measures import Histogram
from dpquery.ir.query import Scan
from dpquery.ir.relations import tables_of
from dpquery.plan.plan import Plan
from dpquery.policy.model import Policy, Table
from tests.relations import policy_over
from tests.worlds import planned

COUNT = "SELECT DP_COUNT(*, eps=1) FROM "
TABLE = COUNT + "t WHERE i > 3 AND d < 1 GROUP BY k"
JOIN = COUNT + "t x LEFT JOIN s y ON x.unit = y.unit AND x.i > y.i"
KEYED = COUNT + "t x JOIN s y ON x.unit = y.unit AND x.j = y.j"
PUBLIC = COUNT + "t x LEFT JOIN regions r ON x.k = r.name WHERE r.size > 3"
SEMI = COUNT + "t x WHERE NOT EXISTS (SELECT 1 FROM s y WHERE y.unit = x.unit AND y.k = x.k)"
UNION = (
    "SELECT DP_SUM(i, eps=1, bounds=[0, 9]) FROM "
    "(SELECT unit, i FROM t UNION ALL SELECT unit, j FROM s) q"
)
UNITS = (
    "SELECT DP_SUM(n, eps=1, bounds=[0, 9]) FROM "
    "(SELECT unit, k, MAX(i) AS n FROM t GROUP BY unit, k) q"
)
WINDOW = (
    "SELECT DP_SUM(a + b, eps=1, bounds=[0, 9]) FROM (SELECT unit, "
    "row_number() OVER (PARTITION BY unit ORDER BY i) AS a, "
    "lag(j) OVER (PARTITION BY unit ORDER BY i) AS b FROM t) q"
)
PAIRS = "SELECT DP_COUNT(DISTINCT unit, eps=1) FROM t GROUP BY k"
PARTED = COUNT + "s WHERE i > 3"
BY_TABLE = (
    "SELECT DP_COUNT(*, eps=1, weights='table'), DP_SUM(i, eps=1, bounds=[0, 9]) "
    "FROM t WHERE j > 2 GROUP BY k"
)
BY_PART = "SELECT DP_COUNT(*, eps=1, weights='table') FROM s WHERE i > 3"
FEW = COUNT + "q WHERE i > 3"
QUANTILE = "SELECT DP_MEDIAN(i, eps=1) FROM t WHERE j > 2"
WEIGHED = "SELECT k, DP_SUM(i, eps=1, bounds=[0, 9]), DP_MEDIAN(j, eps=1) FROM t GROUP BY k"
TOGETHER = "SELECT DP_COUNT(*, eps=1, weights='table'), DP_AVG(j, eps=1) FROM t"
QUERIES = [
    *(TABLE, JOIN, KEYED, PUBLIC, SEMI, UNION, UNITS, WINDOW, PAIRS, PARTED, BY_TABLE, BY_PART),
    *(FEW, QUANTILE, WEIGHED, TOGETHER),
]


@contextmanager
def policy_and_public(place: Path) -> Iterator[Written]:
    """Name tables of two files each, none of which is there."""
    paths = {name: [place / name / f"{n}.parquet" for n in (1, 2)] for name in "tsqo"}
    policy = policy_over(paths, place, Neighbours.ADD_REMOVE)
    public = PublicEngine(policy)
    yield Written(policy, public)
    public.close()


@dataclass(frozen=True, eq=False)
class Written:
    """A policy, and the public tables that its queries may be joined to."""

    policy: Policy
    public: PublicEngine

    def plan(self, text: str) -> Plan:
        return planned(self.policy, text, self.public)

    def sql(self, text: str, *, held: bool = False) -> ScanSQL:
        return self.scan_sql(self.plan(text).frontiers[0].scan, held=held)

    def scan_sql(self, scan: Scan, *, held: bool = False) -> ScanSQL:
        """Write a scan as it is rehearsed, or over columns that are kept in memory."""
        names = dict.fromkeys(one.table for one in tables_of(scan.relation))
        tables = [self.policy.tables[name] for name in names]
        places = {
            table.name: _kept(scan, table, n) if held else Place.in_files(table)
            for n, table in enumerate(tables)
        }
        publics = [t.name for t in self.policy.tables.values() if t.public]
        named = {name: f"p{number}" for number, name in enumerate(publics)}
        return ScanSQL(foreseen(scan), places, public_names(scan, named))

    def all_sql(self, plan: Plan) -> Iterator[ScanSQL]:
        for scan in plan.charge.scans:
            yield self.scan_sql(scan)
            yield self.scan_sql(scan, held=True)


def _kept(scan: Scan, table: Table, number: int) -> Place:
    return Place.in_files(table).held_in(f"kept{number}", wanted_columns(scan, table))


def texts(sql: ScanSQL) -> Iterator[tuple[str, str | None]]:
    """Return the queries that a scan leads to, each with the table of codes that it reads."""
    for query in sql.whole():
        yield query, None
    for measure in sql.scan.measures:
        if isinstance(measure, Histogram):
            rows = sql.held(measure)
            yield rows, None
            for source, table in ((f"({rows})", None), ("held7", "held7")):
                yield sql.ranges(measure, source, 0, (0, 64, 2)), table
                yield sql.blocks(measure, source, [(0, 0), (0, 3)], (64, 2)), table
