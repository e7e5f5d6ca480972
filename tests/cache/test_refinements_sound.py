"""What a refinement rests on: the same rows, an earlier value of one's own, each used once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery import dbapi
from dpquery.cache import codec as stored
from dpquery.cache import refine
from dpquery.core.events import Pure, Refined
from dpquery.engine import files as drift
from dpquery.errors import BudgetRefused, ScanFailed
from dpquery.session import Session
from dpquery.shell.main import run_verb
from tests.samples import edit, paid, sample_policy
from tests.tasks import ROOT

HALF = Fraction(1, 2)
COUNT = "SELECT DP_COUNT(*, eps={}) AS n FROM staff"
SUM = "SELECT DP_SUM(age, eps={}) AS n FROM staff"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The sample policy with much to spend."""
    return sample_policy(tmp_path, "epsilon = 1000\ndelta = 1e-3")


@pytest.fixture
def session(policy: Path) -> Iterator[Session]:
    with dpquery.connect(policy) as opened:
        yield opened


def refuse(session: Session, query: str) -> BudgetRefused:
    with pytest.raises(BudgetRefused) as refused:
        session.sql(query)
    return refused.value


# The same rows.


def test_the_earlier_value_has_to_be_of_these_files_and_not_only_the_first(policy: Path):
    """Another state passes for a copy; back at the first one, it is not what was counted."""
    staff = policy.with_name("staff.parquet")
    first = staff.stat().st_mtime_ns
    with dpquery.connect(policy) as session:
        session.sql(SUM.format("0.5"))
        os.utime(staff, ns=(1, 1))
        session.sql(COUNT.format("0.5"))
        os.utime(staff, ns=(first, first))
        with pytest.raises(ScanFailed):
            session.sql(COUNT.format("1"))
        assert session.budget.spent.epsilon == Fraction("1.5"), "the charge stays"
        assert paid(session, COUNT.format("1")) == 1
        assert paid(session, SUM.format("1")) == HALF, "that is of the first state"


def test_a_copy_from_before_the_earlier_value_is_refined_on(policy: Path):
    with dpquery.connect(policy) as session:
        session.sql(SUM.format("0.5"))
        os.utime(policy.with_name("staff.parquet"), ns=(1, 1))
        session.sql(COUNT.format("0.5"))
        assert paid(session, COUNT.format("1")) == HALF


def test_where_an_earlier_value_came_from_has_to_be_known(session: Session, monkeypatch):
    session.sql(COUNT.format("0.5"))
    found = session._ledger.earlier
    monkeypatch.setattr(
        session._ledger,
        "earlier",
        lambda *asked: [replace(one, read={}) for one in found(*asked)],
    )
    with pytest.raises(ScanFailed):
        session.sql(COUNT.format("1"))


def test_one_statement_sees_one_state(session: Session, policy: Path, monkeypatch):
    """Its values are kept as of one state, so that they have to be."""
    opened, query = session._engine.open, "SELECT ({}) AS a, ({}) AS b"

    def open_and_touch(*args: object) -> object:
        exact = opened(*args)
        os.utime(policy.with_name("staff.parquet"), ns=(1, 1))
        return exact

    monkeypatch.setattr(session._engine, "open", open_and_touch)
    with pytest.raises(ScanFailed):
        session.sql(query.format(COUNT.format(1), COUNT.format(1) + " WHERE age > 30"))


def test_files_that_change_while_they_are_hashed_are_no_first_state(policy: Path, monkeypatch):
    staff, about = policy.with_name("staff.parquet"), drift.about_bytes

    def while_hashed(path: Path, **named: bool) -> str:
        os.utime(staff, ns=(1, 1))
        return about(path, **named)

    with dpquery.connect(policy) as session:
        with monkeypatch.context() as patched:
            patched.setattr(drift, "about_bytes", while_hashed)
            with pytest.raises(ScanFailed):
                session.sql(COUNT.format("0.5"))
        assert not list(
            session._ledger._store.database.execute("SELECT * FROM states WHERE version >= 0")
        )
        assert paid(session, COUNT.format("0.5")) == HALF


def test_what_another_host_or_program_computed_is_not_refined(session: Session, monkeypatch):
    session.sql(COUNT.format("0.5"))
    here = stored._computer()
    with monkeypatch.context() as patched:
        patched.setattr(stored, "_computer", lambda: ("another", *here[1:]))
        assert paid(session, COUNT.format("1")) == 1
    assert paid(session, COUNT.format("0.75")) == Fraction("0.25")


