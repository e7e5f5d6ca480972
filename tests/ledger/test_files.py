"""The files of a ledger after `kill -9`: deleted, cut, or brought back as they were before."""

from __future__ import annotations

import shlex
import shutil
import stat
import subprocess
import tempfile
from contextlib import closing
from fractions import Fraction
from itertools import product

import pytest

import dpquery
from dpquery.budget.ledger import high_water
from dpquery.errors import PolicyInvalid
from dpquery.shell.main import main
from tests.ledger.helpers import ALICE, limits, open_at, pure, spent, start
from tests.samples import edit, sample_policy

COUNT = "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff"
ENDS = ("", "-wal", "-shm", ".lock")
KEPT, DELETED, EMPTIED, CUT, OLDER = "kept", "deleted", "emptied", "cut", "older"


def killed(path, mark, charges):
    """Charge in a process that is killed while the ledger is open, and is at rest."""
    worker = start("hold", path, mark or "-", charges)
    assert worker.stdout.readline() == b"ready\n"
    worker.kill()
    worker.communicate()


@pytest.fixture
def grown(tmp_path):
    """A ledger that was killed after 3 charges and again after 7, with all of its files."""

    def make(mark):
        path = tmp_path / "made" / "policy.ledger"
        path.parent.mkdir()
        killed(path, mark, 3)
        older = {end: path.with_name(path.name + end).read_bytes() for end in ENDS}
        killed(path, mark, 4)
        newer = {end: path.with_name(path.name + end).read_bytes() for end in ENDS}
        return older, newer

    return make


def put(folder, older, newer, fates):
    """Put a ledger's files where something has happened to each of them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "policy.ledger"
    for end, fate in fates.items():
        if fate == DELETED:
            continue
        content = (older if fate == OLDER else newer)[end]
        size = {EMPTIED: 0, CUT: len(content) * 2 // 3}.get(fate, len(content))
        file = path.with_name(path.name + end)
        file.touch(0o600)
        file.write_bytes(content[:size])
    return path


def opened(path, mark=None):
    """What a ledger says is spent, in charges; None where it is refused."""
    try:
        with closing(open_at(path, mark)) as ledger:
            return spent(ledger) / Fraction(1, 1000)
    except PolicyInvalid as fault:
        assert fault.code in {"DPQ605", "DPQ614"}  # noqa: PT017 - it is told, in these words
        return None


FATES = (KEPT, DELETED, EMPTIED, CUT)
SMALL = [("-wal", fate) for fate in FATES[1:]] + [("-shm", fate) for fate in FATES[1:]]


@pytest.mark.parametrize(("end", "fate"), SMALL)
def test_no_file_beside_a_ledger_holds_a_charge(grown, tmp_path, end, fate):
    older, newer = grown(None)
    fates = dict.fromkeys(ENDS, KEPT) | {end: fate}
    assert opened(put(tmp_path / "again", older, newer, fates)) == 7


def test_a_copy_of_an_open_ledger_holds_every_charge(tmp_path):
    path, copy = tmp_path / "policy.ledger", tmp_path / "copy.ledger"
    with closing(open_at(path)) as ledger, closing(open_at(path)) as other:
        for number, one in enumerate([ledger, other] * 4, 1):
            one.charge(pure("0.001"), limits(), ALICE)
            copy.unlink(missing_ok=True)
            shutil.copy(path, copy)
            assert opened(copy) == number
            for end in ENDS[1:]:
                copy.with_name(copy.name + end).unlink(missing_ok=True)


def test_nothing_that_happens_to_the_files_gives_budget_back_unseen(grown, tmp_path):
    """With a mark: every fate of every file. Whatever opens has all seven charges."""
    mark = tmp_path / "mark"
    older, newer = grown(mark)
    content, found = mark.read_bytes(), set()
    for fates in product((*FATES, OLDER), repeat=3):
        path = put(tmp_path / "again", older, newer, dict(zip(ENDS, fates, strict=False)))
        mark.write_bytes(content)
        found.add(opened(path, mark))
    assert found == {None, 7}


def test_without_a_mark_only_older_copies_do(grown, tmp_path):
    older, newer = grown(None)
    for fates in product(FATES, FATES, FATES):
        path = put(tmp_path / "again", older, newer, dict(zip(ENDS, fates, strict=False)))
        found = opened(path)
        gone = fates[0] == DELETED and fates[1] == DELETED  # then nothing tells that it was
        assert found in ({0} if gone else {None, 7})


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_file_that_goes_while_the_ledger_is_open_is_noticed(tmp_path, end):
    """Two that share no log would each write over what the other has charged."""
    path = tmp_path / "policy.ledger"
    with closing(open_at(path)) as ledger:
        ledger.charge(pure("0.001"), limits(), ALICE)
        path.with_name(path.name + end).unlink()
        with pytest.raises(PolicyInvalid) as caught:
            ledger.charge(pure("0.001"), limits(), ALICE)
        assert caught.value.code in {"DPQ605", "DPQ606"}
    assert opened(path) == 1


@pytest.fixture
def usual(tmp_path, monkeypatch):
    """A policy that is not among temporary files, and says nothing of a mark."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return sample_policy(tmp_path, "epsilon = 2")


def asked(policy):
    with dpquery.connect(policy) as session:
        return session.sql(COUNT, refresh=True).loss.epsilon


def code_of(call, *arguments):
    with pytest.raises(PolicyInvalid) as caught:
        call(*arguments)
    return caught.value.code


