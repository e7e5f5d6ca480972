"""Joins are read once each: what is said of a condition that lacks comes in no time."""

from __future__ import annotations

from time import process_time

import pytest

from dpquery.errors import QueryRefused
from tests.corpus import cases
from tests.corpus.cases import planned
from tests.corpus.describe import described

FROM = "SELECT DP_COUNT(*, eps=0.1) FROM visits"


@pytest.mark.parametrize("size", [2, 18, 60, 1_000])
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN"])
@pytest.mark.parametrize("last", ["", " ON visits.region = regions.region", " USING (region)"])
def test_joins_without_conditions_are_refused_in_time(size: int, kind: str, last: str):
    """With 18 of them it took seconds, and twice as long with each one more."""
    began = process_time()
    with pytest.raises(QueryRefused):
        planned(f"{FROM}{f' {kind} regions' * size}{last}")
    assert process_time() - began < 2


def test_joins_inside_brackets_are_read():
    inner = "SELECT v.person_id FROM visits v JOIN staff s ON v.person_id = s.person_id"
    planned(
        f"SELECT DP_COUNT(*, eps=0.1) FROM staff JOIN ({inner}) q"
        " ON q.person_id = staff.person_id"
        " JOIN staff t ON t.person_id = q.person_id"
    )


NAMES = "SELECT DP_COUNT(*, eps=0.1) FROM visits v"
SAME = [
    (
        "staff s JOIN visits v ON (s.person_id = v.person_id) AND (v.minutes > 10)",
        "staff s JOIN visits v ON s.person_id = v.person_id AND v.minutes > 10",
    ),
    (
        "(staff JOIN visits USING (person_id)) AS q",
        "(SELECT * FROM staff JOIN visits USING (person_id)) AS q",
    ),
    (
        "(staff s LEFT JOIN visits v USING (person_id)) JOIN regions r USING (region)",
        "staff s LEFT JOIN visits v USING (person_id) JOIN regions r USING (region)",
    ),
    ("staff NATURAL JOIN visits", "staff JOIN visits USING (person_id)"),
    ("staff NATURAL FULL JOIN visits", "staff FULL JOIN visits USING (person_id)"),
    ("regions NATURAL JOIN visits", "regions JOIN visits USING (region)"),
    (
        "staff s, regions r, visits v WHERE r.region = v.region AND s.person_id = v.person_id",
        "staff s, visits v, regions r WHERE r.region = v.region AND s.person_id = v.person_id",
    ),
]


@pytest.mark.parametrize(("written", "meant"), SAME)
def test_joins_are_read_as_what_they_mean(written: str, meant: str):
    asked = ["SELECT DP_COUNT(*, eps=0.1) FROM " + text for text in (written, meant)]
    ours, theirs = (described(planned(text)) for text in asked)
    assert ours == theirs


def test_an_equality_that_one_branch_lacks_joins_nothing():
    refused = cases.refusal(f"{NAMES}, staff s WHERE v.person_id = s.person_id OR s.age = 30")
    assert refused.startswith("refused[DPQ304]")


def test_a_natural_join_is_replaced_by_a_condition_where_it_is_off_the_unit():
    refused = cases.refusal(
        "SELECT DP_COUNT(*, eps=1) FROM staff s NATURAL LEFT JOIN visits v(p)"
    )
    assert "try: SELECT DP_COUNT(*, eps=1) FROM staff s LEFT JOIN visits v(p) ON s." in refused


def test_the_relation_that_is_off_the_unit_is_the_one_that_is_refused():
    refused = cases.refusal(f"{NAMES}, regions r, staff s WHERE r.region = s.dept")
    assert "try: " in refused
    assert "s.person_id" in refused
