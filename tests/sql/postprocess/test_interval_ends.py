"""DP_INTERVAL_LOW and DP_INTERVAL_HIGH give what `answer.interval` gives, in SQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dpquery
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session
from tests.corpus.cases import planned


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = copy_samples(tmp_path_factory.mktemp("x") / "data").parent
    policy = folder / "policy.toml"
    text = policy.read_text("utf-8").replace("epsilon = 2.0", "epsilon = 1000\ndelta = 0.01")
    policy.write_text(text, "utf-8")
    with dpquery.connect(policy, delta="0.01") as opened:
        yield opened


CALLS = (
    "DP_COUNT(*, eps=1)",
    "DP_COUNT(*, eps=1, delta=1e-6, mechanism='gaussian')",
    "DP_SUM(salary, eps=1)",
    "DP_SUM(bonus, eps=1)",
    "DP_SUM(rating, eps=1)",
    "DP_AVG(age, eps=1)",
    "DP_STDDEV_SAMP(rating, eps=1)",
    "DP_MEDIAN(hired, eps=1, delta=1e-6, mechanism='gaussian')",
    "DP_MEDIAN(rating, eps=1, mechanism='laplace')",
    "DP_MEDIAN(salary, eps=1)",
    "DP_QUANTILE(salary, [0.1, 0.9], eps=1)",
    "DP_MODE(dept, eps=1)",
    "DP_MAJORITY(remote, eps=1)",
)


def ends(confidence: str) -> str:
    return f"DP_INTERVAL_LOW(x, {confidence}) AS l, DP_INTERVAL_HIGH(x, {confidence}) AS h"


@pytest.mark.parametrize("confidence", ["0.000000001", "0.5", "0.999999999"])
@pytest.mark.parametrize("call", CALLS)
def test_the_ends_are_those_of_the_interval(session: Session, call: str, confidence: str):
    answer = session.sql(f"SELECT {call} AS x, {ends(confidence)} FROM staff")
    (interval,) = answer.interval("x", confidence)
    ((_, low, high),) = answer.rows
    assert (low, high) == (interval or (None, None))


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT dept, x, {ends('0.95')} FROM t ORDER BY DP_INTERVAL_LOW(x) DESC LIMIT 3",
        f"SELECT b.x, {ends('0.95')} FROM t AS a JOIN t AS b ON a.dept < b.dept".replace(
            "(x,", "(b.x,"
        ),
        f"SELECT x, {ends('0.95')}, rank() OVER (ORDER BY x) AS r FROM t",
        f"SELECT x, {ends('0.95')} FROM (SELECT x FROM t UNION ALL {{visits}})",
        f"SELECT x, {ends('0.95')} FROM regions LEFT JOIN t ON x < 200",
        f"SELECT x, {ends('0.95')} FROM t WHERE DP_INTERVAL_HIGH(x) > 100",
    ],
)
def test_the_ends_go_with_their_value_wherever_it_goes(session: Session, query: str):
    t = "WITH t AS (SELECT dept, DP_COUNT(*, eps=1) AS x FROM staff GROUP BY dept) "
    visits = "SELECT DP_COUNT(*, eps=0.5) FROM visits"
    answer = session.sql(t + query.replace("{visits}", visits))
    low, high = (answer.columns.index(name) for name in "lh")
    found = [(row[low], row[high]) for row in answer.rows]
    intervals = answer.interval("x", 0.95)
    assert found == [one or (None, None) for one in intervals]
    assert len(set(found)) > 1


def test_a_confidence_is_95_in_100_unless_it_is_given(session: Session):
    answer = session.sql("SELECT DP_COUNT(*, eps=1) AS n, DP_INTERVAL_LOW(n) FROM staff")
    assert answer.columns == ("n", "dp_interval_low")
    assert answer.rows[0][1] == answer.interval("n", 0.95)[0][0]


def test_ends_cost_nothing_and_add_no_release():
    query = (
        f"SELECT DP_COUNT(*, eps=0.5) AS x, {ends('0.9')}, {ends('0.8')} FROM staff".replace(
            "0.8) AS l", "0.8) AS m"
        ).replace("0.8) AS h", "0.8) AS i")
    )
    plan = planned(query)
    assert len(plan.charge.events) == 1
    assert len(plan.frontiers[0].releases) == 1
    assert len(plan.above.ends) == 4
