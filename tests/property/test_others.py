"""One unit that comes changes nothing about any other: not one bit of what they add.

Random queries over relations three levels deep, of units with many equal rows and zeros of
either sign. What all units add is what the others add and what the one adds alone, in every
exact integer; and each row of each other unit is the same, bit by bit. Rows are shuffled, cut
into other files and row groups, stored in a DuckDB file, and read by 1 to 8 threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import sub
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from dpquery.budget.ledger.ledger import Ledger, open_ledger
from dpquery.core.privacy_loss import Neighbours
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.engine.duckdb.quoting import quoted
from dpquery.engine.duckdb.relation_sql import Nested
from dpquery.engine.duckdb.scan_sql import ScanSQL, public_names
from dpquery.engine.duckdb.sources.source_views import define, rows_sql
from dpquery.engine.file_checks import fingerprint
from dpquery.errors import QueryRefused, ScanFailed
from dpquery.ir import relations as extent
from dpquery.ir.measures import Candidates, CountValues, Measure, SumValues
from dpquery.ir.query import Scan, columns_read
from dpquery.ir.relations import numbers, only_table, tables_of
from dpquery.ir.sensitivity import sensitivity
from dpquery.plan.plan import Plan
from dpquery.policy.model import DatabaseTable, LedgerSettings, Policy
from tests.frontiers import OUT_OF_REACH, constructs, queries, require_drawn
from tests.neighbours import Row, counts, foretold
from tests.relations import SCHEMA, TABLES, policy_over, row
from tests.worlds import integers, planned, receipt_for

STRANGER, OTHERS = 10_000, 40
NEAR = [-1.0, 1.0, -2.5, 2.5, -0.0, 0.0, None]

_SUM = "SELECT DP_SUM(POWER(y, -1), eps=1, bounds=[-1, 1], max_rows_contributed=1) FROM"
_BY = "OVER (PARTITION BY unit ORDER BY"
TIED = [
    f"{_SUM} (SELECT unit, y FROM (SELECT unit, 0e0 * d AS y FROM t UNION ALL "
    f"SELECT unit, -(0e0 * d) AS y FROM t) z QUALIFY row_number() {_BY} y) = 1) x",
    f"{_SUM} (SELECT unit, lag(y) {_BY} y) AS y FROM (SELECT unit, 0e0 * d AS y FROM t) z) x",
    f"{_SUM} (SELECT unit, lead(0e0 * y) {_BY} y * 0e0) AS y FROM (SELECT unit, TRUNC(d / 9e9) "
    "AS y FROM t) z) x",
    f"{_SUM} (SELECT unit, MIN(y) AS y FROM (SELECT unit, 0e0 * d AS y FROM t) z "
    "GROUP BY unit) x",
    f"{_SUM} (SELECT DISTINCT unit, 0e0 * d AS y FROM t) x",
    f"{_SUM} (SELECT x.unit AS unit, r.share AS y FROM t x JOIN regions r ON x.k = r.name) x",
    f"{_SUM} (SELECT x.unit AS unit, x.d AS y FROM "
    "(SELECT unit, ROUND(d / 1e9, 1) AS d FROM t) x JOIN s z ON x.unit = z.unit AND z.j = 1) x",
]
"""Zeros that were given a sign, one way or the other, where something keeps one of them."""


def _rows(random: Random, unit: int, most: int) -> dict[str, list[Row]]:
    """Make what a unit has: rows of which many are equal but for the sign of a zero."""
    found: dict[str, list[Row]] = {}
    for table in TABLES:
        kinds = [{**row(random), "unit": unit} for _ in range(random.choice([0, 1, 2, 3]))]
        kinds += [{**one, "d": random.choice(NEAR)} for one in kinds for _ in range(2)]
        found[table] = kinds * random.choice([1, 1, 2, most])
    return {**found, "o": found["o"][:1]}


@dataclass(frozen=True)
class Side:
    """The rows of some units in one layout, and an engine that reads them."""

    policy: Policy
    engine: DuckDBEngine


class Sides:
    """The others, the one alone, and all of them twice: in many small files, and stored."""

    def __init__(self, place: Path) -> None:
        random = Random(11)
        units = [_rows(random, unit, 4) for unit in range(OTHERS)]
        # The most rows by far: threads, batches and hash tables are other ones with them.
        one = {t: rows * 2 for t, rows in _rows(random, STRANGER, 12).items()}
        one["o"] = one["o"][:1]
        self.faults, self.place, self.asked = place / "faults", place, Counter[str]()
        self.ledger: Ledger = open_ledger(LedgerSettings(None))
        self.public: PublicEngine | None = None
        self.others = self._parquet("others", units, files=1, threads=1)
        self.alone = self._parquet("alone", [one], files=1, threads=2)
        small = self._parquet("small", [*units, one], files=3, threads=8)
        self.all = {"small files": small, "stored": self._stored(small, threads=3)}

    def _open(self, policy: Policy, threads: int) -> Side:
        self.public = self.public or PublicEngine(policy)  # of all, public tables are the same
        engine = DuckDBEngine(policy, FaultLog(self.faults), self.public, threads)
        return Side(policy, engine)

    def _parquet(
        self, name: str, units: list[dict[str, list[Row]]], files: int, threads: int
    ) -> Side:
        place, random, paths = self.place / name, Random(name), {}
        place.mkdir()
        for table in TABLES:
            rows = [row for unit in units for row in unit[table]]
            rows += [{**row(random), "unit": None}]
            random.shuffle(rows)
            paths[table] = [place / f"{table}{number}.parquet" for number in range(files)]
            for number, path in enumerate(paths[table]):
                cut = pa.Table.from_pylist(rows[number::files], schema=SCHEMA)
                pq.write_table(cut, path, row_group_size=3 if files > 1 else 1000)
        return self._open(policy_over(paths, place, Neighbours.ADD_REMOVE), threads)

    def _stored(self, side: Side, threads: int) -> Side:
        path, tables = self.place / "stored.duckdb", dict(side.policy.tables)
        with duckdb.connect(path) as database:
            for name in TABLES:
                rows = f"({rows_sql(tables[name])})"
                database.execute(
                    f"CREATE TABLE {name} AS FROM {rows} ORDER BY hash(i, j, d, k)"
                )
                tables[name] = replace(tables[name], source=DatabaseTable(path, name))
        old = side.policy
        policy = Policy(old.name, old.neighbours, old.budget, tables, old.ledger)
        return self._open(policy, threads)

    def close(self) -> None:
        for side in (self.others, self.alone, *self.all.values()):
            side.engine.close()
        for each in (self.public, self.ledger):
            each.close()

    def plan(self, text: str) -> Plan | None:
        """Plan a query, or give it up where its numbers are too large."""
        try:
            plan = foretold(planned(self.others.policy, text, self.public))
        except QueryRefused as refusal:
            if refusal.code not in OUT_OF_REACH:
                raise
            self.asked["empty" if refusal.code == "DPQ408" else "refused"] += 1
            return None
        self.asked.update(["answered", *constructs(text)])
        return plan

    def exact(self, side: Side, plan: Plan) -> list[tuple[Measure, Any]]:
        receipt, found = receipt_for(plan, self.ledger), []
        for number, frontier in enumerate(plan.frontiers):
            if not frontier.releases:
                continue
            with side.engine.open(frontier.scan, receipt, number) as exact:
                for m in frontier.scan.measures:
                    read = counts if isinstance(m, Candidates) else integers
                    found.append((m, read(exact, m)))
        return found

    def require_apart(self, text: str) -> None:
        """Hold what all units give against what the others give, and the one alone."""
        plan = self.plan(text)
        if plan is None:
            return
        try:
            self._require_apart(plan)
        except ScanFailed:
            pytest.fail(self.faults.read_text("utf-8"))

    def _require_apart(self, plan: Plan) -> None:
        rows = [rows_of_others(self.others, frontier.scan) for frontier in plan.frontiers]
        parts = list(
            zip(self.exact(self.others, plan), self.exact(self.alone, plan), strict=True)
        )
        for name, side in self.all.items():
            assert [rows_of_others(side, f.scan) for f in plan.frontiers] == rows, name
            for (measure, whole), ((_, others), (_, one)) in zip(
                self.exact(side, plan), parts, strict=True
            ):
                if isinstance(measure, Candidates):
                    assert whole == others + one, (name, measure)
                    continue
                added = [a + b for a, b in zip(others, one, strict=True)]
                if isinstance(measure, SumValues):
                    assert sum(map(abs, map(sub, whole, others))) <= sensitivity(measure), name
                elif isinstance(measure, CountValues):  # a value of both is counted once
                    low = map(max, others, one)
                    assert all(a <= b for a, b in zip(low, whole, strict=True)), (name, measure)
                    assert sum(whole) <= sum(added), (name, measure)
                else:
                    assert whole == added, (name, measure)


def rows_of_others(side: Side, scan: Scan) -> list[Counter[str]]:
    """Give each row that the others have, to the last bit: in columns, and as it is counted."""
    tables = {one.table for one in tables_of(scan.relation)}
    places = {name: Place.in_files(side.policy.tables[name]) for name in tables}
    publics = public_names(scan, side.engine._publics)
    asked = [ScanSQL(scan, places, publics).rows]
    if only_table(scan.relation) is None:
        refs = columns_read(scan)
        given = [ref for ref in refs if ref.of in numbers(scan.relation)]
        columns = ", ".join(["u", *(quoted(f"{ref.of}.{ref.name}") for ref in given)])
        source = Nested(places, publics, refs).source(scan.relation)
        asked.append(f"SELECT {columns} FROM {source}")
    connection = side.engine._started()
    side.engine._load_derived(connection, scan)
    for name in tables:
        define(connection, side.policy.tables[name], fingerprint(side.policy.tables[name]))
    found = []
    for sql in asked:
        rows = connection.execute(f"FROM ({sql}) WHERE u <> {STRANGER}").fetchall()
        assert not {"-0.0", "nan"} & {repr(cell) for row in rows for cell in row}, sql
        found.append(Counter(map(repr, rows)))
    return found


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    opened = Sides(tmp_path_factory.mktemp("others"))
    yield opened
    opened.close()


def require_apart(sides: Sides, examples: int) -> None:
    """Ask random queries; nearly all of them have to be answered."""
    sides.asked.clear()

    @settings(max_examples=examples)
    @given(queries())
    def hold(text: str) -> None:
        sides.require_apart(text)

    hold()
    if examples >= 100:  # of few, too many may be refused by chance
        assert sides.asked["answered"] > 9 * sides.asked["refused"], sides.asked
        assert sides.asked["answered"] > 4 * sides.asked["empty"], sides.asked


@pytest.mark.parametrize("text", TIED)
def test_what_ties_is_one_value(sides: Sides, text: str):
    sides.require_apart(text)
    assert sides.asked.pop("answered", 0) == 1


def test_what_others_add_does_not_change_when_a_unit_comes(sides: Sides):
    require_apart(sides, 10)


@pytest.mark.parametrize("paired", [1, 3])
def test_that_holds_however_few_rows_of_a_unit_are_paired(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, paired: int
):
    monkeypatch.setattr(extent, "MOST_PAIRS", paired)
    require_apart(sides, 4)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(10))
def test_five_thousand_queries_leave_others_as_they_are(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, shard: int
):
    """All shards together have that many answered; in some, joins pair few rows of a unit."""
    monkeypatch.setattr(extent, "MOST_PAIRS", extent.MOST_PAIRS if shard % 4 else 3)
    require_apart(sides, 5_000 // 10 + 100)  # some may be refused by chance
    assert sides.asked["answered"] >= 5_000 // 10
    require_drawn(sides.asked)
