"""That what refusals offer keeps what was meant: the column, the condition, the price."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dpquery
from dpquery.session import Session
from tests.samples import sample_policy
from tests.sql.suggest.test_mistakes import STAFF, refused


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    place = tmp_path_factory.mktemp("meant")
    with dpquery.connect(sample_policy(place, "epsilon = 2.0\ndelta = 1e-6")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("WHERE age > 30 AND 1 > 2", "WHERE age > 30"),
        ("WHERE (1 > 2) AND age > 30", "WHERE age > 30"),
        ("WHERE age > 30 AND ((1 > 2)) AND remote", "WHERE age > 30 AND remote"),
        ("WHERE age > 30 AND (1 > 2 OR FALSE)", "WHERE age > 30"),
        ("WHERE remote AND NULL", "WHERE remote"),
        ("WHERE age > 30 OR NULL AND remote", "WHERE age > 30 OR remote"),
        ("WHERE (remote OR NOT NULL)", "WHERE (remote)"),
        ("WHERE FALSE GROUP BY ALL", "GROUP BY ALL"),
        ("WHERE NOT NULL LIMIT 3", "LIMIT 3"),
        ("WHERE age > 30 AND (NULL)", "WHERE age > 30"),
        ("WHERE age > 30 AND NULL > NULL", "WHERE age > 30"),
        ("WHERE dept LIKE 'x%' GROUP BY dept", "GROUP BY dept"),
        ("HAVING 'a' = 'b'", ""),
        ("WHERE NULL = (NULL) AND remote", "WHERE remote"),
        ("WHERE NULL IN (3)", ""),
    ],
)
def test_a_condition_that_is_never_true_is_left_out(session, condition, left):
    offered = f"SELECT DP_COUNT(*, eps=0.1) FROM staff {left}".strip()
    query = f"SELECT DP_COUNT(*, eps=0.1) FROM staff {condition}"
    assert refused(session, query).diagnostic.remedy[0] == offered
    session.explain(offered)


@pytest.mark.parametrize(
    ("shown", "offered"),
    [
        ("DP_COUNT(*, eps=0.1) FILTER (WHERE FALSE)", "DP_COUNT(*, eps=0.1)"),
        (
            "DP_COUNT(*, eps=0.1) FILTER (WHERE remote AND NULL)",
            "DP_COUNT(*, eps=0.1) FILTER (WHERE remote)",
        ),
        ("DP_COUNT_IF(remote AND NULL, eps=0.1)", "DP_COUNT_IF(remote, eps=0.1)"),
    ],
)
def test_a_condition_of_one_call_is_left_out(session, shown, offered):
    found = refused(session, f"SELECT {shown} FROM staff").diagnostic.remedy[0]
    assert found == f"SELECT {offered} FROM staff"
    session.explain(found)


def test_of_a_long_query_a_condition_that_is_never_true_is_replaced(session):
    query = f"{STAFF}{' AND '.join(['age > 30'] * 9)} AND (1 > 2)"
    assert refused(session, query).diagnostic.remedy[0] == "TRUE"


@pytest.mark.parametrize(
    ("condition", "offered"),
    [
        ("dept + 1 > 3", "LENGTH(dept)"),
        ("-dept < 3", "LENGTH(dept)"),
        ("hired * 2 > 3", "YEAR(hired)"),
        ("age + '3' > 30", "3"),
        ("dept = 3", "dept = 'eng'"),
        ("dept <> 3", "dept <> 'eng'"),
        ("dept < 3", "dept < 'sales'"),
        ("dept IN (3, 4)", "dept IN ('eng', 'hr')"),
        ("dept = hired", "dept = 'eng'"),
        ("STRFTIME(hired, '%Y') = 2020", "STRFTIME(hired, '%Y') = '2020'"),
        ("STRFTIME(hired, '%m') = 3", "STRFTIME(hired, '%m') = '03'"),
        ("STRFTIME(hired, '%Y-%m') = 3", "STRFTIME(hired, '%Y-%m') = '2000-01'"),
        ("age BETWEEN 'a' AND 'b'", "age BETWEEN 18 AND 70"),
        ("age IN (3, 200)", "age BETWEEN 18 AND 70"),
        ("dept", "dept IS NOT NULL"),
        ("salary", "salary <> 0"),
        ("age", "age IS NOT NULL"),
        ("NOT age", "age IS NOT NULL"),
        ("dept || 'x' AND remote", "dept || 'x' IS NOT NULL"),
        ("age * 'x' > 30", "1"),
        ("age < 'old'", "age < 70"),
        ("LEFT(dept, 1) = 3", "LEFT(dept, 1) = 'e'"),
        ("bonus > NULL AND remote", "bonus IS NOT NULL"),
        ("age BETWEEN NULL AND 30", "age"),
    ],
)
def test_what_is_offered_is_about_the_same_column_and_can_be_true(session, condition, offered):
    found, query = refused(session, STAFF + condition), STAFF + condition
    assert found.diagnostic.remedy[0] == offered
    session.explain(query[: found.span.start] + offered + query[found.span.end :])


def test_a_text_that_can_be_any_is_compared_with_a_column_as_one(tmp_path):
    place = sample_policy(tmp_path, "epsilon = 2.0").parent
    with dpquery.connect({"staff": place / "staff.parquet"}, epsilon=2) as own:
        for condition, offered in (
            ("dept = age", "dept = CAST(age AS TEXT)"),
            ("hired <> dept", "CAST(hired AS TEXT) <> dept"),
            ("dept = 3", "dept = '3'"),
        ):
            assert refused(own, STAFF + condition).diagnostic.remedy[0] == offered
            own.explain(STAFF + offered)


@pytest.mark.parametrize(
    ("shown", "offered"),
    [
        ("DP_AVG(dept, eps=0.1)", "DP_COUNT(dept, eps=0.1)"),
        ("DP_AVG(dept, epsilon => 1e-1)", "DP_COUNT(dept, eps=1e-1)"),
        ("DP_AVG(eps=0.1, dept), DP_COUNT(*, eps=1)", "DP_COUNT(dept, eps=0.1)"),
        ("DP_COUNT(*, eps=1), DP_AVG(UPPER(dept), eps=.1)", "DP_COUNT(UPPER(dept), eps=.1)"),
        ("DP_COUNT(*, eps=0.5), DP_AVG(dept, eps=0.1)", "DP_COUNT(dept, eps=0.1)"),
        ("DP_COUNT(*, eps=1), DP_FOO(age, eps=0.1)", "DP_COUNT(*, eps=0.1)"),
        ("DP_COUNT(*), DP_AVG(age, eps=0.1)", "DP_COUNT(*, eps=0.1)"),
        ("DP_AVG(dept, rho=0.1)", "DP_COUNT(dept, eps=0.5)"),
        ("DP_AVG(dept, eps=3)", "DP_COUNT(dept, eps=0.5)"),  # of which 2 are left
        ("DP_AVG(dept, eps=0)", "DP_COUNT(dept, eps=0.5)"),
        ("DP_COUNT(*, eps=1/2)", "eps=0.5"),
        (
            "AVG(age), DP_COUNT(*, eps=0.1)",
            "SELECT DP_AVG(age, eps=0.1), DP_COUNT(*, eps=0.1) FROM staff",
        ),
        (
            "AVG(age), DP_COUNT(*, eps=0.5), DP_COUNT(*, eps=1)",
            "SELECT DP_AVG(age, eps=0.5), DP_COUNT(*, eps=0.5), DP_COUNT(*, eps=1) FROM staff",
        ),
    ],
)
def test_what_is_offered_costs_what_the_refused_call_states(session, shown, offered):
    found = refused(session, f"SELECT {shown} FROM staff").diagnostic
    assert found.remedy[0] == offered
