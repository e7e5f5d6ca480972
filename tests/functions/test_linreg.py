"""Planes by least squares: what one unit moves, and what is made of noisy moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import INTEGER
from dpquery.functions.base import Facts, NoisyCell
from dpquery.functions.moments.linreg import PlaneRelease, plane_sizes
from dpquery.mechanisms import MaxNorm
from tests.functions.tables import (
    ADD_REMOVE,
    ALONE,
    SUBSTITUTE,
    Held,
    World,
    call,
    column,
    exact_vector,
    plan,
)
from tests.mechanisms.sources import Seeded

PAIRS = ((None, 0), *product((0, 1, 2), (0, 1, 2, 3)))
WORLDS = {
    "rows": World(PAIRS),
    "limit 1": World(((None, 0), (0, 0), (2, 3), (0, 3), (1, 1)), 1, 1, True),
    "limit 2": World(((0, 0), (2, 3), (0, 3)), 1, 2, True),
    "two groups": World(((None, 0), (0, 0), (2, 3), (0, 3), (1, 1)), 2),
}


def release(world: World, facts: Facts, **options: object) -> PlaneRelease:
    return plan(call("DP_LINREG", world.argument, **options), facts)


@pytest.mark.parametrize("noise", ["max_norm", "laplace", "gaussian"])
@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_one_unit_moves_the_vector_by_no_more_than_the_distance(
    world: World, relation: Neighbours, noise: str
) -> None:
    """Which is attained where one is added, and where it is replaced in another group."""
    options = {"delta": Fraction(1, 10**6)} if noise == "gaussian" else {}
    planned = release(world, world.facts(relation), mechanism=noise, **options)
    found = [exact_vector(planned, Held(world, (unit,))) for unit in world.units()]
    others = found if relation is SUBSTITUTE else [exact_vector(planned, Held(world, ()))]
    farthest = max(moved(planned, one, other) for one in found for other in others)
    norm = 2 if noise == "gaussian" else 1
    assert farthest <= planned.distance**norm
    if relation is ADD_REMOVE or (world.groups > 1 and norm == 1):
        assert farthest ** (1 / norm) >= float(planned.distance) * (1 - 1e-6)
    assert planned.epsilon == 1


def moved(planned: PlaneRelease, one: Sequence[int], other: Sequence[int]) -> int:
    """Return how far apart two vectors are, in the norm of the noise, or its square."""
    apart = [abs(a - b) for a, b in zip(one, other, strict=True)]
    match planned.mechanism:
        case MaxNorm(size=size):
            return sum(max(apart[at : at + size]) for at in range(0, len(apart), size))
        case noise:
            return sum(part**noise.norm for part in apart)


def test_without_the_products_in_it_the_distance_is_too_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "dpquery.functions.moments.linreg.plane_sizes", lambda codes: plane_sizes(codes)[:-1]
    )
    world = WORLDS["rows"]
    planned = release(world, world.facts(ADD_REMOVE), mechanism="laplace")
    farthest = max(
        sum(map(abs, exact_vector(planned, Held(world, (unit,))))) for unit in world.units()
    )
    assert farthest > 1.1 * planned.distance


def of_columns(rows: list[tuple[int, ...]], eps: object) -> list[float]:
    """Ask for the plane of the first of some columns by the others, between 0 and 20."""
    (cell,) = cells(rows, eps, 1)
    return cell.value


def cells(rows: list[tuple[int, ...]], eps: object, draws: int) -> list[NoisyCell]:
    """Ask for that plane of many groups that hold the same rows."""
    names = "xyzw"[: len(rows[0]) if rows else 3]
    columns = tuple(replace(column(INTEGER, 0, 20), name=name) for name in names)

    class Exact:
        groups = draws

        def values(self, measure: object) -> tuple[int, ...]:
            at = [names.index(code.expr.name) for code in measure.factors]
            total = sum(int(np.prod([row[i] for i in at], dtype=object)) for row in rows)
            return (total,) * draws

    return plan(call("DP_LINREG", columns, eps=eps), ALONE).run(Exact(), Seeded(1))


def test_a_plane_is_that_of_least_squares_where_noise_is_small() -> None:
    source = np.random.default_rng(20261120)
    x = source.integers(0, 21, (400, 3))
    y = np.clip(np.round(2 + x @ [0.5, -0.3, 0.2] + source.normal(0, 2, 400)), 0, 20)
    rows = [tuple(map(int, row)) for row in np.column_stack([y, x])]
    exact = np.linalg.lstsq(np.column_stack([np.ones(400), x]), y, rcond=None)[0]
    assert of_columns(rows, 10**5) == pytest.approx(exact, abs=0.01)
    near = of_columns(rows, 50)
    assert near[1:] == pytest.approx(exact[1:], abs=0.1)


@pytest.mark.parametrize(("eps", "columns"), [("1/2", 1), (2, 3)])
def test_intervals_hold_each_coefficient_as_often_as_stated(eps: object, columns: int) -> None:
    """Of 500 draws, P[more misses] < 1e-6; and it is little wider than the error."""
    source, draws = np.random.default_rng(20261121), 500
    x = source.integers(0, 21, (1000, columns))
    y = np.clip(np.round(3 + x @ [0.5, -0.3, 0.2][:columns] + source.normal(0, 2, 1000)), 0, 20)
    rows = [tuple(map(int, row)) for row in np.column_stack([y, x])]
    exact = np.linalg.lstsq(np.column_stack([np.ones(1000), x]), y, rcond=None)[0]
    found = cells(rows, eps, draws)
    ends = np.array([cell.interval(Fraction(95, 100)) for cell in found])
    missed = ((ends[:, 0] > exact) | (exact > ends[:, 1])).sum(axis=0)
    assert (missed <= stats.binom.isf(1e-6, draws, 0.05)).all()
    off = np.quantile(abs(np.array([cell.value for cell in found]) - exact), 0.95, axis=0)
    assert (np.median(ends[:, 1] - ends[:, 0], axis=0) <= 2 * 1.25 * off).all()


ODD = {
    "none": [],
    "one": [(3, 4, 5)],
    "constant": [(3, 4, 5)] * 500,
    "alike": [(one % 21, one % 21, one % 21) for one in range(500)],
    "at the bounds": [(20, 20, 20), (0, 0, 0)] * 200,
}


@pytest.mark.parametrize("eps", ["1/100", 1, 1000])
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
def test_no_rows_or_columns_that_are_alike_give_numbers(
    rows: list[tuple[int, ...]], eps: object
) -> None:
    found = of_columns(rows, eps)
    assert len(found) == 3
    assert all(isinstance(one, float) and abs(one) < 1e6 for one in found)
    (cell,) = cells(rows, eps, 1)
    pairs = zip(cell.value, *cell.interval(Fraction(95, 100)), strict=True)
    assert all(low <= one <= high for one, low, high in pairs)


def test_columns_that_are_alike_share_their_coefficient() -> None:
    base, one, other = of_columns(ODD["alike"] * 20, 100)
    assert one + other == pytest.approx(1, abs=0.02)
    assert base == pytest.approx(0, abs=0.3)


def test_a_column_of_one_value_has_no_coefficient() -> None:
    columns = (column(INTEGER, 0, 9), replace(column(INTEGER, 7, 7), name="y"))
    planned = plan(call("DP_LINREG", columns, eps=1000), ALONE)
    held = Held(World(((0, 7), (9, 7))), tuple(((0, (row, 7)),) for row in (2, 4, 6)))
    (cell,) = planned.run(held, Seeded(1))
    assert cell.value == pytest.approx([4, 0], abs=0.1)
