"""What goes wrong after the charge: one constant text, the charge kept, a log for the owner."""

from __future__ import annotations

import importlib
import json
import re
import stat
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

import duckdb
import pyarrow as pa
import pytest

from dpquery.budget.ledger.ledger import open_ledger
from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP
from dpquery.engine import ENGINES, open_engine
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb import private_engine as private
from dpquery.engine.duckdb import scan_sql as scan
from dpquery.errors import InternalError, ScanFailed
from dpquery.ir.measures import TableWeight, Weight
from dpquery.policy.model import Column, DatabaseTable, LedgerSettings, Table
from tests.worlds import (
    ALICE,
    LIMITS,
    planned,
    policy_of,
    private_table,
    receipt_for,
    world,
    write,
)

ALL = "SELECT DP_COUNT(*, eps=1) FROM t"
X = Column("x", INTEGER)
CANARY = "canary of Ann 4711"


def failure_of(call) -> ScanFailed:
    with pytest.raises(ScanFailed) as caught:
        call()
    assert caught.value.code == "DPQ701"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def text_of(failure: ScanFailed) -> str:
    return re.sub(r"reference [0-9a-f]{8}", "reference ########", str(failure))


CONSTANT = (
    "failed[DPQ701]: the scan did not finish\n"
    "   why: reading the private tables broke off: time, memory or disk may have run out, or\n"
    "        the files are not what the policy says. What the engine said is kept from you,\n"
    "        because it may quote rows; the data owner can read it in the log of faults.\n"
    "   try: ask the data owner, with reference ########"
)


def garbled(path: Path) -> None:
    path.write_bytes(b"PAR1" + b"\0" * 64 + CANARY.encode() + b"PAR1")


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def broken_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4:40] = b"\xff" * 36
    path.write_bytes(data)


SPOILED = {
    "deleted": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "garbled": garbled,
    "torn": torn,
    "broken pages": broken_pages,
    "another type": lambda path: write(path, unit=[1], x=[1.5], s=["a"]),
    "another unit type": lambda path: write(path, unit=["1"], x=[1], s=["a"]),
    "a column gone": lambda path: write(path, unit=[1], s=["a"]),
    "two of a name": lambda path: write(path, unit=[1], x=[1], X=[1], s=["a"]),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_a_file_that_cannot_be_read_fails_with_one_text_and_keeps_the_charge(
    engine, tmp_path: Path, spoil
):
    """I2 and I11, for what is found only after the charge."""
    path = write(tmp_path / "t.parquet", unit=[1], x=[4711], s=[CANARY])
    ledger = open_ledger(LedgerSettings(tmp_path / "ledger"))
    log = tmp_path / "faults"
    with world(engine, private_table([path], [X, Column("s", TEXT)]), log) as small:
        spoil(path)
        plan = planned(small.policy, "SELECT DP_COUNT(*, eps=1) FROM t WHERE s > 'a' AND x > 0")
        receipt = receipt_for(plan, ledger)
        failure = failure_of(lambda: small.engine.open(plan.frontiers[0].scan, receipt, 0))
    assert text_of(failure) == CONSTANT
    assert ledger.standing(LIMITS, ALICE).spent.epsilon == Fraction(1)
    (line,) = map(json.loads, log.read_text("utf-8").splitlines())
    assert line["reference"] in str(failure)
    assert line["fault"] not in str(failure)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    ledger.close()


SECRET = "5ec0" * 16


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DP_COUNT(DISTINCT s, eps=1) FROM t",
        "SELECT s, DP_COUNT(*, eps=1) FROM t GROUP BY DP_KEYS(s, eps=1, delta=1e-6)",
    ],
)
def test_a_fault_does_not_quote_the_secret_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
):
    """Nor could it: DuckDB quotes the text of a query, and the secret is in none."""
    path = write(tmp_path / "t.parquet", unit=[1], x=[1], s=["a"])
    policy, log = policy_of(private_table([path], [X, Column("s", TEXT)])), tmp_path / "faults"
    hashed = scan.hashed_sql
    monkeypatch.setattr(scan, "hashed_sql", lambda *a: hashed(*a).replace("sha256", "absent"))
    monkeypatch.setattr(private.Verifier, "require", lambda *_: None)
    plan = planned(policy, text)
    receipt, asked = receipt_for(plan), plan.frontiers[0].scan
    opened = open_engine("duckdb", policy, FaultLog(log), secret=SECRET)

    def count():
        with opened.open(asked, receipt, 0) as exact:
            exact.counts(asked.measures[0])

    failure_of(count)
    (line,) = map(json.loads, log.read_text("utf-8").splitlines())
    assert "absent" in line["fault"]
    assert "LINE 1" in line["fault"]
    assert SECRET[:8] not in line["fault"]
    opened.close()


