"""Ledgers on a PostgreSQL server: what is refused there, and what a lost connection means."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from contextlib import ExitStack, closing, contextmanager
from fractions import Fraction

import psycopg
import pytest

import dpquery
from dpquery.budget.ledger.ledger import ledger_exists
from dpquery.budget.ledger.postgres import Postgres
from dpquery.errors import BudgetRefused, PolicyInvalid, ScanFailed
from dpquery.policy.model import LedgerSettings, Server
from dpquery.policy.sources.paths import copy_samples, sample_directory
from dpquery.shell.main import main
from tests.ledger.helpers import ALICE, limits, open_at, pure, spent
from tests.ledger.server import PostgresServer


@pytest.fixture
def server(postgres):
    """A place with a ledger of four charges."""
    server = postgres.new()
    with closing(open_at(server)) as ledger:
        for number in range(1, 5):
            ledger.charge(pure(f"0.{number}"), limits(), ALICE)
    return server


@contextmanager
def refused(code, words):
    with pytest.raises(PolicyInvalid, match=words) as caught:
        yield caught
    assert caught.value.code == code


def tamper(postgres, server, *statements):
    """Change a ledger as the owner of its schema could, with the triggers out of the way."""
    with postgres.sql(server) as sql:
        for statement in statements:
            table = statement.split()[2 if statement.startswith("DELETE") else 1]
            sql.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            sql.execute(statement)


def test_a_ledger_outlives_its_connections_and_looking_makes_none(postgres, server):
    with closing(open_at(server)) as ledger:
        assert (ledger.verify(), spent(ledger)) == (4, 1)
    nothing = postgres.new()
    assert ledger_exists(LedgerSettings(None, None, server))
    for _ in range(2):
        assert not ledger_exists(LedgerSettings(None, None, nothing))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE charges SET totals = '[]'", "never changed"),
        ("DELETE FROM charges WHERE sequence = 2", "never changed"),
        ("TRUNCATE charges", "never changed"),
        ("INSERT INTO charges SELECT 9, 'i', at, analyst, session, query, events, totals, hash"
         " FROM charges WHERE sequence = 1", "only appended"),
        ("INSERT INTO charges SELECT * FROM charges WHERE sequence = 4"
         " ON CONFLICT (sequence) DO UPDATE SET totals = '[]'", "never changed|only appended"),
        ("DELETE FROM bounds", "never changed"),
        ("UPDATE answers SET drawn = '1'", "never changed"),
    ],
)  # fmt: skip
def test_rows_are_never_changed_or_removed(postgres, server, statement, said):
    with postgres.sql(server) as sql, pytest.raises(psycopg.errors.RaiseException, match=said):
        sql.execute(statement)
    with closing(open_at(server)) as ledger:
        assert ledger.verify() == 4


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET totals = replace(totals, '1/10', '1/1000') WHERE sequence = 1",
        "UPDATE charges SET query = query || ' ' WHERE sequence = 2",
        "UPDATE charges SET sequence = 0 WHERE sequence = 1",
        "UPDATE meta SET value = 'other' WHERE key = 'id'",
    ],
)
def test_a_history_that_was_changed_is_seen_by_verify(postgres, server, statement):
    tamper(postgres, server, statement)
    with closing(open_at(server)) as ledger, refused("DPQ605", "the ledger is damaged"):
        ledger.verify()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE charges SET totals = '[]' WHERE sequence = 4", "the ledger is damaged"),
        ("DELETE FROM charges WHERE sequence = 2", "the ledger is damaged"),
        ("UPDATE meta SET value = 'later' WHERE key = 'format'", "does not know"),
        ("DELETE FROM meta WHERE key = 'id'", "the schema is not a ledger"),
        ("ALTER TABLE charges SET UNLOGGED", "does not keep what it confirms"),
        ("DROP TABLE charges", "the ledger was here and is gone"),
    ],
)
def test_a_ledger_that_is_not_whole_is_not_opened(postgres, server, statement, said):
    with postgres.sql(server) as sql:
        sql.execute("ALTER TABLE charges DISABLE TRIGGER USER")
        sql.execute(statement)
    with refused("DPQ614" if "gone" in said else "DPQ605", said):
        open_at(server)


@pytest.mark.parametrize("table", ["other", "meta"])
def test_a_schema_of_another_program_is_refused_and_left_as_it_was(postgres, table):
    server = postgres.new()
    with postgres.sql(server) as sql:
        sql.execute(f'CREATE SCHEMA "{server.schema}"')
        sql.execute(f"CREATE TABLE {table} (x integer)")
        with refused("DPQ605", "the schema is not a ledger"):
            open_at(server)
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        assert sql.execute(tables, (server.schema,)).fetchall() == [(table,)]


def test_a_server_that_does_not_wait_is_made_to(postgres, server):
    with postgres.sql(server) as sql:
        for setting in ("off", "local"):
            sql.execute(f"ALTER ROLE tests SET synchronous_commit = '{setting}'")
            with closing(open_at(server)) as ledger:
                assert ledger._store._database._said("synchronous_commit") == "on"
        sql.execute("ALTER ROLE tests RESET synchronous_commit")


@contextmanager
def off(sql, setting):
    """Have the whole server do without a setting, until this ends."""

    def tell(change, value):
        sql.execute(f"ALTER SYSTEM {change} {setting} {value}")
        sql.execute("SELECT pg_reload_conf()")
        time.sleep(0.05)
        while sql.execute(f"SHOW {setting}").fetchone() != (value.strip(" =") or "on",):
            time.sleep(0.01)

    tell("SET", "= off")
    try:
        yield
    finally:
        tell("RESET", "")


def test_a_session_waits_for_the_disk_whatever_the_server_is_told_later(postgres, server):
    """An open session follows what its server is told, but where it has said so itself."""
    with closing(open_at(server)) as ledger, postgres.sql(server) as sql:
        with off(sql, "synchronous_commit"):
            ledger.charge(pure("0.1"), limits(), ALICE)
            assert ledger._store._database._said("synchronous_commit") == "on"
        assert ledger.verify() == 5


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit"])
def test_a_session_that_does_not_wait_any_more_takes_no_charge(postgres, server, setting):
    with closing(open_at(server)) as ledger, postgres.sql(server) as sql:
        ledger._store._database.execute("RESET synchronous_commit")
        with off(sql, setting), refused("DPQ605", "does not keep what it confirms"):
            ledger.charge(pure("0.1"), limits(), ALICE)
        assert ledger.verify() == 4


@pytest.mark.parametrize(
    "lie",
    [("synchronous_commit", "off"), ("fsync", "off"), ("server_encoding", "LATIN1")],
)
def test_a_server_that_says_otherwise_is_refused(server, monkeypatch, lie):
    asked, told = Postgres._said, dict([lie])
    monkeypatch.setattr(Postgres, "_said", lambda self, key: told.get(key) or asked(self, key))
    with refused("DPQ605", "does not keep what it confirms"):
        open_at(server)


def test_a_temporary_table_does_not_stand_in_for_the_ledger(server):
    with closing(open_at(server)) as ledger:
        ledger._store._database.execute("CREATE TEMPORARY TABLE charges (x integer)")
        assert (ledger.verify(), spent(ledger)) == (4, 1)


class TestRollback:
    """A mark on the host of a session remembers how far a ledger on a server had come."""

    @pytest.fixture
    def mark(self, tmp_path, server):
        mark = tmp_path / "mark"
        open_at(server, mark).close()
        assert json.loads(mark.read_text())["sequence"] == 4
        return mark

    def test_a_dump_that_was_brought_back_is_refused(self, postgres, server, mark):
        with closing(open_at(server, mark)) as ledger:
            ledger.charge(pure("0.1"), limits(), ALICE)
            tamper(postgres, server, "DELETE FROM charges WHERE sequence = 5")
            with refused("DPQ605", "older than its high-water mark"):
                ledger.charge(pure("0.1"), limits(), ALICE)
        with refused("DPQ605", "older than its high-water mark"):
            open_at(server, mark)

    def test_a_dropped_ledger_is_not_begun_again(self, postgres, server, mark):
        with postgres.sql(server) as sql:
            sql.execute(f'DROP SCHEMA "{server.schema}" CASCADE')
        with refused("DPQ614", "the ledger was here and is gone"):
            open_at(server, mark)
        assert not ledger_exists(LedgerSettings(None, None, server))

    def test_another_ledger_is_refused(self, postgres, mark):
        other = postgres.new()
        open_at(other).close()
        with refused("DPQ605", "not the one"):
            open_at(other, mark)


def test_a_ledger_made_anew_while_it_is_open_takes_no_charge(postgres, server):
    with closing(open_at(server)) as ledger:
        with postgres.sql(server) as sql:
            sql.execute(f'DROP SCHEMA "{server.schema}" CASCADE')
        with refused("DPQ614", "the ledger was here and is gone"):
            ledger.charge(pure("0.1"), limits(), ALICE)
        open_at(server).close()
        with refused("DPQ605", "replaced while it was open"):
            ledger.charge(pure("0.1"), limits(), ALICE)


class TestLostConnections:
    """Released implies committed: who is not told of a commit gets no receipt."""

    def test_a_connection_that_broke_while_idle_is_made_again(self, postgres, server):
        with closing(open_at(server)) as ledger:
            self.terminate(postgres)
            assert spent(ledger) == 1
            self.terminate(postgres)
            ledger.charge(pure("0.1"), limits(), ALICE)
            assert ledger.verify() == 5

    @staticmethod
    def terminate(postgres):
        """End the server's side of every connection but this one."""
        with psycopg.connect(postgres.url, autocommit=True) as sql:
            sql.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = 'dpquery'"
            )

    @pytest.mark.parametrize("done", [False, True])
    def test_a_connection_lost_at_any_statement_gives_no_receipt(
        self, postgres, server, done, monkeypatch
    ):
        """Before each statement of a charge, and after it, COMMIT included."""
        statements, honest, last = [], Postgres._run, 0
        committed, receipts = 0, 0

        def losing(database, statement, values=()):
            nonlocal committed
            statements.append(statement)
            if len(statements) == last and not done:
                self.terminate(postgres)
            found = honest(database, statement, values)
            committed += statement == "COMMIT"
            if len(statements) == last and done:
                self.terminate(postgres)
                honest(database, "SELECT 1")
            return found

        with closing(open_at(server)) as ledger:
            while last <= len(statements):
                last += 1
                statements.clear()
                told = receipts
                with monkeypatch.context() as patch:
                    patch.setattr(Postgres, "_run", losing)
                    try:
                        ledger.charge(pure("0.1"), limits(), ALICE)
                    except PolicyInvalid as fault:
                        assert fault.code == "DPQ606"  # noqa: PT017 - some are receipts
                    else:
                        receipts += 1
                # Only what begins a charge may be tried again.
                assert receipts == told or last in {1, len(statements) + 1}
                assert ledger.verify() == 4 + committed
        assert committed == receipts + done
        assert last > 5

    @pytest.mark.slow
    def test_a_server_that_crashes_keeps_what_it_confirmed(self):
        postgres = PostgresServer()  # its own: recovery goes through all files of a cluster
        with ExitStack() as stack:
            stack.callback(postgres.stop)
            ledger = stack.enter_context(closing(open_at(postgres.new())))
            ledger.charge(pure("0.5"), limits(), ALICE)
            postgres.crash()
            with refused("DPQ606", "there is no connection"):
                ledger.charge(pure("0.5"), limits(), ALICE)
            with refused("DPQ606", "no connection"):
                spent(ledger)
            postgres.start()
            assert ledger.verify() == 1
            ledger.charge(pure("0.5"), limits(), ALICE)
            assert spent(ledger) == 1


