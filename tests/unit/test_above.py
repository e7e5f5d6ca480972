"""What is computed from released values: names, types, and that nothing of it can raise."""

from __future__ import annotations

import pytest

from tests.corpus.cases import facts, planned, refusal

WORDING = [
    (
        "SELECT SQRT(DP_COUNT(*, eps=0.5)) FROM staff",
        """\
refused[DPQ202]: there is no function SQRT
  |
1 | SELECT SQRT(DP_COUNT(*, eps=0.5)) FROM staff
  |        ^^^^ unknown function

   why: on results there are ABS, COALESCE, GREATEST, LEAST, ROUND and arithmetic.
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
refused[DPQ302]: COUNT would be exact
  |
1 | SELECT COUNT(bonus) FROM staff
  |        ^^^^^^^^^^^^ no noise is added here

   why: an exact result shows, when one person is added, that they were.
   try: DP_COUNT(bonus, eps=0.5)""",
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
        "SELECT zone IN (3, 4.5) FROM regions ORDER BY -1, 1 / 0",
        "SELECT * FROM regions WHERE zone",
        "SELECT * FROM regions WHERE zone AND inhabitants",
        "SELECT NOT zone, zone OR true FROM regions",
        "SELECT zone = 'x' AND region FROM regions",
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


def test_no_word_of_the_query_reaches_the_engine():
    plan = planned("SELECT DP_COUNT(*, eps=0.1) AS \"x' ; --\", 'a''b' AS \"f(\" FROM staff")
    assert plan.above.sql == (
        'SELECT "f0"."a0" AS "c0", TRY(CAST(\'a\'\'b\' AS TEXT)) AS "c1", '
        '"f0"."row" AS "row" FROM "f0" ORDER BY "f0"."row"'
    )
    assert [column.name for column in plan.above.columns] == ["x' ; --", "f("]


def test_a_column_shown_unchanged_knows_its_release_and_a_computed_one_does_not():
    plan = planned("SELECT (DP_COUNT(*, eps=0.1)), DP_COUNT(*, eps=0.1) + 1 FROM staff")
    assert [column.origin for column in plan.above.columns] == [(0, "a0"), None]
    assert plan.above.numbered


def test_long_chains_make_shallow_trees():
    query = " OR ".join(f"inhabitants = {i}" for i in range(2_000))
    plan = planned(f"SELECT region FROM regions WHERE {query}")
    assert facts()[1].run(plan.above, []).num_rows == 0
