"""What EXPLAIN says: charge, unit, bounds and their origin, noise, scan, balance."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import pytest

from dpquery.budget.accountant import NOTHING
from dpquery.budget.limits import Standing
from dpquery.core.privacy_loss import Ceiling, Loss, Neighbours
from dpquery.core.types import INTEGER
from dpquery.errors import PlanRefused
from dpquery.functions.additive_releases import _PURE as NOISES
from dpquery.functions.base import Step
from dpquery.mechanisms import DiscreteLaplace
from dpquery.plan.explain import WIDTH, Explanation, explain
from dpquery.policy.model import Column
from tests.corpus.cases import facts, planned
from tests.worlds import planned as planned_by
from tests.worlds import policy_of, private_table

PER_GROUP = "SELECT region, DP_SUM(minutes, eps=1, {}) AS s FROM visits GROUP BY region"


def unspent(left: object) -> Standing:
    return Standing("policy", Ceiling(Loss(Fraction(left))), NOTHING)


def explained(query: str, left: str = "2") -> Explanation:
    plan = planned(query)
    scans = ["the scan"] * len(plan.frontiers)
    return explain(plan, facts()[0], scans, unspent(left))


def test_an_explanation_states_unit_weights_noise_and_balance():
    shown = str(explained("SELECT DP_COUNT(*, eps=0.1) FROM visits"))
    assert (
        shown
        == """\
charge       0.1
guarantee    loss 0.1, for one person_id added or removed
table        visits
unit         person_id; neighbours add-remove
DP_COUNT(*, eps=0.1)
  mechanism  laplace, for a loss of 0.1
  weights    k = 10 rows of a unit in full (from the policy), step 1/2^32
  one unit   changes it by at most 10
  noise      100
  error      ± 300 (95 %)
  no better  than ± 295; this is 1.02 times that
note         each person_id counts for at most 10 rows; a person_id with more
             is under-counted; ± is the noise only (95 %)
