"""What DP_ functions are asked about: bounds, quantiles, and values of the right kind."""

from __future__ import annotations

import pytest

from tests.corpus.cases import refusal

WORDING = [
    (
        "SELECT DP_COUNT(DISTINCT day, eps=1, max_rows_contributed='auto') FROM visits",
        """\
refused[DPQ407]: how many different values of one person_id count is not stated
  |
1 | SELECT DP_COUNT(DISTINCT day, eps=1, max_rows_contributed='auto') FROM visits
  |                                                           ^^^^^^ is not found here

   why: the noise is scaled to what one person_id can add at most, and what it has
        beyond that is not counted.
   try: SELECT DP_COUNT(DISTINCT day, eps=1, max_rows_contributed=3) FROM visits""",
    ),
    (
        "SELECT dept, DP_COUNT(*, eps=0.5) FROM staff",
        """\
refused[DPQ301]: dept is shown beside DP_ functions: a GROUP BY is missing
  |
1 | SELECT dept, DP_COUNT(*, eps=0.5) FROM staff
  |        ^^^^ not inside a DP_ function

   why: a result may contain only DP_ functions and grouping columns;
        one person's dept is what the session protects.
   try: SELECT dept, DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept""",
    ),
    (
        "SELECT DP_SUM(person_id, eps=0.5) FROM staff",
        """\
refused[DPQ401]: DP_SUM(person_id) has no bounds
  |
1 | SELECT DP_SUM(person_id, eps=0.5) FROM staff
  |               ^^^^^^^^^ no bounds in the query or the policy

   why: the noise is scaled to the largest change one person can make,
        so values must be clamped to bounds chosen without looking at the data.
   try: DP_SUM(person_id, eps=0.5, bounds=[0, 1000])
        or bounds='auto': a fifth of the eps then finds them, and they are kept
        or ask the data owner to add bounds for person_id to the policy""",
    ),
    (
        "SELECT DP_MEDIAN(DISTINCT minutes, eps=0.5) FROM visits",
        """\
refused[DPQ404]: DISTINCT is answered for counts, sums, means and spreads of one expression
  |
1 | SELECT DP_MEDIAN(DISTINCT minutes, eps=0.5) FROM visits
  |                           ^^^^^^^ DP_MEDIAN has no DISTINCT

   why: what is left after it has no bound that the noise could be scaled to.
   try: DP_MEDIAN(minutes, eps=0.5)""",
    ),
    (
        "SELECT DP_VAR_POP(person_id, eps=1, bounds=[0, 9000000000000000000]) FROM visits",
        """\
refused[DPQ404]: DP_VAR_POP cannot be summed exactly between these bounds
  |
1 | SELECT DP_VAR_POP(person_id, eps=1, bounds=[0, 9000000000000000000]) FROM visits
  |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ too many steps \
between the bounds

   why: sums are exact integers, and these could pass the widest there are.
   try: DP_VAR_POP(person_id, eps=1, bounds=[0, 1000])
        with fewer steps between the bounds""",
    ),
    (
        "SELECT DP_QUANTILE(salary, 10, eps=1) FROM staff",
        """\
refused[DPQ205]: the quantile must be between 0 and 1
  |
1 | SELECT DP_QUANTILE(salary, 10, eps=1) FROM staff
  |                            ^^ given as 10

   why: a quantile is a share of the rows: 0.1 is the tenth percentile.
   try: DP_QUANTILE(salary, 0.1, eps=1)""",
    ),
    (
        "SELECT DP_QUANTILE(salary, eps=1) FROM staff",
        """\
refused[DPQ203]: DP_QUANTILE needs a quantile
  |
1 | SELECT DP_QUANTILE(salary, eps=1) FROM staff
  |        ^^^^^^^^^^^ it does not say which one

   why: every DP_ function states what it asks and what it may spend;
        there is no default.
   try: DP_QUANTILE(salary, 0.5, eps=1)""",
    ),
    (
        "SELECT DP_SUM(age, eps=0.5, bounds=[100, 200]) FROM staff",
        """\
refused[DPQ205]: the bounds lie outside the column's own
  |
1 | SELECT DP_SUM(age, eps=0.5, bounds=[100, 200]) FROM staff
  |                                    ^^^^^^^^^^ nothing of the column is left

   why: the policy clamps first; a query can narrow its bounds, not move past them.
   try: bounds=[18, 70]
        these are the column's own""",
    ),
    (
        "SELECT DP_SUM(age, eps=0.5, bounds=[40, 20]) FROM staff",
        """\
refused[DPQ205]: the lower bound is above the upper one
  |
1 | SELECT DP_SUM(age, eps=0.5, bounds=[40, 20]) FROM staff
  |                                    ^^^^^^^^ the wrong way round

   why: bounds say where values are clamped: the lowest first.
   try: bounds=[20, 40]""",
    ),
    (
        "SELECT DP_SUM(age, eps=0.5, bounds=40) FROM staff",
        """\
refused[DPQ207]: bounds are two literals in brackets, or 'auto'
  |
1 | SELECT DP_SUM(age, eps=0.5, bounds=40) FROM staff
  |                                    ^^ not a lower and an upper bound

   why: they are read from the text, before anything is computed.
   try: bounds=[0, 1000]""",
    ),
    (
        "SELECT DP_MEDIAN(hired, eps=0.5, bounds=[2010, 2020]) FROM staff",
        """\
refused[DPQ208]: the bounds of a date are two of its values
  |
1 | SELECT DP_MEDIAN(hired, eps=0.5, bounds=[2010, 2020]) FROM staff
  |                                         ^^^^^^^^^^^^ not a date

   why: values are clamped to the bounds, so both have to be values of the argument.
   try: bounds=['2020-01-01', '2024-12-31']""",
    ),
    (
        "SELECT DP_AVG(remote, eps=0.5) FROM staff",
        """\
refused[DPQ208]: DP_AVG needs a number
  |
1 | SELECT DP_AVG(remote, eps=0.5) FROM staff
  |               ^^^^^^ a boolean here

   why: values are never converted silently: a conversion can fail on one row,
        and a failure would tell whether that row exists.
   try: DP_PROPORTION(remote, eps=0.5)""",
    ),
    (
        "SELECT DP_COUNT_IF(age, eps=0.5) FROM staff",
        """\
refused[DPQ208]: DP_COUNT_IF needs a condition
  |
1 | SELECT DP_COUNT_IF(age, eps=0.5) FROM staff
  |                    ^^^ an integer here

   why: values are never converted silently: a conversion can fail on one row,
        and a failure would tell whether that row exists.
   try: DP_COUNT_IF(age IS NOT NULL, eps=0.5)""",
    ),
    (
        "SELECT DP_SUM(*, eps=0.5) FROM staff",
        """\
refused[DPQ208]: DP_SUM needs a column, not *
  |
1 | SELECT DP_SUM(*, eps=0.5) FROM staff
  |               ^ whole rows have no value

   why: DP_SUM is computed from the values of one expression.
   try: DP_SUM(age, eps=0.5)""",
    ),
]


