"""Groups: every kind of key, in the order of the answer, whatever the rows hold.

What is not declared belongs to no group, yet its rows take their share of a unit's weight.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.core.types import BOOLEAN, DATE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.policy.model import Bounds, Column
from tests.tasks import ROOT
from tests.worlds import planned, private_table, world, write

W = 2**32
TEXTS = ["b", "a", "A", "abc", "abcd", "", "e\u0301", "é", "a\0b", "a ", None, "none"]
NUMBERS = pa.array([-(2**63), -1, 0, 1, 1, 3, 9, 2**63 - 1, None])
DAYS = pa.array([-(2**31), 10956, 10957, 10958, 10958, 2**31 - 1, None], pa.int32())
MONEY = pa.array([Decimal(t) for t in ("-1.00", "0.50", "0.50", "7.00", "99.99")] + [None])
MOMENTS = pa.array([-(2**63), 0, 0, 1, 2**63 - 1, None], pa.timestamp("us"))
GROUPED = "SELECT DP_COUNT(*, eps=1) FROM t {} GROUP BY x"

KEYS = {
    # name: cells, column, WHERE, the values of the key in order, and how many rows each has
    "keys of the policy": (
        TEXTS, Column("x", TEXT, keys=("b", "zz", "a", "", "é", "a\0b")), "",
        ("", "a", "a\0b", "b", "zz", "é"), [1, 1, 1, 1, 0, 1],
    ),
    "texts that are cut": (
        TEXTS, Column("x", TEXT, keys=("abc", "b"), max_length=3), "", ("abc", "b"), [2, 1],
    ),
    "texts shorter than the cut": (
        TEXTS, Column("x", TEXT, keys=("ab", "b"), max_length=3), "", ("ab", "b"), [0, 1],
    ),
    "keys of the query": (
        TEXTS, Column("x", TEXT, max_length=3), "WHERE x IN ('b', 'abc', 'A', 'b')",
        ("A", "abc", "b"), [1, 2, 1],
    ),
    "a key longer than the cut": (
        TEXTS, Column("x", TEXT, max_length=3), "WHERE x IN ('abcd', 'a')",
        ("a", "abcd"), [1, 0],
    ),
    "keys of the query before the policy's": (
        TEXTS, Column("x", TEXT, keys=("a", "b")), "WHERE x IN ('none', 'b')",
        ("b", "none"), [1, 1],
    ),
    "one value": (TEXTS, Column("x", TEXT), "WHERE x = 'é' AND x <> 'a'", ("é",), [1]),
    "truth values": (
        [True, False, True, None], Column("x", BOOLEAN), "", (False, True), [1, 2],
    ),
    "bounded integers": (
        NUMBERS, Column("x", INTEGER, Bounds(-1, 3)), "", (-1, 0, 1, 2, 3), [2, 1, 2, 0, 3],
    ),
    "integers of the query": (
        NUMBERS, Column("x", INTEGER), f"WHERE x IN ({2**63 - 1}, 1, 5)",
        (1, 5, 2**63 - 1), [2, 0, 1],
    ),
    "integers of the policy": (
        NUMBERS, Column("x", INTEGER, keys=(3, -1, 0)), "", (-1, 0, 3), [1, 1, 1],
    ),
    "bounded dates": (
        DAYS.cast(pa.date32()),
        Column("x", DATE, Bounds(date(2000, 1, 1), date(2000, 1, 3))), "",
        (date(2000, 1, 1), date(2000, 1, 2), date(2000, 1, 3)), [3, 2, 1],
    ),
    "dates of the query": (
        DAYS.cast(pa.date32()), Column("x", DATE),
        "WHERE x IN ('2000-01-02', '1999-12-31', '2024-02-29')",
        (date(1999, 12, 31), date(2000, 1, 2), date(2024, 2, 29)), [1, 2, 0],
    ),
    "dates of the policy": (
        DAYS.cast(pa.date32()), Column("x", DATE, keys=(date(2000, 1, 2), date(1999, 12, 31))),
        "", (date(1999, 12, 31), date(2000, 1, 2)), [1, 2],
    ),
    "decimals": (
        MONEY, Column("x", Type(Kind.DECIMAL, 9, 2), Bounds(0, 50)),
        f"WHERE x IN (0.5, 50, 0, 1.25, {10**20})", (0, 0.5, 1.25, 50, 10**20),
        [1, 2, 0, 1, 0],
    ),
    "moments": (
        MOMENTS, Column("x", TIMESTAMP),
        "WHERE x IN ('1970-01-01 00:00:00.000001', '1970-01-01')", None, [2, 1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("grouped", [True, False], ids=["with NULL", "without"])
@pytest.mark.parametrize("case", KEYS.values(), ids=KEYS.keys())
def test_a_group_has_the_rows_with_its_value(engine, tmp_path: Path, case, grouped):
    """NULL is one more group, and the last, unless WHERE or the policy leaves it out.

    What is asked several times is read from memory at the end.
    """
    cells, column, where, values, counts = case
    column = replace(column, null_group=grouped)
    path = write(tmp_path / "t.parquet", x=cells)
    if grouped and not where:
        values, counts = (*values, None), [*counts, pa.array(cells).null_count]
    with world(engine, private_table([path], [column], unit=None)) as small:
        sql = GROUPED.format(where)
        (key,) = planned(small.policy, sql).frontiers[0].scan.keys
        assert values is None or key.values == values
        for _ in range(3):
            assert small.groups(sql) == [counts]


def test_keys_multiply_and_the_last_runs_fastest(engine, tmp_path: Path):
    rows = [("b", 1, True), ("b", 1, True), ("a", 0, False), ("a", 7, True), ("z", 1, True)]
    rows += [("a", 1, None), (None, 1, True), ("b", None, False)]
    s, n, b = zip(*rows, strict=True)
    path = write(tmp_path / "t.parquet", s=list(s), n=list(n), b=list(b))
    columns = [
        Column("s", TEXT, keys=("b", "a")),
        Column("n", INTEGER, Bounds(0, 2)),
        Column("b", BOOLEAN),
    ]
    orders = (("s", "n"), ("n", "s"), ("b", "n"), ("s", "n", "b"), ("b", "n", "s"))
    domains = {"s": ("a", "b", None), "n": (0, 1, 2, None), "b": (False, True, None)}
    clamped = [{"s": s, "n": min(n, 2) if n else n, "b": b} for s, n, b in rows]
    with world(engine, private_table([path], columns, unit=None)) as small:
        for names in orders:
            wanted = [
                sum(tuple(row[name] for name in names) == cell for row in clamped)
                for cell in product(*(domains[name] for name in names))
            ]
            grouped = f"SELECT DP_COUNT(*, eps=1) FROM t GROUP BY {', '.join(names)}"
            assert small.groups(grouped) == [wanted]


# unit 1 has three rows, in a, in no declared group and without one; unit 2 two in a; 3 one in b
UNITS, GROUPS = [1, 1, 1, 2, 2, 3, None], ["a", "zz", None, "a", "a", "b", "a"]
X, Y = [5, 6, 7, 1, None, 100, 9], [True, True, True, None, False, True, True]
COLUMNS = [
    Column("g", TEXT, keys=("a", "b", "empty"), null_group=False),
    Column("x", INTEGER, Bounds(0, 10)),
    Column("y", BOOLEAN, null_group=False),
    Column("h", INTEGER, Bounds(0, 3), null_group=False),
]


def grouped_by(group: str, *calls: str) -> str:
    return f"SELECT {', '.join(calls)} FROM t GROUP BY {group}"


def small_table(path: Path) -> Path:
    return write(path, unit=UNITS, g=GROUPS, x=X, y=Y, h=[0, 1, 2, 0, 0, 3, 1])


THIRD, HALF = W // 3, W // 2
IN_GROUPS = {
    "DP_COUNT(*, eps=1)": [[THIRD + W, W, 0]],
    "DP_COUNT(*, eps=1, max_rows_contributed=2)": [[2 * W // 3 + 2 * W, W, 0]],
    "DP_COUNT(x, eps=1)": [[THIRD + HALF, W, 0]],
    "DP_COUNT(*, eps=1) FILTER (WHERE y)": [[THIRD, W, 0]],
    "DP_COUNT_IF(NOT y, eps=1)": [[HALF, 0, 0]],
    "DP_SUM(x, eps=1)": [[5 * THIRD + HALF, 10 * W, 0]],
    "DP_SUM(-x, eps=1)": [[-5 * THIRD - HALF, -10 * W, 0]],
    "DP_SUM(x, eps=1) FILTER (WHERE y IS NULL)": [[HALF, 0, 0]],
    "DP_AVG(x, eps=1)": [[THIRD + HALF, W, 0], [5 * THIRD + HALF, 10 * W, 0]],
    "DP_VAR_POP(x, eps=1)": [
        [THIRD + HALF, W, 0],
        [5 * THIRD + HALF, 10 * W, 0],
        [25 * THIRD + HALF, 100 * W, 0],
    ],
    "DP_PROPORTION(y, eps=1)": [[THIRD + HALF, W, 0], [THIRD, W, 0]],
    "DP_COUNT(DISTINCT unit, eps=1)": [[2 * W, W, 0]],
    "DP_COUNT(DISTINCT unit, eps=1) FILTER (WHERE y)": [[W, W, 0]],
    "DP_COUNT(DISTINCT unit, eps=1) FILTER (WHERE x = 4)": [[0, 0, 0]],
}


def test_weights_count_all_rows_of_a_unit_declared_or_not(engine, tmp_path: Path):
    """One by one, and all in one scan."""
    path = small_table(tmp_path / "t.parquet")
    with world(engine, private_table([path], COLUMNS)) as small:
        for call, expected in IN_GROUPS.items():
            assert small.groups(grouped_by("g", call)) == expected, call
        together = [measure for measures in IN_GROUPS.values() for measure in measures]
        assert small.groups(grouped_by("g", *IN_GROUPS)) == together


def test_a_where_takes_the_weight_of_the_rows_that_are_left(engine, tmp_path: Path):
    path = small_table(tmp_path / "t.parquet")
    with world(engine, private_table([path], COLUMNS)) as small:
        sql = "SELECT DP_COUNT(*, eps=1), DP_SUM(x, eps=1) FROM t WHERE x <> 6 GROUP BY g"
        assert small.groups(sql) == [[HALF + W, W, 0], [5 * HALF + W, 10 * W, 0]]
        sql = "SELECT DP_COUNT(*, eps=1) FROM t WHERE g IN ('a', 'zz') GROUP BY g"
        assert small.groups(sql) == [[HALF + W, HALF]]


def test_one_row_per_unit_needs_no_weights(engine, tmp_path: Path):
    path = write(
        tmp_path / "t.parquet",
        unit=[1, 2, 3, None, 5],
        g=["a", "a", "b", "a", None],
        x=[5, 99, None, 1, 1],
        y=[True, False, True, True, True],
    )
    with world(engine, private_table([path], COLUMNS[:3], single=True)) as small:
        calls = ("DP_COUNT(*, eps=1)", "DP_COUNT(DISTINCT unit, eps=1)", "DP_SUM(x, eps=1)")
        calls += ("DP_COUNT(DISTINCT unit, eps=1) FILTER (WHERE y)",)
        wanted = [[2, 1, 0], [2, 1, 0], [15, 0, 0], [1, 1, 0]]
        assert small.groups(grouped_by("g", *calls)) == wanted
        assert small.exact("SELECT DP_COUNT(DISTINCT unit, eps=1) FROM t") == [4]


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_a_unit_is_spread_over_the_groups_it_is_in(engine, tmp_path: Path, limit: int):
    """A unit in m groups counts floor(W min(1, limit / m)) in each, however often it is there.

    Groups are those in which a row meets the condition; no more than there are keys count.
    """
    path = write(
        tmp_path / "t.parquet",
        unit=[*[1] * 5, *[2] * 3, 3, 4],
        h=[0, 1, 2, 3, 3, 0, 0, 1, None, 9],
        y=[True, True, False, False, True, False, True, False, True, None],
    )
    columns = [COLUMNS[2], COLUMNS[3]]
    units = f"DP_COUNT(DISTINCT unit, max_rows_contributed={limit}, eps=1)"
    one = 1 if limit >= 4 else W  # no unit can be in more groups than there are
    four, two, three = (one * min(limit, most) // most for most in (4, 2, 3))
    with world(engine, private_table([path], columns)) as small:
        sql = grouped_by("h", units, f"{units} FILTER (WHERE y)", "DP_COUNT(y, eps=1)")
        counts, met, _ = small.groups(sql)
        assert counts == [four + two, four + two, four, four + one]
        assert met == [three + one, three, 0, three]
        assert sum(counts) <= one * (limit + min(limit, 2) + 1)


def test_what_a_unit_has_in_a_group_is_clamped_and_its_weight_shared(engine, tmp_path: Path):
    """A unit is in a group where one of its rows meets the condition and has a value."""
    path = write(
        tmp_path / "t.parquet",
        unit=[*[1] * 5, *[2] * 3, 3, 4],
        h=[0, 0, 1, 2, 3, 0, 0, 1, None, 9],
        x=[5, 5, 1, 2, None, 9, None, 0, 8, 8],
        y=[True, True, True, False, True, False, True, False, True, None],
    )
    columns = [Column("x", INTEGER, Bounds(0, 10)), COLUMNS[2], COLUMNS[3]]
    bounded = "contribution_bounds_per_group={}, max_groups_contributed={}"
    calls = {
        f"DP_COUNT(*, {bounded.format('(0, 1)', 1)}, eps=1)": [
            [W // 4 + HALF, W // 4 + HALF, W // 4, W // 4 + W]
        ],
        f"DP_COUNT(*, {bounded.format('[2, 9]', 4)}, eps=1)": [[4, 4, 2, 4]],
        f"DP_SUM(x, {bounded.format('(1, 7)', 2)}, eps=1)": [
            [2 * W // 3 * 7 + 7 * W, 2 * W // 3 + W, 2 * W // 3 * 2, 7 * W]
        ],
        f"DP_SUM(x, {bounded.format('(1, 7)', 9)}, eps=1) FILTER (WHERE y)": [[7, 1, 0, 0]],
        f"DP_COUNT_IF(x > 4, {bounded.format('(-3, -3)', 4)}, eps=1)": [[-6, 0, 0, -3]],
    }
    with world(engine, private_table([path], columns)) as small:
        for call, expected in calls.items():
            assert small.groups(grouped_by("h", call)) == expected, call
        together = [measure for measures in calls.values() for measure in measures]
        weighed = "DP_COUNT(*, eps=1, max_rows_contributed=9)"
        *found, rows = small.groups(grouped_by("h", *calls, weighed))
        assert found == together
        assert rows == [4 * W, 2 * W, W, 2 * W]
        total = f"DP_SUM(x, {bounded.format('(1, 7)', 2)}, eps=1)"
        assert small.exact(f"SELECT {total}, {weighed} FROM t") == [7 + 7 + 7 + 7, 10 * W]
        assert small.exact(f"SELECT {total} FROM t WHERE x = 4") == [0]


def test_units_without_groups_count_one(engine, tmp_path: Path):
    path = small_table(tmp_path / "t.parquet")
    with world(engine, private_table([path], COLUMNS)) as small:
        units = "DP_COUNT(DISTINCT unit, eps=1)"
        calls = [units, f"{units} FILTER (WHERE y)", f"{units} FILTER (WHERE x > 6)"]
        calls += [f"{units} FILTER (WHERE x = 4)", "DP_COUNT(*, eps=1)"]
        sql = f"SELECT {', '.join(calls)} FROM t"
        assert small.exact(sql) == [3, 2, 2, 0, 3 * THIRD + 2 * HALF + W]


def test_a_group_may_come_from_several_files_and_none_from_none(engine, tmp_path: Path):
    empty = pa.array([], pa.int64())
    files = [
        small_table(tmp_path / "a.parquet"),
        write(tmp_path / "b.parquet", h=[2, 2], g=["b", "a"], unit=[3, 1], x=[1, 2], y=Y[:2]),
        write(
            tmp_path / "c.parquet", unit=empty, g=pa.array([], pa.string()), x=empty, h=empty,
            y=pa.array([], pa.bool_()),
        ),
    ]  # fmt: skip
    quarter = W // 4
    with world(engine, private_table(files, COLUMNS)) as small:
        calls = ("DP_COUNT(*, eps=1)", "DP_SUM(x, eps=1)", "DP_COUNT(DISTINCT unit, eps=1)")
        assert small.groups(grouped_by("g", *calls)) == [
            [2 * quarter + W, 2 * HALF, 0],
            [7 * quarter + HALF, 11 * HALF, 0],
            [2 * W, W, 0],
        ]
    with world(engine, private_table(files[2:], COLUMNS)) as small:
        assert small.groups(grouped_by("g, y", *calls)) == [[0] * 6] * 3


def test_names_that_the_engine_uses_itself_are_keys_too(engine, tmp_path: Path):
    path = write(tmp_path / "t.parquet", u=[1, 2, 2], g0=["x", "y", "y"], cell=[1, 1, 0])
    columns = [Column("g0", TEXT, keys=("x", "y")), Column("cell", INTEGER, Bounds(0, 1))]
    columns = [replace(column, null_group=False) for column in columns]
    with world(engine, private_table([path], columns, unit="u")) as small:
        sql = grouped_by("cell, g0", "DP_COUNT(*, eps=1)", "DP_SUM(cell, eps=1)")
        assert small.groups(sql) == [[0, HALF, W, HALF], [0, 0, W, HALF]]


def test_rows_of_values_that_are_named_are_groups_also_of_kept_columns(tmp_path: Path):
    """A kept text column is an enumeration of its keys: at the third question it is read."""
    shutil.copytree(ROOT / "datasets", tmp_path, dirs_exist_ok=True)
    policy = tmp_path / "policy.toml"
    policy.write_text(policy.read_text().replace("epsilon = 2.0", "epsilon = 1000000", 1))
    query = (
        "SELECT dept, age, DP_COUNT(*, eps=1000) AS n FROM staff "
        "WHERE (dept, age) IN (('eng', 30), ('hr', 40), ('ops', 30)) GROUP BY age, dept"
    )
    alone = "SELECT DP_COUNT(*, eps=1000) FROM staff WHERE dept = '{}' AND age = {}"
    with dpquery.connect(policy) as session:
        answers = [session.sql(query, refresh=True).rows for _ in range(3)]
        wanted = [
            (dept, age, session.sql(alone.format(dept, age)).scalar())
            for dept, age in (("eng", 30), ("ops", 30), ("hr", 40))
        ]
    assert answers == [wanted] * 3


def test_listed_decimals_without_places_are_groups(tmp_path: Path):
    table = pa.table({"code": pa.array([1, 1, 3], pa.decimal128(9, 0))})
    pq.write_table(table, tmp_path / "t.parquet")
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[budget]\nepsilon = 100000\n[tables.t]\npath = "t.parquet"\n'
        '[tables.t.columns]\ncode = { type = "decimal(9,0)", keys = [1, 3, 7] }\n'
    )
    with dpquery.connect(policy) as session:
        answer = session.sql("SELECT code, DP_COUNT(*, eps=1000) AS n FROM t GROUP BY code")
    assert answer.rows == [(1, 2), (3, 1), (7, 0), (None, 0)]
