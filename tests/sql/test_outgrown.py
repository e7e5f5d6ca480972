"""What is too large by plan is refused, before it has grown: each limit at its edge."""

from __future__ import annotations

from time import process_time

import pytest

from dpquery.errors import PlanRefused
from dpquery.ir.relations import MOST_PAIRS, Extent, extent_of
from dpquery.plan.answer_notes import notes_of
from dpquery.sql.bind import scope
from dpquery.sql.bind.scope import fold
from dpquery.sql.size_limits import (
    MOST_CALLS,
    MOST_COPIES,
    MOST_NODES,
    MOST_PAIRING,
    MOST_READS,
    MOST_TERMS,
)
from tests.corpus.cases import planned, refusal

COUNT = "SELECT DP_COUNT(*, eps=0.1) FROM "
SECONDS = 2
"""Of one processor, which a refusal by size takes at most."""


def joined(table: str, reads: int, kind: str = "JOIN", more: str = "") -> str:
    rest = (
        f" {kind} {table} v{i} ON v{i}.person_id = v0.person_id{more.format(i)}"
        for i in range(1, reads)
    )
    return f"{COUNT}{table} v0{''.join(rest)}"


def doubled(times: int) -> str:
    names = ["c0 AS (SELECT * FROM visits)"]
    names += [
        f"c{i} AS (SELECT * FROM c{i - 1} UNION ALL SELECT * FROM c{i - 1})"
        for i in range(1, times + 1)
    ]
    return f"WITH {', '.join(names)} {COUNT}c{times}"


def nested(steps: int) -> str:
    """Three steps in each query: queries inside one another have a limit of their own."""
    levels, rest = divmod(steps - 1, 3)
    names = ["c0 AS (SELECT person_id, minutes FROM visits)"]
    names += [
        f"c{i} AS (SELECT person_id, MAX(minutes) AS minutes FROM c{i - 1} "
        "WHERE minutes > 1 GROUP BY person_id HAVING COUNT(*) > 0)"
        for i in range(1, levels + 1)
    ]
    rows = f"c{levels}"
    for _ in range(rest):
        rows = f"(SELECT person_id, minutes FROM {rows} WHERE minutes > 1)"
    return f"WITH {', '.join(names)} {COUNT}{rows}"


def multiplied(arms: int, others: int) -> str:
    one, other = (
        " UNION ALL ".join(["SELECT person_id FROM visits"] * n) for n in (arms, others)
    )
    return f"{COUNT}({one}) a JOIN ({other}) b ON a.person_id = b.person_id"


def asked(comparisons: int) -> str:
    """Ask with three terms for each comparison, and one for OR."""
    return f"{COUNT}staff WHERE {' OR '.join(f'age = {i}' for i in range(comparisons))}"


def bins(calls: int) -> str:
    """Ask for so many histograms of 50 bins, of three terms each."""
    listed = (f"DP_HISTOGRAM(age + {i}, 50, eps=0.01)" for i in range(calls))
    return f"SELECT {', '.join(listed)} FROM staff"


def texts(calls: int) -> str:
    """Ask of pairs of rows, with so many calls of 256 characters each."""
    cut = "DP_COUNT(DISTINCT LEFT(CONCAT(a.region, b.region), 256), eps=0.1)"
    rows = "visits a JOIN visits b ON a.person_id = b.person_id"
    return f"SELECT {', '.join([cut] * calls)} FROM {rows}"


def wide(calls: int) -> str:
    """Ask of rows alone, with so many calls of 1,024 characters each."""
    cut = "DP_COUNT(DISTINCT CONCAT(region, region, region, region), eps=0.1)"
    return f"SELECT {', '.join([cut] * calls)} FROM visits"


def looked_up(tables: int) -> str:
    joins = (f" JOIN regions r{i} ON v.region = r{i}.region" for i in range(tables))
    return f"{COUNT}visits v{''.join(joins)}"


