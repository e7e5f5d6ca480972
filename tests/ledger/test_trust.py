"""Ledgers that are refused: replaced, rolled back, damaged, or open to others."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from dpquery.budget.ledger.earlier_releases import Holder
from dpquery.core.types import Interval
from dpquery.errors import PolicyInvalid
from tests.ledger.helpers import ALICE, BOB, limits, open_at, pure, spent

COLUMNS = ["id", "at", "analyst", "session", "query", "events", "totals", "hash"]


@pytest.fixture
def path(tmp_path):
    """A ledger of four charges, closed, so that it is one file."""
    path = tmp_path / "policy.ledger"
    ledger = open_at(path)
    for number, account in enumerate([ALICE, BOB, ALICE, BOB], start=1):
        ledger.charge(pure(f"0.{number}"), limits(), account)
    ledger.close()
    return path


@pytest.fixture
def released(path):
    """Bounds, a state and an answer, and what to ask for the answer."""
    holder = Holder("alice", "rights", shared=False)
    with closing(open_at(path)) as ledger:
        receipt = ledger.charge(pure("0.1"), limits(), ALICE)
        ledger.store_bounds(receipt, ALICE, "salary", Interval(Fraction(0), Fraction(8)))
        ledger.first_state(1, "staff", lambda: "as it was")
        ledger.store(receipt, holder, {"key": "[1]"})
        assert ledger.stored(holder, "key") == "[1]"
    return holder, "key"


def refusal(path, high_water=None, code="DPQ605") -> PolicyInvalid:
    with pytest.raises(PolicyInvalid) as caught:
        open_at(path, high_water)
    assert caught.value.code == code
    assert caught.value.file == str(path)
    return caught.value


def title(path, high_water=None) -> str:
    return refusal(path, high_water).diagnostic.title


def tamper(path, *statements) -> None:
    """Change the file as its owner could, with the triggers out of the way."""
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        for trigger in ("no_update", "no_delete", "no_replace"):
            sql.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            sql.execute(statement)


def test_a_ledger_and_what_stands_beside_it_are_private(path):
    ledger = open_at(path, path.with_name("mark"))
    ledger.charge(pure("0.1"), limits(), ALICE)
    names = {"", "-wal", "-shm", ".lock"}
    files = [path.with_name(path.name + name) for name in names] + [path.with_name("mark")]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    ledger.close()


def test_a_refusal_names_the_file_and_what_to_do(path):
    path.write_bytes(b"")
    assert (
        str(refusal(path))
        == f"""\
