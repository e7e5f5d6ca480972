"""Real clients against a running server: what they read, what they are told, what it costs."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from dpquery.client.wire_format import dumps, loads
from tests.server.postgres.served import ALICE, BOB, KINDS, Served

GROUPS = "SELECT dept, DP_COUNT(*, eps=0.5) AS n FROM staff GROUP BY dept ORDER BY dept"
HUGE = '[{"fraction": "1e999999999"}]'
DEPTS = ["eng", "hr", "legal", "ops", "sales"]
MONTHS = (
    'SELECT date_trunc(\'month\', "hired") AS "m", COUNT(*) AS "n" FROM "public"."staff" '
    "GROUP BY 1 HAVING COUNT(1) > 0 LIMIT 1000"
)


@pytest.fixture
def client(server: Served) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection


def names(rows: list[tuple[Any, ...]]) -> list[Any]:
    return [row[0] for row in rows]


# psycopg 3


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_rows_in_both_forms(client: psycopg.Connection, binary: bool):
    cursor = client.cursor(binary=binary).execute(GROUPS)
    rows = cursor.fetchall()
    assert names(rows) == DEPTS
    assert all(type(n) is int for _, n in rows)
    assert cursor.statusmessage == "SELECT 5"
    assert [(one.name, one.type_code) for one in cursor.description or ()] == [
        ("dept", 25),
        ("n", 20),
    ]


def test_lines_beside_an_answer_are_notices(client: psycopg.Connection):
    told: list[tuple[str | None, str | None]] = []
    client.add_notice_handler(lambda one: told.append((one.severity, one.message_primary)))
    client.execute("SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE age > 41")
    assert {severity for severity, _ in told} == {"NOTICE"}
    said = [line or "" for _, line in told]
    assert said[0].startswith("0.5 spent; ")
    assert said[1] == "n: 95% within ± 6"
    client.execute("SET client_min_messages = warning")
    client.execute("SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE age > 42")
    assert len(told) == len(said)


def test_each_type_arrives_in_both_forms(client: psycopg.Connection, server: Served):
    table = pa.table(
        {
            "b": [True, None],
            "i": pa.array([1, -1], pa.int32()),
            "l": [2**40, None],
            "f": [0.5, float("-inf")],
            "d": [Decimal("12.50"), Decimal("-0.01")],
            "t": ["it's", ""],
            "y": [date(2020, 2, 29), None],
            "s": pa.array([datetime.fromisoformat("2020-01-01 01:02:03.000004"), None]),
            "z": pa.array([0, 1], pa.timestamp("us", "UTC")),
            "a": [[1, None, 3], []],
            "w": [["a b", 'q"', "NULL", None], []],
            "x": [b"\0\xff", b""],
        }
    )
    KINDS["select kinds"] = table
    expected = [tuple(row.values()) for row in table.to_pylist()]
    for binary in (False, True):
        assert client.cursor(binary=binary).execute("SELECT kinds").fetchall() == expected
    client.execute("SET TimeZone = 'Asia/Kolkata'")
    assert client.info.timezone.key == "Asia/Kolkata"  # type: ignore[attr-defined]
    assert client.execute("SELECT kinds").fetchall() == expected


def test_parameters_are_typed_literals(client: psycopg.Connection):
    text = (
        "SELECT DP_COUNT(*, eps=%s) AS n FROM staff WHERE dept = %s AND age > %s AND hired > %s"
    )
    told: list[str] = []
    client.add_notice_handler(lambda one: told.append(one.message_primary or ""))
    (row,) = client.execute(text, (0.25, "eng", 30, date(2010, 1, 1))).fetchall()
    assert type(row[0]) is int
    assert told[0].startswith("0.25 spent")
    client.execute(text, (Decimal("0.125"), "it's", 30, "2010-01-01"), binary=True)
    assert any(line.startswith("0.125 spent") for line in told)


def test_a_repeat_is_free_and_refresh_is_not(client: psycopg.Connection):
    text = "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE age > 43"
    told: list[str] = []
    client.add_notice_handler(lambda one: told.append(one.message_primary or ""))
    first = client.execute(text).fetchall()
    for _ in range(8):  # so that psycopg prepares it
        assert client.execute(text).fetchall() == first
    client.execute("SET dp.refresh = on")
    assert client.execute("SHOW dp.refresh").fetchall() == [("on",)]
    client.execute(text)
    client.execute("RESET dp.refresh")
    spent = [line.split()[0] for line in told if " spent;" in line]
    assert spent == ["0.5", *["0"] * 8, "0.5"]


def test_a_pipeline_answers_in_order(client: psycopg.Connection):
    with client.pipeline():
        first = client.execute("SELECT 1")
        second = client.execute(GROUPS)
        third = client.execute("SHOW dp.eps")
    assert first.fetchall() == [(1,)]
    assert names(second.fetchall()) == DEPTS
    assert third.fetchall() == [("",)]


def test_an_error_in_a_pipeline_stops_it(client: psycopg.Connection):
    with pytest.raises(psycopg.Error) as raised, client.pipeline():  # noqa: PT012
        client.execute("SELECT DP_COUNT(*, eps=0.5) FROM nope")
        client.execute(GROUPS)
    assert raised.value.sqlstate == "42703"
    assert client.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("binary", [False, True])
def test_a_server_cursor_is_charged_once(server: Served, binary: bool):
    with psycopg.connect(server.dsn()) as connection:
        connection.execute("SET dp.refresh = on")
        before = len(server.spent())
        with connection.cursor(name="rows", binary=binary) as cursor:
            cursor.itersize = 2
            cursor.execute(GROUPS)
            assert [row[0] for row in cursor] == DEPTS
        assert len(server.spent()) == before + 1


def test_cursors_by_statements(client: psycopg.Connection):
    client.execute("BEGIN")
    client.execute(f"DECLARE c CURSOR FOR {GROUPS}")
    assert names(client.execute("FETCH 2 FROM c").fetchall()) == DEPTS[:2]
    assert client.execute("MOVE 1 FROM c").statusmessage == "MOVE 1"
    assert names(client.execute("FETCH ALL FROM c").fetchall()) == DEPTS[3:]
    empty = client.execute("FETCH c")
    assert (empty.fetchall(), empty.statusmessage) == ([], "FETCH 0")
    client.execute("COMMIT")
    with pytest.raises(psycopg.errors.InvalidCursorName):
        client.execute("FETCH c")
    with pytest.raises(psycopg.errors.UndefinedColumn) as raised:
        client.execute("DECLARE c CURSOR FOR SELECT DP_COUNT(*, eps=0.5) FROM nope")
    assert raised.value.diag.statement_position == str(
        len("DECLARE c CURSOR FOR SELECT DP_COUNT(*, eps=0.5) FROM ") + 1
    )


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ("", ["{0}\t{1}"]),
        ("(FORMAT csv, HEADER)", ["dept,n", "{0},{1}"]),
        ("csv header delimiter ';'", ["dept;n", "{0};{1}"]),
    ],
)
def test_copy_writes_lines(client: psycopg.Connection, options: str, lines: list[str]):
    rows = client.execute(GROUPS).fetchall()
    with client.cursor() as cursor, cursor.copy(f"COPY ({GROUPS}) TO STDOUT {options}") as copy:
        text = b"".join(bytes(part) for part in copy).decode()
    expected = lines[:-1] + [lines[-1].format(*row) for row in rows]
    assert text.splitlines() == expected
    assert client.execute("SELECT 1").fetchall() == [(1,)]


def test_copy_escapes_what_would_be_misread(client: psycopg.Connection):
    values = ["a\tb\n\\", "", None, 'q",', "\\N"]
    KINDS["select hard"] = pa.table({"t": pa.array(values, pa.string()), "n": [1] * 5})
    with client.cursor() as cursor, cursor.copy("COPY (SELECT hard) TO STDOUT") as copy:
        copy.set_types(["text", "int8"])
        assert [row[0] for row in copy.rows()] == values
    with (
        client.cursor() as cursor,
        cursor.copy("COPY (SELECT hard) TO STDOUT (FORMAT binary)") as copy,
    ):
        copy.set_types(["text", "int8"])
        assert [row[0] for row in copy.rows()] == values
    with client.cursor() as cursor, cursor.copy("COPY (SELECT hard) TO STDOUT CSV") as copy:
        text = b"".join(bytes(part) for part in copy).decode()
    assert text == "a\tb\n\\".join(['"', '",1\n']) + '"",1\n,1\n"q"",",1\n\\N,1\n'


def test_errors_say_where_why_and_what_helps(client: psycopg.Connection):
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as raised:
        client.execute("SELECT * FROM staff LIMIT 200")
    told = raised.value.diag
    assert told.message_primary == "DPQ301: the rows of people cannot be shown"
    assert told.statement_position == "8"
    assert "one person's row is what the session protects." in (told.message_detail or "")
    assert "budget: unchanged" in (told.message_detail or "")
    assert told.message_hint == "SELECT DP_COUNT(*, eps=0.5) FROM staff"
    assert told.severity == "ERROR"


def test_errors_point_into_what_was_sent(client: psycopg.Connection):
    several = "SELECT 1; SELECT 1 ;SELECT DP_COUNT(*, eps=0.5) FROM nope; SELECT 1"
    with pytest.raises(psycopg.Error) as raised:
        client.execute(several)
    assert raised.value.diag.statement_position == str(several.index("nope") + 1)
    text = "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE dept = %s AND nope > 1"
    with pytest.raises(psycopg.Error) as raised:
        client.execute(text, ("a long text in place of a short mark",))
    sent = text.replace("%s", "$1")
    assert raised.value.diag.statement_position == str(sent.index("nope") + 1)
    copied = "COPY (SELECT DP_COUNT(*, eps=0.5) FROM nope) TO STDOUT"
    with pytest.raises(psycopg.Error) as raised:
        client.execute(copied)
    assert raised.value.diag.statement_position == str(copied.index("nope") + 1)


def test_a_failed_transaction_does_nothing_more(server: Served):
    with psycopg.connect(server.dsn()) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT DP_COUNT(*, eps=0.5) FROM nope")
        before = len(server.spent())
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT DP_COUNT(*, eps=0.5) FROM staff")
        assert len(server.spent()) == before
        connection.rollback()
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
        with connection.transaction(), connection.transaction():
            connection.execute("SELECT 1")
        connection.execute("BEGIN")
        with pytest.raises(psycopg.Error):
            connection.execute("nonsense")
        assert connection.execute("COMMIT").statusmessage == "ROLLBACK"


def test_describing_costs_nothing(server: Served, client: psycopg.Connection):
    asyncpg = pytest.importorskip("asyncpg")
    before = len(server.spent())
    text = "SELECT DP_COUNT(*, eps=$1) AS n FROM staff WHERE hired > $2 AND dept = $3"

    async def talk() -> None:
        connection = await asyncpg.connect(**server.arguments(), ssl=False)
        try:
            once = await connection.prepare(text)
            types = [one.name for one in once.get_parameters()]
            assert types == ["float8", "date", "text"]
            assert [(one.name, one.type.name) for one in once.get_attributes()] == [
                ("n", "int8")
            ]
            assert len(server.spent()) == before
            median = "SELECT DP_QUANTILE(salary, $1, bounds=[$2, $3], eps=$4) FROM staff"
            await connection.prepare(median)
            given = (0.5, date(2020, 1, 1), "eng")
            first = await once.fetch(*given)
            assert await once.fetch(*given) == first
            assert len(server.spent()) == before + 1
        finally:
            await connection.close(timeout=5)

    asyncio.run(talk())
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="parameter"):
        client.execute("SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE hired > %s", ("someday",))
    assert len(server.spent()) == before + 1


def test_settings(client: psycopg.Connection):
    client.execute("SET dp.eps = '0.5'")
    assert client.execute("SHOW dp.eps").fetchall() == [("0.5",)]
    said = "SELECT current_setting('dp.eps'), current_setting('TimeZone', true)"
    client.execute("SET TimeZone = 'Europe/Vienna'")
    assert client.execute(said).fetchall() == [("0.5", "Europe/Vienna")]
    client.execute("RESET TimeZone")
    assert client.execute(said).fetchall() == [("0.5", "UTC")]
    assert len(client.execute(MONTHS).fetchall()) > 100
    client.execute("RESET ALL")
    with pytest.raises(psycopg.Error, match="DPQ302"):
        client.execute(MONTHS)
    with pytest.raises(psycopg.Error, match="DPQ205"):
        client.execute("SET dp.eps = 'plenty'")
    with pytest.raises(psycopg.errors.UndefinedObject):
        client.execute("SET dp.seed = 1")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        client.execute("SET client_encoding = 'latin1'")
    assert client.execute("SHOW dp.budget").fetchall()[0][0] == "analyst"
    assert client.execute("SHOW server_version").fetchall()[0][0].startswith("15.")
    assert client.info.server_version == 150000
    client.execute("CREATE TEMP VIEW v AS SELECT dept FROM staff")
    client.execute("DISCARD ALL")
    with pytest.raises(psycopg.Error, match="DPQ201"):
        client.execute("SELECT DP_COUNT(*, eps=0.5) FROM v")


def test_settings_of_a_start(server: Served):
    with psycopg.connect(server.dsn(more="options='-c dp.eps=0.25'")) as connection:
        assert connection.execute("SHOW dp.eps").fetchall() == [("0.25",)]
        assert len(connection.execute(MONTHS).fetchall()) > 100
    with pytest.raises(psycopg.OperationalError, match="DPQ205"):
        psycopg.connect(server.dsn(more="options='-c dp.eps=-1'"))


def test_analysts_have_budgets_of_their_own(server: Served):
    with psycopg.connect(server.dsn(BOB), autocommit=True) as bob:
        with pytest.raises(psycopg.Error, match="DPQ501") as raised:
            bob.execute("SELECT DP_COUNT(*, eps=2) FROM staff")
        assert raised.value.sqlstate == "53400"
        assert bob.execute("SHOW LEDGER").fetchall() == []


def test_calls_of_our_own_bring_the_whole_answer(client: psycopg.Connection):
    asked = {"do": "sql", "arguments": {"text": GROUPS}}
    for parameters in (None, [json.dumps(asked)]):
        text = "CALL dpquery(%s)" if parameters else f"CALL dpquery('{json.dumps(asked)}')"
        ((reply,),) = client.execute(text, parameters).fetchall()
        answer = loads(reply)
        assert answer.table.column("dept").to_pylist() == DEPTS
        assert answer.interval("n", "0.95") is not None
    refused = {"do": "sql", "arguments": {"text": "SELECT 1 FROM nope"}}
    ((reply,),) = client.execute("CALL dpquery(%s)", [json.dumps(refused)]).fetchall()
    assert loads(reply).code == "DPQ201"
    named = {
        "text": "SELECT DP_COUNT(*, eps=$e) FROM staff",
        "values": dumps({"e": 0.5}).decode(),
    }
    call = json.dumps({"do": "sql", "arguments": named})
    ((reply,),) = client.execute("CALL dpquery(%s)", [call]).fetchall()
    assert str(loads(reply).loss) == "0.5"


@pytest.mark.parametrize(
    "call",
    [
        "", "1", "{}", '{"do": "os"}', '{"do": "sql"}', '{"do": ["sql"]}',
        '{"do": "sql", "arguments": {"text": 1}}',
        '{"do": "sql", "arguments": {"text": "x", "path": "/"}}',
        '{"do": "sql", "arguments": {"text": "x", "values": "1"}}', "[" * 2000,
        json.dumps({"do": "sql", "arguments": {"text": "x", "values": HUGE}}),
        '{"do": "describe", "arguments": {}}', '{"do": "budget", "arguments": [1]}',
    ],
)  # fmt: skip
def test_no_other_calls_reach_a_worker(client: psycopg.Connection, server: Served, call: str):
    before = len(server.asked())
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        client.execute("CALL dpquery(%s)", [call])
    assert len(server.asked()) == before


# Other clients


def test_psycopg2(server: Served):
    psycopg2 = pytest.importorskip("psycopg2")
    connection = psycopg2.connect(server.dsn())
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT DP_COUNT(*, eps=%s) FROM staff WHERE dept = %s AND hired > %s",
                (0.5, "it's", date(2010, 1, 1)),
            )
            assert len(cursor.fetchall()) == 1
            assert connection.notices[0].startswith("NOTICE:  0.5 spent")
        connection.rollback()
        with connection.cursor("named") as cursor:
            cursor.itersize = 2
            cursor.execute(GROUPS)
            assert [row[0] for row in cursor] == DEPTS
        with connection.cursor() as cursor:
            out = io.StringIO()
            cursor.copy_expert(f"COPY ({GROUPS}) TO STDOUT CSV HEADER", out)
            assert out.getvalue().splitlines()[0] == "dept,n"
    finally:
        connection.close()


def test_asyncpg(server: Served):
    asyncpg = pytest.importorskip("asyncpg")

    async def talk() -> None:
        connection = await asyncpg.connect(**server.arguments(), ssl=False)
        try:
            assert [row["dept"] for row in await connection.fetch(GROUPS)] == DEPTS
            text = "SELECT DP_COUNT(*, eps=$1) AS n FROM staff WHERE dept = $2 AND hired > $3"
            row = await connection.fetchrow(text, 0.5, "eng", date(2010, 1, 1))
            assert type(row["n"]) is int
            async with connection.transaction():
                rows = [row["dept"] async for row in connection.cursor(GROUPS, prefetch=2)]
            assert rows == DEPTS
            prices = (
                "SELECT DP_AVG(rating, eps=0.5) AS a, DP_SUM(rating, eps=0.5) AS s FROM staff"
            )
            row = await connection.fetchrow(prices)
            assert (type(row["a"]), type(row["s"])) == (float, Decimal)
            with pytest.raises(asyncpg.PostgresError) as raised:
                await connection.fetch("SELECT * FROM staff")
            assert raised.value.as_dict()["hint"] == "SELECT DP_COUNT(*, eps=0.5) FROM staff"
            out = io.BytesIO()
            await connection.copy_from_query(GROUPS, output=out, format="csv")
            assert len(out.getvalue().splitlines()) == 5
        finally:
            await connection.close(timeout=5)

    asyncio.run(talk())


def test_pg8000(server: Served):
    pg8000 = pytest.importorskip("pg8000.dbapi")
    connection = pg8000.connect(**server.arguments())
    try:
        cursor = connection.cursor()
        cursor.execute(GROUPS)
        assert [row[0] for row in cursor.fetchall()] == DEPTS
        text = "SELECT DP_COUNT(*, eps=%s) FROM staff WHERE age > %s AND dept = %s"
        cursor.execute(text, (0.5, 30, "eng"))
        assert len(cursor.fetchall()) == 1
        connection.rollback()
        with pytest.raises(pg8000.DatabaseError) as raised:
            cursor.execute("SELECT * FROM staff")
        assert raised.value.args[0]["C"] == "42501"
        assert raised.value.args[0]["P"] == "8"
        connection.rollback()
    finally:
        connection.close()


@pytest.fixture
def engine(server: Served) -> Iterator[Any]:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    made = sqlalchemy.create_engine(server.url("postgresql+psycopg"))
    yield made
    made.dispose()


def test_sqlalchemy(engine: Any):
    import sqlalchemy as sa

    staff = sa.table("staff", sa.column("dept", sa.Text), sa.column("age", sa.Integer))
    with engine.connect() as connection:
        connection.execute(sa.text("SET dp.eps = 0.5"))
        count = sa.select(staff.c.dept, sa.func.count().label("n"))
        chosen = count.where(staff.c.age > 30, staff.c.dept != "hr").group_by(staff.c.dept)
        rows = connection.execute(chosen).fetchall()
        assert sorted(names(rows)) == [dept for dept in DEPTS if dept != "hr"]
        text = sa.text("SELECT DP_COUNT(*, eps=:e) FROM staff WHERE dept = :d")
        assert len(connection.execute(text, {"e": 0.5, "d": "eng"}).fetchall()) == 1


def test_pandas(engine: Any):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_sql(GROUPS, engine)
    assert list(frame["dept"]) == DEPTS
    assert str(frame["n"].dtype) == "int64"


def test_polars(server: Served, engine: Any):
    polars = pytest.importorskip("polars")
    frame = polars.read_database(GROUPS, engine)
    assert frame["dept"].to_list() == DEPTS


@pytest.mark.parametrize("copied", [True, False])
def test_adbc(server: Served, copied: bool):
    adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with (
        adbc.connect(server.url(), autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        option = {"adbc.postgresql.use_copy": str(copied).lower()}
        cursor.adbc_statement.set_options(**option)
        cursor.execute(GROUPS)
        table = cursor.fetch_arrow_table()
        assert table.column("dept").to_pylist() == DEPTS


PSQL = shutil.which("psql")


@pytest.mark.skipif(PSQL is None, reason="psql is not installed")
def test_psql(server: Served, tmp_path: Path):
    out = tmp_path / "rows.csv"
    script = f"""\\set VERBOSITY verbose
