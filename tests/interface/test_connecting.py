"""`connect`: which arguments go with which source, whose budget it is, which ceiling binds."""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery.errors import BudgetRefused, PolicyInvalid
from dpquery.policy.sources.paths import copy_samples
from tests.tasks import ROOT

COUNT = "SELECT DP_COUNT(*, eps=0.5) FROM staff"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return copy_samples(tmp_path / "data")


@pytest.fixture
def shared(policy: Path) -> Path:
    text = policy.read_text("utf-8")
    policy.write_text(
        f"{text}\n[analysts.alice]\nepsilon = 1.5\n[analysts.bob]\nepsilon = 1\n", "utf-8"
    )
    return policy


def told(*source, **arguments) -> PolicyInvalid:
    with pytest.raises(PolicyInvalid) as caught:
        dpquery.connect(*source, **arguments)
    return caught.value


def test_the_refusal_of_an_argument_reads_as_it_was_written(policy: Path):
    assert (
        str(told(policy, unit="person_id"))
        == """\
policy[DPQ608]: unit= cannot be given beside a policy
   why: the policy decides what is protected and how; a session can only ask for less.
   try: state unit in the policy file, or leave it out here"""
    )


@pytest.mark.parametrize(
    "argument",
    [
        {"unit": "person_id"},
        {"rows_per_unit": 1},
        {"bounds": {"age": (0, 9)}},
        {"neighbours": "substitute"},
        {"ledger": "x.ledger"},
    ],
    ids=str,
)
def test_what_the_policy_decides_cannot_be_given_beside_it(policy: Path, argument):
    assert told(policy, **argument).code == "DPQ608"


@pytest.mark.parametrize(
    "epsilon", [0, -1, "nan", "inf", float("nan"), float("inf"), "1e99", "", True, None, [1]]
)
def test_a_ceiling_is_a_positive_number(policy: Path, epsilon):
    if epsilon is None:
        dpquery.connect(policy, epsilon=epsilon).close()
    else:
        assert told(policy, epsilon=epsilon).code == "DPQ608"


@pytest.mark.parametrize("epsilon", [1, 1.0, "1", "1.0", Decimal(1), Fraction(1)])
def test_a_ceiling_may_be_any_exact_number(policy: Path, epsilon):
    with dpquery.connect(policy, epsilon=epsilon) as session:
        assert session.budget.limit.epsilon == 1


def test_a_float_is_read_by_its_repr(policy: Path):
    with dpquery.connect(policy, epsilon=0.1) as session:
        assert session.budget.limit.epsilon == Fraction(1, 10)


def test_a_missing_policy_is_named(tmp_path: Path):
    assert told(tmp_path / "polciy.toml").code == "DPQ601"


def test_a_ceiling_below_the_policy_binds_and_one_above_does_not(policy: Path):
    with dpquery.connect(policy, epsilon="0.7") as session:
        session.sql(COUNT, refresh=True)
        assert session.budget.left.epsilon == Fraction(1, 5)
        with pytest.raises(BudgetRefused) as caught:
            session.sql(COUNT, refresh=True)
        assert "the session's budget is 0.7" in str(caught.value)
    with dpquery.connect(policy, epsilon=100) as session:
        assert session.budget.limit.epsilon == 2
        assert session.budget.left.epsilon == Fraction(3, 2)


def test_a_new_session_has_a_new_ceiling_and_the_old_budget(policy: Path):
    for left in (Fraction(3, 2), Fraction(1), Fraction(1, 2)):
        with dpquery.connect(policy, epsilon="0.5") as session:
            session.sql(COUNT, refresh=True)
            assert session.budget.left.epsilon == 0
        with dpquery.connect(policy) as whole:
            assert whole.budget.left.epsilon == left


def test_an_analyst_has_a_budget_of_their_own_and_shares_the_whole(shared: Path):
    with (
        dpquery.connect(shared, analyst="alice") as alice,
        dpquery.connect(shared, analyst="bob") as bob,
    ):
        for _ in range(3):
            alice.sql(COUNT, refresh=True)
        with pytest.raises(BudgetRefused) as caught:
            alice.sql(COUNT, refresh=True)
        assert "the analyst's budget is 1.5" in str(caught.value)
        bob.sql(COUNT, refresh=True)
        with pytest.raises(BudgetRefused) as caught:
            bob.sql(COUNT, refresh=True)
        assert "the policy's budget is 2" in str(caught.value)
        assert (len(alice.ledger().rows), len(bob.ledger().rows)) == (3, 1)


