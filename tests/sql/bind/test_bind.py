"""Names and arguments: against the policy, and against the signatures of the functions."""

from __future__ import annotations

import pytest

from dpquery.ir.measures import CountRows, Weight
from dpquery.ir.relations import Filter, TableScan
from tests.corpus.cases import planned, refusal

WORDING = [
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM 'other.parquet'",
        """\
refused[DPQ201]: there is no table 'other.parquet' in this session
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM 'other.parquet'
  |                                  ^^^^^^^^^^^^^^^ not in the policy

   why: queries reach only the tables that the policy names;
        no other file can be opened, by path or by a function.
   try: FROM staff
        tables here: regions, staff, visits""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM read_parquet('staff.parquet')",
        """\
refused[DPQ201]: a function cannot be asked like a table
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM read_parquet('staff.parquet')
  |                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ not in the policy

   why: queries reach only the tables that the policy names;
        no other file can be opened, by path or by a function.
   try: FROM staff
        tables here: regions, staff, visits""",
    ),
    (
        "SELECT DP_CUONT(age, eps=0.5) FROM staff",
        """\
refused[DPQ202]: there is no function DP_CUONT
  |
1 | SELECT DP_CUONT(age, eps=0.5) FROM staff
  |        ^^^^^^^^ unknown function

   why: the DP_ functions are DP_COUNT, DP_AVG, DP_CDF, DP_CORR, DP_COUNT_IF, \
DP_COVAR_POP, DP_COVAR_SAMP, DP_DENSITY, DP_FIRST_ABOVE, DP_HISTOGRAM, ….
   try: DP_COUNT(age, eps=0.5)""",
    ),
    (
        "SELECT DP_REGR_SLOPE(salary, age, eps=1, mechanism='theil_sen') FROM staff",
        """\
refused[DPQ205]: DP_REGR_SLOPE has no mechanism 'theil_sen'
  |
1 | SELECT DP_REGR_SLOPE(salary, age, eps=1, mechanism='theil_sen') FROM staff
  |                                                    ^^^^^^^^^^^ left out on purpose

   why: it takes slopes from row to row, of two units each. Here what a row adds follows from
        its own unit alone: one unit more would give the rows of others other partners.
   try: mechanism='laplace'""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE lowr(dept) = 'eng'",
        """\
refused[DPQ202]: there is no function LOWR for rows
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE lowr(dept) = 'eng'
  |                                              ^^^^ unknown function

   why: a function that failed on one row would tell of that row, so the list is closed:
        LOWER, CASE, COALESCE, YEAR, ROUND, LENGTH and others: see `dpquery explain functions`.
   try: LOWER(dept)""",
    ),
    (
        "SELECT DP_COUNT(bonus) FROM staff",
        """\
refused[DPQ203]: DP_COUNT needs eps
  |
1 | SELECT DP_COUNT(bonus) FROM staff
  |        ^^^^^^^^ eps is missing

   why: every DP_ function states what it asks and what it may spend;
        there is no default.
   try: DP_COUNT(bonus, eps=0.5)""",
    ),
    (
        "SELECT DP_COUNT(salery, eps=0.5) FROM staff",
        """\
refused[DPQ204]: there is no column 'salery' in staff
  |
1 | SELECT DP_COUNT(salery, eps=0.5) FROM staff
  |                 ^^^^^^ not in the policy

   why: columns that the policy does not list do not exist for queries.
   try: salary
        columns here: salary, age, bonus, dept, hired, person_id, rating, remote""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0) FROM staff",
        """\
refused[DPQ205]: eps must be between 1e-9 and 1000000000
  |
1 | SELECT DP_COUNT(*, eps=0) FROM staff
  |                        ^ given as 0

   why: outside this range the promise cannot be computed exactly.
   try: eps=0.5""",
    ),
    (
        "SELECT DP_COUNT(*, epsilom=0.5) FROM staff",
        """\
refused[DPQ206]: DP_COUNT has no argument epsilom
  |
1 | SELECT DP_COUNT(*, epsilom=0.5) FROM staff
  |                    ^^^^^^^^^^^ unknown argument

   why: it takes eps, confidence, contribution_bounds_per_group, delta, error, max_groups_contributed, max_rows_contributed, mechanism, rho, weight, ….
   try: eps=0.5""",  # noqa: E501
    ),
    (
        "SELECT DP_COUNT(*, 0.25) FROM staff",
        """\
refused[DPQ206]: DP_COUNT takes one argument, and options by name
  |
1 | SELECT DP_COUNT(*, 0.25) FROM staff
  |                    ^^^^ which option is this?

   why: options are named, so that no number is taken for another.
   try: DP_COUNT(*, eps=0.25)""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.1 * age) FROM staff",
        """\
refused[DPQ207]: eps must be written as a number
  |
1 | SELECT DP_COUNT(*, eps=0.1 * age) FROM staff
  |                        ^^^^^^^^^ not a number

   why: eps is read exactly from the text, before anything is computed.
   try: eps=0.5""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age = '3'",
        """\
