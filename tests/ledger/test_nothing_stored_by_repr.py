"""What a session stores is named by `identity`, `Writer` and JSON, never by a repr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import dpquery
from tests.samples import sample_policy

QUERIES = [
    "SELECT dept, DP_COUNT(*, eps=0.1) AS n FROM staff GROUP BY dept",
    "SELECT dept, DP_COUNT(*, eps=0.2) AS n FROM staff GROUP BY dept",
    "REFRESH SELECT DP_MEDIAN(salary, eps=0.1) FROM staff WHERE hired > '2010-01-01'",
    "SELECT DP_MODE(r.zone, eps=0.1) FROM visits v JOIN regions r ON v.region = r.region",
    "SELECT DP_SUM(minutes * 2, eps=0.5, bounds='auto', max_rows_contributed='auto') "
    "FROM visits",
    "SELECT DP_COUNT(*, eps=0.1) FROM staff "
    "WHERE salary > (SELECT DP_MEDIAN(salary, eps=0.1) FROM staff)",
    "SELECT DP_AVG(n, eps=0.1, bounds=[0, 9]) FROM "
    "(SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id)",
]


def classes() -> Iterator[type[Any]]:
    """Return the classes of dpquery that have a repr of fields or members."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dpquery"):
            for one in vars(module).values():
                own = isinstance(one, type) and one.__module__ == name
                if own and (is_dataclass(one) or issubclass(one, Enum)):
                    yield one


def test_a_session_stores_no_repr_of_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(_: object) -> str:
        raise AssertionError("what is stored has a name of its own")

    policy = sample_policy(tmp_path, 'epsilon = 50.0\n[ledger]\npath = "own.ledger"')
    with dpquery.connect(policy) as session:
        for query in QUERIES:
            session.explain(query)  # imports what is used
        found = list(classes())
        assert len(found) > 150
        for one in found:
            monkeypatch.setattr(one, "__repr__", refused)
        paid = [session.sql(query) for query in QUERIES]
    with dpquery.connect(policy) as session:
        again = [session.sql(query.removeprefix("REFRESH ")) for query in QUERIES]
    assert all(answer.loss.epsilon > 0 for answer in paid)
    assert [answer.rows for answer in again[1:]] == [answer.rows for answer in paid[1:]]
    assert all(answer.loss.epsilon == 0 for answer in again[1:])
