"""A session: stages in order, one statement at a time, and what a refusal carries."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from traceback import walk_tb

import pytest

import dpquery
from dpquery.core.source_text import Span
from dpquery.errors import (
    BudgetRefused,
    Diagnostic,
    RuleRefused,
    SessionUnusable,
    SyntaxRefused,
)
from dpquery.execute import Payer
from dpquery.mechanisms import DiscreteLaplace
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session

COUNT = "SELECT DP_COUNT(*, eps=0.1) FROM staff"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copy_samples(tmp_path / "data").parent


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with dpquery.connect(folder / "policy.toml") as opened:
        yield opened


def test_an_answer_states_its_loss_and_the_budget_after_it(session: Session):
    answer = session.sql(COUNT)
    assert answer.columns == ("dp_count",)
    assert answer.loss.epsilon == Fraction(1, 10)
    assert answer.budget == "1.9 of 2 left"
    assert session.budget.left.epsilon == Fraction(19, 10)


def test_a_refusal_carries_span_source_and_budget_and_costs_nothing(session: Session):
    with pytest.raises(RuleRefused) as caught:
        session.sql("SELECT\n  salary FROM staff")
    refusal = caught.value
    assert (refusal.code, refusal.span) == ("DPQ301", Span(9, 15))
    assert refusal.source is not None
    assert refusal.budget == "unchanged; 2 of 2 left"
    assert str(refusal).splitlines()[2] == "2 |   salary FROM staff"
    assert str(refusal).endswith("budget: unchanged; 2 of 2 left")
    assert len(session.ledger().rows) == 0


def test_a_refusal_before_parsing_carries_the_budget_too(session: Session):
    for text in ("", "\x00", "x" * 70_000, "'"):
        with pytest.raises(SyntaxRefused) as caught:
            session.sql(text)
        assert caught.value.budget == "unchanged; 2 of 2 left"


def test_a_charge_above_what_is_left_is_refused_with_a_query_that_fits(session: Session):
    session.sql("SELECT DP_COUNT(*, eps=0.7) FROM visits")
    with pytest.raises(BudgetRefused) as caught:
        session.sql("SELECT DP_COUNT(*, eps=1.5) FROM staff")
    assert (caught.value.asked, caught.value.left) == (Fraction(3, 2), Fraction(13, 10))
    assert (
        str(caught.value)
        == """\
refused[DPQ501]: this query would spend 1.5, and 1.3 is left
  |
1 | SELECT DP_COUNT(*, eps=1.5) FROM staff
  |                        ^^^ asks for 1.5

   why: the policy's budget is 2; 0.7 is spent by 1 earlier query.
   try: DP_COUNT(*, eps=1.3)
        that is the most that fits
budget: unchanged; 1.3 of 2 left"""
    )
    session.sql("SELECT DP_COUNT(*, eps=1.3) FROM staff")
    assert session.budget.left.epsilon == 0


def test_a_query_over_public_tables_is_answered_when_nothing_is_left(session: Session):
    session.sql("SELECT DP_COUNT(*, eps=2) FROM staff")
    answer = session.sql("SELECT region FROM regions ORDER BY region LIMIT 1")
    assert (answer.rows, answer.loss.epsilon) == ([("centre",)], 0)


def test_explaining_costs_nothing_and_reads_no_row(session: Session, folder: Path):
    for file in ("staff.parquet", "visits.parquet"):
        (folder / file).unlink()
    explanation = session.explain("SELECT DP_COUNT(*, eps=0.5) FROM visits")
    assert explanation.charge.epsilon == Fraction(1, 2)
    assert session.budget.spent.epsilon == 0


def test_a_closed_session_says_so_and_its_answers_outlive_it(session: Session):
    answer = session.sql(COUNT)
    session.close()
    session.close()
    assert len(answer.rows) == 1
    uses = (
        lambda: session.sql(COUNT),
        lambda: session.explain(COUNT),
        lambda: session.budget,
        lambda: session.describe("staff"),
        session.tables,
        session.ledger,
    )
    for use in uses:
        with pytest.raises(SessionUnusable) as caught:
            use()
    assert (
        str(caught.value)
        == """\
