"""Codes: values clamped, put on a grid and counted from an origin, by every engine alike.

Each case lists the code of every row, worked out by hand; sums, sums of squares and histograms
are then what those codes give.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path

import pyarrow as pa
import pytest

from dpquery.core.types import BOOLEAN, DATE, DOUBLE, EPOCH, INTEGER, TIMESTAMP, Kind, Type
from dpquery.errors import QueryRefused
from dpquery.ir.expr import Code
from dpquery.ir.measures import Histogram, SumCodes, Weight
from dpquery.policy.model import Bounds, Column
from tests.worlds import World, planned, private_table, ranges, world, write

NAN, INF = float("nan"), float("inf")
LEAST, MOST = -(2**63), 2**63 - 1
NINES = 9 * 10**18
DAY = 86_400_000_000
PLAIN = Weight()


def decimals(precision: int, scale: int, *texts: str | None) -> pa.Array:
    cells = [None if text is None else Decimal(text) for text in texts]
    return pa.array(cells, pa.decimal128(precision, scale))


def column(type_: Type, low: object = None, high: object = None, grid: str = "0") -> Column:
    bounds = None if low is None else Bounds(low, high)  # type: ignore[arg-type]
    return Column("x", type_, bounds, grid=Fraction(grid) or None)


def decimal_column(precision: int, scale: int, low: str | None, high: str | None) -> Column:
    ends = (None if end is None else Fraction(end) for end in (low, high))
    return column(Type(Kind.DECIMAL, precision, scale), *ends)


INTEGERS = pa.array([LEAST, -9, -5, 0, 7, 100, 2**40, None])
SMALL = column(INTEGER, -5, 100)
ANY = column(INTEGER)
PENNIES = [NAN, INF, -INF, -0.0, 0.005, 0.004999, 0.015, 0.994, 1e308, None]
MOMENTS = pa.array([LEAST, -1, 0, 10 * DAY, 10 * DAY + 1, MOST, None], pa.timestamp("us"))
DAYS = pa.array([-(2**31), 10956, 10957, 10987, 2**31 - 1, None], pa.int32()).cast(pa.date32())

CASES = {
    # name: cells, column, what is asked, and the code of each row in order; None has none
    "integer": (INTEGERS, SMALL, "x", [-5, -5, -5, 0, 7, 100, 100, None]),
    "narrower bounds": (INTEGERS, SMALL, "x, bounds=[0, 10]", [0, 0, 0, 0, 7, 10, 10, None]),
    "bounds past the column's": (
        INTEGERS, SMALL, "x, bounds=[-99, 8]", [-5, -5, -5, 0, 7, 8, 8, None],
    ),
    "bounds of one point": (INTEGERS, SMALL, "x, bounds=[3, 3]", [3] * 7 + [None]),
    "bounds below zero": (
        INTEGERS, ANY, "x, bounds=[-9, -6]", [-9, -9, -6, -6, -6, -6, -6, None],
    ),
    "integers as wide as they get": (
        INTEGERS, ANY, f"x, bounds=[{-NINES}, {NINES}]",
        [-NINES, -9, -5, 0, 7, 100, 2**40, None],
    ),
    "past 64 bits": (
        pa.array([LEAST, MOST, 0]), ANY, f"x * 3, bounds=[{10**19}, {2 * 10**19}]",
        [10**19, 2 * 10**19, 10**19],
    ),
    "an expression": (pa.array([-7, 7, 1, None]), SMALL, "x * x - 9", [16, 40, -8, None]),
    "a quotient": (
        pa.array([-7, 7, 0, None]), ANY, "7 // x, bounds=[-1, 1]", [-1, 1, None, None],
    ),
    "one value above the bounds": (
        INTEGERS, ANY, f"x // {10**20} + 100, bounds=[0, 3]", [3] * 7 + [None],
    ),
    "one value below the bounds": (
        INTEGERS, ANY, "SIGN(x) * 0 - 9, bounds=[0, 3]", [0] * 7 + [None],
    ),
    "a decimal": (
        decimals(9, 2, "-3", "0.25", "3.14", "99.99", None),
        decimal_column(9, 2, "0.25", "50"), "x", [25, 25, 314, 5000, None],
    ),
    "a decimal between its steps": (
        decimals(9, 2, "0.12", "0.13", "9", None),
        decimal_column(9, 2, "0", "50"), "x, bounds=[0.124, 0.138]", [12, 13, 14, None],
    ),
    "a decimal as wide as it gets": (
        decimals(18, 4, "-99999999999999.9999", "99999999999999.9998", None),
        decimal_column(18, 4, None, None), "x, bounds=[99999999999990, 99999999999999.9999]",
        [999999999999900000, 999999999999999998, None],
    ),
    "decimals of 36 places": (
        decimals(18, 18, "0.000000000000000003", "0.9", "0", None),
        decimal_column(18, 18, None, None),
        f"x * x, bounds=[0.{'0' * 33}004, 0.{'0' * 33}800]", [9, 800, 4, None],
    ),
    "decimals of 36 places far from zero": (
        decimals(18, 18, "0.5", "0.500000000000000001", "0.9", None),
        decimal_column(18, 18, "0.4", "0.6"),
        f"x * x, bounds=[0.25, 0.25{'0' * 15}2]",
        [25 * 10**34, 25 * 10**34 + 10**18 + 1, 25 * 10**34 + 2 * 10**18, None],
    ),
    "an integer and a decimal": (pa.array([1, 8, None]), SMALL, "x * 1.5", [15, 120, None]),
    "pennies": (
        PENNIES, column(DOUBLE, 0, 1, "0.01"), "x", [None, 100, 0, 0, 1, 0, 2, 99, 100, None],
    ),
    "thousands": (
        [499.999, 500.0, -500.0, -500.001, 1499.0, 2e6, NAN],
        column(DOUBLE, -(10**6), 10**6, "1000"), "x", [0, 1, 0, -1, 1, 1000, None],
    ),
    "a grid of 0.3": (
        [-0.15, 0.15, 0.44, 0.46, INF, -1e300, None],
        column(DOUBLE, -3, 3, "0.3"), "x", [0, 1, 1, 2, 10, -10, None],
    ),
    "a grid of one": (
        [-2.5, -0.5, 0.5, 1.5, 2.4999999999999996],
        column(DOUBLE, -3, 3, "1"), "x", [-2, 0, 1, 2, 2],
    ),
    "a billionth of the bounds": (
        [-1.0, 0.0000004, 0.0000006, 999.9999996, 5e9],
        column(DOUBLE, 0, 1000), "x", [0, 0, 1, 10**9, 10**9],
    ),
    "doubles past 64 bits": (
        [1e308, -3.0, 3e19, NAN], column(DOUBLE, -(10**20), 10**20, "0.01"), "x",
        [10**22, -300, 3 * 10**21, None],
    ),
    "doubles without bounds": (
        [INF, -INF, 1e308, 1.0, NAN], column(DOUBLE), "x, bounds=[-1e308, 1e308]",
        [10**9, -(10**9), 10**9, 0, None],
    ),
    "doubles that overflow": (
        [99.0, -99.0, 0.0], column(DOUBLE, -100, 100), "x * 1e307",
        [10**8 * 10, -(10**8) * 10, 0],
    ),
    "an end that doubles round outwards": (
        [1e300, -1.0, 2.5], column(DOUBLE, 0, 2**53 + 3, "1"), "x", [2**53 + 3, 0, 3],
    ),
    "doubles that reach infinity on the way": (
        [99.0, -99.0, 0.5, 0.0, None], column(DOUBLE, -100, 100), "x * 1e308 * 1e-308",
        [10**9, -(10**9), 5 * 10**6, 0, None],
    ),
    "doubles computed": (
        [0.1, 0.2, 0.0, None], column(DOUBLE, 0, 1), "x / x, bounds=[0, 1]",
        [10**9, 10**9, None, None],
    ),
    "a date": (
        DAYS, column(DATE, date(2000, 1, 1), date(2000, 1, 31)), "x",
        [10957, 10957, 10957, 10987, 10987, None],
    ),
    "a date in bounds of the query": (
        DAYS, column(DATE), "x, bounds=['1999-12-31', '2000-01-02']",
        [10956, 10956, 10957, 10958, 10958, None],
    ),
    "a moment": (
        MOMENTS, column(TIMESTAMP, EPOCH, EPOCH + timedelta(days=10)), "x",
        [0, 0, 0, 10 * DAY, 10 * DAY, 10 * DAY, None],
    ),
    "a condition": (INTEGERS, SMALL, "x > 5", [0, 0, 0, 0, 1, 1, 1, None]),
    "a truth value": (
        pa.array([True, False, True, None]), Column("x", BOOLEAN), "x", [1, 0, 1, None],
    ),
}  # fmt: skip


def code_of(small: World, asked: str, *names: str) -> Code:
    """Return the code that the first of some functions uses which takes the argument."""
    name, *others = names or ("DP_PROPORTION", "DP_MEDIAN", "DP_SUM")
    try:
        plan = planned(small.policy, f"SELECT {name}({asked}, eps=1) FROM t")
    except QueryRefused:
        return code_of(small, asked, *others)
    return plan.frontiers[0].scan.measures[-1].code


@pytest.mark.parametrize(
    ("cells", "declared", "asked", "codes"), CASES.values(), ids=CASES.keys()
)
def test_codes_are_what_they_are_by_hand(engine, tmp_path: Path, cells, declared, asked, codes):
    path = write(tmp_path / "t.parquet", x=cells)
    with world(engine, private_table([path], [declared], unit=None)) as small:
        code = code_of(small, asked)
        ends = () if code.expr.type == BOOLEAN else (code.low, code.high)
        for origin in (0, *ends):
            placed = replace(code, origin=origin)
            shifted = [number - origin for number in codes if number is not None]
            sums = [SumCodes(PLAIN, placed, degree) for degree in (1, 2)]
            wanted = [[sum(shifted)], [sum(number**2 for number in shifted)]]
            if placed.size < 2**60:  # as the plan sees to it
                assert small.over("SELECT DP_COUNT(*, eps=1) FROM t", *sums) == wanted
            else:
                assert small.over("SELECT DP_COUNT(*, eps=1) FROM t", sums[0]) == wanted[:1]


@pytest.mark.parametrize(
    ("cells", "declared", "asked", "codes"), CASES.values(), ids=CASES.keys()
)
def test_a_histogram_counts_codes_by_range(
    engine, tmp_path: Path, cells, declared, asked, codes
):
    path = write(tmp_path / "t.parquet", x=cells)
    with world(engine, private_table([path], [declared], unit=None)) as small:
        code = code_of(small, asked)
        if code.cells > 2**63:
            return
        measure = Histogram(PLAIN, replace(code, origin=code.low))
        (bins,) = small.over("SELECT DP_COUNT(*, eps=1) FROM t", measure)
        _, cells_in_all, width = ranges(measure)
        found = {place: count for place, count in enumerate(bins) if count}
        assert found == Counter((c - code.low) // width for c in codes if c is not None)
        assert len(bins) == -(-cells_in_all // width)


def test_sums_pass_64_bits_exactly(engine, tmp_path: Path):
    """30 rows of 4e18 each, under weights of 2^32, and squares of a billion."""
    path = write(tmp_path / "t.parquet", unit=[*range(30), 0], x=[4 * 10**18] * 31)
    with world(engine, private_table([path], [ANY])) as small:
        asked = "SELECT DP_SUM(x, bounds=[0, 5000000000000000000], eps=1) FROM t"
        assert small.exact(asked) == [4 * 10**18 * 30 * 2**27]
        asked = "SELECT DP_VAR_POP(x, bounds=[0, 1000000000], eps=1) FROM t"
        scale = planned(small.policy, asked).frontiers[0].scan.measures[0].weight.scale
        assert small.exact(asked) == [30 * scale, 30 * scale * 10**9, 30 * scale * 10**18]


def test_no_order_of_doubles_moves_their_sum(engine, tmp_path: Path):
    """Added up as doubles, the thousand ones after the first value would be lost."""
    first = [float(2**53), *[1.0] * 1000]
    assert reduce(add, first) == 2**53 != reduce(add, reversed(first))
    for cells in (first, first[::-1]):
        path = write(tmp_path / "t.parquet", x=cells)
        declared = column(DOUBLE, 0, 2**53, "1")
        with world(engine, private_table([path], [declared], unit=None)) as small:
            assert small.exact("SELECT DP_SUM(x, eps=1) FROM t") == [2**53 + 1000]


def test_conditions_pick_rows_for_each_measure_alone(engine, tmp_path: Path):
    """A condition that is NULL picks nothing; weights follow WHERE for all calls alike."""
    path = write(
        tmp_path / "t.parquet",
        unit=[1, 1, 2, 3, 4],
        x=[1, 2, 3, None, 9],
        b=[True, False, None, True, False],
    )
    half, full = 2**31, 2**32
    calls = {
        "DP_SUM(x, eps=1)": [half + 2 * half + 3 * full],
        "DP_SUM(x, eps=1) FILTER (WHERE b)": [half],
        "DP_SUM(x, eps=1) FILTER (WHERE NOT b)": [2 * half],
        "DP_SUM(x, eps=1) FILTER (WHERE b IS NULL)": [3 * full],
        "DP_SUM(x, eps=1) FILTER (WHERE x > x)": [0],
        "DP_AVG(x, eps=1) FILTER (WHERE b)": [half, 6 * half],
        "DP_PROPORTION(b, eps=1)": [2 * half + full, half + full],
        "DP_PROPORTION(x > 1, eps=1) FILTER (WHERE b)": [half, 0],
        "DP_COUNT_IF(b, eps=1)": [half + full],
        "DP_COUNT_IF(b, eps=1) FILTER (WHERE x = 1)": [half],
        "DP_COUNT(x, eps=1)": [2 * half + full],
        "DP_COUNT(DISTINCT unit, eps=1)": [3],
        "DP_COUNT(DISTINCT unit, eps=1) FILTER (WHERE x > 1)": [2],
    }
    columns = [column(INTEGER, -5, 8), Column("b", BOOLEAN)]
    with world(engine, private_table([path], columns)) as small:
        where = "FROM t WHERE x < 8 OR x IS NULL"
        wanted = [number for numbers in calls.values() for number in numbers]
        assert small.exact(f"SELECT {', '.join(calls)} {where}") == wanted
        for call, expected in calls.items():
            assert small.exact(f"SELECT {call} {where}") == expected
