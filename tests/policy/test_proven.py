"""That each unit has one row is counted once for each state of the files, by some session."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.core.types import INTEGER
from dpquery.engine.duckdb import private_engine
from dpquery.engine.duckdb.connection import execute
from dpquery.engine.file_checks import Fingerprint, _bytes, claim_of, fingerprint
from dpquery.errors import ScanFailed
from dpquery.policy.load import load_policy
from dpquery.policy.model import Csv, Files, Frame, Through
from dpquery.policy.sources import parquet_footers
from dpquery.shell.main import run_verb

POLICY = """
[privacy]
neighbours = "add-remove"
[budget]
epsilon = 1000
[limits]
max_failures = 100
[tables.t]
path = "t.parquet"
privacy_unit_column = "unit"
rows_per_unit = 1
[tables.t.columns]
x = { type = "integer", bounds = [0, 9] }
"""
COUNT = "REFRESH SELECT DP_COUNT(*, eps=0.5) FROM t"
UNITS = [*range(100)]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.toml"
    file.write_text(POLICY)
    save(file, UNITS)
    return file


def save(policy: Path, units: list[int]) -> Path:
    """Write units where each has its place in the file, so that bytes can be exchanged."""
    file, whole = policy.with_name("t.parquet"), pa.int64()
    columns = {"unit": pa.array(units, whole), "other": pa.array(UNITS, whole)}
    rows = pa.table({**columns, "x": pa.array([1] * len(units), whole)})
    pq.write_table(
        rows, file, use_dictionary=False, compression="none", column_encoding="PLAIN"
    )
    return file


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the statements that count units, as they are run; files are settled at once."""
    found = list[str]()

    def noted(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyConnection:
        if "count(DISTINCT" in sql:
            found.append("t")
        return execute(connection, sql)

    monkeypatch.setattr(private_engine, "execute", noted)
    monkeypatch.setattr(parquet_footers, "SETTLED", -(10**12))
    return found


def asked(policy: Path, times: int = 1) -> None:
    with dpquery.connect(policy) as session:
        for _ in range(times):
            session.sql(COUNT)


def test_units_are_counted_by_the_first_of_all_sessions(policy: Path, counted: list[str]):
    for _ in range(3):
        asked(policy, 2)
    assert counted == ["t"]
    assert run_verb(["policy", "publish", str(policy)]) == 0
    asked(policy)
    assert counted == ["t"], "they are the same files"
    assert run_verb(["ledger", "verify", str(policy)]) == 0


@pytest.mark.parametrize("how", ["copied", "touched", "written"])
def test_units_of_any_other_file_are_counted(policy: Path, counted: list[str], how: str):
    asked(policy)
    file = policy.with_name("t.parquet")
    match how:
        case "copied":
            shutil.copy2(file, policy.with_name("copy"))
            policy.with_name("copy").replace(file)
        case "touched":
            os.utime(file)
        case "written":
            save(policy, UNITS)
    asked(policy)
    assert counted == ["t", "t"]


def test_a_file_that_only_seems_to_be_the_same_is_counted(policy: Path, counted: list[str]):
    """One row is given to another unit, and the file has the place, size, time and footer."""
    asked(policy)
    file, table = policy.with_name("t.parquet"), load_policy(policy).tables["t"]
    before, seen = fingerprint(table), file.stat()
    bytes_, unit = file.read_bytes(), (50).to_bytes(8, "little")
    assert bytes_.count(unit) == 2  # once in each column
    with file.open("r+b") as changed:
        changed.seek(bytes_.index(unit))
        changed.write((51).to_bytes(8, "little"))
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert fingerprint(table) == before
    for _ in range(2):  # what does not hold is not remembered either
        with dpquery.connect(policy) as session, pytest.raises(ScanFailed):
            session.sql(COUNT)
    assert counted == ["t"] * 3


def test_what_does_not_hold_fails_in_the_same_words_each_time(policy: Path, counted: list[str]):
    save(policy, [0, 0, *UNITS[2:]])
    said = set()
    for _ in range(3):
        with dpquery.connect(policy) as session, pytest.raises(ScanFailed) as failed:
            session.sql(COUNT)
        own = "reference [0-9a-f]{8}|number [0-9]|[0-9.]+ spent.*"
        said.add(re.sub(own, "", str(failed.value)))
    assert len(said) == 1
    assert counted == ["t"] * 3


def test_files_that_change_while_they_are_counted_are_counted_again(
    policy: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
):
    count = private_engine.execute

    def and_written(connection: duckdb.DuckDBPyConnection, sql: str) -> object:
        found = count(connection, sql)
        save(policy, UNITS)
        return found

    with monkeypatch.context() as patched, dpquery.connect(policy) as session:
        patched.setattr(private_engine, "execute", and_written)
        with pytest.raises(ScanFailed):
            session.sql(COUNT)
    asked(policy)
    assert counted == ["t", "t"]


def test_files_that_were_just_changed_are_counted_again(
    policy: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
):
    """Two states within one tick of the clock could not be told apart."""
    monkeypatch.setattr(parquet_footers, "SETTLED", 10**15)
    asked(policy)
    asked(policy)
    assert counted == ["t", "t"]


def test_a_claim_names_the_rows_and_the_state(policy: Path, counted: list[str]):
    table = load_policy(policy).tables["t"]
    state, other = fingerprint(table), Fingerprint(((1, 2, 3, 4, "5"),))
    first = claim_of("SELECT 1", table, state)
    assert first == claim_of("SELECT 1", replace(table, name="u"), state)
    assert claim_of("SELECT 2", table, state) != first != claim_of("SELECT 1", table, other)
    assert claim_of("SELECT 1", replace(table, source=Frame(None)), state) is None
    lines = replace(table, source=Files(table.source.paths, Csv()))
    assert claim_of("SELECT 1", lines, state) is None
    through = replace(
        table, through=Through("x", replace(table, source=Frame(None)), "x", INTEGER)
    )
    assert claim_of("SELECT 1", through, state) is None


def test_units_of_a_frame_are_counted_by_each_session(policy: Path, counted: list[str]):
    """Two frames have no state to tell them by."""
    for units in ([1, 2], [1, 1]):
        settings = {
            "unit": "unit",
            "rows_per_unit": 1,
            "epsilon": 9,
            "ledger": policy.with_name("l"),
        }
        rows = pa.table({"unit": units, "x": [1, 2]})
        with (
            dpquery.connect({"t": rows}, **settings) as session,
            pytest.raises(ScanFailed) if units == [1, 1] else nullcontext(),
        ):
            session.sql(COUNT)
    assert counted == ["t", "t"]


def test_own_files_are_counted_once_where_there_is_a_ledger(policy: Path, counted: list[str]):
    settings = {
        "unit": "unit",
        "rows_per_unit": 1,
        "epsilon": 9,
        "ledger": policy.with_name("l"),
    }
    for _ in range(2):
        with dpquery.connect(policy.with_name("t.parquet"), **settings) as session:
            session.sql(COUNT)
    assert counted == ["t"]


def test_all_bytes_of_lines_behind_a_way_are_told_apart(policy: Path):
    table = load_policy(policy).tables["t"]
    claims = policy.with_name("claims.csv")
    claims.write_bytes(b"x,unit\n" + b"1,1\n" * 2**20)
    lines = replace(table, source=Files((claims,), Csv()))
    led = replace(table, through=Through("x", lines, "x", INTEGER))
    before = _bytes(led, fingerprint(led))
    changed = bytearray(claims.read_bytes())
    changed[2**21 + 3] = ord("2")
    claims.write_bytes(changed)
    assert _bytes(led, fingerprint(led)) != before