def test_another_writer_is_waited_for_and_not_for_ever(postgres, server):
    with closing(open_at(server)) as ledger, postgres.sql(server) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("SELECT value FROM meta WHERE key = 'id' FOR UPDATE")
        ledger._store._database.execute("SET lock_timeout = '50ms'")
        with refused("DPQ606", "another session has held it for too long"):
            ledger.charge(pure("0.1"), limits(), ALICE)
        stranger.execute("ROLLBACK")
        ledger.charge(pure("0.1"), limits(), ALICE)
        assert ledger.verify() == 5


def test_a_commit_that_the_server_turned_into_a_rollback_is_none(server):
    """PostgreSQL answers COMMIT of a failed transaction with ROLLBACK, and no error."""
    with closing(open_at(server)) as ledger:
        database = ledger._store._database
        honest = database._run

        def failing(statement, values=()):
            if statement == "COMMIT":
                with pytest.raises(psycopg.Error):
                    database._connection.execute("SELECT 1 / 0")
            return honest(statement, values)

        database._run = failing
        with refused("DPQ606", "rolled the charge back"):
            ledger.charge(pure("0.1"), limits(), ALICE)
        database._run = honest
        assert ledger.verify() == 4


def test_a_role_that_may_not_write_is_refused(postgres, server):
    with postgres.sql(server) as sql:
        sql.execute("CREATE ROLE reader LOGIN")
        sql.execute(f'GRANT USAGE ON SCHEMA "{server.schema}" TO reader')
        sql.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{server.schema}" TO reader')
        try:
            with refused("DPQ606", "the role may not write it"):
                open_at(Server(server.url.replace("tests@", "reader@"), server.schema))
        finally:
            sql.execute("DROP OWNED BY reader")
            sql.execute("DROP ROLE reader")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/postgres?", "/nowhere?"),
        ("tests@", "hunter2@"),
        ("?host=", "?host=/nowhere"),
    ],
)
def test_a_server_that_is_not_reached_says_nothing_of_its_own(postgres, old, new, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    server = Server(postgres.url.replace(old, new), "dpquery")
    with refused("DPQ606", "there is no connection") as caught:
        open_at(server)
    told = "".join(traceback.format_exception(caught.value))
    assert "hunter2" not in told
    assert "psycopg.Op" not in told
    assert "FATAL" not in told


def test_the_driver_is_loaded_where_a_server_is_named_only():
    script = "import sys; from tests.ledger.helpers import open_at as o; o(None)"
    script += "; sys.exit('psycopg' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", script]) == 0


