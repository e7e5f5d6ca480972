"""Claimed sensitivities are attained: less would break the promise, more would be waste.

A crowd of units and one more, drawn from the corners of what a unit can be; between any two of
these tables the exact side of each release moves by no more than is claimed, and between some
two by as much. Mistakes in weights, sums and claims are then caught one by one.
"""

from __future__ import annotations

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

from dpquery import sensitivity as claims
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private import DuckDBEngine
from dpquery.engine.python import engine as oracle
from dpquery.engine.python import totals
from dpquery.engine.python.totals import Totals
from dpquery.ir import CountUnits, Measure, Weight
from dpquery.mechanisms import rank_range
from dpquery.policy.model import Bounds, Column, Policy
from dpquery.privacy import Neighbours
from dpquery.types import BOOLEAN, INTEGER, TEXT
from tests.neighbours import Drawn, Row, Units, drawn, move, save
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
    }.items()
] + [f"DP_QUANTILE(x, {order}, eps=1)" for order in ("0", "0.1", "0.5", "0.75", "1")]
WORLDS = list(product(Neighbours, [False, True], ["weights", "one row per unit"]))
LIMIT = 2


def rows(**cells: tuple[object, ...]) -> list[Row]:
    """Give every row with one of these cells in each column."""
    return [dict(zip(cells, row, strict=True)) for row in product(*cells.values())]


CROWD: Units = [[row] for row in rows(g=("a", "b", "c", "d"), x=(-5,) * 15 + (7,) * 5)]
"""Enough low values that the rank of each order lies inside the crowd."""
CORNERS = rows(g=("a", "b"), x=(-5, 7), y=(2, 9, None), b=(True, False))[::2] + rows(
    g=("a", "b"), x=(-5, 7), y=(9,), b=(True,)
)
NOBODY: Row = {"g": "a", "x": None, "y": None, "b": None}
SPREAD: Units = [
    [{"g": group, "x": 7, "y": 9, "b": True} for group in groups]
    for groups in ("ab", "cd", "abc", "abcd")
]


def units(kind: str) -> Units:
    """Give what one unit may be: nothing, corners, and with weights several rows."""
    if kind == "one row per unit":
        return [[row] for row in (NOBODY, *CORNERS)]
    return [*([row] * LIMIT for row in (NOBODY, *CORNERS)), *SPREAD, [CORNERS[-1]] * 3]


@dataclass(frozen=True)
class Seen:
    """What the releases of one query are given, with each of the units beside the crowd."""

    nobody: list[Drawn]
    others: list[list[Drawn]]

    def pairs(self, neighbours: Neighbours) -> Iterator[tuple[list[Drawn], list[Drawn]]]:
        """Give the pairs of neighbours; a unit with no row that counts is as good as none."""
        if neighbours is Neighbours.ADD_REMOVE:
            return ((self.nobody, other) for other in self.others)
        return combinations([self.nobody, *self.others], 2)


def looked_at(
    neighbours: Neighbours, grouped: bool, kind: str, calls: list[str], look: Callable
) -> Seen:
    """Ask the same calls of every table."""
    where = "WHERE x IS NOT NULL" + (" GROUP BY g" if grouped else "")
    with tempfile.TemporaryDirectory() as directory:
        found = []
        for number, unit in enumerate(units(kind)):
            paths = save([*CROWD, unit], [], SCHEMA, Path(directory) / str(number), Random(7))
            settings = {"single": kind != "weights", "max_rows_contributed": LIMIT}
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
    """Give how far one release moves between any two neighbours, and its claim, squared."""
    moves = [move(a[index], b[index]) for a, b in seen.pairs(neighbours)]
    (claimed,) = {claim for _, claim in moves}
    return max(moved for moved, _ in moves), claimed


@cache
def truth(neighbours: Neighbours, grouped: bool, kind: str) -> Seen:
    return looked_at(neighbours, grouped, kind, CALLS, by_both)


@pytest.mark.parametrize(("neighbours", "grouped", "kind"), WORLDS)
def test_a_sensitivity_is_attained_and_never_passed(neighbours, grouped, kind):
    """Roots are rounded up to a multiple of 2^-32: their squares by less than one in 2^30."""
    seen = truth(neighbours, grouped, kind)
    for index, call in enumerate(CALLS):
        moved, claimed = furthest(seen, neighbours, index)
        assert moved <= claimed, call
        assert moved >= claimed * (1 - Fraction(1, 2**30)), call
