"""Rows whose unit stands in other tables: what is read, what is kept, what is noticed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.scan_sql import ScanSQL
from dpquery.engine.duckdb.sources.source_views import rows_sql
from dpquery.engine.duckdb.sql_allowlist import Rehearsal, Verifier
from dpquery.engine.file_checks import fingerprint
from dpquery.errors import InternalError, PolicyInvalid, ScanFailed
from dpquery.policy.load import load_policy
from dpquery.policy.model import DatabaseTable, Policy
from tests import ways
from tests.worlds import NoPublicTables, planned, receipt_for, world

ROWS = {
    "people": [{"person": 1, "age": 3}, {"person": 2, "age": 4}],
    "orders": [
        {"buyer": 1, "number": 10, "total": 1},
        {"buyer": 1, "number": 11, "total": 1},
        {"buyer": 2, "number": 11, "total": 1},
    ],
    "items": [
        {"item": "a", "of": 10, "price": 1, "world": 0},
        {"item": "b", "of": 11, "price": 2, "world": 0},
        {"item": "c", "of": 99, "price": 4, "world": 0},
    ],
    "returns": [{"what": "a", "why": 1}, {"what": "b", "why": 2}, {"what": "c", "why": 4}],
}
ITEMS = "SELECT DP_SUM(price, eps=1) FROM items"
RETURNS = "SELECT DP_SUM(why, eps=1) FROM returns"


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return ways.policy_at(tmp_path, ROWS, limit=10)


def scan_sql(policy: Policy, text: str) -> ScanSQL:
    (frontier,) = planned(policy, text).frontiers
    names = {one: policy.tables[one] for one in ("items", "returns", "orders")}
    read = {n: Place.in_files(t) for n, t in names.items() if f"FROM {n}" in text}
    return ScanSQL(frontier.scan, read, {})


def total(engine: DuckDBEngine, policy: Policy, text: str) -> int:
    plan = planned(policy, text)
    (frontier,) = plan.frontiers
    (one,) = frontier.releases
    (measure,) = one.release.measures
    with engine.open(frontier.scan, receipt_for(plan), 0) as exact:
        (value,) = exact.values(measure)
    return value // measure.weight.scale


CLAIMS = (
    'SELECT r."item", r."of", r."price", r."world", c.u AS "buyer" '
    'FROM (SELECT * REPLACE (left(CAST("item" AS VARCHAR), 2) AS "item") '
    'FROM (SELECT "item", "of", "price", "world" FROM items)) AS r '
    'JOIN (SELECT DISTINCT CAST("number" AS BIGINT) AS k, "buyer" AS u '
    'FROM (SELECT "number", "buyer" FROM orders) '
    'WHERE "number" IS NOT NULL AND "buyer" IS NOT NULL) AS c ON r."of" = c.k'
)


def test_a_view_has_rows_beside_different_claims_of_units_to_keys(policy: Policy):
    text = rows_sql(policy.tables["items"])
    read = r"read_parquet\(string_split\('[^']*/(\w+)\.parquet', '//'\)[^)]*\)"
    named = re.sub(read, r"\1", text)
    assert named == CLAIMS


BROKEN = [
    (ITEMS, r' WHERE \("buyer" IS NOT NULL\)', ""),
    (ITEMS, "t:items", "t:orders"),
    (RETURNS, "t:returns", "t:items"),
    (RETURNS, "$", ' UNION ALL SELECT 0, count(*) FROM "t:orders" WHERE "buyer" IS NOT NULL'),
]


@pytest.mark.parametrize(("text", "find", "put"), BROKEN)
def test_a_scan_reads_owned_rows_and_no_table_on_the_way(
    policy: Policy, text: str, find: str, put: str
):
    verifier, sql = Verifier(), scan_sql(policy, text)
    try:
        for query in sql.whole():
            verifier.require(sql, query)
            Rehearsal(verifier, {}, NoPublicTables()).plan(sql, query)
            changed = re.sub(find, put, query, count=1)
            assert changed != query
            with pytest.raises(InternalError):
                verifier.require(sql, changed)
    finally:
        verifier.close()


def test_what_is_kept_of_a_table_has_the_rows_of_each_unit(policy: Policy):
    engine = DuckDBEngine(policy, FaultLog(None))
    try:
        assert total(engine, policy, ITEMS) == 1 + 2 * 2
        assert total(engine, policy, ITEMS) == 5
        assert total(engine, policy, RETURNS) == 1 + 2 * 2
    finally:
        engine.close()


def test_claims_that_change_are_another_state(tmp_path: Path, policy: Policy):
    engine, before = DuckDBEngine(policy, FaultLog(None)), fingerprint(policy.tables["returns"])
    try:
        assert total(engine, policy, RETURNS) == 5
        fewer = {**ROWS, "orders": ROWS["orders"][:1]}
        ways.policy_at(tmp_path, fewer, limit=10)
        assert fingerprint(policy.tables["returns"]) != before
        assert total(engine, policy, RETURNS) == 1
    finally:
        engine.close()


def test_a_version_of_the_data_is_of_all_files_on_the_way(tmp_path: Path, policy: Policy):
    with dpquery.connect(tmp_path / "policy.toml") as session:
        session.sql(RETURNS)
        pq.write_table(
            pa.Table.from_pylist(ROWS["orders"][:1], schema=ways.SCHEMAS["orders"]),
            tmp_path / "orders.parquet",
        )
        with pytest.raises(ScanFailed):
            session.sql("SELECT DP_COUNT(*, eps=1) FROM returns")


def test_one_row_for_each_unit_is_verified_of_the_rows_that_it_claims(tmp_path: Path):
    def opened(rows: ways.Rows) -> Policy:
        policy = ways.policy_at(tmp_path, rows)
        items = replace(policy.tables["items"], single=True, max_rows_contributed=1)
        return replace(policy, tables={**policy.tables, "items": items})

    shared = [{"buyer": unit, "number": 10, "total": 1} for unit in (1, 2, 2)]
    good, bad = {**ROWS, "orders": shared}, ROWS
    for rows, holds in ((good, True), (bad, False)):
        policy = opened(rows)
        engine = DuckDBEngine(policy, FaultLog(None))
        try:
            if holds:
                assert total(engine, policy, ITEMS) == 2
            else:
                with pytest.raises(ScanFailed):
                    total(engine, policy, ITEMS)
        finally:
            engine.close()


def test_columns_that_no_policy_lists_may_have_the_names_of_the_way(tmp_path: Path):
    policy = ways.policy_at(tmp_path, ROWS, limit=10)
    file = tmp_path / "items.parquet"
    table = pq.read_table(file)
    for name in ("buyer", "number", "c", "u"):
        table = table.append_column(name, pa.array([7, 8, 9]))
    pq.write_table(table, file)
    engine = DuckDBEngine(policy, FaultLog(None))
    try:
        assert total(engine, policy, ITEMS) == 5
        assert total(engine, policy, RETURNS) == 5
    finally:
        engine.close()


def test_a_way_leads_through_a_duckdb_file(tmp_path: Path, policy: Policy):
    path = tmp_path / "orders.duckdb"
    with duckdb.connect(path) as database:
        database.execute(f"CREATE TABLE sold AS FROM '{tmp_path / 'orders.parquet'}'")
    text = (tmp_path / "policy.toml").read_text()
    stored = 'database = "orders.duckdb"\ntable = "sold"'
    (tmp_path / "policy.toml").write_text(text.replace('path = "orders.parquet"', stored))
    policy = load_policy(tmp_path / "policy.toml")
    assert isinstance(policy.tables["items"].through.table.source, DatabaseTable)
    engine = DuckDBEngine(policy, FaultLog(None))
    try:
        engine.rehearse(planned(policy, RETURNS).frontiers[0].scan)
        assert total(engine, policy, RETURNS) == 5
    finally:
        engine.close()


def test_a_key_that_the_files_lack_is_told_when_a_session_opens(tmp_path: Path, policy: Policy):
    file = tmp_path / "orders.parquet"
    pq.write_table(pq.read_table(file).drop_columns("number"), file)
    with pytest.raises(PolicyInvalid) as refused:
        dpquery.connect(tmp_path / "policy.toml")
    assert refused.value.code == "DPQ612"


def test_keys_are_compared_whole_whatever_is_cut_or_clamped(tmp_path: Path):
    """The policy cuts `item` to two characters and clamps `of`, for expressions alone."""
    rows = {
        **ROWS,
        "orders": [{"buyer": 1, "number": -5, "total": 1}],
        "items": [
            {"item": "aax", "of": -5, "price": 1, "world": 0},
            {"item": "aay", "of": -6, "price": 1, "world": 0},
        ],
        "returns": [{"what": "aax", "why": 1}, {"what": "aay", "why": 2}],
    }
    policy = ways.policy_at(tmp_path, rows, limit=10)
    engine = DuckDBEngine(policy, FaultLog(None))
    try:
        assert total(engine, policy, ITEMS) == 1
        assert total(engine, policy, RETURNS) == 1
    finally:
        engine.close()


def test_the_oracle_reads_the_same(policy: Policy):
    with world("python", policy.tables["returns"]) as found:
        found.policy = replace(policy, tables={"returns": policy.tables["returns"]})
        assert found.exact("SELECT DP_COUNT(*, eps=1) FROM returns") == [3 << 32]
