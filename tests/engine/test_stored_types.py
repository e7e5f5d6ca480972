"""Every type that a file can hold, with the values that are worst: both engines agree.

DuckDB reads the file through the policy's types, the oracle reads it value by value. Nothing
fails, whatever stands in the file, with filters, groups, quantiles, lists and kept columns.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.file_checks import require_fit
from dpquery.ir.measures import Candidates, Histogram
from dpquery.policy.load import load_policy
from tests.oracle.engine import PythonEngine
from tests.worlds import integers, planned, receipt_for

NAN, INF, LONG = float("nan"), float("inf"), 2**63
SPRING, AUTUMN = 1711846800000000, 1729990800000000  # when the clocks of Berlin change in 2024
MOMENTS = [
    *(-LONG, 1 - LONG, 2 - LONG, -62135596800000001, -62135596800000000, -1001, -1, 0, 1, 999),
    *(at + by for at in (SPRING, AUTUMN) for by in (-3_600_000_000, -1, 0, 3_600_000_000)),
    *(253402300799999999, 253402300800000000, LONG - 2, LONG - 1, None),
]
SIZE = len(MOMENTS)


def cells(values: list[object], type_: pa.DataType) -> pa.Array:
    """Return values again and again, as many as there are rows."""
    return pa.array([values[at % len(values)] for at in range(SIZE)], type_)


def moments(type_: pa.DataType) -> pa.Array:
    nanos = [None if one is None else max(-LONG, min(LONG - 1, one)) for one in MOMENTS]
    return pa.array(nanos, pa.int64()).cast(type_)


WIDE = ["9" * 38, "-" + "9" * 38, "0", "1", "-1", "7" * 20, None]
FIELDS = [
    {"city": "Bonn", "geo": {"lat": NAN, "a.b": 1}}, None, {"city": None, "geo": None},
    {"city": "a\0b", "geo": {"lat": -INF, "a.b": 2**31 - 1}}, {"city": "x" * 999, "geo": None},
]  # fmt: skip
ROWS = pa.table(
    {
        "unit": pa.array([at // 3 for at in range(SIZE)], pa.int64()),
        "us": moments(pa.timestamp("us")),
        "ns": moments(pa.timestamp("ns")),
        "ms": moments(pa.timestamp("ms")),
        "zms": moments(pa.timestamp("ms", "UTC")),
        "z": moments(pa.timestamp("us", "America/New_York")),
        "zn": moments(pa.timestamp("ns", "UTC")),
        "tod": cells([0, 1, 86399999999, 43200000000, None, -1, 86400000000, LONG - 1],
                     pa.int64()).cast(pa.time64("us")),
        "tn": cells([0, 999, 1000, 86399999999999, None, -1, -LONG, 86400000000000],
                    pa.int64()).cast(pa.time64("ns")),
        "tm": cells([0, 1, 86399999, None, -1, 86400000, 2**31 - 1],
                    pa.int32()).cast(pa.time32("ms")),
        "cat": cells([1.0, 2.0, NAN, 1e300, -1e300, INF, -INF, 1.5, 2.5, None], pa.float64()),
        "half": cells([1.0, NAN, None, 60000.0], pa.float16()),
        "u64": cells([0, 1, LONG - 1, LONG, 2 * LONG - 1, None], pa.uint64()),
        "big": cells([one and Decimal(one) for one in WIDE], pa.decimal128(38, 0)),
        "cents": cells([Decimal("0.005"), Decimal("-0.005"), Decimal("9e27"), None],
                       pa.decimal128(38, 10)),
        "uid": cells([UUID(int=1).bytes, UUID(int=2**128 - 1).bytes, None], pa.uuid()),
        "kind": cells(["b", "a", "a\0", "", None, "ä" * 300], pa.string()).dictionary_encode(),
        "code": cells([3, 1, None, 2], pa.int64()).dictionary_encode(),
        "address": pa.array([FIELDS[at % 5] for at in range(SIZE)]),
        "tags": cells([["a", None, "b" * 300, "a\0"], None, [], ["a"] * 20_000, ["b", "a"]],
                      pa.list_(pa.string())),
        "seen": cells([[0, -1, LONG - 1, -LONG], None, [SPRING] * 70, [None]],
                      pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("ns", "UTC"))),
        "odds": cells([[NAN, INF, -INF, 1.5], [], None, [1e300] * 65], pa.list_(pa.float64())),
    }
)  # fmt: skip
POLICY = """
[privacy]
time_zone = "Europe/Berlin"
[budget]
epsilon = 9e9
delta = 1e-6
[tables.t]
path = "t.parquet"
privacy_unit_column = "unit"
max_rows_contributed = 2
[tables.t.columns]
unit = { type = "integer" }
us = { type = "timestamp", bounds = [1970-01-01T00:00:00, 2100-01-01T00:00:00] }
ns = { type = "timestamp", bounds = [1969-12-31T23:59:59, 2200-01-01T00:00:00] }
ms = { type = "timestamp", bounds = [1970-01-01T00:00:00, 2100-01-01T00:00:00] }
zms = { type = "timestamptz" }
z = { type = "timestamptz", bounds = [2024-03-01T00:00:00Z, 2024-11-01T00:00:00+01:00] }
zn = { type = "timestamptz" }
tod = { type = "time", bounds = [00:00:01, 18:00:00] }
tn = { type = "time" }
tm = { type = "time" }
cat = { type = "integer", keys = [1, 2, 3] }
half = { type = "double", bounds = [0, 100] }
u64 = { type = "integer", bounds = [1, 100] }
big = { type = "decimal(38,0)", bounds = [-5, 1000] }
cents = { type = "decimal(38,10)", bounds = [-1, 1] }
uid = { type = "text" }
kind = { type = "text", keys = ["a", "b"] }
code = { type = "integer", keys = [1, 2, 3] }
"address.city" = { type = "text", keys = ["Bonn"], max_length = 9 }
"address.geo.lat" = { type = "double", bounds = [-90, 90] }
'address.geo."a.b"' = { type = "integer", bounds = [0, 9] }
tags = { type = "text[]", keys = ["a", "b"], max_length = 5 }
seen = { type = "timestamptz[]", bounds = [1970-01-01T00:00:00Z, 2030-01-01T00:00:00Z] }
odds = { type = "double[]", bounds = [0, 10] }
"""
COUNT = "SELECT DP_COUNT(*, eps=1) FROM t WHERE "
QUERIES = [
    *(f"SELECT DP_COUNT({one}, eps=1) FROM t" for one in (
        "us", "ns", "z", "tod", "uid", "ms", "zms",
    )),
    *(COUNT + one for one in (
        "us >= TIMESTAMP '1970-01-01 00:00:01'", "ns < TIMESTAMP '1970-01-01'",
        "ns >= TIMESTAMP '1970-01-01'", "ns > '2100-01-01'", "ns = '1970-01-01'",
        "z >= '2024-03-31 03:00:00'", "z < '2024-10-27 02:00:00'", "z = zn",
        "ms > '1970-01-01'", "zms < DATE '1970-01-01'",
        "z < TIMESTAMPTZ '2024-10-27 02:00:00+01'", "zn <= DATE '1970-01-01'",
        "zn IN ('1970-01-01 01:00:00', '2024-03-31 03:00:00')", "HOUR(z) = 2",
        "z::DATE = DATE '2024-10-27'", "us AT TIME ZONE 'America/New_York' > z",
        "z - INTERVAL 1 HOUR < zn", "z AT TIME ZONE 'Asia/Tokyo' > '2024-06-01'",
        "tod >= TIME '12:00:00'", "tn < '00:00:00.000001'", "tm = TIME '00:00:00.001'",
        "cat = 2", "cat > 2", "u64 > 50", "big > 3", "big = 0", "cents > 0.001", "half > 1",
        "uid = '00000000-0000-0000-0000-000000000001'", "uid > '0' AND LENGTH(uid) = 36",
        "kind = 'a'", "kind < 'b'", "address.city = 'Bonn'", "address.geo.lat < 0",
        'address.geo."a.b" > 1', "t.address.city IS NULL", "LIST_CONTAINS(tags, 'a')",
        "'b' NOT IN UNNEST(tags)", "LEN(tags) > 1", "LIST_CONTAINS(odds, 1.5)",
        "LEN(odds) = 64",
        "LIST_CONTAINS(seen, TIMESTAMPTZ '1970-01-01 00:00:00Z')",
    )),
    *(f"SELECT DP_SUM({one}, eps=1) FROM t" for one in (
        "u64", "big", "cents", "half", "address.geo.lat",
        'address.geo."a.b"', "EXTRACT(hour FROM z)", "MINUTE(tod)", "LEN(tags)",
    )),
    *(f"SELECT DP_MEDIAN({one}, eps=1) FROM t" for one in (
        "us", "ns", "ms", "z", "tod", "big",
    )),
    *(f"SELECT {one} AS g, DP_COUNT(*, eps=1) FROM t GROUP BY {one}" for one in (
        "cat", "kind", "code", "address.city", "u64", "HOUR(zn)", "DATE_TRUNC('month', z)",
        "DATE_TRUNC('day', z)", "z::DATE", "MONTHNAME(z)", "HOUR(tod)", "YEAR(ns)",
        "STRFTIME(z, '%Y-%m')", "LEN(tags)",
    )),
    "SELECT DATE_TRUNC('hour', z) AS g, DP_COUNT(*, eps=1) FROM t "
    "WHERE z BETWEEN '2024-10-26' AND '2024-10-28' GROUP BY DATE_TRUNC('hour', z)",
    "SELECT DP_COUNT(DISTINCT z, eps=1), DP_COUNT(DISTINCT uid, eps=1) FROM t",
    *(f"SELECT {call} FROM t, UNNEST({of}) AS u(v)" for call, of in (
        ("DP_COUNT(*, eps=1)", "tags"), ("DP_SUM(v, eps=1)", "odds"),
        ("DP_MEDIAN(v, eps=1)", "seen"), ("DP_COUNT_IF(v > 'a', eps=1)", "tags"),
    )),
    "SELECT v, DP_COUNT(*, eps=1) FROM t, UNNEST(tags) AS u(v) GROUP BY v",
    "SELECT v, DP_COUNT(*, eps=1) FROM t LEFT JOIN UNNEST(tags) AS u(v) ON TRUE GROUP BY v",
    "SELECT DP_COUNT(*, eps=1) FROM t a JOIN t b ON a.unit = b.unit AND a.z = b.z",
    "SELECT DP_SUM(n, eps=1, bounds=[0, 9]) FROM "
    "(SELECT unit, MIN(z) AS n0, COUNT(*) AS n FROM t GROUP BY unit)",
]  # fmt: skip


PARTIAL = ("tod", "tn", "tm", "ms", "zms")
"""Columns of which DuckDB cannot read all values: where one is, Arrow reads the whole file."""
BY_DUCKDB = [q for q in QUERIES if not re.search(rf"\b({'|'.join(PARTIAL)})\b", q)]
BY_ARROW = [*(q for q in QUERIES if q not in BY_DUCKDB), *BY_DUCKDB[::5]]


@pytest.fixture(scope="module", params=["arrow", "duckdb"])
def engines(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest):
    place, rows, lines = tmp_path_factory.mktemp("stored"), ROWS, POLICY.splitlines()
    if request.param == "duckdb":
        rows = rows.drop_columns(PARTIAL)
        lines = [line for line in lines if line.partition(" ")[0] not in PARTIAL]
    pq.write_table(rows, place / "t.parquet", row_group_size=5)
    (place / "policy.toml").write_text("\n".join(lines), encoding="utf-8")
    log = FaultLog(place / "faults")
    policy = require_fit(load_policy(place / "policy.toml"), log)
    made = DuckDBEngine(policy, log), PythonEngine(policy, FaultLog(place / "others"))
    yield policy, made, place / "faults"
    for engine in made:
        engine.close()


@pytest.mark.parametrize(
    ("engines", "query"),
    [*(("arrow", q) for q in BY_ARROW), *(("duckdb", q) for q in BY_DUCKDB)],
    indirect=["engines"],
)
def test_both_engines_read_hostile_values_alike(engines, query: str):
    policy, (duck, python), faults = engines
    plan = planned(policy, query)
    for frontier in plan.frontiers:
        scan, found = frontier.scan, []
        for engine in (duck, python, duck):  # at the second time, columns are kept
            with engine.open(scan, receipt_for(plan), 0) as exact:
                found.append([told(exact, measure) for measure in scan.measures])
        assert found[0] == found[1] == found[2], faults.read_text() if faults.exists() else ""


def told(exact, measure) -> object:
    if isinstance(measure, Histogram):
        assert measure.code.low == measure.code.origin
        width = 1 << max(0, measure.code.cells.bit_length() - 10)
        return exact.histogram(measure, 0, 0, 1024 * width, width).tolist()
    assert not isinstance(measure, Candidates)
    return integers(exact, measure)


def test_a_duckdb_file_of_every_type_is_asked(tmp_path: Path):
    with duckdb.connect(tmp_path / "t.duckdb") as database:
        database.execute(
            """
            CREATE TYPE mood AS ENUM ('z', 'a');
            CREATE TABLE t AS SELECT i AS unit, CAST(i AS HUGEINT) * 10::HUGEINT ** 30 AS h,
            CAST(340282366920938463463374607431768211455 AS UHUGEINT) AS uh,
            CAST(['z', 'a', NULL][1 + i % 3] AS mood) AS m, TIMESTAMP_S '2024-01-01' AS s,
            TIMESTAMP_MS '2024-01-01' AS ms, TIMESTAMP_NS '1969-12-31 23:59:59.999999999' AS ns,
            TIMESTAMPTZ '2024-01-01 00:00:00+00' AS z, '10:00'::TIME_NS AS tn,
            {'c': i} AS st, [i, NULL] AS l, UUID '00000000-0000-0000-0000-00000000000a' AS u,
            INTERVAL 1 DAY AS out1, MAP {'a': 1} AS out2, '\\x00'::BLOB AS out3, [[1]] AS out4
            FROM range(6) t(i)
            """
        )
    (tmp_path / "p.toml").write_text(
        """
        [budget]
        epsilon = 9e9
        [tables.t]
        database = "t.duckdb"
        table = "t"
        privacy_unit_column = "unit"
        max_rows_contributed = 2
        [tables.t.columns]
        unit = { type = "integer" }
        h = { type = "integer", bounds = [0, 5] }
        uh = { type = "decimal(38,0)", bounds = [0, 7] }
        m = { type = "text", keys = ["a", "z"] }
        s = { type = "timestamp" }
        ms = { type = "timestamp" }
        ns = { type = "timestamp" }
        z = { type = "timestamptz" }
        tn = { type = "time" }
        u = { type = "text" }
        "st.c" = { type = "integer", bounds = [0, 9] }
        l = { type = "integer[]", bounds = [0, 9] }
        """,
        encoding="utf-8",
    )
    asked = {
        "SELECT DP_SUM(h, eps=1e7) FROM t": [(25,)],
        "SELECT DP_SUM(uh, eps=1e7) FROM t": [(42,)],
        "SELECT m, DP_COUNT(*, eps=1e7) AS n FROM t GROUP BY m": [
            ("a", 2),
            ("z", 2),
            (None, 2),
        ],
        "SELECT DP_COUNT(*, eps=1e7) FROM t WHERE s = ms AND YEAR(s) = 2024": [(6,)],
        "SELECT DP_COUNT(*, eps=1e7) FROM t WHERE ns < '1970-01-01'": [(6,)],
        "SELECT DP_COUNT(*, eps=1e7) FROM t WHERE z = '2024-01-01'": [(6,)],
        "SELECT DP_COUNT(*, eps=1e7) FROM t WHERE HOUR(tn) = 10": [(6,)],
        "SELECT DP_COUNT(*, eps=1e7) FROM t WHERE RIGHT(u, 1) = 'a'": [(6,)],
        "SELECT DP_SUM(st.c, eps=1e7) FROM t": [(15,)],
        "SELECT DP_SUM(v, eps=1e7, max_rows_contributed=9) FROM t, UNNEST(l) AS u(v)": [(15,)],
    }
    with dpquery.connect(tmp_path / "p.toml") as session:
        assert {query: session.sql(query).rows for query in asked} == asked


def test_text_that_is_none_is_read_alike_whoever_reads_the_file(tmp_path: Path):
    raw = [b"ok", b"\xff\xfe", b"a\xc3", b"\xe2\x82x\0", b"??", None]
    texts = pa.array(raw, pa.binary()).view(pa.string())
    clocks = pa.array([0] * 6, pa.int64()).cast(pa.time64("us"))
    found = []
    for columns in ({"s": texts}, {"s": texts, "at": clocks}):
        pq.write_table(pa.table({"u": [1, 2, 3, 4, 5, 6], **columns}), tmp_path / "t.parquet")
        at = 'columns.at = { type = "time" }' if "at" in columns else ""
        (tmp_path / "p.toml").write_text(
            f"""
            [budget]
            epsilon = 9e9
            [tables.t]
            path = "t.parquet"
            privacy_unit_column = "u"
            privacy_unit_type = "integer"
            rows_per_unit = 1
            columns.s = {{ type = "text" }}
            {at}
            """
        )
        with dpquery.connect(tmp_path / "p.toml") as one:
            texts_ = ("ok", "??", "a?", "??x\0")
            counts = [f"DP_COUNT_IF(s = '{text}', eps=1e6)" for text in texts_[:3]]
            asked = f"SELECT {', '.join(counts)}, DP_COUNT(DISTINCT UPPER(s), eps=1e6) FROM t"
            found.append(one.sql(asked).rows)
    assert found == [[(1, 2, 1, 4)]] * 2


def test_uuids_and_json_of_another_writer_are_texts(tmp_path: Path):
    """They have no word of Arrow beside them that says so."""
    rows = "SELECT uuid() AS id, '{}'::JSON AS told FROM range(50)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/t.parquet' (FORMAT parquet)")
    with dpquery.connect(tmp_path / "t.parquet", unit="id", epsilon=1e6) as session:
        assert [row[:2] for row in session.describe("t").rows] == [
            ("id", "text"),
            ("told", "text"),
        ]
        where = "LENGTH(id) = 36 AND told = '{}'"
        told = session.sql(f"SELECT DP_COUNT(DISTINCT id, eps=1e5) FROM t WHERE {where}")
        assert told.scalar() == 50
