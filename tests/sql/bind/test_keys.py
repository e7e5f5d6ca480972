"""Group keys: public before any data is read, and few enough to be shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.core.privacy_loss import Ceiling, Loss, Neighbours
from dpquery.core.source_text import Source
from dpquery.core.types import BOOLEAN, DATE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.errors import PlanRefused
from dpquery.policy.model import (
    Bounds,
    Column,
    Files,
    LedgerSettings,
    Policy,
    PolicyBudget,
    Table,
)
from dpquery.rowfunctions.analysis.key_domains import MAX_CELLS
from dpquery.sql.bind.group_keys import MOST_RANGED
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from tests.corpus.cases import facts, refusal

NEW_YEAR = datetime.fromisoformat("2025-01-01")
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
  |                                                 ^^^^^^^^ / makes fractions, // whole numbers

   why: a value of this expression that appears in the answer shows that somebody has it,
        so the groups have to be known before the data is read.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY age // 10
        GROUP BY dept
        public groups here: dept, remote""",
    ),
    (
        "SELECT hired, age, DP_COUNT(*, eps=0.5) FROM staff GROUP BY hired, age, dept",
        """\
refused[DPQ405]: this would make 2,516,705 groups
  |
1 | SELECT hired, age, DP_COUNT(*, eps=0.5) FROM staff GROUP BY hired, age, dept
  |                                                             ^^^^^ 9,497 x 53 x 5 values

   why: every declared group is shown, and at most 1,000,000 can be.
   try: WHERE hired IN ('2024-12-30', '2024-12-31')""",
    ),
    (
        "SELECT salary, DP_COUNT(*, eps=0.5) FROM staff GROUP BY salary",
        """\
refused[DPQ405]: this would make 200,001 groups of salary
  |
1 | SELECT salary, DP_COUNT(*, eps=0.5) FROM staff GROUP BY salary
  |                                                         ^^^^^^ a group for each value of \
its range

   why: of more than 10,000 groups, most would have hardly anybody in them.
   try: SELECT salary // 1000, DP_COUNT(*, eps=0.5) FROM staff GROUP BY salary // 1000
        or GROUP BY DP_KEYS(salary, eps=0.5, delta=1e-7), which finds them""",
    ),
    (
        "SELECT zone, inhabitants, DP_COUNT(*, eps=0.5) FROM visits JOIN regions "
        "USING (region) GROUP BY zone",
        """\
refused[DPQ301]: inhabitants can differ among the rows of a group
  |
1 | SELECT zone, inhabitants, DP_COUNT(*, eps=0.5) FROM visits JOIN r…
  |              ^^^^^^^^^^^ not determined by GROUP BY

   why: beside DP_ functions a result may contain grouping columns, and other columns of a
        public table whose unique key is one of them; this one can be a group itself.
   try: SELECT zone, inhabitants, DP_COUNT(*, eps=0.5) FROM visits JOIN regions USING \
(region) GROUP BY zone, inhabitants""",
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
        "SELECT 1 FROM staff",
        """\
refused[DPQ302]: nothing is asked about staff
  |
1 | SELECT 1 FROM staff
  |        ^ no DP_ function over a private table

   why: a private table is asked by DP_ functions only, which add noise.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff""",
    ),
    (
        "SELECT dept, DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept LIMIT 0",
        """\
refused[DPQ408]: the answer would always be empty
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
    budget = PolicyBudget(Ceiling(Loss(Fraction(1))))
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


def test_as_many_values_of_a_range_as_are_shown_are_listed_and_one_more_is_refused():
    (values,) = counted("x", INTEGER, bounds=Bounds(1, MOST_RANGED))
    assert len(values) == MOST_RANGED
    with pytest.raises(PlanRefused) as caught:
        counted("x", INTEGER, bounds=Bounds(0, MOST_RANGED))
    assert caught.value.code == "DPQ405"


@pytest.mark.parametrize(
    ("type_", "bounds", "remedy"),
    [
        (INTEGER, Bounds(0, MOST_RANGED), "x // 100"),
        (INTEGER, Bounds(0, MAX_CELLS), "x // 10000"),
        (DATE, Bounds(date(1990, 1, 1), date(2029, 12, 31)), "DATE_TRUNC('month', x)"),
        (DATE, Bounds(date(1900, 1, 1), date(2029, 12, 31)), "DATE_TRUNC('year', x)"),
        (TIMESTAMP, Bounds(NEW_YEAR, NEW_YEAR.replace(month=12)), "DATE_TRUNC('day', x)"),
    ],
)  # fmt: skip
def test_a_long_range_is_offered_in_steps(type_: Type, bounds: Bounds, remedy: str):
    with pytest.raises(PlanRefused) as caught:
        counted("x", type_, bounds=bounds)
    assert caught.value.code == "DPQ405"
    offered = caught.value.diagnostic.remedy[0]
    assert offered == f"SELECT DP_COUNT(*, eps=1) FROM t GROUP BY {remedy}"
    (values,) = keys(offered, Column("x", type_, bounds))
    assert 100 <= len(values) <= 1000


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


def test_without_any_public_column_a_range_is_offered_and_the_owner_is_asked():
    with pytest.raises(PlanRefused) as caught:
        counted("x // 2", INTEGER)
    first, owner, *_ = caught.value.diagnostic.remedy
    assert first.startswith("WHERE x BETWEEN 0 AND ")
    assert owner == "or ask the data owner to state bounds of x in the policy"


def test_a_group_that_no_answer_could_show_is_refused():
    text = refusal(
        "SELECT age, DP_COUNT(*, eps=1) FROM staff WHERE age IN (30, 100000000000000000000) "
        "GROUP BY age"
    )
    assert text.startswith("refused[DPQ205]: no row can be in the group 100000000000000000000")