policy[DPQ605]: the file is not a ledger
   --> {path}
   why: charges are only written to a file that dpquery has created.
   try: name another file for the ledger; it is created when it does not exist"""
    )


def test_a_symbolic_link_is_refused(path):
    link = path.with_name("link.ledger")
    link.symlink_to(path)
    assert title(link) == "the ledger is a symbolic link"
    link.unlink()
    link.symlink_to("nowhere")
    assert title(link) == "the ledger is a symbolic link"


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_file_that_others_can_write_is_refused(path, mode, suffix):
    file = path.with_name(path.name + suffix)
    file.touch()
    file.chmod(mode)
    with pytest.raises(PolicyInvalid, match="can be written by others"):
        open_at(path)


def test_a_file_that_others_can_read_is_accepted(path):
    path.chmod(0o644)
    assert spent(open_at(path)) == 1


@pytest.mark.parametrize("content", [b"", b"hello\n", os.urandom(8192), b"SQLite format 3\0"])
def test_another_file_is_refused_and_left_as_it_was(tmp_path, content):
    path = tmp_path / "policy.ledger"
    path.touch(0o600)
    path.write_bytes(content)
    refusal(path)
    assert path.read_bytes() == content


def test_a_directory_is_refused(tmp_path):
    assert title(tmp_path) == "the file is not a ledger"


def test_a_database_of_another_program_is_refused_and_left_as_it_was(tmp_path):
    path = tmp_path / "policy.ledger"
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("CREATE TABLE charges (sequence INTEGER PRIMARY KEY, hash TEXT)")
        sql.commit()
    path.chmod(0o600)
    before = path.read_bytes()
    assert title(path) == "the file is not a ledger"
    assert path.read_bytes() == before


@pytest.mark.parametrize(("key", "other"), [("format", "6"), ("accountant", "later")])
def test_a_format_that_is_not_known_is_refused(path, key, other):
    tamper(path, f"UPDATE meta SET value = '{other}' WHERE key = '{key}'")
    assert title(path) == "the ledger has a format that this version does not know"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_ledger_is_refused(path, share):
    with path.open("r+b") as file:
        file.truncate(int(path.stat().st_size * share))
    refusal(path)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_changed_last_row_is_seen_at_once(path, column):
    tamper(path, f"UPDATE charges SET {column} = {column} || '0' WHERE sequence = 4")
    assert title(path) == "the ledger is damaged"


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("sequence", [1, 2])
def test_any_changed_row_is_seen_by_verify(path, column, sequence):
    change = f"UPDATE charges SET {column} = {column} || '0' WHERE sequence = {sequence}"
    tamper(path, change)
    assert_verify_refuses(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM charges WHERE sequence = 2",
        "UPDATE charges SET sequence = -sequence WHERE sequence = 2",
        "UPDATE meta SET value = 'other' WHERE key = 'id'",
        "UPDATE charges SET hash = CAST(x'ff' AS TEXT) WHERE sequence = 1",
        "UPDATE charges SET events = '[\"unheard of\"]' WHERE sequence = 1",
        "UPDATE charges SET totals = replace(totals, '1/10', '1/0') WHERE sequence = 1",
    ],
)
def test_a_history_that_was_rearranged_is_seen_by_verify(path, statement):
    tamper(path, statement)
    assert_verify_refuses(path)


def assert_verify_refuses(path):
    ledger = open_at(path)
    with pytest.raises(PolicyInvalid, match="the ledger is damaged"):
        ledger.verify()
    ledger.close()


def test_totals_that_are_not_sums_are_seen_even_when_the_hashes_agree(path):
    """A writer with a mistake of its own would seal wrong totals properly."""
    ledger = open_at(path)
    totals = ledger._store.totals(ALICE)
    ledger._store.totals = lambda _: totals.__class__(totals.policy)
    ledger.charge(pure("0.1"), limits(), ALICE)
    with pytest.raises(PolicyInvalid, match="the ledger is damaged"):
        ledger.verify()
    ledger.close()


def lose_an_entry(path, index) -> None:
    """Take the newest row out of an index, as a torn page can."""
    tamper(
        path,
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_schema SET sql = sql || ' WHERE sequence < 1' WHERE name = '{index}'",
        "PRAGMA writable_schema = RESET",
        f"REINDEX {index}",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, ' WHERE sequence < 1', '') "
        f"WHERE name = '{index}'",
    )


@pytest.mark.parametrize("index", ["charges_by_analyst", "bounds_by_key", "states_by_place"])
def test_an_index_that_lost_an_entry_is_seen(path, released, index):
    """Totals are looked up by index, so a missing entry would give budget back."""
    lose_an_entry(path, index)
    assert title(path) == "the ledger is damaged"


def test_answers_are_checked_when_they_are_read_and_by_verify(path, released):
    """They grow without end, and opening a ledger must not take longer for it."""
    lose_an_entry(path, "answers_by_key")
    assert_verify_refuses(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.execute("DROP TRIGGER IF EXISTS no_update_of_answers")
        sql.execute("REINDEX answers_by_key")
        sql.execute("UPDATE answers SET drawn = '[2]'")
    with closing(open_at(path)) as ledger:
        for ask in (lambda: ledger.stored(*released), ledger.verify):
            with pytest.raises(PolicyInvalid, match="the ledger is damaged"):
                ask()


class TestHighWater:
    """A mark in another place remembers how far the ledger had come."""

    @pytest.fixture
    def mark(self, tmp_path):
        return tmp_path / "elsewhere.mark"

    @pytest.fixture
    def old(self, path, mark):
        """An older copy, and a ledger that went on after it."""
        old = path.with_name("old")
        shutil.copy2(path, old)
        ledger = open_at(path, mark)
        ledger.charge(pure("0.1"), limits(), ALICE)
        ledger.close()
        return old

    def test_a_marked_ledger_opens_again(self, path, mark, old):
        ledger = open_at(path, mark)
        assert ledger.verify() == 5
        ledger.close()

    def test_an_old_copy_is_refused(self, path, mark, old):
        old.replace(path)
        assert title(path, mark) == "the ledger is older than its high-water mark"

    def test_an_owner_can_decide_to_go_on_with_an_old_copy(self, path, mark, old):
        old.replace(path)
        (remedy,) = refusal(path, mark).diagnostic.remedy[1:]
        command, file = remedy.split("    ")[0].split()
        assert (command, file) == ("rm", str(mark))
        mark.unlink()
        open_at(path, mark).close()

    def test_an_old_copy_that_went_on_is_refused(self, path, mark, old):
        old.replace(path)
        ledger = open_at(path)
        for _ in range(3):
            ledger.charge(pure("0.01"), limits(), ALICE)
        ledger.close()
        assert title(path, mark) == "the ledger is older than its high-water mark"

    def test_a_deleted_ledger_is_not_begun_again(self, path, mark, old):
        path.unlink()
        gone = refusal(path, mark, "DPQ614").diagnostic
        assert gone.title == "the ledger was here and is gone"
        assert gone.remedy[1] == f"rm {mark}    begins with the whole budget"
        assert not path.exists()

    def test_a_new_ledger_deleted_before_its_first_charge_is_missed(self, tmp_path, mark):
        path = tmp_path / "new.ledger"
        open_at(path, mark).close()
        path.unlink()
        refusal(path, mark, "DPQ614")

    def test_another_ledger_is_refused(self, tmp_path, mark, old):
        other = tmp_path / "other.ledger"
        open_at(other).close()
        assert "not the one" in title(other, mark)

    def test_a_ledger_behind_its_mark_is_refused_while_it_is_open(self, path, mark):
        ledger = open_at(path, mark)
        further = json.loads(mark.read_text()) | {"sequence": 5}
        mark.write_text(json.dumps(further))
        with pytest.raises(PolicyInvalid, match="older than"):
            ledger.charge(pure("0.1"), limits(), ALICE)
        with pytest.raises(PolicyInvalid, match="older than"):
            ledger.verify()
        ledger.close()

    def test_a_mark_one_charge_behind_is_brought_up(self, path, mark, old):
        """A process may die between commit and mark."""
        before = mark.read_text()
        ledger = open_at(path)
        ledger.charge(pure("0.1"), limits(), ALICE)
        ledger.close()
        open_at(path, mark).close()
        assert json.loads(mark.read_text())["sequence"] == 6
        assert mark.read_text() != before

    def test_a_mark_is_on_disk_before_it_takes_its_name(self, path, mark, old, monkeypatch):
        ledger, steps = open_at(path, mark), []
        for owner, name in ((os, "fsync"), (type(mark), "replace")):
            done = getattr(owner, name)
            monkeypatch.setattr(
                owner, name, lambda *a, done=done, name=name: (steps.append(name), done(*a))
            )
        ledger.charge(pure("0.1"), limits(), ALICE)
        assert steps == ["fsync", "replace", "fsync"]
        ledger.close()

    @pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"ledger": 1}', b"\xff\xfe"])
    def test_a_mark_that_cannot_be_read_is_refused(self, path, mark, content):
        mark.write_bytes(content)
        with pytest.raises(PolicyInvalid, match="cannot be read") as caught:
            open_at(path, mark)
        assert caught.value.file == str(mark)


def test_a_deleted_ledger_with_its_log_still_there_is_not_begun_again(path):
    path.unlink()
    path.with_name(path.name + "-wal").touch(0o600)
    refusal(path, code="DPQ614")


@pytest.mark.parametrize("replace", [True, False])
def test_a_ledger_moved_or_replaced_while_open_takes_no_charge(path, replace):
    ledger = open_at(path)
    copy = path.with_name("copy")
    shutil.copy2(path, copy)
    path.rename(path.with_name("moved"))
    if replace:
        copy.rename(path)
    with pytest.raises(
        PolicyInvalid, match="replaced while it was open" if replace else "written"
    ):
        ledger.charge(pure("0.1"), limits(), ALICE)
    ledger.close()


def test_half_a_creation_does_not_stand_in_the_way(tmp_path):
    (tmp_path / "policy.ledger.new").write_bytes(os.urandom(100))
    (tmp_path / "policy.ledger.new-journal").write_bytes(os.urandom(100))
    ledger = open_at(tmp_path / "policy.ledger")
    ledger.charge(pure("0.1"), limits(), ALICE)
    assert ledger.verify() == 1
    ledger.close()
    assert not (tmp_path / "policy.ledger.new").exists()