failed[DPQ801]: the session is closed
   why: a closed session asks no more; its answers stay, and so does what it has spent.
   try: session = dpquery.connect(...)"""
    )


def ask(session: Session, told) -> None:
    try:
        session.sql(COUNT)
    except SessionUnusable as unusable:
        told.send(str(unusable))
        session.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_session_is_of_no_use_after_a_fork_and_stays_of_use_before_it(session: Session):
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=ask, args=(session, there))
    child.start()
    assert here.poll(20)
    assert here.recv().startswith("failed[DPQ801]: the session belongs to another process")
    child.join(20)
    assert session.sql(COUNT).loss.epsilon == Fraction(1, 10)


def test_one_statement_runs_at_a_time(session: Session, monkeypatch: pytest.MonkeyPatch):
    running: list[int] = []
    most = 0
    opened = session._engine.open

    def watched(*arguments):
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        threading.Event().wait(0.02)
        running.pop()
        return opened(*arguments)

    monkeypatch.setattr(session._engine, "open", watched)
    threads = [
        threading.Thread(target=session.sql, args=(f"REFRESH {COUNT}",)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1
    assert session.budget.spent.epsilon == Fraction(6, 10)


def test_reopening_does_not_renew_the_budget(session: Session, folder: Path):
    session.sql("SELECT DP_COUNT(*, eps=1.5) FROM staff")
    with dpquery.connect(folder / "policy.toml") as again:
        assert again.budget.left.epsilon == Fraction(1, 2)
        again.sql("SELECT DP_COUNT(*, eps=0.5) FROM staff")
    with pytest.raises(BudgetRefused):
        session.sql(COUNT)


def test_after_the_charge_a_fault_keeps_it_and_says_so(session: Session, folder: Path):
    (folder / "staff.parquet").write_bytes(b"not a Parquet file")
    with pytest.raises(dpquery.ScanFailed) as caught:
        session.sql(COUNT)
    assert caught.value.budget.startswith("0.1 spent; 1.9 of 2 left (a charge is never")
    frames = [frame.f_code.co_name for frame, _ in walk_tb(caught.value.__traceback__)]
    assert frames[1:] == ["sql", "__exit__", "_end"]  # those below could hold exact values
    assert session.budget.spent.epsilon == Fraction(1, 10)


def test_what_goes_wrong_before_the_charge_is_left_as_it_is(session: Session, monkeypatch):
    """Nothing private was read, and whoever mends it needs its frames."""

    def charge(*_: object):
        raise SystemExit

    monkeypatch.setattr(session._ledger, "charge", charge)
    with pytest.raises(SystemExit) as caught:
        session.sql(COUNT)
    frames = [frame.f_code.co_name for frame, _ in walk_tb(caught.value.__traceback__)]
    assert frames[-1] == "charge"


@pytest.mark.parametrize("error", [dpquery.ScanFailed, KeyboardInterrupt])
def test_a_second_interrupt_has_no_exact_values_behind_it(session: Session, monkeypatch, error):
    """It comes while the first says what is spent, as a server may take its time to tell."""
    diagnostic = Diagnostic("DPQ701", "the scan did not finish")

    def broken(self, exact, randomness):
        raise error(diagnostic) if error is dpquery.ScanFailed else error

    def again(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(DiscreteLaplace, "release", broken)
    monkeypatch.setattr(Payer, "left", again)
    with pytest.raises(KeyboardInterrupt) as caught:
        session.sql(COUNT)
    behind, met = caught.value.__context__, []
    while behind is not None:
        met.append(behind)
        names = [frame.f_code.co_name for frame, _ in walk_tb(behind.__traceback__)]
        assert "release" not in names
        behind = behind.__context__
    assert isinstance(met[-1], error)


@pytest.mark.parametrize("error", [MemoryError, RecursionError, SystemExit])
def test_no_error_of_any_kind_carries_exact_values(
    session: Session, folder: Path, monkeypatch, error
):
    """A host may log what stands in the frames of a fault, and a signal can raise anything."""

    def broken(self, exact, randomness):
        try:
            raise ValueError(exact)
        except ValueError as cause:
            raise error from cause

    monkeypatch.setattr(DiscreteLaplace, "release", broken)
    with pytest.raises((dpquery.ScanFailed, SystemExit)) as caught:
        session.sql(COUNT)
    fault = caught.value
    frames = [frame.f_code.co_name for frame, _ in walk_tb(fault.__traceback__)]
    assert frames[1:] == ["sql", "__exit__", "_end"]
    assert fault.__context__ is fault.__cause__ is None
    if isinstance(fault, dpquery.ScanFailed):
        assert fault.budget.startswith("0.1 spent; 1.9 of 2 left")
        assert error.__name__ in (folder / "policy.ledger.faults").read_text("utf-8")
    assert session.budget.spent.epsilon == Fraction(1, 10)
