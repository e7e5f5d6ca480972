"""Every code is really raised: by a query of the corpus, or by what is done here.

The first four families are refusals of a query, and stand in grammar/; the others need a
budget, a file, a session or a machine. Each is shown here in the words that a person reads.
"""

from __future__ import annotations

import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import duckdb
import psycopg
import pytest

import dpquery
from dpquery import functions
from dpquery.budget.ledger import ledger
from dpquery.budget.ledger.charge_and_receipt import Ceilings
from dpquery.budget.ledger.ledger import open_ledger
from dpquery.budget.ledger.ledger_faults import missing
from dpquery.client.wire_format import loads
from dpquery.core.privacy_loss import Ceiling, Loss
from dpquery.database import Database
from dpquery.engine.duckdb import public_engine as public
from dpquery.errors import DPQueryError, ScanFailed
from dpquery.errors.pages import pages
from dpquery.mechanisms import randomness
from dpquery.policy.load import load_policy
from dpquery.policy.sources.paths import copy_samples
from dpquery.server.users import Users
from dpquery.server.worker import Worker
from dpquery.server.worker_messages import Request
from dpquery.shell.main import main
from tests.corpus import cases
from tests.tasks import ROOT

COUNT = "SELECT DP_COUNT(*, eps=0.5) FROM staff"
SERVER = "postgresql://alice@db.example.org:5433/"
OURS = f"15.0 (dpquery {dpquery.__version__})"
Doing = Callable[[Path, pytest.MonkeyPatch], object]


def ask(place: Path, query: str = COUNT, **arguments: object) -> object:
    with dpquery.connect(place / "policy.toml", **arguments) as session:
        return session.sql(query)


def changed(place: Path, old: str, new: str) -> None:
    """Write something else into the policy."""
    policy = place / "policy.toml"
    text = policy.read_text("utf-8")
    assert old in text
    policy.write_text(text.replace(old, new, 1), "utf-8")


def with_change(old: str, new: str, query: str = COUNT) -> Doing:
    def doing(place: Path, _: pytest.MonkeyPatch) -> object:
        changed(place, old, new)
        return ask(place, query)

    return doing


def asking(query: str, **arguments: object) -> Doing:
    return lambda place, _: ask(place, query, **arguments)


def without_a_ledger(place: Path, _: pytest.MonkeyPatch) -> object:
    (place / "policy.ledger.lock").mkdir()
    return ask(place)


def while_frozen(place: Path, _: pytest.MonkeyPatch) -> object:
    assert main(["ledger", "freeze", str(place / "policy.toml")]) == 0
    return ask(place)


