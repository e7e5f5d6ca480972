"""DB-API 2.0: the attributes of PEP 249, its exceptions, and what a cursor hands out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from traceback import walk_tb
from types import SimpleNamespace

import pytest

import dpquery
from dpquery import dbapi
from dpquery.policy.sources.paths import copy_samples

COUNT = "SELECT DP_COUNT(*, eps=?) AS n FROM staff WHERE age >= ?"
BY_DEPT = "SELECT dept, DP_COUNT(*, eps=?) AS n FROM staff GROUP BY dept"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copy_samples(tmp_path / "data").parent


@pytest.fixture
def connection(folder: Path) -> Iterator[dbapi.Connection]:
    with dbapi.connect(folder / "policy.toml") as opened:
        yield opened


@pytest.fixture
def cursor(connection: dbapi.Connection) -> dbapi.Cursor:
    return connection.cursor()


def spent(connection: dbapi.Connection) -> Fraction:
    return connection.session.budget.spent.epsilon


def test_the_module_says_what_it_keeps():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    families = "STRING BINARY NUMBER DATETIME ROWID BOOLEAN"
    for name in families.split():
        assert isinstance(getattr(dbapi, name), dbapi.TypeObject)


def test_exceptions_stand_as_pep_249_has_them():
    assert issubclass(dbapi.Warning, Exception)
    assert issubclass(dbapi.Error, dpquery.DPQueryError)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    assert issubclass(dbapi.DatabaseError, dbapi.Error)
    inner = (
        "DataError OperationalError IntegrityError InternalError ProgrammingError "
        "NotSupportedError"
    )
    for name in inner.split():
        assert issubclass(getattr(dbapi, name), dbapi.DatabaseError)
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)
    for name in ("Warning", "Error", "InterfaceError", "DatabaseError"):
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)


def test_constructors_give_values_of_python():
    assert dbapi.Date(2020, 1, 31) == date(2020, 1, 31)
    assert dbapi.Time(23, 59, 1) == time(23, 59, 1)
    moment = datetime.fromisoformat("2020-01-31 12:30:05")
    assert dbapi.Timestamp(2020, 1, 31, 12, 30, 5) == moment
    ticks = moment.timestamp()
    assert dbapi.TimestampFromTicks(ticks) == moment
    assert dbapi.DateFromTicks(ticks) == moment.date()
    assert dbapi.TimeFromTicks(ticks) == moment.time()
    assert dbapi.Binary(b"x") == b"x"


def test_an_answer_is_described_and_fetched(connection, cursor):
    assert (cursor.description, cursor.rowcount, cursor.arraysize) == (None, -1, 1)
    assert cursor.execute(BY_DEPT, [0.1]) is cursor
    assert [part[0] for part in cursor.description] == ["dept", "n"]
    assert all(len(part) == 7 for part in cursor.description)
    assert [part[1] for part in cursor.description] == [dbapi.STRING, dbapi.NUMBER]
    assert cursor.rowcount == 5
    first = cursor.fetchone()
    assert first[0] == "eng"
    assert [row[0] for row in cursor.fetchmany()] == ["hr"]
    assert [row[0] for row in cursor.fetchmany(2)] == ["legal", "ops"]
    assert [row[0] for row in cursor] == ["sales"]
    assert (cursor.fetchone(), cursor.fetchmany(9), cursor.fetchall()) == (None, [], [])
    assert cursor.answer.rows[0] == first
    assert cursor.answer.loss.epsilon == spent(connection) == Fraction(1, 10)


def test_arraysize_says_how_many_rows_come_at_once(cursor):
    cursor.execute(BY_DEPT, [0.1]).arraysize = 3
    assert [len(cursor.fetchmany()) for _ in range(3)] == [3, 2, 0]


def test_each_type_belongs_to_one_family():
    names = ["integer", "double", "decimal", "text", "boolean", "date", "timestamp"]
    families = [dbapi.NUMBER, dbapi.STRING, dbapi.BOOLEAN, dbapi.DATETIME]
    assert [[n for n in names if family == n] for family in families] == [
        ["integer", "double", "decimal"],
        ["text"],
        ["boolean"],
        ["date", "timestamp"],
    ]
    assert dbapi.NUMBER != dbapi.STRING
    assert len({dbapi.NUMBER, dbapi.STRING, dbapi.NUMBER}) == 2


def test_the_types_of_an_answer_are_those_of_the_language(cursor):
    items = "DP_COUNT(*, eps=0.1), DP_AVG(age, eps=0.1), DP_SUM(rating, eps=0.1), "
    items += "DP_MEDIAN(hired, eps=0.1), remote"
    cursor.execute(f"SELECT {items} FROM staff GROUP BY remote")
    types = [part[1] for part in cursor.description]
    assert types == ["integer", "double", "decimal", "date", "boolean"]
    cursor.execute("SHOW LEDGER")
    assert cursor.description[0][1] == dbapi.DATETIME == "timestamp"


@pytest.mark.parametrize(
    ("condition", "value", "written"),
    [
        ("age = ?", 30, "30"),
        ("person_id = ?", -5, "-5"),
        ("remote = ?", True, "TRUE"),
        ("rating = ?", Decimal("2.50"), "2.50"),
        ("rating = ?", Fraction(5, 2), "2.5"),
        ("bonus > ?", 1e-7, "1e-07"),
        ("dept = ?", "O'Hara", "'O''Hara'"),
        ("hired > ?", date(2020, 1, 31), "DATE '2020-01-31'"),
        (
            "CAST(hired AS TIMESTAMP) > ?",
            datetime.fromisoformat("2020-01-31 01:00:00"),
            "TIMESTAMP '2020-01-31 01:00:00'",
        ),
        ("COALESCE(dept, ?) IS NULL", None, "NULL"),
    ],
)
def test_a_parameter_means_what_its_literal_means(
    connection, cursor, condition, value, written
):
    text = f"EXPLAIN SELECT DP_COUNT(*, eps=?) FROM staff WHERE {condition}"
    asked = cursor.execute(text, (0.1, value)).fetchall()
    typed = f"SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE {condition.replace('?', written)}"
    assert [row[0] for row in asked] == str(connection.session.explain(typed)).splitlines()
    assert spent(connection) == 0


def test_epsilon_may_be_a_parameter_and_stays_exact(connection, cursor):
    for eps in (0.1, Decimal("0.1"), Fraction(1, 10)):
        cursor.execute(f"REFRESH {COUNT}", (eps, 30))
    cursor.execute(COUNT, (0.1, 30))  # answered before
    assert spent(connection) == Fraction(3, 10)
    cursor.execute("SELECT DP_COUNT(*, eps=:e) FROM staff WHERE dept = $d", {"e": 1, "d": "hr"})
    assert spent(connection) == Fraction(13, 10)


INJECTIONS = ["x' OR '1'='1", "x'; SELECT 1 --", "' OR 1=1 --", "\\' OR 1=1 --", "?", "''", '"']


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_text_stays_a_text(cursor, text):
    explained = cursor.execute(
        "EXPLAIN SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE dept = ? AND age > 3", [text]
    ).fetchall()
    scan = " ".join(row[0].strip() for row in explained)
    assert "'" + text.replace("'", "''") + "'" in scan


def test_a_refusal_is_a_programming_error_that_costs_nothing(connection, cursor):
    with pytest.raises(dbapi.ProgrammingError) as refused:
        cursor.execute("SELECT salary FROM staff")
    error = refused.value
    assert isinstance(error.__cause__, dpquery.RuleRefused)
    assert (error.code, error.span, str(error)) == (
        "DPQ301",
        error.__cause__.span,
        str(error.__cause__),
    )
    assert error.sqlstate == "42501"
    assert (cursor.description, cursor.rowcount) == (None, -1)
    assert spent(connection) == 0


@pytest.mark.parametrize(
    ("statement", "values", "code"),
    [
        ("SELECT DP_COUNT(*, eps=?) FROM staff", (9,), "DPQ501"),
        ("SELECT DP_COUNT(*, eps=?) FROM staff", ("0.1",), "DPQ207"),
        ("SELECT DP_COUNT(*, eps=?) FROM staff", (None,), "DPQ207"),
        ("SELECT DP_COUNT(*, eps=?) FROM staff WHERE age = ?", (0.1, None), "DPQ208"),
        ("SELECT DP_COUNT(*, eps=?) FROM staff", (b"",), "DPQ805"),
        ("SELECT DP_COUNT(*, eps=?) FROM staff", "1", "DPQ805"),
        ("SELECT DP_COUNT(*, eps=?) FROM staff", 1, "DPQ805"),
        ("SELECT DP_COUNT(*, eps=?) FROM staff", (), "DPQ805"),
        ("SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE dept = ?", ("\0",), "DPQ105"),
        ("SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE dept = '?", (), "DPQ101"),
        ("SELECT 1; SELECT ?", (1,), "DPQ103"),
        (3, (), "DPQ104"),
    ],
)
def test_refusals_keep_their_codes(connection, cursor, statement, values, code):
    with pytest.raises(dbapi.ProgrammingError) as refused:
        cursor.execute(statement, values)
    assert refused.value.code == code
    assert "budget: unchanged" in str(refused.value)
    assert spent(connection) == 0


def test_a_null_in_a_comparison_is_told_of_is_null(cursor):
    with pytest.raises(dbapi.ProgrammingError, match="use IS NULL"):
        cursor.execute("SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE age = ?", (None,))


def test_many_sets_of_values_pay_each_and_their_rows_follow_one_another(connection, cursor):
    cursor.executemany(COUNT, [(0.1, 20), (0.2, 40)])
    assert cursor.rowcount == 2
    assert len(cursor.fetchall()) == 2
    assert spent(connection) == Fraction(3, 10)
    cursor.executemany(COUNT, [])
    assert cursor.description is None


def test_what_was_paid_can_be_fetched_after_a_refusal(connection, cursor):
    with pytest.raises(dbapi.ProgrammingError):
        cursor.executemany(COUNT, [(0.1, 20), (0.1, "x"), (0.1, 40)])
    assert spent(connection) == Fraction(1, 10)
    assert len(cursor.fetchall()) == 1


def test_a_broken_scan_is_an_operational_error(folder, connection, cursor):
    shutil.copy(folder / "visits.parquet", folder / "staff.parquet")
    with pytest.raises(dbapi.OperationalError) as failed:
        cursor.execute(COUNT, (0.5, 30))
    assert failed.value.code == "DPQ701"
    fault = failed.value.__cause__
    assert isinstance(fault, dpquery.ScanFailed)
    frames = [frame.f_code.co_name for frame, _ in walk_tb(fault.__traceback__)]
    assert frames[-1] == "_end", "the frames below hold exact integers"
    assert spent(connection) == Fraction(1, 2)


def test_a_policy_that_is_not_there_is_an_operational_error(tmp_path):
    with pytest.raises(dbapi.OperationalError) as failed:
        dbapi.connect(tmp_path / "none.toml")
    assert failed.value.code == "DPQ601"
    assert "none.toml" in str(failed.value)


def test_a_mistake_of_ours_is_an_internal_error(cursor, monkeypatch):
    monkeypatch.setattr(
        "dpquery.plan.auto_bounds.functions", SimpleNamespace(find=lambda _: None)
    )
    with pytest.raises(dbapi.InternalError) as failed:
        cursor.execute(COUNT, (0.1, 30))
    assert failed.value.code == "DPQ901"


def test_what_is_closed_cannot_be_used(folder):
    connection = dbapi.connect(folder / "policy.toml")
    cursor, other = connection.cursor().execute("SHOW TABLES"), connection.cursor()
    cursor.close()
    cursor.close()
    for use in (cursor.fetchone, cursor.fetchall, lambda: cursor.execute("SHOW TABLES")):
        with pytest.raises(dbapi.InterfaceError, match="the cursor is closed"):
            use()
    other.execute("SHOW TABLES")
    connection.close()
    connection.close()
    closed = [connection.cursor, connection.commit, connection.rollback, other.fetchall]
    for use in [*closed, lambda: other.execute("SHOW TABLES")]:
        with pytest.raises(dbapi.InterfaceError, match="the session is closed"):
            use()


def test_nothing_can_be_fetched_before_something_is_asked(cursor):
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall):
        with pytest.raises(dbapi.ProgrammingError, match="nothing was asked yet"):
            fetch()


def test_commit_does_nothing_and_rollback_is_refused(connection, cursor):
    cursor.execute(COUNT, (0.1, 30))
    connection.commit()
    with pytest.raises(dbapi.NotSupportedError, match="a charge is not taken back"):
        connection.rollback()
    assert spent(connection) == Fraction(1, 10)
    cursor.setinputsizes([1])
    cursor.setoutputsize(1)
    with cursor as same:
        assert len(same.fetchall()) == 1


def test_arguments_of_connect_reach_the_session(folder):
    with dbapi.connect(
        folder / "staff.parquet", unit="person_id", epsilon=0.25, rows_per_unit=1
    ) as own:
        assert own.session.budget.limit.epsilon == Fraction(1, 4)
        assert (
            len(own.cursor().execute("SELECT DP_COUNT(*, eps=0.1) FROM staff").fetchall()) == 1
        )