budget       2 left; 1.9 after it
scan         the scan"""
    )


COPIED = "visits JOIN regions r ON minutes < r.inhabitants"


@pytest.mark.parametrize(
    ("query", "whose"),
    [
        (
            COPIED,
            "k = 60 rows of a unit in full (10 from the policy, times 6 rows of",
        ),
        (
            f"{COPIED} CROSS JOIN regions s",
            "(10 from the policy, times 6 rows of regions, times 6 rows of regions)",
        ),
        (
            f"staff JOIN (SELECT person_id FROM {COPIED}) q USING (person_id)",
            "(10 from the policy, times 6 rows of",
        ),
        ("staff CROSS JOIN regions", "k = 6 rows of a unit in full (1 row, times 6 rows of"),
        (
            "staff, UNNEST([age, 3]) u(x)",
            "k = 2 rows of a unit in full (1 row, times 2 values of",
        ),
        (
            "staff, UNNEST(string_split(dept, 'e')) u(x)",
            "k = 64 rows of a unit in full (1 row, times 64 parts of a text)",
        ),
        (
            "visits JOIN regions USING (region)",
            "k = 10 rows of a unit in full (from the policy)",
        ),
    ],
)
def test_a_limit_says_how_often_joins_copy_a_row(query: str, whose: str):
    text = " ".join(str(explained(f"SELECT DP_COUNT(*, eps=1) FROM {query}")).split())
    assert whose in text
    assert ("a row may become up to" in text) is ("times" in whose)
    stated = explained(f"SELECT DP_COUNT(*, eps=1, max_rows_contributed=2) FROM {query}")
    assert "may become" not in str(stated)
    assert "times" not in str(stated).replace("times that", "").partition("scan")[0]


@pytest.mark.parametrize(
    ("query", "line"),
    [
        (
            "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY dept",
            "groups       5 of dept, all of them in the answer",
        ),
        (
            "SELECT dept, remote, DP_COUNT(*, eps=1) FROM staff GROUP BY dept, remote",
            "groups       10 (5 of dept x 2 of remote), all of them in the answer",
        ),
        (
            "SELECT DP_COUNT(*, eps=0.5), DP_COUNT(*, eps=0.25) FROM staff",
            "charge       0.75 = 0.5 + 0.25",
        ),
        (
            "SELECT DP_SUM(salary, eps=1) FROM staff",
            "  bounds     0 to 200000, in 200,001 steps (from the policy)",
        ),
        (
            "SELECT DP_SUM(salary, eps=1, bounds=[0, 9]) FROM staff",
            "  bounds     0 to 9, in 10 steps (from the query)",
        ),
        (
            "SELECT DP_SUM(salary, eps=1) FROM staff WHERE salary <= 9",
            "  bounds     0 to 9, in 10 steps (from WHERE)",
        ),
        (
            "SELECT DP_SUM(age, eps=1) FILTER (WHERE age < 20) FROM staff",
            "  bounds     18 to 19, in 2 steps (from WHERE and FILTER)",
        ),
        (
            "SELECT DP_SUM(LEAST(salary, 9), eps=1) FROM staff",
            "  bounds     0 to 9, in 10 steps (from the expression)",
        ),
        (
            "SELECT DP_SUM(inhabitants, eps=1) FROM visits JOIN regions USING (region)",
            "  bounds     14000 to 890000, in 876,001 steps (from the column itself)",
        ),
        (
            "SELECT DP_MEDIAN(hired, eps=1) FROM staff",
            "  bounds     2000-01-01 to 2025-12-31, in 9,497 steps (from the policy)",
        ),
        (
            "SELECT DP_AVG(salary, eps=1, bounds=[0, 1000]) FROM staff",
            "  bounds     0 to 1000, in 1,001 steps (from the query)",
        ),
        (
            "SELECT DP_STDDEV(salary, eps=1) FROM staff",
            "  bounds     0 to 200000, in 200,001 steps (from the policy)",
        ),
        (
            "SELECT DP_AVG(salary, eps=1, mechanism='exponential') FROM staff",
            "  bounds     0 to 200000, in 200,001 steps (from the policy)",
        ),
        (
            "SELECT DP_AVG(salary, eps=1) FROM staff",
            "  error      at most ± 599 over any 1,000 rows, 60 over 10,000 (95 %)",
        ),
        ("SELECT DP_MEDIAN(salary, eps=1) FROM staff", "  noise      1 rank"),
        (
            "SELECT DP_COUNT(*, eps=1) FROM staff",
            "unit         person_id, one row each (declared); neighbours add-remove",
        ),
        ("SELECT DP_COUNT(*, eps=3) FROM staff", "budget       2 left; too little for it"),
        (
            "SELECT DP_KEYS(dept, eps=1, delta=1e-7) FROM staff",
            "budget       2 left; delta 0 left, too little for it",
        ),
        (
            "SELECT DP_KEYS(dept, eps=1, delta=1e-7) FROM staff",
            "  one unit   changes it by at most 1, in 1 count",
        ),
        (
            PER_GROUP.format("contribution_bounds_per_group=(-1, 99)"),
            "  totals     -1 to 99 of a unit in a group (from the query)",
        ),
        (
            PER_GROUP.format("contribution_bounds_per_group=(0, 9), max_groups_contributed=2"),
            "  weights    g = 2 groups of a unit in full (from the query), step 1/2^32",
        ),
        (
            PER_GROUP.format("contribution_bounds_per_group=(0, 9)"),
            "  weights    none: a unit may be in all 7 groups in full",
        ),
        (
            "SELECT region, DP_COUNT(DISTINCT person_id, eps=1, max_rows_contributed=2) AS n "
            "FROM visits GROUP BY region",
            "  weights    g = 2 groups of a unit in full (as many as rows, from the query),",
        ),
    ],
)
def test_a_line_says_where_a_number_comes_from(query: str, line: str):
    assert line in explained(query).lines


def test_a_share_of_true_values_has_no_bounds():
    assert "bounds" not in str(explained("SELECT DP_PROPORTION(remote, eps=1) FROM staff"))


class Coarse(DiscreteLaplace):
    """Noise that nothing outside of its own file names."""

    name: ClassVar[str] = "coarse"
    weight_linear: ClassVar[bool] = False

    @property
    def scale_shown(self) -> Fraction:
        """Return another scale."""
        return Fraction(77)


def test_noise_of_any_kind_is_described(monkeypatch: pytest.MonkeyPatch):
    """A mechanism that is added states its scale itself, and is looked up by its name."""
    monkeypatch.setitem(NOISES, "laplace", Coarse)
    counted = explained("SELECT DP_COUNT(*, eps=1) FROM staff")
    assert "  mechanism  coarse, for a loss of 1" in counted.lines
    assert "  noise      77" in counted.lines
    averaged = explained("SELECT DP_AVG(salary, eps=1) FROM staff")
    assert "  noise      0.000385 rows, in each sum" in averaged.lines


def test_noise_that_is_not_linear_in_weights_has_no_groups(monkeypatch: pytest.MonkeyPatch):
    """One charge would not cover the groups that a unit is in."""
    monkeypatch.setitem(NOISES, "laplace", Coarse)
    with pytest.raises(PlanRefused, match="mechanism='coarse' has no groups") as refused:
        planned("SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY dept")
    assert refused.value.code == "DPQ404"


@pytest.mark.parametrize(
    "line",
    [
        "charge       1 = 0.8 + 0.2",
        "first        bounds of person_id, in all rows",
        "  mechanism  laplace, for a loss of 0.2",
        "  noise      5 rows, of each power of two",
        "  error      found where 66 rows lie between two powers of two",
        "  kept       in the ledger: free for later calls of this analyst",
        "  mechanism  laplace, for a loss of 0.8",
        "  bounds     those that are found; the scan is shown for the widest",
        "  one unit   changes it by at most as much as the bounds allow",
        "  noise      1.25 times as much",
        "  error      ± 3.74 times as much (95 %)",
    ],
)
def test_bounds_that_are_found_are_a_release_of_their_own(line: str):
    found = explained("SELECT DP_SUM(person_id, eps=1, bounds='auto') FROM staff")
    assert line in found.lines
    assert [(step.function, step.epsilon) for step in found.steps] == [
        ("DP_SUM", Fraction(4, 5)),
        ("bounds of person_id", Fraction(1, 5)),
    ]


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(
    "call",
    [
        "DP_SUM(n",
        "DP_SUM(n, max_rows_contributed=3",
        "DP_SUM(n, mechanism='gaussian', delta=1e-9",
        "DP_AVG(n",
        "DP_AVG(n, max_rows_contributed=3",
        "DP_AVG(n, mechanism='exponential'",
        "DP_VAR_SAMP(n",
        "DP_MEDIAN(n, mechanism='laplace'",
        "DP_MEDIAN(n, mechanism='inverse_sensitivity'",
    ],
)
def test_errors_as_shares_are_those_between_any_bounds(relation: Neighbours, call: str):
    """Bounds of 0 to 2^20, say: four fifths of epsilon are left for what is between them."""
    policy = policy_of(
        private_table([], [Column("n", INTEGER)], single="exponential" in call), relation
    )

    def step(rest: str) -> Step:
        plan = planned_by(policy, f"SELECT {call}, {rest}) FROM t")
        return explain(plan, policy, ["the scan"], unspent("2")).steps[0]

    found, stated = step("eps=0.625, bounds='auto'"), step(f"eps=0.5, bounds=[0, {2**20}]")
    power = 2 if "squared" in found.expected_error else 1
    most = (
        last_of(stated.sensitivity) if "as much" in found.expected_error else (2**20) ** power
    )
    assert "times" in found.expected_error
    share = last_of(found.expected_error.split(" times")[0])
    amount = last_of(re.split(" over (?:any )?1,000 rows", stated.expected_error)[0])
    assert share * most == pytest.approx(amount, rel=0.02)


def last_of(text: str) -> float:
    """The last number of a text."""
    return float(re.findall(r"[\d,]+(?:\.\d+)?(?:e-\d+)?", text)[-1].replace(",", ""))


def test_the_steps_are_data_too():
    (step,) = explained("SELECT DP_COUNT(*, eps=0.5) FROM staff").steps
    assert (step.function, step.mechanism, step.epsilon) == (
        "DP_COUNT",
        "laplace",
        Fraction(1, 2),
    )
    assert (step.sensitivity, step.noise_scale, step.expected_error) == ("1", "2", "± 6")


def test_a_query_over_public_tables_has_no_step():
    explanation = explained("SELECT zone FROM regions")
    assert (explanation.steps, explanation.charge) == ((), Loss(Fraction(0)))


@pytest.mark.parametrize("quoted", ["'two  blanks'", '"a name"', "it's", '"', "don't 'x y'"])
def test_long_lines_are_broken_at_blanks_and_never_within_quotes(quoted: str):
    plan = planned("SELECT DP_COUNT(*, eps=1) FROM staff")
    text = f"word {quoted} " * 30 + "end"
    shown = explain(plan, facts()[0], [text], unspent(2)).lines
    first = next(at for at, line in enumerate(shown) if line.startswith("scan"))
    scan = shown[first:]
    assert len(scan) > 1
    assert " ".join(line[13:] for line in scan) == text
    if quoted.count("'") != 1 and quoted != '"':
        assert all(len(line) <= WIDTH for line in scan)


def test_a_notebook_shows_the_price_and_each_call_and_the_lines_on_demand():
    query = "SELECT DP_COUNT(*, eps=1) AS n, DP_AVG(salary, eps=0.5) FROM staff WHERE age < 30"
    html = explained(query)._repr_html_()
    assert html.startswith("<div><b>costs 1.5</b>")
    assert html.count("<tr><td") == 2
    assert "± 3</td>" in html
    lines = html.partition("<pre>")[2].partition("</pre>")[0]
    assert lines.count("\n") == len(explained(query).lines) - 1


def test_the_balance_knows_what_one_query_may_spend():
    plan, policy = planned("SELECT DP_COUNT(*, eps=1) FROM staff"), facts()[0]
    capped = replace(
        policy, budget=replace(policy.budget, max_epsilon_per_query=Fraction("0.5"))
    )
    last = explain(plan, capped, ["the scan"], unspent(2)).lines[-2]
    assert last == "budget       2 left; one query may spend 0.5, too little for it"
    fits = replace(policy, budget=replace(policy.budget, max_epsilon_per_query=Fraction(1)))
    assert explain(plan, fits, ["the scan"], unspent(2)).lines[-2].endswith("1 after it")
