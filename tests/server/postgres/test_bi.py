"""Statements of Tableau, Metabase, Superset and Power BI through the door, under `dp.eps`."""

from __future__ import annotations

import psycopg
import pytest

from tests.corpus.cases import PLAIN, Case, read
from tests.server.postgres.served import Served

CASES = list(read(PLAIN / "bi.test"))
EACH = 13
"""One of so many belongs to the fast tests."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=str(case), marks=[] if at % EACH == 0 else [pytest.mark.slow])
        for at, case in enumerate(CASES)
    ],
)
def test_business_tools_are_answered(server: Served, case: Case):
    names = case.expected.split("columns: ")[1].splitlines()[0].split(", ")
    free = "charge: none" in case.expected
    told: list[str] = []
    with psycopg.connect(server.dsn(), autocommit=True) as client:
        client.add_notice_handler(lambda one: told.append(one.message_primary or ""))
        client.execute("SET dp.eps = 1")
        client.execute("SET dp.refresh = on")
        for binary in (False, True):
            cursor = client.cursor(binary=binary).execute(case.query)  # type: ignore[arg-type]
            assert [one.name for one in cursor.description or ()] == names
            cursor.fetchall()
            client.execute("SET dp.refresh = off")
    spent = [line.split()[0] for line in told if " spent; " in line]
    assert spent == ["0" if free else "1", "0"]
