"""Charges on parts of the units: no unit loses more than the ledger says.

The loss of a sequence of counts is computed, not estimated: discrete Laplace noise of scale s
tells two integers apart by |a - b| / s exactly, and counts have noise of their own each, so
that their losses add up and are attained together. Every database of a small world is written,
every neighbour of it looked at, and every sequence charged to a ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from dpquery.budget.accountant import basic
from dpquery.budget.ledger import open_ledger
from dpquery.budget.orders import promise_of
from dpquery.engine.base import FaultLog
from dpquery.engine.python.engine import PythonEngine
from dpquery.plan import Plan
from dpquery.policy.model import Column, LedgerSettings, Policy
from dpquery.privacy import Neighbours
from dpquery.types import INTEGER, TEXT
from tests.neighbours import drawn, save
from tests.worlds import ALICE, LIMITS, planned, policy_of, private_table

SCHEMA = pa.schema({"unit": pa.int64(), "region": pa.string(), "v": pa.int64()})
REGION = Column("region", TEXT, keys=("N", "S", "W"), max_length=1, per_unit=True)
COLUMNS = (Column("unit", INTEGER), REGION, Column("v", INTEGER))
VALUES = ["N", "South", "W", None]
"""What rows hold: South is cut to S, and NULL is a part of its own."""
UNITS = [held for size in range(3) for held in combinations_with_replacement(VALUES, size)] + [
    ("N", "South", "W"),
    ("W", None, "W", "South"),
]
"""What a unit can have; the first has nothing, which is as if it were not there."""
OTHERS: Sequence[tuple[str | None, ...]] = [("N", "South")]

ON_PARTS = (
    "SELECT DP_COUNT(*, eps=1) FROM t WHERE region = 'N'",
    "SELECT DP_COUNT(*, eps=1) FROM t WHERE region = 'S'",
    "SELECT DP_COUNT(*, eps=0.75) FROM t WHERE region = 'W'",
)
MENU = (
    *ON_PARTS,
    "SELECT DP_COUNT(*, eps=0.5) FROM t WHERE region = 'Q' AND v < 9",
    "SELECT DP_COUNT(*, eps=0.25) FROM t WHERE region IN ('N', 'W')",
    "SELECT DP_COUNT(*, eps=0.125) FROM t WHERE region = 'N' OR v > 0",
    "SELECT DP_COUNT(*, eps=2) FROM t WHERE region <> 'N'",
    "WITH z AS (SELECT unit, region AS r, count(*) AS n FROM t GROUP BY unit, region) "
    "SELECT DP_COUNT(*, eps=0.4) FROM z WHERE n > 1 AND r = 'S'",
    "SELECT DP_COUNT(*, eps=0.3) FROM t WHERE region IS NULL",
    "SELECT region, DP_COUNT(*, eps=0.2) FROM t GROUP BY region",
)


@dataclass(frozen=True)
class World:
    """What some queries count where one unit has each of the things that it can have."""

    policy: Policy
    plans: Mapping[str, Plan]
    exact: Mapping[str, Sequence[Sequence[int]]]
    """By query: the integers of each group, for each content of the unit."""

    def loss(self, asked: Sequence[str]) -> Fraction:
        """Give the most that a sequence of queries tells of a unit, over all neighbours."""
        absent = self.policy.neighbours is Neighbours.ADD_REMOVE
        pairs = product(range(len(UNITS)), [0] if absent else range(len(UNITS)))
        return max(sum((self._lost(q, a, b) for q in asked), Fraction(0)) for a, b in pairs)

    def _lost(self, query: str, a: int, b: int) -> Fraction:
        (planned_,) = self.plans[query].frontiers[0].releases
        before, after = self.exact[query][a], self.exact[query][b]
        moved = sum(abs(x - y) for x, y in zip(before, after, strict=True))
        return Fraction(moved) / planned_.release.noise.scale  # type: ignore[attr-defined]

    def total(self, asked: Sequence[str]) -> Fraction:
        """Give what a ledger says of them."""
        with closing(open_ledger(LedgerSettings(None), promise_of(self.policy))) as ledger:
            for query in asked:
                ledger.charge(self.plans[query].charge, LIMITS, ALICE)
            ledger.verify()
            return ledger.standing(LIMITS, ALICE).spent.epsilon


def world(place: Path, neighbours: Neighbours, *, per_unit: bool = True) -> World:
    """Count all queries of the menu for every content of a unit beside the others."""
    columns = [replace(c, per_unit=per_unit and c.per_unit) for c in COLUMNS]
    paths = [place / "1.parquet", place / "2.parquet"]
    policy = policy_of(private_table(paths, columns), neighbours)
    plans = {query: planned(policy, query) for query in MENU}
    exact: dict[str, list[list[int]]] = {query: [] for query in MENU}
    for content in UNITS:
        units = [[{"region": r, "v": 1} for r in held] for held in (*OTHERS, content)]
        save(units, [{"region": "N", "v": 1}], SCHEMA, place, Random(1))
        engine = PythonEngine(policy, FaultLog(None))
        for query, plan in plans.items():
            exact[query].append(_counted(engine, plan))
    return World(policy, plans, exact)


def _counted(engine: PythonEngine, plan: Plan) -> list[int]:
    ((integers,),) = (one.given for one in drawn(engine, plan))
    return integers


@pytest.fixture(scope="module", params=Neighbours)
def parted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("parts"), request.param)


def sequences() -> list[tuple[str, ...]]:
    """All queries up to three at a time, and all of them at once."""
    few = [s for n in (1, 2, 3) for s in combinations_with_replacement(MENU, n)]
    return [*few, ON_PARTS, (*ON_PARTS, *ON_PARTS), MENU, MENU[:5]]


def test_no_sequence_tells_more_of_a_unit_than_the_ledger_says(parted: World):
    for asked in sequences():
        assert parted.loss(asked) <= parted.total(asked), asked


def test_what_the_ledger_says_of_parts_is_what_is_lost(parted: World):
    twice = 1 if parted.policy.neighbours is Neighbours.ADD_REMOVE else 2
    assert parted.total(ON_PARTS) == parted.loss(ON_PARTS) == twice
    assert parted.total(MENU[:4]) == parted.loss(MENU[:4]) == twice


def test_the_largest_part_alone_is_too_little_where_units_keep_all_rows(
    tmp_path: Path, parted: World
):
    """A unit with a row in each part loses on all three: the naive rule fails."""
    free = world(tmp_path, parted.policy.neighbours, per_unit=False)
    naive = max(loss_of(free.plans[query]) for query in ON_PARTS)
    assert (naive, free.loss(ON_PARTS)) == (1, Fraction(11, 4))
    assert free.loss(ON_PARTS) > parted.total(ON_PARTS)
    assert free.total(ON_PARTS) == Fraction(11, 4)


def loss_of(plan: Plan) -> Fraction:
    return basic(plan.charge.events).epsilon
