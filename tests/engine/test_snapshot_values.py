"""Values of table formats and databases: each is read, cut, or NULL, and none fails."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import dpquery
from dpquery.errors import PolicyInvalid, ScanFailed
from dpquery.policy.model import External
from dpquery.policy.sources import sqlite_postgres
from dpquery.policy.sources.open_external import opened
from tests.engine.test_snapshots import COUNT, POLICY
from tests.ledger.server import PostgresServer

LONG = """\
[budget]
epsilon = 1e9
[limits]
memory = "200MB"
[tables.t]
{source}
privacy_unit_column = "u"
privacy_unit_type = "text"
max_rows_contributed = 5000
[tables.t.columns]
x = {{ type = "text", max_length = 3, keys = ["aaa", "b"] }}
"""
UNITS = ("12345", "12346", "u" * 5000, "u" * 5000 + "1")


@pytest.mark.parametrize("kind", ["delta", "sqlite"])
def test_long_texts_of_one_unit_fill_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"u": [*["12345"] * 3000, *UNITS], "x": [*["a" * 90_000] * 3000, *"bbbb"]})
    if kind == "delta":
        pytest.importorskip("deltalake").write_deltalake("t", rows)
    else:
        with closing(sqlite3.connect("t.db")) as database, database:
            database.execute("CREATE TABLE t (u TEXT, x TEXT)")
            some = rows.to_pylist()
            database.executemany("INSERT INTO t VALUES (:u, :x)", some)
    source = 'path = "t"' if kind == "delta" else 'database = "t.db"\ntable = "t"'
    Path("policy.toml").write_text(LONG.format(source=source))
    with dpquery.connect("policy.toml") as session:
        asked = "SELECT x, DP_COUNT(*, eps=1e7) AS n FROM t GROUP BY x"
        assert session.sql(asked).rows == [("aaa", 3000), ("b", 2), (None, 0)]
        asked = "SELECT DP_COUNT(DISTINCT u, eps=1e7) AS n FROM t"
        assert session.sql(asked).scalar() == 2, "a unit is never cut to another"


WAY = """\
[budget]
epsilon = 1e9
[tables.owns]
database = "a.db"
table = "owns"
privacy_unit_column = "u"
privacy_unit_type = "integer"
max_rows_contributed = 9
columns.k = { type = "text", max_length = 2 }
[tables.seen]
database = "a.db"
table = "seen"
unit_through = { column = "k", table = "owns", key = "k" }
max_rows_contributed = 9
columns.k = { type = "text", max_length = 2 }
"""


def test_keys_on_the_way_to_units_are_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("policy.toml").write_text(WAY)
    with closing(sqlite3.connect("a.db")) as database, database:
        database.execute("CREATE TABLE owns (u INTEGER, k TEXT)")
        database.execute("CREATE TABLE seen (k TEXT)")
        database.execute("INSERT INTO owns VALUES (1, 'abc'), (2, 'abd')")
        database.execute("INSERT INTO seen VALUES ('abc'), ('abc'), ('abd'), ('abe'), ('ab')")
    asked = "SELECT DP_COUNT(*, eps=1e7) AS n FROM {} WHERE k = 'ab'"
    with dpquery.connect("policy.toml") as session:
        for table, rows in (("owns", 2), ("seen", 3), ("owns", 2)):
            assert session.sql("REFRESH " + asked.format(table)).scalar() == rows


def test_texts_in_structures_and_lists_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    held = pa.array([{"x": "abcd", "n": [1, 2]}, {"x": None, "n": None}, None])
    rows = pa.table({"u": ["1", "2", "3"], "s": held, "l": [["abcd", None], [], None]})
    pytest.importorskip("deltalake").write_deltalake("t", rows)
    policy = LONG.format(source='path = "t"')
    policy = policy[: policy.index("x = {")] + (
        '"s.x" = { type = "text", max_length = 2 }\n"s.n" = { type = "integer[]" }\n'
        'l = { type = "text[]", max_length = 3 }\n'
    )
    Path("policy.toml").write_text(policy)
    with dpquery.connect("policy.toml") as session:
        for condition in ("s.x = 'ab'", "LIST_CONTAINS(s.n, 2)", "LIST_CONTAINS(l, 'abc')"):
            asked = f"SELECT DP_COUNT(*, eps=1e7) AS n FROM t WHERE {condition}"
            assert session.sql(asked).scalar() == 1, condition


def test_a_change_in_the_tick_of_another_is_seen(tmp_path: Path):
    place = tmp_path / "a.db"
    place.write_bytes(b"one")
    at = place.stat().st_mtime_ns
    first = sqlite_postgres._hash_of(place)
    place.write_bytes(b"two")
    os.utime(place, ns=(at, at))
    assert sqlite_postgres._hash_of(place) != first


def test_a_database_cuts_texts_itself(server: str, tmp_path: Path):
    with psycopg.connect(server) as made:
        made.execute("DROP TABLE IF EXISTS cut")
        made.execute("CREATE TABLE cut (x TEXT)")
        made.execute("INSERT INTO cut VALUES ('éabc'), (repeat('é', 5000)), (NULL), ('')")
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute("CREATE TABLE cut (x TEXT)")
        values = [("éabc",), ("é" * 5000,), (None,), ("",)]
        database.executemany("INSERT INTO cut VALUES (?)", values)
    for source in (
        External("postgres", server, "public.cut"),
        External("sqlite", str(tmp_path / "a.db"), "cut"),
    ):
        cut = opened(source).read(["x"], {"x": 3}).read_all()["x"].to_pylist()
        assert [one and one[:3] for one in cut] == ["éab", "ééé", None, ""]
        assert max(len(one) for one in cut if one) <= 12
        whole = opened(source).read(["x"]).read_all()["x"].to_pylist()
        assert whole == ["éabc", None, None, ""]


# Opening reads no statistics, and no value that people chose.

FAR = pa.array([3_660_000, -800_000, 50_000_000, None], pa.int32()).cast(pa.date32())


@pytest.mark.parametrize("parts", [None, ["x"], ["x", "region"]])
def test_no_statistic_of_delta_decides_whether_it_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: list[str] | None
):
    library = pytest.importorskip("deltalake")
    monkeypatch.chdir(tmp_path)
    hostile = ["a/b %2F", "é=1", None, "%zz"]
    rows = pa.table({"id": [1, 2, 3, 4], "age": [1] * 4, "region": hostile, "x": FAR})
    library.write_deltalake("people", rows, partition_by=parts)
    snapshot = opened(External("delta", str(tmp_path / "people")))
    assert snapshot.schema.names == rows.column_names
    got = snapshot.read(["x", "region", "id"]).read_all().sort_by("id")
    wanted = rows.select(["x", "region", "id"])
    assert got.cast(wanted.schema).equals(wanted)
    assert snapshot.read(["x"]).read_all().num_rows == 4
    Path("policy.toml").write_text(POLICY.format(source='path = "people"'))
    with dpquery.connect("policy.toml") as session:
        assert session.sql(COUNT).scalar() == 4
    with dpquery.connect("people", unit="id", rows_per_unit=1, epsilon=1e9) as session:
        assert session.sql(COUNT).scalar() == 4


# What is no value of its column's type is NULL; a moment of no calendar is the nearest that is.

TYPED = """\
[budget]
epsilon = 1e9
[tables.t]
{source}
privacy_unit_column = "u"
max_rows_contributed = 1
[tables.t.columns]
u = {{ type = "text" }}
i = {{ type = "integer", bounds = [0, 99] }}
d = {{ type = "double", bounds = [0, 99], grid = 1 }}
x = {{ type = "text", keys = ["a", "b"] }}
day = {{ type = "date", bounds = [2000-01-01, 2020-01-01] }}
moment = {{ type = "timestamp", bounds = [2000-01-01T00:00:00, 2020-01-01T00:00:00] }}
yes = {{ type = "boolean" }}
"""
TOLD = "SELECT DP_SUM(i, eps=1e7), DP_SUM(d, eps=1e7), DP_COUNT(x, eps=1e7), " + (
    "DP_COUNT(day, eps=1e7), DP_COUNT(moment, eps=1e7), DP_COUNT(yes, eps=1e7), "
    "DP_COUNT(*, eps=1e7) FROM t"
)
GOOD = "('1', 7, 1.0, 'a', '2001-02-03', '2001-02-03 04:05:06.7', {true})"
SQLITE = {
    "i": ("'x'", "1.5", "x'00'", "9223372036854775807", "'9'"),
    "d": ("'nan'", "9e999", "-9e999", "x'ff'", "5"),
    "x": ("5", "x'61'", "CAST(x'ff' AS TEXT)", "char(0)", "printf('%.*c', 100000, 'a')"),
    "day": ("'2001-02-30'", "'infinity'", "20010203", "''", "'0000-00-00'"),
    "moment": ("'2001-02-03T04:05:06Z'", "'99999-01-01 00:00'", "1.5", "'2001-02-03'"),
    "yes": ("2", "'true'", "-1", "x'01'"),
    "u": ("CAST(x'ff' AS TEXT)", "5", "x'31'", "''", "'1' || char(0)"),
}
POSTGRES = {
    "i": ("-9223372036854775808", "9223372036854775807"),
    "d": ("'NaN'", "'Infinity'", "'-Infinity'", "-0.0", "5e-324"),
    "x": ("''", "repeat('a', 100000)", "U&'\\FFFF'"),
    "day": ("'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'"),
    "moment": ("'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31'"),
    "yes": ("NULL",),
    "u": ("''", "NULL", "'1 '"),
}


def exact(session: dpquery.Session) -> list[object]:
    return [*map(round, session.sql(f"REFRESH {TOLD}").rows[0])]


def test_no_value_of_a_sqlite_file_fails_a_scan_or_changes_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("p.toml").write_text(TYPED.format(source='database = "a.db"\ntable = "t"'))
    columns = "u TEXT, i INTEGER, d REAL, x TEXT, day DATE, moment DATETIME, yes BOOLEAN"
    with closing(sqlite3.connect("a.db")) as database, database:
        database.execute(f"CREATE TABLE t ({columns})")
        database.execute(f"INSERT INTO t VALUES {GOOD.format(true=1)}")
        for name, values in SQLITE.items():
            for number, value in enumerate(values):
                named = {"u": f"'{name}{number}'", name: value}
                database.execute(
                    f"INSERT INTO t ({', '.join(named)}) VALUES ({', '.join(named.values())})"
                )
    with dpquery.connect("p.toml") as session:
        # SQLite itself makes '9' an integer and 5 a text, as their columns are inclined to
        assert exact(session) == [7 + 99 + 9, 1 + 99 + 5, 1 + 3, 1, 1 + 1, 1, 34 - 2]


KINDS = (
    "BOOL",
    "INT",
    "TEXT",
    "REAL",
    "NUMERIC",
    "DECIMAL(10,2)",
    "DATETIME",
    "DATE",
    "BLOB",
    "",
)
EVIL = (
    *(
        sign * (2**bits + more)
        for bits in (0, 31, 53, 62)
        for more in (0, 1)
        for sign in (1, -1)
    ),
    *(2**63 - 1, -(2**63), 0, 1.5, -0.0, 1e308, 5e-324, float("inf"), float("-inf")),
    *(
        "",
        "a\0b",
        "x" * 70,
        "2020-W01-1",
        "２０２０-01-01",
        "20200101",
        "0001-01-01",
        "9999-12-31",
    ),
    *("9999-12-31 23:59:59.9999999", "2020-01-01 24:00:00", "2020-01-01T00:00:00+00:00"),
    *("0000-01-01", "2020-01-01 00:00:00" + "0" * 50, "\U0010ffff", b"", b"\xff", b"1", None),
)


@pytest.mark.parametrize("kind", KINDS)
def test_each_value_of_sqlite_is_read_or_null(tmp_path: Path, kind: str):
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute(f"CREATE TABLE t (x {kind})")
        database.executemany("INSERT INTO t VALUES (?)", [(one,) for one in EVIL])
        database.execute("INSERT INTO t VALUES (CAST(x'ff41' AS TEXT))")
    rows = opened(External("sqlite", str(tmp_path / "a.db"), "t")).read(["x"]).read_all()
    rows.validate(full=True)
    found = rows["x"].to_pylist()
    assert len(found) == len(EVIL) + 1
    if rows["x"].type == pa.float64():
        assert found[:16] == [float(one) for one in EVIL[:16]]


def test_no_value_of_a_server_fails_a_scan_or_changes_others(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("p.toml").write_text(TYPED.format(source=f'database = "{server}"\ntable = "t"'))
    columns = (
        "u TEXT, i BIGINT, d FLOAT8, x TEXT, day DATE, moment TIMESTAMP, yes BOOLEAN, "
        "other JSONB, mine COMPLEX"
    )
    with psycopg.connect(server) as made:
        made.execute("CREATE TYPE complex AS (re FLOAT8, im FLOAT8)")
        made.execute(f"CREATE TABLE t ({columns})")
        made.execute(f"INSERT INTO t VALUES {GOOD.format(true='true')}")
        for name, values in POSTGRES.items():
            for number, value in enumerate(values):
                named = {"u": f"'{name}{number}'", name: value}
                made.execute(
                    f"INSERT INTO t ({', '.join(named)}) VALUES ({', '.join(named.values())})"
                )
    with dpquery.connect("p.toml") as session:
        assert exact(session) == [7 + 99, 1 + 99, 1 + 3, 1 + 4, 1 + 4, 1, 22]


@pytest.mark.slow
def test_no_length_of_texts_fails_a_scan_of_a_server(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with psycopg.connect(server) as made:
        made.execute("CREATE TABLE long (id INT, age INT, region TEXT, other TEXT)")
        text = "repeat('\"', 272629760)"  # as a row of values, twice as long
        made.execute(f"INSERT INTO long VALUES (1, 2, {text}, {text})")
    source = f'database = "{server}"\ntable = "long"'
    Path("policy.toml").write_text(POLICY.format(source=source))
    with dpquery.connect("policy.toml") as session:
        assert session.sql(COUNT).scalar() == 1
        with psycopg.connect(server) as made:
            made.execute("UPDATE long SET other = 'x' || right(other, -1)")
        with pytest.raises(ScanFailed):
            session.sql("REFRESH " + COUNT)
    assert "are not those of data version 0" in Path("policy.ledger.faults").read_text()


@pytest.mark.parametrize("made", ["VIEW seen AS SELECT 't' AS u", "none"])
def test_what_stores_no_rows_of_a_server_is_refused(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
):
    monkeypatch.chdir(tmp_path)
    with psycopg.connect(server) as there:
        there.execute("DROP VIEW IF EXISTS seen")
        if made != "none":
            there.execute(f"CREATE {made}")
    Path("p.toml").write_text(TYPED.format(source=f'database = "{server}"\ntable = "seen"'))
    with pytest.raises(PolicyInvalid) as refused:
        dpquery.connect("p.toml")
    assert refused.value.code == "DPQ612"


def test_a_server_that_is_gone_fails_before_and_after_the_charge_in_one_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    running = PostgresServer()
    try:
        with psycopg.connect(running.url) as made:
            made.execute("CREATE TABLE t (u TEXT, i INT, d FLOAT4, x TEXT, day DATE)")
            made.execute("ALTER TABLE t ADD moment TIMESTAMP, ADD yes BOOLEAN")
        policy = TYPED.format(source=f'database = "{running.url}"\ntable = "t"')
        Path("p.toml").write_text(policy)
        with dpquery.connect("p.toml") as session:
            running.crash()
            before = session.budget.spent.epsilon
            with pytest.raises(ScanFailed) as failed:
                session.sql(TOLD)
            assert session.budget.spent.epsilon > before
            assert running.url not in str(failed.value)
        with pytest.raises(PolicyInvalid) as refused:
            dpquery.connect("p.toml")
        assert refused.value.code == "DPQ612"
        assert running.url not in str(refused.value)
    finally:
        running.stop()