# An earlier value of one's own, each used once.

ASK = """
import sys, dpquery
with dpquery.connect(sys.argv[1]) as session:
    print("ready", flush=True)
    sys.stdin.readline()
    for eps in sys.argv[2:]:
        session.sql(f"SELECT DP_COUNT(*, eps={eps}) AS n FROM staff")
"""
DIE = """
import os, sys, dpquery
with dpquery.connect(sys.argv[1]) as session:
    session._engine.open = lambda *_: os._exit(7)
    session.sql(f"SELECT DP_COUNT(*, eps={sys.argv[2]}) AS n FROM staff")
"""


def start(program: str, policy: Path, *epsilons: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, str(policy), *epsilons]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)


def test_of_several_processes_one_refines_each_value(policy: Path):
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.5"))
    asked = [[f"{1 + n}.{process}" for n in range(6)] for process in range(3)]
    workers = [start(ASK, policy, *epsilons) for epsilons in asked]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    for worker in workers:
        worker.communicate("go\n", timeout=60)
        assert worker.returncode == 0
    with dpquery.connect(policy) as session:
        entries = session._ledger.entries("default")
        assert session._ledger.verify() == len(entries) == 19
    before = [e.before for entry in entries for e in entry.events if isinstance(e, Refined)]
    assert len(set(before)) == len(before), "each value stands for one release here"
    assert HALF in before


def test_a_process_that_dies_after_its_charge_has_used_the_value_up(policy: Path):
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.5"))
        worker = start(DIE, policy, "1")
        worker.communicate(timeout=60)
        assert worker.returncode == 7, "it died, and its charge stands"
        assert session.budget.spent.epsilon == 1
        assert paid(session, COUNT.format("1")) == 1
        assert session._ledger.verify() == 3


def test_nothing_is_used_up_by_a_refusal_or_a_fresh_answer(policy: Path, session: Session):
    session.sql(COUNT.format("0.5"))
    assert run_verb(["ledger", "freeze", str(policy)]) == 0
    assert refuse(session, COUNT.format("1")).code == "DPQ504"
    assert run_verb(["ledger", "thaw", str(policy)]) == 0
    assert refuse(session, COUNT.format("2000")).code == "DPQ501"
    assert paid(session, COUNT.format("0.25")) == Fraction("0.25")
    assert paid(session, COUNT.format("1")) == HALF


def test_what_can_never_be_refined_is_not_kept_for_it(policy: Path, monkeypatch):
    def kept(session: Session) -> int:
        return len(list(session._ledger._store.database.execute("SELECT * FROM earlier")))

    own = {"unit": "person_id", "rows_per_unit": 1, "epsilon": 9}
    with dpquery.connect(policy.with_name("staff.parquet"), **own) as session:
        session.sql(COUNT.format("0.5"))
        assert not kept(session)
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.5"))
        monkeypatch.setattr(refine, "MOST_CELLS", 4)
        by_dept = "SELECT dept, DP_COUNT(*, eps={}) FROM staff GROUP BY dept"
        session.sql(by_dept.format("1"))
        assert kept(session) == 1
        assert paid(session, by_dept.format("2")) == 2


# What is paid, and what is told of it.


def test_the_cap_of_a_query_is_on_what_it_tells(policy: Path):
    edit(policy, "delta = 1e-3", "delta = 1e-3\nmax_epsilon_per_query = 1")
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.75"))
        assert refuse(session, COUNT.format("1.5")).code == "DPQ502"
        assert paid(session, COUNT.format("1")) == Fraction("0.25")


def test_a_refusal_offers_the_call_that_pays_most_and_it_fits(policy: Path):
    edit(policy, "epsilon = 1000\ndelta = 1e-3", "epsilon = 4")
    both = "SELECT DP_COUNT(*, eps={}) AS a, DP_SUM(age, eps={}) AS b FROM staff"
    with dpquery.connect(policy) as session:
        session.sql(both.format("2", "0.5"))
        refused = refuse(session, both.format("2.6", "2.5"))
        assert "try: DP_SUM(age, eps=1.4)" in str(refused)
        assert paid(session, both.format("2.6", "1.4")) == Fraction("1.5")
        assert session.budget.left.epsilon == 0


