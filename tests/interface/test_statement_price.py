"""What a statement may spend in all: where it is said, how it is shared, what it answers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery.database import Database
from dpquery.errors import BudgetRefused, NameRefused, PlanRefused, QueryRefused, RuleRefused
from dpquery.policy.load import load_policy
from dpquery.policy.model import LedgerSettings
from dpquery.session import Session
from tests.corpus.runs import anew
from tests.samples import sample_policy
from tests.tasks import ROOT


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    file = sample_policy(tmp_path_factory.mktemp("priced"), "epsilon = 100\ndelta = 1e-4")
    policy = replace(load_policy(file), ledger=LedgerSettings(None))
    with closing(Database(policy)) as opened:
        yield opened


@pytest.fixture
def session(database: Database) -> Session:
    return anew(database)


PLAIN = {
    "COUNT(*)": "DP_COUNT(*, eps=1)",
    "COUNT()": "DP_COUNT(*, eps=1)",
    "COUNT(bonus)": "DP_COUNT(bonus, eps=1)",
    "COUNT(DISTINCT person_id)": "DP_COUNT(DISTINCT person_id, eps=1)",
    "APPROX_COUNT_DISTINCT(dept)": "DP_COUNT(DISTINCT dept, eps=1)",
    "COUNT_IF(remote)": "DP_COUNT_IF(remote, eps=1)",
    "SUM(salary)": "DP_SUM(salary, eps=1)",
    "AVG(salary)": "DP_AVG(salary, eps=1)",
    "MEAN(salary)": "DP_AVG(salary, eps=1)",
    "AVG(salary, bounds=[0, 90000])": "DP_AVG(salary, bounds=[0, 90000], eps=1)",
    "MIN(age)": "DP_MIN(age, eps=1)",
    "MAX(age)": "DP_MAX(age, eps=1)",
    "MEDIAN(age)": "DP_MEDIAN(age, eps=1)",
    "QUANTILE_CONT(age, 0.9)": "DP_QUANTILE(age, 0.9, eps=1)",
    "QUANTILE_DISC(age, 0.9)": "DP_QUANTILE(age, 0.9, eps=1)",
    "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age)": "DP_QUANTILE(age, 0.9, eps=1)",
    "MODE() WITHIN GROUP (ORDER BY dept)": "DP_MODE(dept, eps=1)",
    "VARIANCE(age)": "DP_VAR_SAMP(age, eps=1)",
    "VAR_POP(age)": "DP_VAR_POP(age, eps=1)",
    "STDDEV(age)": "DP_STDDEV_SAMP(age, eps=1)",
    "STDDEV_POP(age)": "DP_STDDEV_POP(age, eps=1)",
    "COVAR_POP(salary, age)": "DP_COVAR_POP(salary, age, eps=1)",
    "COVAR_SAMP(salary, age)": "DP_COVAR_SAMP(salary, age, eps=1)",
    "CORR(salary, age)": "DP_CORR(salary, age, eps=1)",
    "REGR_SLOPE(salary, age)": "DP_REGR_SLOPE(salary, age, eps=1)",
    "REGR_INTERCEPT(salary, age)": "DP_REGR_INTERCEPT(salary, age, eps=1)",
    "REGR_R2(salary, age)": "DP_REGR_R2(salary, age, eps=1)",
    "MODE(dept)": "DP_MODE(dept, eps=1)",
    "COUNT(*) FILTER (WHERE remote)": "DP_COUNT(*, eps=1) FILTER (WHERE remote)",
    "DP_COUNT(*)": "DP_COUNT(*, eps=1)",
}


@pytest.mark.parametrize(("plain", "call"), PLAIN.items())
def test_each_aggregate_means_its_dp_call(session: Session, plain: str, call: str):
    shown = str(session.explain(f"SELECT {plain} AS v FROM staff", eps=1))
    said = " ".join(shown.partition("\ncharge")[0].split())
    assert said == f"understood SELECT {call} AS v FROM staff"
    meant = str(session.explain(f"SELECT {call} AS v FROM staff"))
    assert shown.partition("moved by")[2] == meant.partition("moved by")[2]


def test_without_an_epsilon_all_aggregates_are_refused_at_once(session: Session):
    with pytest.raises(RuleRefused) as refused:
        session.sql("SELECT dept, AVG(age), COUNT(*) FROM staff GROUP BY dept")
    mended, setting = refused.value.diagnostic.remedy
    assert mended == (
        "SELECT dept, DP_AVG(age, eps=0.5), DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept"
    )
    assert "SET dp.eps = 0.5" in setting
    assert session.sql(mended).loss.epsilon == 1


def test_the_charge_is_the_epsilon_whatever_it_is_shared_by(session: Session):
    for count in (1, 3, 7):
        items = ", ".join(f"AVG(age + {i})" for i in range(count))
        answer = session.sql(f"SELECT {items} FROM staff", eps="0.1")
        assert answer.loss.epsilon == Fraction(1, 10)


def test_a_plain_aggregate_written_twice_is_one_release(session: Session):
    query = "SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept ORDER BY COUNT(*) DESC"
    answer = session.sql(f"{query}, dept LIMIT 3", eps=1)
    assert len(session.explain(f"{query} LIMIT 2", eps=1).steps) == 1
    assert [row[1] for row in answer.rows] == sorted((r[1] for r in answer.rows), reverse=True)


def test_calls_that_state_their_own_leave_the_rest(session: Session):
    query = "SELECT DP_COUNT(*, eps=0.25), AVG(age, weight=3), SUM(age) FROM staff"
    steps = session.explain(query, eps=1).steps
    assert [step.epsilon for step in steps] == [
        Fraction(1, 4),
        Fraction(9, 16),
        Fraction(3, 16),
    ]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT DP_COUNT(*, eps=1), AVG(age) FROM staff", "DPQ205"),
        ("SELECT DP_COUNT(*, eps=2), AVG(age) FROM staff", "DPQ205"),
        ("SELECT DP_COUNT(*, eps=0.5, weight=2), AVG(age) FROM staff", "DPQ209"),
        ("SELECT AVG(age, weight=0) FROM staff", "DPQ205"),
        ("SELECT AVG(age, weight=2000) FROM staff", "DPQ205"),
        ("SELECT STRING_AGG(dept) FROM staff", "DPQ302"),
        ("SELECT ANY_VALUE(dept) FROM staff", "DPQ302"),
        ("SELECT salary FROM staff", "DPQ301"),
        ("SELECT DISTINCT person_id, dept FROM staff", "DPQ301"),
        ("SELECT SUM(salary) OVER () FROM staff", "DPQ301"),
        ("SELECT MEDIAN(salary) FROM staff WHERE MEDIAN(salary) > 1", "DPQ202"),
    ],
)
def test_what_stays_exact_or_has_nothing_left_is_refused_free(
    session: Session, query: str, code: str
):
    with pytest.raises(QueryRefused) as refused:
        session.sql(query, eps=1)
    assert refused.value.code == code
    assert session.budget.spent.epsilon == 0


def test_rows_of_one_unit_are_aggregated_exactly_below(session: Session):
    query = (
        "SELECT AVG(n), MAX(m) FROM (SELECT person_id, LEAST(COUNT(*), 20) AS n, "
        "LEAST(MAX(minutes), 100) AS m FROM visits GROUP BY person_id)"
    )
    shown = " ".join(str(session.explain(query, eps=1)).partition("\ncharge")[0].split())
    assert "DP_MAX(m, eps=0.5) FROM (SELECT person_id, LEAST(COUNT(*), 20) AS n" in shown


def test_above_the_frontier_aggregates_are_ordinary_ones(session: Session):
    query = "SELECT MAX(n) FROM (SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept)"
    assert len(session.explain(query, eps=1).steps) == 1
    shares = "SELECT dept, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM staff GROUP BY 1"
    rows = session.sql(shares, eps=10).rows
    assert sum(row[1] for row in rows) == pytest.approx(1)


def test_a_session_sets_its_epsilon_and_the_call_goes_before(session: Session):
    query = "SELECT COUNT(*) FROM staff"
    session.sql("SET dp.eps = 0.3;")
    assert session.explain(query).charge.epsilon == Fraction(3, 10)
    assert session.explain(query, eps="0.2").charge.epsilon == Fraction(1, 5)
    assert "0.3" in session.sql("set session dp.epsilon to 0.3").scalar()
    session.sql("RESET dp.eps")
    with pytest.raises(RuleRefused):
        session.explain(query)


@pytest.mark.parametrize("eps", [0, -1, "many", 10**10, "1e-10", True, float("nan")])
def test_an_epsilon_that_is_none_is_refused(session: Session, eps: object):
    with pytest.raises(NameRefused) as refused:
        session.sql("SELECT COUNT(*) FROM staff", eps=eps)
    assert refused.value.code == "DPQ205"


def test_the_limits_hold_for_the_epsilon_of_a_statement(session: Session):
    with pytest.raises(BudgetRefused):
        session.sql("SELECT COUNT(*) FROM staff", eps=101)


def test_groups_that_are_not_public_are_found_where_there_is_a_delta(session: Session):
    query = "SELECT person_id + 0 AS d, COUNT(*) AS n FROM visits GROUP BY d"
    shown = " ".join(str(session.explain(query, eps=2)).partition("\ncharge")[0].split())
    assert "GROUP BY DP_KEYS(person_id + 0, eps=1, delta=1e-6)" in shown
    two = "SELECT minutes * minutes AS m, COUNT(*) AS n FROM visits GROUP BY m"
    rows = session.sql(two, eps=20, delta="1e-5").rows
    squares = {row[0] for row in rows}
    assert len(squares) > 3
    assert squares <= {None, *(number * number for number in range(241))}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT person_id, COUNT(*) FROM visits GROUP BY person_id",
        "SELECT v.person_id AS who, minutes, COUNT(*) FROM visits v GROUP BY minutes, who",
    ],
)
def test_units_are_not_looked_for_as_groups(session: Session, query: str):
    """Each is alone in its group, so that none could be found: that would be paid for."""
    with pytest.raises(PlanRefused) as refused:
        session.explain(query, eps=2)
    assert refused.value.code == "DPQ402"


TWO = "person_id + 0 AS p, spent * 0 AS z"
TOGETHER = {
    f"SELECT {TWO}, COUNT(*) AS n FROM visits GROUP BY p, z": f"SELECT {TWO}, DP_COUNT(*, "
    "eps=1) AS n FROM visits GROUP BY DP_KEYS(person_id + 0, spent * 0, eps=1, delta=1e-6)",
    f"SELECT region, {TWO} FROM visits GROUP BY 2, region, 3 LIMIT 3": f"SELECT region, {TWO} "
    "FROM visits GROUP BY DP_KEYS(person_id + 0, spent * 0, eps=2, delta=1e-6), region "
    "LIMIT 3",
    f"SELECT {TWO}, region, COUNT(*) AS n FROM visits GROUP BY ALL HAVING COUNT(*) > 3": ""
    f"SELECT {TWO}, region, DP_COUNT(*, eps=1) AS n FROM visits GROUP BY "
    "DP_KEYS(person_id + 0, spent * 0, eps=1, delta=1e-6), region HAVING n > 3",
    f"SELECT DISTINCT {TWO} FROM visits WHERE minutes > 3 ORDER BY 2": f"SELECT DISTINCT {TWO} "
    "FROM visits WHERE minutes > 3 GROUP BY DP_KEYS(person_id + 0, spent * 0, eps=2, "
    "delta=1e-6) ORDER BY 2",
    f"SELECT COUNT(*) AS n FROM (SELECT DISTINCT {TWO} FROM visits)": "SELECT COUNT(*) AS n "
    f"FROM (SELECT DISTINCT {TWO} FROM visits GROUP BY DP_KEYS(person_id + 0, spent * 0, "
    "eps=2, delta=1e-6))",
    "SELECT salary, COUNT(*) AS n FROM staff GROUP BY 1": "SELECT salary, DP_COUNT(*, eps=1) "
    "AS n FROM staff GROUP BY DP_KEYS(salary, eps=1, delta=1e-6)",
    "SELECT spent * 0 AS z, age, day FROM visits JOIN staff USING (person_id) GROUP BY age, z, "
    "day": "SELECT spent * 0 AS z, age, day FROM visits JOIN staff USING (person_id) GROUP BY "
    "DP_KEYS(age, spent * 0, day, eps=2, delta=1e-6)",
    "SELECT spent * 0 AS z, age, day FROM visits JOIN staff USING (person_id) WHERE (age, day) "
    "IN ((30, '2025-01-07'), (31, '2025-02-01')) GROUP BY z, day, age": "SELECT spent * 0 AS "
    "z, age, day FROM visits JOIN staff USING (person_id) WHERE (age, day) IN ((30, "
    "'2025-01-07'), (31, '2025-02-01')) GROUP BY DP_KEYS(spent * 0, eps=2, delta=1e-6), day, "
    "age",
    f"SELECT {TWO}, COUNT(*) AS n FROM visits GROUP BY ROLLUP (p, 2)": f"SELECT {TWO}, "
    "DP_COUNT(*, eps=1) AS n FROM visits GROUP BY GROUPING SETS ((DP_KEYS(person_id + 0, "
    "spent * 0, eps=1, delta=1e-6)), (p), ())",
    f"SELECT {TWO}, region FROM visits GROUP BY GROUPING SETS ((p, region, 2), (2, region), "
    "minutes * spent)": f"SELECT {TWO}, region FROM visits GROUP BY GROUPING SETS "
    "((DP_KEYS(person_id + 0, spent * 0, eps=1, delta=5e-7), region), (2, region), "
    "(DP_KEYS(minutes * spent, eps=1, delta=5e-7)))",
    "SELECT person_id + 0 AS p, minutes, day FROM visits GROUP BY ROLLUP (day, p, minutes)": ""
    "SELECT person_id + 0 AS p, minutes, day FROM visits GROUP BY GROUPING SETS ((DP_KEYS(day, "
    "person_id + 0, minutes, eps=2, delta=1e-6)), (day, p), (day), ())",
    f"SELECT {TWO} FROM visits GROUP BY p, DP_KEYS(spent * 0, delta=9e-7)": f"SELECT {TWO} "
    "FROM visits GROUP BY DP_KEYS(person_id + 0, eps=1, delta=1e-7), "
    "DP_KEYS(spent * 0, delta=9e-7, eps=1)",
}


@pytest.mark.parametrize(("plain", "meant"), TOGETHER.items())
def test_groups_that_are_not_public_are_selected_together(
    session: Session, plain: str, meant: str
):
    """What is shown as understood can be pasted, and is the same plan."""
    explained = session.explain(plain, eps=2, delta="1e-6")
    said = " ".join(str(explained).partition("\ncharge")[0].split())
    assert said == f"understood {meant}"
    again = session.explain(meant)
    assert again.charge == explained.charge
    assert [(one.function, one.epsilon) for one in again.steps] == [
        (one.function, one.epsilon) for one in explained.steps
    ]


def _on_one(shown: object) -> str:
    """Return a text without the ends of its lines."""
    return " ".join(str(shown).split())


def test_public_groups_that_are_found_are_said_to_be(session: Session):
    query = (
        "SELECT person_id + 0 AS p, COUNT(*) FROM visits WHERE minutes < {} "
        "GROUP BY p, minutes, day"
    )
    few = session.explain(query.format(11), eps=2)
    many = session.explain(query.format(12), eps=2)
    assert "at most 990,000 (1000 of person_id x 11 of minutes x 90 of day)" in _on_one(few)
    assert "groups at most 1,000 of person_id, minutes, day: those that are" in _on_one(many)


def test_groups_of_a_long_range_are_found_where_there_is_a_delta(session: Session):
    rows = session.sql("SELECT salary, COUNT(*) FROM staff GROUP BY salary", eps=20).rows
    assert 0 < len(rows) < 1000


def test_groupings_of_one_group_that_is_not_public_keep_their_form(session: Session):
    query = "SELECT spent * 0 AS z, region, COUNT(*) AS n FROM visits GROUP BY CUBE (1, region)"
    shown = session.explain(query, eps=2, delta="1e-6")
    assert [step.function for step in shown.steps].count("DP_KEYS") == 1
    assert "CUBE (DP_KEYS(spent * 0, eps=1" in str(shown)


def test_groupings_that_do_not_begin_with_all_they_find_are_refused_with_a_way(
    session: Session,
):
    query = f"SELECT {TWO} FROM visits GROUP BY GROUPING SETS ({{}})"
    with pytest.raises(PlanRefused) as refused:
        session.explain(query.format("p, (p, z)"), eps=2)
    told = refused.value.diagnostic
    assert (told.code, told.title) == ("DPQ405", "this would make 1,001,000 groups")
    assert told.remedy == (
        "begin with a grouping that has all of these: they are found together",
    )
    assert session.explain(query.format("(p, z), p"), eps=2).charge.epsilon == 2


def test_different_public_values_are_listed_at_no_charge(session: Session):
    answer = session.sql("SELECT DISTINCT dept, remote FROM staff WHERE dept IN ('hr', 'eng')")
    assert answer.loss.epsilon == 0
    assert answer.rows == [(d, r) for d in ("eng", "hr") for r in (False, True)]
    assert len(session.ledger().rows) == 0


REPEATED = {
    "SELECT COUNT(*) FROM staff HAVING COUNT(*) > 3": "SELECT DP_COUNT(*, eps=1) AS "
    '"COUNT(*)" FROM staff HAVING "COUNT(*)" > 3',
    "SELECT dept, AVG(age) / COUNT(*) AS q, COUNT(*) AS n FROM staff GROUP BY dept ORDER BY "
    "COUNT(*)": "SELECT dept, DP_AVG(age, eps=0.5) / n AS q, DP_COUNT(*, eps=0.5) AS n FROM "
    "staff GROUP BY dept ORDER BY n",
    "SELECT COUNT(*) FILTER (WHERE remote) AS n FROM staff HAVING COUNT(*) FILTER (WHERE "
    "remote) > 3": "SELECT DP_COUNT(*, eps=1) FILTER (WHERE remote) AS n FROM staff "
    "HAVING n > 3",
}


@pytest.mark.parametrize(("plain", "meant"), REPEATED.items())
def test_what_is_written_twice_is_understood_as_one_call(
    session: Session, plain: str, meant: str
):
    explained = session.explain(plain, eps=1)
    said = " ".join(str(explained).partition("\ncharge")[0].split())
    assert said == f"understood {meant}"
    assert session.explain(meant).charge == explained.charge == dpquery.Loss(Fraction(1))


def test_a_delta_that_leaves_none_to_others_is_told_as_such(session: Session):
    query = "SELECT {}, COUNT(*) AS n FROM visits GROUP BY p, DP_KEYS(spent * 0, delta={})"
    with pytest.raises(NameRefused) as refused:
        session.sql(query.format(TWO, "1e-6"), eps=3, delta="1e-6")
    told = refused.value.diagnostic
    assert told.title == "a delta of 1e-6 for the statement is used up here"
    (offered,) = told.remedy
    halved = query.format(TWO, offered.removeprefix("delta="))
    assert session.explain(halved, eps=3, delta="1e-6").charge.delta == Fraction(1, 10**6)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*, weight=0.001), SUM(age) FROM staff",
        "SELECT COUNT(*, weight=0.001), SUM(age) FROM staff GROUP BY ROLLUP (dept)",
        "SELECT COUNT(*) FROM staff GROUP BY ROLLUP (dept)",
    ],
)
def test_a_share_that_is_too_small_is_told_as_such(session: Session, query: str):
    """Whatever made it small: nobody wrote an eps there that could be larger."""
    with pytest.raises(NameRefused) as refused:
        session.sql(query, eps="1.5e-9")
    told = refused.value.diagnostic
    assert told.title == "1.5e-9 for the statement leaves nothing here"
    assert told.label == "no epsilon of its own"


def test_a_table_without_a_limit_of_rows_has_it_found(tmp_path: Path):
    shutil.copytree(ROOT / "datasets", tmp_path, dirs_exist_ok=True)
    with dpquery.connect(tmp_path / "visits.parquet", unit="person_id", epsilon=10) as opened:
        shown = " ".join(str(opened.explain("SELECT AVG(minutes) FROM visits", eps=1)).split())
        assert "DP_AVG(minutes, bounds='auto', max_rows_contributed='auto', eps=1)" in shown
        assert opened.sql("SELECT COUNT(*) FROM visits", eps=5).loss.epsilon == 5


def test_the_owner_may_say_what_a_statement_spends(tmp_path: Path):
    shutil.copytree(ROOT / "datasets", tmp_path, dirs_exist_ok=True)
    policy = tmp_path / "policy.toml"
    policy.write_text(policy.read_text() + "\n[queries]\nepsilon = 0.1\n")
    with dpquery.connect(policy) as opened:
        assert opened.sql("SELECT COUNT(*) FROM staff").loss.epsilon == Fraction(1, 10)
        opened.sql("SET dp.eps = 0.2")
        assert opened.explain("SELECT SUM(age) FROM staff").charge.epsilon == Fraction(1, 5)
        opened.sql("RESET dp.eps")
        assert opened.explain("SELECT SUM(age) FROM staff").charge.epsilon == Fraction(1, 10)


def test_public_groups_alone_cost_nothing_and_are_all_there_may_be(session: Session):
    answer = session.sql("SELECT dept FROM staff GROUP BY dept ORDER BY 1 DESC")
    assert answer.rows == [("sales",), ("ops",), ("legal",), ("hr",), ("eng",)]
    assert answer.loss.epsilon == 0
    assert answer.notes == (
        "these are the groups there may be, whether or not a row is in them",
    )
    assert len(session.ledger().rows) == 0


def test_groups_alone_that_are_not_public_are_found(session: Session):
    query = "SELECT person_id + 0 AS p FROM visits WHERE person_id < 3 GROUP BY p"
    assert session.explain(query, eps=1).charge == dpquery.Loss(Fraction(1), Fraction(1, 10**6))
    query = "SELECT spent * 0 AS z FROM visits GROUP BY z"
    rows = session.sql(query, eps=20).rows
    assert rows == [(0,), (None,)]
    again = session.sql(query, eps=20)
    assert (again.rows, again.loss.epsilon) == (rows, 0)


def test_too_much_for_a_statement_offers_the_most_that_fits(session: Session):
    query = "SELECT AVG(age), COUNT(*) FROM staff"
    with pytest.raises(BudgetRefused) as refused:
        session.sql(query, eps=200)
    setting = refused.value.diagnostic.remedy[0]
    assert setting.startswith("SET dp.eps = ")
    session.sql(setting)
    assert session.sql(query).loss.epsilon == Fraction(setting.removeprefix("SET dp.eps = "))


def test_what_was_paid_in_part_is_offered_as_a_setting_too(session: Session):
    query = "SELECT dept, COUNT(*) FROM staff GROUP BY dept"
    session.sql(query, eps=1)
    session.sql("SET dp.eps = 600")
    with pytest.raises(BudgetRefused) as refused:
        session.sql(query)
    setting = refused.value.diagnostic.remedy[0]
    assert setting.startswith("SET dp.eps = ")
    session.sql(setting)
    session.sql(query)
    assert session.budget.left.epsilon < 1


INNER = "SUM(age) FILTER (WHERE age > (SELECT AVG(age{}) FROM staff))"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {INNER.format('')} FROM staff",
        f"SELECT {INNER.format('')} AS a FROM staff HAVING {INNER.format('')} > 0",
        f"SELECT {INNER.format(', weight=1000')} AS a FROM staff "
        f"HAVING {INNER.format(', weight=1000')} > 0",
        "SELECT SUM(CASE WHEN age > (SELECT AVG(age) FROM staff) THEN age END) FROM staff",
        "SELECT COUNT(*, eps=0.25) FROM staff UNION ALL SELECT COUNT(age) FROM staff",
    ],
)
def test_calls_inside_of_calls_have_their_shares(session: Session, query: str):
    assert session.explain(query, eps=1).charge.epsilon == 1


def test_a_plain_aggregate_may_state_its_own_eps(session: Session):
    for query in (
        "SELECT COUNT(*, eps=0.25) FROM staff",
        "SELECT AVG(age, eps=0.25) FROM staff",
    ):
        assert session.explain(query, eps=1).charge.epsilon == Fraction(1, 4)


def test_delta_that_a_call_states_is_part_of_the_statements(session: Session):
    query = "SELECT SUM(age, mechanism='gaussian', delta=1e-7), person_id + 0 AS p FROM staff"
    charge = session.explain(f"{query} GROUP BY p", eps=1, delta="1e-6").charge
    assert (charge.epsilon, charge.delta) == (1, Fraction(1, 10**6))


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT COUNT(*), DP_SUM(age, rho=0.01) FROM staff", "DPQ209"),
        ("SELECT APPROX_COUNT_DISTINCT(dept) FROM staff |> WHERE age > 3", "DPQ102"),
        ("SELECT QUANTILE(age, 0.5) FROM staff WHERE age BETWEEN 1 2", "DPQ101"),
        ("SELECT person_id FROM staff UNION ALL SELECT person_id FROM staff", "DPQ301"),
    ],
)
def test_what_would_be_read_or_paid_otherwise_is_refused(
    session: Session, query: str, code: str
):
    with pytest.raises(QueryRefused) as refused:
        session.explain(query, eps=1)
    assert refused.value.code == code


def test_aggregates_of_other_rows_are_other_releases(session: Session):
    some, others = "COUNT(*) FILTER (WHERE remote)", "COUNT(*) FILTER (WHERE age > 30)"
    query = f"SELECT {some} AS a, {others} AS b, COUNT(*) AS c, {some} AS d FROM staff"
    assert len(session.explain(query, eps=1).steps) == 3
    (row,) = session.sql(query, eps=90).rows
    assert row[0] == row[3]
    assert len(set(row)) == 3
