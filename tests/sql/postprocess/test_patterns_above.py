"""Constants that the engine cannot read as patterns are refused before the charge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpquery.database import Database
from dpquery.errors import QueryRefused
from dpquery.session import Session
from tests.corpus.runs import policy_at, samples

GROUPS = "(SELECT dept, DP_COUNT(*, eps=0.1) AS n FROM staff GROUP BY dept)"
PLACES = [
    "REGEXP_EXTRACT(dept, {})",
    "REGEXP_REPLACE(dept, {}, 'x')",
    "REGEXP_MATCHES(dept, {})",
    "REGEXP_FULL_MATCH(dept, {})",
    "dept SIMILAR TO {}",
]
UNREAD = [
    "'('",
    "'['",
    "'a{{2,1}}'",
    "'(a{{1,1000}}){{1,1000}}'",
    "'(' || ''",
    "CONCAT('(', '')",
]
READ = ["'e'", "'[(]'", "dept", "dept || '('", "CASE WHEN n > n THEN dept ELSE '(' END", "NULL"]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    place = samples(tmp_path_factory.mktemp("patterns") / "data")
    with Session(Database(policy_at(place / "policy.toml")), "default", None) as opened:
        yield opened


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pattern", UNREAD)
def test_what_cannot_be_read_is_refused_and_costs_nothing(session, place: str, pattern: str):
    before = session.budget.spent
    with pytest.raises(QueryRefused) as told:
        session.sql(f"SELECT {place.format(pattern.format())} AS x FROM {GROUPS}")
    assert told.value.code == "DPQ205"
    assert session.budget.spent == before


def test_a_name_may_stand_for_it(session):
    with pytest.raises(QueryRefused):
        session.sql(f"SELECT '(' AS p, REGEXP_EXTRACT(dept, p) AS x FROM {GROUPS}")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pattern", READ)
def test_others_are_used(session, place: str, pattern: str):
    session.sql(f"SELECT {place.format(pattern)} AS x FROM {GROUPS}")


def test_one_of_a_row_before_gives_null(session):
    rows = session.sql(
        f"SELECT REGEXP_EXTRACT(dept, p) AS x FROM (SELECT dept, '(' AS p FROM {GROUPS})"
    ).to_dicts()
    assert {row["x"] for row in rows} == {None}


@pytest.mark.parametrize("order", ["1e-400", "[0.5, 1e-400]"])
def test_an_order_of_any_size_is_explained(session, order: str):
    assert str(session.explain(f"SELECT DP_QUANTILE(age, {order}, eps=0.1) FROM staff"))
