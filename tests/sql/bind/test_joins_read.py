"""Joins are read once each: what is said of a condition that lacks comes in no time."""

from __future__ import annotations

from time import process_time

import pytest

from dpquery.errors import QueryRefused
from tests.corpus.cases import planned

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
