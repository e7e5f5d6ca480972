"""Whose rows count how much: weights, NULL units, one row per unit, several files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dpquery.core.types import DOUBLE, INTEGER, TEXT
from dpquery.errors import ScanFailed
from dpquery.policy.model import Bounds, Column
from tests.worlds import private_table, world, write

W = 2**32
X = Column("x", INTEGER)
ALL = "SELECT DP_COUNT(*, eps=1) FROM t"


def count(limit: int, condition: str = "TRUE") -> str:
    return f"SELECT DP_COUNT(*, eps=1, max_rows_contributed={limit}) FROM t WHERE {condition}"


def weighted(limit: int, *rows: int) -> int:
    """The definition, by units: a unit with n rows gives each floor(W * min(1, limit / n))."""
    return sum(n * (W if n <= limit else W * limit // n) for n in rows)


def test_weights_bound_each_unit(engine, tmp_path: Path):
    path = write(tmp_path / "t.parquet", unit=[1, 2, 2, 3, 3, 3, 4, 4, 4, 4], x=range(10))
    with world(engine, private_table([path], [X])) as small:
        for limit in (1, 2, 3, 4, 5, 2**20):
            assert small.exact(count(limit)) == [weighted(limit, 1, 2, 3, 4)]
        assert small.exact(count(2, "x >= 4")) == [weighted(2, 2, 4)]
        assert small.exact(ALL) == [weighted(1, 1, 2, 3, 4)]


def test_a_filter_of_one_call_takes_no_weight_from_its_units_other_rows(engine, tmp_path: Path):
    """Weights follow WHERE, for all calls alike; FILTER counts some of the weighted rows."""
    path = write(tmp_path / "t.parquet", unit=[1, 1, 1, 2], x=[0, 1, 2, 2])
    calls = (
        "DP_COUNT(*, eps=1) FILTER (WHERE x = 2), DP_COUNT(*, eps=1, max_rows_contributed=2), "
        "DP_COUNT(x, eps=1, max_rows_contributed=3) FILTER (WHERE x > 0)"
    )
    with world(engine, private_table([path], [X])) as small:
        third = W // 3
        assert small.exact(f"SELECT {calls} FROM t") == [
            third + W,
            weighted(2, 3, 1),
            3 * W,
        ]


def test_a_policys_limit_holds_where_the_query_states_none(engine, tmp_path: Path):
    path = write(tmp_path / "t.parquet", unit=[7] * 5, x=[0] * 5)
    with world(engine, private_table([path], [X], max_rows_contributed=3)) as small:
        assert small.exact(ALL) == [weighted(3, 5)]
        assert small.exact(count(4)) == [weighted(4, 5)]


def test_a_heavy_unit_weighs_no_more_than_its_limit(engine, tmp_path: Path):
    units = [1] * 20_000 + list(range(2, 102))
    path = write(tmp_path / "t.parquet", unit=units, x=[0] * len(units))
    with world(engine, private_table([path], [X])) as small:
        for limit in (1, 7, 19_999, 20_000):
            (total,) = small.exact(count(limit))
            assert total == weighted(limit, 20_000, *[1] * 100)
            assert total <= (limit + 100) * W


def test_rows_without_a_unit_are_dropped(engine, tmp_path: Path):
    path = write(tmp_path / "t.parquet", unit=[1, None, None, 2], x=[1, 1, 2, 2])
    with world(engine, private_table([path], [X])) as small:
        assert small.exact(ALL) == [2 * W]
        assert small.count("x = 2") == W
    with world(engine, private_table([path], [X], single=True)) as small:
        assert small.exact(ALL) == [2]


def test_one_units_number_does_not_decide_about_anothers_nan(engine, tmp_path: Path):
    """A footer that says 1 to 2 must not make numbers of a thousand units' NaN."""
    column, calls = Column("x", DOUBLE), "SELECT DP_COUNT(x, eps=1) FROM t"
    for numbers in ([], [1.0], [1.0, 2.0]):
        cells = [float("nan")] * 1000 + numbers
        path = write(tmp_path / "t.parquet", unit=range(len(cells)), x=cells)
        with world(engine, private_table([path], [column], single=True)) as small:
            assert small.exact(calls) == [len(numbers)]