def test_placing_values_takes_no_longer_than_a_query_may(tmp_path: Path, monkeypatch):
    """A clock that stands at the end of all time is that of a scan that takes too long."""
    path = write(tmp_path / "t.parquet", unit=[1, 1], x=[1, 2])
    log, clock = tmp_path / "faults", iter([0.0, 1e9])
    monkeypatch.setattr(private, "monotonic", lambda: next(clock))
    with world("duckdb", private_table([path], [X]), log) as small:
        plan = planned(small.policy, "SELECT DP_COUNT(DISTINCT x, eps=1) FROM t")
        receipt = receipt_for(plan)
        failure = failure_of(lambda: small.engine.open(plan.frontiers[0].scan, receipt, 0))
    assert text_of(failure) == CONSTANT
    assert "TimeoutError" in log.read_text("utf-8")


WRONG = {
    "double as integer": (pa.array([1.0]), INTEGER),
    "unsigned 64 as integer": (pa.array([1], pa.uint64()), INTEGER),
    "text as double": (pa.array(["1"]), DOUBLE),
    "integer as text": (pa.array([1]), TEXT),
    "integer as boolean": (pa.array([1]), BOOLEAN),
    "date as timestamp": (pa.array([2**31 - 2], pa.int32()).cast(pa.date32()), TIMESTAMP),
    "timestamp as date": (pa.array([0], pa.timestamp("us")), DATE),
    "zoned as timestamp": (pa.array([1], pa.timestamp("us", "UTC")), TIMESTAMP),
    "list as text": (pa.array([["a"]]), TEXT),
}


@pytest.mark.parametrize(("cells", "type_"), WRONG.values(), ids=WRONG.keys())
def test_a_type_that_does_not_widen_fails_whatever_the_query(
    engine, tmp_path: Path, cells, type_
):
    path = write(tmp_path / "t.parquet", unit=[1], x=cells)
    with world(engine, private_table([path], [Column("x", type_)])) as small:
        assert text_of(failure_of(lambda: small.exact(ALL))) == CONSTANT


def test_a_file_that_changes_during_the_scan_fails(engine, tmp_path: Path, monkeypatch):
    path = write(tmp_path / "t.parquet", unit=[1], x=[1])
    module = importlib.import_module("dpquery.engine.file_checks")
    taken = []

    def fingerprint(table: Table) -> object:
        taken.append(real(table))
        if len(taken) == 1:
            write(path, unit=[1, 2], x=[1, 2])
        return taken[-1]

    real = module.fingerprint
    monkeypatch.setattr(module, "fingerprint", fingerprint)
    with world(engine, private_table([path], [X])) as small:
        assert text_of(failure_of(lambda: small.exact(ALL))) == CONSTANT
        assert small.exact(ALL) == [2 * 2**32]


@pytest.mark.parametrize("place", ["a directory that is not there", "a link", "none"])
def test_a_log_that_cannot_be_written_changes_nothing_for_the_analyst(
    engine, tmp_path: Path, place
):
    (tmp_path / "elsewhere").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    log = {"a link": tmp_path / "link", "none": None}.get(place, tmp_path / "no" / "log")
    path = write(tmp_path / "t.parquet", unit=[1], x=[1])
    with world(engine, private_table([path], [X]), log) as small:
        path.unlink()
        assert text_of(failure_of(lambda: small.exact(ALL))) == CONSTANT
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_receipt_opens_each_frontier_once(engine, tmp_path: Path):
    """I3; what is not covered is refused before any file is touched."""
    path = write(tmp_path / "t.parquet", unit=[1], x=[1])
    with world(engine, private_table([path], [X])) as small:
        plan = planned(small.policy, ALL)
        receipt, scan = receipt_for(plan), plan.frontiers[0].scan
        small.engine.open(scan, receipt, 0).close()
        path.unlink()
        for frontier in (0, 1, -1):
            with pytest.raises(InternalError, match=r"\(I3\)"):
                small.engine.open(scan, receipt, frontier)


