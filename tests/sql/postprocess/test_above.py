"""What is computed from released values: names, types, and that nothing of it can raise."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpquery.budget.accountant import basic
from dpquery.ir.query import Origin
from tests.corpus.cases import facts, planned, refusal

WORDING = [
    (
        "SELECT GAMM(DP_COUNT(*, eps=0.5)) FROM staff",
        """\
refused[DPQ202]: there is no function GAMM
  |
1 | SELECT GAMM(DP_COUNT(*, eps=0.5)) FROM staff
  |        ^^^^ unknown function

   why: functions of results are ABS, ROUND and others: see `dpquery explain functions`.
   try: DP_COUNT(*, eps=0.5)""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff ORDER BY 2",
        """\
refused[DPQ205]: there is no column number 2 in the result
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff ORDER BY 2
  |                                                 ^ the columns are 1 to 1

   why: a number in ORDER BY counts the columns of the result.
   try: ORDER BY 1""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff LIMIT 1 + 1",
        """\
refused[DPQ207]: LIMIT must be a whole number
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff LIMIT 1 + 1
  |                                              ^^^^^ not a whole number

   why: it is read from the text before anything is computed.
   try: LIMIT 10""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) + '1' FROM staff",
        """\
refused[DPQ208]: a number is needed here
  |
1 | SELECT DP_COUNT(*, eps=0.5) + '1' FROM staff
  |                               ^^^ a text

   why: values are never converted silently: a conversion can fail on one row,
        and a failure would tell whether that row exists.
   try: 1""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) AS n, DP_COUNT(bonus, eps=0.5) AS n FROM staff",
        """\
refused[DPQ211]: two columns are called n
  |
1 | SELECT DP_COUNT(*, eps=0.5) AS n, DP_COUNT(bonus, eps=0.5) AS n FROM staff
  |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ the second one

   why: columns of an answer are found by their names.
   try: AS n_2""",
    ),
    (
        "SELECT COUNT(bonus) FROM staff",
        """\
refused[DPQ302]: COUNT would answer without noise
  |
