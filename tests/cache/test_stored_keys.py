"""The key of a stored release: the same for the same law alone, whatever fixes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpquery.cache import release_keys
from dpquery.cache.release_keys import Keys
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Source
from dpquery.core.types import INTEGER, TEXT
from dpquery.engine import open_engine
from dpquery.engine.base import FaultLog
from dpquery.errors import InternalError
from dpquery.functions.base import Release
from dpquery.ir.canonical_text import Writer
from dpquery.ir.query import Scan
from dpquery.ir.walk import constants_in, filled
from dpquery.plan.plan import Plan, make_plan
from dpquery.policy.model import Bounds, Column, Files, Policy, Table, Through
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.privacy_rules import check
from tests.corpus.cases import facts, planned
from tests.corpus.runs import ACCEPTED

SOME = Fraction(30)
GROUPS = (None,)


def known(scan: Scan) -> tuple[Scan, dict[int, Any]]:
    """Return a scan with something for each value that it waits for."""
    constants = {one.number: SOME for one in constants_in(scan)}
    keys = tuple(
        key
        if key.finding is None
        else replace(key, finding=replace(key.finding, values=GROUPS, known=True))
        for key in scan.keys
    )
    return filled(replace(scan, keys=keys), constants), constants


def keyed(plan: Plan, policy: Policy) -> Iterator[tuple[str, Scan, Release]]:
    """Return the key of each release of a plan, with what it is made from."""
    keys = Keys(policy, 0, facts()[1].digest)
    for frontier in plan.frontiers:
        scan, values = known(frontier.scan)
        for one in frontier.releases:
            yield keys.of(scan, one.release, values), scan, filled(one.release, values)
    for search in plan.searches:
        yield keys.of(search.scan, search.release), search.scan, search.release


def test_releases_of_one_key_have_one_law():
    """The oracle is the scan's SQL, which knows nothing of keys."""
    policy, public = facts()
    engine, laws, often = open_engine("duckdb", policy, FaultLog(None), public), {}, 0
    for case in ACCEPTED:
        for key, scan, release in keyed(planned(case.query), policy):
            read = engine.describe(replace(scan, measures=release.measures))
            groups = [key.values for key in scan.keys]
            law = read, groups, release.event(), release.step(), release.type
            often += key in laws
            assert laws.setdefault(key, law) == law, case.query
    assert len(laws) > 350
    assert often > 50


def test_what_waits_for_a_value_has_no_key():
    query = "SELECT DP_COUNT(*, eps=1) FROM staff WHERE age < (SELECT 30)"
    (frontier,) = planned(query).frontiers
    (one,) = frontier.releases
    keys = Keys(facts()[0], 0, str)
    with pytest.raises(InternalError, match="waits for a value"):
        keys.of(frontier.scan, one.release)


ASKED = (
    "SELECT dept, DP_SUM(bonus, eps=1) FILTER (WHERE age > 30 AND hired > '2020-01-01') "
    "FROM staff GROUP BY dept"
)
OF_COLUMN: dict[str, dict[str, Any]] = {
    "type": {"name": "age", "type": TEXT},
    "bounds": {"name": "age", "bounds": Bounds(18, 71)},
    "keys": {"name": "dept", "keys": ("eng", "hr")},
    "grid": {"name": "bonus", "grid": Fraction(1, 10)},
    "max_length": {"name": "dept", "max_length": 3},
    "null_group": {"name": "dept", "null_group": True},
}
OF_TABLE: dict[str, Any] = {
    "unit": "age",
    "unit_type": TEXT,
    "single": False,
    "max_rows_contributed": 3,
    "max_groups_contributed": 2,
    "written": ("others.parquet",),
    "together": (("age", INTEGER), ("dept", TEXT)),
    "through": Through("age", Table("o", Files(()), ("o.parquet",), {}), "age", INTEGER),
}
OF_POLICY: dict[str, Any] = {
    "neighbours": Neighbours.SUBSTITUTE,
    "directory": Path("/elsewhere"),
}
ELSEWHERE = {
    # asked for by its name, in the scan, or read by nothing but DESCRIBE; a zone is in types
    Column: {"name", "per_unit", "parts_rows", "description", "converted", "path", "exact"},
    Table: {"name", "source", "columns", "lists", "public", "unique", "zone"},
    Policy: {
        "name",
        "budget",
        "analysts",
        "published",
        "tables",
        "ledger",
        "limits",
        "price",
        "unit",
        "zone",
    },
}
"""Says nothing of a law, says it in another field, or decides in `holder_of` whose it is."""


