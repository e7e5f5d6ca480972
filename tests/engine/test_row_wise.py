"""Views of a DuckDB file: read where they give each row from one row, and refused otherwise."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpquery.core.types import INTEGER, TEXT
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.connection import start
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.quoting import quoted, stored
from dpquery.engine.duckdb.sources.duckdb_schema import schemas_in_file, unplain_columns
from dpquery.errors import ScanFailed
from dpquery.policy.model import Column, DatabaseTable, Table
from tests.worlds import World, policy_of

ALL = "SELECT DP_COUNT(*, eps=1) FROM t"

ROW = (
    "i INTEGER, b BIGINT, d DOUBLE, f FLOAT, x VARCHAR, y VARCHAR, dt DATE, ts TIMESTAMP, "
    "tf BOOLEAN, m DECIMAL(9, 2), s VARCHAR COLLATE NOCASE, l INTEGER[]"
)
HOSTILE = {
    "i": ("2147483647", "-2147483648", "0", "NULL"),
    "b": ("9223372036854775807", "-9223372036854775808", "0", "NULL"),
    "d": ("'nan'", "'inf'", "'-inf'", "1.7976931348623157e308", "-0.0", "5e-324", "NULL"),
    "f": ("'nan'", "3.4028234e38", "-0.0", "NULL"),
    "x": ("''", "chr(0)", "'%'", "'ünïcödé'", "repeat('a', 100000)", "'9e999'", "NULL"),
    "y": ("''", "'_'", "'infinity'", "'-1'", "NULL"),
    "dt": ("'infinity'", "'-infinity'", "'5881580-07-10'", "'5877642-06-25 (BC)'", "NULL"),
    "ts": ("'infinity'", "'294247-01-10 04:00:54.775806'", "'290309-12-22 (BC)'", "NULL"),
    "tf": ("true", "NULL"),
    "m": ("9999999.99", "-9999999.99", "NULL"),
    "s": ("'Bob'", "'bob'", "NULL"),
    "l": ("[]", "[NULL]", "NULL"),
}
READ = (
    "SELECT * EXCLUDE (s) FROM t",
    "SELECT i, x AS name FROM t WHERE x LIKE 'a%' AND NOT tf ORDER BY i",
    "SELECT x FROM t WHERE x LIKE '%b%' OR y NOT LIKE '%c'",
    "SELECT i FROM t UNION ALL SELECT i FROM t WHERE b > 0",
    "SELECT half(d) AS h, d + i, d * 2, d - f, d / 0, -d, abs(d), ceil(d), floor(d) FROM t",
    "SELECT i::BIGINT, i::DOUBLE, d::VARCHAR, m::DOUBLE, b::HUGEINT, f::DOUBLE FROM t",
    "SELECT TRY_CAST(x AS INTEGER), TRY_CAST(y AS DATE), TRY_CAST(d AS BIGINT) FROM t",
    "SELECT year(dt), month(ts), day(ts), EXTRACT(year FROM ts) FROM t",
    "SELECT CASE WHEN i = 1 THEN 'a' WHEN x IS NULL THEN y ELSE x END FROM t",
    "SELECT coalesce(i, 0), nullif(b, 7), if(tf, 'a', 'b') FROM t WHERE i IN (1, 2, 3)",
    "SELECT i FROM t WHERE d BETWEEN 1 AND 2 AND i IS NOT DISTINCT FROM b",
    "SELECT decode(encode(s)) AS s FROM t",
    "SELECT x FROM t WHERE s = 'BOB'",
    "SELECT left(x, 3), right(y, 2), substring(x, 2, 3), length(x), lower(x) || y FROM t",
    "SELECT trim(x), upper(y), concat(x, 'a', y), contains(x, y), starts_with(x, y) FROM t",
    "WITH a AS (SELECT * FROM t) SELECT i FROM a WHERE i > 3",
    "FROM (FROM t SELECT i, b) WHERE i > 0",
    "SELECT * FROM other.t",
    "SELECT COLUMNS('i|b') FROM t",
)
REFUSED = {
    "drops rows that are equal": (
        "SELECT DISTINCT i FROM t",
        "SELECT DISTINCT ON (i) i, b FROM t",
        "SELECT i FROM t UNION SELECT i FROM t",
    ),
    "drops": ("SELECT i FROM t EXCEPT SELECT i FROM t", "SELECT i FROM t INTERSECT FROM n"),
    "groups rows": (
        "SELECT count(*) AS i FROM t",
        "SELECT i, max(b) AS b FROM t GROUP BY i",
    ),
    "compares rows": (
        "SELECT i, row_number() OVER () AS b FROM t",
        "SELECT i FROM t QUALIFY rank() OVER (ORDER BY b) = 1",
    ),
    "keeps some of the rows": (
        "SELECT i FROM t LIMIT 5",
        "SELECT i FROM t ORDER BY i LIMIT 3",
        "SELECT * FROM few(3)",
        "SELECT i FROM t OFFSET 1",
    ),
    "takes a sample": (
        "SELECT i FROM t USING SAMPLE 10%",
        "SELECT i FROM t TABLESAMPLE 3 ROWS",
    ),
    "joins tables": (
        "SELECT a.i FROM t a, t b",
        "SELECT a.i FROM t a JOIN t b USING (i)",
        "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM n WHERE n.i = t.i)",
        "SELECT i FROM t WHERE i IN (FROM n)",
        "SELECT i, (SELECT max(i) FROM n) AS b FROM t",
        "FROM t POSITIONAL JOIN n",
    ),
    "tells rows by their place": (
        "SELECT rowid AS i FROM t",
        "SELECT x FROM t WHERE rowid > 3",
    ),
    "reads more than tables": ("SELECT range AS i FROM range(3)",),
    "does more than": (
        "SELECT unnest(l) AS i FROM t",
        "SELECT 1 AS i",
        "WITH RECURSIVE r AS (SELECT i FROM t UNION ALL SELECT i FROM r WHERE i < 0) FROM r",
    ),
    "cannot be resolved": (
        "SELECT i FROM read_csv('{folder}/a.csv')",
        "SELECT i FROM gone",
        "SELECT nextval('q') AS i FROM t",
    ),
    "casts": (
        "SELECT x::INTEGER AS i FROM t",
        "SELECT i FROM t WHERE x = 5",
        "SELECT b::INTEGER AS i FROM t",
        "SELECT dt::TIMESTAMP AS i FROM t",
        "SELECT m::DECIMAL(5, 2) AS i FROM t",
    ),
    "calls": (
        *("SELECT i + 1 AS i FROM t", "SELECT -b AS i FROM t", "SELECT m * 2 AS i FROM t"),
        *("SELECT random() AS i FROM t", "SELECT i FROM t WHERE random() > 0.5"),
        *("SELECT now() AS i FROM t", "SELECT current_date AS i FROM t"),
        *("SELECT current_setting('threads') AS i FROM t", "SELECT uuid() AS i FROM t"),
        *("SELECT repeat(x, b) AS i FROM t", "SELECT left(x, i) AS i FROM t"),
        *("SELECT i FROM t WHERE x LIKE y", "SELECT i FROM t WHERE x LIKE '%a%b%'"),
        *("SELECT regexp_matches(x, '(a+)+') AS i FROM t", "SELECT ln(d) AS i FROM t"),
        *("SELECT hash(x) AS i FROM t", "SELECT decode(x::BLOB) AS i FROM t"),
    ),
    "has the operator try": ("SELECT try(i + 1) AS i FROM t",),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("i\n1\n")
    with duckdb.connect(tmp_path / "shop.duckdb") as shop:
        for sql in (
            "CREATE SCHEMA other",
            f"CREATE TABLE t ({ROW})",
            f"CREATE TABLE other.t ({ROW.replace('COLLATE NOCASE', '')})",
            "CREATE TABLE n (i INTEGER)",
            "CREATE SEQUENCE q",
            "CREATE MACRO half(a) AS a / 2",
            "CREATE MACRO few(a) AS TABLE SELECT * FROM t LIMIT a",
        ):
            shop.execute(sql)
    return tmp_path


def made(folder: Path, *views: str) -> Path:
    path = folder / "shop.duckdb"
    with duckdb.connect(path) as shop:
        shop.execute("CREATE TABLE gone (i INTEGER)")
        for number, view in enumerate(views):
            shop.execute(f"CREATE VIEW v{number} AS {view.format(folder=folder)}")
        shop.execute("DROP TABLE gone")
    return path


def of_view(path: Path, number: int, name: str = "i") -> Table:
    listed = {name: Column(name, INTEGER)}
    source = DatabaseTable(path, f"v{number}")
    return Table("t", source, (), listed, name, INTEGER, max_rows_contributed=1)


def test_a_view_that_is_not_row_by_row_is_refused(folder: Path):
    cases = [(why, view) for why, views in REFUSED.items() for view in views]
    path = made(folder, *(view for _, view in cases))
    with start() as connection:
        connection.execute(f"ATTACH '{path}' AS {quoted(str(path))} (READ_ONLY)")
        connection.execute("SET enable_external_access = false")
        for number, (why, view) in enumerate(cases):
            table = of_view(path, number, "x" if "SELECT x FROM" in view else "i")
            ((column, told),) = unplain_columns(connection, table)
            assert column == "*", view
            assert told.startswith(f"v{number} {why}"), view


@pytest.mark.parametrize("why", ["groups rows", "casts", "cannot be resolved"])
def test_a_scan_of_such_a_view_fails(folder: Path, why: str):
    table = of_view(made(folder, REFUSED[why][0]), 0)
    small = World(table, DuckDBEngine(policy_of(table), FaultLog(None)))
    with pytest.raises(ScanFailed):
        small.exact(ALL)
    small.engine.close()


def test_no_value_makes_a_view_fail_or_changes_what_others_give(folder: Path):
    """Each hostile row alone gives what it gives among all others, each time."""
    path = made(folder, *READ)
    alone: list[list[object]] = [[] for _ in READ]
    with duckdb.connect(path) as shop:
        shop.execute("CREATE TEMP TABLE given AS FROM t")
        for name, values in HOSTILE.items():
            for value in values:
                shop.execute("BEGIN")
                for there in ("t", "other.t"):
                    shop.execute(f"INSERT INTO {there} ({name}) VALUES ({value})")
                for number, rows in enumerate(alone):
                    rows.extend(shop.execute(f"FROM v{number}").fetchall())
                shop.execute("ROLLBACK")
                shop.execute(f"INSERT INTO given ({name}) VALUES ({value})")
        for there in ("t", "other.t"):
            shop.execute(f"INSERT INTO {there} FROM given")
    with start() as connection:
        connection.execute(f"ATTACH '{path}' AS {quoted(str(path))} (READ_ONLY)")
        for number, rows in enumerate(alone):
            source = DatabaseTable(path, f"v{number}")
            columns = connection.execute(f"DESCRIBE FROM {stored(source)}").fetchall()
            listed = {name: Column(name, TEXT) for name, *_ in columns}
            assert unplain_columns(connection, Table("t", source, (), listed)) == []
            together = connection.execute(f"FROM {stored(source)}").fetchall()
            assert sorted(map(repr, together)) == sorted(map(repr, rows)), READ[number]


def test_a_view_and_a_table_of_another_schema_are_counted(folder: Path):
    view = "SELECT i, lower(x) AS x, decode(encode(s)) AS s FROM t WHERE b > 0"
    path = made(folder, view)
    with duckdb.connect(path) as shop:
        shop.execute("INSERT INTO t(i, b, x, s) VALUES (1, 1, 'A', 'Bob'), (2, 1, 'a', 'bob')")
        shop.execute("INSERT INTO t(i, b, x) VALUES (3, -1, 'a'), (NULL, 1, 'a')")
        shop.execute("INSERT INTO other.t(i, x) VALUES (1, 'B'), (5, 'a'), (6, 'a')")
    conditions = "x = 'a'", "s = 'bob'"
    for source, counts in (
        (DatabaseTable(path, "v0"), [2, 1]),
        (DatabaseTable(path, "t", "other"), [2, 0]),
    ):
        listed = {name: Column(name, TEXT) for name in ("x", "s")}
        table = Table("t", source, (), listed, "i", INTEGER, single=True)
        small = World(table, DuckDBEngine(policy_of(table), FaultLog(None)))
        assert small.counts(*conditions) == counts
        small.engine.close()


def test_a_collation_goes_through_a_view(folder: Path):
    path = made(folder, "SELECT i, lower(s) AS s FROM t")
    table = Table("t", DatabaseTable(path, "v0"), (), {"s": Column("s", TEXT)}, "i", INTEGER)
    with start() as connection:
        connection.execute(f"ATTACH '{path}' AS {quoted(str(path))} (READ_ONLY)")
        assert unplain_columns(connection, table) == [("s", "has a collation")]


def test_a_draft_has_the_tables_and_views_that_can_be_read(folder: Path):
    path = made(folder, "SELECT i, lower(x) AS x FROM t", "SELECT DISTINCT i FROM t")
    found = schemas_in_file(path)
    read = {name for name, schema in found.items() if schema.types}
    assert read == {("main", "n"), ("main", "t"), ("main", "v0"), ("other", "t")}
    assert "s" in found["main", "t"].left_out, "a collation"
    assert found["main", "v0"].types == {"i": INTEGER, "x": TEXT}
    assert found["main", "v1"].left_out == {"i": "v1 drops rows that are equal"}
