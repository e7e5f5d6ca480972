"""Failures after a charge are rationed: however they come, an analyst has few of them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpquery
from dpquery.budget.ledger import attempts as attempts_module
from dpquery.budget.ledger import ledger as ledger_module
from dpquery.budget.ledger import store as store_module
from dpquery.budget.ledger.attempts import (
    Attempt,
    decode_attempts,
    encode_attempts,
    is_gone,
    this_process,
)
from dpquery.budget.ledger.charge_and_receipt import FailureLimit, Opened, Receipt
from dpquery.budget.ledger.ledger import Ledger
from dpquery.cache import lookup
from dpquery.engine.duckdb import public_engine as public
from dpquery.errors import BudgetRefused, DPQueryError, ScanFailed
from dpquery.shell.main import main
from tests.ledger.helpers import ALICE, BOB, ROOT, limits, open_at, pure, start
from tests.samples import edit, sample_policy

COUNT = "SELECT DP_COUNT(*, eps=1e-9) AS n FROM staff"
FIVE = replace(limits(), failures=FailureLimit(5, 600))
OPENED = Opened("id", "alice")
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def policy(tmp_path):
    return sample_policy(tmp_path, "epsilon = 1000")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(ledger_module, "_PATIENCE", 0.05)


def failing(session, monkeypatch, fault=RuntimeError, honest=0):
    """Have the engine fail after some scans that do not."""
    opened, asked = session._engine.open, []

    def open_(*arguments):
        asked.append(arguments)
        if len(asked) > honest:
            raise fault("a person's bit")
        return opened(*arguments)

    monkeypatch.setattr(session._engine, "open", open_)
    return asked


def outcomes(session, tries, query=COUNT):
    """Ask again and again, as somebody does who reads the outcome and not the answer."""
    found = []
    for _ in range(tries):
        try:
            session.sql(query, refresh=True)
        except DPQueryError as fault:
            found.append(fault.code)
        else:
            found.append("answer")
    return found


def code_of(call):
    with pytest.raises(DPQueryError) as caught:
        call()
    return caught.value.code


def test_a_failure_that_tells_a_bit_tells_five(policy, monkeypatch):
    """The attack: an engine that fails exactly if the person is in, asked 100 times."""
    with dpquery.connect(policy) as session:
        assert outcomes(session, 10) == ["answer"] * 10
        failing(session, monkeypatch)
        assert outcomes(session, 100) == ["DPQ701"] * 5 + ["DPQ505"] * 95
    with dpquery.connect(policy) as session:  # a new session has no new failures
        assert outcomes(session, 2) == ["DPQ505"] * 2


def test_failures_between_answers_are_as_many(policy, monkeypatch):
    with dpquery.connect(policy) as session:
        asked = failing(session, monkeypatch)
        honest = session._engine.open
        seen = []
        for turn in range(40):
            if turn % 3:
                monkeypatch.undo()
            else:
                monkeypatch.setattr(session._engine, "open", honest)
            seen += outcomes(session, 1)
        assert seen.count("DPQ701") == len(asked) == 5
        assert set(seen[13:]) == {"DPQ505"}


def test_the_texts_say_how_failures_are_counted_and_what_ends_it(policy, monkeypatch):
    with dpquery.connect(policy) as session:
        failing(session, monkeypatch)
        with pytest.raises(ScanFailed) as caught:
            session.sql(COUNT)
        assert (
            "        failures are counted: this is number 1 of 5 within 24 hours;\n"
            "        then nothing more is read for you until the data owner thaws the budget.\n"
        ) in str(caught.value)
        assert session.sql("SHOW BUDGET").to_dicts()[0]["failures"] == "1 of 5 within 24 hours"
        assert "1 of 5 statements failed within 24 hours" in str(session.explain(COUNT))
        outcomes(session, 3)
        with pytest.raises(ScanFailed) as last:
            session.sql(COUNT, refresh=True)
        assert (
            "this is number 5 of 5 within 24 hours;\n        nothing more is read for you until"
        ) in str(last.value)
        with pytest.raises(BudgetRefused) as refused:
            session.sql(COUNT)
        assert f"\n   try: dpquery ledger thaw {policy}\n" in str(refused.value)
        frozen = session.sql("SHOW BUDGET").to_dicts()[0]["frozen"]
        assert frozen == "after 5 failures: no query is charged"


@pytest.mark.parametrize("ledger", [None, "mine.ledger"])
def test_who_asks_files_of_their_own_is_sent_to_nobody_else(policy, monkeypatch, ledger):
    place = None if ledger is None else policy.parent / ledger
    own = {"unit": "person_id", "rows_per_unit": 1, "epsilon": 9, "ledger": place}
    with dpquery.connect(policy.parent / "staff.parquet", **own) as session:
        failing(session, monkeypatch)
        with pytest.raises(ScanFailed) as caught:
            session.sql(COUNT)
    text = str(caught.value)
    assert "data owner" not in text
    assert "\n   try: --rows auto in place of --rows-per-unit 1, unless each unit" in text
    if place is None:
        assert "\n        --ledger FILE: the cause is then kept in FILE.faults" in text
        assert "nothing more is read for you in this session." in text
    else:
        log = place.with_name("mine.ledger.faults")
        (line,) = log.read_text().splitlines()
        reference = json.loads(line)["reference"]
        assert f"\n        look for reference {reference} in {log}\n" in text
        assert "until you thaw the ledger." in text


def test_several_rows_of_a_unit_are_thought_of_only_where_one_is_declared(policy, monkeypatch):
    """The words follow from what was declared, whatever the files hold."""
    own = {"unit": "person_id", "max_rows_contributed": 5, "epsilon": 9}
    with dpquery.connect(policy.parent / "staff.parquet", **own) as session:
        failing(session, monkeypatch)
        with pytest.raises(ScanFailed) as caught:
            session.sql(COUNT)
    assert "one row" not in str(caught.value)
    assert "\n   try: --ledger FILE" in str(caught.value)


def test_the_owner_thaws_by_the_command_of_the_refusal(policy, monkeypatch, capsys):
    with dpquery.connect(policy) as session:
        failing(session, monkeypatch)
        outcomes(session, 5)
        with pytest.raises(BudgetRefused) as refused:
            session.sql(COUNT)
        command = refused.value.diagnostic.remedy[0].split()[1:]
        assert main(["ledger", "show", str(policy)]) == 0
        shown = capsys.readouterr().out
        assert "-- frozen after 5 failures" in shown
        assert "\nfrozen after 5 failures: default\n" in shown
        assert main(command) == 0
        assert capsys.readouterr().out == "thawed: queries are charged again\n"
        assert main(command) == 0
        assert capsys.readouterr().out == "not frozen\n"
        assert outcomes(session, 6) == ["DPQ701"] * 5 + ["DPQ505"]
        assert session._ledger.verify() == 10


def test_nobody_freezes_anybody_else(policy, monkeypatch):
    two = "[analysts.al]\nepsilon = 9\n[analysts.bo]\nepsilon = 9\n"
    edit(policy, "[tables.staff]", f"{two}[tables.staff]")
    with (
        dpquery.connect(policy, analyst="al") as al,
        dpquery.connect(policy, analyst="bo") as bo,
    ):
        failing(al, monkeypatch)
        outcomes(al, 6)
        assert outcomes(bo, 6) == ["answer"] * 6
        with pytest.raises(BudgetRefused) as refused:
            al.sql(COUNT)
        remedy = refused.value.diagnostic.remedy[0]
        assert remedy.endswith(" --analyst al")
        failing(bo, monkeypatch)
        outcomes(bo, 6)
        assert main(remedy.split()[1:]) == 0
        assert outcomes(al, 1) == ["DPQ701"]
        assert outcomes(bo, 1) == ["DPQ505"]


def test_the_policy_says_how_many(policy, monkeypatch):
    edit(policy, "[tables.staff]", "[limits]\nmax_failures = 2\n[tables.staff]")
    with dpquery.connect(policy) as session:
        failing(session, monkeypatch)
        assert outcomes(session, 4) == ["DPQ701"] * 2 + ["DPQ505"] * 2


@pytest.mark.parametrize("value", ["0", "101", "-1", "true", '"5"', "1.5"])
def test_a_number_of_failures_that_says_nothing_is_refused(policy, value):
    edit(policy, "[tables.staff]", f"[limits]\nmax_failures = {value}\n[tables.staff]")
    assert code_of(lambda: dpquery.connect(policy)) == "DPQ604"


def test_what_costs_nothing_is_still_answered(policy, monkeypatch):
    with dpquery.connect(policy) as session:
        known = session.sql(COUNT).rows
        failing(session, monkeypatch)
        outcomes(session, 5)
        assert session.sql(COUNT).rows == known
        assert session.explain(COUNT.replace("1e-9", "1e-8")).charge.epsilon
        assert outcomes(session, 1, "SELECT DP_COUNT(*, eps=1e-8) FROM staff") == ["DPQ505"]


def test_later_questions_of_a_stream_are_counted_too(policy, monkeypatch):
    """They are free, and each scans: without a count they would tell without end."""
    with dpquery.connect(policy) as session:
        stream = session.above_threshold(10**9, eps=0.5)
        assert not stream.ask("staff")
        failing(session, monkeypatch, honest=1)
        assert not stream.ask("staff")
        codes = [code_of(lambda: stream.ask("staff")) for _ in range(8)]
        assert codes == ["DPQ701"] * 5 + ["DPQ505"] * 3


def test_who_stops_a_statement_has_not_failed(policy, monkeypatch):
    with dpquery.connect(policy) as session:
        failing(session, monkeypatch, KeyboardInterrupt)
        for _ in range(8):
            with pytest.raises(KeyboardInterrupt):
                session.sql(COUNT)
        assert session._ledger.failures("default") == 0


def test_who_stops_a_statement_as_its_charge_is_durable_has_not_failed(policy, monkeypatch):
    with dpquery.connect(policy) as session:
        with monkeypatch.context() as patch:
            patch.setattr(ledger_module, "Receipt", _Stopped)  # made after the commit
            with pytest.raises(KeyboardInterrupt, match="SHOW LEDGER says whether"):
                session.sql(COUNT)
        assert len(session.ledger()) == 1
        store = session._ledger._store
        assert store.attempts.open(session._account.analyst) == []


@pytest.mark.parametrize("within", ["the engine", "what is around it", "planning"])
def test_what_a_library_says_of_a_signal_is_no_failure(policy, monkeypatch, within):
    """Where a signal finds it in the main thread, DuckDB raises something in its place."""

    def stopped(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    with dpquery.connect(policy) as session:
        place, said = {
            "the engine": ("_read_whole", "^stopped; "),
            "what is around it": ("open", "^stopped; "),
            "planning": ("rehearse", "^$"),
        }[within]
        monkeypatch.setattr(type(session._engine), place, stopped)
        with pytest.raises(KeyboardInterrupt, match=said):
            session.sql(COUNT)
        assert session._ledger.failures("default") == 0
        assert not list(policy.parent.glob("*.faults"))


def test_an_answer_too_long_to_be_kept_has_ended_as_well(policy, monkeypatch, impatient):
    monkeypatch.setattr(lookup, "MOST_STORED", 1)
    with dpquery.connect(policy) as session:
        assert outcomes(session, 7) == ["answer"] * 7
        account = session._account.analyst
        assert session._ledger._store.attempts.open(account) == []


def test_a_failure_that_cannot_be_counted_says_no_more_than_others(policy, monkeypatch):
    def exhausted(*_: object) -> int:
        raise MemoryError

    with dpquery.connect(policy) as session:
        failing(session, monkeypatch)
        monkeypatch.setattr(session._ledger, "fail", exhausted)
        with pytest.raises(ScanFailed) as failed:
            session.sql(COUNT)
        assert failed.value.__context__ is None


@pytest.mark.parametrize("fault", [MemoryError, SystemExit, GeneratorExit])
def test_whatever_else_ends_a_statement_counts(policy, monkeypatch, fault):
    with dpquery.connect(policy) as session:
        failing(session, monkeypatch, fault)
        for _ in range(5):
            with pytest.raises((ScanFailed, fault)):
                session.sql(COUNT)
        assert code_of(lambda: session.sql(COUNT)) == "DPQ505"


PUBLIC = "SELECT COUNT(*) AS n FROM regions"
WAITING = (
    "SELECT DP_COUNT(*, eps=1e-9) AS n FROM staff "
    "WHERE age > (SELECT DP_MEDIAN(age, eps=1e-9) FROM staff)"
)


@pytest.mark.parametrize("query", [COUNT, f"REFRESH {COUNT}", WAITING, PUBLIC])
def test_what_fails_with_released_values_is_counted(policy, monkeypatch, query):
    """The memory that is left, and the time, can depend on what was read before.

    Also where nothing is charged: a repeat, or a question about public tables, that failed as
    often as one likes would tell for nothing.
    """
    with dpquery.connect(policy) as session:
        monkeypatch.setattr(session._public, "accepts", lambda *_: True)
        monkeypatch.setattr(public, "lent", _OutOfMemory)
        found = outcomes(session, 8, query)
        assert found[:5] == ["DPQ702"] * 5
        assert set(found[5:]) <= {"DPQ702", "DPQ505"}
        assert session._ledger.failures("default") == 5
        assert outcomes(session, 1, ANOTHER) == ["DPQ505"]
        assert len(session._ledger._store.attempts.open("default")) == 5


ANOTHER = "SELECT DP_COUNT(*, eps=2e-9) FROM staff"


def test_its_words_count(policy, monkeypatch):
    with dpquery.connect(policy) as session:
        monkeypatch.setattr(session._public, "accepts", lambda *_: True)
        monkeypatch.setattr(public, "lent", _OutOfMemory)
        for number in (1, 2):  # the second one is a repeat, and free
            with pytest.raises(ScanFailed) as failed:
                session.sql(COUNT)
            said = "\n".join(failed.value.diagnostic.why)
            assert f"failures are counted: this is number {number} of 5 within 24 hours" in said
        assert len(session.ledger()) == 1


def test_who_stops_a_repeat_has_not_failed(policy, monkeypatch):
    with dpquery.connect(policy) as session:
        session.sql(COUNT)
        monkeypatch.setattr(public, "lent", _Stopped)
        with pytest.raises(KeyboardInterrupt):
            session.sql(COUNT)
        assert session._ledger.failures("default") == 0


class _Stopped:
    def __init__(self, *_):
        raise KeyboardInterrupt


class _OutOfMemory:
    def __init__(self, *_):
        raise MemoryError


def test_a_ledger_in_memory_counts_as_well(policy, monkeypatch):
    with dpquery.connect(str(policy.with_name("staff.parquet")), epsilon=9) as session:
        failing(session, monkeypatch)
        query = "SELECT DP_COUNT(*, eps=1) FROM staff"
        assert outcomes(session, 7, query) == ["DPQ701"] * 5 + ["DPQ505"] * 2


def test_a_ledger_without_a_policy_is_thawed_by_its_name(policy, monkeypatch, tmp_path):
    data, kept = str(policy.with_name("staff.parquet")), tmp_path / "my.ledger"
    query = "SELECT DP_COUNT(*, eps=0.1) FROM staff"
    with dpquery.connect(data, epsilon=9, ledger=kept) as session:
        failing(session, monkeypatch)
        outcomes(session, 5, query)
        with pytest.raises(BudgetRefused) as refused:
            session.sql(query)
        assert main(refused.value.diagnostic.remedy[0].split()[1:]) == 0
        assert outcomes(session, 1, query) == ["DPQ701"]


DYING = """
import os, signal, sys, dpquery
from dpquery.errors import BudgetRefused
session = dpquery.connect(sys.argv[1])
where = session._engine if sys.argv[2] == "reading" else session._ledger
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(where, "open" if sys.argv[2] == "reading" else "store", die)
try:
    session.sql("SELECT DP_COUNT(*, eps=1e-9) AS n FROM staff", refresh=True)
