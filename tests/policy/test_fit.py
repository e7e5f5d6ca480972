"""A policy that does not fit its files is told when a session opens, and nothing is charged."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.errors import PolicyInvalid, QueryRefused, ScanFailed
from dpquery.policy.sources.parquet_footers import footer
from dpquery.shell.main import main

POLICY = """\
[budget]
epsilon = 1
[tables.people]
{source}
privacy_unit_column = "id"
max_rows_contributed = 1
[tables.people.columns]
id = {{ type = "integer" }}
age = {{ type = "integer", bounds = [0, 99] }}
name = {{ type = "text", keys = ["ann", "bob"] }}
"""
PARQUET = 'path = "people/**/*.parquet"'
STORED = 'database = "people.duckdb"\ntable = "people"'
ROWS = pa.table({"id": [1, 2], "age": [30, 40], "name": ["ann", "bob"]})
COUNT = "SELECT DP_COUNT(*, eps=0.5) FROM people"
Making = Callable[[Path], object]


def files(**tables: pa.Table | bytes) -> Making:
    """Make the files of a table, each under its name, `__` for a folder's bar."""

    def make(place: Path) -> None:
        for name, rows in tables.items():
            path = place / "people" / f"{name.replace('__', '/')}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(rows) if isinstance(rows, bytes) else pq.write_table(rows, path)

    return make


def with_type(name: str, type_: pa.DataType) -> pa.Table:
    at = ROWS.schema.get_field_index(name)
    return ROWS.set_column(at, name, pa.array([None, None], type_))


def in_folders(*names: str) -> Making:
    """Make a file in each folder, without the ages that their names say."""

    def make(place: Path) -> None:
        for name in names:
            path = place / "people" / name / "a.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(ROWS.drop_columns(["age"]), path)

    return make


def stored(*made: str) -> Making:
    def make(place: Path) -> None:
        with duckdb.connect(str(place / "people.duckdb")) as database:
            for sql in made:
                database.execute(sql)

    return make


def no_database(place: Path) -> None:
    (place / "people.duckdb").write_bytes(b"something else" * 1000)


COLUMNS = "id INTEGER, age INTEGER, name VARCHAR"
MISFITS = {
    "a column that no file has": (
        PARQUET,
        files(a=ROWS.drop_columns(["age"])),
        "no such column",
    ),
    "a file of something else": (
        PARQUET,
        files(a=ROWS, b=pa.table({"x": [1]})),
        "b.parquet has none of the columns",
    ),
    "a column in another case in one file": (
        PARQUET,
        files(a=ROWS, b=ROWS.rename_columns(["id", "Age", "name"])),
        'b.parquet has no such column, but "Age"',
    ),
    "a type that does not widen": (
        PARQUET,
        files(a=with_type("age", pa.string())),
        "a.parquet has string, declared is integer",
    ),
    "a type without a name": (
        PARQUET,
        files(a=with_type("name", pa.binary())),
        "a.parquet has binary, declared is text",
    ),
    "a unit of another type": (PARQUET, files(a=with_type("id", pa.float64())), "people.id"),
    "another case": (PARQUET, files(a=ROWS.rename_columns(["id", "Age", "name"])), '"Age"'),
    "two cases": (
        PARQUET,
        files(a=ROWS.append_column("AGE", ROWS["age"])),
        "others of that name but for case",
    ),
    "a folder that is named otherwise": (PARQUET, in_folders("Age=30"), "no such column"),
    "no Parquet": (PARQUET, files(a=ROWS, b=b"id,age,name\n"), "b.parquet is not readable"),
    "half a file": (PARQUET, files(a=b"PAR1" + b"\0" * 99), "a.parquet is not readable"),
    "no DuckDB file": (STORED, no_database, "cannot be opened as a DuckDB file"),
    "no table": (
        STORED,
        stored("CREATE TABLE others AS SELECT 1 AS id"),
        "no table named people",
    ),
    "a view": (
        STORED,
        stored(f"CREATE TABLE held({COLUMNS})", "CREATE VIEW people AS FROM held LIMIT 5"),
        "people keeps some of the rows",
    ),
    "another schema": (
        STORED,
        stored("CREATE SCHEMA hr", f"CREATE TABLE hr.people({COLUMNS})"),
        'in the schema hr, not main: table = "hr.people"',
    ),
    "a generated column": (
        STORED,
        stored("CREATE TABLE people(id INTEGER, name VARCHAR, age INTEGER AS (id + 1))"),
        "people calls +",
    ),
    "a collation": (
        STORED,
        stored("CREATE TABLE people(id INTEGER, age INTEGER, name VARCHAR COLLATE NOCASE)"),
        "has a collation",
    ),
    "a collation of the unit": (
        STORED,
        stored("CREATE TABLE people(id VARCHAR COLLATE NOCASE, age INTEGER, name VARCHAR)"),
        "has a collation",
    ),
    "a stored type": (
        STORED,
        stored("CREATE TABLE people(id INTEGER, age INTERVAL, name VARCHAR)"),
        "people has INTERVAL, declared is integer",
    ),
    "a stored double, for an integer without bounds": (
        STORED,
        stored("CREATE TABLE people(id DOUBLE, age INTEGER, name VARCHAR)"),
        "people has DOUBLE: an integer of it needs bounds or keys",
    ),
    "no stored column": (
        STORED,
        stored("CREATE TABLE people(id INTEGER, age INTEGER)"),
        "people has no such column",
    ),
}