@pytest.mark.parametrize(("query", "text"), WORDING, ids=[q for q, _ in WORDING])
def test_a_refusal_reads_as_it_was_written(query: str, text: str):
    assert refusal(query) == text


@pytest.mark.parametrize(
    ("written", "offered"),
    [("10", "0.1"), ("100", "1"), ("5", "0.05"), ("101", "0.5"), ("1e99999", "0.5")],
)
def test_a_percentage_is_offered_as_a_share(written: str, offered: str):
    text = refusal(f"SELECT DP_QUANTILE(age, {written}, eps=1) FROM staff")
    assert f"try: DP_QUANTILE(age, {offered}, eps=1)" in text


def test_the_quantile_before_the_column_is_offered_behind_it():
    text = refusal("SELECT DP_QUANTILE(0.25, age, eps=1) FROM staff")
    assert "try: DP_QUANTILE(age, 0.25, eps=0.5)" in text


def test_bounds_outside_the_policy_are_answered_with_the_policy_s_own():
    for column, own in (
        ("rating", "[1, 5]"),
        ("bonus", "[0, 50000]"),
        ("hired", "['2000-01-01', '2025-12-31']"),
    ):
        ends = "'1970-01-01', '1980-01-01'" if column == "hired" else "90000, 90001"
        text = refusal(f"SELECT DP_MEDIAN({column}, eps=1, bounds=[{ends}]) FROM staff")
        assert f"try: bounds={own}" in text


def test_what_a_function_of_rows_takes_is_said_with_what_may_be_left_out():
    text = refusal("SELECT DP_COUNT_IF(REGEXP_REPLACE(dept, 'a') = 'b', eps=1) FROM staff")
    assert (
        "why: it takes a text, a literal pattern, a literal replacement, optionally 'g'."
        in text
    )
