"""Columns made of buffers: the same as pyarrow makes them, without what it loads for that."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.core.arrow import column, numbers, table_of

DECIMALS = st.builds(
    lambda code, scale: Decimal((int(code < 0), tuple(map(int, str(abs(code)))), -scale)),
    st.integers(1 - 10**38, 10**38 - 1),
    st.integers(4, 4),
)
VALUES = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.decimal128(38, 4), DECIMALS),
    (pa.string(), st.text()),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
]


@pytest.mark.parametrize(("type_", "values"), VALUES, ids=[str(type_) for type_, _ in VALUES])
def test_a_column_is_the_one_that_pyarrow_makes(type_: pa.DataType, values):
    @given(st.lists(st.none() | values, max_size=20))
    def same(cells: list[object]) -> None:
        made = column(cells, type_)
        made.validate(full=True)
        assert made.equals(pa.array(cells, type_))
        assert made.to_pylist() == cells

    same()


def test_a_moment_of_another_zone_is_the_same_moment():
    there = datetime(2024, 2, 29, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert column([there], pa.timestamp("us", "UTC")).to_pylist() == [there]


@pytest.mark.parametrize(
    ("value", "type_", "raised"),
    [
        (2**63, pa.int64(), OverflowError),
        (Decimal("0.001"), pa.decimal128(38, 2), ValueError),
        (2**127, pa.decimal128(38, 0), OverflowError),
    ],
)
def test_what_does_not_fit_is_not_changed_to_fit(value, type_, raised):
    with pytest.raises(raised):
        column([value], type_)


def test_a_table_without_rows_keeps_its_columns():
    fields = {"n": pa.int64(), "day": pa.date32()}
    assert table_of([], fields).schema == pa.schema(fields.items())
    assert table_of([(1, date(2024, 1, 1))], fields).num_rows == 1


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=30), st.integers(0, 9))
def test_numbers_are_those_of_a_column_from_anywhere(cells: list[int | None], start: int):
    whole = column(cells, pa.int64()).slice(start)
    there = pa.chunked_array([whole, whole], pa.int64())
    wanted = [7 if cell is None else cell for cell in cells[start:]]
    assert numbers(whole, 7).tolist() == wanted
    assert numbers(there, 7).tolist() == wanted * 2
