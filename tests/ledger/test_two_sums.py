"""A session under a delta: epsilons may pass the limit in sum, where their rho keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery.core.zcdp import epsilon_above
from dpquery.policy.sources.paths import copy_samples, sample_directory
from dpquery.session import Session
from tests.samples import edit, sample_policy

STAFF = Path(sample_directory()) / "staff.parquet"
TENTH = Fraction(1, 10)
DELTA = Fraction(1, 10)
"""Far too large for people, so that few queries show what takes hundreds otherwise."""


def counts(number: int, epsilon: str = "0.1") -> str:
    calls = ", ".join([f"DP_COUNT(*, eps={epsilon})"] * number)
    return f"SELECT {calls} FROM staff"


@pytest.fixture
def session() -> Iterator[Session]:
    with dpquery.connect(
        STAFF, unit="person_id", rows_per_unit=1, epsilon=1, delta=DELTA
    ) as opened:
        yield opened


def test_small_questions_go_on_where_their_rho_leaves_room(session: Session):
    assert session.sql(counts(12)).loss.epsilon == Fraction(12, 10)
    budget = session.budget
    assert (budget.limit.epsilon, budget.limit.delta) == (1, DELTA)
    assert (budget.spent.delta, budget.left.delta) == (0, DELTA / 2)
    assert 0 < budget.spent.epsilon < 1
    assert TENTH < budget.left.epsilon < 1


def test_explain_knows_both_sums(session: Session):
    assert "1 left; 0.505704 after it\n" in str(session.explain(counts(12)))
    session.sql(counts(12))
    assert session.budget.left.epsilon == Fraction("0.505704")
    assert "0.505704 left; too little for it\n" in str(session.explain(counts(60)))


def test_what_is_left_is_the_most_that_one_call_can_have(session: Session):
    session.sql(counts(12))
    left = session.budget.left.epsilon
    with pytest.raises(dpquery.BudgetRefused) as caught:
        session.sql(counts(1, str(float(left + TENTH))))
    assert caught.value.left == left
    assert "while either of the two sums keeps its limit" in str(caught.value)
    session.sql(f"SELECT {caught.value.diagnostic.remedy[0]} FROM staff")
    assert session.budget.left.epsilon < Fraction(1, 1000)


def test_a_large_statement_is_offered_again_with_all_its_epsilons_smaller(session: Session):
    with pytest.raises(dpquery.BudgetRefused) as caught:
        session.sql(f"  {counts(60, '0.5')}\n")
    answer = session.sql(caught.value.diagnostic.remedy[0])
    assert 1 < answer.loss.epsilon < 30


def test_without_a_delta_the_sum_is_all_there_is():
    with dpquery.connect(STAFF, unit="person_id", rows_per_unit=1, epsilon=1) as session:
        with pytest.raises(dpquery.BudgetRefused):
            session.sql(counts(12))
        session.sql(counts(10))
        assert session.budget.left.epsilon == 0


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The samples under a budget of rho."""
    path = copy_samples(tmp_path / "data")
    text = path.read_text("utf-8")
    assert "\nepsilon = 2.0" in text
    path.write_text(text.replace("\nepsilon = 2.0", "\nrho = 0.02\ndelta = 1e-6", 1), "utf-8")
    return path


def test_gaussian_noise_is_asked_for_in_rho(policy: Path):
    """A count at rho = 0.005 has a standard deviation of 10, and means moments of one draw."""
    with dpquery.connect(policy) as session:
        query = "SELECT DP_COUNT(*, rho=0.005) AS n, DP_AVG(salary, rho=0.005) FROM staff"
        steps = session.explain(query).steps
        assert [step.mechanism for step in steps] == ["gaussian", "gaussian"]
        assert steps[0].noise_scale == "10"
        answer = session.sql(query)
        each = epsilon_above(Fraction(5, 1000), Fraction(5, 10**7))
        assert answer.loss == dpquery.Loss(2 * each, Fraction(1, 10**6))
        assert 800 < answer.rows[0][0] < 1200
        assert session.sql("SHOW BUDGET").rows[0][-3:] == ("0.02", "0.01", "0.01")
        assert session.budget.spent.delta == 0
        with pytest.raises(dpquery.BudgetRefused) as caught:
            session.sql("SELECT DP_SUM(age, rho=0.011) FROM staff")
        session.sql(f"SELECT {caught.value.diagnostic.remedy[0]} FROM staff")
        assert session.budget.left.epsilon == 0