def after_failures(place: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    with dpquery.connect(place / "policy.toml") as session:
        monkeypatch.setattr(session._engine, "open", None)
        for number in range(5):
            with pytest.raises(ScanFailed):
                session.sql(f"SELECT DP_COUNT(*, eps=1e-{number + 3}) FROM staff")
        return session.sql(COUNT)


def beside_as_many_as_may_fail(place: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    changed(place, "[tables.staff]", "[limits]\nmax_failures = 1\n[tables.staff]")
    monkeypatch.setattr(ledger, "_PATIENCE", 0)
    with dpquery.connect(place / "policy.toml") as session:
        monkeypatch.setattr(session._engine, "open", lambda *_: ask(place))
        return session.sql(COUNT)


def over_other_units(place: Path, _: pytest.MonkeyPatch) -> object:
    ask(place)
    changed(place, 'privacy_unit_column = "person_id"', 'privacy_unit_column = "age"')
    return ask(place)


def with_too_large_a_grant(place: Path, _: pytest.MonkeyPatch) -> object:
    policy = load_policy(place / "policy.toml")
    with closing(open_ledger(policy.ledger)) as ledger:
        limits = Ceilings(policy.budget.ceiling, Ceiling(Loss(Fraction(1))))
        return ledger.grant("alice", Loss(Fraction(3)), limits)


def without_a_driver(place: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    changed(place, "[budget]", '[ledger]\nurl = "postgresql://host/db"\n[budget]')
    return ask(place)


def with_an_empty_ledger(place: Path, _: pytest.MonkeyPatch) -> object:
    ask(place)
    (place / "policy.ledger").write_bytes(b"")
    return ask(place)


def with_a_deleted_ledger(place: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    ask(place)
    (place / "policy.ledger").unlink()
    return ask(place)


def over_a_file_that_changes(place: Path, _: pytest.MonkeyPatch) -> object:
    with dpquery.connect(place / "policy.toml") as session:
        shutil.copy(place / "visits.parquet", place / "staff.parquet")
        return session.sql(COUNT)


def over_files_of_a_table_format(place: Path, _: pytest.MonkeyPatch) -> object:
    (place / "_delta_log").mkdir()
    return ask(place)


def interrupted_above(place: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    with dpquery.connect(place / "policy.toml") as session:
        monkeypatch.setattr(public, "lent", Interrupted)
        monkeypatch.setattr(session._public, "accepts", lambda *_: True)
        return session.sql(COUNT)


class Interrupted:
    """Stands where tables are lent to the engine: the query over them is stopped."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> None:
        raise duckdb.InterruptException("stopped")

    def __exit__(self, *_: object) -> None: ...


def after_closing(place: Path, _: pytest.MonkeyPatch) -> object:
    session = dpquery.connect(place / "policy.toml")
    session.close()
    return session.sql(COUNT)


def with_a_value_too_many(place: Path, _: pytest.MonkeyPatch) -> object:
    return cursor_of(place).execute(COUNT, (1,))


def before_asking(place: Path, _: pytest.MonkeyPatch) -> object:
    return cursor_of(place).fetchall()


def rolled_back(place: Path, _: pytest.MonkeyPatch) -> None:
    cursor_of(place).connection.rollback()


def cursor_of(place: Path) -> dpquery.dbapi.Cursor:
    return dpquery.dbapi.connect(place / "policy.toml").cursor()


def with_a_broken_rule(place: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    broken = SimpleNamespace(registered=lambda _: functions.registered("DP_NOTHING"))
    monkeypatch.setattr("dpquery.plan.auto_bounds.functions", broken)
    return ask(place)


def without_randomness(place: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    fake = SimpleNamespace(urandom=lambda count: b"\0" * count, getpid=randomness.os.getpid)
    monkeypatch.setattr(randomness, "os", fake)
    return ask(place)


def after_a_stream_has_ended(place: Path, _: pytest.MonkeyPatch) -> None:
    """Ask until a threshold of no rows is passed, which a large epsilon makes almost sure."""
    (place / "policy.toml").write_text(
        (place / "policy.toml").read_text("utf-8").replace("epsilon = 2.0", "epsilon = 2000")
    )
    with dpquery.connect(place / "policy.toml") as session:
        stream = session.above_threshold(1, eps=1000)
        assert stream.ask("staff")
        stream.ask("staff")


def with_users_that_others_read(place: Path, _: pytest.MonkeyPatch) -> object:
    (place / "policy.users").write_text("{}")
    (place / "policy.users").chmod(0o644)
    return Users.beside(place / "policy.toml")


def on_a_server_whose_ledger_is_gone(place: Path, _: pytest.MonkeyPatch) -> object:
    with closing(Database(load_policy(place / "policy.toml"))) as database:
        lost = missing("policy.ledger")
        raise loads(
            Worker(database, 60)._refused(lost, Request("sql", "default", whole=True)).body
        )


def without_the_client(place: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    return dpquery.connect(SERVER)


def dialling(**known: object) -> Doing:
    """Have the driver fail, and know so much of why."""

    def doing(_: Path, monkeypatch: pytest.MonkeyPatch) -> object:
        error = psycopg.OperationalError("connection failed: wrong password")
        error._info = SimpleNamespace(**known)
        monkeypatch.setattr(type(error), "pgconn", property(lambda self: self._info))
        monkeypatch.setattr(psycopg, "connect", Raising(error))
        return dpquery.connect(SERVER)

    return doing


class Raising:
    """Raises an error wherever it is called."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, *_: object, **__: object) -> None:
        raise self._error


def answering(version: str) -> Doing:
    """Have a server be there until it is asked."""

    def doing(_: Path, monkeypatch: pytest.MonkeyPatch) -> object:
        here, there = socket.socketpair()
        torn = Raising(psycopg.OperationalError())
        asked = SimpleNamespace(socket=here, send_query_params=torn, consume_input=torn)
        info = SimpleNamespace(user="alice", parameter_status=lambda _: version)
        made = SimpleNamespace(info=info, pgconn=asked, close=lambda: None)
        monkeypatch.setattr(psycopg, "connect", lambda **_: made)
        with here, there:
            return dpquery.connect(SERVER).sql(COUNT)

    return doing


DOINGS: dict[str, tuple[Doing, str]] = {
    "DPQ501": (asking("SELECT DP_COUNT(*, eps=3) FROM staff"), "asks for 3"),
    "DPQ502": (
        with_change("epsilon = 2.0", "epsilon = 2.0\nmax_epsilon_per_query = 0.1"),
        "one query may spend 0.1",
    ),
    "DPQ503": (
        asking("SELECT DP_COUNT(*, eps=0.5, delta=1e-7, mechanism='gaussian') FROM staff"),
        "delta",
    ),
    "DPQ504": (while_frozen, "frozen"),
    "DPQ505": (after_failures, "5 statements failed within 24 hours"),
    "DPQ506": (beside_as_many_as_may_fail, "each of them could fail, and 1 may"),
    "DPQ601": (with_change('"staff.parquet"', '"none.parquet"'), '"none.parquet"'),
    "DPQ602": (with_change("epsilon = 2.0", "epsilon = 2.0.0"), "TOML"),
    "DPQ603": (with_change("rows_per_unit", "rows_per_unt"), "rows_per_unt"),
    "DPQ604": (with_change("bounds = [18, 70]", "bounds = [70, 18]"), "tables.staff"),
    "DPQ605": (with_an_empty_ledger, "the file is not a ledger"),
    "DPQ606": (without_a_ledger, "the ledger cannot be written"),
    "DPQ607": (with_change('unique = ["region"]', "rows_per_unit = 1"), "regions"),
    "DPQ608": (asking(COUNT, analyst="eve"), "eve"),
    "DPQ609": (over_other_units, "staff was by person_id, and is by age now"),
    "DPQ611": (without_a_driver, "not installed: psycopg"),
    "DPQ612": (
        with_change(
            'remote = { type = "boolean", null_group', 'remote = { type = "date", null_group'
        ),
        "the files of the table staff do not hold what the policy says",
    ),
    "DPQ613": (over_files_of_a_table_format, "names files of a Delta Lake table"),
    "DPQ614": (with_a_deleted_ledger, "the ledger was here and is gone"),
    "DPQ615": (with_users_that_others_read, "others can read it"),
    "DPQ610": (with_too_large_a_grant, "could then spend 4, and the total is 2"),
    "DPQ701": (over_a_file_that_changes, "the scan did not finish"),
    "DPQ702": (interrupted_above, "could not be finished"),
    "DPQ703": (answering(OURS), "the connection to the server broke off"),
    "DPQ801": (after_closing, "closed"),
    "DPQ802": (after_a_stream_has_ended, "the stream has ended"),
    "DPQ803": (before_asking, "nothing was asked yet"),
    "DPQ804": (rolled_back, "a charge is not taken back"),
    "DPQ805": (with_a_value_too_many, "the statement has 0 of ?, and the values are 1"),
    "DPQ806": (on_a_server_whose_ledger_is_gone, "the server cannot answer now"),
    "DPQ807": (dialling(), "there is no connection to db.example.org:5433"),
    "DPQ808": (dialling(needs_password=True), "asks alice for a password"),
    "DPQ809": (dialling(used_password=True), "does not take this password of alice"),
    "DPQ810": (answering("15.18"), "db.example.org:5433 is not a server of dpquery"),
    "DPQ811": (without_the_client, "not installed: psycopg"),
    "DPQ901": (with_a_broken_rule, "a rule of the engine does not hold"),
    "DPQ902": (without_randomness, "randomness"),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return copy_samples(tmp_path / "data").parent


@pytest.mark.parametrize("code", DOINGS)
def test_a_code_is_raised_with_its_words(code, place, monkeypatch):
    doing, said = DOINGS[code]
    with pytest.raises(DPQueryError) as caught:
        doing(place, monkeypatch)
    text = str(caught.value)
    assert re.match(rf"(refused|policy|failed)\[{code}\]: \S", text)
    assert said in text
    assert "\n   why: " in text
    assert "\n   try: " in text


def test_every_code_is_raised_by_a_query_of_the_corpus_or_here():
    asked = {case.expected for path in cases.files() for case in cases.read(path)}
    refused = {page.code for page in pages() if page.code < "DPQ500"}
    elsewhere = {"DPQ308"}  # the sample has one domain of units: test_relations.py
    assert refused - elsewhere <= asked
    assert {page.code for page in pages()} - refused == set(DOINGS)


def test_every_refusal_of_a_query_is_pinned_in_its_words_somewhere():
    texts = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    worded = set(re.findall(r"^(?:\s*\"\")?\"?refused\[(DPQ\d+)\]: \S", texts, re.MULTILINE))
    assert {page.code for page in pages() if page.code < "DPQ500"} <= worded