def key_under(policy: Policy, query: str = ASKED) -> list[str]:
    public = facts()[1]
    checked = check(bind(parse(Source(query)), policy, public), policy)
    return [key for key, _, _ in keyed(make_plan(checked, policy, public), policy)]


def with_table(policy: Policy, **changed: Any) -> Policy:
    table = replace(policy.tables["staff"], **changed)
    return replace(policy, tables={**policy.tables, "staff": table})


def test_each_word_of_the_policy_is_accounted_for():
    for kind, said in ((Column, OF_COLUMN), (Table, OF_TABLE), (Policy, OF_POLICY)):
        assert {one.name for one in fields(kind)} == {*said} | ELSEWHERE[kind]


@pytest.mark.parametrize("field", OF_COLUMN)
def test_a_column_that_is_another_makes_another_question(field: str):
    policy, _ = facts()
    changes, columns = dict(OF_COLUMN[field]), policy.tables["staff"].columns
    column = replace(columns[changes["name"]], **changes)
    if field == "type":
        policy = with_table(policy, columns=columns | {"age": replace(column, bounds=None)})
        other = key_under(policy, ASKED.replace("age > 30", "age > '30'"))
    else:
        other = key_under(with_table(policy, columns=columns | {column.name: column}))
    assert other != key_under(facts()[0])


@pytest.mark.parametrize("field", OF_TABLE)
def test_a_table_that_is_another_makes_another_question(field: str):
    policy, _ = facts()
    several = with_table(policy, single=False, max_rows_contributed=1)
    policy = with_table(policy, max_rows_contributed=1)
    before = policy if field == "single" else several
    assert key_under(with_table(before, **{field: OF_TABLE[field]})) != key_under(before)


@pytest.mark.parametrize("field", OF_POLICY)
def test_a_policy_that_is_another_makes_another_question(field: str):
    policy, _ = facts()
    assert key_under(replace(policy, **{field: OF_POLICY[field]})) != key_under(policy)
    assert key_under(replace(policy, name="another")) == key_under(policy)


def test_what_parts_the_units_makes_another_question_where_it_leaves_rows_out():
    policy = with_table(facts()[0], max_rows_contributed=1)
    columns = policy.tables["staff"].columns
    parting = replace(columns["remote"], per_unit=1)
    for single in (True, False):
        before = with_table(policy, single=single)
        after = with_table(before, columns=columns | {"remote": parting})
        assert (key_under(after) == key_under(before)) is single


def test_columns_that_are_not_asked_for_do_not_matter():
    policy, _ = facts()
    columns = policy.tables["staff"].columns
    rating = Column("rating", INTEGER, Bounds(1, 5))
    hired = replace(columns["hired"], bounds=Bounds(date(2000, 1, 1), date(2024, 1, 1)))
    assert key_under(with_table(policy, columns=columns | {"rating": rating})) == key_under(
        policy
    )
    assert key_under(with_table(policy, columns=columns | {"hired": hired})) != key_under(
        policy
    )


GOLDEN = {
    ASKED: "366eea76",
    "SELECT DP_QUANTILE(salary, [0.1, 0.5], eps=0.5) FROM staff WHERE age >= 30": "949adf32",
    "SELECT region, DP_COUNT(DISTINCT person_id, eps=1) FROM visits "
    "GROUP BY region": "d9e53dac",
    "SELECT DP_AVG(age, eps=1), DP_AVG(age, eps=1) FROM staff": "f2af92ff 65b888e6",
    "SELECT DP_SUM(person_id, eps=9, bounds='auto') FROM staff": "57eb81be d782f455",
    "SELECT DP_COUNT(*, eps=1) FROM staff "
    "WHERE salary > (SELECT DP_MEDIAN(salary, eps=1) FROM staff)": "8cd8b254 89e4e7ee",
    "SELECT r.zone, DP_MODE(v.region, eps=1) FROM visits v JOIN regions r "
    "ON v.region = r.region GROUP BY r.zone": "152a4739",
    "SELECT DP_MAX(n, eps=1, bounds=[0, 9]) FROM (SELECT person_id, COUNT(*) AS n FROM visits "
    "GROUP BY person_id)": "0c546c4c",
}