def test_texts_can_be_units(engine, tmp_path: Path):
    """Units are compared whole: those that differ in the last of 4096 bytes are two."""
    long = "u" * 4095
    units = ["", "", "a", None, long + "1", long + "2", long + "2", "e\u0301", "é"]
    path = write(tmp_path / "t.parquet", unit=pa.array(units).dictionary_encode(), x=range(9))
    with world(engine, private_table([path], [X], unit_type=TEXT)) as small:
        assert small.exact(ALL) == [weighted(1, 2, 1, 1, 2, 1, 1)]


@pytest.mark.parametrize("unit_type", [INTEGER, None])
def test_the_unit_is_not_clamped_where_it_is_a_column_too(engine, tmp_path: Path, unit_type):
    path = write(tmp_path / "t.parquet", unit=pa.array([1, 2, 3, 3], pa.int8()))
    column = Column("unit", INTEGER, Bounds(1, 1))
    with world(engine, private_table([path], [column], unit_type=unit_type)) as small:
        assert small.counts("unit = 1", "unit IS NULL") == [weighted(1, 1, 1, 2), 0]


def test_without_a_unit_column_each_row_counts_one(engine, tmp_path: Path):
    path = write(tmp_path / "t.parquet", x=[1, 1, None])
    with world(engine, private_table([path], [X], unit=None)) as small:
        assert small.exact(ALL) == [3]
        assert small.exact(count(5)) == [3]
        assert small.exact("SELECT DP_COUNT(x, eps=1) FROM t") == [2]


def test_nothing_counts_zero(engine, tmp_path: Path):
    empty = write(
        tmp_path / "e.parquet", unit=pa.array([], pa.int64()), x=pa.array([], pa.int64())
    )
    for settings in ({}, {"single": True}, {"unit": None}):
        with world(engine, private_table([empty], [X], **settings)) as small:
            assert small.exact(ALL) == [0]
    full = write(tmp_path / "f.parquet", unit=[1, 2], x=[1, 2])
    with world(engine, private_table([full], [X])) as small:
        assert small.exact(count(3, "x > 2")) == [0]
        assert small.exact(count(3, "x > x")) == [0]


def test_a_unit_may_have_rows_in_several_files(engine, tmp_path: Path):
    files = [
        write(tmp_path / "a.parquet", unit=[1, 1, 2], x=[1, 2, 3]),
        write(tmp_path / "b.parquet", x=[4, 5], unit=[1, 3]),
        write(tmp_path / "c.parquet", unit=pa.array([], pa.int32()), x=pa.array([], pa.int8())),
    ]
    with world(engine, private_table(files, [X])) as small:
        assert small.exact(count(2)) == [weighted(2, 3, 1, 1)]
        assert small.count("x > 3") == 2 * W
    with (
        world(engine, private_table(files, [X], single=True)) as small,
        pytest.raises(ScanFailed),
    ):
        small.exact(ALL)


def test_declared_single_rows_count_one_each(engine, tmp_path: Path):
    path = write(tmp_path / "t.parquet", unit=[1, 2, None, None], x=[5, 6, 7, 8])
    with world(engine, private_table([path], [X], single=True)) as small:
        assert small.exact(ALL) == [2]
        assert small.counts("x = 5", "x > 0", "x = 8") == [1, 2, 0]
        write(path, unit=[1, 2, 2], x=[5, 6, 7])
        with pytest.raises(ScanFailed) as failure:
            small.exact("SELECT DP_COUNT(*, eps=1) FROM t WHERE x = 5")
        assert failure.value.code == "DPQ701"
        write(path, unit=[1, 2, 3], x=[5, 6, 7])
        assert small.exact(ALL) == [3]
