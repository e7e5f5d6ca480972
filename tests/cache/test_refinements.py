"""A statement that was asked before for less pays the difference, and each answer pays once."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.budget.ledger.earlier_releases import AlreadyRefined
from dpquery.cache.lookup import REPEATED, Lookup
from dpquery.core.privacy_events import Pure, Refined
from dpquery.core.source_text import Source
from dpquery.errors import BudgetRefused, PolicyInvalid, ScanFailed
from dpquery.session import Session
from dpquery.shell.main import run_verb
from tests.samples import edit, paid, sample_policy

HALF = Fraction(1, 2)
COUNT = "SELECT DP_COUNT(*, eps={}) AS n FROM staff"
NOTE = "refines an earlier answer: pays {} of {}"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The sample policy with much to spend."""
    return sample_policy(tmp_path, "epsilon = 1000\ndelta = 1e-3")


@pytest.fixture
def session(policy: Path):
    with dpquery.connect(policy) as opened:
        yield opened


def test_a_repeat_at_a_higher_eps_pays_the_difference(policy: Path):
    with dpquery.connect(policy) as session:
        assert paid(session, COUNT.format("0.5")) == HALF
    with dpquery.connect(policy) as session:
        assert session.explain(COUNT.format("2")).charge.epsilon == Fraction("1.5")
        assert NOTE.format("1.5", "2") in str(session.explain(COUNT.format("2")))
        answer = session.sql(COUNT.format("2"))
        assert answer.loss.epsilon == Fraction("1.5")
        assert NOTE.format("1.5", "2") in answer.notes
        assert session.budget.spent.epsilon == 2
        again = session.sql(COUNT.format("2"))
        assert REPEATED in again.notes
        assert again.rows == answer.rows
        assert again.interval("n", 0.95) == answer.interval("n", 0.95)
        assert paid(session, COUNT.format("2.5")) == HALF
        assert session._ledger.verify() == 3
        events = [
            event for entry in session._ledger.entries("default") for event in entry.events
        ]
    assert events == [
        Pure(HALF),
        Refined(HALF, Fraction(2)),
        Refined(Fraction(2), Fraction("2.5")),
    ]


def test_an_answer_is_refined_once_and_then_paid_in_full(session: Session):
    session.sql(COUNT.format("0.5"))
    assert paid(session, COUNT.format("2")) == Fraction("1.5")
    assert paid(session, COUNT.format("1.5")) == Fraction("1.5"), "what lost less is used up"
    assert paid(session, COUNT.format("3")) == 1, "of what lost 2"
    assert paid(session, COUNT.format("2.5")) == 1, "of what lost 1.5, for 3 is above it"


def test_the_dearest_of_several_is_refined_and_a_fresh_one_is_not_spared(session: Session):
    for eps in ("1", "0.25"):
        session.sql(COUNT.format(eps))
    assert paid(session, COUNT.format("1.5")) == HALF
    assert paid(session, f"REFRESH {COUNT.format('4')}") == 4
    assert paid(session, COUNT.format("1")) == 0, "it is given again, though it was refined"


@pytest.mark.parametrize(("fresh", "difference"), [("0.5", HALF), ("0.25", Fraction("0.75"))])
def test_what_is_asked_anew_takes_the_place_of_all_before(
    policy: Path, session: Session, fresh: str, difference: Fraction
):
    """Also where the files have other times by then, as after a copy."""
    session.sql(COUNT.format("0.5"))
    staff = policy.with_name("staff.parquet")
    staff.write_bytes(staff.read_bytes())
    assert paid(session, f"REFRESH {COUNT.format(fresh)}") == Fraction(fresh)
    assert paid(session, COUNT.format("1")) == difference
    assert paid(session, COUNT.format("0.75")) == Fraction("0.75"), "none of before is left"
    assert session._ledger.verify() == 4


def test_groups_and_several_calls_are_refined_together(session: Session):
    query = (
        "SELECT dept, DP_COUNT(*, eps={0}) AS n, DP_SUM(age, eps={0}) FROM staff GROUP BY dept"
    )
    session.sql(query.format("40"))
    answer = session.sql(query.format("90"))
    assert answer.loss.epsilon == 100
    assert sum(row[1] for row in answer.rows) == 1000


BOTH = "SELECT DP_COUNT(*, eps={}), DP_SUM(age, eps={}), DP_MEDIAN(age, eps=1) FROM staff"


