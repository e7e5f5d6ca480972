"""What clients do with a server that runs by itself: the table of docs/server.md."""

from __future__ import annotations

import asyncio
import io
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.server.jdbc import JDBC, TABLES, java_says
from tests.server.postgres.served import ALICE
from tests.server.postgres.test_clients import DEPTS, GROUPS, JAR, MONTHS
from tests.server.psql import ROWS, SAID
from tests.server.running import Running, running
from tests.tasks import ROOT

LEAST = 60
"""Checks in all."""


@dataclass(frozen=True)
class Check:
    client: str
    what: str
    run: Callable[[Running], None]

    def __str__(self) -> str:
        return f"{self.client}-{self.what}"


CHECKS: list[Check] = []


def check(client: str, what: str) -> Callable[[Callable[[Running], None]], None]:
    """Enter a check."""
    return lambda run: CHECKS.append(Check(client, what, run))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("together")) as found:
        yield found


@contextmanager
def charged(server: Running, times: int) -> Iterator[None]:
    """Require so many charges in a block."""
    before = server.charges()
    yield
    assert server.charges() == before + times


# psql


def psql(server: Running, script: str, *options: str, code: int = 0) -> str:
    if (program := shutil.which("psql")) is None:
        pytest.skip("psql is not installed")
    environment = {"PGPASSWORD": ALICE[1], "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    done = subprocess.run(
        [program, "-X", *options, f"postgresql://alice@127.0.0.1:{server.port}/dpquery"],
        input=script, env=environment, timeout=60, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    return done.stdout


def _enter(what: str, script: str, said: list[str]) -> None:
    @check("psql", what)
    def _(server: Running) -> None:
        told = psql(server, script)
        assert not [text for text in said if text not in told], told


for _what, (_script, _said) in SAID.items():
    _enter(_what, _script, _said)


@check("psql", "\\copy (query) to")
def _(server: Running) -> None:
    out = server.policy.parent / "rows.csv"
    psql(server, f"\\copy ({GROUPS}) to '{out}' csv header")
    lines = out.read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["dept", *DEPTS]


@check("psql", "ON_ERROR_STOP")
def _(server: Running) -> None:
    told = psql(server, "SELECT nope;\n\\echo on", "-v", "ON_ERROR_STOP=1", code=3)
    assert "\non\n" not in told


# psycopg 3


@contextmanager
def three(server: Running) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection


def _rows(what: str, *, binary: bool) -> None:
    @check("psycopg 3", f"rows {what}")
    def _(server: Running) -> None:
        with three(server) as client:
            rows = client.cursor(binary=binary).execute(GROUPS).fetchall()
            assert [(dept, type(n)) for dept, n in rows] == [(dept, int) for dept in DEPTS]

    @check("psycopg 3", f"parameters {what}")
    def _(server: Running) -> None:
        text = "SELECT DP_COUNT(*, eps=%s) FROM staff WHERE dept = %s AND hired > %s"
        with three(server) as client:
            values = (Decimal("0.25"), "it's", date(2010, 1, 1))
            assert len(client.execute(text, values, binary=binary).fetchall()) == 1

    @check("psycopg 3", f"a server cursor {what}")
    def _(server: Running) -> None:
        refreshed = GROUPS.replace("SELECT", "REFRESH SELECT", 1)
        with (
            charged(server, 1),
            psycopg.connect(server.dsn()) as client,
            client.cursor(name="c", binary=binary) as cursor,
        ):
            cursor.itersize = 2
            cursor.execute(refreshed)
            assert [row[0] for row in cursor] == DEPTS


_rows("as text", binary=False)
_rows("as bytes", binary=True)


@check("psycopg 3", "prepared statements, repeated free")
def _(server: Running) -> None:
    text = "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age > 33"
    with charged(server, 1), three(server) as client:
        cursors = [client.execute(text, prepare=True) for _ in range(8)]
        assert len({cursor.fetchone() for cursor in cursors}) == 1


@check("psycopg 3", "a pipeline")
def _(server: Running) -> None:
    with three(server) as client:
        with client.pipeline():
            asked = [client.execute(text) for text in ("SELECT 1", GROUPS, "SHOW dp.eps")]
        assert [len(one.fetchall()) for one in asked] == [1, 5, 1]


@check("psycopg 3", "an error in a pipeline")
def _(server: Running) -> None:
    with three(server) as client:
        with pytest.raises(psycopg.errors.UndefinedColumn), client.pipeline():  # noqa: PT012
            client.execute("SELECT DP_COUNT(*, eps=0.5) FROM nope")
            client.execute(GROUPS)
        assert client.execute("SELECT 1").fetchall() == [(1,)]


@check("psycopg 3", "COPY")
def _(server: Running) -> None:
    with (
        three(server) as client,
        client.cursor() as cursor,
        cursor.copy(f"COPY ({GROUPS}) TO STDOUT (FORMAT binary)") as copy,
    ):
        copy.set_types(["text", "int8"])
        assert [row[0] for row in copy.rows()] == DEPTS


@check("psycopg 3", "notices")
def _(server: Running) -> None:
    told: list[str] = []
    with three(server) as client:
        client.add_notice_handler(lambda one: told.append(one.message_primary or ""))
        client.execute(GROUPS)
    assert " spent; " in told[0]
    assert told[1] == "n: 95% within ± 6"


@check("psycopg 3", "errors by SQLSTATE, with position, reason and remedy")
def _(server: Running) -> None:
    with three(server) as client:
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as raised:
            client.execute(ROWS)
        told = raised.value.diag
        assert told.statement_position == "8"
        assert "one person's row" in (told.message_detail or "")
        client.execute(told.message_hint or "")


@check("psycopg 3", "cancelling")
def _(server: Running) -> None:
    with three(server) as client:
        client.cancel()  # nothing runs: nothing happens
        assert client.execute("SELECT 1").fetchall() == [(1,)]


@check("psycopg 3", "asyncio")
def _(server: Running) -> None:
    async def talk() -> list[Any]:
        async with await psycopg.AsyncConnection.connect(server.dsn()) as client:
            return await (await client.execute(GROUPS)).fetchall()

    assert len(asyncio.run(talk())) == 5


@check("psycopg 3", "a failed transaction asks nothing")
def _(server: Running) -> None:
    with charged(server, 0), psycopg.connect(server.dsn()) as client:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            client.execute("SELECT DP_COUNT(*, eps=0.5) FROM nope")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            client.execute("SELECT DP_COUNT(*, eps=0.5) FROM staff")
        client.rollback()


# psycopg2, pg8000


@contextmanager
def two(server: Running) -> Iterator[Any]:
    connection = pytest.importorskip("psycopg2").connect(server.dsn())
    try:
        yield connection
    finally:
        connection.close()


@check("psycopg2", "parameters")
def _(server: Running) -> None:
    with two(server) as client, client.cursor() as cursor:
        text = "SELECT DP_COUNT(*, eps=%s) FROM staff WHERE dept = %s AND hired > %s"
        cursor.execute(text, (0.5, "it's", date(2010, 1, 1)))
        assert len(cursor.fetchall()) == 1
        assert client.notices[0].startswith("NOTICE:  ")


@check("psycopg2", "named cursors")
def _(server: Running) -> None:
    with two(server) as client, client.cursor("named") as cursor:
        cursor.itersize = 2
        cursor.execute(GROUPS)
        assert [row[0] for row in cursor] == DEPTS


@check("psycopg2", "copy_expert")
def _(server: Running) -> None:
    out = io.StringIO()
    with two(server) as client, client.cursor() as cursor:
        cursor.copy_expert(f"COPY ({GROUPS}) TO STDOUT CSV HEADER", out)
    assert len(out.getvalue().splitlines()) == 6


@check("psycopg2", "errors")
def _(server: Running) -> None:
    import psycopg2

    with two(server) as client, client.cursor() as cursor:
        with pytest.raises(psycopg2.Error) as raised:
            cursor.execute(ROWS)
        assert (raised.value.pgcode, raised.value.diag.statement_position) == ("42501", "8")


@contextmanager
def eight(server: Running) -> Iterator[Any]:
    connection = pytest.importorskip("pg8000.dbapi").connect(**server.arguments())
    try:
        yield connection
    finally:
        connection.close()


@check("pg8000", "rows")
def _(server: Running) -> None:
    with eight(server) as client:
        cursor = client.cursor()
        cursor.execute(GROUPS)
        assert [row[0] for row in cursor.fetchall()] == DEPTS


@check("pg8000", "parameters")
def _(server: Running) -> None:
    with eight(server) as client:
        cursor = client.cursor()
        text = "SELECT DP_COUNT(*, eps=%s) FROM staff WHERE age > %s AND dept = %s"
        cursor.execute(text, (0.5, 30, "eng"))
        assert type(cursor.fetchall()[0][0]) is int


@check("pg8000", "errors")
def _(server: Running) -> None:
    import pg8000.dbapi

    with eight(server) as client:
        with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
            client.cursor().execute(ROWS)
        assert (raised.value.args[0]["C"], raised.value.args[0]["P"]) == ("42501", "8")


# asyncpg


def async_check(what: str) -> Callable[[Callable[[Any], Any]], None]:
    """Enter a check of asyncpg, which takes a connection."""

    def entered(run: Callable[[Any], Any]) -> None:
        @check("asyncpg", what)
        def _(server: Running) -> None:
            asyncpg = pytest.importorskip("asyncpg")

            async def talk() -> None:
                client = await asyncpg.connect(**server.arguments(), ssl=False)
                try:
                    await run(client)
                finally:
                    await client.close(timeout=5)

            asyncio.run(talk())

    return entered


@async_check("rows")
async def _(client: Any) -> None:
    assert [row["dept"] for row in await client.fetch(GROUPS)] == DEPTS


@async_check("parameters")
async def _(client: Any) -> None:
    text = "SELECT DP_COUNT(*, eps=$1) AS n FROM staff WHERE dept = $2 AND hired > $3"
    assert type(await client.fetchval(text, 0.5, "eng", date(2010, 1, 1))) is int


@async_check("prepared statements and their types")
async def _(client: Any) -> None:
    once = await client.prepare("SELECT DP_COUNT(*, eps=$1) AS n FROM staff WHERE hired > $2")
    assert [one.name for one in once.get_parameters()] == ["float8", "date"]
    assert [(one.name, one.type.name) for one in once.get_attributes()] == [("n", "int8")]


@async_check("cursors")
async def _(client: Any) -> None:
    async with client.transaction():
        assert [row["dept"] async for row in client.cursor(GROUPS, prefetch=2)] == DEPTS


@async_check("types")
async def _(client: Any) -> None:
    text = "SELECT DP_AVG(rating, eps=0.5) AS a, DP_SUM(rating, eps=0.5) AS s FROM staff"
    row = await client.fetchrow(text)
    assert (type(row["a"]), type(row["s"])) == (float, Decimal)


@async_check("copy_from_query")
async def _(client: Any) -> None:
    out = io.BytesIO()
    await client.copy_from_query(GROUPS, output=out, format="csv")
    assert len(out.getvalue().splitlines()) == 5


@async_check("errors")
async def _(client: Any) -> None:
    import asyncpg

    with pytest.raises(asyncpg.InsufficientPrivilegeError) as raised:
        await client.fetch(ROWS)
    assert raised.value.as_dict()["hint"] == "SELECT DP_COUNT(*, eps=0.5) FROM staff"


@check("asyncpg", "a pool, which resets what is given back")
def _(server: Running) -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def talk() -> Any:
        pool = asyncpg.create_pool(**server.arguments(), ssl=False, min_size=1, max_size=1)
        async with pool:
            await pool.execute("SET dp.eps = 0.5")
            return await pool.fetchval("SHOW dp.eps")

    assert asyncio.run(talk()) == ""


# SQLAlchemy, and frames


@contextmanager
def engine(server: Running, driver: str = "psycopg") -> Iterator[Any]:
    made = pytest.importorskip("sqlalchemy").create_engine(server.url(f"postgresql+{driver}"))
    try:
        yield made
    finally:
        made.dispose()


def _driver(driver: str) -> None:
    @check("SQLAlchemy", f"a query through {driver}")
    def _(server: Running) -> None:
        with engine(server, driver) as made, made.connect() as client:
            import sqlalchemy as sa

            text = sa.text("SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE dept = :d")
            assert len(client.execute(text, {"d": "eng"}).fetchall()) == 1


for _name in ("psycopg", "psycopg2", "pg8000"):
    _driver(_name)


@check("SQLAlchemy", "a query of expressions, under dp.eps")
def _(server: Running) -> None:
    with engine(server) as made, made.connect() as client:
        import sqlalchemy as sa

        staff = sa.Table("staff", sa.MetaData(), autoload_with=made)
        client.execute(sa.text("SET dp.eps = 0.5"))
        count = sa.select(staff.c.dept, sa.func.count().label("n")).where(staff.c.age > 30)
        assert len(client.execute(count.group_by(staff.c.dept)).fetchall()) == 5


@check("SQLAlchemy", "reflection")
def _(server: Running) -> None:
    with engine(server) as made:
        import sqlalchemy as sa

        found = sa.MetaData()
        found.reflect(made)
        assert sorted(found.tables) == TABLES
        assert found.tables["visits"].c.spent.type.scale == 2


@check("SQLAlchemy", "the inspector")
def _(server: Running) -> None:
    with engine(server) as made:
        import sqlalchemy as sa

        inspector = sa.inspect(made)
        assert sorted(inspector.get_table_names()) == TABLES
        assert inspector.get_columns("staff")[2]["comment"] == "bounds 18 to 70"
        assert inspector.get_table_comment("staff")["text"].startswith("privacy unit")
        assert inspector.get_pk_constraint("staff")["constrained_columns"] == []


@check("pandas", "read_sql")
def _(server: Running) -> None:
    pandas = pytest.importorskip("pandas")
    with engine(server) as made:
        frame = pandas.read_sql(GROUPS, made)
    assert list(frame["dept"]) == DEPTS
    assert str(frame["n"].dtype) == "int64"


@check("pandas", "parameters, months as dates, in chunks")
def _(server: Running) -> None:
    pandas = pytest.importorskip("pandas")
    with engine(server) as made:
        import sqlalchemy as sa

        text = sa.text(
            "SELECT date_trunc('month', day) AS month, DP_COUNT(*, eps=:e) AS n FROM visits "
            "GROUP BY 1 ORDER BY 1"
        )
        parts = list(pandas.read_sql(text, made, params={"e": 0.5}, chunksize=2))
    assert [len(part) for part in parts] == [2, 1]
    assert str(parts[0]["month"].dtype).startswith(("datetime64", "object"))


@check("polars", "read_database")
def _(server: Running) -> None:
    polars = pytest.importorskip("polars")
    with engine(server) as made:
        assert polars.read_database(GROUPS, made)["dept"].to_list() == DEPTS


@check("polars", "read_database_uri by ADBC")
def _(server: Running) -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("adbc_driver_postgresql")
    frame = polars.read_database_uri(GROUPS, server.url(), engine="adbc")
    assert frame["dept"].to_list() == DEPTS


# ADBC


@contextmanager
def adbc(server: Running) -> Iterator[Any]:
    driver = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with driver.connect(server.url(), autocommit=True) as connection:
        yield connection


def _copied(what: str, value: str) -> None:
    @check("ADBC", f"rows {what}")
    def _(server: Running) -> None:
        with adbc(server) as client, client.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": value})
            cursor.execute(GROUPS)
            assert cursor.fetch_arrow_table().column("dept").to_pylist() == DEPTS


_copied("by COPY", "true")
_copied("without COPY", "false")


@check("ADBC", "the schema of a table")
def _(server: Running) -> None:
    with adbc(server) as client:
        assert client.adbc_get_table_schema("staff").names[:2] == ["person_id", "dept"]


@check("ADBC", "what tables there are")
def _(server: Running) -> None:
    with adbc(server) as client:
        found = client.adbc_get_objects(depth="tables").read_all().to_pylist()
        schemas = [schema for one in found for schema in one["catalog_db_schemas"] or ()]
        names = [t["table_name"] for one in schemas for t in one["db_schema_tables"] or ()]
        assert set(TABLES) <= set(names)


# pgJDBC: one program, whose lines are the checks.


def _java(what: str, told: str) -> None:
    @check("pgJDBC", what)
    def _(server: Running) -> None:
        if shutil.which("java") is None or not JAR.exists():
            pytest.skip("no Java or pgJDBC")
        assert java_says(server.port, server.policy.parent)[what] == told


for _what, _told in JDBC.items():
    _java(_what, _told)


# DuckDB's own client


@check("DuckDB's postgres", "tables attached, a query passed on")
def _(server: Running) -> None:
    import duckdb

    with duckdb.connect() as client:
        try:
            client.execute("LOAD postgres")
        except duckdb.Error:
            pytest.skip("DuckDB's extension postgres is not installed")
        client.execute(f"ATTACH '{server.dsn()}' AS door (TYPE postgres)")
        text = GROUPS.replace("'", "''")
        rows = client.execute(f"FROM postgres_query('door', '{text}')").fetchall()
        assert [dept for dept, _ in rows] == DEPTS


@check("psycopg 3", "a chart of a business tool by month, under dp.eps")
def _(server: Running) -> None:
    with three(server) as client:
        client.execute("SET dp.eps = 0.5")
        assert len(client.execute(MONTHS).fetchall()) > 100


@pytest.mark.slow
@pytest.mark.parametrize("one", CHECKS, ids=str)
def test_clients(server: Running, one: Check):
    one.run(server)


def test_the_table_of_the_page_counts_these():
    page = (ROOT / "docs" / "server.md").read_text("utf-8")
    counted = Counter(one.client for one in CHECKS)
    missing = [row for row in (f"| {c} | {n} |" for c, n in counted.items()) if row not in page]
    assert not missing
    assert f"{len(CHECKS)} checks" in page
    assert len(CHECKS) >= LEAST
