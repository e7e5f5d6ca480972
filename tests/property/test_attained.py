"""Claimed sensitivities are attained: less would break the promise, more would be waste.

A crowd of units and one more, drawn from the corners of what a unit can be; between any two of
these tables the exact side of each release moves by no more than is claimed, and between some
two by as much. Mistakes in weights, sums and claims are then caught one by one.
"""

from __future__ import annotations

import atexit
import pkgutil
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import BOOLEAN, INTEGER, TEXT
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.ir import sensitivity as claims
from dpquery.ir.measures import CountUnits, Measure, UnitTotals, Weight
from dpquery.policy.model import Bounds, Column, Policy
from tests.neighbours import Drawn, Row, Units, drawn, move, save
from tests.oracle import engine as oracle
from tests.oracle.totals import Totals
from tests.worlds import planned, policy_of, private_table

SCHEMA = pa.schema(
    {"unit": pa.int64(), "g": pa.string(), "x": pa.int64(), "y": pa.int64(), "b": pa.bool_()}
)
COLUMNS = (
    Column("g", TEXT, keys=("a", "b", "c", "d")),
    Column("x", INTEGER, Bounds(-5, 7)),
    Column("y", INTEGER, Bounds(2, 9)),
    Column("b", BOOLEAN),
)
GAUSSIAN = "mechanism='gaussian', delta=1e-6, "
CALLS = [
    f"DP_{call}{mechanism}eps=1){kept}"
    for mechanism in ("", GAUSSIAN)
    for call, kept in {
        "COUNT(*, ": "",
        "COUNT(y, ": "",
        "COUNT_IF(b, ": "",
        "COUNT(DISTINCT unit, ": " FILTER (WHERE b)",
        "SUM(x, ": "",
        "SUM(y, ": "",
        "SUM(x, bounds=[-4, 4], ": "",
        "SUM(-y, ": "",
        "AVG(x, ": "",
        "AVG(y, ": "",
        "PROPORTION(b, ": "",
        "VAR_POP(x, ": "",
        "STDDEV_SAMP(y, ": "",
        "COUNT(*, contribution_bounds_per_group=[0, 1], ": "",
        "COUNT_IF(b, contribution_bounds_per_group=(2, 2), max_groups_contributed=1, ": "",
        "SUM(y, contribution_bounds_per_group=[1, 3], ": " FILTER (WHERE b)",
        "SUM(x, contribution_bounds_per_group=[-4, 4], ": "",
        "SUM(x, contribution_bounds_per_group=[-4, 4], max_groups_contributed=4, ": "",
        "COUNT(DISTINCT unit, max_groups_contributed=1, ": "",
        "COUNT(DISTINCT y, ": "",
        "COUNT(DISTINCT g, max_rows_contributed=1, ": " FILTER (WHERE y = 2)",
        "SUM(DISTINCT y, max_rows_contributed=1, ": "",
        "SUM(DISTINCT -y, max_rows_contributed=1, ": "",
        "AVG(DISTINCT y, max_rows_contributed=1, ": "",
        "VAR_POP(DISTINCT y, max_rows_contributed=1, ": "",
    }.items()
] + [
    f"DP_QUANTILE(x, {order}, eps=1)" for order in ("0", "0.1", "0.5", "0.9", "1", "[0.1, 0.9]")
]
CALLS += ["DP_MODE(x, eps=1)", "DP_MODE(g, eps=1)", "DP_MAJORITY(b, eps=1)"]
CALLS += ["DP_TOP_K(x, 2, eps=1)", "DP_TOP_K(g, 1, eps=1)"]
CALLS += ["DP_MIN(x, eps=1)", "DP_MAX(y, eps=1)", "DP_FIRST_ABOVE(x, 9, eps=1)"]
WORLDS = [
    (Neighbours.SUBSTITUTE, True, "one row per unit"),
    *(
        pytest.param(relation, grouped, kind, marks=pytest.mark.slow)
        for kind in ("weights", "one row per unit")
        for relation, grouped in product(Neighbours, [False, True])
        if (kind, relation, grouped) != ("one row per unit", Neighbours.SUBSTITUTE, True)
    ),
]
LIMIT = 2


