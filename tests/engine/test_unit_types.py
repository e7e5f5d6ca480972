"""Units that are days, decimals, or several columns: told apart alike by every operator."""

from __future__ import annotations

import tempfile
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpquery
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import DATE, TEXT, Kind, Type
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.sources.source_views import unit_code
from dpquery.engine.file_checks import misfits_of, rows_of
from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.policy.model import Files, Policy, Table
from dpquery.policy.owner.data_validation import check
from tests.neighbours import drawn, require_bounded_move
from tests.oracle import engine as oracle
from tests.worlds import planned

DECIMAL = Type(Kind.DECIMAL, 6, 2)
HUGE, LONG = 10**38 - 1, 2**63
UUIDS = [UUID(int=0), UUID(int=2**127), UUID(int=2**128 - 1)]
AS_ARROW = {
    "text": [pa.string(), pa.large_string()],
    "uuid": [pa.uuid(), pa.string()],
    "integer": [pa.int32(), pa.uint8()],
    "date": [pa.date32()],
    "timestamp": [pa.timestamp("us"), pa.timestamp("ns")],
    "timestamptz": [pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ns", "UTC")],
    "decimal(6,2)": [pa.decimal128(6, 2), pa.decimal128(5, 1)],
    "decimal(20,0)": [pa.uint64(), pa.decimal128(20, 0)],
    "decimal(38,0)": [pa.decimal128(38, 0), pa.decimal256(38, 0)],
}
"""What files have that units of a type are read from, other ones for x than for y; uuid is the
policy's text."""
VALUES = {
    "uuid": [*UUIDS, None],
    "decimal(20,0)": [0, 1, 2**63 - 1, 2**63, 2**64 - 1, None],
    "decimal(38,0)": [0, HUGE, HUGE - 1, -HUGE, None],
    "text": ["", "a", "1:a", "11", "a1:b", None],
    "integer": [0, 1, 11, 255, None],
    "date": [date(1, 1, 1), date(2020, 2, 29), date(9999, 12, 31), None],
    "timestamp": [LONG - 1, 1 - LONG, -LONG, LONG - 2, -1, 0, 1711846800000000, None],
    "timestamptz": [1729990800000000, 1729994400000000, LONG - 1, -LONG, -1, None],
    "decimal(6,2)": [Decimal("0.00"), Decimal("1.00"), Decimal("-1.50"), None],
}
UNITS = (
    ("date",),
    ("decimal(6,2)",),
    ("uuid",),
    ("decimal(20,0)",),
    ("decimal(38,0)",),
    ("timestamp",),
    ("timestamptz",),
    ("text", "integer"),
    ("uuid", "timestamp"),
    ("decimal(20,0)", "text"),
    ("text", "text"),
    ("date", "decimal(6,2)", "text"),
)
POLICY = """
[privacy]
unit = "pupil"
neighbours = "{neighbours}"
[budget]
epsilon = 9e9
"""
TABLE = """
[tables.{name}]
path = "{name}.parquet"
privacy_unit_column = {unit}
max_rows_contributed = 2
columns.{name} = {{ type = "integer", bounds = [-2, 9] }}
"""
Row = tuple[object, ...]


def stored(units: list[object], type_: pa.DataType) -> pa.Array:
    """Return units as a file holds them; nanoseconds cannot hold all of them."""
    if pa.types.is_timestamp(type_):
        if type_.unit == "ns":
            units = [one * 1000 if one and abs(one) < LONG // 1000 else one for one in units]
        return pa.array(units, pa.int64()).cast(type_)
    if pa.types.is_string(type_):
        return pa.array([None if one is None else str(one) for one in units], type_)
    if isinstance(type_, pa.UuidType):
        return pa.array([None if one is None else one.bytes for one in units], type_)
    if pa.types.is_decimal(type_):
        return pa.array([None if one is None else Decimal(one) for one in units], type_)
    return pa.array(units, type_)


def policy_at(place: Path, types: Row, rows: dict[str, list[Row]], neighbours: str) -> Policy:
    """Write the tables x and y: a unit in its columns, and a number of the table's name."""
    text = POLICY.format(neighbours=neighbours)
    for name, own in rows.items():
        parts = [f"{name}{at}" for at in range(len(types))]
        unit = str(parts if len(parts) > 1 else parts[0])
        unit = unit if len(parts) > 1 else f'"{parts[0]}"'
        text += TABLE.format(name=name, unit=unit)
        for part, type_ in zip(parts, types, strict=True):
            short = ", max_length = 8" if type_ in {"text", "uuid"} else ""
            declared = "text" if type_ == "uuid" else type_
            text += f'columns.{part} = {{ type = "{declared}"{short} }}\n'
        arrays = {
            part: stored([row[at] for row in own], AS_ARROW[types[at]][-(name == "y")])
            for at, part in enumerate(parts)
        }
        arrays[name] = pa.array([row[-1] for row in own], pa.int64())
        place.mkdir(exist_ok=True)
        pq.write_table(pa.table(arrays), place / f"{name}.parquet")
    (place / "policy.toml").write_text(text, "utf-8")
    return load_policy(place / "policy.toml")


def queries(parts: int) -> list[str]:
    """Return queries that join, group, choose and number rows by their unit."""
    mine, theirs = ([f"{t}{at}" for at in range(parts)] for t in "xy")
    on = " AND ".join(f"{a} = {b}" for a, b in zip(mine, theirs, strict=True))
    unit, missing = ", ".join(mine), ", ".join(theirs)
    calls = "DP_COUNT(*, eps=1), DP_SUM(n, eps=1, bounds=[0, 3], max_rows_contributed=1)"
    outer = [
        f"SELECT {calls} FROM (SELECT {missing}, COUNT(*) AS n FROM x LEFT JOIN y "
        f"ON {on} AND x > 1 GROUP BY {missing})"
    ]
    return [
        *(outer if parts > 1 else []),  # of one column, that is refused
        "SELECT DP_COUNT(*, eps=1), DP_COUNT(DISTINCT x, eps=1), DP_MEDIAN(x, eps=1) FROM x",
        f"SELECT DP_SUM(x, eps=1), DP_SUM(y, eps=1) FROM x JOIN y ON {on}",
        f"SELECT DP_SUM(y, eps=1) FROM x FULL JOIN y ON {on} AND x > y",
        f"SELECT DP_SUM(x, eps=1) FROM x WHERE EXISTS (SELECT 1 FROM y WHERE {on} AND y > 1)",
        f"SELECT {calls} FROM (SELECT {unit}, COUNT(*) AS n FROM x GROUP BY {unit})",
        f"SELECT {calls} FROM (SELECT row_number() OVER (PARTITION BY {unit} ORDER BY x) AS n "
        "FROM x)",
        f"SELECT DP_COUNT(*, eps=1) FROM (SELECT DISTINCT {unit} FROM x)",
        f"SELECT {calls} FROM (SELECT {unit}, x AS n FROM x "
        f"UNION ALL SELECT {missing}, y FROM y)",
    ]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Row, list[dict[str, list[Row]]], Neighbours]:
    types = draw(st.sampled_from(UNITS))
    random = Random(draw(st.integers(0, 10**6)))
    neighbours = draw(st.sampled_from(Neighbours))

    def rows_of(unit: Row) -> dict[str, list[Row]]:
        return {
            table: [(*unit, random.choice([None, -9, 0, 1, 4, 50])) for _ in range(many)]
            for table, many in (
                ("x", random.choice([0, 1, 3])),
                ("y", random.choice([0, 1, 2])),
            )
        }

    units = {tuple(random.choice(VALUES[type_]) for type_ in types) for _ in range(6)}
    first, *others = sorted(units, key=repr)
    shared = [rows_of(unit) for unit in others]
    sides = [[rows_of(first)], []]
    if neighbours is Neighbours.SUBSTITUTE and None not in first:
        sides[1] = [rows_of(first)]
    found = []
    for side in sides:
        rows = {t: [row for one in (*side, *shared) for row in one[t]] for t in "xy"}
        for own in rows.values():
            random.shuffle(own)
        found.append(rows)
    return types, found, neighbours


def require_promise(case: tuple[Row, list[dict[str, list[Row]]], Neighbours]) -> None:
    types, sides, neighbours = case
    found = []
    with tempfile.TemporaryDirectory() as place:
        for number, rows in enumerate(sides):
            policy = policy_at(Path(place) / str(number), types, rows, neighbours)
            plans = [planned(policy, text) for text in queries(len(types))]
            expected = [drawn(oracle.PythonEngine(policy, FaultLog(None)), p) for p in plans]
            engine = DuckDBEngine(policy, FaultLog(None), threads=1 + number)
            try:
                for _ in range(2):  # the second time, from what it keeps
                    assert [drawn(engine, plan) for plan in plans] == expected
            finally:
                engine.close()
            found.append(expected)
    for before, after in zip(*found, strict=True):
        require_bounded_move(before, after)


@settings(max_examples=8)
@given(cases())
def test_units_of_each_type_move_releases_by_no_more_than_claimed(case):
    require_promise(case)


@pytest.mark.slow
@settings(max_examples=600)
@given(cases())
def test_units_of_each_type_move_releases_by_no_more_than_claimed_at_length(case):
    require_promise(case)


def test_different_units_have_different_codes():
    """Days at the ends of their range, infinite ones, decimals of any scale; NULL has none."""
    days = Table("t", Files(()), (), {}, "d", DATE)
    ends = "DATE '-infinity', DATE 'infinity', DATE '5877642-06-25 (BC)', DATE '5881580-07-10'"
    rows = f"(SELECT unnest([{ends}, DATE '0001-01-01', DATE '0001-01-01 (BC)', NULL]) AS d)"
    codes = [code for (code,) in duckdb.sql(f"SELECT {unit_code(days)} FROM {rows}").fetchall()]
    assert codes.count(None) == 1
    assert len({*codes}) == len(codes)
    decimals = Table("t", Files(()), (), {}, "d", DECIMAL)
    rows = "(SELECT CAST(1 AS DECIMAL(4, 1)) AS d UNION ALL SELECT CAST(1 AS DECIMAL(3, 0)))"
    codes = duckdb.sql(f"SELECT DISTINCT {unit_code(decimals)} FROM {rows}").fetchall()
    assert codes == [("1.00",)]
    together = Table("t", Files(()), (), {}, "a, b", together=(("a", TEXT), ("b", TEXT)))
    texts = ["", "1", "1:", ":1", "1:1", "0:", "a", "é", "e\u0301"]
    listed = ", ".join(f"'{one}'" for one in texts)
    pairs = f"(SELECT a, b FROM unnest([{listed}, NULL]) s(a), unnest([{listed}, NULL]) t(b))"
    codes = [
        code for (code,) in duckdb.sql(f"SELECT {unit_code(together)} FROM {pairs}").fetchall()
    ]
    known = [code for code in codes if code is not None]
    assert len(known) == len({*known}) == len(texts) ** 2


def test_a_scan_answers_whatever_days_name_units(tmp_path: Path):
    days = pa.array([-(2**31) + 3, 2**31 - 3, 0, None, 0], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"x0": days, "x": [1, 2, 3, 4, 5]}), tmp_path / "x.parquet")
    unit = '"x0"\nprivacy_unit_type = "date"'
    text = POLICY.format(neighbours="add-remove") + TABLE.format(name="x", unit=unit)
    (tmp_path / "policy.toml").write_text(text)
    with dpquery.connect(tmp_path / "policy.toml") as session:
        assert session.sql("SELECT DP_COUNT(*, eps=1e6) FROM x").rows == [(4,)]
        assert session.sql("SELECT DP_COUNT(DISTINCT x, eps=1e6) FROM x").rows == [(4,)]
        assert session.sql("SELECT DP_COUNT(DISTINCT x0, eps=1e6) FROM x").rows == [(3,)]