@pytest.mark.parametrize(("paid", "weights"), [(Weight, TableWeight), (TableWeight, Weight)])
def test_a_receipt_covers_one_way_to_weigh_rows(paid: type[Weight], weights: type[Weight]):
    """I3; what a search finds is not known when it is paid for: the scale, and no more."""
    asked = ", weights='table'" if paid is TableWeight else ""
    query = f"SELECT DP_SUM(x, eps=1, bounds='auto'{asked}) FROM t"
    plan = planned(policy_of(private_table([], [X])), query)
    scan, receipt = plan.frontiers[0].scan, receipt_for(plan)
    (measure,) = scan.measures
    assert type(measure.weight) is paid
    for wrong in (weights(1, measure.weight.scale), paid(2, 3)):
        with pytest.raises(InternalError, match=r"\(I3\)"):
            receipt.open(0, replace(scan, measures=(replace(measure, weight=wrong),)))
    receipt.open(0, replace(scan, measures=(replace(measure, weight=paid(1, 3)),)))


def test_starting_an_engine_opens_no_file(engine, tmp_path: Path):
    """I1: a path that is not there is found by the first scan and not before."""
    with world(engine, private_table([tmp_path / "none.parquet"], [X])) as small:
        planned(small.policy, ALL)
        failure_of(lambda: small.exact(ALL))


def test_closing_twice_is_fine(engine, tmp_path: Path):
    path = write(tmp_path / "t.parquet", unit=[1], x=[1])
    with world(engine, private_table([path], [X])) as small:
        small.exact(ALL)
        small.engine.close()
        small.engine.close()


def test_a_table_of_a_database_is_read_by_one_engine_and_fails_in_the_others(
    engine, tmp_path: Path
):
    source = DatabaseTable(tmp_path / "none.duckdb", "people")
    table = Table("t", source, (), {"x": X}, "unit", INTEGER, max_rows_contributed=1)
    opened = open_engine(engine, policy_of(table), FaultLog(None))
    plan = planned(policy_of(table), ALL)
    failure = failure_of(lambda: opened.open(plan.frontiers[0].scan, receipt_for(plan), 0))
    assert text_of(failure) == CONSTANT
    assert engine in ENGINES


def test_an_instance_that_broke_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write(tmp_path / "t.parquet", unit=[1, 2], x=[1, 2])

    def broken(*_: object) -> NoReturn:
        raise duckdb.FatalException("the database has been invalidated")

    with world("duckdb", private_table([path], [X])) as small:
        before = small.exact(ALL)
        connection = small.engine._connection
        with monkeypatch.context() as patch:
            patch.setattr(private, "execute", broken)
            with pytest.raises(ScanFailed):
                small.exact(ALL)
        assert small.exact(ALL) == before
        assert small.engine._connection is not connection


@pytest.mark.parametrize("text", ["one", "x" * 60_000, "zwei\nLinien – ä"])
def test_a_fault_is_noted_again_only_after_another_one(tmp_path: Path, text: str) -> None:
    log, path = FaultLog(tmp_path / "faults"), tmp_path / "faults"
    path.write_bytes(b"\xff no line of ours\n")
    for fault in [ValueError(text)] * 3 + [ValueError("other")] + [ValueError(text)] * 2:
        log.note_once(fault)
    lines = path.read_bytes().split(b"\n")[1:-1]
    found = [json.loads(line)["fault"].removeprefix("ValueError: ") for line in lines]
    assert found == [text, "other", text]


def test_a_log_that_cannot_be_read_or_written_stops_nothing(tmp_path: Path) -> None:
    FaultLog(None).note_once(ValueError("one"))
    FaultLog(tmp_path).note_once(ValueError("one"))
    FaultLog(tmp_path / "missing" / "faults").note_once(ValueError("one"))
