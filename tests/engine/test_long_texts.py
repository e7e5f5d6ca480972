"""Long texts that a file has once, and many rows repeat: no operator holds one for each row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery

ROWS = 2000
LONG = "x" * 200_000
"""For each row once, it takes twice the memory."""
POLICY = """\
[budget]
epsilon = 1e9
[limits]
memory = "200MB"
[tables.claims]
path = "claims.parquet"
privacy_unit_column = "u"
privacy_unit_type = "text"
max_rows_contributed = 9999
columns.k = { type = "text", max_length = 3 }
columns.n = { type = "integer", bounds = [0, 9999] }
[tables.held]
path = "PATH"
unit_through = { column = "k", table = "claims", key = "k" }
max_rows_contributed = 9999
columns.k = { type = "text", max_length = 3 }
columns.x = { type = "text", max_length = 3, keys = ["xxx", "y"] }
columns.l = { type = "text[]", max_length = 3 }
"""
BY_VALUE = "SELECT x, DP_COUNT(*, eps=1e7) AS n FROM held GROUP BY x"
LISTED = "SELECT DP_COUNT(*, eps=1e7) AS n FROM held WHERE LIST_CONTAINS(l, 'xxx')"
DIFFERENT = "SELECT DP_COUNT(DISTINCT n, eps=1e7) AS n FROM claims"


def repeated(text: str, last: str, rows: int) -> pa.DictionaryArray:
    places = pa.array([0] * rows + [1], pa.int32())
    return pa.DictionaryArray.from_arrays(places, [text, last])


def write(place: Path, *, unit: str = "u", key: str = "a", value: str = "x") -> None:
    """Write rows of one unit and one of another: fewer than there are claims to them."""
    claims = {
        "u": repeated(unit, "other", 2 * ROWS),
        "k": repeated(key, "b", 2 * ROWS),
        "n": range(2 * ROWS + 1),
    }
    texts, places = repeated("xxxx", "y", ROWS), pa.array(range(ROWS + 2), pa.int32())
    lists = pa.ListArray.from_arrays(places, texts)  # DuckDB's reader holds a text of each
    rows = {"k": repeated(key, "b", ROWS), "x": repeated(value, "y", ROWS), "l": lists}
    for name, columns in (("claims", claims), ("held", rows)):
        pq.write_table(pa.table(columns), place / f"{name}.parquet", store_schema=False)
    (place / "policy.toml").write_text(POLICY.replace("PATH", "held.parquet"))


def answers(place: Path, *texts: str) -> list[Sequence[tuple[object, ...]]]:
    with dpquery.connect(place / "policy.toml") as session:
        return [session.sql(text).rows for text in texts]


def test_long_values_behind_a_way_fill_no_memory(tmp_path: Path):
    write(tmp_path, value=LONG)
    by_value, listed = answers(tmp_path, BY_VALUE, LISTED)
    assert by_value == [("xxx", ROWS), ("y", 1), (None, 0)]
    assert listed == [(ROWS,)]


def test_long_values_of_lines_behind_a_way_fill_no_memory(tmp_path: Path):
    write(tmp_path)
    line = json.dumps({"k": "a", "x": LONG})
    with (tmp_path / "held.jsonl").open("w") as file:
        file.writelines([f"{line}\n"] * ROWS)
        file.write('{"k": "b", "x": "y"}')
    policy = POLICY.replace("PATH", "held.jsonl").replace('columns.l = { type = "text[]"', "#")
    (tmp_path / "policy.toml").write_text(policy)
    assert answers(tmp_path, BY_VALUE) == [[("xxx", ROWS), ("y", 1), (None, 0)]]


@pytest.mark.parametrize("long", ["unit", "key"])
def test_a_long_text_is_no_unit_and_leads_to_none(tmp_path: Path, long: str):
    write(tmp_path, value="xxx", **{long: LONG})
    different, by_value = answers(tmp_path, DIFFERENT, BY_VALUE)
    assert different == [(1 if long == "unit" else 2 * ROWS + 1,)]
    assert by_value == [("xxx", 0), ("y", 1), (None, 0)]
