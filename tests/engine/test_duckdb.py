"""What only the DuckDB engine has: pins that are locked, and tables in DuckDB files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.connection import PINS, start
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.quoting import quoted
from dpquery.engine.duckdb.sources.duckdb_schema import unplain_columns
from dpquery.engine.file_checks import fit_of
from dpquery.errors import ScanFailed
from dpquery.policy.model import Bounds, Column, DatabaseTable, Table
from tests.worlds import World, policy_of, private_table, write

ALL = "SELECT DP_COUNT(*, eps=1) FROM t"
secret_of_the_host = 4711  # what a replacement scan would find among Python's variables


@pytest.fixture
def locked(tmp_path: Path):
    """The connection of an engine that has scanned once."""
    path = write(tmp_path / "t.parquet", unit=[1], x=[1])
    write(tmp_path / "other.parquet", x=[1])
    engine = DuckDBEngine(
        policy_of(private_table([path], [Column("x", INTEGER)])), FaultLog(None)
    )
    yield engine._started()
    engine.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SET threads = 1",
        "SET lock_configuration = false",
        "RESET enable_external_access",
        "SET allowed_paths = ['/etc/passwd']",
        "PRAGMA enable_external_access",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM read_parquet('{here}/other.parquet')",
        "SELECT * FROM '{here}/other.parquet'",
        "SELECT * FROM read_text('{here}/t.parquet.txt')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM glob('{here}/*')",
        "COPY (SELECT 1) TO '{here}/out.csv'",
        "EXPORT DATABASE '{here}/out'",
        "ATTACH '{here}/new.duckdb'",
        "ATTACH '{here}/new.duckdb' (READ_ONLY)",
        "SELECT * FROM secret_of_the_host",
    ],
)
def test_the_lock_holds(locked: duckdb.DuckDBPyConnection, tmp_path: Path, sql: str):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(duckdb.Error):
        locked.execute(sql.format(here=tmp_path)).fetchall()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("name", "value"), PINS)
def test_a_pin_is_set(locked: duckdb.DuckDBPyConnection, name: str, value: str):
    (found,) = locked.execute(f"SELECT current_setting('{name}')").fetchone()
    assert str(found).lower() == value.strip("'").lower()


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "peo'ple.duckdb"
    with duckdb.connect(path) as database:
        database.execute(
            'CREATE TABLE "peo""ple" AS SELECT * FROM (VALUES '
            "(1, 5, 1.5, 2.25, 'abcd', true, '2020-02-02'::DATE, "
            "'2020-02-02 01:02'::TIMESTAMP), "
            "(1, -9, 'nan'::DOUBLE, 99.75, NULL, false, 'infinity'::DATE, "
            "'-infinity'::TIMESTAMP), "
            "(NULL, 7, 0, 0, 'x', NULL, NULL, NULL)) AS v(unit, i, d, m, s, b, day, \"at\")"
        )
        database.execute('ALTER TABLE "peo""ple" ALTER m TYPE DECIMAL(9, 2)')
    return path


COLUMNS = (
    Column("i", INTEGER, Bounds(0, 100)),
    Column("d", DOUBLE),
    Column("m", Type(Kind.DECIMAL, 18, 2), Bounds(0, 50)),
    Column("s", TEXT, max_length=3),
    Column("b", BOOLEAN),
    Column("day", DATE),
    Column("at", TIMESTAMP),
)


def database_world(path: Path, *columns: Column, **settings: object) -> World:
    listed = {column.name: column for column in columns}
    source = DatabaseTable(path, 'peo"ple')
    table = Table(
        "t", source, (), listed, "unit", INTEGER, **{"max_rows_contributed": 1, **settings}
    )  # type: ignore[arg-type]
    table, _ = fit_of(table)
    return World(table, DuckDBEngine(policy_of(table), FaultLog(None)))


def test_a_table_of_a_duckdb_file_is_counted(people: Path):
    small = database_world(people, *COLUMNS, max_rows_contributed=2)
    conditions = {
        "i = 0": 1, "d IS NULL": 1, "m = 50": 1, "s = 'abc'": 1, "b": 1, "i = 7": 0,
        "day > '9999-12-31'": 1, "at < '0001-01-01'": 1, "at = '2020-02-02 01:02'": 1,
    }  # fmt: skip
    counts = small.counts(*conditions)
    assert counts == [count * 2**32 for count in conditions.values()]
    small.engine.close()


def test_a_table_of_another_type_fails(people: Path):
    small = database_world(people, Column("s", INTEGER))
    with pytest.raises(ScanFailed):
        small.exact(ALL)
    small.engine.close()


def test_a_database_that_was_replaced_is_read_anew(people: Path, tmp_path: Path):
    small = database_world(people, Column("i", INTEGER))
    assert small.exact(ALL) == [2 * (2**32 // 2)]
    with duckdb.connect(tmp_path / "new.duckdb") as database:
        database.execute(
            'CREATE TABLE "peo""ple" AS SELECT range AS unit, 1 AS i FROM range(3)'
        )
    (tmp_path / "new.duckdb").replace(people)
    assert small.exact(ALL) == [3 * 2**32]
    small.engine.close()


def test_a_declared_single_row_is_verified_in_a_database_too(people: Path):
    small = database_world(people, Column("i", INTEGER), single=True)
    with pytest.raises(ScanFailed):
        small.exact(ALL)
    small.engine.close()


@pytest.mark.parametrize("settings", [{}, {"unit": None}, {"single": True}])
def test_a_histogram_of_files_that_changed_fails(tmp_path: Path, settings):
    """Weights are held from the first request on, yet the second one looks at the files."""
    path = write(tmp_path / "t.parquet", unit=[1, 2], x=[1, 2])
    table = private_table([path], [Column("x", INTEGER, Bounds(0, 7))], **settings)
    small = World(table, DuckDBEngine(policy_of(table), FaultLog(None)))
    with small.open("SELECT DP_MEDIAN(x, eps=1) FROM t") as (frontier, exact):
        (measure,) = frontier.scan.measures
        exact.histogram(measure, 0, 0, 8, 1)
        write(path, unit=[1, 2, 3], x=[1, 2, 3])
        with pytest.raises(ScanFailed) as caught:
            exact.histogram(measure, 0, 0, 4, 1)
        assert caught.value.code == "DPQ701"
    small.engine.close()


def held_tables(small: World) -> int:
    (found,) = (
        small.engine._started()
        .execute("SELECT count(*) FROM duckdb_tables() WHERE temporary")
        .fetchone()
    )
    return found


def test_what_a_scan_holds_is_dropped_when_it_is_closed(tmp_path: Path):
    path = write(tmp_path / "t.parquet", unit=[1, 1, 2], x=[1, 2, 3])
    table = private_table([path], [Column("x", INTEGER, Bounds(0, 7))])
    small = World(table, DuckDBEngine(policy_of(table), FaultLog(None)))
    sql = "SELECT DP_MEDIAN(x, eps=1), DP_MEDIAN(x + 1, eps=1) FROM t"
    for broken in (False, True):
        with suppress(ScanFailed), small.open(sql) as (frontier, exact):
            for number, measure in enumerate(frontier.scan.measures):
                exact.histogram(measure, 0, 0, 8, 1)
                assert held_tables(small) == number + 1
            if broken:
                path.unlink()
                exact.histogram(measure, 0, 0, 4, 1)
        assert held_tables(small) == 0
    small.engine.close()


STORED = {
    "x": ("VARCHAR", None),
    "x COLLATE NOCASE": ("VARCHAR COLLATE NOCASE", "has a collation"),
    "x COLLATE NOCASE.NOACCENT": ("VARCHAR COLLATE NOCASE.NOACCENT", "has a collation"),
    "CHAR": ("CHAR(3)", None),
    "a name for a type": ("spelled", None),
    "a default, and a condition, that speak of one": (
        "VARCHAR DEFAULT 'c0 VARCHAR COLLATE NOCASE' CHECK (x COLLATE NOCASE <> ',c1')",
        None,
    ),
    "computed from its row": ("VARCHAR GENERATED ALWAYS AS (lower(y))", None),
}
"""What a column can be declared as beyond a type, and what is said of it."""


@pytest.mark.parametrize("declared", STORED)
@pytest.mark.parametrize("where", ["as a column", "as the unit", "not in the policy"])
def test_stored_columns_are_values_and_nothing_more(
    tmp_path: Path, declared: str, where: str
) -> None:
    written, why = STORED[declared]
    path = tmp_path / "t.duckdb"
    with duckdb.connect(path) as database:
        database.execute("CREATE TYPE spelled AS VARCHAR")
        database.execute(f'CREATE TABLE "T" (y VARCHAR, x {written})')
        database.execute("INSERT INTO t(y) VALUES ('a'), ('A')")
    columns = {"as a column": ["y", "x"], "as the unit": ["y"], "not in the policy": ["y"]}
    unit = "x" if where == "as the unit" else "y"
    listed = {name: Column(name, TEXT) for name in columns[where]}
    table = Table("t", DatabaseTable(path, "t"), (), listed, unit, TEXT, max_rows_contributed=1)
    refused = why is not None and where != "not in the policy"
    with start() as connection:
        connection.execute(f"ATTACH '{path}' AS {quoted(str(path))} (READ_ONLY)")
        found = unplain_columns(connection, table)
        assert found == ([("x", why)] if refused else [])
    small = World(table, DuckDBEngine(policy_of(table), FaultLog(None)))
    if refused:
        with pytest.raises(ScanFailed):
            small.exact(ALL)
    else:
        small.exact(ALL)
    small.engine.close()


def test_a_collation_for_a_whole_database_is_one_of_its_columns(tmp_path: Path):
    """What a setting made of a column stays with it; what compares is set here."""
    path = tmp_path / "t.duckdb"
    with duckdb.connect(path) as database:
        database.execute("CREATE TABLE plain AS SELECT 'a' AS x")
        database.execute("SET default_collation = 'NOCASE'")
        database.execute("CREATE TABLE made AS SELECT 'a' AS x")
        database.execute("CREATE TABLE declared (x VARCHAR)")
        database.execute("CREATE VIEW seen AS FROM plain")
    with start() as connection:
        connection.execute(f"ATTACH '{path}' AS {quoted(str(path))} (READ_ONLY)")
        said = {}
        for name in ("plain", "made", "declared", "seen"):
            source = DatabaseTable(path, name)
            table = Table("t", source, (), {"x": Column("x", TEXT)}, "x", TEXT)
            said[name] = unplain_columns(connection, table)
            same = f"SELECT 'A' = x FROM {quoted(str(path))}.{name}"
            assert (True,) not in connection.execute(same).fetchall() or said[name]
        assert said["plain"] == []
        assert said["seen"] == []