@pytest.fixture
def policy(postgres, tmp_path):
    """The sample policy, with its ledger on a server."""
    samples = tmp_path / "samples"
    policy, server = copy_samples(samples), postgres.new()
    stated = (
        f'[ledger]\nurl = "{server.url}"\nschema = "{server.schema}"\nhigh_water = "mark"\n'
    )
    policy.write_text(policy.read_text("utf-8") + stated, "utf-8")
    return policy


def test_a_session_and_its_owner_use_a_ledger_on_a_server(policy, capfd):
    def said(*argv):
        code = main(["ledger", argv[0], str(policy), *argv[1:]])
        out, err = capfd.readouterr()
        return code, out + err

    question = "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff"
    assert "no ledger" in said("show")[1]
    with dpquery.connect(policy) as session:
        first = session.sql(question)
        assert session.sql(question).rows == first.rows
        assert session.budget.spent.epsilon == Fraction(1, 2)
        assert said("freeze") == (0, "frozen: no query is charged until dpquery ledger thaw\n")
        with pytest.raises(BudgetRefused):
            session.sql("SELECT DP_COUNT(*, eps=0.25) AS n FROM staff")
        assert said("thaw")[0] == 0
    with dpquery.connect(policy) as session:
        assert session.sql(question).rows == first.rows
        assert [row[1] for row in session.ledger().rows] == ["0.5"]
    assert said("verify") == (0, "the ledger holds together; charges in it: 1\n")
    assert question in said("show")[1]
    assert '"0.5"' in said("export", "--format", "json")[1]
    assert said("losses")[0] == 0
    assert "one analyst" in said("grant", "--analyst", "default", "--add", "1")[1]
    assert not list(policy.parent.glob("*.ledger"))