def test_what_cannot_be_a_unit_is_refused(tmp_path: Path):
    rows = {"x": [("a", 1, 2)], "y": [("a", 1, 2)]}
    policy_at(tmp_path, ("text", "integer"), rows, "add-remove")
    good = (tmp_path / "policy.toml").read_text()
    for old, new, said in (
        ("['x0', 'x1']", "['x0', 'z']", "names a column that is not listed: z"),
        (
            "['x0', 'x1']",
            "['x0']",
            "must be a name of 1 to 128 printable characters, or a list",
        ),
        ("['x0', 'x1']", "['x0', 'x0']", "names a column twice"),
        ("['x0', 'x1']", "['x1', 'x0']", "has another type than the unit of another table"),
        (
            "['x0', 'x1']",
            "['x0', 'x1']\nprivacy_unit_type = 'text'",
            "is said of several columns",
        ),
        (
            'x1 = { type = "integer"',
            'x1 = { type = "double"',
            "makes a double the privacy unit",
        ),
        (
            'x1 = { type = "integer"',
            'x1 = { type = "boolean"',
            "makes a boolean the privacy unit",
        ),
    ):
        assert old in good
        (tmp_path / "policy.toml").write_text(good.replace(old, new, 1))
        with pytest.raises(PolicyInvalid) as refused:
            load_policy(tmp_path / "policy.toml")
        assert said in str(refused.value)