def test_each_call_that_was_answered_for_less_pays_the_difference(session: Session):
    """Beside others, which are paid in full, and never twice for one earlier answer."""
    session.sql(BOTH.format("0.4", "0.4"))
    told = str(session.explain(BOTH.format("0.5", "0.4")))
    assert "charge       1.5 = 0.1 (refines the answer at 0.4) + 0.4 + 1" in told
    answer = session.sql(BOTH.format("0.5", "0.4"))
    assert answer.loss.epsilon == Fraction("1.5")
    assert answer.guarantee.loss.epsilon == Fraction("1.9")
    assert "refines an earlier answer: pays 1.5 of 1.9" in answer.notes
    twice = "SELECT DP_COUNT(*, eps=0.6), DP_COUNT(*, eps=0.7) FROM staff"
    assert paid(session, twice) == Fraction("0.1") + Fraction("0.7")
    assert session._ledger.verify() == 3


@pytest.mark.parametrize("read", ["staff", "visits"])
def test_files_that_no_earlier_answer_is_about_may_be_others(
    policy: Path, session: Session, read: str
):
    """What is refined needs its own rows; what is drawn beside it does not."""
    session.sql(COUNT.format("0.5"))
    with policy.with_name(f"{read}.parquet").open("r+b") as file:
        os.utime(file.fileno(), ns=(1, 1))
    each = "(SELECT DP_COUNT(*, eps=1) FROM {})"
    both = f"SELECT {each.format('staff')} + {each.format('visits')}"
    if read == "staff":
        with pytest.raises(ScanFailed):
            session.sql(both)
    else:
        assert paid(session, both) == Fraction("1.5")


def test_what_is_asked_anew_twice_is_left_twice(session: Session):
    session.sql(COUNT.format("0.01"))
    for eps in ("0.2", "0.1"):
        twice = (
            f"REFRESH SELECT DP_COUNT(*, eps={eps}) AS a, DP_COUNT(*, eps=0.{eps[2:]}5) AS b"
        )
        session.sql(f"{twice} FROM staff")
    assert paid(session, COUNT.format("0.3")) == Fraction("0.15")
    assert paid(session, COUNT.format("0.12")) == Fraction("0.02")
    assert paid(session, COUNT.format("0.11")) == Fraction("0.11"), "none of before is left"


NOT_REFINED = [
    ("SELECT DP_COUNT(*, eps=0.5) FROM staff", COUNT.format("1") + " WHERE age > 30"),
    ("SELECT DP_COUNT(*, eps=0.5) FROM staff", "SELECT DP_COUNT(age, eps=1) FROM staff"),
    (COUNT.format("1"), COUNT.format("0.5")),
    ("SELECT DP_AVG(age, eps=0.5) FROM staff", "SELECT DP_AVG(age, eps=1) FROM staff"),
    ("SELECT DP_MEDIAN(age, eps=0.5) FROM staff", "SELECT DP_MEDIAN(age, eps=1) FROM staff"),
    (
        "SELECT DP_COUNT(*, eps=0.5, mechanism='gaussian', delta=1e-9) FROM staff",
        "SELECT DP_COUNT(*, eps=1, mechanism='gaussian', delta=1e-9) FROM staff",
    ),
    (
        "SELECT DP_SUM(age, eps=0.5, bounds=[18, 60]) FROM staff",
        "SELECT DP_SUM(age, eps=1, bounds=[18, 61]) FROM staff",
    ),
    (
        COUNT.format("0.5"),
        "SELECT DP_COUNT(*, eps=1) FILTER (WHERE age > 30), DP_MEDIAN(age, eps=1) FROM staff",
    ),
    (
        COUNT.format("0.5") + " WHERE age > (SELECT 30)",
        COUNT.format("1") + " WHERE age > (SELECT 30)",
    ),
]


@pytest.mark.parametrize(("first", "second"), NOT_REFINED)
def test_all_else_is_paid_in_full(session: Session, first: str, second: str):
    session.sql(first)
    asked = [Fraction(eps) for eps in re.findall(r"eps=([0-9.]+)", second)]
    assert paid(session, second) == sum(asked)


def test_another_analyst_version_or_limit_pays_in_full(policy: Path):
    analysts = "[analysts.alice]\nepsilon = 100\n[analysts.bob]\nepsilon = 100\n"
    edit(policy, "[tables.staff]\n", f"{analysts}[tables.staff]\n")
    edit(policy, "delta = 1e-3", "delta = 1e-3\nshared_answers = true")
    with dpquery.connect(policy, analyst="alice") as session:
        session.sql(COUNT.format("0.5"))
    with dpquery.connect(policy, analyst="bob") as session:
        assert paid(session, COUNT.format("0.5")) == 0
        assert paid(session, COUNT.format("1")) == 1
    assert run_verb(["policy", "publish", str(policy)]) == 0
    with dpquery.connect(policy, analyst="alice") as session:
        assert paid(session, COUNT.format("2")) == 2


