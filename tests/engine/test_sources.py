"""What each kind of source is read by: one view for each table, over its own rows alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.core.types import INTEGER, TEXT
from dpquery.engine.duckdb.sources.source_views import own_rows_sql, rows_sql
from dpquery.engine.file_checks import fingerprint
from dpquery.policy.model import Column, DatabaseTable, Files, Parquet, Table
from dpquery.policy.sources.paths import find_files

COLUMNS = {name: Column(name, type_) for name, type_ in (("i", INTEGER), ("k", TEXT))}


def table(*paths: Path, unit: str | None = "unit") -> Table:
    return Table("t", Files(paths), (), COLUMNS, unit=unit)


def test_a_view_has_the_columns_of_the_policy_and_the_unit(tmp_path: Path):
    for n in (1, 2):
        rows = {"k": [f"a{n}"], "unit": [n], "hidden": ["x"], "i": [n * 10]}
        pq.write_table(pa.table(rows), tmp_path / f"{n}.parquet")
    named = table(tmp_path / "1.parquet", tmp_path / "2.parquet")
    found = duckdb.sql(rows_sql(named))
    assert found.columns == ["i", "k", "unit"]
    assert found.fetchall() == [(10, "a1", 1), (20, "a2", 2)]
    alone = replace(named, unit=None)
    assert duckdb.sql(rows_sql(alone)).columns == ["i", "k"]


def test_a_view_of_files_names_them_one_by_one(tmp_path: Path):
    places = [tmp_path / "it's.parquet", tmp_path / "b.parquet"]
    for place in places:
        pq.write_table(pa.table({"i": [1], "k": ["a"]}), place)
    text = rows_sql(table(*places, unit=None))
    assert f"read_parquet(string_split('{tmp_path}/it''s.parquet//{places[1]}', '//')" in text
    assert "union_by_name=false, hive_partitioning=false, filename=false" in text
    pq.write_table(pa.table({"i": [1]}), places[1])
    assert "union_by_name=false" in rows_sql(table(*places, unit=None))
    fingerprint(table(*places))  # which is taken before each scan
    assert "union_by_name=true" in rows_sql(table(*places, unit=None))


FOLDERS = {
    "n=3": 3,
    "n=-07": -7,
    "n=3.4": 3,
    "n=x": None,
    "n=": None,
    "n=__HIVE_DEFAULT_PARTITION__": None,
    "n=%31%32": 12,
    "n=%FF": None,
    "n=1=2": None,
    "n=99999999999999999999": None,
    "n=1/n=2": 2,
    "N=5": None,
    "n=4/m": 4,
    "m": None,
    "n=' OR 1=1 --": None,
    "n=a\nb": None,
    "k=\n/n=8": 8,
    "n=*": None,
    "n=?/n=6": 6,
    "n=[1-9]": None,
    "n={1,3}": None,
    "k=[n]/n=7": 7,
}


def test_a_folder_is_named_after_a_value_or_none(tmp_path: Path):
    for folder, value in FOLDERS.items():
        (tmp_path / folder).mkdir(parents=True)
        rows = pa.table({"i": pa.array([value], pa.int64())})
        pq.write_table(rows, tmp_path / folder / "a=b.parquet")
    files = find_files([str(tmp_path)], tmp_path)
    columns = {name: Column(name, INTEGER) for name in "in"}
    named = Table("t", Files(files, Parquet(("n",))), (), columns)
    rows = duckdb.sql(rows_sql(named)).fetchall()
    assert len(rows) == len(FOLDERS)
    assert all(i == n for i, n in rows), rows
    held = replace(named, source=Files(files, Parquet(("i",))))
    assert "regexp" not in rows_sql(replace(held, columns={"i": columns["i"]}))


def test_a_file_is_read_alone_whatever_signs_its_name_has(tmp_path: Path):
    for unit, folder in enumerate(["c=x[y]", "c=x*", "c=xy", "c=x?"]):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"i": [unit]}), tmp_path / folder / "a.parquet")
    settings = {"unit": "i", "rows_per_unit": 1, "epsilon": 10**8}
    with dpquery.connect({"t": tmp_path}, **settings) as session:
        assert session.sql("SELECT DP_COUNT(*, eps=1e7) FROM t").scalar() == 4
        counted = "SELECT DP_COUNT(*, eps=1e7) FROM t WHERE c = 'xy'"
        assert session.sql(counted).scalar() == 1


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("n = 3", 2),
        (
            "CASE WHEN n IS NULL THEN NULL WHEN n < 2 THEN 2 WHEN n > 5 THEN 5 ELSE n END >= 4",
            4,
        ),
        ("n IS NULL", 2),
        ("n = 3 AND left(k, 5) = 'b'", 1),
        ("i > 0", 12),
    ],
)
def test_files_whose_folders_do_not_fit_are_not_opened(
    tmp_path: Path, condition: str, read: int
):
    for n in (1, 2, 3, 4, 9, "x"):
        for k in "ab":
            place = tmp_path / f"n={n}" / f"k={k}"
            place.mkdir(parents=True)
            pq.write_table(pa.table({"i": [1]}), place / "1.parquet")
    files = find_files([str(tmp_path)], tmp_path)
    columns = {"i": COLUMNS["i"], "k": COLUMNS["k"], "n": Column("n", INTEGER)}
    named = Table("t", Files(files, Parquet(("n", "k"))), (), columns)
    plan = f"EXPLAIN ANALYZE SELECT sum(i) FROM ({rows_sql(named)}) WHERE {condition}"
    ((_, told),) = duckdb.sql(plan).fetchall()
    assert re.search(rf"Total Files Read: {read}\b", told), told


@pytest.mark.parametrize("name", ['people"', "p; DROP TABLE x", "a.b"])
def test_a_view_of_a_stored_table_quotes_its_name(name: str):
    stored = replace(table(), source=DatabaseTable(Path('/x"y.duckdb'), name))
    quoted = name.replace('"', '""')
    assert (
        own_rows_sql(stored) == f'SELECT "i", "k", "unit" FROM "/x""y.duckdb"."main"."{quoted}"'
    )
