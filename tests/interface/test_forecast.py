"""What questions would cost before they are asked, and one epsilon over several of them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery.session import Session
from dpquery.session_methods.forecast import Asked
from dpquery.shell.main import main
from tests.samples import sample_policy

COUNT = "SELECT DP_COUNT(*, eps=0.25) AS n FROM staff"
MEAN = "SELECT dept, AVG(salary) AS pay FROM staff GROUP BY dept"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return sample_policy(tmp_path, "epsilon = 2.0")


@pytest.fixture
def session(policy: Path) -> Iterator[Session]:
    with dpquery.connect(policy) as opened:
        yield opened


SCRIPTS = [
    [COUNT, COUNT, "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff"],
    ["SET dp.eps = 0.5", MEAN, MEAN, "RESET dp.eps", COUNT],
    ["SET dp.eps = 0.5", MEAN, "SET dp.eps = 0.25", MEAN],
    [f"CREATE TEMP VIEW v AS {COUNT}", "SELECT n FROM v", "SELECT n FROM v", "SHOW BUDGET"],
    [COUNT, f"REFRESH {COUNT}"],
    ["SELECT DP_COUNT(*, error=9) AS n FROM staff", "SELECT zone FROM regions"],
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_costs_no_more_than_was_foreseen(script: list[str], policy: Path):
    with dpquery.connect(policy) as session:
        found = session.forecast(script)
        assert session.budget.spent == dpquery.Loss(Fraction(0))
    assert found.fits
    with dpquery.connect(policy) as session:
        prices = [session.sql(text).loss.epsilon for text in script]
        foreseen = [one.spent.loss.epsilon for one in found.statements]
        assert all(price <= most for price, most in zip(prices, foreseen, strict=True))
        assert [not price for price in prices] == [not most for most in foreseen]
        assert session.budget.left.epsilon >= found.left.epsilon


def test_what_was_answered_is_foreseen_as_free(session: Session):
    session.sql(COUNT)
    (one,) = session.forecast([COUNT]).statements
    assert one.remark == "free: answered before, or public"


def test_one_answer_is_refined_by_one_statement_alone(session: Session):
    session.sql(COUNT)
    script = [f"SELECT DP_COUNT(*, eps={eps}) AS n FROM staff" for eps in ("0.5", "0.4")]
    found = session.forecast(script)
    assert [one.spent.loss.epsilon for one in found.statements] == [
        Fraction(1, 4),
        Fraction(2, 5),
    ]


def test_rho_is_counted_where_epsilons_do_not_fit(tmp_path: Path):
    with dpquery.connect(sample_policy(tmp_path, "epsilon = 2.0\ndelta = 1e-6")) as session:
        script = [
            f"SELECT DP_COUNT(*, eps=0.05) AS n FROM staff WHERE age > {n}"
            for n in range(20, 63)
        ]
        found = session.forecast(script)
        assert found.spent.loss.epsilon > 2
        assert found.fits
        assert found.left.epsilon > 0


def test_a_refusal_does_not_end_a_forecast(session: Session):
    found = session.forecast(["SELECT salary FROM staff", COUNT])
    assert found.statements[0].remark.startswith("refused[DPQ3")
    assert found.spent.loss.epsilon == Fraction(1, 4)


def test_too_much_is_foreseen(session: Session):
    found = session.forecast([COUNT, "SELECT DP_COUNT(*, eps=1.9) FROM staff WHERE age > 30"])
    assert not found.fits
    assert [row["left"] for row in found.answer().to_dicts()] == ["1.75", "too little"]
    assert "too little for all of them" in str(found)


@pytest.mark.parametrize(
    ("script", "code"),
    [(COUNT, 0), (f"{COUNT}; SELECT salary FROM staff", 1), (COUNT.replace("0.25", "3"), 3)],
)
def test_a_script_is_explained_from_the_command_line(
    script: str, code: int, policy: Path, capsys: pytest.CaptureFixture[str]
):
    file = policy.parent / "report.sql"
    file.write_text(script)
    assert main([str(policy), "-f", str(file), "--explain"]) == code
    assert "DP_COUNT" in capsys.readouterr().out
    with dpquery.connect(policy) as session:
        assert session.budget.left.epsilon == 2


# SHOW BUDGET says how many more like the last.


def test_the_budget_says_how_many_more_like_the_last(session: Session):
    assert "more" not in session.sql("SHOW BUDGET").columns
    session.sql(COUNT)
    assert session.sql("SHOW BUDGET").to_dicts()[0]["more"] == "7"
    for age in range(20, 27):
        session.sql(f"{COUNT} WHERE age > {age}")
    assert session.sql("SHOW BUDGET").to_dicts()[0]["more"] == "0"
    with pytest.raises(dpquery.BudgetRefused):
        session.sql(f"{COUNT} WHERE age > 40")


def test_as_many_more_are_charged_by_rho(tmp_path: Path):
    with dpquery.connect(sample_policy(tmp_path, "epsilon = 1\ndelta = 1e-6")) as session:
        query = "SELECT DP_COUNT(*, eps=0.15) AS n FROM staff WHERE age > {}"
        session.sql(query.format(18))
        more = int(session.sql("SHOW BUDGET").to_dicts()[0]["more"])
        for age in range(19, 19 + more):
            session.sql(query.format(age))
        with pytest.raises(dpquery.BudgetRefused):
            session.sql(query.format(69))


# One epsilon over several questions.


@pytest.mark.parametrize(
    "questions",
    [
        ["SELECT COUNT(*) FROM staff", MEAN],
        {"SELECT COUNT(*) FROM staff": 1, MEAN: 3},
        [("SELECT COUNT(*) FROM staff", "0.5"), MEAN, ("SELECT MEDIAN(age) FROM staff", 2)],
    ],
)
def test_questions_spend_what_was_said_together(questions: Asked, session: Session):
    plan = session.plan(questions, epsilon=1)
    assert session.budget.left.epsilon == 2
    assert 1 - Fraction(1, 10**11) < plan.price.epsilon <= 1
    answers = plan.run()
    assert [answer.loss for answer in answers] == [one.price for one in plan.questions]
    assert session.budget.left.epsilon == 2 - plan.price.epsilon


def test_shares_are_in_proportion_to_weights(session: Session):
    plan = session.plan({"SELECT COUNT(*) FROM staff": 1, MEAN: 3}, epsilon="0.8")
    assert [one.eps for one in plan.questions] == ["0.2", "0.6"]
    assert str(plan).splitlines()[0].split() == ["share", "price", "question"]
    assert str(plan).endswith("together 0.8; 2 of the budget is left before them")


def test_what_was_answered_for_its_share_is_free(session: Session):
    session.plan(["SELECT COUNT(*) FROM staff", MEAN], epsilon=1).run()
    assert session.plan(["SELECT COUNT(*) FROM staff", MEAN], epsilon=1).price.epsilon == 0


@pytest.mark.parametrize(
    ("questions", "epsilon"),
    [
        ([], 1),
        ("SELECT COUNT(*) FROM staff", 1),
        ([3], 1),
        ({MEAN: 0}, 1),
        ({MEAN: "many"}, 1),
        ([MEAN], 0),
        ([MEAN], None),
        (["SELECT DP_COUNT(*, eps=5) FROM staff"], 1),
        (["SELECT nothing FROM staff"], 1),
    ],
)
def test_what_cannot_be_shared_out_is_refused(questions, epsilon, session: Session):
    with pytest.raises(dpquery.QueryRefused):
        session.plan(questions, epsilon)
    assert session.budget.left.epsilon == 2