\\timing on
SET dp.eps = 0.5;
SELECT dept, COUNT(*) AS people
FROM staff WHERE age > 44 GROUP BY dept
ORDER BY dept;
SELECT DP_COUNT(*, eps=0.5)
FROM   nope;
\\copy ({GROUPS}) to '{out}' csv header
BEGIN; SELECT 1; COMMIT;
\\echo after
SHOW dp.eps;
"""
    environment = {"PGPASSWORD": ALICE[1], "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    command = [
        str(PSQL),
        "-X",
        "-h",
        "127.0.0.1",
        "-p",
        str(server.port),
        "-U",
        "alice",
        "dpquery",
    ]
    done = subprocess.run(
        command,
        input=script,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=True,
    )
    assert "eng" in done.stdout
    assert "(5 rows)" in done.stdout
    assert "Time: " in done.stdout
    assert "NOTICE:  00000: 0.5 spent" in done.stderr
    assert "ERROR:  42703: DPQ" in done.stderr
    assert "LINE 2: FROM   nope;\n               ^" in done.stderr
    assert "DETAIL:  " in done.stderr
    assert "HINT:  " in done.stderr
    assert out.read_text().splitlines()[0] == "dept,n"
    assert "COMMIT" in done.stdout
    assert done.stdout.index("after") < done.stdout.rindex("0.5")


JAR = Path("/usr/share/java/postgresql.jar")
JAVA = """
import java.sql.*;
class Check {
  public static void main(String[] a) throws Exception {
    try (Connection c = DriverManager.getConnection(a[0], "alice", a[1])) {
      c.setAutoCommit(false);
      try (Statement s = c.createStatement()) {
        s.setFetchSize(2);
        ResultSet r = s.executeQuery(a[2]);
        StringBuilder b = new StringBuilder();
        while (r.next()) b.append(r.getString(1)).append(' ');
        System.out.println(b + "| " + (s.getWarnings() != null));
      }
      c.commit();
      PreparedStatement p = c.prepareStatement(
        "SELECT DP_COUNT(*, eps=?) FROM staff WHERE dept = ? AND age > ? AND hired > ?");
      for (int i = 0; i < 7; i++) {
        p.setDouble(1, 0.5); p.setString(2, "eng"); p.setInt(3, 30);
        p.setObject(4, java.time.LocalDate.of(2010, 1, 1));
        ResultSet r = p.executeQuery();
        r.next(); r.getLong(1);
      }
      System.out.println("prepared");
      try (Statement s = c.createStatement()) { s.executeQuery("SELECT * FROM staff"); }
      catch (SQLException e) {
        System.out.println(e.getSQLState() + " " + e.getMessage().contains("Position: 8"));
      }
      c.rollback();
    }
  }
}
"""


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("java") is None or not JAR.exists(), reason="no Java or pgJDBC"
)
def test_jdbc(server: Served, tmp_path: Path):
    source = tmp_path / "Check.java"
    source.write_text(JAVA)
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/dpquery"
    command = ["java", "-cp", str(JAR), str(source), url, ALICE[1], GROUPS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == [
        " ".join(DEPTS) + " | true",
        "prepared",
        "42501 true",
    ], done.stderr
