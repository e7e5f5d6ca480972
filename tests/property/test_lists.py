"""Lists of quantiles on every kind of column: empty, constant, of two values, of NULL alone.

Each mechanism answers with as many values as were asked for, of the column's type, between its
bounds and rising; an answer with lists in it is written in every format.
"""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.display.formats import FORMATS
from dpquery.engine import ENGINES
from dpquery.functions.order_statistics.quantile import OF_LISTS
from tests.property.test_extremes import DATA, LEAST, MOST, MOST_EXTREME, TYPES, session

ORDERS = ("[0, 0.25, 0.5, 0.9, 1]", "[0.5]", "[0.25, 0.75]")


def require_lists(row: dict[str, object], count: int) -> None:
    for name, type_ in TYPES.items():
        values = row[name]
        assert len(values) == count
        assert {type(value) for value in values} == {type_}
        assert all(a <= b for a, b in pairwise(values))
        assert LEAST[name] <= values[0]
        assert values[-1] <= MOST[name]


QUICK = {(name, "python") for name in MOST_EXTREME} | {("two values", "duckdb")}
"""An engine gives integers, which are the same from both: so one of them has all the rows."""


@pytest.mark.parametrize("mechanism", OF_LISTS)
@pytest.mark.parametrize(
    ("name", "engine", "neighbours"),
    [
        pytest.param(
            *(name, *asked), marks=[] if (name, asked[0]) in QUICK else [pytest.mark.slow]
        )
        for asked in zip(sorted(ENGINES), Neighbours, strict=True)
        for name in DATA
    ],
)
def test_every_mechanism_answers(
    tmp_path: Path, name: str, engine: str, neighbours: Neighbours, mechanism: str
) -> None:
    limits = {"max_rows_contributed": 2, "neighbours": neighbours}
    with session(tmp_path / "t.parquet", DATA[name], engine, **limits) as opened:
        for orders in ORDERS if mechanism == OF_LISTS[0] else ORDERS[:1]:
            calls = ", ".join(
                f"DP_QUANTILE({name}, {orders}, eps=1, mechanism='{mechanism}') AS {name}"
                for name in TYPES
            )
            for answer in (
                opened.sql(f"SELECT {calls} FROM t"),
                opened.sql(f"SELECT g, {calls} FROM t GROUP BY g"),
            ):
                assert len(answer)
                for row in answer.to_dicts():
                    require_lists(row, orders.count(",") + 1)


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("lists") / "t.parquet"
    with session(path, next(iter(DATA.values())), "duckdb") as opened:
        calls = ", ".join(f"DP_QUANTILE({name}, [0.1, 0.9], eps=1) AS {name}" for name in TYPES)
        return opened.sql(f"SELECT {calls} FROM t")


def test_lists_are_arrow_lists_of_the_columns_type(answer) -> None:
    types = {
        "i": pa.int64(), "d": pa.float64(), "m": pa.decimal128(38, 2), "day": pa.date32(),
        "at": pa.timestamp("us"),
    }  # fmt: skip
    for name, type_ in types.items():
        assert answer.to_arrow().schema.field(name).type == pa.list_(type_)


@pytest.mark.parametrize("name", FORMATS)
def test_lists_are_written_in_every_format(answer, name: str) -> None:
    written = io.BytesIO()
    FORMATS[name](answer, written)
    assert written.getvalue()


def test_lists_read_back_from_csv_and_json(answer) -> None:
    low, high = answer.to_dicts()[0]["i"]
    written = io.BytesIO()
    FORMATS["json"](answer, written)
    assert json.loads(written.getvalue())[0]["i"] == [low, high]
    written = io.BytesIO()
    FORMATS["csv"](answer, written)
    row = next(csv.DictReader(io.StringIO(written.getvalue().decode())))
    assert row["i"] == f"[{low}, {high}]"
    assert f"[{low}, {high}]" in str(answer)
    assert answer.interval("i", 0.95) == [None]
