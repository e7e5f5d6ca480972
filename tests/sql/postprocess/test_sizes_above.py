"""What is computed from releases is as large as its text and its groups say, and no larger."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpquery
from dpquery.cache import lookup
from dpquery.core.source_text import Source
from dpquery.engine.duckdb import public_engine as public
from dpquery.errors import PlanRefused, ScanFailed
from dpquery.session import Session
from dpquery.sql.postprocess.from_clause import MOST_HIDDEN
from tests.samples import sample_policy
from tests.shapes import shaped

CELLS = (
    "WITH n AS (SELECT minutes, region, DP_COUNT(*, eps=1e-3) AS n FROM visits "
    "WHERE minutes IS NOT NULL AND region IS NOT NULL GROUP BY 1, 2) "
)
"""241 * 6 rows: each paired with every other, three at a time, they are 3,000 million."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return sample_policy(tmp_path, 'epsilon = 100\n[ledger]\npath = "own.ledger"')


@pytest.fixture
def session(place: Path) -> Iterator[Session]:
    with dpquery.connect(place) as opened:
        yield opened


@pytest.mark.parametrize(
    "joined",
    [
        "n a, n b, n c WHERE a.minutes = b.minutes AND b.minutes = c.minutes AND {}",
        "n a JOIN n b ON a.minutes = b.minutes AND {} JOIN n c ON b.minutes = c.minutes",
        "n a CROSS JOIN n b, n c "
        "WHERE {} AND (a.minutes = b.minutes AND b.minutes = c.minutes)",
    ],
)
@pytest.mark.parametrize(
    "raising",
    [
        "a.region LIKE '%o%'",
        "100 / a.n <> 3",
        "CASE WHEN a.n > 3 THEN a.region LIKE '%o%' ELSE TRUE END",
        "CAST(a.region AS BIGINT) IS NULL",
    ],
)
def test_an_equality_beside_what_can_raise_joins(session: Session, joined: str, raising: str):
    began = time.process_time()
    answer = session.sql(f"{CELLS}SELECT COUNT(*) AS n FROM {joined.format(raising)}")
    assert 0 < answer.scalar() <= 241 * 6**3
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "joined",
    [
        "n JOIN p ON minutes = of_p JOIN q ON of_p = of_q",
        "n, p, q WHERE minutes = of_p AND of_q = of_p",
    ],
)
def test_columns_that_one_relation_has_are_equated_by_their_names(
    session: Session, joined: str
):
    renamed = ", ".join(f"{name} AS (SELECT minutes AS of_{name}, n FROM n)" for name in "pq")
    answer = session.sql(f"{CELLS}, {renamed} SELECT COUNT(*) AS n FROM {joined}")
    assert answer.scalar() == 241 * 6**3


@pytest.mark.parametrize(
    "query",
    [
        f"{CELLS}SELECT COUNT(*) FROM n a, n b, n c",
        f"{CELLS}SELECT COUNT(*) FROM n a, n b, n c WHERE minutes = minutes",
        f"{CELLS}SELECT COUNT(*) FROM n a, n b, n c WHERE a.n < b.n AND b.n < c.n",
        f"{CELLS}SELECT COUNT(*) FROM n a JOIN n b ON a.n < b.n JOIN n c ON b.n < c.n",
        f"{CELLS}SELECT a.n FROM n a, n b",
        f"{CELLS}, p AS (SELECT a.n FROM n a, n b) SELECT COUNT(*) FROM p, n",
        f"{CELLS}SELECT COUNT(*) FROM ({' UNION ALL '.join(['SELECT a.n FROM n a, n b'] * 5)})",
    ],
)
def test_too_many_rows_are_refused_before_the_charge(session: Session, query: str):
    with pytest.raises(PlanRefused) as told:
        session.sql(query)
    assert told.value.code == "DPQ409"
    assert session.budget.spent.epsilon == 0


WORDS = """\
refused[DPQ409]: this can have 13,997,521 rows
  |
2 | SELECT COUNT(*) FROM n CROSS JOIN n AS m CROSS JOIN n AS o
  |                                                     ^^^^^^ more than 10,000,000

   why: what is computed from released and public rows has to end in time, because
        it cannot be asked again without being charged again.
   try: JOIN n AS o ON n.minutes = o.minutes
budget: unchanged; 100 of 100 left"""