def test_groupings_that_were_refined_unevenly_are_offered_nothing_that_costs_more(
    policy: Path,
):
    edit(policy, "epsilon = 1000\ndelta = 1e-3", "epsilon = 1")
    sets = "GROUP BY GROUPING SETS ((), (dept))"  # the other way round they are added up
    rolled = f"SELECT dept, DP_COUNT(*, eps={{}}) AS n FROM staff {sets}"
    with dpquery.connect(policy) as session:
        session.sql("SELECT dept, DP_COUNT(*, eps=0.1) AS n FROM staff GROUP BY dept")
        session.sql(COUNT.format("0.3"))
        assert session.explain(rolled.format("0.8")).charge.epsilon == Fraction("0.4")
        refused = refuse(session, rolled.format("2"))
        assert refused.asked == Fraction("1.6")
        assert "try: DP_COUNT" not in str(refused)


def test_the_price_and_the_guarantee_are_told_apart(session: Session):
    session.sql(COUNT.format("0.5"))
    told = session.explain(COUNT.format("1"))
    lines = str(told).splitlines()
    assert lines[0] == "charge       0.5 (refines the answer at 0.5)"
    assert lines[1] == "guarantee    loss 1, for one person_id added or removed"
    answer = session.sql(COUNT.format("1"))
    assert answer.loss.epsilon == HALF
    assert answer.guarantee.loss.epsilon == 1
    assert answer.guarantee.for_group(2).epsilon == 2


def test_every_way_to_ask_pays_the_difference(policy: Path):
    with dbapi.connect(policy) as connection:
        cursor = connection.cursor()
        cursor.execute(COUNT.format("?"), (Decimal("0.5"),))
        cursor.execute(COUNT.format("?"), (1,))
        assert connection.session.budget.spent.epsilon == 1
    with dpquery.connect(policy) as session:
        built = session.table("staff").agg(n=dpquery.count(eps=2))
        assert built.run().loss.epsilon == 1
        events = [e for one in session._ledger.entries("default") for e in one.events]
    assert events == [Pure(HALF), Refined(HALF, Fraction(1)), Refined(Fraction(1), Fraction(2))]


PARTED = """\
{head}[budget]
epsilon = 10
[tables.t]
path = "staff.parquet"
privacy_unit_column = "person_id"
max_rows_contributed = 1
[tables.t.columns]
person_id = {{ type = "integer" }}
dept = {{ type = "text", keys = ["eng", "hr", "ops"], per_unit = true }}
"""


@pytest.mark.parametrize("neighbours", ["add-remove", "substitute"])
def test_parts_pay_for_both_values(policy: Path, neighbours: str):
    """Where two parts differ, both lose: what one of them paid counts for every pair."""
    head = f'[privacy]\nneighbours = "{neighbours}"\n'
    policy.write_text(PARTED.format(head=head), "utf-8")
    count = "SELECT DP_COUNT(*, eps={}) AS n FROM t WHERE dept = '{}'"
    with dpquery.connect(policy) as session:
        for eps, dept in (("1", "eng"), ("2", "hr"), ("4", "eng")):
            session.sql(count.format(eps, dept))
        shown = {row["of"]: row["spent"] for row in session.sql("SHOW BUDGET").to_dicts()}
        both = f"SELECT ({count.format(5, 'eng')}) AS a, ({count.format(3, 'hr')}) AS b"
        assert paid(session, both) == 2
        after = {row["of"]: row["spent"] for row in session.sql("SHOW BUDGET").to_dicts()}
    pairs = neighbours == "substitute"
    eng, hr, ops = (f"policy, where dept = '{name}'" for name in ("eng", "hr", "ops"))
    assert shown[eng] == ("6" if pairs else "4")
    assert shown[hr] == ("6" if pairs else "2")
    assert shown[ops] == ("4" if pairs else "0")
    assert [after[part] for part in (eng, hr)] == (["8", "8"] if pairs else ["6", "4"])


def test_a_scan_is_walked_once_for_all_that_is_released_from_it(session: Session, monkeypatch):
    seen: list[object] = []
    monkeypatch.setattr(refine, "nodes_in", lambda tree, kind: seen.append(tree) or iter(()))
    sums = (f"DP_SUM(age + {i}, eps=0.1)" for i in range(20))
    session.sql(f"SELECT {', '.join(sums)} FROM staff")
    assert len(seen) == 2  # to look for earlier releases, and to keep these