def test_ones_own_files_are_not_refined_on(policy: Path):
    """They may change between the two, and then both together would lose more."""
    own = {"unit": "person_id", "rows_per_unit": 1, "epsilon": 9}
    with dpquery.connect(policy.with_name("staff.parquet"), **own) as session:
        session.sql(COUNT.format("0.5"))
        assert paid(session, COUNT.format("1")) == 1


def looked_up(session: Session, query: str) -> Lookup:
    return session._look_up(session._plan(Source(query)))


def test_of_two_that_refine_the_same_at_once_one_pays_in_full(policy: Path):
    with dpquery.connect(policy) as one, dpquery.connect(policy) as other:
        one.sql(COUNT.format("0.5"))
        late = looked_up(one, COUNT.format("2"))
        assert paid(other, COUNT.format("1")) == HALF
        spent = one.budget.spent
        with pytest.raises(AlreadyRefined), one._charged(late.charge, late.plan.source):
            pass
        assert one.budget.spent == spent
        find, first = one._look_up, [late]
        one._look_up = lambda *args, **named: first.pop() if first else find(*args, **named)
        assert paid(one, COUNT.format("2")) == 1, "of what the other was given"
        assert one._ledger.verify() == 3


def test_a_version_that_is_published_between_is_noticed(policy: Path):
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.5"))
        late = looked_up(session, COUNT.format("2"))
        assert run_verb(["policy", "publish", str(policy)]) == 0
        with pytest.raises(AlreadyRefined), session._charged(late.charge, late.plan.source):
            pass


def test_what_was_not_drawn_after_the_charge_is_used_up(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    session.sql(COUNT.format("0.5"))
    with monkeypatch.context() as patched:
        patched.setattr(session._engine, "open", lambda *_: 1 / 0)
        with pytest.raises(ScanFailed):
            session.sql(COUNT.format("1"))
    assert paid(session, COUNT.format("1")) == 1


@pytest.mark.parametrize("change", ["rows", "time"])
def test_files_have_to_be_of_the_same_rows_to_the_last_one(policy: Path, change: str):
    staff = policy.with_name("staff.parquet")
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.5"))
        if change == "rows":
            pq.write_table(pq.read_table(staff).slice(1), staff)
        else:
            os.utime(staff, (1, 1))
        with pytest.raises(ScanFailed):
            session.sql(COUNT.format("1"))
        if change == "time":
            assert paid(session, COUNT.format("1")) == 1


def test_a_refusal_says_what_the_difference_asks_for(policy: Path):
    edit(policy, "epsilon = 1000", "epsilon = 1")
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.8"))
        with pytest.raises(BudgetRefused) as refused:
            session.sql(COUNT.format("1.5"))
        assert refused.value.asked == Fraction("0.7")
        assert "try: DP_COUNT(*, eps=1)\n        that is the most that fits" in str(
            refused.value
        )
        assert paid(session, COUNT.format("1")) == Fraction("0.2")


def test_rho_is_paid_in_full(policy: Path):
    edit(policy, "epsilon = 1000", "epsilon = 1")
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.01"))
        session.sql(COUNT.format("0.02"))
        (row,) = session.losses().rows
        total = session._ledger._store.totals(session._account).policy.spent
    assert total.rho == Fraction("0.01") ** 2 / 2 + Fraction("0.02") ** 2 / 2
    assert total.loss.epsilon == Fraction("0.02")
    assert row[0] == "default"


@pytest.mark.parametrize("table", ["earlier", "refined"])
def test_rows_are_never_changed(policy: Path, table: str):
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.5"))
        session.sql(COUNT.format("1"))
    assert run_verb(["ledger", "verify", str(policy)]) == 0
    with closing(sqlite3.connect(policy.with_suffix(".ledger"))) as file:
        for change in (f"DELETE FROM {table}", f"UPDATE {table} SET hash = ''"):
            with pytest.raises(sqlite3.Error, match="never"):
                file.execute(change)
        file.rollback()
        file.execute(f"DROP TRIGGER no_delete_of_{table}")
        file.execute(f"DELETE FROM {table} WHERE sequence = 1")
        file.commit()
    with pytest.raises(PolicyInvalid) as refused:
        run_verb(["ledger", "verify", str(policy)])
    assert refused.value.code == "DPQ605"
