"""What relations say of themselves, and refusals that the sample's tables cannot show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpquery.errors import RuleRefused
from dpquery.policy.model import Column, Policy, Table
from dpquery.types import INTEGER, TEXT
from tests.worlds import planned, policy_of, private_table

COLUMNS = (Column("x", INTEGER), Column("unit", INTEGER))
QUERY = "SELECT DP_COUNT(*, eps=1) FROM t JOIN s USING (unit)"
ON = "SELECT DP_COUNT(*, eps=1) FROM t JOIN s ON t.unit = s.account"


def two(**settings: object) -> Policy:
    """A policy of two private tables, t and s, of which the second is as the settings say."""
    first = private_table([Path("t.parquet")], COLUMNS)
    second: Table = replace(first, name="s", **settings)  # type: ignore[arg-type]
    policy = policy_of(first)
    return replace(policy, tables={"t": first, "s": second})


def test_tables_of_one_domain_of_units_are_joined():
    (frontier,) = planned(two(), QUERY).frontiers
    assert frontier.scan.contribution.unit == "unit"


@pytest.mark.parametrize(
    ("settings", "query"),
    [
        ({"unit_type": TEXT}, QUERY),
        ({"unit_type": None}, QUERY),
        ({"unit": "account"}, ON),
    ],
)
def test_units_of_different_domains_cannot_be_compared(settings: dict[str, object], query: str):
    with pytest.raises(RuleRefused) as refused:
        planned(two(**settings), query)
    assert refused.value.code == "DPQ308"


def test_rows_that_are_units_cannot_be_joined_with_units():
    with pytest.raises(RuleRefused) as refused:
        planned(two(unit=None), QUERY)
    assert refused.value.code == "DPQ304"


@pytest.mark.parametrize(
    ("query", "single", "limit"),
    [
        ("FROM (SELECT unit, COUNT(*) AS n FROM t GROUP BY unit)", True, 1),
        ("FROM (SELECT COUNT(*) AS n FROM t GROUP BY unit)", True, 1),
        ("FROM (SELECT unit, x FROM t GROUP BY unit, x)", False, 5),
        ("FROM (SELECT DISTINCT unit FROM t)", True, 1),
        ("FROM (SELECT DISTINCT unit, x FROM t)", False, 5),
        ("FROM t JOIN s USING (unit)", False, 7),
        ("FROM (SELECT unit FROM t UNION ALL SELECT unit FROM s)", False, 7),
        ("FROM (SELECT unit FROM t GROUP BY 1) a JOIN (SELECT unit FROM s GROUP BY 1) b "
         "USING (unit)", True, 1),
        ("FROM (SELECT unit FROM t GROUP BY 1) a FULL JOIN (SELECT unit, MAX(x) AS m FROM s "
         "GROUP BY 1) b ON a.unit = b.unit AND b.m > 3", False, 1),
        ("FROM t WHERE unit IN (SELECT unit FROM s)", False, 5),
    ],
)  # fmt: skip
def test_what_bounds_the_rows_of_a_unit_follows_from_the_operators(
    query: str, single: bool, limit: int
):
    policy = two(max_rows_contributed=7)
    policy.tables["t"] = replace(policy.tables["t"], max_rows_contributed=5)
    (frontier,) = planned(policy, f"SELECT DP_COUNT(*, eps=1) {query}").frontiers
    found = frontier.scan.contribution
    assert (found.single, found.limit) == (single, limit)