1 | SELECT COUNT(bonus) FROM staff
  |        ^^^^^^^^^^^^ no noise is added here

   why: a result without noise shows, when one person is added, that they were.
   try: SELECT DP_COUNT(bonus, eps=0.5) FROM staff
        or SET dp.eps = 0.5 first: plain aggregates share the epsilon of their statement""",
    ),
]


@pytest.mark.parametrize(("query", "text"), WORDING, ids=[q for q, _ in WORDING])
def test_a_refusal_reads_as_it_was_written(query: str, text: str):
    assert refusal(query) == text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT inhabitants / 0, inhabitants // 0, inhabitants % 0 FROM regions",
        "SELECT inhabitants * inhabitants * inhabitants * inhabitants FROM regions",
        "SELECT ROUND(inhabitants, 99999), ROUND(1.5, -400) FROM regions",
        "SELECT inhabitants IN (3, 4.5) FROM regions ORDER BY -1, 1 / 0",
        "SELECT COALESCE(NULL, NULL), ABS(NULL), -NULL FROM regions",
        "SELECT 99999999999999999999999999999999999999 * 99 FROM regions",
        "SELECT 1e308 * 1e308, -1e308 * 1e308 / 0 FROM regions",
        "SELECT DATE '9999-12-31' + 1, DATE '0001-01-01' - 99999999 FROM regions",
    ],
)
def test_what_is_accepted_over_public_tables_can_be_computed(query: str):
    """A charge must not end in an error, so whatever binds has to run (I12)."""
    _, public = facts()
    assert public.run(planned(query).above, []).num_rows >= 0


NONE = (
    "SQRT(-1)",
    "LN(0)",
    "LN(-1)",
    "LOG10(0)",
    "LOG(-1)",
    "LOG2(0)",
    "POWER(-8, 0.5)",
    "ASIN(2)",
)


def test_where_a_function_has_no_result_there_is_null_as_among_rows():
    _, public = facts()
    listed = ", ".join((*NONE, "SQRT(4)", "LN(1)", "POWER(2, 3)"))
    (row,) = zip(
        *public.run(planned(f"SELECT {listed}").above, []).to_pydict().values(), strict=True
    )
    assert row == (*[None] * len(NONE), 2, 0, 8)


def test_no_word_of_the_query_reaches_the_engine():
    plan = planned("SELECT DP_COUNT(*, eps=0.1) AS \"x' ; --\", 'a''b' AS \"f(\" FROM staff")
    assert plan.above.sql == (
        'SELECT "f0"."a0" AS "c0", CAST(\'a\'\'b\' AS TEXT) AS "c1", '
        '"f0"."row" AS "r0" FROM "f0" ORDER BY "f0"."row"'
    )
    assert [column.name for column in plan.above.columns] == ["x' ; --", "f("]


def origins(query: str) -> list[tuple[Origin, ...]]:
    return [column.origins for column in planned(query).above.columns]


def test_a_column_shown_unchanged_knows_its_release_and_a_computed_one_does_not():
    query = "SELECT (DP_COUNT(*, eps=0.1)), DP_COUNT(*, eps=0.1) + 1 FROM staff"
    assert origins(query) == [(Origin(0, 0, "a0"),), ()]
    assert planned(query).above.rows == (0,)


N = "SELECT DP_COUNT(*, eps=0.1) AS n FROM staff"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (f"SELECT n FROM ({N})", [(Origin(0, 0, "a0"),)]),
        (f"SELECT n, rank() OVER (ORDER BY n) AS r FROM ({N})", [(Origin(0, 0, "a0"),), ()]),
        (f"WITH t AS ({N}) SELECT b.n FROM t AS a CROSS JOIN t AS b", [(Origin(1, 0, "a0"),)]),
        (f"{N} UNION ALL {N}", [(Origin(0, 0, "a0"), Origin(1, 1, "a0"))]),
        (f"{N} UNION {N}", [()]),
        (f"SELECT DISTINCT n FROM ({N})", [()]),
        (f"SELECT max(n) FROM ({N})", [()]),
        (f"SELECT n FROM regions LEFT JOIN ({N}) ON inhabitants > n", [(Origin(0, 0, "a0"),)]),
    ],
)
def test_a_release_is_known_through_whatever_keeps_its_rows(query: str, found: object):
    assert origins(query) == found


@pytest.mark.parametrize(
    ("query", "epsilons"),
    [
        (f"WITH t AS ({N}) SELECT a.n + b.n FROM t AS a, t AS b WHERE a.n > b.n", [1]),
        (f"WITH t AS ({N}) SELECT (SELECT n FROM t), (SELECT max(n) FROM t)", [1]),
        (f"SELECT a.n FROM ({N}) AS a, ({N}) AS b", [1, 1]),
        (f"SELECT ({N}) AS x, x + 1, sum(x) OVER () FROM regions QUALIFY x > 0", [1]),
        (f"{N} WHERE age > (SELECT DP_MEDIAN(age, eps=0.2) FROM staff)", [2, 1]),
        ("SELECT DP_COUNT(*, eps=0.1) AS n, n / 2 AS h, max(n) OVER () FROM staff", [1]),
    ],
)
def test_what_is_written_once_is_charged_once(query: str, epsilons: list[int]):
    charged = planned(query).charge.events
    assert [basic([event]).epsilon * 10 for event in charged] == epsilons


def test_long_chains_make_shallow_trees():
    query = " OR ".join(f"inhabitants = {i}" for i in range(2_000))
    plan = planned(f"SELECT region FROM regions WHERE {query}")
    assert facts()[1].run(plan.above, []).num_rows == 0


BOTH = "SELECT a.zone FROM regions AS a, regions AS b WHERE "


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (
            "a.inhabitants + 1 = b.inhabitants + 1",
            '(TRY(("t0"."inhabitants" + 1)) = TRY(("t1"."inhabitants" + 1)))',
        ),
        (
            "(a.zone = b.zone AND a.zone LIKE 'c%') "
            "OR (1 / b.inhabitants > 2 AND a.zone = b.zone)",
            '("t0"."zone" = "t1"."zone")',
        ),
    ],
)
def test_equalities_stand_outside_of_try(condition: str, found: str):
    sql = planned(BOTH + condition).above.sql
    parts = sql.partition(" WHERE ")[2].split(" AND TRY(")[0].partition(" ORDER BY ")[0]
    assert parts == found


def test_a_value_that_raises_is_equal_to_none():
    query = "SELECT a.zone FROM regions AS a WHERE {} * 9223372036854775807 {} 1"
    sql = planned(query.format("a.inhabitants", "IS DISTINCT FROM")).above.sql
    assert "TRY((" in sql
    assert "(TRY(" not in sql  # NULL would differ from 1


@pytest.mark.parametrize("asked", ["n[1]", "n[1:2]", "n[:]", "LIST_EXTRACT(n, 1)"])
def test_what_is_no_list_is_offered_itself(asked: str):
    query = f"SELECT {asked} FROM (SELECT DP_COUNT(*, eps=0.5) AS n FROM staff)"
    assert refusal(query).startswith("refused[DPQ208]: a list is needed here")
    assert refusal(query).endswith("try: n")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        *[("[1]", 1.0), ("[-1]", 3.0), ("[0]", None), ("[4]", None), ("[NULL]", None)],
        *[("[2:]", [2.0, 3.0]), ("[:-2]", [1.0, 2.0]), ("[2:9]", [2.0, 3.0]), ("[3:1]", [])],
    ],
)
def test_places_of_lists_are_those_of_the_engine(asked: str, found: object):
    plan = planned(f"SELECT DP_QUANTILE(salary, [0.1, 0.5, 0.9], eps=1){asked} FROM staff")
    table = pa.table({"row": [0], "a0": [[1.0, 2.0, 3.0]]})
    assert facts()[1].run(plan.above, [table]).column(0).to_pylist() == [found]


LISTED = (
    "WITH t AS (SELECT dept AS s, DP_QUANTILE(salary, [0.1, 0.9], eps=1) AS q "
    "FROM staff GROUP BY s) "
)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s FROM t UNION ALL SELECT q FROM t",
        "SELECT q FROM t EXCEPT SELECT s FROM t",
        "SELECT s IN (SELECT q FROM t) AS x FROM t",
    ],
)
def test_no_text_is_read_as_a_list(query: str):
    assert refusal(LISTED + query).startswith("refused[DPQ208]")


def test_null_stands_beside_texts_and_lists():
    planned(LISTED + "SELECT s, q FROM t UNION ALL SELECT NULL, NULL FROM t")
