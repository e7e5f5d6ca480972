"""PIVOT: at no noise it is DuckDB's, and all its columns are one release."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpquery.database import Database
from dpquery.errors import QueryRefused
from dpquery.session import Session
from tests.corpus.runs import policy_at
from tests.samples import sample_policy

STAFF = """(SELECT * REPLACE (least(greatest(salary, 0), 200000) AS salary) FROM 'staff.parquet'
    WHERE remote IS NOT NULL AND dept IN ('eng', 'hr', 'legal', 'ops', 'sales'))"""
VISITS = """(SELECT * REPLACE (least(greatest(minutes, 0), 240) AS minutes)
    FROM 'visits.parquet' WHERE person_id IS NOT NULL)"""
EXACT = "eps=1e8"
QUERIES = [
    ("PIVOT {staff} ON dept USING {COUNT(*)} GROUP BY remote", "remote"),
    ("PIVOT {staff} ON remote USING {AVG(salary)} GROUP BY dept", "dept"),
    ("PIVOT {staff} ON dept IN ('ops', 'eng') USING {SUM(salary)} AS s, {COUNT(*)} AS n", None),
    ("PIVOT {staff} ON rating IN (2.0, 3.5) USING {COUNT(*)} GROUP BY dept", "dept"),
    ("PIVOT {staff} ON dept, remote IN (true) USING {SUM(salary)}", None),
    (
        "SELECT * FROM (SELECT dept, remote, salary FROM {staff})"
        " PIVOT ({SUM(salary)} FOR dept IN ('ops', 'eng' AS e))",
        "remote",
    ),
    (
        "FROM (SELECT dept, remote FROM {staff})"
        " PIVOT ({COUNT(*)} AS n FOR dept IN ('eng', 'hr') remote IN (true)) AS p",
        "1",
    ),
    (
        "SELECT * FROM {regions} PIVOT (SUM(inhabitants) FOR zone IN ('coast', 'inland'))",
        "region",
    ),
    ("PIVOT {regions} ON zone IN ('coast', 'north') USING COUNT(*) GROUP BY region", "region"),
    (
        "SELECT * FROM (SELECT dept, remote, {COUNT(*)} AS n FROM {staff} GROUP BY ALL)"
        " PIVOT (SUM(n) FOR dept IN ('eng', 'nobody', 'hr'))",
        "remote",
    ),
    (
        "SELECT {SUM(north)} FROM (PIVOT {visits} ON region IN ('north', 'west')"
        " USING SUM(minutes) GROUP BY person_id)",
        None,
    ),
]
ONE = "PIVOT staff ON dept USING DP_AVG(salary, eps=0.5) GROUP BY remote"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    policy = sample_policy(tmp_path_factory.mktemp("pivot"), "epsilon = 9e9\ndelta = 1e-3")
    with Session(Database(policy_at(policy)), "default", None) as opened:
        yield opened


def ours(query: str) -> str:
    """Write DP_ functions for the aggregates, and the names of the policy."""
    for name, options in (("COUNT(*)", ""), ("SUM(north)", ", bounds=[0, 3000]")):
        call = f"DP_{name[:-1]}, {EXACT}{options})"
        query = query.replace(f"{{{name}}}", call)
    for name in ("SUM(salary)", "AVG(salary)"):
        query = query.replace(f"{{{name}}}", f"DP_{name[:-1]}, {EXACT})")
    return query.format(staff="staff", regions="regions", visits="visits")


def theirs(query: str, folder: Path) -> str:
    """Write the query for DuckDB: over the rows that are in a group, and clamped."""
    for name in ("COUNT(*)", "SUM(salary)", "AVG(salary)", "SUM(north)"):
        query = query.replace(f"{{{name}}}", name)
    query = query.format(staff=STAFF, visits=VISITS, regions="'regions.csv'")
    for file in ("staff.parquet", "visits.parquet", "regions.csv"):
        query = query.replace(f"'{file}'", f"'{folder / file}'")
    return query


@pytest.mark.parametrize(("query", "order"), QUERIES)
def test_it_is_duckdbs_where_there_is_no_noise(
    session: Session, query: str, order: str | None, tmp_path: Path
):
    needs = "GROUP BY" not in query and "SELECT" not in query
    if needs:  # the unit is a column too, so the rows are named
        query = query.replace("{staff}", "(SELECT dept, remote, salary FROM {staff})")
    sorted_by = f" ORDER BY {order}" if order else ""
    folder = sample_policy(tmp_path, "epsilon = 1").parent
    found = session.sql(ours(query) + sorted_by)
    with duckdb.connect() as engine:
        exact = engine.sql(theirs(query, folder) + sorted_by)
        columns, rows = exact.columns, exact.fetchall()
    if order is not None:
        assert list(found.columns) == columns
    assert len(found.rows) == len(rows) > 0
    for one, other in zip(found.rows, rows, strict=True):
        assert [*map(rounded, one)] == [*map(rounded, other)]


def rounded(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, int | float | Decimal) else value


def test_all_columns_are_one_release_that_is_charged_once(session: Session):
    answer = session.sql(ONE)
    assert answer.columns == ("remote", "eng", "hr", "legal", "ops", "sales")
    assert answer.loss.epsilon == Fraction(1, 2)
    for column in answer.columns[1:]:
        for interval, row in zip(answer.interval(column), answer.to_dicts(), strict=True):
            assert interval is not None
            assert interval[0] <= row[column] <= interval[1]
    cells = "SELECT dept, remote, DP_AVG(salary, eps=0.5) FROM staff WHERE dept IS NOT NULL"
    assert session.sql(f"{cells} GROUP BY dept, remote").loss.epsilon == 0, "it is that release"


def test_plain_aggregates_mean_the_same_release(session: Session):
    plain = ONE.replace("DP_AVG(salary, eps=0.5)", "AVG(salary)")
    assert f"understood   {ONE[:40]}" in str(session.explain(plain, eps="0.5"))
    with pytest.raises(QueryRefused) as refused:
        session.sql(plain)
    assert refused.value.diagnostic.remedy[0] == ONE


def test_noise_stays_known_through_queries_around(session: Session):
    query = f"WITH x AS ({ONE}) SELECT eng, DP_INTERVAL_LOW(eng) FROM x WHERE remote"
    assert [low <= eng for eng, low in session.sql(query).rows] == [True]


def test_a_pivot_in_brackets_or_after_them_is_not_lost(session: Session):
    joined = "SELECT * FROM (staff JOIN visits USING (person_id)) PIVOT"
    answer = session.sql(
        f"{joined} (DP_SUM(minutes, eps=1) FOR dept IN ('eng') GROUP BY remote)"
    )
    assert answer.columns == ("remote", "eng")
    assert session.sql(f"({ONE})").columns == session.sql(ONE).columns


@pytest.mark.parametrize(
    ("query", "offered"),
    [
        ("PIVOT staff ON dept USING DP_SUM(salary, eps=1)", "(SELECT dept, salary FROM staff)"),
        (
            "PIVOT staff ON rating USING DP_COUNT(*, eps=1) GROUP BY dept",
            "rating IN (1.5, 2.5)",
        ),
        ("PIVOT staff ON dept GROUP BY remote", "USING DP_COUNT(*, eps=0.5) GROUP BY remote"),
        (
            "PIVOT staff ON dept USING DP_COUNT(*, eps=1) GROUP BY rating",
            "WHERE rating IN (1.5",
        ),
    ],
)
def test_what_is_offered_is_planned(session: Session, query: str, offered: str):
    with pytest.raises(QueryRefused) as refused:
        session.explain(query)
    first = refused.value.diagnostic.remedy[0]
    assert offered in first
    mended = first if first.startswith("PIVOT") else query.replace("staff", first)
    session.explain(mended)


@pytest.mark.parametrize(
    "query",
    [
        "PIVOT staff ON rating USING AVG(salary) GROUP BY dept",
        "PIVOT staff ON dept USING AVG(salary) GROUP BY rating",
    ],
)
def test_columns_and_rows_are_never_those_that_data_have(session: Session, query: str):
    with pytest.raises(QueryRefused) as refused:
        session.explain(query, eps="1", delta="1e-6")
    assert refused.value.code == "DPQ402"


@pytest.mark.parametrize(
    "query",
    [
        "PIVOT visits ON minutes, region IN ('north', 'west')"
        " USING DP_COUNT(*, eps=1), DP_SUM(spent, eps=1) GROUP BY day",
        "PIVOT visits ON minutes USING DP_COUNT(*, eps=1) GROUP BY day, region",
    ],
)
def test_what_would_run_out_of_time_is_refused_before_the_charge(session: Session, query: str):
    with pytest.raises(QueryRefused) as caught:
        session.explain(query)
    assert caught.value.code == "DPQ105"
    assert "values among" in caught.value.diagnostic.title
    fewer = query.replace("minutes", "minutes IN (0, 10, 20)", 1)
    assert len(session.sql(fewer).columns) <= 14