@pytest.mark.parametrize(
    ("call", "at"),
    [
        ("DP_COUNT(*, rho=0.005, mechanism='laplace')", "'laplace'"),
        ("DP_SUM(age, delta=1e-7, rho=0.005) FILTER (WHERE remote)", "1e-7"),
    ],
)
def test_rho_asks_for_gaussian_noise_at_the_policys_delta(policy: Path, call: str, at: str):
    """What is offered passes; laplace, where it was written, is taken away."""
    with dpquery.connect(policy) as session:
        with pytest.raises(dpquery.PlanRefused) as caught:
            session.sql(f"SELECT {call} FROM staff")
        assert caught.value.code == "DPQ403"
        assert caught.value.source.snippet(caught.value.span) == at
        session.explain(f"SELECT {caught.value.diagnostic.remedy[0]} FROM staff")


def test_rho_is_for_budgets_in_rho(session: Session):
    with pytest.raises(dpquery.PlanRefused) as caught:
        session.sql("SELECT DP_COUNT(*, rho=0.005) FROM staff")
    assert caught.value.code == "DPQ403"
    session.explain(f"SELECT {caught.value.diagnostic.remedy[0]} FROM staff")


def test_a_budget_in_rho_counts_rho_alone(policy: Path):
    with dpquery.connect(policy) as session:
        session.sql(counts(1, "0.1"))
        names = session.sql("SHOW BUDGET").columns[-3:]
        row = session.sql("SHOW BUDGET").rows[0]
        assert names == ("limit_rho", "spent_rho", "left_rho")
        assert row[-3:] == ("0.02", "0.005", "0.015")
        assert session.budget.left.epsilon == Fraction("0.173205")
        with pytest.raises(dpquery.BudgetRefused) as caught:
            session.sql(counts(1, "0.2"))
        assert "rho adds up to 0.005 of 0.02 by now, and epsilons are not added up." in str(
            caught.value
        )
        session.sql(f"SELECT {caught.value.diagnostic.remedy[0]} FROM staff")
    with dpquery.connect(policy) as session, pytest.raises(dpquery.BudgetRefused):
        session.sql(counts(1, "0.001"))


def test_losses_are_told_by_each_accountant(session: Session):
    session.sql(counts(12))
    answer = session.losses()
    assert answer.columns == ("of", "charges", "epsilon", "zcdp", "pld", "delta")
    ((name, charges, summed, concentrated, distributed, delta),) = answer.rows
    assert (name, charges, summed, delta) == ("default", "1", "1.2", "0.05")
    assert float(distributed) < float(concentrated) < 1
    assert answer.loss.epsilon == 0


def test_a_statement_is_accounted_for_before_it_is_asked(session: Session):
    """It is fixed before it starts: its own losses are those of a ledger of nothing else."""
    ((of, *before),) = session.losses(counts(12)).rows
    assert of == "this query"
    assert session.budget.spent.epsilon == 0
    session.sql(counts(12))
    ((_, *after),) = session.losses().rows
    assert before == after
    session.sql(counts(1, "0.3"))
    assert session.losses(counts(12)).rows[0][1:] == tuple(before)
    assert session.losses(f"REFRESH {counts(12)}").rows[0][1:] == tuple(before)
    assert session.losses("SELECT 1").rows[0][:3] == ("this query", "0", "0")
    with pytest.raises(dpquery.NameRefused):
        session.losses("SELECT DP_COUNT(*, eps=0.1) FROM nowhere")


def test_what_a_statement_loses_is_what_it_would_if_nothing_had_been_found(session: Session):
    found = "SELECT DP_AVG(salary, eps=0.5, bounds='auto') FROM staff"
    ((_, *before),) = session.losses(found).rows
    session.sql(found)
    ((_, *after),) = session.losses(found).rows
    assert before == after


def test_a_statement_is_accounted_for_at_the_delta_of_who_asks(tmp_path: Path):
    policy = sample_policy(tmp_path, "epsilon = 2\ndelta = 1e-3")
    analyst = "[analysts.a]\nepsilon = 1\ndelta = 1e-6\n"
    edit(policy, "[tables.staff]\n", f"{analyst}[tables.staff]\n")
    with dpquery.connect(policy, analyst="a") as session:
        assert session.losses(counts(2)).rows[0][-1] == "5e-7"
