"""SUMMARIZE: what it means, what it costs, what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery.database import Database
from dpquery.errors import QueryRefused
from dpquery.policy.load import load_policy
from dpquery.policy.model import LedgerSettings
from dpquery.session import Session
from tests.corpus.runs import anew
from tests.samples import sample_policy

SHOWN = [
    *("column_name", "column_type", "min", "max", "approx_unique", "avg", "std"),
    *("q25", "q50", "q75", "count", "null_percentage", "top_values"),
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    file = sample_policy(tmp_path_factory.mktemp("summed"), "epsilon = 1000000")
    policy = replace(load_policy(file), ledger=LedgerSettings(None))
    with closing(Database(policy)) as opened:
        yield opened


@pytest.fixture
def session(database: Database) -> Session:
    return anew(database)


def test_a_line_says_of_each_column_what_duckdb_says(session: Session):
    answer = session.sql("SUMMARIZE staff", eps=2000)
    assert answer.columns == tuple(SHOWN)
    lines = {row["column_name"]: row for row in answer.to_dicts()}
    assert list(lines) == [
        "person_id",
        "dept",
        "age",
        "salary",
        "bonus",
        "rating",
        "hired",
        "remote",
    ]
    assert lines["age"]["column_type"] == "BIGINT"
    assert abs(lines["age"]["count"] - 1000) < 20
    assert abs(lines["age"]["avg"] - 43.26) < 1
    assert 36 < int(lines["age"]["q25"]) < int(lines["age"]["q50"]) < int(lines["age"]["q75"])
    assert 25 < lines["bonus"]["null_percentage"] < 40
    assert lines["hired"]["min"] < lines["hired"]["q50"] < lines["hired"]["max"]
    assert lines["dept"]["top_values"] == "[eng, ops, sales]"
    assert lines["dept"]["min"] is None
    unit = lines["person_id"]
    assert abs(unit["approx_unique"] - 1000) < 20
    assert unit["min"] is unit["avg"] is unit["q50"] is unit["top_values"] is None


def test_it_costs_the_one_epsilon_that_is_said(session: Session):
    answer = session.sql("SUMMARIZE staff OPTIONS(epsilon=3)")
    assert answer.loss.epsilon == Fraction(3)
    assert all(answer.interval("count"))
    assert any(answer.interval("null_percentage"))
    assert any("one ε is shared by 30 aggregates" in note for note in answer.notes)
    assert session.sql("summarize table staff options(epsilon = 3);").loss.epsilon == 0
    session.sql("SET dp.eps = 2")
    other = session.sql("SUMMARIZE SELECT age FROM staff WHERE remote")
    assert other.loss.epsilon == Fraction(2)


def test_explain_says_what_each_aggregate_has(session: Session):
    text = str(session.explain("SUMMARIZE SELECT dept, age FROM staff OPTIONS(epsilon=9)"))
    assert "DP_TOP_K(dept, 3, eps=1)" in text
    assert "DP_AVG(age, eps=1)" in text
    assert str(session.sql("EXPLAIN SUMMARIZE staff OPTIONS(epsilon=1)").loss) == "0"


def test_rows_of_a_view_or_a_query_are_summarized(session: Session):
    session.sql("CREATE TEMP VIEW old AS SELECT age, remote FROM staff WHERE age > 50")
    view = session.sql("SUMMARIZE old", eps=1000)
    query = session.sql("SUMMARIZE SELECT age FROM staff WHERE age > 50", eps=1000)
    assert [row[0] for row in view.rows] == ["age", "remote"]
    assert [row[0] for row in query.rows] == ["age"]
    assert int(view.rows[0][2]) > 45


def test_a_query_may_end_in_a_comment(session: Session):
    plain = session.explain("SUMMARIZE SELECT age FROM staff", eps=1)
    told = session.explain("SUMMARIZE SELECT age FROM staff -- all of it", eps=1)
    assert [step.function for step in told.steps] == [step.function for step in plain.steps]


def test_public_values_and_refusals_depend_on_no_rows(session: Session):
    schema = session.columns("SUMMARIZE staff OPTIONS(epsilon=1)")
    assert schema.names == SHOWN
    assert str(schema.field("avg").type) == "double"


REFUSED = {
    "SUMMARIZE staff": "DPQ203",
    "SUMMARIZE stuff OPTIONS(epsilon=1)": "DPQ201",
    "SUMMARIZE regions OPTIONS(epsilon=1)": "DPQ303",
    "SUMMARIZE SELECT DP_COUNT(*, eps=1) FROM staff OPTIONS(epsilon=1)": "DPQ303",
    "SUMMARIZE SELECT 1) SELECT * FROM (SELECT 1 OPTIONS(epsilon=1)": "DPQ101",
    "SUMMARIZE staff WHERE age > 40 OPTIONS(epsilon=1)": "DPQ106",
    "SUMMARIZE SELECT nme FROM staff OPTIONS(epsilon=1)": "DPQ204",
    "SUMMARIZE staff OPTIONS(epsilon=1e-9)": "DPQ205",
    "SUMMARIZE staff OPTIONS(size=1)": "DPQ206",
    "SUMMARIZE": "DPQ106",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_cannot_be_summarized_is_refused(session: Session, sql: str):
    with pytest.raises(QueryRefused) as refused:
        session.sql(sql)
    assert refused.value.code.startswith(REFUSED[sql])
    span, offered = refused.value.span, refused.value.diagnostic.remedy[0]
    if refused.value.code == "DPQ204":
        assert sql[span.start : span.end] == "nme"
    if sql.endswith(")") and refused.value.code != "DPQ101" and " " in offered:
        session.sql(offered)


def test_limits_that_nobody_stated_are_asked_for(tmp_path: Path):
    place = Path(dpquery.__file__).parent.parent / "datasets" / "visits.parquet"
    with dpquery.connect(str(place), unit="person_id", epsilon=100) as session:
        with pytest.raises(QueryRefused) as refused:
            session.sql("SUMMARIZE visits OPTIONS(epsilon=50)")
        assert refused.value.code == "DPQ407"
        (offered,) = refused.value.diagnostic.remedy
        assert offered == "SUMMARIZE visits OPTIONS(epsilon=50, max_rows_contributed=5)"
        assert len(session.sql(offered)) == len(session.describe("visits"))