@pytest.mark.parametrize("query", GOLDEN)
def test_a_stored_release_is_known_by_this_key(query: str):
    """Where one changes, what analysts paid for is not found again: raise `_FORMAT`."""
    assert " ".join(key[:8] for key in key_under(facts()[0], query)) == GOLDEN[query]


def test_what_can_be_refined_is_known_by_this_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(release_keys, "_computer", lambda: ("machine", "1", "2"))
    policy, public = facts()
    (frontier,) = planned(ASKED).frontiers
    keys = Keys(policy, 3, public.digest)
    assert keys.question(frontier.scan, frontier.releases[0].release)[:16] == "f9f1ee74deb98d40"


def test_a_question_is_written_like_this():
    (frontier,) = planned(ASKED).frontiers
    assert Writer().text((frontier.scan, frontier.releases[0].release)) == (
        "(Scan(TableScan('staff',0,None,1),Contribution('person_id',True,1,None),(SumCode"
        "s(Weight(1,1),Code(ColumnRef('bonus',Type(<Kind.DOUBLE: 'double'>,0,0,False),Int"
        "erval(Fraction(0, 1),Fraction(50000, 1)),True,Fraction(1, 100),None,0,0,True),Fr"
        "action(1, 100),0,5000000,0,()),1,Logic(True,(Compare(<Comparison.GT: '>'>,Column"
        "Ref('age',Type(<Kind.INTEGER: 'integer'>,0,0,False),Interval(Fraction(18, 1),Fra"
        "ction(70, 1)),True,None,None,0,0,True),Literal(30,Type(<Kind.INTEGER: 'integer'>"
        ",0,0,False))),Compare(<Comparison.GT: '>'>,ColumnRef('hired',Type(<Kind.DATE: 'd"
        "ate'>,0,0,False),Interval(Fraction(10957, 1),Fraction(20453, 1)),True,None,None,"
        "0,0,True),Literal(datetime.date(2020, 1, 1),Type(<Kind.DATE: 'date'>,0,0,False))"
        "))))),(Key('k0',ColumnRef('dept',Type(<Kind.TEXT: 'text'>,0,0,False),Interval(No"
        "ne,None),False,None,('eng','hr','legal','ops','sales'),256,0,True),('eng','hr','"
        "legal','ops','sales'),None,False,''))),AdditiveRelease('DP_SUM',(SumCodes(Weight(1,"
        "1),Code(ColumnRef('bonus',Type(<Kind.DOUBLE: 'double'>,0,0,False),Interval(Fract"
        "ion(0, 1),Fraction(50000, 1)),True,Fraction(1, 100),None,0,0,True),Fraction(1, 1"
        "00),0,5000000,0,()),1,Logic(True,(Compare(<Comparison.GT: '>'>,ColumnRef('age',T"
        "ype(<Kind.INTEGER: 'integer'>,0,0,False),Interval(Fraction(18, 1),Fraction(70, 1"
        ")),True,None,None,0,0,True),Literal(30,Type(<Kind.INTEGER: 'integer'>,0,0,False)"
        ")),Compare(<Comparison.GT: '>'>,ColumnRef('hired',Type(<Kind.DATE: 'date'>,0,0,F"
        "alse),Interval(Fraction(10957, 1),Fraction(20453, 1)),True,None,None,0,0,True),L"
        "iteral(datetime.date(2020, 1, 1),Type(<Kind.DATE: 'date'>,0,0,False))))))),50000"
        "00,DiscreteLaplace(Fraction(5000000, 1)),Type(<Kind.DOUBLE: 'double'>,0,0,False)"
        ",'',Fraction(1, 100)))"
    )


def test_bounds_that_are_kept_are_known_by_these_keys():
    query = (
        "SELECT DP_SUM(minutes * 2, eps=9, bounds='auto', max_rows_contributed='auto') "
        "FROM visits WHERE minutes > 5"
    )
    assert [search.key[:16] for search in planned(query).searches] == ["c93f6256af0a9849"]