def rows(**cells: tuple[object, ...]) -> list[Row]:
    """Return every row with one of these cells in each column."""
    return [dict(zip(cells, row, strict=True)) for row in product(*cells.values())]


CROWD: Units = [[row] for row in rows(g=("a", "b", "c", "d"), x=(-5,) * 6 + (7,) * 2)]
"""Enough low values that the rank of each order lies inside the crowd."""
CORNERS = [
    {"g": group, "x": x, "y": y, "b": b}
    for group in "ab"
    for x, y, b in ((-5, 2, False), (-5, 9, True), (7, 2, True), (7, None, False))
]
NOBODY: Row = {"g": "a", "x": None, "y": None, "b": None}
SPREAD: Units = [
    [{"g": group, "x": 7, "y": 9, "b": True} for group in groups]
    for groups in ("ab", "cd", "abc", "abcd")
] + [
    [{"g": group, "x": -5, "y": 9, "b": True} for group in groups] for groups in ("ab", "abcd")
]
SPREAD += [[{"g": g, "x": 7, "y": y, "b": True} for y in (9, 2)] for g in "ab"]


def units(kind: str) -> Units:
    """Return what one unit may be: nothing, corners, and with weights several rows."""
    if kind == "one row per unit":
        return [[row] for row in (NOBODY, *CORNERS)]
    return [*([row] * LIMIT for row in (NOBODY, *CORNERS)), *SPREAD, [CORNERS[-1]] * 3]


@dataclass(frozen=True)
class Seen:
    """What the releases of one query are given, with each of the units beside the crowd."""

    nobody: list[Drawn]
    others: list[list[Drawn]]

    def pairs(self, neighbours: Neighbours) -> Iterator[tuple[list[Drawn], list[Drawn]]]:
        """Return the pairs of neighbours; a unit with no row that counts is as good as none."""
        if neighbours is Neighbours.ADD_REMOVE:
            return ((self.nobody, other) for other in self.others)
        return combinations([self.nobody, *self.others], 2)