def test_the_owner_is_told_of_units_of_several_columns(tmp_path: Path):
    rows = {"x": [("a", 1, 2), ("a", 1, 3), ("a", None, 3)], "y": [("a", 1, 2)]}
    policy = policy_at(tmp_path, ("text", "integer"), rows, "add-remove")
    said = [(one.place, one.text) for one in check(policy, misfits_of, rows_of)]
    assert ("x", "1 of 3 rows have no unit: they never count") in said
    assert ("x", "1 of 1 units are among the 1 of y") in said or (
        "y", "1 of 1 units are among the 1 of x") in said  # fmt: skip


def test_a_part_of_the_unit_is_not_the_unit(tmp_path: Path):
    rows = {"x": [("a", 1, 2), ("a", 2, 3)], "y": [("a", 1, 2)]}
    policy_at(tmp_path, ("text", "integer"), rows, "add-remove")
    refused_at = (
        "SELECT DP_COUNT(*, eps=1e6) FROM x JOIN y ON x0 = y0",
        "SELECT DP_COUNT(*, eps=1e6) FROM x JOIN y ON x0 = y0 AND x1 = y",
        "SELECT DP_SUM(n, eps=1e6, bounds=[0, 9]) FROM (SELECT x0, COUNT(*) AS n FROM x "
        "GROUP BY x0)",
        "SELECT DP_COUNT(*, eps=1e6) FROM (SELECT DISTINCT x0 FROM x)",
        "SELECT DP_COUNT(*, eps=1e6) FROM x WHERE x0 IN (SELECT y0 FROM y)",
        "SELECT DP_COUNT(*, eps=1e6) FROM x WHERE EXISTS (SELECT 1 FROM y WHERE x0 = y0)",
    )
    with dpquery.connect(tmp_path / "policy.toml") as session:
        for text in refused_at:
            with pytest.raises(dpquery.QueryRefused):
                session.sql(text)
        offered = 'SELECT DP_COUNT(*, eps=1e6) FROM x JOIN y ON x."x0, x1" = y."y0, y1"'
        with pytest.raises(dpquery.QueryRefused, match=r"try: SELECT .*x0, x1"):
            session.sql(refused_at[0])
        assert session.sql(offered).rows == [(1,)]
        assert session.sql('SELECT DP_COUNT(DISTINCT "x0, x1", eps=1e6) FROM x').rows == [(2,)]


