"""A drafted policy: valid, from the schema alone, and useless until its unit is confirmed."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery.engine.file_checks import schemas_of
from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.policy.owner.draft import draft as drafted
from dpquery.policy.sources.paths import sample_directory

UNIT = 'privacy_unit_column = "?"'


def draft(*paths: str | Path, out: Path | None = None) -> str:
    return drafted(paths, schemas_of, out).text()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, pa.Table], str]:
    monkeypatch.chdir(tmp_path)

    def written(name: str, table: pa.Table) -> str:
        pq.write_table(table, tmp_path / name)
        return draft(name)

    return written


def test_a_draft_loads_once_the_unit_is_confirmed(
    write: Callable[[str, pa.Table], str], tmp_path: Path
) -> None:
    text = write("odd name.parquet", pq.read_table(sample_directory() / "edge.parquet"))
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyInvalid, match="is not decided"):
        load_policy(path)
    path.write_text(text.replace(UNIT, 'privacy_unit_column = "unit id"'), encoding="utf-8")
    table = load_policy(path).tables["odd name"]
    assert table.unit == "unit id"
    assert {"se'lect; --", 'quo"ted', "Straße 数"} <= table.columns.keys()
    assert all(column.bounds is None for column in table.columns.values())
    assert '"blob" is left out: no type for binary: store it as a text or a number' in text


def test_a_guess_at_the_unit_stands_in_a_comment_only(
    write: Callable[[str, pa.Table], str],
) -> None:
    text = write("p.parquet", pa.table({"customer_id": [1], "paid": [2.5]}))
    assert '# By its name "customer_id": confirm.' in text
    assert tomllib.loads(text)["tables"]["p"]["privacy_unit_column"] == "?"
    assert "# No column looks like it" in write("q.parquet", pa.table({"paid": [2.5]}))


def test_a_category_of_doubles_is_told_how_to_be_a_group(
    write: Callable[[str, pa.Table], str],
) -> None:
    """As pandas has it, where one is missing."""
    text = write("p.parquet", pa.table({"region": [1.0, None], "paid": [2.5, 3.0]}))
    (region,) = (line for line in text.splitlines() if line.startswith("region = "))
    assert 'type = "integer" with keys' in region
    assert text.count("with keys") == 1


def test_a_draft_depends_on_the_schema_alone(write: Callable[[str, pa.Table], str]) -> None:
    """I1"""
    few = write("p.parquet", pa.table({"id": [1], "x": ["a"]}))
    assert write("p.parquet", pa.table({"id": [5, 9**9], "x": ["secret", None]})) == few


@pytest.mark.parametrize("name", ['a"b.parquet', "a\nb = 1.parquet", f"{'a' * 90}.parquet"])
def test_no_name_breaks_out_of_its_line(
    write: Callable[[str, pa.Table], str], name: str
) -> None:
    text = write(name, pa.table({"id\nx = 1": [1], "\x7f": [1], "id": [1]}))
    values = tomllib.loads(text)
    (table,) = values["tables"].values()
    assert table["path"] == name
    assert list(table["columns"]) == ["id"]


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("{}\n")
    for path in (tmp_path / "x.jsonl", tmp_path / "none.parquet", tmp_path):
        with pytest.raises(PolicyInvalid) as caught:
            draft(path)
        assert caught.value.code == "DPQ601"


def test_files_of_a_glob_are_one_table_or_none(
    write: Callable[[str, pa.Table], str], tmp_path: Path
) -> None:
    write("a.parquet", pa.table({"id": pa.array([1], pa.int64()), "x": [1]}))
    write("b.parquet", pa.table({"x": [2], "id": pa.array([1], pa.int32()), "more": [1]}))
    (table,) = tomllib.loads(draft("*.parquet"))["tables"].values()
    assert (table["path"], [*table["columns"]]) == ("*.parquet", ["id", "x", "more"])
    write("c.parquet", pa.table({"id": [1], "x": ["a"]}))
    with pytest.raises(PolicyInvalid, match="files that differ from a") as caught:
        draft("*.parquet")
    assert caught.value.code == "DPQ612"
    assert "x: c.parquet" in str(caught.value)