@cache
def tables(kind: str) -> list[list[Path]]:
    """Write a table for each of the units beside the crowd, once for all that asks of them."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return [
        save([*CROWD, unit], [], SCHEMA, folder / str(number), Random(7))
        for number, unit in enumerate(units(kind))
    ]


def looked_at(
    neighbours: Neighbours, grouped: bool, kind: str, calls: list[str], look: Callable
) -> Seen:
    """Ask the same calls of every table."""
    where = "WHERE x IS NOT NULL" + (" GROUP BY g" if grouped else "")
    settings = {"single": kind != "weights", "max_rows_contributed": LIMIT}
    found = []
    for paths in tables(kind):
        policy = policy_of(private_table(paths, COLUMNS, **settings), neighbours)
        found.append(look(policy, f"SELECT {', '.join(calls)} FROM t {where}"))
    return Seen(found[0], found[1:])


def by_oracle(policy: Policy, sql: str) -> list[Drawn]:
    return drawn(oracle.PythonEngine(policy, FaultLog(None)), planned(policy, sql))


def by_both(policy: Policy, sql: str) -> list[Drawn]:
    engine = DuckDBEngine(policy, FaultLog(None))
    found = drawn(engine, planned(policy, sql))
    engine.close()
    assert found == by_oracle(policy, sql)
    return found


def furthest(seen: Seen, neighbours: Neighbours, index: int) -> tuple[Fraction, Fraction]:
    """Return how far one release moves between any two neighbours, and its claim, squared."""
    moves = [move(a[index], b[index]) for a, b in seen.pairs(neighbours)]
    (claimed,) = {claim for _, claim in moves}
    return max(moved for moved, _ in moves), claimed


@pytest.mark.parametrize(("neighbours", "grouped", "kind"), WORLDS)
def test_a_sensitivity_is_attained_and_never_passed(neighbours, grouped, kind):
    """Roots are rounded up to a multiple of 2^-32: their squares by less than one in 2^30."""
    seen = looked_at(neighbours, grouped, kind, CALLS, by_both)
    for index, call in enumerate(CALLS):
        moved, claimed = furthest(seen, neighbours, index)
        assert moved <= claimed, call
        assert moved >= claimed * (1 - Fraction(1, 2**30)), call


def half(claim: Callable[..., int | Fraction]) -> Callable[..., int | Fraction]:
    """Claim half, which would halve the noise."""
    return lambda *args, **facts: -(-claim(*args, **facts) // 2)


def as_if_ungrouped(claim: Callable[..., int | Fraction]) -> Callable[..., int | Fraction]:
    """Forget that a replaced unit leaves one group and enters another."""
    return lambda *args, **facts: claim(*args, **{**facts, "grouped": False})


def as_if_added(claim: Callable[..., int | Fraction]) -> Callable[..., int | Fraction]:
    """Forget that a replaced unit is two."""
    return lambda measure, _, *rest, **facts: claim(
        measure, Neighbours.ADD_REMOVE, *rest, **facts
    )


def of_degree_one(measure: Measure, neighbours: Neighbours) -> int:
    """Claim K where vectors of degree two move by K^2."""
    assert measure.degree == 2
    return claims.simplex_sensitivity(replace(measure, degree=1), neighbours)


def scale_from_the_data(self: Totals, measure: Measure) -> tuple[int, ...]:
    """A file whose units happen to have one row each is counted without weights."""
    cells = TOTAL(self, measure)
    if max(self._count.values()) > 1:
        return cells
    return tuple(cell // measure.weight.scale for cell in cells)


def no_limit(weight: Weight, rows: int) -> int:
    """Each row of a unit counts in full, however many there are."""
    assert rows
    return weight.scale


def rounded_up(weight: Weight, rows: int) -> int:
    """Weights that add up to a little more than the limit."""
    return min(weight.scale, -(-weight.scale * weight.limit // rows))


def unspread(self: Totals, measure: CountUnits, sums: list[int]) -> None:
    """Count a unit in full in each of its groups."""
    pairs = {(unit, group) for unit, group, _ in self._met(measure.condition)}
    for _, group in pairs:
        sums[group] += measure.weight.scale


def one_more(choose: Callable[..., object]) -> Callable[..., object]:
    """Let a unit stand for more of its values than the limit."""
    return lambda pairs, limit, *rest: choose(pairs, limit + 1, *rest)


def unclamped(self: Totals, measure: UnitTotals, sums: list[int]) -> None:
    """Clamp no more than the rows of a unit in a group."""
    widest = replace(measure, low=-1000, high=1000)
    ADD_TOTALS(self, widest, sums)


TOTAL, ADD_TOTALS = Totals.of, Totals._add_totals
ADD, SUBSTITUTE = Neighbours
L1, L2 = (
    f"dpquery.functions.additive_releases.{name}" for name in ("sensitivity", "l2_sensitivity")
)
VECTOR, VECTOR_L2 = (
    f"dpquery.functions.moments.mean_variance.{name}"
    for name in ("simplex_sensitivity", "simplex_l2_sensitivity")
)
RANK = "dpquery.functions.order_statistics.quantile.rank_range"
LISTED = "dpquery.functions.order_statistics.quantile.sensitivity"
WEIGHT, PLACED, TOTALS, SPREADING, CLAMPING = (
    f"tests.oracle.totals.{name}"
    for name in (
        *("row_weight", "placed_with_units", "Totals.of"),
        *("Totals._add_units", "Totals._add_totals"),
    )
)
ROWS, UNITS = "DP_COUNT(*, eps=1)", "DP_COUNT(DISTINCT unit, eps=1)"
NOISY_ROWS, NOISY_SUM, NOISY_SPREAD = (
    f"DP_{call}, {GAUSSIAN} eps=1)" for call in ("COUNT(*", "SUM(y", "STDDEV(x")
)
SUM, MEAN, VARIANCE, HIGH, LIST = (
    f"DP_{call}, eps=1)"
    for call in ("SUM(x", "AVG(x", "VAR_POP(x", "QUANTILE(x, 0.9", "QUANTILE(x, [0.1, 0.9]")
)
CLAMPED, NOISY_CLAMPED = (
    f"DP_SUM(x, {noise}contribution_bounds_per_group=[-4, 4], eps=1)"
    for noise in ("", GAUSSIAN)
)
DIFFERENT, OF_DIFFERENT, MEAN_OF_DIFFERENT = (
    f"DP_{call}(DISTINCT y, max_rows_contributed=1, eps=1)" for call in ("COUNT", "SUM", "AVG")
)
MISTAKES = {
    # what is wrong: where, how, in which query, of which neighbours, with groups or without
    "half of a count": (L1, half, ROWS, ADD, False),
    "half of a sum": (L1, half, SUM, SUBSTITUTE, False),
    "half of a norm": (L2, half, NOISY_SUM, ADD, True),
    "half of a vector": (VECTOR, half, MEAN, ADD, False),
    "half of a rank": (RANK, half, HIGH, ADD, True),
    "half of a list": (LISTED, half, LIST, ADD, False),
    "a replaced unit is two, in a list": (LISTED, as_if_added, LIST, SUBSTITUTE, False),
    "K for K^2": (VECTOR, lambda _: of_degree_one, VARIANCE, ADD, False),
    "groups of a count": (L1, as_if_ungrouped, ROWS, SUBSTITUTE, True),
    "groups of a sum": (L1, as_if_ungrouped, SUM, SUBSTITUTE, True),
    "groups of units": (L1, as_if_ungrouped, UNITS, SUBSTITUTE, True),
    "groups of a norm": (L2, as_if_ungrouped, NOISY_ROWS, SUBSTITUTE, True),
    "groups of a rank": (RANK, as_if_ungrouped, HIGH, SUBSTITUTE, True),
    "a replaced unit is two": (VECTOR, as_if_added, MEAN, SUBSTITUTE, False),
    "a replaced unit is two, by norm": (VECTOR_L2, as_if_added, NOISY_SPREAD, SUBSTITUTE, True),
    "scale from the data": (TOTALS, lambda _: scale_from_the_data, ROWS, ADD, False),
    "no limit": (WEIGHT, lambda _: no_limit, SUM, ADD, False),
    "no limit of a rank": (WEIGHT, lambda _: no_limit, HIGH, ADD, True),
    "weights rounded up": (WEIGHT, lambda _: rounded_up, ROWS, ADD, True),
    "half of a total": (L1, half, CLAMPED, SUBSTITUTE, False),
    "groups of a total": (L1, as_if_ungrouped, CLAMPED.replace("[-4", "[0"), SUBSTITUTE, True),
    "groups of the norm of totals": (L2, as_if_added, NOISY_CLAMPED, SUBSTITUTE, True),
    "no clamp": (CLAMPING, lambda _: unclamped, CLAMPED, ADD, True),
    "no limit of groups": (WEIGHT, lambda _: no_limit, CLAMPED, ADD, True),
    "half of different values": (L1, half, "DP_COUNT(DISTINCT y, eps=1)", ADD, False),
    "half of a sum of these": (L1, half, OF_DIFFERENT, ADD, False),
    "groups of these": (L1, as_if_ungrouped, OF_DIFFERENT, SUBSTITUTE, True),
    "a replaced unit is two, in their mean":
        (VECTOR, as_if_added, MEAN_OF_DIFFERENT, SUBSTITUTE, False),
    "one more of different values": (PLACED, one_more, DIFFERENT, ADD, False),
    "one more, summed": (PLACED, one_more, OF_DIFFERENT, SUBSTITUTE, True),
    "units in full in each group": (SPREADING, lambda _: unspread, UNITS, ADD, True),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "wrong", "call", "neighbours", "grouped"), MISTAKES.values(), ids=MISTAKES.keys()
)
def test_a_mistake_is_caught(monkeypatch, name, wrong, call, neighbours, grouped):
    """The same tables pass as things are, and fail with the mistake in place."""

    def passes() -> bool:
        seen = looked_at(neighbours, grouped, "weights", [call], by_oracle)
        moved, claimed = furthest(seen, neighbours, 0)
        return moved <= claimed

    assert passes()
    monkeypatch.setattr(name, wrong(pkgutil.resolve_name(name)))
    assert not passes()