@pytest.mark.parametrize(
    ("arguments", "said", "remedy"),
    [
        ({"delta": -1}, "delta must be a number from 0 to below 1, not -1", "delta=1e-7"),
        (
            {"epsilon": True},
            "epsilon must be a number above 0 and at most 9e9, not true",
            "epsilon=1",
        ),
        ({"neighbours": "both"}, "none of add-remove, substitute", 'neighbours="add-remove"'),
        (
            {"unit": 3},
            "unit must be a name of 1 to 128 printable characters, not 3",
            'unit="user_id"',
        ),
        ({"rows_per_unit": 0}, "must be 1 or left out, not 0", "rows_per_unit=1"),
        (
            {"unit": "person_id", "rows_per_unit": 2},
            "must be 1 or left out, not 2",
            "max_rows_contributed=2",
        ),
        ({"bounds": {"age": (5, 1)}}, "above its high end", 'bounds={"age": (1, 5)}'),
        ({"bounds": {"age": 3}}, "must be two values", 'bounds={"age": (0, 120)}'),
        ({"bounds": {"dept": (1, 2)}}, "type text", "leave dept out of bounds="),
        ({"bounds": {"agee": (1, 2)}}, "names no column", 'bounds={"age": (0, 100)}'),
        ({"unit": {"stff": "person_id"}}, 'not connected: "stff"', 'unit={"staff": ...}'),
        ({"analyst": "alice"}, "cannot be given without a policy", "leave out analyst="),
    ],
    ids=str,
)
def test_without_a_policy_what_is_offered_is_written_in_python(arguments, said, remedy):
    refusal = told(ROOT / "datasets" / "staff.parquet", **{"epsilon": 1, **arguments})
    assert said in refusal.diagnostic.title
    assert refusal.diagnostic.remedy[0].startswith(remedy)


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ({"delta": -1}, "delta must be a number from 0 to below 1, not -1"),
        (
            {"epsilon": True},
            "epsilon must be a number above 0 and at most 9e9, not true",
        ),
    ],
    ids=str,
)
def test_a_ceiling_that_means_nothing_is_shown(policy: Path, arguments, title):
    assert told(policy, **arguments).diagnostic.title == title


def test_an_analyst_has_to_be_named_where_there_are_any(shared: Path):
    assert "none was named" in str(told(shared))
    assert "--analyst alice, in Python analyst='alice'" in str(told(shared, analyst="alcie"))
    assert told(shared, analyst="default").code == "DPQ608"


def test_without_analysts_there_is_one(policy: Path):
    dpquery.connect(policy, analyst="default").close()
    assert told(policy, analyst="alice").code == "DPQ608"


def test_own_files_need_a_budget_and_keep_their_ledger_in_memory(policy: Path):
    file = policy.parent / "staff.parquet"
    assert told(file).code == "DPQ608"
    with dpquery.connect(file, unit="person_id", max_rows_contributed=1, epsilon=1) as session:
        answer = session.sql(COUNT)
        assert session.budget.left.epsilon == Fraction(1, 2)
        assert any("memory" in note for note in answer.notes)
    with dpquery.connect(file, unit="person_id", max_rows_contributed=1, epsilon=1) as session:
        assert session.budget.left.epsilon == 1
    assert not list(policy.parent.glob("*.ledger"))


def test_a_password_among_the_arguments_is_refused_and_not_quoted(policy: Path):
    file, url = policy.parent / "staff.parquet", "postgresql://me:hunter2@host/db"
    fault = told(file, epsilon=1, ledger=url)
    assert (fault.code, fault.diagnostic.title) == ("DPQ604", "ledger holds a password")
    assert "hunter2" not in str(fault)


def test_a_server_of_ones_own_needs_the_driver(policy: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    arguments = {"epsilon": 1, "ledger": "postgresql://host/db"}
    assert told(policy.parent / "staff.parquet", **arguments).code == "DPQ611"