except BudgetRefused as refusal:
    sys.exit(refusal.code)
"""


def dying(policy, when):
    command = [sys.executable, "-c", DYING, str(policy), when]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["reading", "storing"])
def test_a_process_that_is_killed_has_failed(policy, when):
    """In whatever moment after the charge: nothing has to be written for it to count."""
    edit(policy, "[tables.staff]", "[limits]\nmax_failures = 3\n[tables.staff]")
    ended = []
    for _ in range(5):
        worker = dying(policy, when)
        ended.append((worker.communicate()[1].strip(), worker.returncode))
    assert ended == [("", -signal.SIGKILL)] * 3 + [("DPQ505", 1)] * 2


@pytest.mark.slow
def test_a_burst_of_kills_is_rationed_too(policy):
    workers = [dying(policy, "reading") for _ in range(10)]
    codes = [(worker.communicate()[1].strip(), worker.returncode) for worker in workers]
    assert codes.count(("", -signal.SIGKILL)) == 5
    assert codes.count(("DPQ505", 1)) == 5


@pytest.mark.parametrize("how", ["fail", pytest.param("answer", marks=pytest.mark.slow)])
def test_eight_processes_fail_exactly_five_times(place, tmp_path, how):
    workers = [start("attempt", place, how, 12) for _ in range(8)]
    found = [json.loads(worker.communicate(timeout=300)[0]) for worker in workers]
    made = sum(one["made"] for one in found)
    assert made == (5 if how == "fail" else 8 * 12)
    with closing(open_at(place)) as ledger:
        assert ledger.failures("alice") == (5 if how == "fail" else 0)
        assert ledger.verify() == made
        frozen = sum('"suspend"' in record.events for record in ledger.history())
        assert frozen == (how == "fail")


def test_statements_under_way_elsewhere_are_no_failures(place, impatient):
    """Four of five: the fifth is the last that may be under way, and one must end first."""
    with closing(open_at(place)) as ledger, closing(open_at(place)) as other:
        receipts = [ledger.charge(pure("0.1"), FIVE, ALICE) for _ in range(5)]
        assert other.failures("alice") == 0
        assert code_of(lambda: other.charge(pure("0.1"), FIVE, ALICE)) == "DPQ506"
        other.charge(pure("0.1"), FIVE, BOB)
        ledger.close_attempt(receipts.pop(), "stopped")
        receipts.append(other.charge(pure("0.1"), FIVE, ALICE))
        assert ledger.fail(receipts.pop(0), "alice", 5) == 1
        assert code_of(lambda: other.charge(pure("0.1"), FIVE, ALICE)) == "DPQ506"
        for receipt in receipts:
            ledger.close_attempt(receipt, "stopped")
        assert other.failures("alice") == 1
        assert other.charge(pure("0.1"), FIVE, ALICE)


def test_an_attempt_of_another_machine_counts_when_its_time_is_over(place, monkeypatch):
    clock = _Clock(monkeypatch)
    with closing(open_at(place)) as ledger:
        monkeypatch.setattr(attempts_module, "this_process", lambda: "another machine 1 2")
        ledger.charge(pure("0.1"), FIVE, ALICE)
        clock.time += timedelta(seconds=600 + 59)
        assert ledger.failures("alice") == 0
        clock.time += timedelta(seconds=2)
        assert ledger.failures("alice") == 1


def test_a_clock_that_is_set_back_forgives_nothing(place, monkeypatch):
    clock = _Clock(monkeypatch)
    with closing(open_at(place)) as ledger:
        for _ in range(4):
            ledger.fail(ledger.charge(pure("0.1"), FIVE, ALICE), "alice", 5)
        clock.time -= timedelta(days=400)
        assert ledger.failures("alice") == 4
        assert ledger.fail(ledger.charge(pure("0.1"), FIVE, ALICE), "alice", 5) == 5
        assert code_of(lambda: ledger.charge(pure("0.1"), FIVE, ALICE)) == "DPQ505"
        clock.time += timedelta(days=800)
        assert code_of(lambda: ledger.charge(pure("0.1"), FIVE, ALICE)) == "DPQ505"


def test_failures_under_a_clock_that_is_set_back_count_as_long(place, monkeypatch):
    """They are as late as what the ledger saw before them: to put it right ages nothing."""
    clock = _Clock(monkeypatch)
    with closing(open_at(place)) as ledger:
        for days in (0, 2, 0, 0):
            clock.time -= timedelta(days=days)
            ledger.fail(ledger.charge(pure("0.1"), FIVE, ALICE), "alice", 5)
        clock.time += timedelta(days=2, hours=1)
        assert ledger.failures("alice") == 4


def test_failures_count_for_a_day(place, monkeypatch):
    clock = _Clock(monkeypatch)
    with closing(open_at(place)) as ledger:
        for _ in range(4):
            ledger.fail(ledger.charge(pure("0.1"), FIVE, ALICE), "alice", 5)
        clock.time += timedelta(hours=23, minutes=59)
        assert ledger.failures("alice") == 4
        clock.time += timedelta(minutes=2)
        assert ledger.failures("alice") == 0


class _Clock:
    """Stands where the ledger looks at the time."""

    def __init__(self, monkeypatch):
        self.time = NOW
        for module in (attempts_module, store_module):
            monkeypatch.setattr(module, "datetime", self)

    def now(self, _):
        return self.time

    fromisoformat = staticmethod(datetime.fromisoformat)


def test_a_thaw_forgives_what_failed_and_not_what_is_under_way(place):
    with closing(open_at(place)) as ledger:
        running = ledger.charge(pure("0.1"), FIVE, ALICE)
        for _ in range(3):
            ledger.fail(ledger.charge(pure("0.1"), FIVE, ALICE), "alice", 5)
        assert ledger.thaw()
        assert not ledger.thaw()
        assert ledger.failures("alice") == 0
        assert ledger.fail(running, "alice", 5) == 1
        ledger.verify()


def test_a_changed_attempt_is_noticed(tmp_path):
    path = tmp_path / "policy.ledger"
    with closing(open_at(path)) as ledger:
        for _ in range(5):
            ledger.fail(ledger.charge(pure("0.1"), FIVE, ALICE), "alice", 5)
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.execute("DROP TRIGGER no_update_of_attempts")
        sql.execute("UPDATE attempts SET open = '[]'")
    with closing(open_at(path)) as ledger:
        assert (
            code_of(lambda: ledger.fail(Receipt(pure("0.1"), "", 0, OPENED), "alice", 5))
            == "DPQ605"
        )
        assert code_of(ledger.verify) == "DPQ605"


def test_a_suspended_analyst_with_a_charge_is_noticed(tmp_path):
    """Whoever writes past the ledger's own refusal is found when it is replayed."""
    with closing(open_at(tmp_path / "policy.ledger")) as ledger:
        for _ in range(5):
            ledger.fail(ledger.charge(pure("0.1"), FIVE, ALICE), "alice", 5)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Ledger, "_suspended", lambda *_: 0)
            ledger.charge(pure("0.1"), limits(), ALICE)
        assert code_of(ledger.verify) == "DPQ605"


def test_a_process_is_known_to_be_gone():
    own = this_process()
    assert own
    assert not is_gone(own)
    program = "from dpquery.budget.ledger import attempts; print(attempts.this_process())"
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    other = child.stdout.read().strip()
    assert other != own
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(other)  # a process that nobody has looked after yet
    child.communicate()
    assert is_gone(other)
    machine, number, started = own.rsplit(" ", 2)
    assert is_gone(f"{machine} {number} {int(started) + 1}")
    assert not is_gone(f"elsewhere {number} {started}")
    assert not is_gone("")


@given(
    st.lists(
        st.builds(
            Attempt,
            st.text(max_size=4),
            st.datetimes(timezones=st.just(UTC)),
            st.datetimes(timezones=st.just(UTC)),
            st.text(max_size=4),
            st.booleans(),
        )
    )
)
def test_attempts_are_read_as_they_were_written(attempts):
    assert decode_attempts(encode_attempts(attempts)) == attempts