AT_THE_EDGE = [
    (looked_up(MOST_NODES - 1), looked_up(MOST_NODES), "129 tables are joined"),
    (joined("staff", MOST_READS), joined("staff", MOST_READS + 1), "are read 33 times"),
    (joined("visits", MOST_PAIRING + 1), joined("visits", MOST_PAIRING + 2), "9 joins pair"),
    (nested(MOST_NODES), nested(MOST_NODES + 1), "of 129 steps"),
    (multiplied(8, 8), multiplied(8, 9), "one row can become 72 rows"),
    (asked(MOST_TERMS // 3), asked(MOST_TERMS // 3 + 1), "have 4,003 terms"),
    (bins(26), bins(27), "have 4,131 terms"),
    (texts(2), texts(3), "65,536 rows of one unit, of 768 characters each"),
    (wide(64), wide(65), "one row becomes 1, of 66,560 characters each"),
    (
        joined("visits", 6, "LEFT JOIN", " AND v{0}.day = v0.day"),
        joined("visits", 7, "LEFT JOIN", " AND v{0}.day = v0.day"),
        "joins can make 2,097,152 rows",
    ),
]


@pytest.mark.parametrize(("fits", "beyond", "said"), AT_THE_EDGE, ids=lambda text: text[:30])
def test_what_is_as_large_as_can_be_is_planned_and_what_is_larger_refused(
    fits: str, beyond: str, said: str
):
    planned(fits)
    with pytest.raises(PlanRefused) as caught:
        planned(beyond)
    assert caught.value.code == "DPQ406"
    assert said in caught.value.diagnostic.label


@pytest.mark.parametrize(
    "query",
    [
        *map(doubled, (6, 9, 24)),
        joined("visits", 150),
        joined("staff", 150),
        joined("visits", 300, "LEFT JOIN"),
        " UNION ALL ".join([f"{COUNT}(SELECT * FROM visits"] + ["SELECT * FROM visits"] * 40)
        + ") a",
    ],
    ids=lambda text: text[:60],
)
def test_what_doubles_is_refused_before_it_has_grown(query: str):
    before = process_time()
    with pytest.raises(PlanRefused) as caught:
        planned(query)
    assert caught.value.code == "DPQ406"
    assert process_time() - before < SECONDS


WORDING = [
    (
        joined("visits", MOST_PAIRING + 2),
        """\
refused[DPQ406]: this query is too large
  |
1 | …son_id = v0.person_id JOIN visits v9 ON v9.person_id = v0.person_id
  |                             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ 9 joins pair several rows of a unit with several

   why: the most is 8.
        a scan that one unit's rows could make slow, or large, would tell of them
        by the time it takes, or by failing.
        make one row of each unit first: GROUP BY the unit.""",  # noqa: E501
    ),
]


@pytest.mark.parametrize(("query", "text"), WORDING, ids=["reads"])
def test_a_refusal_names_the_number_the_limit_and_a_way(query: str, text: str):
    assert refusal(query) == text


def test_an_answer_says_that_a_join_may_leave_rows_out():
    note = (
        "a person_id with more than 65,536 pairs of rows in a join takes part with "
        "the first 256 rows of each side"
    )

    def said(query: str) -> str:
        return " ".join(notes_of(planned(query)))

    both = "(SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id)"
    assert note in said(joined("visits", 2))
    assert note not in said(joined("staff", 2))
    assert note not in said(f"{COUNT}visits JOIN staff USING (person_id)")
    assert note not in said(f"{COUNT}visits JOIN {both} n USING (person_id)")


def test_limits_are_what_the_documents_say():
    assert (MOST_PAIRS, MOST_COPIES, MOST_READS) == (65_536, 64, 32)


ARMS = " ".join(f"WHEN minutes = {i} THEN {i * 7 % 13}" for i in range(200))
COMPUTED = f"SELECT person_id, CASE {ARMS} END AS y"


@pytest.mark.parametrize(
    "rows",
    [
        f"({COMPUTED} FROM visits UNION ALL SELECT person_id, minutes FROM visits)",
        f"(SELECT DISTINCT person_id, y FROM ({COMPUTED} FROM visits))",
    ],
)
def test_conditions_on_what_is_computed_are_measured_written_out(rows: str):
    """DuckDB writes them out: with 200 of them, 5 GB were not enough to plan it."""

    def asked_for(n: int) -> str:
        conditions = " OR ".join(f"y > {i}" for i in range(n))
        return f"{COUNT}{rows} WHERE {conditions}"

    planned(asked_for(5))
    with pytest.raises(PlanRefused) as caught:
        planned(asked_for(200))
    assert caught.value.code == "DPQ406"


def test_a_join_may_have_as_many_rows_as_the_longer_side():
    """Pairs on a key are never cut below the rows of the side that has more."""
    twice = "(SELECT * FROM visits UNION ALL SELECT * FROM visits)"
    on = "a.person_id = b.person_id AND a.day = b.day"
    for sides in ((twice, "visits"), ("visits", twice)):
        (frontier,) = planned(f"{COUNT}{sides[0]} a JOIN {sides[1]} b ON {on}").frontiers
        assert extent_of(frontier.scan.relation, ()) == Extent(2, 2, MOST_PAIRS)


def test_names_of_many_joins_are_looked_up_and_not_compared_one_by_one(monkeypatch):
    asked: list[str] = []

    def counted(name: str) -> str:
        asked.append(name)
        return fold(name)

    def folded(joins: int) -> int:
        asked.clear()
        rest = (f"LEFT JOIN regions r{i} ON r{i}.region = v.region" for i in range(joins))
        planned(f"{COUNT}visits v {' '.join(rest)}")
        return len(asked)

    monkeypatch.setattr(scope, "fold", counted)
    assert folded(80) < 2.2 * folded(40)


@pytest.mark.parametrize("sets", [1, 2])
def test_calls_of_a_statement_are_few(sets: int):
    """Each leaves something in the ledger; those of several groupings are drawn for each."""
    grouped = " GROUP BY ROLLUP (dept)" if sets == 2 else ""
    most = MOST_CALLS // sets

    def query(count: int) -> str:
        calls = ", ".join(f"DP_COUNT(*, eps=1e-6) AS n{i}" for i in range(count))
        return f"SELECT {calls} FROM staff{grouped}"

    assert planned(query(most)).charge.events
    with pytest.raises(PlanRefused) as told:
        planned(query(most + 1))
    assert told.value.code == "DPQ406"
    assert "DP_COUNT" in query(most + 1)[told.value.span.start : told.value.span.end]
