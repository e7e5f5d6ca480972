"""Under a budget without a delta nothing is offered that needs one; with one, it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpquery
from dpquery.errors import QueryRefused
from tests.samples import sample_policy

WANTING = [
    "SELECT DISTINCT person_id FROM staff",
    "SELECT DP_KEYS(person_id, eps=0.1) FROM staff",
    "SELECT DP_KEYS(person_id) FROM staff",
    "SELECT DP_KEYS(*, eps=0.1) FROM staff",
    "SELECT person_id, DP_COUNT(*, eps=0.1) FROM staff GROUP BY DP_KEYS(person_id, eps=0.1)",
]
"""Refused with an offer that needs a delta, where there is one."""


def refused(place: Path, query: str, **settings: object) -> QueryRefused:
    with (
        dpquery.connect(place, **settings) as session,
        pytest.raises(QueryRefused) as caught,
    ):
        session.sql(query)
    return caught.value


@pytest.mark.parametrize("query", WANTING)
def test_what_needs_a_delta_is_offered_where_there_is_one(tmp_path: Path, query: str):
    place = sample_policy(tmp_path, "epsilon = 2.0\ndelta = 1e-6")
    assert "delta=1e-7" in "\n".join(refused(place, query).diagnostic.remedy)


@pytest.mark.parametrize("query", WANTING)
@pytest.mark.parametrize(
    ("budget", "settings", "whose"),
    [
        ("epsilon = 2.0", {}, "the policy's delta"),
        ("epsilon = 2.0\ndelta = 1e-8", {}, "the policy's delta"),
        ("epsilon = 2.0\ndelta = 1e-6", {"delta": 0, "epsilon": 1}, "a session with a larger"),
        (
            "epsilon = 2.0\ndelta = 1e-6\n[analysts.ann]\nepsilon = 1\ndelta = 1e-9",
            {"analyst": "ann"},
            "the analyst's delta",
        ),
    ],
)
def test_without_one_what_is_offered_works_or_says_whom_to_ask(
    tmp_path: Path, query: str, budget: str, settings: dict[str, object], whose: str
):
    place = sample_policy(tmp_path, budget)
    found = refused(place, query, **settings)
    first, *more = found.diagnostic.remedy
    assert not any("delta=" in line for line in (first, *more))
    assert not first.startswith("or ")
    if first.startswith("SELECT "):
        with dpquery.connect(place, **settings) as session:
            session.explain(first)
    elif not first.startswith(("WHERE ", "name them: ")):
        assert whose in first


def test_of_one_s_own_file_the_option_is_named(tmp_path: Path):
    place = sample_policy(tmp_path, "epsilon = 2.0").with_name("staff.parquet")
    own = {"unit": "person_id", "rows_per_unit": 1, "epsilon": 1}
    found = refused(place, "SELECT DP_KEYS(dept) FROM staff", **own)
    assert "--delta 1e-6" in found.diagnostic.remedy[0]
    found = refused(place, "SELECT DISTINCT dept FROM staff", **own)
    first, *_, last = found.diagnostic.remedy
    assert "delta" not in first
    assert last.startswith("or ")
    assert "DP_KEYS(dept, eps=0.5, delta=1e-7)" in last
    assert "--delta 1e-6" in last
    with dpquery.connect(place, **own) as session:
        session.explain(found.diagnostic.remedy[0])
