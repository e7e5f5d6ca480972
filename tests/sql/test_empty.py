"""Answers that would always be empty are refused before the charge, and no others are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import pytest

import dpquery
from dpquery.errors import QueryRefused
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session

COUNT = "SELECT DP_COUNT(*, eps=0.001) FROM staff"
VALUES = {
    "age": ["29", "30", "31"],
    "hired": ["'2020-01-01'", "'2020-01-02'", "'2020-01-03'"],
    "age + 1": ["30", "31", "32"],
}
"""Three values of each expression, in their order, of which the middle ones stand alone."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("empty")
    with dpquery.connect(copy_samples(folder / "data")) as session:
        yield session


def code_of(session: Session, query: str) -> str:
    """Return how a query is refused, if it is."""
    try:
        session.explain(query)
    except QueryRefused as refused:
        return refused.code
    return "accepted"


def meant(condition: str, place: int) -> bool:
    """Say whether one of five values meets a comparison with one of three in their middle."""
    operator, number = condition.split()[-2:]
    at = int(number)
    return {
        "<": place < at, "<=": place <= at, ">": place > at, ">=": place >= at, "=": place == at
    }[operator]  # fmt: skip


@pytest.mark.parametrize("written", VALUES)
@pytest.mark.parametrize("joined", ["WHERE {} AND {}", "FILTER"])
def test_conditions_are_refused_where_no_value_meets_both(session, written, joined):
    comparisons = [f"x {op} {at}" for op, at in product(("<", "<=", ">", ">=", "="), range(3))]
    for one, other in combinations(comparisons, 2):
        first, second = (
            f"{written} {said.split()[1]} {VALUES[written][int(said.split()[2])]}"
            for said in (one, other)
        )
        query = f"{COUNT} WHERE {first} AND {second}"
        if joined == "FILTER":
            query = COUNT.replace(" FROM", f" FILTER (WHERE {second}) FROM") + f" WHERE {first}"
        empty = not any(meant(one, at) and meant(other, at) for at in range(-1, 4))
        assert code_of(session, query) == ("DPQ408" if empty else "accepted"), query


@pytest.mark.parametrize(
    ("first", "second", "empty"),
    [
        ("dept = 'eng'", "dept = 'hr'", True),
        ("dept IN ('eng', 'hr')", "dept IN ('ops', 'legal')", True),
        ("dept IN ('eng', 'hr')", "dept IN ('hr', 'legal')", False),
        ("dept = 'eng'", "age < 20", False),
        ("dept = 'eng'", "NOT dept = 'hr'", False),
        ("age > 50", "age + 1 < 40", False),
        ("(age > 50 OR remote)", "age < 40", False),
        ("rating > 2.5", "rating <= 2.4", True),
        ("bonus > 2.5", "bonus < 2.4", True),
    ],
)
def test_what_excludes_itself_is_told_by_literals_alone(session, first, second, empty):
    query = f"{COUNT} WHERE {first} AND age >= 19 AND {second}"
    assert code_of(session, query) == ("DPQ408" if empty else "accepted")


def test_the_part_that_excludes_another_is_named_and_both_are_offered(session):
    query = f"{COUNT} WHERE age > 50 AND age < 60 AND age < 40"
    with pytest.raises(QueryRefused, match=r"no row meets this and age > 50") as caught:
        session.explain(query)
    assert caught.value.diagnostic.remedy == ("age > 50 OR age < 40",)
    with pytest.raises(QueryRefused, match=r"no row meets this\n") as caught:
        session.explain(f"{COUNT} WHERE age BETWEEN 50 AND 40")
    assert caught.value.diagnostic.remedy == ("age BETWEEN 40 AND 50",)


