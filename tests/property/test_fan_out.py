"""Rows that meet several rows of a public table: every unit of a small world, every neighbour.

In t a unit has up to two rows, and in o one at most. What the exact integers move by is held
against the claim for all pairs of neighbours, and some pair attains it where a unit is added or
removed: neither is the claim short, nor is it more than what is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from pathlib import Path
from random import Random

import pytest

from dpquery.budget.ledger.ledger import Ledger, open_ledger
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Source
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.plan.plan import Plan, make_plan
from dpquery.policy.model import LedgerSettings, Policy
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.privacy_rules import check
from tests.neighbours import Drawn, Row, drawn, move, save
from tests.oracle.engine import PythonEngine
from tests.relations import SCHEMA, TABLES, policy_over

PLAIN: Row = {"i": 100, "j": 1, "d": 0.5, "k": "a", "c": 18300}
ROWS = [{**PLAIN, "k": key} for key in ("a", "b", None)]
"""Of regions, one has the zone a, two have b, and none has NULL."""
UNITS: dict[str, list[list[Row]]] = {
    table: [list(u) for n in range(most + 1) for u in combinations_with_replacement(ROWS, n)]
    for table, most in (("t", 2), ("o", 1))
}
OTHER = [ROWS[1]]
FAN_OUT = {
    "by a column": "{} x JOIN regions r ON x.k = r.zone",
    "kept": "{} x LEFT JOIN regions r ON x.k = r.zone",
    "crossed": "{} x CROSS JOIN regions r",
    "derived": "{} x LEFT JOIN (SELECT zone, MAX(size) AS m FROM regions GROUP BY zone, name)"
    " r ON x.k = r.zone",
    "listed": "{} x, UNNEST([x.k, 'a', 'b', 'a']) r(zone) WHERE r.zone IN ('a', 'b')",
    "parts": "{} x, UNNEST(string_split('b' || x.k || 'a', 'b')) r(zone)"
    " WHERE r.zone IN ('', 'a', 'aa')",
}
ASKED = {
    "counted": "SELECT DP_COUNT(*, eps=1) FROM {}",
    "summed": "SELECT DP_SUM(x.i, eps=1) FROM {}",
    "grouped": "SELECT r.zone, DP_COUNT(*, eps=1) FROM {} GROUP BY r.zone",
    "limited": "SELECT DP_COUNT(*, eps=1, max_rows_contributed=1) FROM {}",
    "units": "SELECT r.zone, DP_COUNT(DISTINCT x.unit, eps=1) FROM {} GROUP BY r.zone",
}


class World:
    """One place, in which the rows of one unit are written anew."""

    def __init__(self, place: Path) -> None:
        for table in TABLES:
            (place / table).mkdir()
        self.place = place
        paths = {t: [place / t / f"{n}.parquet" for n in (1, 2)] for t in TABLES}
        self.policy = policy_over(paths, place, Neighbours.ADD_REMOVE)
        self.public = PublicEngine(self.policy)
        self.ledger: Ledger = open_ledger(LedgerSettings(None))
        log = FaultLog(place / "faults")
        self.oracle = PythonEngine(self.policy, log, self.public)
        self.duckdb = DuckDBEngine(self.policy, log, self.public, 1)

    def close(self) -> None:
        for engine in (self.duckdb, self.public, self.ledger):
            engine.close()

    def plan(self, text: str, neighbours: Neighbours) -> Plan:
        policy = self.policy
        policy = Policy(policy.name, neighbours, policy.budget, policy.tables, policy.ledger)
        bound = bind(parse(Source(text)), policy, self.public)
        return make_plan(check(bound, policy), policy, self.public)

    def drawn(self, plan: Plan, table: str, unit: list[Row] | None) -> list[Drawn]:
        own = [OTHER, *([] if unit is None else [unit])]
        save(own, [], SCHEMA, self.place / table, Random(0))
        found = drawn(self.oracle, plan, self.ledger)
        assert drawn(self.duckdb, plan, self.ledger) == found
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("fan_out"))
    yield made
    made.close()


def furthest(pairs: list[tuple[list[Drawn], list[Drawn]]]) -> tuple[Fraction, Fraction]:
    """Return how far the release of a plan moves, squared, and how far it may."""
    moves = [move(a, b) for before, after in pairs for a, b in zip(before, after, strict=True)]
    (claimed,) = {claim for _, claim in moves}
    return max(far for far, _ in moves), claimed


@pytest.mark.parametrize("fan_out", FAN_OUT)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("table", UNITS)
def test_no_neighbour_moves_a_release_by_more_than_claimed(
    world: World, table: str, asked: str, fan_out: str
):
    text = ASKED[asked].format(FAN_OUT[fan_out].format(table))
    plan = world.plan(text, Neighbours.ADD_REMOVE)
    without, *found = (world.drawn(plan, table, unit) for unit in (None, *UNITS[table]))
    far, claimed = furthest([(without, one) for one in found])
    assert far <= claimed
    # of t, and of parts, more rows may count than here are
    if table == "o" and asked != "units" and fan_out != "parts":
        assert far == claimed
    plan = world.plan(text, Neighbours.SUBSTITUTE)
    found = [world.drawn(plan, table, unit) for unit in UNITS[table]]
    far, claimed = furthest(list(combinations(found, 2)))
    assert far <= claimed


@pytest.mark.parametrize(
    ("fan_out", "limit"),
    [("by a column", 2), ("crossed", 4), ("derived", 2), ("listed", 4), ("parts", 6)],
)
def test_one_row_per_unit_is_several_rows_then(world: World, fan_out: str, limit: int):
    text = ASKED["counted"].format(FAN_OUT[fan_out].format("o"))
    (frontier,) = world.plan(text, Neighbours.ADD_REMOVE).frontiers
    assert not frontier.scan.contribution.single
    assert frontier.scan.contribution.limit == limit