def test_the_words_of_a_refusal_by_size(session: Session):
    query = "WITH n AS (SELECT minutes, DP_COUNT(*, eps=1) AS n FROM visits "
    query += "WHERE minutes IS NOT NULL GROUP BY minutes)\n"
    query += "SELECT COUNT(*) FROM n CROSS JOIN n AS m CROSS JOIN n AS o"
    with pytest.raises(PlanRefused) as told:
        session.sql(query)
    assert str(told.value) == WORDS


@pytest.mark.parametrize(
    "query",
    [
        f"{CELLS}SELECT COUNT(*) FROM n a, n b",
        f"{CELLS}SELECT COUNT(*) FROM n JOIN n b USING (minutes, region) "
        "JOIN n c USING (minutes, region)",
        f"{CELLS}SELECT COUNT(*) FROM n a SEMI JOIN n b ON a.n < b.n "
        "SEMI JOIN n c ON a.n < c.n",
        f"{CELLS}, f AS (SELECT * FROM n LIMIT 9) SELECT COUNT(*) FROM f a, f b, f c, f d, n",
        f"{CELLS}, s AS (SELECT SUM(n) AS n FROM n) SELECT COUNT(*) FROM s a, s b, s c, n",
    ],
)
def test_rows_that_are_few_are_answered(session: Session, query: str):
    assert session.sql(query).scalar() >= 0


def test_rows_beside_themselves_keep_their_noise(session: Session):
    """A relation that is put to itself shows the same releases, by the same row numbers."""
    answer = session.sql(shaped("results twice", 4).replace("COUNT(*)", "*"))
    assert len(answer.rows) == 5 * 2**3
    assert all(interval is not None for interval in answer.interval("n", 0.95))
    by_dept = {row[0]: set() for row in answer.rows}
    for row, interval in zip(answer.rows, answer.interval("n", 0.95), strict=True):
        by_dept[row[0]].add((row[1], interval))
    assert all(len(found) == 1 for found in by_dept.values())


@pytest.mark.parametrize("shape", ["results twice", "results joined", "results swapped"])
@pytest.mark.parametrize("size", [5, 12, 18])
def test_row_numbers_do_not_double(session: Session, shape: str, size: int):
    plan = session._plan(Source(shaped(shape, size)))
    assert len(plan.above.rows) <= MOST_HIDDEN
    assert len(plan.above.sql) < 2_000 * size * MOST_HIDDEN


def test_time_that_runs_out_is_named(place: Path, monkeypatch: pytest.MonkeyPatch):
    assert public.SECONDS <= 10
    monkeypatch.setattr(public, "SECONDS", 1)
    rows = "SELECT minutes, 1 AS one, DP_COUNT(*, eps=1e-3) AS n FROM visits GROUP BY 1"
    joins = " ".join(f"JOIN n AS n{i} USING (one)" for i in range(4))
    with dpquery.connect(place) as session, pytest.raises(ScanFailed) as told:
        session.sql(f"WITH n AS ({rows}) SELECT SUM(n.n + n3.n) FROM n {joins}")
    assert told.value.code == "DPQ702"


def test_long_answers_are_not_kept(session: Session, place: Path):
    """A ledger grows by a stated number of characters for a charge, however small."""
    query = (
        "SELECT minutes, day, DP_COUNT(*, eps=1e-9) AS n FROM visits "
        "WHERE day BETWEEN '2025-01-01' AND '2025-03-31' AND minutes >= 0 "
        "GROUP BY minutes, day"
    )
    before = sum(file.stat().st_size for file in place.parent.glob("own.ledger*"))
    answer = session.sql(query)
    grown = sum(file.stat().st_size for file in place.parent.glob("own.ledger*")) - before
    assert len(answer.rows) == 241 * 90
    assert grown < lookup.MOST_STORED
    assert any("charged again" in note for note in answer.notes)
    assert session.sql(query).loss.epsilon > 0


def test_short_answers_are_kept(session: Session):
    query = "SELECT dept, DP_COUNT(*, eps=1e-9) AS n FROM staff GROUP BY dept"
    assert not any("charged again" in note for note in session.sql(query).notes)
    assert session.sql(query).loss.epsilon == 0