refused[DPQ208]: an integer cannot be compared with a text
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age = '3'
  |                                              ^^^^^^^^^ types differ

   why: values are never converted silently: a conversion can fail on one row,
        and a failure would tell whether that row exists.
   try: age = 3""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5, epsilon=1) FROM staff",
        """\
refused[DPQ209]: eps is given twice
  |
1 | SELECT DP_COUNT(*, eps=0.5, epsilon=1) FROM staff
  |                             ^^^^^^^^^ given before

   why: each argument has one value.
   try: DP_COUNT(*, eps=0.5)""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE hired > DATE '2020-13-01'",
        """\
refused[DPQ210]: '2020-13-01' is not a date
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE hired > DATE '2020-13-01'
  |                                                      ^^^^^^^^^^^^^^^^^ \
written like '2024-12-31'

   why: values are read exactly from the text, never guessed.
   try: '2024-12-31'""",
    ),
    (
        "SELECT salary FROM staff",
        """\
refused[DPQ301]: salary cannot be shown row by row
  |
1 | SELECT salary FROM staff
  |        ^^^^^^ not inside a DP_ function

   why: a result may contain only DP_ functions and grouping columns;
        one person's salary is what the session protects.
   try: SELECT DP_QUANTILE(salary, 0.5, eps=0.5) FROM staff""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE DP_COUNT(*, eps=0.5) > 10",
        """\
refused[DPQ303]: DP_COUNT cannot stand here
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE DP_COUNT(*, eps=0.5) > 10
  |                                              ^^^^^^^^ among the rows it would count

   why: WHERE chooses rows, before anything is counted; HAVING chooses results.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff HAVING DP_COUNT(*, eps=0.5) > 10""",
    ),
]


@pytest.mark.parametrize(("query", "text"), WORDING, ids=[q for q, _ in WORDING])
def test_a_refusal_reads_as_it_was_written(query: str, text: str):
    assert refusal(query) == text


def test_names_are_resolved_to_the_policy_spelling():
    (frontier,) = planned(
        'SELECT DP_COUNT("AGE", eps=0.1) FROM STAFF AS s WHERE S.REMOTE'
    ).frontiers
    relation = frontier.scan.relation
    assert isinstance(relation, Filter)
    assert isinstance(relation.source, TableScan)
    assert (relation.source.table, relation.condition.name) == ("staff", "remote")


def test_equal_measures_are_counted_once_whatever_their_place():
    plan = planned("SELECT DP_COUNT(age, eps=0.1) AS a, DP_COUNT(age, eps=0.2) AS b FROM staff")
    (frontier,) = plan.frontiers
    assert len(frontier.scan.measures) == 1
    assert [event.epsilon for event in plan.charge.events] == [
        release.release.event().epsilon for release in frontier.releases
    ]


def test_an_alias_hides_no_column_and_no_table():
    plan = planned("SELECT DP_COUNT(*, eps=0.1) AS visits FROM staff AS regions WHERE age > 3")
    assert plan.frontiers[0].scan.measures == (CountRows(Weight()),)
