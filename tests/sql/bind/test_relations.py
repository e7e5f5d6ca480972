"""What relations say of themselves, and refusals that the sample's tables cannot show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import dpquery
from dpquery.core.source_text import Source
from dpquery.core.types import INTEGER, TEXT
from dpquery.errors import QueryRefused, RuleRefused
from dpquery.ir.relations import Filter, PublicJoin
from dpquery.policy.model import Bounds, Column, Policy, Table
from dpquery.policy.sources.paths import copy_samples
from tests.corpus import cases
from tests.corpus.cases import refusal
from tests.samples import edit
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
        ("FROM (SELECT unit FROM t FULL JOIN s USING (unit) GROUP BY unit)", True, 1),
        ("FROM (SELECT unit FROM t RIGHT JOIN s USING (unit) GROUP BY unit)", True, 1),
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


WORDS = [
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM visits v JOIN regions r",
        """\
refused[DPQ306]: the join with regions is not on its unique key
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM visits v JOIN regions r
  |                                                ^^^^^^^^^ unique: region

   why: JOIN needs a condition; to meet all rows, write CROSS JOIN.
   try: SELECT DP_COUNT(*, eps=0.5) FROM visits v JOIN regions r ON v.region = r.region""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM (SELECT DISTINCT dept FROM staff) s",
        """\
refused[DPQ307]: DISTINCT of private rows needs the unit among its columns
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM (SELECT DISTINCT dept FROM staff) s
  |                                                   ^^^^ units would become one row

   why: a row that stands for several units belongs to none of them.
   try: SELECT DP_COUNT(DISTINCT dept, eps=0.5) FROM staff""",
    ),
]


@pytest.mark.parametrize(("query", "text"), WORDS)
def test_a_refusal_reads_as_it_was_written(query: str, text: str):
    assert refusal(query) == text


def test_units_of_different_names_are_refused_in_these_words():
    with pytest.raises(RuleRefused) as refused:
        planned(two(unit="account"), ON)
    refused.value.source = Source(ON)
    assert (
        str(refused.value)
        == """\
refused[DPQ308]: the units of these tables cannot be compared
  |
1 | SELECT DP_COUNT(*, eps=1) FROM t JOIN s ON t.unit = s.account
  |                                       ^^^^^^^^^^^^^^^^^^^^^^^ t has unit, and s has account

   why: rows of two tables belong to one unit where the unit's column has one declared
        type in both, and one name, or the policy says that all tables hold one unit.
        ask the data owner to write [privacy] unit = "person" into the policy, if these columns name the same units."""  # noqa: E501
    )


ASK = "SELECT DP_COUNT(*, eps=1) FROM "
OFFERED = [
    # the whole query
    ("staff s JOIN visits v ON «s.age = v.minutes»",
     "staff s JOIN visits v ON s.person_id = v.person_id"),
    ("staff s JOIN visits v «USING (age)»",
     "staff s JOIN visits v ON s.person_id = v.person_id"),
    ("staff s JOIN «visits v»", "staff s JOIN visits v ON s.person_id = v.person_id"),
    ("staff s, «visits v»", "staff s JOIN visits v ON s.person_id = v.person_id"),
    ("«regions r» JOIN visits v", "regions r JOIN visits v ON v.region = r.region"),
    ("regions r «LEFT» JOIN visits v USING (region)", "regions r JOIN visits v USING (region)"),
    ("visits v «FULL» JOIN regions r USING (region)",
     "visits v LEFT JOIN regions r USING (region)"),
    ("(SELECT * FROM staff «LIMIT 10»)", "(SELECT * FROM staff)"),
    ("(SELECT * FROM staff «ORDER BY age») s", "(SELECT * FROM staff) s"),
    ("visits v «SEMI» JOIN regions r USING (region)", "visits v JOIN regions r USING (region)"),
    ("regions r «SEMI» JOIN visits v USING (region)", "regions r JOIN visits v USING (region)"),
    # what stands over the caret
    ("(SELECT DISTINCT «dept», age FROM staff)", "person_id, dept"),
    ("(SELECT age, «salary AS age» FROM staff)", "salary AS age_2"),
    ("(SELECT «rank() OVER (ORDER BY age)» AS n FROM staff)",
     "rank() OVER (PARTITION BY person_id ORDER BY age)"),
    ("(SELECT «rank() OVER (PARTITION BY dept)» AS n FROM staff)",
     "rank() OVER (PARTITION BY person_id, dept)"),
    ("(SELECT «SUM(age) OVER (PARTITION BY person_id ORDER BY hired)» AS n FROM staff)",
     "SUM(age) OVER (PARTITION BY person_id)"),
    ("(SELECT «STDDEV(age)» AS n FROM staff GROUP BY person_id)", "AVG(age)"),
    ("(SELECT «FIRST(age)» AS n FROM staff GROUP BY person_id)", "MIN(age)"),
    ("staff WHERE remote AND «age IN (SELECT minutes FROM visits WHERE minutes > 3)»",
     "person_id IN (SELECT person_id FROM visits WHERE minutes > 3)"),
    ("staff WHERE «EXISTS (SELECT 1 FROM visits)»",
     "EXISTS (SELECT 1 FROM visits WHERE visits.person_id = staff.person_id)"),
    ("staff s WHERE «EXISTS (SELECT 1 FROM visits v WHERE v.minutes = s.age AND spent > 3)»",
     "EXISTS (SELECT 1 FROM visits v WHERE v.person_id = s.person_id AND spent > 3)"),
    ("staff s WHERE «EXISTS (SELECT 1 FROM visits WHERE minutes > 3 OR spent > 3)»",
     "EXISTS (SELECT 1 FROM visits WHERE visits.person_id = s.person_id AND "
     "(minutes > 3 OR spent > 3))"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "remedy"), OFFERED)
