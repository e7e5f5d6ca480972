"""Queries in the forms of BigQuery's manual run as they are, and cost their epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

import dpquery
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon={}, delta=.00001, {})"
DP = CLAUSE.format(10, "max_groups_contributed=2, privacy_unit_column=person_id")
ANON = "SELECT WITH ANONYMIZATION OPTIONS(epsilon=10, delta=.00001, kappa=2)"
ROWS = "contribution_bounds_per_row => (0,100)"
GROUP = "contribution_bounds_per_group => (0,100)"
BY = "FROM hr.visits GROUP BY region"
# Each with how many releases share its epsilon of 10, and how many rows it answers.
QUERIES = [
    (f"{DP} region, AVG(minutes, {GROUP}) AS average {BY}", 1, 7),
    (f"{DP} region, COUNT(*, {GROUP}) AS times {BY}", 1, 7),
    (f"{DP} region, COUNT(minutes, {GROUP}) AS times {BY}", 1, 7),
    (f"{DP} region, SUM(minutes, {GROUP}) AS total {BY} ORDER BY total DESC LIMIT 3", 1, 3),
    (f"{DP} region, PERCENTILE_CONT(minutes, 0.5, {ROWS}) AS middle {BY}", 1, 7),
    (f"{DP} region, VAR_POP(minutes, {ROWS}) AS v, STDDEV_POP(minutes) AS s {BY}", 2, 7),
    (f"{DP} region, APPROX_QUANTILES(minutes, 4, {ROWS}) AS quarters {BY}", 1, 7),
    (f"{DP} region, COUNTIF(minutes > 30) AS n, AVG(minutes) AS a, SUM(spent) AS s {BY}", 3, 7),
    (f"{DP} COUNT(DISTINCT person_id) AS people FROM hr.visits", 1, 1),
    (
        f"{DP} s.dept, COUNT(*) AS n FROM visits v JOIN staff s USING (person_id) GROUP BY 1",
        1,
        5,
    ),
    (
        f"WITH w AS (SELECT person_id, region, minutes FROM visits) {DP} region, COUNT(*) AS n "
        "FROM w GROUP BY region",
        1,
        7,
    ),
    (
        f"{DP} region, COUNT(*) AS n FROM visits RIGHT OUTER JOIN regions USING (region) "
        "GROUP BY region",
        1,
        6,
    ),
    (f"{ANON} region, ANON_AVG(minutes CLAMPED BETWEEN 0 AND 60) average {BY}", 1, 7),
    (f"{ANON} region, ANON_COUNT(* CLAMPED BETWEEN 0 AND 60) times {BY}", 1, 7),
    (f"{ANON} region, ANON_SUM(minutes CLAMPED BETWEEN 0 AND 60) total {BY}", 1, 7),
    (
        f"{ANON} region, ANON_PERCENTILE_CONT(minutes, 0.9 CLAMPED BETWEEN 0 AND 60) p {BY}",
        1,
        7,
    ),
    (f"{ANON} region, ANON_VAR_POP(minutes CLAMPED BETWEEN 0 AND 60) v {BY}", 1, 7),
]
FOUND = CLAUSE.format(10, "max_groups_contributed=1, privacy_unit_column=person_id")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    policy = copy_samples(tmp_path_factory.mktemp("bigquery") / "samples")
    text = policy.read_text("utf-8").replace("epsilon = 2.0", "epsilon = 1000\ndelta = 1e-3", 1)
    policy.write_text(text, "utf-8")
    with dpquery.connect(policy) as opened:
        yield opened


@pytest.mark.parametrize(("query", "calls", "rows"), QUERIES)
def test_a_query_of_the_manual_costs_its_epsilon(
    session: Session, query: str, calls: int, rows: int
):
    """Its delta is not spent: these groups are public."""
    before, explained = session.budget.spent, session.explain(query)
    assert [step.epsilon for step in explained.steps] == [Fraction(10, calls)] * calls
    assert explained.charge.epsilon == 10
    answer, after = session.sql(query), session.budget.spent
    assert answer.loss.epsilon == after.epsilon - before.epsilon == 10
    assert answer.loss.delta == after.delta - before.delta == 0
    assert len(answer.rows) == rows


def test_groups_that_are_found_take_a_share_and_the_delta(session: Session):
    query = f"{FOUND} person_id // 10000 AS block, COUNT(*) AS n FROM visits GROUP BY block"
    explained = session.explain(query)
    assert [step.epsilon for step in explained.steps] == [5, 5]
    answer = session.sql(query)
    assert (answer.loss.epsilon, answer.loss.delta) == (10, Fraction(1, 10**5))
    assert answer.columns == ("block", "n")
