"""Random query x random neighbour: exact integers move by no more than the plan claims.

Two engines, written apart, have to agree on every integer, with rows shuffled, cut into files
and row groups anew on each side, and 1 to 8 threads. Wrong weights, limits and claims have to
be caught by the same check.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.errors import QueryRefused
from dpquery.plan.plan import Plan
from dpquery.policy.model import Policy
from tests.neighbours import Drawn, Pair, drawn, require_bounded_move, save
from tests.oracle import engine as oracle
from tests.strategies import COLUMNS, SCHEMA, pairs, queries
from tests.worlds import planned, policy_of, private_table

NAMES = ("t", "T AS u", "'data/*.parquet'", '"data/*.parquet"')
KINDS: dict[str, dict[str, object]] = {
    "weights": {},
    "limit 2": {"max_rows_contributed": 2},
    "one row per unit": {"single": True},
    "rows are units": {"unit": None},
    "NULL is no group": {},
}
LIGHT = {"i": 1, "b": True}
"""A row that most conditions see."""


@contextmanager
def policies(
    pair: Pair,
    kind: str,
    seed: int,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    texts: Sequence[str] = (),
) -> Iterator[list[Policy]]:
    """Write both sides of a pair, and give a policy for each.

    A time of day is listed where a query names it: DuckDB's own reader reads files without one.
    """
    listed = [one for one in COLUMNS if one.name != "tod" or "tod" in " ".join(texts)]
    order = Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        found = []
        for number, (units, loose) in enumerate(pair.sides):
            paths = save(units, loose, SCHEMA, Path(directory) / str(number), order)
            columns = [replace(c, null_group=kind != "NULL is no group") for c in listed]
            table = private_table(paths, columns, **KINDS[kind])
            found.append(policy_of(replace(table, written=("data/*.parquet",)), neighbours))
        yield found


def accepted(policy: Policy, sql: str) -> Plan:
    """Plan a query, or give the example up where its numbers are too large or out of reach."""
    try:
        return planned(policy, sql)
    except QueryRefused as refusal:
        assume(refusal.code not in {"DPQ305", "DPQ404", "DPQ205", "DPQ408"})
        raise


def by_oracle(policy: Policy, plan: Plan) -> list[Drawn]:
    return drawn(oracle.PythonEngine(policy, FaultLog(None)), plan)


def by_duckdb(policy: Policy, plans: list[Plan], threads: int) -> list[list[Drawn]]:
    """Ask twice: the second time, the engine may answer from columns that it keeps."""
    engine = DuckDBEngine(policy, FaultLog(None), threads=threads)
    try:
        found = [drawn(engine, plan) for plan in plans]
        assert [drawn(engine, plan) for plan in plans] == found
    finally:
        engine.close()
    return found


@dataclass(frozen=True)
class Case:
    """A pair of tables, what is declared of them, and queries to ask of both."""

    pair: Pair
    texts: list[str]
    kind: str
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    seed: int = 0


def require_promise(case: Case) -> None:
    """Hold both engines against each other, and both sides against the claims."""
    with policies(case.pair, case.kind, case.seed, case.neighbours, case.texts) as sides:
        plans = [accepted(sides[0], text) for text in case.texts]
        found = []
        for number, policy in enumerate(sides):
            expected = [by_oracle(policy, plan) for plan in plans]
            assert by_duckdb(policy, plans, 1 + (case.seed + number) % 8) == expected
            found.append(expected)
        for before, after in zip(*found, strict=True):
            require_bounded_move(before, after)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind, neighbours = draw(st.sampled_from(list(KINDS))), draw(st.sampled_from(Neighbours))
    one_row, unitless = kind in {"one row per unit", "rows are units"}, kind == "rows are units"
    pair = draw(pairs(neighbours, one_row, unitless))
    texts = draw(st.lists(queries(NAMES, unitless), min_size=1, max_size=2))
    return Case(pair, texts, kind, neighbours, draw(st.integers(0, 10**6)))


HEAVY = Pair([[LIGHT], [LIGHT]], [[LIGHT], [LIGHT], [LIGHT] * 20_000], ([], [LIGHT]))
ALL = ["SELECT DP_COUNT(*, eps=1), DP_COUNT(i, eps=1, max_rows_contributed=7) FROM t WHERE b"]


@settings(max_examples=6)
@given(cases())
@example(Case(HEAVY, ALL, "weights", seed=1))
def test_releases_move_by_no_more_than_claimed_and_engines_agree(case: Case):
    require_promise(case)


@pytest.mark.slow
@settings(max_examples=1000)
@given(cases())
@example(Case(HEAVY, ALL, "limit 2", seed=5))
def test_releases_move_by_no_more_than_claimed_and_engines_agree_at_length(case: Case):
    require_promise(case)
