"""Random query x random neighbour: exact integers move by no more than the plan claims.

Two engines, written apart, have to agree on every integer, with rows shuffled, cut into files
and row groups anew on each side, and 1 to 8 threads. Wrong weights, limits and claims have to
be caught by the same check.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private import DuckDBEngine
from dpquery.engine.python import engine as oracle
from dpquery.errors import RuleRefused
from dpquery.functions import count
from dpquery.ir import Measure, Scan, Weight
from dpquery.plan import Plan
from dpquery.policy.model import Policy, Table
from tests.neighbours import Pair, claims, require_bounded_move, save
from tests.strategies import COLUMNS, SCHEMA, pairs, queries
from tests.worlds import measured, planned, policy_of, private_table

NAMES = ("t", "T AS u", "'data/*.parquet'", '"data/*.parquet"')
KINDS: dict[str, dict[str, object]] = {
    "weights": {},
    "limit 2": {"max_rows_contributed": 2},
    "one row per unit": {"single": True},
    "rows are units": {"unit": None},
}
LIGHT = {"i": 1, "b": True}
"""A row that most conditions see."""


@contextmanager
def policies(pair: Pair, kind: str, seed: int) -> Iterator[list[Policy]]:
    """Write both sides of a pair, and give a policy for each."""
    order = Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        found = []
        for number, (units, loose) in enumerate(pair.sides):
            paths = save(units, loose, SCHEMA, Path(directory) / str(number), order)
            table = private_table(paths, COLUMNS, **KINDS[kind])
            found.append(policy_of(replace(table, written=("data/*.parquet",))))
        yield found


def accepted(policy: Policy, sql: str) -> Plan:
    """Plan a query, or give the example up where its arithmetic might overflow."""
    try:
        return planned(policy, sql)
    except RuleRefused as refusal:
        assume(refusal.code != "DPQ305")
        raise


def by_oracle(policy: Policy, plan: Plan) -> list[tuple[Measure, int]]:
    return measured(oracle.PythonEngine(policy, FaultLog(None)), plan)


def by_duckdb(
    policy: Policy, plans: list[Plan], threads: int
) -> list[list[tuple[Measure, int]]]:
    engine = DuckDBEngine(policy, FaultLog(None), threads)
    try:
        return [measured(engine, plan) for plan in plans]
    finally:
        engine.close()


def require_promise(pair: Pair, texts: list[str], kind: str, seed: int) -> None:
    """Hold both engines against each other, and both sides against the claims."""
    with policies(pair, kind, seed) as sides:
        plans = [accepted(sides[0], text) for text in texts]
        found = []
        for number, policy in enumerate(sides):
            expected = [by_oracle(policy, plan) for plan in plans]
            assert by_duckdb(policy, plans, 1 + (seed + number) % 8) == expected
            found.append(expected)
        for plan, before, after in zip(plans, *found, strict=True):
            require_bounded_move(claims(plan), before, after)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pair, list[str], str, int]:
    kind = draw(st.sampled_from(list(KINDS)))
    one_row, unitless = kind in {"one row per unit", "rows are units"}, kind == "rows are units"
    pair = draw(pairs(one_row, unitless))
    texts = draw(st.lists(queries(NAMES), min_size=1, max_size=3))
    return pair, texts, kind, draw(st.integers(0, 10**6))


HEAVY = Pair([[LIGHT], [LIGHT]], [[LIGHT], [LIGHT], [LIGHT] * 20_000], ([], [LIGHT]))
ALL = ["SELECT DP_COUNT(*, eps=1), DP_COUNT(i, eps=1, max_rows_contributed=7) FROM t WHERE b"]


@given(cases())
@example((HEAVY, ALL, "weights", 1))
@example((HEAVY, ALL, "limit 2", 5))
def test_integers_move_by_no_more_than_claimed_and_engines_agree(case):
    require_promise(*case)


@pytest.mark.slow
@settings(max_examples=1000)
@given(cases())
def test_integers_move_by_no_more_than_claimed_and_engines_agree_at_length(case):
    require_promise(*case)


LAWFUL_MOVES = [
    (Pair([[LIGHT]], [[LIGHT], [LIGHT]], ([], [])), "weights"),
    (Pair([[LIGHT]], [[LIGHT], [LIGHT] * 3], ([], [])), "weights"),
    (Pair([[LIGHT]], [[LIGHT], [LIGHT] * 3], ([], [])), "limit 2"),
    (Pair([[LIGHT]], [[LIGHT], [LIGHT]], ([], [])), "one row per unit"),
]


def scale_from_the_data(scan: Scan, table: Table) -> dict[Measure, tuple[int, ...]]:
    """A file whose units happen to have one row each is counted without weights."""
    rows: dict[object, int] = {}
    for unit, _ in oracle._kept(scan, table):
        rows[unit] = rows.get(unit, 0) + 1
    totals = TOTALS(scan, table)
    if max(rows.values(), default=0) > 1:
        return totals
    return {m: tuple(cell // m.weight.scale for cell in cells) for m, cells in totals.items()}


def no_limit(weight: Weight, rows: int) -> int:
    """Each row of a unit counts in full, however many there are."""
    assert rows
    return weight.scale


def rounded_up(weight: Weight, rows: int) -> int:
    """Weights that add up to a little more than the limit."""
    return min(weight.scale, -(-weight.scale * weight.limit // rows))


def half(measure: Measure) -> int:
    """A sensitivity that would halve the noise."""
    return -(-SENSITIVITY(measure) // 2)


TOTALS, SENSITIVITY = oracle._totals, count.sensitivity


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("dpquery.engine.python.engine._totals", scale_from_the_data),
        ("dpquery.engine.python.engine.row_weight", no_limit),
        ("dpquery.engine.python.engine.row_weight", rounded_up),
        ("dpquery.functions.count.sensitivity", half),
    ],
    ids=["scale from the data", "no limit", "weights rounded up", "half the sensitivity"],
)
def test_what_breaks_the_promise_is_caught(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[..., object]
):
    """The same worlds pass as things are, and one of them fails with the mistake in place."""
    for pair, kind in LAWFUL_MOVES:
        require_promise(pair, ALL, kind, seed=0)
    monkeypatch.setattr(name, wrong)
    if name.endswith("sensitivity"):
        monkeypatch.setattr("tests.neighbours.sensitivity", wrong)
    caught = [moved_too_far(pair, kind) for pair, kind in LAWFUL_MOVES]
    assert any(caught)


def moved_too_far(pair: Pair, kind: str) -> bool:
    """Hold the oracle alone against the claims: the other engine would catch it by agreeing."""
    with policies(pair, kind, seed=0) as sides:
        plan = planned(sides[0], ALL[0])
        before, after = (by_oracle(policy, plan) for policy in sides)
        try:
            require_bounded_move(claims(plan), before, after)
        except AssertionError as error:
            return "was claimed" in str(error)
        return False
