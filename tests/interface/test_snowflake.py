"""Queries in the forms of Snowflake's manual run as they are, and cost their statement."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

import dpquery
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session

QUERIES = [
    # what a query may show
    ("SELECT dept, COUNT(*) AS 'c', DP_INTERVAL_LOW('c') FROM staff GROUP BY dept", 1, 5),
    (
        "SELECT dept, COUNT(1 + age) AS 'c', DP_INTERVAL_LOW('c') FROM staff GROUP BY dept",
        1,
        5,
    ),
    (
        "SELECT dept, COUNT(x) AS 'c', DP_INTERVAL_LOW('c') FROM (SELECT dept, 1 + salary "
        "AS x FROM staff) GROUP BY dept",
        1,
        5,
    ),
    # intervals
    (
        "SELECT SUM(minutes) AS total, DP_INTERVAL_LOW(total), DP_INTERVAL_HIGH(total) "
        "FROM visits",
        1,
        1,
    ),
    (
        "SELECT COUNT(DISTINCT person_id) AS c, DP_INTERVAL_LOW(c) AS LOW, "
        "DP_INTERVAL_HIGH(c) AS HIGH FROM hr.public.staff WHERE remote",
        1,
        1,
    ),
    # several aggregates
    ("SELECT COUNT(salary), COUNT(age) FROM staff GROUP BY dept", 2, 5),
    ("SELECT COUNT(*), AVG(salary), STDDEV(salary) FROM staff", 3, 1),
    # one row of each entity
    ("SELECT COUNT(DISTINCT person_id) FROM visits WHERE region = 'north'", 1, 1),
    (
        "SELECT COUNT(spent) FROM (SELECT person_id, ANY_VALUE(spent) AS spent, "
        "ANY_VALUE(zone) AS zone FROM visits AS v JOIN regions AS r ON v.region = r.region "
        "GROUP BY person_id) WHERE zone = 'coast'",
        1,
        1,
    ),
    (
        "SELECT COUNT(n) FROM (SELECT COUNT((region <> 'north')::INT) AS n FROM visits "
        "WHERE region IS NOT NULL GROUP BY person_id) WHERE n > 0 AND n < 20",
        1,
        1,
    ),
    (
        "SELECT AVG(mean) FROM (SELECT AVG(minutes) AS mean FROM visits GROUP BY "
        "person_id) WHERE mean >= 5 AND mean <= 80",
        1,
        1,
    ),
    # joins
    (
        "SELECT COUNT(*) FROM visits INNER JOIN staff ON visits.person_id=staff.person_id",
        1,
        1,
    ),
    (
        "SELECT COUNT(*) FROM visits v INNER JOIN staff s ON v.person_id == "
        "s.person_id WHERE remote",
        1,
        1,
    ),
    (
        "SELECT COUNT(*) FROM (SELECT person_id, COUNT(day) FROM visits GROUP BY "
        "person_id) AS g1 INNER JOIN (SELECT * FROM staff) AS g2 ON "
        "g1.person_id=g2.person_id",
        1,
        1,
    ),
    ("SELECT COUNT(*) FROM staff NATURAL JOIN visits", 1, 1),
    # domains
    (
        "SELECT dept, COUNT(*) FROM staff WHERE dept = 'eng' OR dept = 'ops' GROUP BY dept",
        1,
        2,
    ),
    ("SELECT dept, AVG(age) FROM staff WHERE dept IN ('eng', 'ops') GROUP BY dept", 1, 2),
    ("SELECT SUM(salary) FROM staff WHERE salary < 90000 AND salary >= 0", 1, 1),
    ("SELECT AVG(x) FROM (SELECT GREATEST(LEAST(salary, 90000), 0) AS x FROM staff)", 1, 1),
    ("SELECT SUM(IFF(remote, 1, 0)) FROM staff", 1, 1),
]
"""Each with how many releases share its epsilon, and how many rows it answers."""
REFUSED = {
    "SELECT person_id FROM staff": "DPQ301",
    "SELECT COUNT(*) FROM staff s JOIN visits v ON s.age > v.minutes": "DPQ304",
    "SELECT COUNT(*) FROM a.staff JOIN b.staff s USING (person_id)": "DPQ201",
    "SELECT dept, COUNT(*) AS 'c', DP_INTERVAL_LOW('d') FROM staff GROUP BY dept": "DPQ204",
    "SELECT 1 + COUNT(*) AS c, DP_INTERVAL_LOW(c) FROM staff": "DPQ303",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    policy = copy_samples(tmp_path_factory.mktemp("snowflake") / "samples")
    policy.write_text(policy.read_text("utf-8").replace("epsilon = 2.0", "epsilon = 100", 1))
    with dpquery.connect(policy) as opened:
        yield opened


@pytest.mark.parametrize(("query", "calls", "rows"), QUERIES)
def test_a_query_of_the_manual_costs_its_statement(
    session: Session, query: str, calls: int, rows: int
):
    before, explained = session.budget.spent.epsilon, session.explain(query, eps=1)
    assert [step.epsilon for step in explained.steps] == [Fraction(1, calls)] * calls
    assert explained.charge.epsilon == 1
    answer = session.sql(query, eps=1)
    assert answer.loss.epsilon == session.budget.spent.epsilon - before == 1
    assert answer.loss.delta == 0
    assert len(answer.rows) == rows


@pytest.mark.parametrize(("query", "code"), REFUSED.items())
def test_what_is_refused_costs_nothing(session: Session, query: str, code: str):
    before = session.budget.spent
    with pytest.raises(dpquery.QueryRefused) as refused:
        session.sql(query, eps=1)
    assert refused.value.code == code
    assert session.budget.spent == before


def test_the_number_of_rows_of_a_table_is_not_public(session: Session):
    """Snowflake gives it without noise."""
    ((low, high),) = session.sql("SELECT COUNT(*) AS n FROM staff", eps=1).interval("n", 0.95)
    assert low < high


def test_a_domain_by_where_bounds_the_noise(session: Session):
    wide = session.explain("SELECT SUM(salary) FROM staff", eps=1).steps[0].noise_scale
    narrow = "SELECT SUM(salary) FROM staff WHERE salary < 100 AND salary >= 0"
    clamped = "SELECT SUM(GREATEST(LEAST(salary, 99), 0)) FROM staff"
    assert wide == "200000"
    assert {session.explain(q, eps=1).steps[0].noise_scale for q in (narrow, clamped)} == {"99"}
