"""What it takes to add a function: one release with three methods, and its signature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

import dpquery
from dpquery import functions
from dpquery.core.types import DOUBLE
from dpquery.functions.base import (
    COMMON,
    DPFunction,
    Expression,
    Facts,
    Measured,
    Release,
    Takes,
    Words,
)
from dpquery.ir.measures import CountRows
from dpquery.ir.query import Call
from dpquery.ir.sensitivity import sensitivity
from dpquery.mechanisms import DiscreteLaplace, Randomness

POLICY = """\
[budget]
epsilon = 9
[tables.t]
path = "t.parquet"
privacy_unit_column = "u"
max_rows_contributed = 2
[tables.t.columns]
a = { type = "boolean" }
g = { type = "text", keys = ["x", "y"] }
"""
QUERY = "SELECT g, DP_DOZENS(a, eps=1) AS n FROM t GROUP BY g"


@dataclass(frozen=True, slots=True)
class DozensRelease(Release):
    """How many dozens of rows there are for which a condition is true."""

    mechanism: DiscreteLaplace

    def draw(self, exact: Measured, randomness: Randomness) -> list[int]:
        return self.mechanism.release(exact.values(self.measure), randomness)

    def value(self, drawn: int) -> float:
        return drawn / self.measure.weight.scale / 12

    def describe(self, *, waiting: bool) -> Words:
        return Words("some dozens", "a dozen or so", "a few dozens")


def plan_dozens(call: Call, facts: Facts) -> DozensRelease:
    measure = CountRows(facts.weight(call), call.inputs[0].expr)
    distance = sensitivity(measure, facts.neighbours, grouped=facts.grouped)
    noise = DiscreteLaplace.calibrated(distance, call.options.epsilon)
    return DozensRelease(call.function, (measure,), distance, noise, DOUBLE)


DOZENS = DPFunction(
    name="DP_DOZENS",
    summary="How many dozens of rows there are for which a condition is true.",
    positional=(Expression(Takes.CONDITION),),
    parameters=COMMON,
    mechanisms=(DiscreteLaplace.name,),
    plan=plan_dozens,
    example="SELECT DP_DOZENS(remote, eps=1) FROM staff",
)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dpquery.Session]:
    rows = (
        "SELECT i % 99 AS u, i % 3 > 0 AS a, if(i % 2 = 0, 'x', 'y') AS g FROM range(600) r(i)"
    )
    duckdb.sql(rows).write_parquet(str(tmp_path / "t.parquet"))
    (tmp_path / "policy.toml").write_text(POLICY, "utf-8")
    monkeypatch.setitem(functions._BY_NAME, "DP_DOZENS", DOZENS)
    with dpquery.connect(tmp_path / "policy.toml") as opened:
        yield opened


def test_a_new_function_is_bound_charged_drawn_shown_and_kept(session: dpquery.Session):
    told = str(session.explain(QUERY))
    assert "DP_DOZENS(a, eps=1)" in told
    assert "error      a few dozens (95 %)" in told
    first = session.sql(QUERY)
    assert [group for group, _ in first.rows] == ["x", "y", None]
    assert all(type(value) is float for _, value in first.rows)
    assert first.interval("n") == first.rank_interval("n") == [None] * 3
    assert "each u counts for at most 2 rows" in first.notes[0]
    assert "±" not in str(first)
    assert session.budget.spent.epsilon == 1
    assert session.sql(QUERY).rows == first.rows
    assert session.budget.spent.epsilon == 1
