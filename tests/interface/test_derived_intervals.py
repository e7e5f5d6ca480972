"""Intervals of what is computed from released values, by simulation: law, rows, limits.

Each of many groups has the same exact values, and is an independent draw: so one answer shows
how often the intervals of its columns hold them.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from dpquery.answer import Answer
from dpquery.client.wire_format import dumps, loads
from dpquery.database import Database
from dpquery.display.formats import write_parquet
from dpquery.policy.load import load_policy
from dpquery.policy.model import LedgerSettings
from dpquery.session import Session
from tests.corpus.runs import anew

GROUPS, PARTS, ROWS = 100, 4, 28
"""Regions, parts of each, and rows of each part; each row is a unit's only one."""
VALUE, SPREAD = 7, 2
"""The mean of 4 to 10, which each part has as often, and their deviation."""
POLICY = f"""
[budget]
epsilon = 100000
delta = 0.01
[tables.t]
path = "t.parquet"
privacy_unit_column = "u"
rows_per_unit = 1
[tables.t.columns]
u = {{ type = "integer" }}
a = {{ type = "integer", bounds = [0, {GROUPS - 1}], null_group = false }}
b = {{ type = "integer", bounds = [0, {PARTS - 1}], null_group = false }}
x = {{ type = "integer", bounds = [0, 10] }}
d = {{ type = "decimal(4,2)", bounds = [0, 10] }}
[tables.p]
path = "p.csv"
public = true
unique = ["k"]
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    place = tmp_path_factory.mktemp("derived")
    many = GROUPS * PARTS * ROWS
    place_of = np.arange(many) // ROWS
    whole = {"u": np.arange(many), "a": place_of // PARTS, "b": place_of % PARTS}
    table = pa.table(whole | {"x": 4 + np.arange(many) % 7})
    exactly = pa.array([Decimal(VALUE)] * many, pa.decimal128(4, 2))
    pq.write_table(table.append_column("d", exactly), place / "t.parquet")
    (place / "p.csv").write_text("k,w\n0,2\n1,3\n2,5\n3,7\n")
    (place / "policy.toml").write_text(POLICY)
    policy = replace(load_policy(place / "policy.toml"), ledger=LedgerSettings(None))
    with closing(Database(policy)) as opened:
        yield opened


@pytest.fixture
def session(database: Database) -> Session:
    return anew(database)


BY_ROW = {
    "n / 2": ROWS / 2,
    "2 * n": 2 * ROWS,
    "-n": -ROWS,
    "ROUND(n / 7, 1)": round(ROWS / 7, 1),
    "CAST(n AS DOUBLE)": ROWS,
    "GREATEST(n, 0)": ROWS,
    "s / n": VALUE,
    "EXP(n / 100)": math.exp(ROWS / 100),
    "n + m": 2 * ROWS,
    "q + 1.5": ROWS * VALUE + 1.5,
}
RELEASES = (
    "SELECT a, b, DP_COUNT(*, eps=0.25) AS n, DP_SUM(x, eps=0.25) AS s, "
    "DP_COUNT_IF(x > 3, eps=0.2) AS m, DP_SUM(d, eps=0.25) AS q "
    "FROM t GROUP BY a, b"
)
JOINT = {"s / n": VALUE, "2 * m": 2 * VALUE, "sd / 2": SPREAD / 2, "s - n": ROWS * (VALUE - 1)}
"""Of releases that are read from one draw."""
ABOVE = {
    f"SELECT a, SUM(n) AS v FROM ({RELEASES}) GROUP BY a": PARTS * ROWS,
    f"SELECT a, AVG(s) AS v FROM ({RELEASES}) GROUP BY a": VALUE * ROWS,
    f"WITH r AS ({RELEASES}) SELECT x.a, x.n - y.n AS v FROM r AS x JOIN r AS y "
    "ON x.a = y.a WHERE x.b = 0 AND y.b = 1": 0,
    f"SELECT a, b, n / SUM(n) OVER (PARTITION BY a) AS v FROM ({RELEASES})": 1 / PARTS,
    f"SELECT a, b, n * w AS v FROM ({RELEASES}) AS r JOIN p ON r.b = p.k WHERE b = 2": 5 * ROWS,
}


def held(answer: Answer, column: str, exact: float) -> list[bool]:
    """Return which intervals hold a value; a quotient by next to nothing has none."""
    found = [one for one in answer.interval(column) if one is not None]
    assert len(found) > 0.85 * len(answer), column
    return [float(low) - 1e-9 <= exact <= float(high) + 1e-9 for low, high in found]


def require(hits: list[bool], least: float = 0.945, most: float = 0.975) -> None:
    """Hold a share between two: a right one is outside with a probability below 1e-6."""
    count = len(hits)
    low, high = stats.binom.ppf(5e-7, count, least), stats.binom.isf(5e-7, count, most)
    assert low <= sum(hits) <= high, f"{sum(hits) / count:.4f} of {count}"


def asked_by_row(session: Session, times: int) -> dict[str, list[bool]]:
    items = ", ".join(f"{text} AS v{at}" for at, text in enumerate(BY_ROW))
    found: dict[str, list[bool]] = {text: [] for text in BY_ROW}
    for _ in range(times):
        answer = session.sql(f"SELECT a, b, {items} FROM ({RELEASES})", refresh=True)
        for at, (text, exact) in enumerate(BY_ROW.items()):
            found[text] += held(answer, f"v{at}", exact)
    return found


def test_intervals_of_computed_columns_hold_as_often_as_they_say(session: Session):
    for hits in asked_by_row(session, 2).values():
        require(hits, most=0.985)


@pytest.mark.parametrize("sql", ABOVE)
def test_intervals_above_groups_joins_and_windows_hold_too(session: Session, sql: str):
    hits: list[bool] = []
    for _ in range(2):
        hits += held(session.sql(sql, refresh=True), "v", ABOVE[sql])
    require(hits, most=0.99)


def test_numbers_of_one_draw_are_simulated_together(session: Session):
    items = ", ".join(f"{text} AS v{at}" for at, text in enumerate(JOINT))
    asked = "COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m, STDDEV_POP(x) AS sd"
    answer = session.sql(
        f"SELECT a, b, {items} FROM (SELECT a, b, {asked} FROM t GROUP BY a, b)", eps=3
    )
    for at, exact in enumerate(JOINT.values()):
        require(held(answer, f"v{at}", exact), most=0.99)
    quotient, mean = (
        [high - low for low, high in filter(None, answer.interval(name))]
        for name in ("v0", "v1")
    )
    assert 0.8 < 2 * np.mean(quotient) / np.mean(mean) < 1.6  # apart, it would be far wider


def test_counts_of_one_gaussian_draw_share_the_noise_of_its_rows(session: Session):
    counts = ", ".join(f"COUNT_IF(x > {4 + at % 6} AND b >= 0) AS n{at}" for at in range(12))
    names = [f"n{at}" for at in range(12)]
    answer = session.sql(
        f"SELECT a, b, {' + '.join(names)} AS v FROM "
        f"(SELECT a, b, {counts} FROM t GROUP BY a, b)",
        eps=1,
        delta="1e-6",
    )
    exact = sum(ROWS * (6 - at % 6) / 7 for at in range(12))
    require(held(answer, "v", exact), most=0.99)


FEW = "SELECT b, DP_COUNT(*, eps=0.5) AS n FROM t GROUP BY b"


def test_what_only_leaves_rows_out_leaves_their_intervals_as_they_are(session: Session):
    whole = session.sql(f"SELECT b, n / 7 AS v FROM ({FEW})")
    kept = session.sql(f"SELECT b, n / 7 AS v FROM ({FEW}) WHERE n > 0 ORDER BY n DESC LIMIT 3")
    every = dict(zip([row[0] for row in whole.rows], whole.interval("v"), strict=True))
    assert [every[row[0]] for row in kept.rows] == kept.interval("v")
    assert all(kept.interval("v"))


def test_a_row_that_may_be_missing_has_no_interval(session: Session):
    answer = session.sql(f"SELECT b, n / 7 AS v FROM ({FEW} HAVING n > {GROUPS * ROWS})")
    far = session.sql(f"SELECT b, n / 7 AS v FROM ({FEW} HAVING n > 2000)")
    near = [7 * row[1] < GROUPS * ROWS + 3.5 for row in answer.rows]  # missing in 1 of 15
    assert not any(one for one, at in zip(answer.interval("v"), near, strict=True) if at)
    assert all(far.interval("v"))


def test_a_value_that_turns_back_within_the_noise_has_no_interval(session: Session):
    spread = session.sql(f"SELECT STDDEV_POP(n) AS v FROM ({RELEASES})")
    assert spread.interval("v") == [None]


def test_what_has_no_law_takes_part_in_no_interval(session: Session):
    asked = "SELECT b, DP_COUNT(*, eps=1) AS n, DP_MODE(b, eps=1) AS o FROM t GROUP BY b"
    answer = session.sql(
        "SELECT n * 2 AS v, CASE WHEN o > 1 THEN n ELSE -n END AS w, o + n AS z, b "
        f"FROM ({asked})"
    )
    assert all(answer.interval("v"))
    assert not any(answer.interval("w"))
    assert not any(answer.interval("z"))
    assert not any(answer.interval("b"))


def test_rows_that_nothing_tells_apart_have_no_interval(session: Session):
    asked = f"SELECT SUM(n) AS v FROM ({RELEASES}) WHERE a < 3 GROUP BY a"
    assert session.sql(asked).interval("v") == [None] * 3


def test_more_rows_than_are_simulated_have_no_interval(session: Session):
    wide = "SELECT x, a, DP_COUNT(*, eps=1) AS n FROM t GROUP BY x, a"
    answer = session.sql(f"SELECT x, a, n * 2 AS v FROM ({wide})")
    assert len(answer) > 500
    assert not any(answer.interval("v"))


def test_an_answer_that_is_repeated_or_sent_has_the_same_intervals(session: Session):
    asked = f"SELECT b, n / 7 AS v FROM ({FEW})"
    first, again = session.sql(asked), session.sql(asked)
    assert not again.loss.epsilon
    for confidence in ("0.5", "0.9", "0.95", "0.99"):
        known = first.interval("v", confidence)
        assert all(known)
        assert known == again.interval("v", confidence)
        assert known == loads(dumps(first)).interval("v", confidence)
    assert first.interval("v", "0.99999") == [None] * PARTS  # there are too few worlds


def test_ends_are_columns_that_say_of_which_they_are(session: Session):
    answer = session.sql(f"SELECT b, n / 7 AS v, CAST(n * 2 AS BIGINT) AS w FROM ({FEW})")
    wide = answer.with_intervals("0.9")
    assert wide.columns == ("b", "v", "v_low", "v_high", "w", "w_low", "w_high")
    assert answer.about["simulated"] == ["v", "w"]
    stream = io.BytesIO()
    write_parquet(wide, stream)
    read = pq.read_table(io.BytesIO(stream.getvalue()))
    assert read.schema.field("w_low").type == pa.int64()
    told = json.loads(read.schema.field("v_high").metadata[b"dpquery"])
    assert told == {"interval": "high", "of": "v", "confidence": "0.9"}
    assert json.loads(read.schema.metadata[b"dpquery"])["confidence"] == "0.9"
    for row, ends in zip(read.to_pylist(), answer.interval("w", "0.9"), strict=True):
        assert (row["w_low"], row["w_high"]) == ends
        assert row["w_low"] <= row["w"] <= row["w_high"]


def test_numbers_that_pass_every_type_are_answered(session: Session):
    huge = " * ".join(["CAST(n AS DOUBLE)"] * 90)
    asked = f"SELECT b, {huge} AS v, n * 9000000000000000 AS w, 1 / (n - n) AS z FROM ({FEW})"
    answer = session.sql(asked)
    assert len(answer) == PARTS
    for name in ("v", "w", "z"):
        assert len(answer.interval(name)) == PARTS


def test_sums_beyond_what_doubles_hold_exactly_are_computed_with(database: Database):
    asked = "SELECT DP_SUM(x * 1099511627776, eps=10) + 1 AS v FROM t"
    assert anew(database).sql(asked).scalar() is not None


@pytest.mark.slow
def test_coverage_in_many_runs(session: Session):
    for hits in asked_by_row(session, 50).values():
        require(hits)
