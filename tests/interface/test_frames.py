"""Rows in memory are a table like any other: of pandas, polars, Arrow, DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpquery
from dpquery.errors import PolicyInvalid

COLUMNS: dict[str, list[Any]] = {
    "id": [1, 1, 2, None],
    "age": [30, 40, None, 50],
    "pay": [1.5, float("nan"), float("inf"), -0.0],
    "dept": ["eng", None, "a\0b", "eng"],
    "day": [date(2024, 1, 1), date(1, 1, 1), date(9999, 12, 31), None],
}
TYPES = {
    "id": pa.int64(),
    "age": pa.int32(),
    "pay": pa.float64(),
    "dept": pa.string(),
    "day": pa.date32(),
}
ARROW = pa.table({name: pa.array(values, TYPES[name]) for name, values in COLUMNS.items()})


def stored() -> Any:
    made = duckdb.connect()
    made.register("given", ARROW)
    return made.sql("SELECT * FROM given")


FRAMES: dict[str, Callable[[], Any]] = {
    "Arrow": lambda: ARROW,
    "a batch": lambda: ARROW.to_batches()[0],
    "pandas": lambda: ARROW.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.from_arrow(ARROW),
    "DuckDB": stored,
}
ASKED = """
SELECT DP_COUNT(*, eps=1e6), DP_SUM(age, eps=1e6, bounds=[0, 99]),
    DP_SUM(pay, eps=1e6, bounds=[0, 2]), DP_COUNT(DISTINCT id, eps=1e6),
    DP_COUNT_IF(dept = 'eng', eps=1e6), DP_COUNT_IF(day > DATE '2000-01-01', eps=1e6)
FROM df
"""


@pytest.mark.parametrize("kind", FRAMES)
def test_each_kind_of_frame_is_the_table_df(kind: str):
    frame = FRAMES[kind]()
    own: dict[str, Any] = {"unit": "id", "max_rows_contributed": 2, "epsilon": 1e8}
    with dpquery.connect(frame, **own) as session:
        (row,) = session.sql(ASKED).rows
        assert [round(float(value), 2) for value in row] == [3, 70, 3.5, 2, 1, 2]
        assert [*session.describe("df").to_arrow()["column"].to_pylist()] == [*COLUMNS]
        again = session.sql(ASKED.replace("df", "DF"))  # held in memory by now
        assert round(float(again.rows[0][1]), 2) == 70
    with dpquery.connect({"people": frame}, **own) as session:
        assert [row[0] for row in session.tables().rows] == ["people"]
    with dpquery.connect(frame, table="staff", **own) as session:
        assert [row[0] for row in session.tables().rows] == ["staff"]


def test_what_is_done_to_a_frame_later_changes_no_answer():
    lent = np.ones(1000)
    frame = pd.DataFrame({"x": lent}, copy=False)
    with dpquery.connect(frame, epsilon=1e8) as session:
        lent[:] = 99
        assert frame["x"].sum() == 99_000
        (total,) = session.sql("SELECT DP_SUM(x, eps=1e6, bounds=[0, 99]) FROM df").rows[0]
    assert round(total) == 1000


OBJECTS = [
    "a",
    None,
    5,
    b"b",
    Decimal("1.5"),
    float("nan"),
    date(2024, 1, 1),
    [1],
    {"a": 1},
    "\ud800",
    "\0",
    2**80,
    object(),
]


def test_a_column_of_objects_is_one_of_texts_whatever_stands_in_it():
    """One row more changes no type, and so no refusal."""
    types = set()
    for stop in (0, 2, 3, len(OBJECTS)):
        frame = pd.DataFrame({"id": range(stop), "x": pd.Series(OBJECTS[:stop], dtype=object)})
        with dpquery.connect(frame, unit="id", rows_per_unit=1, epsilon=1e8) as session:
            types.add(tuple(map(tuple, session.describe("df").rows)))
            (row,) = session.sql(
                "SELECT DP_COUNT(x, eps=1e6), DP_COUNT(*, eps=1e6) FROM df"
            ).rows
        texts = [one for one in OBJECTS[:stop] if one in ("a", "\0")]
        assert [round(value) for value in row] == [len(texts), stop]
    assert len(types) == 1


def test_an_index_with_a_name_is_a_column():
    frame = pd.DataFrame({"age": [1, 2]}, index=pd.Index([7, 8], name="id"))
    with dpquery.connect(frame, unit="id", rows_per_unit=1, epsilon=1) as session:
        assert [row[0] for row in session.describe("df").rows] == ["id", "age"]


class Broken:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise ValueError("Ann Secret")


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a reader": (ARROW.to_reader, "is a reader, which gives its rows once"),
    "a lazy frame": (lambda: pl.LazyFrame({"name": ["Ann Secret"]}), "LazyFrame"),
    "a series": (lambda: pd.Series(["Ann Secret"]), ": Series"),
    "a broken one": (Broken, "cannot be read as a table: Broken"),
    "no text": (
        lambda: pa.table({"x": pa.array([b"Ann \xff"]).view(pa.string())}),
        "cannot be read as a table: Table",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_frame_is_refused_and_not_shown(kind: str):
    make, told = REFUSED[kind]
    with pytest.raises(PolicyInvalid) as refused:
        dpquery.connect(make(), epsilon=1)
    assert told in str(refused.value)
    assert "Ann" not in str(refused.value)
    assert refused.value.__cause__ is None
    with pytest.raises(PolicyInvalid, match="epsilon"):
        dpquery.connect(ARROW)
    with pytest.raises(PolicyInvalid, match="cannot name several tables"):
        dpquery.connect({"a": ARROW}, table="b", epsilon=1)


def test_a_ledger_knows_frames_by_the_names_of_their_tables(tmp_path: Path):
    given: dict[str, Any] = {"unit": "id", "epsilon": 1, "ledger": tmp_path / "l.ledger"}
    with dpquery.connect(ARROW, rows_per_unit=None, **given) as session:
        session.sql("SELECT DP_COUNT(DISTINCT id, eps=0.25) FROM df")
    with dpquery.connect({"df": pl.from_arrow(ARROW)}, **given) as session:
        assert session.budget.spent.epsilon == Fraction(1, 4)
    with pytest.raises(PolicyInvalid, match="DPQ609"):
        dpquery.connect(ARROW, **{**given, "unit": "age"})


def test_types_of_arrow_that_the_engine_lacks_are_read_in_others():
    half = pa.array(np.array([0.5, 1.5], np.float16))
    long = pa.array([Decimal("1.25"), None], pa.decimal256(38, 2))
    beyond = pa.array([Decimal("1.25"), None], pa.decimal256(60, 2))
    rows = pa.table({"u": [1, 2], "h": half, "d": long, "b": beyond})
    settings = {"unit": "u", "rows_per_unit": 1, "epsilon": 10**8}
    with dpquery.connect(rows, bounds={"h": (0, 9), "d": (0, 9)}, **settings) as session:
        query = "SELECT DP_SUM(h, eps=1e7), DP_SUM(d, eps=1e7), DP_COUNT(*, eps=1e7) FROM df"
        found = [*map(float, session.sql(query).rows[0])]
    assert found == pytest.approx([2.0, 1.25, 2.0], abs=1e-3)