def test_columns_of_the_unit_are_no_unit_where_they_may_be_missing(tmp_path: Path):
    """Grouped by them after an outer join, a unit has two rows: NULL, and its own."""
    rows = {"x": [("a", 1, 0), ("a", 1, 9)], "y": [("a", 1, 2)]}
    policy = policy_at(tmp_path, ("text", "integer"), rows, "add-remove")
    rows = "x LEFT JOIN y ON x0 = y0 AND x1 = y1 AND x > 1"
    count = "SELECT DP_COUNT(*, eps=1, max_rows_contributed=2) FROM"
    left, whole = (
        planned(policy, f"{count} (SELECT {by}, COUNT(*) AS n FROM {rows} GROUP BY {by})")
        for by in ("y0, y1", "x0, x1")
    )
    assert not left.frontiers[0].scan.contribution.single
    assert whole.frontiers[0].scan.contribution.single


def test_a_way_leads_to_units_of_several_columns(tmp_path: Path):
    orders = {"school": ["a", "a", "b"], "pupil": [1, 2, 1], "o": [10, 11, 10]}
    pq.write_table(pa.table(orders), tmp_path / "orders.parquet")
    items = {"o": [10, 10, 11, 12], "x": [1, 2, 3, 4]}
    pq.write_table(pa.table(items), tmp_path / "items.parquet")
    (tmp_path / "p.toml").write_text(SCHOOLS, "utf-8")
    with dpquery.connect(tmp_path / "p.toml") as session:
        assert session.sql("SELECT DP_COUNT(*, eps=1e7) FROM items").scalar() == 5
        joined = "SELECT DP_COUNT(*, eps=1e7) FROM items i JOIN orders r ON i.o = r.o"
        assert session.sql(joined).scalar() == 5


SCHOOLS = """
[budget]
epsilon = 1000000000
[tables.orders]
path = "orders.parquet"
privacy_unit_column = ["school", "pupil"]
max_rows_contributed = 5
[tables.orders.columns]
school = { type = "text" }
pupil = { type = "integer" }
o = { type = "integer" }
[tables.items]
path = "items.parquet"
unit_through = { column = "o", table = "orders", key = "o" }
max_rows_contributed = 10
[tables.items.columns]
o = { type = "integer" }
x = { type = "integer", bounds = [0, 10] }
"""


