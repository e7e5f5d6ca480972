"""What is refined is of the very same exact values, and equal questions have equal ones."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import duckdb
import pytest

import dpquery
from dpquery.cache.release_keys import Keys
from dpquery.core.source_text import Source
from dpquery.errors import PolicyInvalid
from dpquery.functions.additive_releases import AdditiveRelease
from dpquery.session import Session

POLICY = """
[budget]
epsilon = 1000000
[tables.visits]
path = "visits.parquet"
privacy_unit_column = "person"
max_rows_contributed = 2
[tables.visits.columns]
person  = { type = "integer" }
day     = { type = "date", bounds = [2025-01-01, 2025-03-31] }
region  = { type = "text", keys = ["north", "south"] }
minutes = { type = "integer", bounds = [0, 240] }
rating  = { type = "double", bounds = [0, 5] }
"""
ROWS = """
    SELECT i // 2 AS person, DATE '2025-01-01' AS day, 9 - 8 * (i % 2) AS minutes,
           CASE WHEN i % 2 = 0 THEN 'north' ELSE 'south' END AS region, 2.5 AS rating
    FROM range(200) AS t(i)
"""
"""Each person has two rows of one day, which the other columns put in opposite orders."""
TIED = [
    "(SELECT * FROM visits QUALIFY row_number() OVER (PARTITION BY person ORDER BY day) = 1)",
    """(SELECT person, minutes, day, lag(region) OVER (PARTITION BY person ORDER BY day)
        AS region FROM visits)""",
    """(SELECT person, region, minutes, ntile(2) OVER (PARTITION BY person ORDER BY day) AS part
        FROM visits) WHERE part = 1""",
]
CALLS = [
    "DP_COUNT_IF(region = 'north', eps=0.5)",
    "DP_COUNT_IF(region = 'south', eps=0.5)",
    "DP_SUM(minutes, eps=0.5)",
]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    duckdb.sql(ROWS).write_parquet(str(tmp_path / "visits.parquet"))
    (tmp_path / "policy.toml").write_text(POLICY, "utf-8")
    with dpquery.connect(tmp_path / "policy.toml") as opened:
        yield opened


def exact_by_question(session: Session, query: str, monkeypatch) -> list[tuple[str, object]]:
    """Return the question of each call, and the exact values that its noise is put on."""
    seen: list[object] = []
    draw = AdditiveRelease.draw

    def watched(release: AdditiveRelease, exact: object, randomness: object) -> object:
        seen.append(tuple(exact.values(release.measure)))
        return draw(release, exact, randomness)

    with monkeypatch.context() as patched:
        patched.setattr(AdditiveRelease, "draw", watched)
        session.sql(query, refresh=True)
    (frontier,) = session._plan(Source(query)).frontiers
    keys = Keys(session._policy, 0, session._public.digest)
    questions = [keys.question(frontier.scan, one.release) for one in frontier.releases]
    return list(zip(questions, seen, strict=True))


@pytest.mark.parametrize("source", TIED)
def test_equal_questions_have_equal_exact_values(session: Session, source: str, monkeypatch):
    """All orders of one to three calls, over rows that only the columns in use tell apart."""
    found: dict[str, set[object]] = {}
    by_call: dict[str, set[object]] = {}
    for many in (1, 2, 3):
        for calls in permutations(CALLS, many):
            query = f"SELECT {', '.join(calls)} FROM {source}"
            asked = exact_by_question(session, query, monkeypatch)
            for call, (question, exact) in zip(calls, asked, strict=True):
                found.setdefault(question, set()).add(exact)
                by_call.setdefault(call, set()).add(exact)
    assert all(len(exact) == 1 for exact in found.values())
    assert any(len(exact) > 1 for exact in by_call.values())  # what stands beside decides


def refines(session: Session, first: str, second: str) -> bool:
    """Ask at 0.5 and then at 2; whether only the difference was paid."""
    session.sql(first.replace("eps=?", "eps=0.5"), refresh=True)
    asked = second.replace("eps=?", "eps=2")
    lost = session.sql(asked).loss.epsilon
    assert lost in {asked.count("eps=2") * Fraction(n) / 2 for n in (3, 4)}
    return lost < 2 * asked.count("eps=2")


COUNT = "DP_COUNT_IF(region = 'north', eps=?)"
SUM = "DP_SUM(minutes, eps=?)"


@pytest.mark.parametrize("source", TIED)
def test_beside_another_call_a_call_over_tied_rows_is_another(session: Session, source: str):
    both, turned = (
        f"SELECT {COUNT}, {SUM} FROM {source}",
        f"SELECT {SUM}, {COUNT} FROM {source}",
    )
    assert not refines(session, both, f"SELECT {COUNT} FROM {source}")
    assert not refines(session, both, turned)
    assert refines(session, both, both)


def test_without_ties_the_calls_beside_do_not_matter(session: Session):
    assert refines(session, f"SELECT {COUNT}, {SUM} FROM visits", f"SELECT {SUM} FROM visits")


@pytest.mark.parametrize("function", ["LN(rating)", "EXP(rating)", "POWER(rating, 2)"])
def test_what_a_computer_could_round_otherwise_is_paid_in_full(session: Session, function: str):
    vague = f"SELECT DP_COUNT_IF({function} > 1, eps=?) FROM visits"
    assert not refines(session, vague, vague)
    below = f"SELECT DP_COUNT(*, eps=?) FROM (SELECT * FROM visits WHERE {function} > 1)"
    assert not refines(session, below, below)
    exact = "SELECT DP_COUNT_IF(SQRT(rating) > 1, eps=?) FROM visits"
    assert refines(session, exact, exact)


@pytest.mark.parametrize(
    "made",
    [
        f"CREATE TABLE visits AS {ROWS}",
        f"CREATE TABLE held AS {ROWS}; CREATE VIEW visits AS SELECT * FROM held",
        f"CREATE TABLE held AS {ROWS}; CREATE VIEW visits AS FROM held WHERE random() < 2",
        """CREATE TABLE visits(person INTEGER, day DATE, region VARCHAR, minutes INTEGER,
                               rating DOUBLE GENERATED ALWAYS AS (random()))""",
    ],
)
def test_a_table_of_a_database_gives_the_same_rows_each_time(tmp_path: Path, made: str):
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as database:
        database.execute(made)
    named = POLICY.replace(
        'path = "visits.parquet"', 'database = "visits.duckdb"\ntable = "Visits"'
    )
    (tmp_path / "policy.toml").write_text(named, "utf-8")
    plain = "SELECT DP_COUNT(*, eps=?) FROM visits"
    if "random" not in made:
        with dpquery.connect(tmp_path / "policy.toml") as session:
            assert refines(session, plain, plain)
        return
    with pytest.raises(PolicyInvalid) as refused:
        dpquery.connect(tmp_path / "policy.toml")
    assert refused.value.code == "DPQ612"