def test_what_is_offered_stands_at_its_words_and_is_accepted(marked: str, remedy: str):
    before, over, after = (ASK + marked).replace("»", "«").split("«")
    with pytest.raises(QueryRefused) as caught:
        cases.planned(before + over + after)
    offered, span = caught.value.diagnostic.remedy[0], caught.value.span
    assert span is not None
    assert (span.start, span.end) == (len(before), len(before + over))
    assert offered in {remedy, ASK + remedy}
    cases.planned(offered if offered.startswith(ASK) else before + offered + after)


@pytest.mark.parametrize("by", ["USING (region)", "ON v.region = r.region"])
@pytest.mark.parametrize(
    ("join", "keeps"),
    [
        ("regions r RIGHT JOIN visits v", True),
        ("visits v LEFT JOIN regions r", True),
        ("regions r LEFT JOIN visits v", False),
        ("regions r JOIN visits v", False),
        ("visits v RIGHT JOIN regions r", False),
    ],
)
def test_rows_without_a_public_partner_are_kept_on_their_own_side(
    join: str, keeps: bool, by: str
):
    query = f"{ASK}{join} {by} GROUP BY minutes"
    relation = cases.planned(query).frontiers[0].scan.relation
    while isinstance(relation, Filter):
        relation = relation.source
    assert isinstance(relation, PublicJoin)
    assert relation.keeps is keeps


def test_a_key_that_is_compared_in_doubles_is_no_key(tmp_path: Path):
    """Two integers beyond 2^53 are one double: a row would meet both, or all of many."""
    place = copy_samples(tmp_path / "data").parent
    (place / "big.csv").write_text("\n".join(["id", *(str(2**53 + n) for n in range(65))]))
    with (place / "policy.toml").open("a") as policy:
        policy.write('[tables.big]\npath = "big.csv"\npublic = true\nunique = ["id"]\n')
        policy.write('[tables.big.columns]\nid = { type = "integer" }\n')
    query = "SELECT DP_COUNT(*, eps=1) FROM staff s JOIN big b ON b.id = s."
    with dpquery.connect(place / "policy.toml") as session:
        assert session.explain(f"{query}age").charge
        with pytest.raises(RuleRefused) as refused:
            session.explain(f"{query}bonus")
    assert refused.value.code == "DPQ306"


