"""Group keys: public before any data is read, and few enough to be shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.core.privacy import Ceiling, Loss, Neighbours
from dpquery.core.source import Source
from dpquery.core.types import BOOLEAN, DATE, INTEGER, TEXT, Kind, Type
from dpquery.errors import PlanRefused
from dpquery.policy.model import Bounds, Budget, Column, Files, LedgerSettings, Policy, Table
from dpquery.rowfunctions.key_domains import MAX_CELLS
from dpquery.sql.bind.statement import bind
from dpquery.sql.parse.parser import parse
from tests.corpus.cases import facts, refusal

WORDING = [
    (
        "SELECT dept, salary, DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept",
        """\
refused[DPQ301]: salary cannot be shown row by row
  |
1 | SELECT dept, salary, DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept
  |              ^^^^^^ not inside a DP_ function

   why: a result may contain only DP_ functions and grouping columns;
        one person's salary is what the session protects.
   try: SELECT dept, DP_QUANTILE(salary, 0.5, eps=0.5) FROM staff GROUP BY dept""",
    ),
    (
        "SELECT person_id, DP_COUNT(*, eps=0.5) FROM visits GROUP BY person_id",
        """\
refused[DPQ402]: the groups of person_id are not public
  |
1 | SELECT person_id, DP_COUNT(*, eps=0.5) FROM visits GROUP BY person_id
  |                                                             ^^^^^^^^^ private grouping \
column

   why: a value of person_id that appears in the answer shows that somebody has it,
        so the groups have to be known before the data is read.
   try: SELECT DP_AVG(n, eps=0.5, bounds=[0, 100]) FROM \
(SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id)
        that asks about each unit; a single unit is never shown""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY age / 10",
        """\
refused[DPQ402]: the groups of this expression are not public
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY age / 10
  |                                                 ^^^^^^^^ its values are not public

   why: a value of this expression that appears in the answer shows that somebody has it,
        so the groups have to be known before the data is read.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY age // 10
        in whole numbers: / makes fractions, // does not
        GROUP BY dept
        public groups here: dept, remote""",
    ),
    (
        "SELECT salary, dept, DP_COUNT(*, eps=0.5) FROM staff GROUP BY salary, dept",
        """\
refused[DPQ405]: this would make 1,000,010 groups
  |
1 | SELECT salary, dept, DP_COUNT(*, eps=0.5) FROM staff GROUP BY salary, dept
  |                                                               ^^^^^^ 200,002 x 5 values

   why: every declared group is shown, and at most 1,000,000 can be.
   try: WHERE salary IN (1, 2)""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY 2",
        """\
refused[DPQ205]: there is no column number 2 in the result
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY 2
  |                                                 ^ the columns are 1 to 1

   why: a number in GROUP BY counts the columns of the result.
   try: GROUP BY 1""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff GROUP BY n",
        """\
refused[DPQ303]: a DP_ function cannot be a group
  |
1 | SELECT DP_COUNT(*, eps=0.5) AS n FROM staff GROUP BY n
  |                                                      ^ this column is computed from the \
groups

   why: groups have to be known before anything is released.
   try: GROUP BY ALL
        it groups by the columns that hold no DP_ function""",
    ),
    (
        "SELECT dept FROM staff GROUP BY dept",
        """\
refused[DPQ302]: nothing is asked about staff
  |
1 | SELECT dept FROM staff GROUP BY dept
  |        ^^^^ no DP_ function over a private table

   why: a private table is asked by DP_ functions only, which add noise.
   try: SELECT dept, DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept""",
    ),
    (
        "SELECT dept, DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept LIMIT 0",
        """\
refused[DPQ408]: the answer could not contain anything
  |
1 | SELECT dept, DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept LIMIT 0
  |                                                            ^^^^^^^ this shows no rows

   why: it would be charged, and tell nothing.
   try: LIMIT 10""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY",
        """\
refused[DPQ101]: GROUP BY does not say by what
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY
  |                                        ^^^^^^^^ by what?

   why: the text cannot be read as one query.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY ALL""",
    ),
]


@pytest.mark.parametrize(("query", "text"), WORDING, ids=[q for q, _ in WORDING])
def test_a_refusal_reads_as_it_was_written(query: str, text: str):
    assert refusal(query) == text


def keys(sql: str, *columns: Column) -> list[tuple[object, ...]]:
    """Bind a query over a table of these columns, and give the values of its keys."""
    table = Table("t", Files((Path("t.parquet"),)), (), {c.name: c for c in columns})
    budget = Budget(Ceiling(Loss(Fraction(1))))
    policy = Policy("p", Neighbours.ADD_REMOVE, budget, {"t": table}, LedgerSettings(None))
    (frontier,) = bind(parse(Source(sql)), policy, facts()[1]).frontiers
    return [key.values for key in frontier.keys]


def counted(group: str, type_: Type, **stated: object) -> list[tuple[object, ...]]:
    """The same without NULL, as the policy may have it, and with."""
    column = Column("x", type_, null_group=False, **stated)  # type: ignore[arg-type]
    asked = f"SELECT DP_COUNT(*, eps=1) FROM t GROUP BY {group}"
    (without,) = found = keys(asked, column)
    if len(without) < MAX_CELLS:
        assert keys(asked, replace(column, null_group=True)) == [(*without, None)]
    return found


def test_keys_of_the_policy_are_sorted():
    assert counted("x", TEXT, keys=("b", "a")) == [("a", "b")]
    assert counted("x", BOOLEAN) == [(False, True)]
    assert counted("x", INTEGER, keys=(3, -1)) == [(-1, 3)]


def test_listed_keys_go_before_bounds():
    assert counted("x", INTEGER, keys=(1, 5), bounds=Bounds(0, 9)) == [(1, 5)]


def test_bounded_integers_and_dates_have_their_values_for_keys():
    assert counted("x", INTEGER, bounds=Bounds(-1, 2)) == [(-1, 0, 1, 2)]
    days = Bounds(date(2024, 2, 28), date(2024, 3, 1))
    assert counted("x", DATE, bounds=days) == [
        (date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1))
    ]


def test_as_many_keys_as_are_shown_are_listed_and_one_more_is_not_public():
    (values,) = counted("x", INTEGER, bounds=Bounds(1, MAX_CELLS))
    assert len(values) == MAX_CELLS
    with pytest.raises(PlanRefused) as caught:
        counted("x", INTEGER, bounds=Bounds(0, MAX_CELLS))
    assert caught.value.code == "DPQ402"


@pytest.mark.parametrize(
    ("type_", "named"),
    [
        (TEXT, "'a', 'b'"),
        (INTEGER, "1, 2"),
        (DATE, "'2024-12-30', '2024-12-31'"),
        (Type(Kind.DECIMAL, 5, 1), "1.5, 2.5"),
    ],
)
def test_a_column_without_keys_can_be_named_by_where(type_: Type, named: str):
    with pytest.raises(PlanRefused) as caught:
        counted("x", type_)
    remedy = f"WHERE x IN ({named})"
    assert caught.value.diagnostic.remedy[0].startswith(remedy)
    (values,) = keys(
        f"SELECT DP_COUNT(*, eps=1) FROM t {remedy} GROUP BY x", Column("x", type_)
    )
    assert len(values) == 2


def test_without_any_public_column_the_owner_is_asked():
    with pytest.raises(PlanRefused) as caught:
        counted("x // 2", INTEGER)
    assert caught.value.diagnostic.remedy == (
        "ask the data owner to list the keys of a column in the policy",
    )


def test_a_group_that_no_answer_could_show_is_refused():
    text = refusal(
        "SELECT age, DP_COUNT(*, eps=1) FROM staff WHERE age IN (30, 100000000000000000000) "
        "GROUP BY age"
    )
    assert text.startswith("refused[DPQ205]: no row can be in the group 100000000000000000000")
