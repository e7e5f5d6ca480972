"""Charges on parts of the units: no unit loses more than the ledger says.

The loss of a sequence of counts is computed, not estimated: discrete Laplace noise of scale s
tells two integers apart by |a - b| / s exactly, and counts have noise of their own each, so
that their losses add up and are attained together. Every database of a small world is written,
every neighbour of it looked at, and every sequence charged to a ledger. Of a quantile the
logarithms of all odds are computed, in doubles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import log
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from dpquery.budget.accountant import basic
from dpquery.budget.ledger.charge_and_receipt import Ceilings
from dpquery.budget.ledger.ledger import open_ledger
from dpquery.cache.table_identity import promise_of
from dpquery.core.privacy_loss import Ceiling, Neighbours
from dpquery.core.types import INTEGER, TEXT
from dpquery.engine.base import FaultLog
from dpquery.functions.order_statistics.quantile import QuantileRelease
from dpquery.mechanisms import DiscreteGaussian
from dpquery.plan.plan import Plan
from dpquery.policy.model import Column, LedgerSettings, Policy, PolicyBudget
from tests.neighbours import Drawn, drawn, save
from tests.oracle.engine import PythonEngine
from tests.worlds import ALICE, LIMITS, planned, policy_of, private_table

SCHEMA = pa.schema({"unit": pa.int64(), "region": pa.string(), "v": pa.int64()})
REGION = Column("region", TEXT, keys=("N", "S", "W"), max_length=1, per_unit=1)
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

BY_TABLE = tuple(query.replace(")", ", weights='table')", 1) for query in ON_PARTS)
TABLE_MENU = (
    *BY_TABLE,
    "SELECT DP_COUNT(*, eps=0.5, max_rows_contributed=3, weights='table') FROM t "
    "WHERE region = 'N'",
    "SELECT DP_SUM(v, eps=0.8, bounds=[-2, 1], weights='table', max_rows_contributed=2) "
    "FROM t WHERE region IN ('W', 'Q') AND v < 9",
    "SELECT DP_AVG(v, eps=0.7, bounds=[0, 3], weights='table') FROM t WHERE region = 'S'",
    "SELECT DP_QUANTILE(v, 0.8, eps=0.6, bounds=[0, 3], weights='table') FROM t "
    "WHERE region = 'N'",
    "SELECT v, DP_COUNT(*, eps=0.9, weights='table') FROM t WHERE region = 'S' "
    "AND v IN (1, 2) GROUP BY v",
    "SELECT DP_COUNT(*, eps=0.125, weights='table') FROM t WHERE region = 'N' OR v > 0",
    "SELECT DP_COUNT(*, eps=0.25, weights='table'), DP_COUNT(*, eps=0.25) FROM t "
    "WHERE region = 'N'",
    ON_PARTS[1],
    "SELECT region, DP_COUNT(*, eps=0.2, weights='table') FROM t GROUP BY region",
)


@dataclass(frozen=True)
class World:
    """What some queries count where one unit has each of the things that it can have."""

    policy: Policy
    plans: Mapping[str, Plan]
    exact: Mapping[str, Sequence[Sequence[Drawn]]]
    """By query: what each release is given, for each content of the unit."""

    def loss(self, asked: Sequence[str]) -> Fraction:
        """Return the most that a sequence of queries tells of a unit, over all neighbours."""
        absent = self.policy.neighbours is Neighbours.ADD_REMOVE
        pairs = product(range(len(UNITS)), [0] if absent else range(len(UNITS)))
        return max(sum((self._lost(q, a, b) for q in asked), Fraction(0)) for a, b in pairs)

    def _lost(self, query: str, a: int, b: int) -> Fraction:
        pairs = zip(self.exact[query][a], self.exact[query][b], strict=True)
        return sum((lost(before, after) for before, after in pairs), Fraction(0))

    def total(self, asked: Sequence[str]) -> Fraction:
        """Return what a ledger says of them."""
        with closing(open_ledger(LedgerSettings(None), promise_of(self.policy))) as ledger:
            limits = Ceilings(self.policy.budget.ceiling)
            for query in asked:
                ledger.charge(self.plans[query].charge, limits, ALICE)
            ledger.verify()
            total = ledger.standing(limits, ALICE).total
            return total.loss.epsilon if total.summed else total.rho


def lost(before: Drawn, after: Drawn) -> Fraction:
    """Return what one release tells between two sides: of a quantile, by less than 1e-9 less.

    Of Gaussian noise that is its rho.
    """
    if isinstance(before.release, QuantileRelease):
        law = before.release.mechanism.pmf
        odds = zip(law(before.given[0]), law(after.given[0]), strict=True)
        return Fraction(max(abs(log(p / q)) for p, q in odds)) - Fraction(1, 10**10)
    (one,), (other,) = before.given, after.given
    moved = [abs(x - y) for x, y in zip(one, other, strict=True)]
    noise = before.release.mechanism  # type: ignore[union-attr]
    if isinstance(noise, DiscreteGaussian):
        return sum(size**2 for size in moved) / (2 * noise.sigma2)
    return Fraction(sum(moved)) / noise.scale


def world(
    place: Path,
    neighbours: Neighbours,
    region: Column = REGION,
    menu: Sequence[str] = MENU,
    ceiling: Ceiling = LIMITS.policy,
) -> World:
    """Count all queries of a menu for every content of a unit beside the others."""
    columns = [region if c is REGION else c for c in COLUMNS]
    paths = [place / "1.parquet", place / "2.parquet"]
    policy = policy_of(private_table(paths, columns), neighbours)
    policy = replace(policy, budget=PolicyBudget(ceiling))
    plans = {query: planned(policy, query) for query in menu}
    exact: dict[str, list[list[Drawn]]] = {query: [] for query in menu}
    for content in UNITS:
        units = [[{"region": r, "v": 1} for r in held] for held in (*OTHERS, content)]
        save(units, [{"region": "N", "v": 1}], SCHEMA, place, Random(1))
        engine = PythonEngine(policy, FaultLog(None))
        for query, plan in plans.items():
            exact[query].append(drawn(engine, plan))
    return World(policy, plans, exact)


@pytest.fixture(scope="module", params=Neighbours)
def parted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("parts"), request.param)


@pytest.fixture(scope="module", params=Neighbours)
def by_table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    region = replace(REGION, per_unit=None, parts_rows=True)
    return world(tmp_path_factory.mktemp("tables"), request.param, region, TABLE_MENU)


def sequences(menu: Sequence[str], parts: tuple[str, ...], most: int) -> list[tuple[str, ...]]:
    """Some queries at a time, as many as are said, and all of them at once."""
    sizes = range(1, most + 1)
    few = [s for n in sizes for s in combinations_with_replacement(menu, n)]
    return [*few, parts, (*parts, *parts), tuple(menu), tuple(menu[:5])]


def test_no_sequence_tells_more_of_a_unit_than_the_ledger_says(parted: World):
    for asked in sequences(MENU, ON_PARTS, 3):
        assert parted.loss(asked) <= parted.total(asked), asked


def test_what_the_ledger_says_of_parts_is_what_is_lost(parted: World):
    twice = 1 if parted.policy.neighbours is Neighbours.ADD_REMOVE else 2
    assert parted.total(ON_PARTS) == parted.loss(ON_PARTS) == twice
    assert parted.total(MENU[:4]) == parted.loss(MENU[:4]) == twice


@pytest.fixture(scope="module", params=Neighbours)
def in_two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("two"), request.param, replace(REGION, per_unit=2))


def test_no_sequence_tells_more_of_a_unit_of_two_parts_than_the_ledger_says(in_two: World):
    for asked in sequences(MENU, ON_PARTS, 2):
        assert in_two.loss(asked) <= in_two.total(asked), asked


def test_the_two_largest_parts_are_lost_by_a_unit_that_has_both(in_two: World):
    """Of three parts it keeps two; replaced, they are those of both units."""
    absent = in_two.policy.neighbours is Neighbours.ADD_REMOVE
    assert in_two.loss(ON_PARTS) == (2 if absent else Fraction(11, 4))
    assert in_two.total(ON_PARTS) == in_two.loss(ON_PARTS)


def test_the_largest_part_alone_is_too_little_where_units_keep_all_rows(
    tmp_path: Path, parted: World
):
    """A unit with a row in each part loses on all three: the naive rule fails."""
    free = world(tmp_path, parted.policy.neighbours, replace(REGION, per_unit=None), ON_PARTS)
    naive = max(loss_of(free.plans[query]) for query in ON_PARTS)
    assert (naive, free.loss(ON_PARTS)) == (1, Fraction(11, 4))
    assert free.loss(ON_PARTS) > parted.total(ON_PARTS)
    assert free.total(ON_PARTS) == Fraction(11, 4)


def test_rows_weighed_by_the_table_tell_no_more_of_a_unit_than_the_ledger_says(by_table: World):
    for asked in sequences(TABLE_MENU, BY_TABLE, 2):
        assert by_table.loss(asked) <= by_table.total(asked), asked


def test_so_it_is_with_gaussian_noise_in_rho(tmp_path: Path, by_table: World):
    in_rho = Ceiling.in_rho(Fraction(1000), Fraction(1, 10**6), Fraction(1, 2))
    where, options = "FROM t WHERE region =", "weights='table', max_rows_contributed"
    menu = (
        *(f"SELECT DP_COUNT(*, rho=0.5, {options}=2) {where} '{of}'" for of in "NSW"),
        f"SELECT DP_SUM(v, rho=0.25, bounds=[-2, 1], {options}=1) {where} 'N'",
        f"SELECT DP_AVG(v, rho=0.25, bounds=[0, 3], {options}=3) {where} 'S'",
        f"SELECT v, DP_SUM(v, rho=0.25, {options}=1, bounds=[0, 3]) {where} 'W' "
        "AND v IN (1, 2) GROUP BY v",
    )
    region, neighbours = (
        replace(REGION, per_unit=None, parts_rows=True),
        by_table.policy.neighbours,
    )
    of_rho = world(tmp_path, neighbours, region, menu, in_rho)
    for asked in sequences(menu, menu[:3], 2):
        assert of_rho.loss(asked) <= of_rho.total(asked), asked


def test_what_the_ledger_says_of_weights_by_the_table_is_attained(by_table: World):
    """By a unit with all rows in one part, or in two of them before and after."""
    twice = 1 if by_table.policy.neighbours is Neighbours.ADD_REMOVE else 2
    assert by_table.total(BY_TABLE) == by_table.loss(BY_TABLE) == twice


def test_the_largest_part_alone_is_too_little_where_weights_follow_where(
    tmp_path: Path, by_table: World
):
    """A row in each part then weighs as much in each query as if it were alone."""
    region = replace(REGION, per_unit=None, parts_rows=True)
    free = world(tmp_path, by_table.policy.neighbours, region, ON_PARTS)
    assert free.loss(ON_PARTS) == free.total(ON_PARTS) == Fraction(11, 4)
    assert free.loss(ON_PARTS) > by_table.total(BY_TABLE)


def loss_of(plan: Plan) -> Fraction:
    return basic(plan.charge.events).epsilon
