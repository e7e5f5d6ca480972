"""Windows, lists and parts over the rows of everybody: what is said, and offered for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dpquery
from dpquery.errors import Diagnostic, QueryRefused
from dpquery.server.web.quick_fixes import pasted
from dpquery.session import Session
from tests.samples import sample_policy

COUNT = "SELECT DP_COUNT(*, eps=0.1) FROM staff"
SUM = "SELECT DP_SUM(n, eps=1, bounds=[0, 9]) FROM (SELECT {} AS n FROM visits)"
OWN = "OVER (PARTITION BY person_id ORDER BY minutes)"
SEVERAL = "a window here would compare rows of several units"
WITHIN = "a window over private rows has to be within one unit"

SAID = [
    # what is typed, its title, and what is offered
    (f"{COUNT} WHERE NULL", "NULL is not true, so no row would be kept", COUNT),
    (
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY ROLLUP",
        "ROLLUP needs columns in parentheses after it",
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY ROLLUP (dept)",
    ),
    (
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY dept CUBE",
        "CUBE needs columns in parentheses after it",
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY CUBE (dept)",
    ),
    (
        "SELECT STRING_AGG(region, ',') FROM visits",
        "STRING_AGG would list the values of single rows",
        "DP_TOP_K(region, 3, eps=0.5)",
    ),
    (
        "SELECT ARRAY_AGG(age) FROM staff",
        "ARRAY_AGG would list the values of single rows",
        "DP_COUNT(*, eps=0.5)",
    ),
    (
        "SELECT GROUP_CONCAT(dept) FROM staff",
        "GROUP_CONCAT would list the values of single rows",
        "DP_TOP_K(dept, 3, eps=0.5)",
    ),
    (
        "SELECT NTILE(4) OVER (ORDER BY age) AS q, DP_COUNT(*, eps=1) FROM staff GROUP BY q",
        SEVERAL,
        "SELECT DP_QUANTILE(age, [0.25, 0.5, 0.75], eps=0.5) FROM staff",
    ),
    (
        f"{COUNT} WHERE row_number() OVER (ORDER BY person_id) < 10",
        SEVERAL,
        "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE dept = 'eng'",
    ),
    (
        SUM.format("NTILE(4) OVER (ORDER BY minutes)"),
        WITHIN,
        "NTILE(4) OVER (PARTITION BY person_id ORDER BY minutes)",
    ),
    *(
        (
            SUM.format(f"{function} {OWN}"),
            f"{function} is not computed over the rows of a unit",
            f"rank() {OWN}",
        )
        for function in ("PERCENT_RANK()", "CUME_DIST()", "NTH_VALUE(minutes, 2)")
    ),
    (
        SUM.format("SUM(minutes) OVER (PARTITION BY person_id ROWS UNBOUNDED PRECEDING)"),
        "an aggregate over a part of a unit's ordered rows is not computed",
        "SUM(minutes) OVER (PARTITION BY person_id)",
    ),
    (
        "SELECT APPROX_QUANTILES(age, 4) FROM staff",
        "APPROX_QUANTILES would answer without noise",
        "DP_QUANTILE(age, [0, 0.25, 0.5, 0.75, 1], eps=0.5)",
    ),
]


@pytest.fixture
def session(tmp_path) -> Iterator[Session]:
    with dpquery.connect(sample_policy(tmp_path, "epsilon = 20")) as opened:
        yield opened


def said(session: Session, query: str) -> Diagnostic | None:
    try:
        session.explain(query)
    except QueryRefused as refused:
        return refused.diagnostic
    return None


@pytest.mark.parametrize(("query", "title", "offered"), SAID, ids=[case[0] for case in SAID])
def test_a_title_is_in_words_of_sql_and_what_is_offered_is_accepted(
    session, query, title, offered
):
    found = said(session, query)
    assert (found.title, found.remedy[0]) == (title, offered)
    assert any(said(session, text) is None for text in pasted(query, found.span, offered))


@pytest.mark.parametrize("parts", [1, 3, 4])
def test_parts_of_approx_quantiles_are_no_share(session, parts):
    """The 4 of BigQuery was taken for a percentage, and 1 for the greatest value."""
    with pytest.raises(QueryRefused) as told:
        session.sql(f"SELECT APPROX_QUANTILES(salary, {parts}) FROM staff", eps=1)
    offered = told.value.diagnostic.remedy[0]
    assert offered.startswith("APPROX_QUANTILES(salary, [0, ")
    values = session.sql(f"SELECT {offered} FROM staff", eps=1).scalar()
    assert len(values) == parts + 1
