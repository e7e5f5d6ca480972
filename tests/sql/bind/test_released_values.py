"""Rows that are compared with a released column: IN means what it means in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path

import duckdb
import pytest

import dpquery
from dpquery.ir.expr import columns_of
from dpquery.ir.relations import Filter
from dpquery.ir.walk import filled
from dpquery.rowfunctions.evaluate import evaluate
from dpquery.session import Session
from dpquery.sql.postprocess.from_clause import MOST_MEMBERS, members_of
from tests.corpus.cases import planned, refusal
from tests.samples import sample_policy

TOP = "SELECT region FROM visits GROUP BY region ORDER BY DP_COUNT(*, eps=0.1) DESC LIMIT 3"
ASKED = "SELECT DP_COUNT(*, eps=0.1) FROM visits WHERE "
VALUES = (None, "east", "west")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with dpquery.connect(sample_policy(tmp_path, "epsilon = 1e9")) as found:
        yield found


def text(value: str | None) -> str:
    return f"CAST({'NULL' if value is None else repr(value)} AS TEXT)"


@pytest.mark.parametrize("word", ["IN", "NOT IN"])
@pytest.mark.parametrize("rows", range(4))
def test_a_value_is_in_a_released_column_where_sql_says_so(rows: int, word: str):
    """All columns of up to three values, NULL among them, and all values beside them."""
    relation = planned(f"{ASKED} region {word} ({TOP})").frontiers[1].scan.relation
    assert isinstance(relation, Filter)
    (region,) = columns_of(relation.condition)
    for found in product(VALUES, repeat=rows):
        listed = " UNION ALL ".join(f"SELECT {text(value)} AS v" for value in found)
        source = f"({listed or 'SELECT CAST(NULL AS TEXT) AS v WHERE FALSE'})"
        some, *each = (duckdb.sql(sql).fetchall()[0][0] for sql in members_of("v", source, 3))
        condition = filled(relation.condition, dict(enumerate([*each, some])))
        for value in VALUES:
            asked = f"SELECT {text(value)} {word} (SELECT v FROM {source})"
            ((expected,),) = duckdb.sql(asked).fetchall()
            assert evaluate(condition, {region: value}) is expected


@pytest.mark.parametrize(
    ("where", "charges"),
    [
        (f"region IN ({TOP})", 2),
        (f"minutes > 5 OR NOT region NOT IN ({TOP})", 2),
        (f"region IN ({TOP}) AND minutes > 5 AND region NOT IN ({TOP})", 3),
        (f"minutes IN (SELECT MAX(n) FROM ({TOP.replace('region FROM', '1 AS n FROM')}))", 2),
    ],
)
def test_each_subquery_is_released_once_however_often_it_is_bound(
    session: Session, where: str, charges: int
):
    plain = (ASKED + where).replace("DP_COUNT(*, eps=0.1)", "COUNT(*)")
    assert session.explain(plain, eps=1).charge.epsilon == 1
    assert len(planned(ASKED + where).charge.events) == charges
    assert session.sql(ASKED + where).loss.epsilon == Fraction(charges, 10)


def test_the_rows_are_those_of_the_groups_that_came_first(session: Session):
    counts = session.sql(
        "WITH n AS (SELECT region, DP_COUNT(*, eps=1000) AS n FROM visits GROUP BY region) "
        "SELECT region FROM n WHERE region IS NOT NULL ORDER BY n DESC LIMIT 2"
    )
    first = [region for (region,) in counts.rows]
    shown = session.sql(
        "SELECT region, DP_COUNT(*, eps=1000) AS m FROM visits WHERE region IN (SELECT region "
        "FROM visits WHERE region IS NOT NULL GROUP BY region "
        "ORDER BY DP_COUNT(*, eps=1000) DESC LIMIT 2) GROUP BY region"
    )
    assert [region for region, many in shown.rows if many > 10] == sorted(first)


def test_more_values_than_can_be_put_among_rows_are_refused_by_plan():
    groups = "SELECT minutes FROM visits GROUP BY minutes HAVING DP_COUNT(*, eps=0.1) > 9"
    said = refusal(f"{ASKED} minutes IN ({groups})")
    assert said.startswith("refused[DPQ409]")
    assert f"LIMIT {MOST_MEMBERS}" in said
    assert planned(f"{ASKED} minutes IN ({groups} LIMIT {MOST_MEMBERS})")
