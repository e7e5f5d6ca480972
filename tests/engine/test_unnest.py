"""Rows for each value of a list are DuckDB's own, but for parts beyond the first 64."""

from __future__ import annotations

import re
from pathlib import Path
from time import process_time

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.errors import QueryRefused, RuleRefused

TAGS = ["a;b;;a", "", None, ";", "a;" * 63, "a;" * 70 + "b", "ä;💧", "a", ";;a;b;;", "b;;;b"]
KEYS = ("a", "b", "", "ä", "💧", ";")
SPELLINGS = [
    "t, UNNEST(string_split(tags, {0!r})) AS u(part)",
    "t CROSS JOIN UNNEST(str_split(tags, {0!r})) AS u(part)",
    "(SELECT unit, unnest(string_to_array(tags, {0!r})) AS part FROM t) q",
    "t, LATERAL (SELECT unnest(string_split(tags, {0!r})) AS part) q",
    "t, UNNEST([tags, {0!r}, 'a', NULLIF(tags, 'a')]) AS u(part)",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = {"unit": range(len(TAGS)), "tags": TAGS}
    pq.write_table(
        pa.table({name: list(cells) for name, cells in rows.items()}), tmp_path / "t.parquet"
    )
    return tmp_path / "t.parquet"


@pytest.mark.parametrize("separator", [";", ";;", "a;"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_lists_have_the_values_that_duckdb_gives_them(
    file: Path, spelling: str, separator: str
):
    """The noise of ε = 1e8 is 0 but with a chance of e^-1000000."""
    source = spelling.format(separator)
    asked = f"FROM {source} WHERE part IN {KEYS} GROUP BY part ORDER BY part"
    with dpquery.connect(file, unit="unit", rows_per_unit=1, epsilon=2 * 10**8) as session:
        found = session.sql(f"SELECT part, DP_COUNT(*, eps=1e8) AS n {asked}").rows
    with duckdb.connect() as plain:
        plain.execute(f"CREATE TABLE t AS FROM '{file}'")
        cut = f"array_to_string(string_split(tags, '{separator}')[1:64], '{separator}')"
        if "[tags" not in source:
            plain.execute(f"UPDATE t SET tags = {cut}")
        wanted = plain.execute(f"SELECT part, count(*) AS n {asked}").fetchall()
    assert [row for row in found if row[1]] == wanted


CONDITIONS = [
    "'a' IN UNNEST(string_split(tags, ';'))",
    "NOT 'b' IN UNNEST(string_split(tags, ';;'))",
    "NULLIF(tags, 'a') NOT IN UNNEST(SPLIT(tags, 'a;'))",
    "(NULLIF(tags, 'a') IN UNNEST(SPLIT(tags, ';'))) IS NULL",
    "'a' IN UNNEST([tags, 'b', NULLIF(tags, '')])",
    "(tags NOT IN UNNEST(['b', NULLIF(tags, '')])) IS NULL",
    "tags IN UNNEST(['', 'a'])",
    "EXISTS (SELECT 1 FROM UNNEST(string_split(tags, ';')) AS u(v) WHERE v = 'a')",
    "NOT EXISTS (SELECT 1 FROM UNNEST(string_split(tags, ';')) AS u(v) WHERE u.v IN ('ä', ''))",
    "EXISTS (SELECT 1 FROM UNNEST(string_split(tags, ';')) AS u(v))",
    "EXISTS (SELECT v FROM UNNEST(str_split(tags, ';')) u(v) WHERE tags = v AND tags > '')",
    "EXISTS (SELECT * FROM UNNEST([tags, 'b']) AS u(v) WHERE v <= 'b' AND tags <> v)",
    "NOT EXISTS (SELECT 1 FROM UNNEST([NULLIF(tags, ''), tags]) AS u(v) WHERE v IS NULL)",
    "EXISTS (SELECT 1 FROM UNNEST([tags, 'a']) AS u(tags) WHERE tags = 'a')",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_look_among_all_values_of_a_list_as_duckdb_does(file: Path, condition: str):
    """DuckDB has no IN UNNEST of a row: there it is a subquery."""
    query = "SELECT {} FROM t WHERE {}"
    with dpquery.connect(file, unit="unit", rows_per_unit=1, epsilon=2 * 10**8) as session:
        found = session.sql(query.format("DP_COUNT(*, eps=1e8)", condition)).scalar()
    plain = re.sub(r"IN (UNNEST\((?:\[.*\]|\w+\(.*?\))\))", r"IN (SELECT \1)", condition)
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE t AS FROM '{file}'")
        assert [(found,)] == database.execute(query.format("count(*)", plain)).fetchall()


def test_lists_within_lists_are_refused_before_they_are_written_out(file: Path):
    query = "age > 3"
    for number in range(4):
        values = ", ".join(["tags"] * 60)
        query = f"EXISTS (SELECT 1 FROM UNNEST([{values}]) AS v{number} WHERE {query})"
    query = query.replace("age > 3", "v0 = v1 OR v2 = v3")
    began = process_time()
    with dpquery.connect(file, unit="unit", epsilon=1) as s, pytest.raises(QueryRefused) as no:
        s.explain(f"SELECT DP_COUNT(*, eps=1) FROM t WHERE {query}")
    assert no.value.code == "DPQ105"
    assert process_time() - began < 2


@pytest.mark.parametrize("values", ["string_split(tags, ';')", "[tags, 'a']"])
def test_a_row_without_a_list_is_kept(file: Path, values: str):
    asked = f"FROM t LEFT JOIN UNNEST({values}) AS u(part) ON TRUE WHERE part IS NULL"
    with dpquery.connect(file, unit="unit", rows_per_unit=1, epsilon=2 * 10**8) as session:
        found = session.sql(f"SELECT DP_COUNT(*, eps=1e8) {asked}").scalar()
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE t AS FROM '{file}'")
        assert [(found,)] == database.execute(f"SELECT count(*) {asked}").fetchall() == [(1,)]


def test_parts_that_do_not_count_are_told(file: Path):
    query = "SELECT DP_COUNT(*, eps=1) FROM t, UNNEST(string_split({}, ';')) AS u(part)"
    with dpquery.connect(file, unit="unit", rows_per_unit=1, epsilon=10) as session:
        told = "of a text only the first 64 parts between ';' count"
        assert told in str(session.sql(query.format("tags")).notes)
        assert told not in str(session.sql(query.format("LEFT(tags, 63)")).notes)


def test_a_row_that_is_a_unit_may_not_become_several(file: Path):
    with dpquery.connect(file, epsilon=10) as session, pytest.raises(RuleRefused) as refused:
        session.explain("SELECT DP_COUNT(*, eps=1) FROM t, UNNEST([tags, 'a']) AS u(part)")
    assert refused.value.code == "DPQ306"
