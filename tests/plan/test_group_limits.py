"""The policy's own limit of groups: a default that a query can set aside."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.budget.accountant import NOTHING
from dpquery.budget.limits import Standing
from dpquery.core.privacy_loss import Ceiling, Loss
from dpquery.core.types import INTEGER, TEXT
from dpquery.errors import PolicyInvalid
from dpquery.ir.measures import Measure
from dpquery.ir.query import Contribution
from dpquery.plan.answer_notes import notes_of
from dpquery.plan.explain import explain
from dpquery.policy.load import load_policy
from dpquery.policy.model import Column
from dpquery.sql.contribution_bounds import contribution
from tests.worlds import planned, policy_of, private_table

UNSPENT = Standing("policy", Ceiling(Loss(Fraction(1))), NOTHING)
COLUMNS = (Column("g", TEXT, keys=tuple("abcdef")), Column("x", INTEGER))
UNITS = "DP_COUNT(DISTINCT unit, eps=1{})"
TOTALS = "DP_COUNT(*, eps=1, contribution_bounds_per_group=(0, 5){})"


def policy(groups: int | None = None, rows: int = 4):
    table = private_table(
        [Path("t.parquet")], COLUMNS, max_rows_contributed=rows, max_groups_contributed=groups
    )
    made = policy_of(table)
    other = replace(table, name="u", max_groups_contributed=None, max_rows_contributed=3)
    return replace(made, tables={"t": table, "u": other})


def measured(groups: int | None, call: str) -> Measure:
    plan = planned(policy(groups), f"SELECT g, {call} FROM t GROUP BY g")
    (measure,) = plan.frontiers[0].scan.measures
    return measure


@pytest.mark.parametrize("call", [UNITS, TOTALS])
def test_the_policys_limit_is_that_of_a_query_which_states_none(call):
    stated = measured(None, call.format(", max_groups_contributed=2"))
    assert measured(2, call.format("")) == stated
    assert measured(5, call.format(", max_groups_contributed=2")) == stated
    assert measured(None, call.format("")).weight.limit == 4


def test_a_limit_of_rows_in_the_query_is_one_of_groups_too():
    assert measured(2, UNITS.format(", max_rows_contributed=3")).weight.limit == 3


def test_rows_are_weighed_as_without_it():
    assert measured(2, "DP_COUNT(*, eps=1)") == measured(None, "DP_COUNT(*, eps=1)")


@pytest.mark.parametrize(
    ("source", "single", "groups"),
    [
        ("t", False, 2),
        ("u", False, None),
        ("t JOIN u USING (unit)", False, 3),
        ("(SELECT g FROM t UNION ALL SELECT g FROM u)", False, 3),
        ("(SELECT g FROM u UNION ALL SELECT g FROM u)", False, None),
        ("(SELECT unit, g FROM t GROUP BY unit, g)", False, 2),
        ("(SELECT unit, COUNT(*) AS n FROM t GROUP BY unit)", True, 2),
        ("t WHERE x > 3", False, 2),
    ],
)
def test_derived_relations_have_the_largest_limit_of_their_parts(source, single, groups):
    plan = planned(policy(2), f"SELECT DP_COUNT(*, eps=1) FROM {source}")
    found = contribution(plan.frontiers[0].scan.relation, policy(2))
    assert isinstance(found, Contribution)
    assert (found.single, found.groups) == (single, groups)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            UNITS.format(""),
            "g = 2 groups of a unit in full (from the policy), step 1/2^32",
        ),
        (
            UNITS.format(", max_groups_contributed=3"),
            "g = 3 groups of a unit in full (from the query), step 1/2^32",
        ),
    ],
)
def test_the_line_says_who_set_it(call, line):
    plan = planned(policy(2), f"SELECT g, {call} FROM t GROUP BY g")
    told = explain(plan, policy(2), ["scan"], UNSPENT)
    assert f"  weights    {line}" in told.lines
    assert "at most" in notes_of(plan)[0]


POLICY = """\
[budget]
epsilon = 1
[tables.t]
path = "t.parquet"
privacy_unit_column = "unit"
{limits}
columns.unit.type = "integer"
"""


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ("max_groups_contributed = 0", "DPQ604"),
        ("max_groups_contributed = 1048577", "DPQ604"),
        ("rows_per_unit = 1\nmax_groups_contributed = 2", "DPQ607"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(tmp_path: Path, limits: str, code: str):
    (tmp_path / "t.parquet").touch()
    file = tmp_path / "policy.toml"
    file.write_text(POLICY.format(limits=limits), "utf-8")
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(file)
    assert refused.value.code == code
    assert "tables.t.max_groups_contributed" in str(refused.value)


def test_there_is_no_limit_of_groups_without_a_unit(tmp_path: Path):
    (tmp_path / "t.parquet").touch()
    file = tmp_path / "policy.toml"
    text = POLICY.format(limits="max_groups_contributed = 1")
    file.write_text(text.replace('privacy_unit_column = "unit"\n', ""), "utf-8")
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(file)
    assert refused.value.code == "DPQ607"
