"""Several groupings in one GROUP BY: a release each, and together the eps that is written."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.budget.accountant import basic
from dpquery.core.privacy_events import Gaussian
from dpquery.plan.answer_notes import notes_of
from tests.corpus.cases import planned, refusal

KEYS = ("dept", "remote", "age // 10", "year(hired)")


@given(
    st.sampled_from(["ROLLUP", "CUBE", "GROUPING SETS"]),
    st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True),
    st.sampled_from(["0.1", "1", "1e-3", "0.7"]),
)
def test_the_groupings_together_lose_what_is_written(word: str, keys: list[str], eps: str):
    text = f"SELECT DP_COUNT(*, eps={eps}), DP_MEDIAN(salary, eps=1) FROM staff GROUP BY {word}"
    plan = planned(f"{text} ({', '.join(keys)})")
    count = {"ROLLUP": len(keys) + 1, "CUBE": 2 ** len(keys), "GROUPING SETS": len(keys)}[word]
    assert len(plan.frontiers) == count
    losses = [basic([event]).epsilon for event in plan.charge.events]
    assert losses == [Fraction(eps) / count, Fraction(1, count)] * count


@pytest.mark.parametrize(
    ("group", "sets"),
    [
        ("ROLLUP (dept, remote)", ["dept remote", "dept", ""]),
        ("CUBE (dept, remote)", ["dept remote", "dept", "remote", ""]),
        ("ROLLUP ((dept, remote), age)", ["dept remote age", "dept remote", ""]),
        ("age, ROLLUP (dept)", ["age dept", "age"]),
        ("ROLLUP (dept), CUBE (remote)", ["dept remote", "dept", "remote", ""]),
        ("GROUPING SETS (dept, (remote), (), (dept, remote))",
         ["dept", "remote", "", "dept remote"]),
        ("GROUPING SETS (ROLLUP (dept), remote)", ["dept", "", "remote"]),
        ("GROUPING SETS (dept, dept)", ["dept", "dept"]),
        ("ROLLUP (dept, dept)", ["dept", "dept", ""]),
    ],
)  # fmt: skip
def test_which_groupings_are_meant(group: str, sets: list[str]):
    plan = planned(f"SELECT DP_COUNT(*, eps=1) FROM staff GROUP BY {group}")
    found = [[key.expr.name for key in one.scan.keys] for one in plan.frontiers]  # type: ignore[attr-defined]
    assert found == [one.split() for one in sets]


def test_a_key_of_another_grouping_is_none_of_this_one_where_its_value_is_determined():
    text = "SELECT r.region, zone, inhabitants, DP_COUNT(*, eps=1) FROM visits v JOIN regions r"
    plan = planned(f"{text} ON v.region = r.region GROUP BY ROLLUP (r.region, zone)")
    found = [[key.expr.name for key in one.scan.keys] for one in plan.frontiers]  # type: ignore[attr-defined]
    assert found == [["region", "zone", "inhabitants"], ["region", "inhabitants"], []]


def test_delta_is_shared_as_well():
    plan = planned(
        "SELECT DP_COUNT(*, eps=1, delta=1e-6, mechanism='gaussian') FROM staff "
        "GROUP BY CUBE (dept, remote)"
    )
    deltas = [event.delta for event in plan.charge.events if isinstance(event, Gaussian)]
    assert deltas == [Fraction(1, 4 * 10**6)] * 4


def test_a_value_keeps_the_noise_of_its_own_grouping():
    plan = planned("SELECT dept, DP_COUNT(*, eps=1) AS n FROM staff GROUP BY ROLLUP (dept)")
    (_, counted) = plan.above.columns
    assert [(one.row, one.frontier) for one in counted.origins] == [(0, 0), (1, 1)]
    assert plan.above.rows == (0, 1)


def test_the_notes_say_how_eps_is_shared_once():
    plan = planned(
        "SELECT DP_COUNT(*, eps=1) FROM visits GROUP BY ROLLUP (region) "
        "UNION ALL SELECT DP_COUNT(*, eps=1) FROM visits GROUP BY CUBE (region)"
    )
    assert notes_of(plan) == (
        "each person_id counts for at most 10 rows; a person_id with more is under-counted; "
        "± is the noise only (95 %)",
        "rows where region is not one of its keys are left out",
        "GROUP BY has 2 groupings; each gets 1/2 of ε",
        "a NULL can be a group or a total: GROUPING(key) is 1 for a total, else 0",
    )


def test_where_no_group_is_null_no_total_is_taken_for_one():
    plan = planned("SELECT age, DP_COUNT(*, eps=1) FROM staff GROUP BY ROLLUP (age)")
    assert not any("GROUPING" in note for note in notes_of(plan))


def test_the_price_under_the_caret_is_that_of_the_call():
    plan = planned(
        "SELECT DP_COUNT(*, eps=1.5), DP_SUM(age, eps=1) FROM staff GROUP BY CUBE (dept)"
    )
    assert [basic(call).epsilon for call in plan.charge.calls] == [Fraction(3, 2), 1]
    assert plan.source.snippet(plan.charge.span) == "1.5"  # type: ignore[arg-type]


def test_too_little_to_share_is_refused_where_it_stands():
    text = "SELECT DP_COUNT(*, eps=1e-9) FROM staff GROUP BY ROLLUP (dept)"
    assert refusal(text).splitlines()[0] == ("refused[DPQ205]: eps must be at least 2e-9 here")


def test_another_spelling_is_offered_in_ours():
    text = "SELECT DP_COUNT(*, eps=1) FROM staff GROUP BY dept, remote WITH ROLLUP"
    assert refusal(text).splitlines()[-1].strip() == "try: GROUP BY ROLLUP (dept, remote)"