def test_rows_that_are_units_meet_one_public_row_at_most(tmp_path: Path):
    """They have no weights: a row that became several would count in full in each."""
    place = copy_samples(tmp_path / "data").parent
    unit = 'privacy_unit_column = "person_id"\nmax_rows_contributed = 10 '
    edit(place / "policy.toml", unit, "")
    query = "SELECT DP_COUNT(*, eps=1) FROM visits v JOIN regions r ON v.region = r."
    with dpquery.connect(place / "policy.toml") as session:
        assert session.explain(f"{query}region").charge
        with pytest.raises(RuleRefused) as refused:
            session.explain(f"{query}zone")
    assert refused.value.code == "DPQ306"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.unit FROM t RIGHT JOIN s USING (unit) GROUP BY t.unit",
        "SELECT t.unit FROM t FULL JOIN s USING (unit) GROUP BY t.unit",
        "SELECT s.unit FROM t FULL JOIN s USING (unit) GROUP BY s.unit",
        "SELECT s.unit FROM t LEFT JOIN s USING (unit) GROUP BY s.unit",
        "SELECT t.unit FROM t FULL JOIN s ON t.unit = s.unit GROUP BY t.unit",
    ],
)
def test_a_unit_that_may_be_missing_parts_the_rows_of_its_owner(query: str):
    """It is NULL in some rows of one owner and not in others: two rows, not one."""
    text = f"SELECT DP_COUNT(*, eps=1) FROM ({query} HAVING COUNT(*) > 0) x"
    with pytest.raises(RuleRefused) as refused:
        planned(two(), text)
    assert refused.value.code == "DPQ307"


def unlisted() -> Policy:
    """A policy whose unit is no column that analysts may name, but as the unit."""
    policy = two()
    columns = {"x": Column("x", INTEGER)}
    policy.tables.update({n: replace(t, columns=columns) for n, t in policy.tables.items()})
    return policy


@pytest.mark.parametrize(
    "rows",
    [
        "(SELECT unit, x AS unit FROM t) q GROUP BY unit",
        "(SELECT x AS unit, unit FROM t) q GROUP BY unit",
        "(SELECT *, x AS unit FROM t) q GROUP BY unit",
        "(SELECT unit AS v, x AS v FROM t) q GROUP BY v",
        "(SELECT unit, max(x) AS unit FROM t GROUP BY unit, x) q GROUP BY unit",
    ],
)
def test_no_column_takes_the_name_of_the_unit(rows: str):
    """Rows would be put together by that column, and said to be one of each unit."""
    query = f"SELECT DP_COUNT(*, eps=1) FROM (SELECT COUNT(*) AS n FROM {rows}) z"
    with pytest.raises(QueryRefused) as refused:
        planned(unlisted(), query)
    assert refused.value.code == "DPQ211"


def test_a_list_of_names_does_not_make_a_column_the_unit():
    query = "SELECT DP_COUNT(*, eps=1) FROM (SELECT DISTINCT unit FROM t AS q(unit)) z"
    with pytest.raises(QueryRefused) as refused:
        planned(unlisted(), query)
    assert refused.value.code == "DPQ307"


def test_rows_that_are_units_do_not_stand_twice_in_a_union():
    policy = two(unit=None)
    query = "SELECT DP_COUNT(*, eps=1) FROM (SELECT x FROM s UNION ALL SELECT x FROM s) z"
    with pytest.raises(RuleRefused) as refused:
        planned(policy, query)
    assert refused.value.code == "DPQ308"


@pytest.mark.parametrize("what", ["SUM", "AVG"])
@pytest.mark.parametrize("over", ["GROUP BY unit", "OVER"])
def test_a_sum_of_one_unit_that_may_overflow_is_refused(what: str, over: str):
    value = f"{what}(x * x * x % 100000000000000000000000000000000000)"
    inner = f"SELECT unit, {value} AS y FROM t GROUP BY unit"
    if over == "OVER":
        inner = f"SELECT unit, {value} OVER (PARTITION BY unit) AS y FROM t"
    bounded = two()
    columns = {
        "x": Column("x", INTEGER, Bounds(0, 10**12)),
        "unit": Column("unit", INTEGER),
    }
    bounded.tables["t"] = replace(bounded.tables["t"], columns=columns)
    with pytest.raises(RuleRefused) as refused:
        planned(bounded, f"SELECT DP_COUNT(*, eps=1) FROM ({inner}) z WHERE y > 3")
    assert refused.value.code == "DPQ305"
    assert refused.value.diagnostic.title == "this sum can overflow"
