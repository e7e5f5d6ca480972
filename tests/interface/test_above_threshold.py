"""A stream of counting questions: paid for once, in order, until one count is above."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery.core.privacy_loss import Neighbours
from dpquery.errors import (
    BudgetRefused,
    InternalError,
    NameRefused,
    PlanRefused,
    RuleRefused,
    ScanFailed,
    SessionUnusable,
)
from dpquery.functions.base import WEIGHT_SCALE
from dpquery.ir.measures import CountRows, Weight
from dpquery.mechanisms import AboveThreshold
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session
from dpquery.session_methods.threshold_stream import StreamState, start_stream
from tests.corpus.cases import planned
from tests.mechanisms.sources import Seeded

ADD_REMOVE, SUBSTITUTE = Neighbours


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copy_samples(tmp_path / "data").parent


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with dpquery.connect(folder / "policy.toml") as opened:
        yield opened


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that never decides: counts are compared as they are."""
    monkeypatch.setattr("dpquery.mechanisms.above_threshold.geometric", lambda *_: 0)


@pytest.mark.usefixtures("quiet")
def test_a_stream_is_charged_once_and_ends_with_the_first_above(session: Session):
    stream = session.above_threshold(600, eps="0.5")
    assert session.budget.spent.epsilon == 0
    assert stream.ask("staff", "age < 20") is False
    assert session.budget.spent.epsilon == Fraction(1, 2)
    assert stream.ask("staff", "remote") is False
    assert stream.ask("staff") is True
    assert session.budget.spent.epsilon == Fraction(1, 2)
    with pytest.raises(SessionUnusable) as ended:
        stream.ask("staff", "age < 20")
    assert ended.value.code == "DPQ802"
    assert session.budget.spent.epsilon == Fraction(1, 2)
    assert session.ledger().rows[0][1:3] == ("0.5", "0")
    assert len(session.ledger()) == 1


@pytest.mark.usefixtures("quiet")
def test_counts_with_and_without_weights_are_compared_alike(session: Session):
    stream = session.above_threshold(1000, eps=0.5)
    assert stream.ask("visits", "minutes > 230") is False
    assert stream.ask("staff") is False
    assert stream.ask("visits") is True


@pytest.mark.usefixtures("quiet")
def test_a_question_of_more_rows_per_unit_than_the_first_is_refused(session: Session):
    stream = session.above_threshold(10**6, eps=0.5)
    assert stream.ask("staff") is False
    with pytest.raises(PlanRefused) as refused:
        stream.ask("visits")
    assert refused.value.code == "DPQ404"
    assert refused.value.budget == "unchanged; 1.5 of 2 left"
    assert stream.ask("staff", "remote") is False


@pytest.mark.parametrize(
    ("table", "where", "error"),
    [
        ("nobody", "", NameRefused),
        ("staff", "nothing > 3", NameRefused),
        ("staff", "remote GROUP BY dept", PlanRefused),
        ("staff", "remote LIMIT 0", PlanRefused),
        ("visits", "minutes > (SELECT MAX(inhabitants) FROM regions)", PlanRefused),
        ("staff", "remote HAVING DP_COUNT(*, eps=0.5) > 3", PlanRefused),
        ("(SELECT 1)", "", RuleRefused),
    ],
)
def test_what_is_not_a_count_is_refused_and_costs_nothing(
    session: Session, table: str, where: str, error: type
):
    stream = session.above_threshold(10, eps=0.5)
    with pytest.raises(error) as refused:
        stream.ask(table, where)
    assert refused.value.budget == "unchanged; 2 of 2 left"
    assert stream.ask("staff", "age < 19") in {True, False}


def test_a_stream_beyond_the_budget_is_refused_before_anything_is_read(session: Session):
    stream = session.above_threshold(10, eps=3)
    with pytest.raises(BudgetRefused):
        stream.ask("staff")
    assert session.budget.spent.epsilon == 0


@pytest.mark.usefixtures("quiet")
def test_a_scan_that_fails_keeps_the_charge_and_the_stream(session: Session, folder: Path):
    stream = session.above_threshold(10**6, eps=0.5)
    kept = (folder / "staff.parquet").read_bytes()
    (folder / "staff.parquet").write_bytes(b"PAR1")
    with pytest.raises(ScanFailed) as failed:
        stream.ask("staff")
    assert failed.value.budget.startswith("0.5 spent; 1.5 of 2 left")
    (folder / "staff.parquet").write_bytes(kept)
    assert stream.ask("staff") is False
    assert session.budget.spent.epsilon == Fraction(1, 2)


def test_a_closed_session_answers_no_stream(session: Session):
    stream = session.above_threshold(10, eps=0.5)
    session.close()
    with pytest.raises(SessionUnusable):
        stream.ask("staff")


@pytest.mark.parametrize(
    ("threshold", "eps"), [(-1, 1), (2.5, 1), (True, 1), (3, 0), (3, "x"), (3, Fraction(1, 3))]
)
def test_a_stream_has_a_threshold_and_a_price(session: Session, threshold: object, eps: object):
    with pytest.raises(ValueError, match=r"stream|number"):
        session.above_threshold(threshold, eps)


class Counted:
    """Exact counts, one after the other."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def values(self, measure: CountRows) -> tuple[int, ...]:
        return (self.rows,)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_the_noise_is_that_of_a_stream_of_counts(neighbours: Neighbours):
    """Scales are 2kW / eps where a unit is added; a count's twice that where it is replaced."""
    started = start_stream(5, 1, neighbours)
    count = CountRows(Weight(3, WEIGHT_SCALE))
    started.paid(count)
    mechanism = started._mechanism(3)
    weight = 3 * WEIGHT_SCALE
    twice = 2 if neighbours is SUBSTITUTE else 1
    assert mechanism == AboveThreshold(Fraction(2 * weight), Fraction(2 * twice * weight))
    assert mechanism.loss(*started._moves(3)).epsilon == 1
    limit = mechanism.limit(5 * WEIGHT_SCALE, Seeded(1))
    randomness = Seeded(1)
    assert started.answer(Counted(10**15), count, randomness) is True
    assert started._limit == limit
    assert str(limit) not in repr(started)
    with pytest.raises(InternalError):
        started.answer(Counted(0), count, randomness)


def test_a_stream_that_is_not_paid_for_answers_nothing():
    with pytest.raises(InternalError):
        StreamState(5, Fraction(1), ADD_REMOVE).answer(
            Counted(1), CountRows(Weight()), Seeded(1)
        )


def test_a_question_that_loses_something_else_is_not_charged():
    plan = planned("SELECT DP_COUNT(*, eps=0.5) FROM staff")
    (count,) = plan.frontiers[0].scan.measures
    assert StreamState(5, Fraction(1, 2), ADD_REMOVE).charge(plan, count) == plan.charge
    with pytest.raises(InternalError):
        StreamState(5, Fraction(1), ADD_REMOVE).charge(plan, count)
    later = replace(StreamState(5, Fraction(1, 2), ADD_REMOVE), rows=1)
    assert later.charge(plan, count).events == ()
