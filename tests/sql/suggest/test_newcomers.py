"""What a newcomer types: the line after `try:` works, and asks the same question."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpquery
from dpquery.errors import QueryRefused
from dpquery.server.web.quick_fixes import pasted
from dpquery.session import Session
from tests.samples import sample_policy

ROWS = """SELECT i // 10 AS user_id, DATE '2025-01-01' + (i % 90)::INT AS "day",
    TIMESTAMP '2025-01-01 00:00:00' + INTERVAL (i) MINUTE AS "at", 'Bern' AS city,
    i % 60 AS minutes, 'a;b' AS tags, 'at 7h' AS comment FROM range(50) AS t(i)"""
COUNT = "SELECT DP_COUNT(*, eps=1, max_rows_contributed=2) FROM events WHERE "
OWN = [
    # functions of other engines
    (
        f"{COUNT}REGEXP_EXTRACT(comment, 'at ([0-9]+)h', 1) = '7'",
        f"{COUNT}REGEXP_REPLACE(comment, '^.*at ([0-9]+)h.*$|^.*$', '\\1') = '7'",
    ),
    (
        "SELECT REGEXP_EXTRACT(comment, 'at ([0-9]+)h', 1) AS h, DP_COUNT(*, eps=1) "
        "FROM events GROUP BY h",
        r"REGEXP_REPLACE(comment, '^.*at ([0-9]+)h.*$|^.*$', '\1')",
    ),
    (f"{COUNT}REGEXP_REPLACE(city, 'n.*') = 'a'", r"REGEXP_REPLACE(city, '^(.).*$', '\1')"),
    (f"{COUNT}YEAR(day, 3) = 2025", "YEAR(day)"),
    (
        f"{COUNT}LIST_CONTAINS(string_split(tags, ';'), 'a')",
        f"{COUNT}'a' IN UNNEST(string_split(tags, ';'))",
    ),
    (
        f"{COUNT}'a' = ANY(string_split(tags, ';'))",
        f"{COUNT}'a' IN UNNEST(string_split(tags, ';'))",
    ),
    (
        f"{COUNT}len(string_split(tags, ';')) > 2",
        f"{COUNT}LENGTH(tags) - LENGTH(REPLACE(tags, ';', '')) + 1 > 2",
    ),
    # moments
    (f"{COUNT}at >= DATE '2025-03-31' - 7", "at >= CAST(DATE '2025-03-31' - 7 AS TIMESTAMP)"),
    (
        f"{COUNT}at < CURRENT_DATE - INTERVAL 700 DAY",
        "at < CAST(CURRENT_DATE - INTERVAL 700 DAY AS TIMESTAMP)",
    ),
    (
        f"{COUNT}at >= NOW() - INTERVAL 7 DAY",
        f"{COUNT}at >= CAST(CURRENT_DATE - INTERVAL 7 DAY AS TIMESTAMP)",
    ),
]
AVERAGE = "SELECT dept, DP_AVG(salary, eps=1) FROM staff "
POLICY = [
    # rows and results
    (
        f"{AVERAGE}GROUP BY dept HAVING salary > 1000",
        f"{AVERAGE}WHERE salary > 1000 GROUP BY dept",
    ),
    (
        "SELECT dept, DP_AVG(salary, eps=1) AS pay FROM staff WHERE remote OR age > 3 "
        "GROUP BY dept HAVING salary > 9 AND pay > 5 ORDER BY pay",
        "SELECT dept, DP_AVG(salary, eps=1) AS pay FROM staff WHERE (remote OR age > 3) "
        "AND salary > 9 GROUP BY dept HAVING pay > 5 ORDER BY pay",
    ),
    (
        f"{AVERAGE}GROUP BY dept ORDER BY salary DESC",
        f"{AVERAGE}GROUP BY dept ORDER BY 2 DESC",
    ),
    (
        "SELECT DP_AVG(salary, eps=1) AS pay FROM staff ORDER BY salary",
        "SELECT DP_AVG(salary, eps=1) AS pay FROM staff ORDER BY pay",
    ),
    (
        "SELECT dept FROM staff GROUP BY dept HAVING DP_COUNT(*, eps=1) > 100 ORDER BY n",
        "SELECT dept, DP_COUNT(*, eps=1) AS n FROM staff GROUP BY dept HAVING n > 100 "
        "ORDER BY n",
    ),
    (f"{AVERAGE}GROUP BY dept ORDER BY n", f"{AVERAGE}GROUP BY dept ORDER BY n".replace(
        "eps=1)", "eps=1) AS n"
    )),
    (
        "SELECT DP_AVG(salary, eps=1) OVER (PARTITION BY dept) FROM staff",
        f"{AVERAGE}GROUP BY dept",
    ),
    (
        "SELECT dept, AVG(salary) OVER (PARTITION BY dept) AS pay FROM staff WHERE remote",
        "SELECT dept, DP_AVG(salary, eps=0.5) AS pay FROM staff WHERE remote GROUP BY dept",
    ),
    (
        "SELECT DP_COUNT(*, eps=1) FROM staff WHERE salary > AVG(salary)",
        "SELECT DP_COUNT(*, eps=1) FROM staff "
        "WHERE salary > (SELECT DP_AVG(salary, eps=0.5) FROM staff)",
    ),
    (
        "SELECT DP_COUNT(*, eps=1) FROM (SELECT DISTINCT region FROM visits) s",
        "SELECT DP_COUNT(DISTINCT region, eps=1) FROM visits",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT region, COUNT(*) FROM visits GROUP BY region)",
        "SELECT DP_COUNT(DISTINCT region, eps=0.5) AS n FROM visits",
    ),
    (
        "SELECT DP_AVG(n, eps=1) FROM "
        "(SELECT dept, DP_COUNT(*, eps=1) AS n FROM staff GROUP BY dept)",
        "AVG(n)",
    ),
    # words in another place
    ("SET eps = 0.5", "SET dp.eps = 0.5"),
    (
        "SELECT COUNT(*) FROM staff WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1)",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) FROM staff",
    ),
    (
        "PIVOT staff ON dept USING DP_COUNT(*, eps=1) GROUP BY age // 10",
        "PIVOT (SELECT dept, age // 10 AS part FROM staff) ON dept "
        "USING DP_COUNT(*, eps=1) GROUP BY part",
    ),
    # values within the bounds, and the operator that was written
    (
        "SELECT DP_COUNT(*, eps=1) FROM visits WHERE day >= NOW()",
        "SELECT DP_COUNT(*, eps=1) FROM visits WHERE day >= '2025-03-31'",
    ),
    ("SELECT DP_COUNT(*, eps=1) FROM visits WHERE at < region",
     "at < TIMESTAMP '2025-03-31 23:59:59'"),
]  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    file = tmp_path_factory.mktemp("own") / "events.parquet"
    duckdb.sql(ROWS).write_parquet(str(file))
    with dpquery.connect(file, unit="user_id", epsilon=50) as opened:
        yield opened


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    place = tmp_path_factory.mktemp("policy")
    with dpquery.connect(sample_policy(place, "epsilon = 9.0")) as opened:
        yield opened


def told(session: Session, query: str) -> QueryRefused | None:
    try:
        session.explain(query)
    except QueryRefused as refused:
        return refused
    return None


def offers(session: Session, typed: str, offered: str) -> None:
    """Require an offer that works when it is pasted, or meets another question."""
    refused = told(session, typed)
    assert refused is not None
    remedy = refused.diagnostic.remedy[0]
    assert remedy == offered
    if remedy.startswith("SET"):
        session.sql(remedy)
        session.sql("RESET dp.eps")
        return
    found = (told(session, query) for query in pasted(typed, refused.span, remedy))
    assert any(one is None or one.code in {"DPQ402", "DPQ407"} for one in found)


@pytest.mark.parametrize(("typed", "offered"), OWN, ids=[typed for typed, _ in OWN])
def test_what_is_offered_over_a_file_asks_what_was_asked(own, typed, offered):
    offers(own, typed, offered)


@pytest.mark.parametrize(("typed", "offered"), POLICY, ids=[typed for typed, _ in POLICY])
def test_what_is_offered_under_a_policy_asks_what_was_asked(policy, typed, offered):
    offers(policy, typed, offered)


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        (POLICY[0][0], "HAVING sees results, not the salary of rows"),
        (POLICY[2][0], "ORDER BY sees results, not the salary of rows"),
        (
            "SELECT DP_COUNT(*, eps=1) FROM visits v "
            "WHERE EXISTS (SELECT 1 FROM regions r WHERE r.inhabitants > v.minutes)",
            "a subquery over public rows has to equate their values with a row's",
        ),
    ],
)
def test_a_title_names_what_stands_in_the_wrong_place(policy, typed, title):
    refused = told(policy, typed)
    assert refused is not None
    assert refused.diagnostic.title == title


def test_groups_that_are_named_anew_are_not_held_against_what_named_them_before(own):
    said = "WHERE city LIKE 'B%' AND minutes > 3"
    asked = f"SELECT city, DP_COUNT(*, eps=1, max_rows_contributed=2) FROM events {said} "
    refused = told(own, f"{asked}GROUP BY city")
    assert refused is not None
    offered = refused.diagnostic.remedy[0]
    assert offered == "WHERE city IN ('a', 'b') AND minutes > 3"
    own.explain(f"{asked}GROUP BY city".replace(said, offered))


def test_a_view_that_would_read_the_one_of_its_name_is_offered_another_name(policy):
    policy.sql("CREATE TEMP VIEW y AS SELECT * FROM staff")
    with pytest.raises(QueryRefused) as caught:
        policy.sql("CREATE TEMP VIEW y AS SELECT * FROM y")
    offered = caught.value.diagnostic.remedy[0]
    assert offered == "CREATE TEMP VIEW y_view AS SELECT * FROM y"
    policy.sql(offered)