HIDDEN = """
[budget]
epsilon = 9e9
[tables.t]
{source}
privacy_unit_column = "u"
max_rows_contributed = 1
columns.x = {{ type = "integer", bounds = [0, 10] }}
{unit}
"""
WIDEST = 2**127 - 1
INEXACT = {
    "HUGEINT": ("decimal(38,0)", [WIDEST, WIDEST - 1, HUGE - 1, -WIDEST, -5, 5], 3),
    "UHUGEINT": ("decimal(38,0)", [2**128 - 1, 2**128 - 2, HUGE - 1, 5], 2),
    "UBIGINT": ("decimal(20,0)", [2**64 - 1, 2**64 - 2, 2**63, 5], 4),
    "DOUBLE": ("integer, bounds = [0, 1]", [1.0, 1.4, 1e300, 1e301, "NaN", "inf", 2.0], 2),
    "DECIMAL(38,1)": ("integer, bounds = [0, 1]", ["1.0", "1.4", "9" * 30, "9" * 31, 2], 2),
    "TIMESTAMP_NS": ("timestamp", [f"2024-01-01 00:00:00.00000000{n}" for n in (1, 9)], 0),
    "TIMESTAMP_MS": ("timestamp", ["2024-01-01", "2024-01-02", "infinity"], 2),
}
"""What DuckDB files have: types and values, and how many of these are units as declared."""


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("stored_as", INEXACT)
def test_a_value_that_its_type_does_not_hold_is_no_unit(
    tmp_path: Path, stored_as: str, hidden: bool
):
    """Cut or rounded, it would be another's: or, uncut, it would fail every scan."""
    declared, values, units = INEXACT[stored_as]
    if hidden and "bounds" in declared:
        return  # of a column that is not listed, there are none
    with closing(duckdb.connect(tmp_path / "t.duckdb")) as database:
        listed = ", ".join(f"('{one}')" for one in values)
        made = f"SELECT CAST(u AS {stored_as}) AS u, 1 AS x FROM (VALUES {listed}) AS v(u)"
        database.execute(f"CREATE TABLE t AS {made}")
    type_, _, bounds = declared.partition(", b")
    unit = f'privacy_unit_type = "{type_}"'
    if not hidden:
        unit = f'columns.u = {{ type = "{type_}"{bounds and ", b"}{bounds} }}'
    text = HIDDEN.format(source='database = "t.duckdb"\ntable = "t"', unit=unit)
    (tmp_path / "p.toml").write_text(text, "utf-8")
    with dpquery.connect(tmp_path / "p.toml") as session:
        assert session.sql("SELECT DP_COUNT(*, eps=1e6) FROM t").scalar() == units
        if not hidden:
            asked = "SELECT DP_COUNT(DISTINCT u, eps=1e6, max_groups_contributed=1) FROM t"
            assert session.sql(asked).scalar() == units


@pytest.mark.parametrize("shown", [True, False])
def test_a_key_that_its_type_does_not_hold_is_nobodys(tmp_path: Path, shown: bool):
    """Orders of two units and items of two orders would meet on one number."""
    listed = 'columns.o = { type = "decimal(38,0)" }'
    text = HIDDEN.format(source='database = "t.duckdb"\ntable = "t"', unit=listed) + """
[tables.t.columns.u]
type = "integer"
[tables.items]
database = "t.duckdb"
table = "items"
unit_through = { column = "of", table = "t", key = "o" }
max_rows_contributed = 9
columns.n = { type = "integer", bounds = [0, 9] }
""" + ('columns.of = { type = "decimal(38,0)" }' if shown else "")  # fmt: skip
    (tmp_path / "p.toml").write_text(text, "utf-8")
    with closing(duckdb.connect(tmp_path / "t.duckdb")) as database:
        orders = f"(1, {WIDEST}, 1), (2, {WIDEST - 1}, 1), (3, {HUGE}, 1), (4, 7, 1)"
        database.execute("CREATE TABLE t (u BIGINT, o HUGEINT, x INTEGER)")
        database.execute(f"INSERT INTO t VALUES {orders}")
        database.execute("CREATE TABLE items (of HUGEINT, n INTEGER)")
        items = ", ".join(f"({key}, 1)" for key in (WIDEST, WIDEST - 1, HUGE, 7, 7, 8))
        database.execute(f"INSERT INTO items VALUES {items}")
    with dpquery.connect(tmp_path / "p.toml") as session:
        assert session.sql("SELECT DP_COUNT(*, eps=1e6) FROM items").scalar() == 3
