"""The awkward answer as frames: every value what it was, every type what people expect."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa

from dpquery.answer import Answer
from tests.display.awkward import AWKWARD, EMPTY, TABLE

TEXT = "str" if pd.__version__ >= "3" else "object"
"""What pandas calls a column of texts."""


def test_pandas_keeps_values_and_nullable_types():
    frame = AWKWARD.to_pandas()
    types = {str(name): str(type_) for name, type_ in frame.dtypes.items()}
    assert types == {
        "n": "Int64", "wide": "object", "x": "float64", "price": "object", "flag": "boolean",
        "day": "object", "at": "datetime64[us]", 'odd, "name"': TEXT, "text": TEXT,
        "q": "object", "y": "float64", "exact": "object", "edge": "datetime64[us]",
    }  # fmt: skip
    for name in ("n", "wide", "price", "exact", "flag", "day", 'odd, "name"', "text"):
        values = [None if pd.isna(value) else value for value in frame[name]]
        assert values == TABLE.column(name).to_pylist()
    assert all(type(value) is Decimal for value in frame["price"][:3])
    assert type(frame["day"][0]) is date
    for name in ("at", "edge"):
        moments = [None if pd.isna(one) else one.to_pydatetime() for one in frame[name]]
        assert moments == TABLE.column(name).to_pylist()
    assert frame["x"].tolist()[1:] == TABLE.column("x").to_pylist()[1:]


def test_pandas_types_without_null_are_the_plain_ones():
    table = pa.table({"n": pa.array([1, 2], pa.int32()), "flag": [True, False]})
    types = Answer(table, AWKWARD.loss).to_pandas().dtypes
    assert [str(type_) for type_ in types] == ["int32", "bool"]


def test_two_columns_of_one_name_stay_two():
    table = pa.table([pa.array([1, None]), pa.array([True, None])], names=["a", "a"])
    frame = Answer(table, AWKWARD.loss).to_pandas()
    assert [str(type_) for type_ in frame.dtypes] == ["Int64", "boolean"]


def test_polars_keeps_values_and_types():
    frame = AWKWARD.to_polars()
    assert list(frame.schema.values()) == [
        pl.Int64, pl.Decimal(38, 0), pl.Float64, pl.Decimal(9, 2), pl.Boolean, pl.Date,
        pl.Datetime("us"), pl.String, pl.String, pl.List(pl.Float64),
        pl.Float64, pl.Decimal(18, 4), pl.Datetime("us"),
    ]  # fmt: skip
    assert repr(frame.rows()) == repr(AWKWARD.rows)


def test_frames_without_rows_have_their_columns():
    assert list(EMPTY.to_pandas().columns) == list(EMPTY.columns)
    assert EMPTY.to_polars().columns == list(EMPTY.columns)