@pytest.mark.parametrize(
    ("condition", "offered"),
    [
        ("salary > 200000", "salary >= 200000"),
        ("bonus > 50000", "bonus >= 50000"),
        ("200 < age", "age >= 70"),
        ("age = 3", "age <= 18"),
        ("age BETWEEN 100 AND 200", "age >= 70"),
        ("rating IN (7, 8)", "rating >= 5"),
        ("hired > '2026-01-01'", "hired >= '2025-12-31'"),
        ("age + 1 > 500", "age + 1 >= 71"),
        ("EXTRACT(month FROM hired) = 13", "EXTRACT(month FROM hired) >= 12"),
        ("NOT age <= 70", None),
        ("(age > 200 OR age < 3)", None),
        ("age IN (3, 200)", "age BETWEEN 18 AND 70"),
        ("dept = 'Eng'", "dept = 'eng'"),
        ("dept IN ('Eng', 'x')", "dept = 'eng'"),
    ],
)
def test_what_nothing_within_bounds_or_keys_meets_is_refused_with_the_nearest(
    session, condition, offered
):
    filtered = f"SELECT DP_COUNT(*, eps=0.001) FILTER (WHERE {condition}) FROM staff"
    for query in (f"{COUNT} WHERE remote AND {condition}", filtered):
        with pytest.raises(QueryRefused) as caught:
            session.explain(query)
        assert caught.value.code == "DPQ408"
        (remedy,) = caught.value.diagnostic.remedy
        if offered is None:  # the query without the condition
            left = query.replace(f" FILTER (WHERE {condition})", "")
            assert remedy == left.replace(f" AND {condition}", "")
        else:
            assert remedy == offered
            remedy = query.replace(condition, offered)
        assert code_of(session, remedy) == "accepted"


@pytest.mark.parametrize(
    "condition",
    [
        "salary >= 200000",
        "age > 200 OR remote",
        "NOT age > 200",
        "dept <> 'Eng'",
        "dept IN ('board', 'hr')",
        "dept NOT IN ('Eng', 'hr')",
        "dept = 'board'",  # keys are groups; rows may hold other values
        "person_id = -5",
        "age <= 18",
    ],
)
def test_what_something_may_meet_is_accepted(session, condition):
    assert code_of(session, f"{COUNT} WHERE {condition}") == "accepted"


def test_of_another_name_inside_a_subquery_no_condition_is_offered(session):
    inner = "(SELECT person_id, age AS years FROM staff WHERE age > 50)"
    query = f"SELECT DP_COUNT(*, eps=0.001) FROM {inner} WHERE years < 40"
    with pytest.raises(QueryRefused) as caught:
        session.explain(query)
    assert caught.value.code == "DPQ408"
    (remedy,) = caught.value.diagnostic.remedy
    assert code_of(session, query.replace("years < 40", remedy)) == "accepted"


@pytest.mark.parametrize("groups", [1, 5, 10])
@pytest.mark.parametrize("limit", ["", "LIMIT 3 "])
def test_an_offset_past_all_groups_is_refused(session, groups, limit):
    keys = {1: "", 5: "GROUP BY dept ", 10: "GROUP BY dept, remote "}[groups]
    for offset in (0, groups - 1):
        assert code_of(session, f"{COUNT} {keys}{limit}OFFSET {offset}") == "accepted"
    for offset in (groups, groups + 1):
        assert code_of(session, f"{COUNT} {keys}{limit}OFFSET {offset}") == "DPQ408"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("DP_SUM(salary, eps=0.001, bounds=[0, 0])", "DPQ408"),
        ("DP_SUM(salary, eps=0.001, bounds=[7, 7])", "accepted"),  # it counts the rows
        ("DP_SUM(salary, eps=0.001, bounds=[0, 1])", "accepted"),
        ("DP_AVG(salary, eps=0.001, bounds=[0, 0])", "DPQ408"),
        ("DP_AVG(salary, eps=0.001, bounds=[7, 7])", "DPQ408"),
        ("DP_STDDEV_SAMP(salary, eps=0.001, bounds=[7, 7])", "DPQ408"),
        ("DP_MEDIAN(salary, eps=0.001, bounds=[7, 7])", "DPQ408"),
        ("DP_MAX(hired, eps=0.001, bounds=['2020-01-01', '2020-01-01'])", "DPQ408"),
        ("DP_SUM(age, eps=0.001, contribution_bounds_per_group=[0, 0])", "DPQ408"),
    ],
)
def test_bounds_of_one_value_are_refused_where_the_answer_would_be_that(session, call, code):
    assert code_of(session, f"SELECT {call} FROM staff") == code


def test_a_refusal_costs_nothing(session):
    before = session.budget.spent
    for query in (f"{COUNT} WHERE age > 3 AND age < 2", f"{COUNT} OFFSET 1"):
        with pytest.raises(QueryRefused):
            session.sql(query)
    assert session.budget.spent == before
