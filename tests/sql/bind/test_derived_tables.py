"""What queries make of public tables, as public tables: read at bind, by value, and bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dpquery
from dpquery.engine.duckdb import public_engine
from dpquery.errors import PlanRefused
from dpquery.ir.relations import PublicJoin, walk
from dpquery.plan.plan import Plan
from dpquery.session import Session
from dpquery.sql.bind.statement import MOST_DERIVED
from tests.corpus.cases import planned, refusal
from tests.samples import sample_policy

COUNT = "SELECT DP_COUNT(*, eps=0.1) FROM visits v"
COAST = "SELECT region FROM regions WHERE zone = 'coast'"


def joined(plan: Plan) -> list[str]:
    """Return the public tables that the scans of a plan join."""
    nodes = (node for frontier in plan.frontiers for node in walk(frontier.scan.relation))
    return [node.table for node in nodes if isinstance(node, PublicJoin)]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with dpquery.connect(sample_policy(tmp_path, "epsilon = 1000")) as found:
        yield found


def test_a_table_is_named_after_its_rows_however_they_are_asked_for():
    (name,) = joined(planned(f"{COUNT} JOIN ({COAST}) c USING (region)"))
    again = "WITH c AS (SELECT region FROM regions WHERE zone LIKE 'co%' ORDER BY 1 DESC)"
    assert joined(planned(f"{again} {COUNT} JOIN c ON v.region = c.region")) == [name]
    for other in (
        f"{COAST} LIMIT 1",
        f"{COAST} UNION ALL {COAST}",
        "SELECT region AS r FROM regions WHERE zone = 'coast'",
        "SELECT region, 1 AS one FROM regions WHERE zone = 'coast'",
    ):
        assert joined(planned(f"{COUNT} CROSS JOIN ({other}) c")) not in ([name], ["regions"])


def test_texts_that_differ_in_where_a_column_ends_make_other_tables():
    first = joined(planned(f"{COUNT} CROSS JOIN (SELECT 'a1:' AS x, 'b' AS y) c"))
    assert first != joined(planned(f"{COUNT} CROSS JOIN (SELECT 'a' AS x, '1:b' AS y) c"))
    null = joined(planned(f"{COUNT} CROSS JOIN (SELECT CAST(NULL AS TEXT) AS x) c"))
    assert null != joined(planned(f"{COUNT} CROSS JOIN (SELECT '-' AS x) c"))


def test_an_answer_is_repeated_for_the_same_rows_alone(session: Session):
    assert session.sql(f"{COUNT} JOIN ({COAST}) c USING (region)").loss.epsilon
    same = COAST.replace("= 'coast'", "<> 'inland'")
    assert session.sql(f"{COUNT} JOIN ({same}) c USING (region)").loss.epsilon == 0
    assert session.sql(f"{COUNT} JOIN ({COAST} LIMIT 1) c USING (region)").loss.epsilon


def test_a_join_with_it_counts_as_one_with_the_public_table(session: Session):
    derived = session.sql(
        "SELECT q.w, COUNT(*) AS n FROM visits JOIN (SELECT region, UPPER(zone) AS w "
        "FROM regions) q USING (region) GROUP BY q.w",
        eps=900,
    )
    plain = session.sql(
        "SELECT zone, COUNT(*) AS n FROM visits JOIN regions USING (region) GROUP BY zone",
        eps=90,
    )
    assert [zone.upper() for zone, _ in plain.rows] == [zone for zone, _ in derived.rows]
    for (_, one), (_, other) in zip(plain.rows, derived.rows, strict=True):
        assert abs(one - other) <= 10  # a false alarm has a chance below 1e-30


def test_tables_that_others_have_followed_are_made_again(session: Session):
    query = f"{COUNT} CROSS JOIN (SELECT {{}} AS x) c WHERE v.minutes > c.x"
    for x in (*range(public_engine.MOST_DERIVED + 2), 0):
        session.sql(query.format(x), refresh=True)
    public = session._public
    tables = public._connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall()
    assert tables == [(public_engine.MOST_DERIVED + 1,)]
    assert not any("made" in map(str, key) for key in public.facts)


def test_what_is_too_large_is_refused_before_it_is_charged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(public_engine, "LARGEST_DERIVED", 20)
    with pytest.raises(PlanRefused, match="makes too much of public tables") as refused:
        planned(
            f"{COUNT} JOIN (SELECT region, zone || zone AS z FROM regions) c USING (region)"
        )
    assert refused.value.code == "DPQ409"


def test_so_are_many_of_them():
    def asked(tables: int) -> str:
        joins = (f" CROSS JOIN (SELECT {i} AS x{i}) c{i}" for i in range(tables))
        return COUNT + "".join(joins)

    assert len(joined(planned(asked(MOST_DERIVED)))) == MOST_DERIVED
    text = refusal(asked(MOST_DERIVED + 1))
    assert text.startswith("refused[DPQ409]")
    assert f"more than {MOST_DERIVED} such subqueries" in text


def test_the_subquery_is_named_where_its_rows_are_too_many():
    text = refusal(f"{COUNT} JOIN (SELECT * FROM regions) c")
    assert text.startswith("refused[DPQ306]: the join with c is not on its unique key")
    assert "several of its rows meet one" in text


@pytest.mark.parametrize("name", ["a b", 'a"b', "'); DROP TABLE d; --", "read_parquet", "é"])
def test_columns_of_any_name_are_joined(session: Session, name: str):
    written = '"' + name.replace('"', '""') + '"'
    asked = (
        f"{COUNT} JOIN (SELECT region AS {written} FROM regions) c ON v.region = c.{written}"
    )
    assert session.sql(asked).loss.epsilon
    engine = session._engine.describe(planned(asked).frontiers[0].scan)
    assert name.isidentifier() or name not in engine
