"""Which parts of a table a query is charged on, and how that is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN, DATE, INTEGER, TEXT
from dpquery.ir.expr import Expr, Literal
from dpquery.ir.relations import Output, Project, PublicJoin
from dpquery.plan.touched_partitions import every_part, looked_in, may_share
from dpquery.policy.model import Bounds, Column, Policy
from tests.worlds import planned, policy_of, private_table

REGION = Column("region", TEXT, keys=("N", "S", "W"), per_unit=1)
OTHERS = (
    Column("unit", INTEGER),
    Column("v", INTEGER, Bounds(0, 9)),
    Column("flag", BOOLEAN),
    Column("city", TEXT, keys=("N", "S")),
)


def policy(parting: Column = REGION, **settings: object) -> Policy:
    others = [column for column in OTHERS if column.name != parting.name]
    one = replace(private_table([Path("t.parquet")], [*others, parting]), **settings)
    whole = policy_of(one)
    return replace(whole, tables={"t": one, "s": replace(one, name="s")})


def parts(query: str, of: Policy) -> list[int] | None:
    """Return the parts that a query is charged on; None where they are all."""
    touched = planned(of, query).charge.touched
    return None if touched is None or touched.whole else list(touched.parts)


COUNT = "SELECT DP_COUNT(*, eps=1) FROM"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"{COUNT} t WHERE region = 'N'", [0]),
        (f"{COUNT} t WHERE 'S' = region AND v > 2", [1]),
        (f"{COUNT} t WHERE region IN ('W', 'S', 'X')", [1, 2, 3]),
        (f"{COUNT} t WHERE region IN ('W', 'S') AND region IN ('N', 'S')", [1]),
        (f"{COUNT} t WHERE region = 'elsewhere'", [3]),
        (f"{COUNT} (SELECT unit, region AS r FROM t WHERE v > 1) z WHERE r = 'N'", [0]),
        (f"WITH z AS (SELECT * FROM t WHERE region = 'S') {COUNT} z", [1]),
        (f"WITH z AS (SELECT * FROM t WHERE region = 'S') {COUNT} z WHERE v = 1", [1]),
        (f"{COUNT} (SELECT unit, max(v) AS v FROM t WHERE region = 'S' GROUP BY unit) z", [1]),
        (
            f"{COUNT} (SELECT unit, region, max(v) AS v FROM t GROUP BY unit, region) z "
            "WHERE region = 'W'",
            [2],
        ),
        (
            f"{COUNT} (SELECT unit, region, row_number() OVER (PARTITION BY unit ORDER BY v) "
            "AS n FROM t) z WHERE n = 1 AND region = 'W'",
            [2],
        ),
        ("SELECT v, DP_COUNT(*, eps=1) FROM t WHERE region = 'N' GROUP BY v", [0]),
        ("SELECT DP_SUM(v, eps=1, bounds='auto') FROM t WHERE region = 'N'", [0]),
        (
            "SELECT (SELECT DP_COUNT(*, eps=1) FROM t WHERE region = 'N') + "
            "(SELECT DP_COUNT(*, eps=1) FROM t WHERE region = 'S')",
            [0, 1],
        ),
        # What leaves out no part.
        (f"{COUNT} t", None),
        (f"{COUNT} t WHERE region = 'N' OR v > 2", None),
        (f"{COUNT} t WHERE NOT region = 'N'", None),
        (f"{COUNT} t WHERE region <> 'N'", None),
        (f"{COUNT} t WHERE region > 'N'", None),
        (f"{COUNT} t WHERE region IS NULL", None),
        (f"{COUNT} t WHERE region LIKE 'N'", None),
        (f"{COUNT} t WHERE UPPER(region) = 'N'", None),
        (f"{COUNT} t WHERE city = 'N'", None),
        (f"{COUNT} t WHERE region = city", None),
        (f"{COUNT} t WHERE CASE WHEN region = 'N' THEN TRUE ELSE v > 2 END", None),
        ("SELECT DP_COUNT(*, eps=1) FILTER (WHERE region = 'N') FROM t", None),
        (f"{COUNT} (SELECT unit, city AS region FROM t) z WHERE region = 'N'", None),
        (f"{COUNT} (SELECT unit, region || '' AS region FROM t) z WHERE region = 'N'", None),
        (
            f"{COUNT} (SELECT unit, max(region) AS region FROM t GROUP BY unit) z "
            "WHERE region = 'N'",
            None,
        ),
        (
            f"{COUNT} (SELECT DISTINCT unit, LOWER(region) AS region FROM t) z "
            "WHERE region = 'N'",
            None,
        ),
        (
            f"{COUNT} (SELECT unit, UPPER(region) AS region FROM t "
            "GROUP BY unit, UPPER(region)) z WHERE region = 'N'",
            None,
        ),
        # Another table's units could have any part of this one.
        (f"{COUNT} t JOIN s USING (unit) WHERE t.region = 'N' AND s.region = 'N'", None),
        (f"{COUNT} t WHERE region = 'N' AND unit NOT IN (SELECT unit FROM s)", None),
        (
            f"{COUNT} (SELECT unit FROM t WHERE region = 'N' UNION ALL "
            "SELECT unit FROM t WHERE region = 'N') z",
            None,
        ),
        (
            f"{COUNT} t WHERE region = 'N' AND v > "
            "(SELECT DP_COUNT(*, eps=1) FROM s WHERE region = 'N')",
            None,
        ),
        (
            f"{COUNT} t WHERE region = 'N' AND v > (SELECT DP_COUNT(*, eps=1) FROM t)",
            None,
        ),
    ],
)
def test_the_parts_that_a_query_is_charged_on(query: str, expected: list[int] | None):
    assert parts(query, policy()) == expected


@pytest.mark.parametrize(
    ("parting", "where", "expected"),
    [
        (Column("flag", BOOLEAN, per_unit=1), "flag", [1]),
        (Column("flag", BOOLEAN, per_unit=1), "NOT flag AND v > 1", [0]),
        (Column("flag", BOOLEAN, per_unit=1), "flag = TRUE", [1]),
        (Column("flag", BOOLEAN, per_unit=1), "flag OR v > 1", None),
        (Column("v", INTEGER, Bounds(0, 9), (9, 1), per_unit=1), "v = 9", [0]),
        (Column("v", INTEGER, Bounds(0, 9), (9, 1), per_unit=1), "v = 5", [2]),
        (Column("v", INTEGER, Bounds(0, 9), (9, 1), per_unit=1), "v IN (1, 9, 2)", None),
        (Column("v", INTEGER, Bounds(0, 9), (9, 1), per_unit=1), "v = 1.0", None),
        (Column("d", DATE, None, (date(2020, 1, 2),), per_unit=1), "d = '2020-01-02'", [0]),
        (Column("k", TEXT, None, ("ab",), max_length=2, per_unit=1), "k = 'xyz'", [1]),
    ],
)
def test_parts_are_told_by_the_values_that_a_scan_sees(parting, where, expected):
    assert parts(f"{COUNT} t WHERE {where}", policy(parting)) == expected


@pytest.mark.parametrize(("name", "expected"), [("same", (0,)), ("made", (0, 1, 2, 3))])
def test_a_computed_column_says_nothing_of_parts(name: str, expected: tuple[int, ...]):
    """Below joins alone columns are made by a node of their own."""
    of = policy()
    scan = planned(of, f"{COUNT} t WHERE region = 'N'").frontiers[0].scan
    where = scan.relation
    region, upper = where.condition.left, _upper(of)
    made = Project(where.span, where.source, 7, (Output("same", region), Output("made", upper)))
    condition = replace(where.condition, left=replace(region, name=name, of=7))
    above = replace(scan, relation=replace(where, source=made, condition=condition))
    assert looked_in([above], of).parts == expected


def _upper(of: Policy) -> Expr:
    where = planned(of, f"{COUNT} t WHERE UPPER(region) = 'N'").frontiers[0].scan.relation
    return where.condition.left


OF_TABLE = replace(REGION, per_unit=None, parts_rows=True)
SHARED = "SELECT DP_COUNT(*, eps=1, weights='table') FROM"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"{SHARED} t WHERE region = 'N'", [0]),
        (f"{SHARED} (SELECT v AS w, region AS r FROM t WHERE v > 1) z WHERE r = 'S'", [1]),
        (
            "SELECT v, DP_AVG(v, eps=1, weights='table') FROM t WHERE region = 'W' GROUP BY v",
            [2],
        ),
        (f"SELECT ({SHARED} t WHERE region = 'N') + ({SHARED} t WHERE region = 'S')", [0, 1]),
        # What is not about parts of the rows, or weighs them otherwise.
        (f"{SHARED} t", None),
        (f"{COUNT} t WHERE region = 'N'", None),
        (f"{SHARED.replace(' FROM', ', DP_COUNT(*, eps=1) FROM')} t WHERE region = 'N'", None),
        (f"SELECT ({SHARED} t WHERE region = 'N') + ({COUNT} t WHERE region = 'N')", None),
        ("SELECT DP_COUNT(DISTINCT unit, eps=1) FROM t WHERE region = 'N'", None),
        (
            f"{COUNT} (SELECT unit, region FROM t GROUP BY unit, region) z WHERE region = 'N'",
            None,
        ),
        # Bounds are found among all rows.
        (
            "SELECT DP_SUM(unit, eps=1, bounds='auto', weights='table') FROM t "
            "WHERE region = 'N'",
            None,
        ),
    ],
)
def test_the_parts_of_rows_that_a_query_is_charged_on(query: str, expected: list[int] | None):
    assert parts(query, policy(OF_TABLE)) == expected


@pytest.mark.parametrize("most", [1, 2])
def test_rows_that_a_join_makes_several_of_are_no_share_of_the_table(most: int):
    of = planned(policy(OF_TABLE), f"{SHARED} t").frontiers[0]
    span = Span(0, 1)
    always = Literal(span, True, BOOLEAN)
    joined = PublicJoin(span, of.scan.relation, "p", 9, always, keeps=False, most=most)
    assert may_share(of.releases[0].release, joined) is (most == 1)


def test_a_unit_of_one_row_is_in_one_part_however_rows_are_weighed():
    rows = policy_of(private_table([Path("t")], [*OTHERS[1:], OF_TABLE], None))
    for of in (policy(OF_TABLE, single=True), rows):
        for count in (COUNT, SHARED):
            assert parts(f"{count} t WHERE region = 'N'", of) == [0]


def test_units_of_one_part_may_weigh_rows_by_the_table_as_well():
    for count in (COUNT, SHARED):
        assert parts(f"{count} t WHERE region = 'N'", policy()) == [0]


def test_a_scan_keeps_one_part_of_each_unit_unless_it_can_have_no_other():
    def scanned(of: Policy) -> object:
        return planned(of, f"{COUNT} t").frontiers[0].scan.relation.part

    assert scanned(policy()).values == ("N", "S", "W")
    assert scanned(policy(single=True)) is None
    assert scanned(policy_of(private_table([Path("t")], [*OTHERS[1:], REGION], None))) is None
    assert scanned(policy(replace(REGION, per_unit=None))) is None
    assert scanned(policy(OF_TABLE)) is None


def test_a_policy_that_parts_units_otherwise_has_parts_of_its_own():
    def word(of: Policy) -> str:
        return next(part.column for part in every_part(of))

    others = [
        policy(replace(REGION, keys=("S", "N", "W"))),
        policy(replace(REGION, max_length=1)),
        policy(OF_TABLE),
        policy(replace(REGION, per_unit=2)),
        policy(replace(REGION, per_unit=3)),
        policy(replace(OF_TABLE, max_length=1)),
        policy(Column("v", INTEGER, keys=(1,), per_unit=1)),
        policy_of(private_table([Path("u.parquet")], [*OTHERS, REGION])),
        policy(written=("other.parquet",)),
        replace(policy(written=("t.parquet",)), directory=Path("elsewhere")),
        policy_of(private_table([Path("t.parquet")], [*OTHERS, REGION], "city")),
    ]
    assert len({word(policy()), *map(word, others)}) == 1 + len(others)
    assert word(policy()) == word(replace(policy(), neighbours=Neighbours.SUBSTITUTE))
