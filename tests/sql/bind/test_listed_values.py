"""DP_MODE and DP_TOP_K choose among the values that would be the groups of the same query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import dpquery
from dpquery.errors import QueryRefused
from dpquery.policy.load import load_policy
from dpquery.policy.model import Policy
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session
from tests.worlds import planned


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_samples(tmp_path_factory.mktemp("listed") / "data")


@pytest.fixture(scope="module")
def policy(file: Path) -> Policy:
    policy = load_policy(file)
    return replace(policy, tables={"staff": policy.tables["staff"]})


@pytest.fixture(scope="module")
def session(file: Path) -> Iterator[Session]:
    with dpquery.connect(file) as session:
        yield session


EXPRESSIONS = [
    ("person_id", "person_id IN (7, 3, 9)"),
    ("salary", "salary IN (40000, 30000) AND remote"),
    ("hired", "hired IN ('2020-01-01', '2021-06-30')"),
    ("rating", "rating IN (2.5, 3, 4.5)"),
    ("dept", "dept IN ('eng', 'nowhere')"),
    ("dept", "age > 30"),
    ("UPPER(dept)", "age > 30"),
    ("CASE WHEN age < 30 THEN 'young' WHEN remote THEN 'far' END", "age > 20"),
    ("UPPER(dept)", "UPPER(dept) IN ('ENG', 'HR')"),
    ("salary % 3", "salary % 3 IN (0, 2)"),
]


@pytest.mark.parametrize(("written", "where"), EXPRESSIONS)
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("call", ["DP_MODE({}, eps=1)", "DP_TOP_K({}, 1, eps=1)"])
def test_values_are_those_of_groups(policy, written, where, filtered, call):
    asked, rest = call.format(written), f" FROM staff WHERE {where}"
    grouped = planned(policy, f"SELECT DP_COUNT(*, eps=1){rest} GROUP BY {written}")
    (key,) = grouped.frontiers[0].scan.keys
    if filtered:
        asked, rest = f"{asked} FILTER (WHERE {where})", " FROM staff"
    chosen = planned(policy, f"SELECT {asked}{rest}")
    (measure,) = chosen.frontiers[0].scan.measures
    assert measure.code.values == tuple(value for value in key.values if value is not None)


def test_a_value_is_chosen_among_those_that_were_named(session):
    call = "DP_MODE(salary, eps=0.1)"
    answer = session.sql(f"SELECT {call} FROM staff WHERE salary IN (3, 200000)")
    assert answer.scalar() in {3, 200000}


@pytest.mark.parametrize(
    "call", ["DP_MODE(person_id, eps=0.1)", "DP_TOP_K(person_id, 9, eps=1)"]
)
def test_of_private_values_the_call_is_offered_over_named_ones(session, call):
    with pytest.raises(QueryRefused) as caught:
        session.explain(f"SELECT {call} FROM staff")
    assert caught.value.code == "DPQ402"
    session.explain(f"SELECT {caught.value.diagnostic.remedy[0]} FROM staff")


@pytest.mark.parametrize(
    "where",
    [
        "x IN (1, 99999999999999999999)",
        "x BETWEEN 99999999999999999998 AND 99999999999999999999",
    ],
)
def test_a_value_that_no_answer_could_show_is_refused_before_the_charge(session, where):
    power = "salary * salary * salary * salary"
    query = f"SELECT DP_MODE({power}, eps=0.1) FROM staff WHERE {where.replace('x', power)}"
    with pytest.raises(QueryRefused) as caught:
        session.sql(query)
    assert caught.value.code == "DPQ404"
    session.explain(f"SELECT {caught.value.diagnostic.remedy[0]} FROM staff")
