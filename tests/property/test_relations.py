"""Joins, unions, per-unit queries and windows: one unit changes its own rows and nothing else.

Random relations, three levels deep, over two private tables that share their units and a
public one; random neighbours, which differ by all rows of one unit in both tables. The engines
agree on every integer, with rows shuffled and cut into files anew on each side and 1 to 8
threads, and what is released moves by no more than the plan claims.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private import DuckDBEngine
from dpquery.engine.duckdb.public import PublicEngine
from dpquery.engine.python.engine import PythonEngine
from dpquery.errors import QueryRefused
from dpquery.plan import Plan, make_plan
from dpquery.policy.model import Policy
from dpquery.privacy import Neighbours
from dpquery.source import Source
from dpquery.sql.bind import bind
from dpquery.sql.check import check
from dpquery.sql.parse import parse
from tests.neighbours import Row, Units, drawn, require_bounded_move, save
from tests.relations import SCHEMA, policy_over, queries, row

OUT_OF_REACH = {"DPQ305", "DPQ404", "DPQ105", "DPQ205"}
"""What a random query may be refused for: too large numbers, and bounds beside a range."""


@dataclass(frozen=True)
class Case:
    """The rows of each unit in each table, of the changed unit on both sides, and more."""

    others: dict[str, Units]
    changed: tuple[dict[str, list[Row]], dict[str, list[Row]]]
    loose: dict[str, list[Row]]
    texts: list[str]
    neighbours: Neighbours
    seed: int

    def side(self, number: int, table: str) -> Units:
        return [*self.others[table], self.changed[number][table]]


def _units(random: Random) -> list[Row]:
    return [row(random) for _ in range(random.choice([0, 1, 1, 2, 3]))] * random.choice(
        [1, 1, 1, 2, 20]
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw what is asked; rows follow from a seed, or most examples would have none."""
    texts = draw(st.lists(queries(), min_size=1, max_size=2))
    neighbours = draw(st.sampled_from(Neighbours))
    seed = draw(st.integers(0, 10**6))
    random = Random(seed)
    size = random.randint(0, 3)
    others = {table: [_units(random) for _ in range(size)] for table in "ts"}
    before = {table: _units(random) for table in "ts"}
    after: dict[str, list[Row]] = {table: [] for table in "ts"}
    if neighbours is Neighbours.SUBSTITUTE:
        after = {table: _units(random) for table in "ts"}
    changed = (before, after) if random.random() < 0.5 else (after, before)
    loose = {table: [row(random) for _ in range(random.randint(0, 1))] for table in "ts"}
    return Case(others, changed, loose, texts, neighbours, seed)


@contextmanager
def policies(case: Case) -> Iterator[list[Policy]]:
    """Write both sides, and give a policy for each."""
    order = Random(case.seed)
    with tempfile.TemporaryDirectory() as directory:
        found = []
        for number in (0, 1):
            place = Path(directory) / str(number)
            place.mkdir()
            paths = {
                table: save(
                    case.side(number, table), case.loose[table], SCHEMA, place / table, order
                )
                for table in "ts"
            }
            found.append(policy_over(paths, place, case.neighbours))
        yield found


def plan_of(policy: Policy, public: PublicEngine, text: str) -> Plan:
    """Plan a query, or give the example up where its numbers are too large."""
    source = Source(text)
    try:
        return make_plan(check(bind(parse(source), policy, public), policy), policy, public)
    except QueryRefused as refusal:
        refusal.source = source
        assume(refusal.code not in OUT_OF_REACH)
        raise


def require_promise(case: Case) -> None:
    with policies(case) as sides:
        found = []
        for number, policy in enumerate(sides):
            public = PublicEngine(policy)
            duckdb = DuckDBEngine(
                policy, FaultLog(None), public, threads=1 + (case.seed + number) % 8
            )
            oracle = PythonEngine(policy, FaultLog(None), public)
            try:
                plans = [plan_of(policy, public, text) for text in case.texts]
                expected = [drawn(oracle, plan) for plan in plans]
                assert [drawn(duckdb, plan) for plan in plans] == expected
            finally:
                duckdb.close()
                public.close()
            found.append(expected)
        for before, after in zip(*found, strict=True):
            require_bounded_move(before, after)


@settings(max_examples=25)
@given(cases())
def test_relations_move_by_no_more_than_claimed_and_engines_agree(case: Case):
    require_promise(case)


UNIT = {"i": 7, "j": 2, "d": 1e308, "k": "abc", "b": True}
ROUNDED = "SELECT unit, max((least(d, 70e0) + 6e17) - 6e17) AS y FROM t GROUP BY unit"
INFINITE = "SELECT unit, max(((d * 1e300) * 1e300) * 1e-300) AS y FROM t GROUP BY unit"
LONG = "SELECT unit, 'a' AS c FROM t UNION ALL SELECT unit, 'a longer text' AS c FROM t"
OWN = [
    f"SELECT DP_SUM(y, eps=0.1, bounds=[0, 60]), DP_VAR_POP(y, eps=0.1, bounds=[0, 60]) "
    f"FROM ({ROUNDED}) z",
    f"SELECT DP_SUM(y, eps=0.1) FROM ({ROUNDED}) z",
    f"SELECT DP_SUM(CAST(y AS INTEGER), eps=0.1), DP_SUM(FLOOR(y), eps=0.1) FROM ({ROUNDED}) z",
    f"SELECT DP_SUM(y, eps=0.1, bounds=[0, 9]), DP_MEDIAN(y, eps=0.1, bounds=[0, 9]) "
    f"FROM ({INFINITE}) z",
    f"SELECT DP_SUM(length(c), eps=0.1) FROM (SELECT unit, max(c) AS c FROM ({LONG}) z "
    "GROUP BY unit) y",
]
"""What computed values do at the edges of what is known of them."""


@pytest.mark.parametrize("query", OWN)
@pytest.mark.parametrize("neighbours", Neighbours)
def test_computed_columns_stay_within_their_claims(query: str, neighbours: Neighbours):
    after: dict[str, list[Row]] = {"t": [], "s": []}
    if neighbours is Neighbours.SUBSTITUTE:
        after = {"t": [{**UNIT, "d": -1e308, "k": "a"}], "s": []}
    case = Case(
        {"t": [[UNIT]], "s": [[]]},
        ({"t": [UNIT, UNIT], "s": []}, after),
        {"t": [], "s": []},
        [query],
        neighbours,
        3,
    )
    require_promise(case)


@pytest.mark.slow
@settings(max_examples=2000)
@given(cases())
def test_relations_move_by_no_more_than_claimed_and_engines_agree_at_length(case: Case):
    require_promise(case)
