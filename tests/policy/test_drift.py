"""Within a version of the data their files stay as they are; where they do not, scans fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.database import Database
from dpquery.engine.file_checks import about_bytes
from dpquery.errors import PolicyInvalid, ScanFailed
from dpquery.policy.load import load_policy
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session
from dpquery.shell.main import run_verb

COUNT = "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff"
PAID = f"REFRESH {COUNT}"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    folder = copy_samples(tmp_path / "data").parent
    file = folder / "policy.toml"
    text = file.read_text("utf-8")
    file.write_text(re.sub(r"epsilon = 2\.0", "epsilon = 1000", text), "utf-8")
    return file


def others(policy: Path) -> None:
    """Put other data in place of the staff."""
    file = policy.with_name("staff.parquet")
    pq.write_table(pq.read_table(file).slice(1), file)


def publish(policy: Path) -> None:
    assert run_verb(["policy", "publish", str(policy)]) == 0


def test_files_that_drifted_fail_in_the_same_words_until_they_are_published(policy: Path):
    with dpquery.connect(policy) as session:
        first = session.sql(COUNT)
        others(policy)
        said = set()
        for query in (PAID, COUNT.replace("0.5", "0.25"), COUNT + " WHERE age > 30"):
            with pytest.raises(ScanFailed) as failed:
                session.sql(query)
            own = "reference [0-9a-f]{8}|number [0-9]|[0-9.]+ spent.*"
            said.add(re.sub(own, "", str(failed.value)))
        assert len(said) == 1
        assert "version" not in said.pop()
        assert session.budget.spent.epsilon == Fraction("1.75"), "charges stay"
        assert session.sql(COUNT).rows == first.rows, "no file is looked at"
        session.sql("SELECT DP_COUNT(*, eps=0.5) FROM visits")
        publish(policy)
        assert session.sql(COUNT).loss.epsilon == Fraction(1, 2)
    log = policy.with_name("policy.ledger.faults").read_text("utf-8").splitlines()
    assert len(log) == 3
    assert f"dpquery policy publish {policy}" in json.loads(log[0])["fault"]
    assert "data version 0" in json.loads(log[0])["fault"]


def test_drift_is_found_by_another_session_and_ended_by_the_old_files(policy: Path):
    with dpquery.connect(policy) as session:
        session.sql(COUNT)
    shutil.copy2(policy.with_name("staff.parquet"), policy.with_name("kept"))
    others(policy)
    with dpquery.connect(policy) as session:
        with pytest.raises(ScanFailed):
            session.sql(PAID)
        os.replace(policy.with_name("kept"), policy.with_name("staff.parquet"))
        session.sql(PAID)


@pytest.mark.parametrize("how", ["copied", "touched", "moved"])
def test_the_same_bytes_are_no_drift(policy: Path, how: str):
    with dpquery.connect(policy) as session:
        session.sql(COUNT)
    file = policy.with_name("staff.parquet")
    if how == "copied":
        shutil.copy(file, policy.with_name("copy"))
        os.replace(policy.with_name("copy"), file)
    elif how == "touched":
        os.utime(file, (1, 1))
    else:
        policy = policy.parent.rename(policy.parent.with_name("moved")) / policy.name
    with dpquery.connect(policy) as session:
        session.sql(PAID)


def test_check_fails_where_files_are_not_those_that_queries_ask(policy: Path, capsys):
    def check() -> tuple[int, str]:
        return run_verb(["policy", "check", str(policy)]), capsys.readouterr().out

    assert check()[0] == 0
    assert not policy.with_name("policy.ledger").exists(), "to look makes no ledger"
    with dpquery.connect(policy) as session:
        session.sql(COUNT)
    states = policy.with_name("policy.ledger").read_bytes()
    file = policy.with_name("staff.parquet")
    os.utime(file, (1, 1))
    assert check()[0] == 0
    others(policy)
    code, told = check()
    fault = "fault: staff: the files of 'staff' are not those of data version 0; if they are"
    assert code == 2
    assert told.startswith(f"{fault} to be asked about: dpquery policy publish {policy}; until")
    assert policy.with_name("policy.ledger").read_bytes() == states
    publish(policy)
    assert check()[0] == 0


def test_one_more_file_of_a_glob_is_drift(policy: Path):
    text = policy.read_text("utf-8").replace('"staff.parquet"', '"staff*.parquet"')
    policy.write_text(text, "utf-8")
    with dpquery.connect(policy) as session:
        first = session.sql(COUNT)
    shutil.copy(policy.with_name("staff.parquet"), policy.with_name("staff-2.parquet"))
    with dpquery.connect(policy) as session:
        with pytest.raises(ScanFailed):
            session.sql(PAID)
        assert session.sql(COUNT).rows == first.rows


def test_both_ends_of_a_large_file_and_its_size_tell_its_bytes(tmp_path: Path):
    file, size = tmp_path / "large", 5 * 2**20
    seen = set()
    for place in (0, 2**20 - 1, size - 2**20, size - 1, size):
        content = bytearray(size + (place == size))
        content[place % len(content)] = 1
        file.write_bytes(content)
        seen.add(about_bytes(file))
    assert len(seen) == 5


def test_any_write_to_a_database_is_drift(policy: Path):
    database = policy.with_name("staff.duckdb")
    with closing(duckdb.connect(str(database))) as made:
        made.execute(f"CREATE TABLE staff AS FROM '{policy.with_name('staff.parquet')}'")
    source = 'database = "staff.duckdb"\ntable = "staff"'
    text = policy.read_text("utf-8").replace('path = "staff.parquet"', source)
    policy.write_text(text, "utf-8")
    with dpquery.connect(policy) as session:
        session.sql(COUNT)
        session.sql(PAID)
    with closing(duckdb.connect(str(database))) as made:
        made.execute("UPDATE staff SET age = age + 1 WHERE person_id = 1")
    with dpquery.connect(policy) as session:
        with pytest.raises(ScanFailed):
            session.sql(PAID)
        publish(policy)
        session.sql(PAID)


def test_ones_own_files_may_change(policy: Path):
    staff = policy.with_name("staff.parquet")
    with dpquery.connect(staff, unit="person_id", rows_per_unit=1, epsilon=9) as session:
        session.sql(COUNT)
        others(policy)
        session.sql(PAID)


def test_what_a_stream_has_paid_for_is_read_under_the_version_of_now(policy: Path):
    with dpquery.connect(policy) as session:
        session.sql(COUNT)
        others(policy)
        publish(policy)
        stream = session.above_threshold(10**6, eps=1)
        assert not stream.ask("staff")
        assert not stream.ask("staff", "age > 30")
        others(policy)
        with pytest.raises(ScanFailed):
            stream.ask("staff", "age > 40")


@pytest.mark.parametrize("engine", ["duckdb", "python"])
def test_each_engine_looks(policy: Path, engine: str):
    with Session(Database(load_policy(policy), engine=engine), "default", None) as session:
        session.sql(COUNT)
        others(policy)
        with pytest.raises(ScanFailed):
            session.sql(PAID)


def test_states_are_in_the_ledger_alone_and_never_changed(policy: Path):
    with dpquery.connect(policy) as session:
        session.sql(COUNT)
        session.sql("SELECT DP_COUNT(*, eps=0.5) FROM visits")
    ledger = policy.with_name("policy.ledger")
    assert ledger.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(ledger)) as file:
        assert file.execute("SELECT count(*) FROM states WHERE version >= 0").fetchone() == (2,)
        for change in ("UPDATE states SET version = 1", "DELETE FROM states"):
            with pytest.raises(sqlite3.Error, match="states are never"):
                file.execute(change)
        file.rollback()
        assert run_verb(["ledger", "verify", str(policy)]) == 0
        file.execute("DROP TRIGGER no_update_of_states")
        file.execute("UPDATE states SET state = replace(state, '1', '2')")
        file.commit()
    with pytest.raises(PolicyInvalid) as refused:
        run_verb(["ledger", "verify", str(policy)])
    assert refused.value.code == "DPQ605"
    with dpquery.connect(policy) as session, pytest.raises(PolicyInvalid):
        session.sql(PAID)


def test_the_first_of_two_states_stands(policy: Path):
    with dpquery.connect(policy) as session:
        ledger = session._ledger

        def late() -> str:
            return ledger.first_state(0, "here", lambda: "first") + " of two"

        assert ledger.first_state(0, "here", late) == "first"
        assert ledger.first_state(1, "here", lambda: "other") == "other"