def written_policy(place: Path, source: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    policy = place / "policy.toml"
    policy.write_text(POLICY.format(source=source), "utf-8")
    return policy


@pytest.fixture(params=MISFITS)
def misfit(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    source, make, detail = MISFITS[request.param]
    policy = written_policy(tmp_path, source)
    make(tmp_path)
    return policy, detail


def test_every_misfit_is_told_in_the_same_words_before_any_charge(misfit: tuple[Path, str]):
    policy, detail = misfit
    with pytest.raises(PolicyInvalid) as refused:
        dpquery.connect(policy)
    assert str(refused.value).replace(str(policy), "POLICY") == (
        "policy[DPQ612]: the files of the table people do not hold what the policy says\n"
        "   --> POLICY\n"
        "   why: its queries would be charged and then fail, so no session is opened.\n"
        "   try: dpquery policy check POLICY\n"
        "        tells the data owner what differs"
    )
    assert not policy.with_name("policy.ledger").exists()
    assert detail not in str(refused.value)


def test_the_owner_is_told_what_differs_once(
    misfit: tuple[Path, str], capsys: pytest.CaptureFixture[str]
):
    policy, detail = misfit
    for _ in range(3):
        with pytest.raises(PolicyInvalid):
            dpquery.connect(policy)
    (noted,) = policy.with_name("policy.ledger.faults").read_text("utf-8").splitlines()
    fault = json.loads(noted)["fault"]
    assert fault.startswith("DataChanged: people: ")
    assert main(["policy", "check", str(policy)]) == 2
    told = capsys.readouterr().out
    assert re.search(r"^fault: people", told, re.MULTILINE)
    assert detail in told
    assert detail in fault or detail.startswith("people.")


@pytest.mark.parametrize(
    ("source", "make"),
    [
        (PARQUET, files(a=ROWS, deep__b=ROWS)),
        (PARQUET, files(a=ROWS, b=ROWS.drop_columns(["name"]))),
        (PARQUET, in_folders("age=30", "age=x", "age=%FF", "deep/age=1=2", "other")),
        ('path = "people/"', in_folders("age=30", "age=__HIVE_DEFAULT_PARTITION__")),
        (PARQUET, files(a=with_type("age", pa.int8()))),
        (PARQUET, files(a=with_type("name", pa.dictionary(pa.int8(), pa.string())))),
        (STORED, stored(f"CREATE TABLE people({COLUMNS}, more HUGEINT)")),
        (
            STORED,
            stored(
                f"CREATE TABLE people({COLUMNS}, more VARCHAR COLLATE NOCASE)",
                "CREATE VIEW broken AS SELECT * FROM people",
                "ALTER TABLE people RENAME COLUMN more TO less",
            ),
        ),
        (STORED, stored("CREATE TABLE People(id TINYINT, age UINTEGER, name VARCHAR)")),
    ],
)
def test_what_fits_is_opened_and_answered(
    tmp_path: Path, source: str, make: Making, capsys: pytest.CaptureFixture[str]
):
    policy = written_policy(tmp_path, source)
    make(tmp_path)
    with dpquery.connect(policy) as session:
        session.sql(COUNT)
    assert main(["policy", "check", str(policy)]) == 0
    assert "fault" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["parquet", "stored"])
def test_opening_asking_and_refusing_are_the_same_on_neighbours(tmp_path: Path, kind: str):
    """I1, I6: rows, counts and statistics may differ; what is told before a charge may not."""
    worlds = {
        "some": [(1, 30, "ann"), (2, 40, "bob")],
        "more": [(1, 30, "ann"), (2, 40, "bob"), (3, None, None), (3, 99, "zoe")],
        "none": [],
    }
    for fits in (True, False):
        told = {
            name: before_any_charge(tmp_path / str(fits) / name, kind, rows, fits)
            for name, rows in worlds.items()
        }
        assert len({json.dumps(lines) for lines in told.values()}) == 1, told
        assert any("DPQ612" in line for line in told["some"]) != fits


def before_any_charge(
    place: Path, kind: str, rows: list[tuple[object, ...]], fits: bool
) -> list[str]:
    """Return what is told on files of some rows until a charge would be made."""
    schema = ROWS.schema if fits else ROWS.drop_columns(["name"]).schema
    table = pa.table(
        {
            one.name: pa.array([row[at] for row in rows], one.type)
            for at, one in enumerate(schema)
        }
    )
    policy = written_policy(place, PARQUET if kind == "parquet" else STORED)
    if kind == "parquet":
        files(a=table)(place)
    else:
        with duckdb.connect(str(place / "people.duckdb")) as database:
            database.register("given", table)
            database.execute("CREATE TABLE people AS FROM given")
    lines = []
    try:
        with dpquery.connect(policy) as session:
            lines += [str(session.explain(COUNT)), str(session.describe("people"))]
            for text in (COUNT.replace("0.5", "9"), COUNT.replace("people", "nobody")):
                with pytest.raises(QueryRefused) as refused:
                    session.sql(text)
                lines.append(str(refused.value))
    except PolicyInvalid as unfit:
        lines.append(str(unfit))
    return [line.replace(str(place), "PLACE") for line in lines]


def test_a_file_that_changes_later_still_fails_the_scan(tmp_path: Path):
    policy = written_policy(tmp_path, PARQUET)
    files(a=ROWS)(tmp_path)
    with dpquery.connect(policy) as session:
        files(a=ROWS.drop_columns(["age"]))(tmp_path)
        with pytest.raises(ScanFailed):
            session.sql(COUNT)


def test_changes_that_wait_beside_a_database_are_not_read_before_a_charge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """I1: opening the database would replay them, and they are rows."""
    policy = written_policy(tmp_path, STORED)
    written = "CREATE TABLE people(id INTEGER); CHECKPOINT; INSERT INTO people VALUES (1)"
    crash = f"c = duckdb.connect('people.duckdb'); c.execute('{written}'); os._exit(0)"
    crash = f"import duckdb, os; {crash}"
    subprocess.run([sys.executable, "-c", crash], check=True, cwd=tmp_path)
    assert (tmp_path / "people.duckdb.wal").exists()
    with dpquery.connect(policy) as session, pytest.raises(ScanFailed):
        session.sql(COUNT)
    assert main(["policy", "check", str(policy)]) == 2  # which is for the owner alone
    assert "people has no such column" in capsys.readouterr().out
    duckdb.connect(str(tmp_path / "people.duckdb")).close()  # writes what waits
    with pytest.raises(PolicyInvalid, match="do not hold"):
        dpquery.connect(policy)


def test_of_ones_own_files_it_is_said_what_differs(tmp_path: Path):
    files(a=ROWS, b=with_type("name", pa.int64()))(tmp_path)
    every = str(tmp_path / "people/*.parquet")
    with dpquery.connect(
        {"people": every}, unit="id", max_rows_contributed=2, epsilon=1
    ) as session:
        notes = session.sql(COUNT).notes
    assert (
        "people: name is left out: files have it in types that are not one: int64, string"
    ) in notes
    files(a=with_type("age", pa.float32()), b=ROWS)(tmp_path)
    connect = partial(dpquery.connect, unit="id", max_rows_contributed=2, epsilon=1)
    with connect({"people": every}) as session:  # floats and integers together are doubles
        session.sql(f"{COUNT} WHERE age > 0.5")


WIDE = 2**24 + 1
"""A number that a FLOAT does not hold."""


@pytest.mark.parametrize("types", ["is", "id", "fs", "sf", "if", "df", "ifd", "fi"])
def test_files_of_several_types_keep_every_digit(types: str, tmp_path: Path):
    of = {"i": pa.int64(), "s": pa.int32(), "d": pa.float64(), "f": pa.float32()}
    text = POLICY.replace('type = "integer", bounds = [0, 99]', 'type = "double", bounds = B')
    policy = tmp_path / "policy.toml"
    bounds = text.replace("bounds = B", "bounds = [0, 1e8], grid = 1")
    policy.write_text(bounds.format(source=PARQUET).replace("epsilon = 1", "epsilon = 1e9"))
    rows = {
        f"{n}{kind}": pa.table({
            "id": range(100 * n, 100 * n + 100),
            "age": pa.array([float(WIDE)] * 100).cast(of[kind], safe=False),
            "name": ["ann"] * 100,
        })
        for n, kind in enumerate(types)
    }  # fmt: skip
    files(**rows)(tmp_path)
    with dpquery.connect(policy) as session:
        found = session.sql("SELECT DP_MEDIAN(age, eps=1e6) FROM people WHERE age <> 16777216")
    assert found.scalar() == WIDE


@pytest.mark.parametrize("name", ["edge", "items", "people", "staff", "visits"])
def test_footers_have_the_schemas_that_pyarrow_reads(name: str):
    file = Path(f"datasets/{name}.parquet").absolute()
    found = footer(file).schema
    assert found is not None
    assert found.equals(pq.ParquetFile(file).schema_arrow, check_metadata=True)
