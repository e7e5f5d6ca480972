"""What each kind of source is read by: one view for each table, over its own rows alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery.core.types import INTEGER, TEXT
from dpquery.engine.duckdb.sources import rows_sql
from dpquery.policy.model import Column, DatabaseTable, Files, Table

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


def test_a_view_of_files_names_them_one_by_one():
    text = rows_sql(table(Path("/a/it's.parquet"), Path("/a/b.parquet")))
    assert "read_parquet(['/a/it''s.parquet', '/a/b.parquet'], union_by_name=true" in text
    assert "hive_partitioning=false, filename=false" in text


@pytest.mark.parametrize("name", ['people"', "p; DROP TABLE x", "a.b"])
def test_a_view_of_a_stored_table_quotes_its_name(name: str):
    stored = replace(table(), source=DatabaseTable(Path('/x"y.duckdb'), name))
    quoted = name.replace('"', '""')
    assert rows_sql(stored) == f'SELECT "i", "k", "unit" FROM "/x""y.duckdb".main."{quoted}"'