def test_a_ledger_that_is_deleted_is_missed_where_nobody_named_a_mark(usual, capsys):
    asked(usual)
    ledger = usual.with_name("policy.ledger")
    kept = ledger.read_bytes()
    ledger.unlink()
    assert code_of(asked, usual) == "DPQ614"
    for words in ("show", "verify", "freeze", "thaw"):
        assert main(["ledger", words, str(usual)]) == 2
        assert "DPQ614" in capsys.readouterr().err
    assert not ledger.exists()
    ledger.touch(0o600)
    ledger.write_bytes(kept)
    asked(usual)
    ledger.write_bytes(kept)
    assert code_of(asked, usual) == "DPQ605"


def test_the_usual_mark_is_private_and_where_programs_keep_their_state(usual, tmp_path):
    asked(usual)
    (mark,) = (tmp_path / "state" / "dpquery").iterdir()
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    assert stat.S_IMODE(mark.parent.stat().st_mode) == 0o700
    edit(usual, "[tables.staff]", "[ledger]\nhigh_water = false\n[tables.staff]")
    usual.with_name("policy.ledger").unlink()
    asked(usual)


def test_an_owner_begins_anew_by_what_the_refusal_says(usual, tmp_path):
    asked(usual)
    usual.with_name("policy.ledger").unlink()
    with pytest.raises(PolicyInvalid) as caught:
        asked(usual)
    command, file = caught.value.diagnostic.remedy[1].split("    ")[0].split()
    assert command == "rm"
    (tmp_path / "state" / "dpquery" / file.rpartition("/")[2]).unlink()
    asked(usual)


def test_a_ledger_that_was_never_charged_may_be_deleted(usual):
    dpquery.connect(usual).close()
    usual.with_name("policy.ledger").unlink()
    asked(usual)


def test_a_folder_of_its_own_is_made_as_the_refusal_says(tmp_path):
    policy = sample_policy(tmp_path, "epsilon = 2\n")
    edit(policy, "[budget]", '[ledger]\npath = "books/staff.ledger"\n[budget]')
    with pytest.raises(PolicyInvalid, match="its folder does not exist") as refusal:
        dpquery.connect(policy)
    assert main(["policy", "check", str(policy)]) != 0
    (made,) = refusal.value.diagnostic.remedy
    subprocess.run(shlex.split(made), check=True)
    with dpquery.connect(policy) as session:
        assert session.sql(COUNT).rows
    assert main(["policy", "check", str(policy)]) == 0


def test_a_folder_that_is_copied_has_a_ledger_of_its_own(usual, tmp_path):
    asked(usual)
    copy = shutil.copytree(usual.parent, tmp_path / "elsewhere") / "policy.toml"
    asked(copy)
    asked(usual)


@pytest.mark.parametrize("place", ["/dev/null", "relative", ""])
def test_where_there_is_no_place_for_a_mark_there_is_none(usual, monkeypatch, tmp_path, place):
    monkeypatch.setenv("XDG_STATE_HOME", place)
    monkeypatch.setenv("HOME", "/dev/null")
    asked(usual)
    asked(usual)


def test_a_usual_mark_that_a_crash_emptied_is_written_anew(usual, tmp_path):
    asked(usual)
    (mark,) = (tmp_path / "state" / "dpquery").iterdir()
    mark.write_bytes(b"")
    asked(usual)
    assert high_water.HighWater(mark).read().sequence == 3


def test_a_backup_holds_every_charge_that_was_acknowledged(tmp_path):
    """Again and again, while eight processes charge."""
    path, notes = tmp_path / "policy.ledger", [tmp_path / f"ack-{n}" for n in range(8)]
    open_at(path).close()
    workers = [start("spend", path, note, "0.001", 9 * 10**9) for note in notes]
    while not all(note.exists() and note.stat().st_size for note in notes):
        assert all(worker.poll() is None for worker in workers)
    with closing(open_at(path)) as ledger:
        for number in range(20):
            known = [line for note in notes for line in note.read_text().split("\n")[:-1]]
            copy = tmp_path / f"copy-{number}"
            ledger.backup(copy)
            with closing(open_at(copy)) as kept:
                assert set(known) <= {record.id for record in kept.history()}
                assert kept.verify() * Fraction(1, 1000) == spent(kept)
    for worker in workers:
        worker.kill()
        worker.communicate()


def test_the_owner_backs_up_by_a_command(usual, tmp_path, capsys):
    asked(usual)
    session, copy = dpquery.connect(usual), tmp_path / "copy.ledger"
    session.sql(COUNT, refresh=True)
    assert main(["ledger", "backup", str(usual), str(copy)]) == 0
    assert capsys.readouterr().out == "the copy holds together; charges in it: 2\n"
    assert [file.name for file in tmp_path.iterdir() if "copy" in file.name] == ["copy.ledger"]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert main(["ledger", "backup", str(usual), str(copy)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["ledger", "backup", str(usual), "/nowhere/copy"]) == 2
    assert "DPQ606" in capsys.readouterr().err
    session.close()
    usual.with_name("policy.ledger").unlink()
    shutil.move(copy, usual.with_name("policy.ledger"))
    asked(usual)


def test_a_ledger_on_a_server_is_backed_up_by_the_servers_programs(postgres, tmp_path):
    with closing(open_at(postgres.new())) as ledger:
        with pytest.raises(PolicyInvalid, match="pg_dump --schema='ledger ") as caught:
            ledger.backup(tmp_path / "copy")
        assert caught.value.code == "DPQ605"
