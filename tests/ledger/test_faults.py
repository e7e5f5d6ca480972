"""Disks that are full, read-only or broken: no receipt, and the ledger stays whole."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpquery.budget.ledger import sqlite
from dpquery.budget.ledger.sqlite import SQLite
from dpquery.budget.ledger.store import Store
from dpquery.errors import PolicyInvalid
from tests.ledger.helpers import ALICE, limits, open_at, pure, spent, start


@pytest.fixture
def path(tmp_path):
    return tmp_path / "policy.ledger"


def test_the_refusal_says_that_nothing_was_scanned(path):
    path.parent.joinpath("policy.ledger.lock").mkdir()
    with pytest.raises(PolicyInvalid) as caught:
        open_at(path)
    assert (
        str(caught.value)
        == f"""\
policy[DPQ606]: the ledger cannot be written
   --> {path}
   why: a charge is on disk before anything is scanned: nothing was scanned.
   try: look at free space, and at who may write the ledger and its directory"""
    )


def unwritable():
    return pytest.raises(PolicyInvalid, match="the ledger cannot be written")


@pytest.mark.parametrize("size", [20_000, 60_000, 200_000])
def test_a_full_disk_fails_the_charge_and_room_mends_it(path, size):
    ledger = open_at(path)
    ledger.charge(pure("0.001"), limits(), ALICE)
    ledger.close()
    [report] = [json.loads(start("fill", path, size).communicate(timeout=60)[0])]
    assert report["code"] == "DPQ606"
    assert report["rows"] == report["receipts"] + 1
    assert report["after"] == report["rows"] + 1
    ledger = open_at(path)
    assert ledger.verify() == report["after"]
    ledger.close()


@pytest.mark.parametrize("size", [0, 1, 5000, 30_000])
def test_a_full_disk_leaves_no_half_ledger(path, size):
    output = start("begin", path, size).communicate(timeout=60)[0]
    assert json.loads(output) == "DPQ606"
    ledger = open_at(path)
    assert ledger.verify() == 0
    ledger.close()


@contextmanager
def unprivileged(directory: Path):
    """Return a directory to nobody, and be nobody: permissions do not bind root."""
    if os.geteuid() != 0:
        yield
        return
    for file in [directory, *directory.iterdir()]:
        shutil.chown(file, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared():
    directory = Path(tempfile.mkdtemp())
    yield directory
    directory.chmod(0o700)
    shutil.rmtree(directory)


@pytest.mark.parametrize("exists", [False, True])
def test_a_read_only_directory_is_refused(shared, exists):
    path = shared / "policy.ledger"
    if exists:
        open_at(path).close()
        (shared / "policy.ledger.lock").unlink()
    shared.chmod(0o500)
    with unprivileged(shared), unwritable():
        open_at(path)


def test_a_read_only_file_is_refused(shared):
    open_at(shared / "policy.ledger").close()
    (shared / "policy.ledger").chmod(0o400)
    with unprivileged(shared), unwritable():
        open_at(shared / "policy.ledger")


def test_a_new_ledger_is_durable_under_its_name(path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        sqlite, "sync_directory", lambda where: synced.append((where, path.exists()))
    )
    open_at(path).close()
    assert synced == [(path.parent, True)]


def test_a_directory_that_is_missing_is_refused(tmp_path):
    with unwritable():
        open_at(tmp_path / "nowhere" / "policy.ledger")
    with unwritable():
        open_at(tmp_path / "policy.ledger", tmp_path / "nowhere" / "mark")


def test_a_file_system_without_locks_is_refused(path, monkeypatch):
    def flock(*_):
        raise OSError(38, "not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    with unwritable():
        open_at(path)


@pytest.mark.parametrize(
    "answer", [("PRAGMA synchronous", 1), ("PRAGMA journal_mode = WAL", "off")]
)
def test_a_connection_that_does_not_wait_for_the_disk_is_refused(path, monkeypatch, answer):
    honest = SQLite._value
    lie = dict([answer])
    monkeypatch.setattr(SQLite, "_value", lambda self, q: lie.get(q) or honest(self, q))
    with unwritable():
        open_at(path)


def test_synchronous_is_full_on_every_connection(path):
    for _ in range(2):
        ledger = open_at(path)
        sql = ledger._store._database._connection
        assert sql.execute("PRAGMA synchronous").fetchone() == (2,)
        assert sql.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        ledger.close()


def test_a_stranger_that_holds_the_database_makes_the_charge_fail(path):
    ledger = open_at(path)
    stranger = sqlite3.connect(path, isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    ledger._store._database._connection.execute("PRAGMA busy_timeout = 1")
    with unwritable():
        ledger.charge(pure("0.1"), limits(), ALICE)
    stranger.close()
    ledger.charge(pure("0.1"), limits(), ALICE)
    assert ledger.verify() == 1
    ledger.close()


class Broken:
    """A connection whose statement number `failing` fails, before or after it was done."""

    def __init__(self, sql: sqlite3.Connection, failing: int, done: bool) -> None:
        self.sql, self.failing, self.done, self.statements = sql, failing, done, []

    def __getattr__(self, name):
        return getattr(self.sql, name)

    def execute(self, statement, *values):
        self.statements.append(statement)
        if len(self.statements) != self.failing:
            return self.sql.execute(statement, *values)
        if self.done:
            self.sql.execute(statement, *values)
        fault = sqlite3.OperationalError("disk I/O error")
        fault.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise fault


@pytest.mark.parametrize("done", [False, True])
def test_a_fault_in_any_statement_of_a_charge_gives_no_receipt(path, done):
    """The charge counts if the commit was done, and the ledger works on."""
    ledger, failing, rows = open_at(path), 0, 0
    sql = ledger._store._database._connection
    while True:
        failing += 1
        ledger._store._database._connection = broken = Broken(sql, failing, done)
        try:
            ledger.charge(pure("0.1"), limits(), ALICE)
        except PolicyInvalid as fault:
            assert fault.code == "DPQ606"  # noqa: PT017 - the loop ends with a charge that works
        else:
            break
        finally:
            ledger._store._database._connection = sql
        rows += done and broken.statements[-1] == "COMMIT"
        assert ledger.verify() == rows
    assert failing > 4
    assert "COMMIT" in broken.statements
    assert ledger.verify() == rows + 1
    ledger.close()


def test_a_mark_that_cannot_be_written_gives_no_receipt_and_keeps_the_charge(tmp_path, path):
    ledger = open_at(path, tmp_path / "mark")
    (tmp_path / "mark.new").mkdir()
    with unwritable():
        ledger.charge(pure("0.1"), limits(), ALICE)
    (tmp_path / "mark.new").rmdir()
    ledger.charge(pure("0.1"), limits(), ALICE)
    assert spent(ledger) * 5 == 1
    ledger.close()


def test_an_interrupt_in_the_middle_of_a_charge_leaves_the_ledger_usable(path, monkeypatch):
    ledger = open_at(path)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge(pure("0.1"), limits(), ALICE)
    ledger.charge(pure("0.1"), limits(), ALICE)
    assert ledger.verify() == 1
    ledger.close()