def test_ones_own_files_have_a_ledger_on_a_server(postgres, capfd):
    """In the schema `dpquery`, which this test has to itself."""
    file, url = sample_directory() / "staff.parquet", postgres.url
    try:
        own = {"unit": "person_id", "max_rows_contributed": 1, "epsilon": 1, "ledger": url}
        with dpquery.connect(file, **own) as session:
            answer = session.sql("SELECT DP_COUNT(*, eps=0.5) FROM staff")
            assert not any("memory" in note for note in answer.notes)
        question = "SELECT DP_COUNT(*, eps=0.25) FROM staff"
        options = ("--unit", "person_id", "--rows", "1", "--epsilon", "1", "--ledger", url)
        assert main([str(file), *options, "-c", question]) == 0
        assert "budget: 0.25 of 1 left" in capfd.readouterr().err
    finally:
        with psycopg.connect(url, autocommit=True) as sql:
            sql.execute("DROP SCHEMA dpquery CASCADE")


def test_faults_of_a_scan_are_noted_beside_the_policy(policy):
    with dpquery.connect(policy) as session:
        shutil.copy(policy.with_name("visits.parquet"), policy.with_name("staff.parquet"))
        with pytest.raises(ScanFailed):
            session.sql("SELECT DP_COUNT(*, eps=0.5) AS n FROM staff")
    assert policy.with_name("policy.ledger.faults").exists()
