"""Densities: what one unit moves, and what is made of noisy counts and sums of cosines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import dpquery
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import DOUBLE, INTEGER
from dpquery.functions.base import Facts
from dpquery.functions.distributions.density import COSINES, DensityRelease
from dpquery.mechanisms import MaxNorm
from tests.functions.tables import (
    ALONE,
    SUBSTITUTE,
    Held,
    World,
    call,
    column,
    exact_vector,
    plan,
)
from tests.functions.test_distribution import up_to
from tests.mechanisms.sources import Seeded

WORLDS = {
    "rows": World((None, 0, 1, 2, 3)),
    "limit 1": World((None, 0, 1, 2), 1, 1, True),
    "limit 2": World((None, 0, 1, 2), 1, 2, True),
    "two groups": World((0, 1, 2), 2),
}
MADE = ["laplace", "gaussian", "basis"]


def density(argument: object, facts: Facts, *ends: int, **options: object) -> DensityRelease:
    asked = call("DP_DENSITY", argument, **options)
    return plan(replace(asked, points=up_to(argument, *ends)), facts)


def moved(planned: DensityRelease, one: Sequence[int], other: Sequence[int]) -> float:
    """Return how far apart what is summed is, in the norm of the noise."""
    apart = [abs(a - b) for a, b in zip(one, other, strict=True)]
    match planned.mechanism:
        case MaxNorm(size=size):
            return sum(max(apart[at : at + size]) for at in range(0, len(apart), size))
        case noise:
            return sum(part**noise.norm for part in apart) ** (1 / noise.norm)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_one_unit_moves_what_is_summed_by_the_stated_distance(
    world: World, relation: Neighbours, made: str
) -> None:
    options = {"delta": Fraction(1, 10**6)} if made == "gaussian" else {}
    planned = density(world.argument, world.facts(relation), 1, mechanism=made, **options)
    found = [exact_vector(planned, Held(world, (unit,))) for unit in world.units()]
    others = found if relation is SUBSTITUTE else [exact_vector(planned, Held(world, ()))]
    farthest = max(moved(planned, one, other) for one in found for other in others)
    assert farthest <= float(planned.distance) * (1 + 1e-9)
    attained = made != "basis" or relation is not SUBSTITUTE or world.groups > 1
    if attained:
        assert farthest == pytest.approx(float(planned.distance), rel=1e-9)
    assert planned.epsilon == 1
    assert planned.drawn_by() == made


class Exact:
    """The ranges of a histogram, of values that are codes."""

    groups = 1

    def __init__(self, codes: np.ndarray) -> None:
        self._codes = codes

    def histograms(self, measure: object, asked: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        return [
            np.bincount((self._codes - low) // width, minlength=-(-(high - low) // width))
            for _, low, high, width in asked
        ]


def drawn(planned: DensityRelease, codes: np.ndarray, seed: int = 1) -> list[float]:
    (cell,) = planned.run(Exact(codes), Seeded(seed))
    return cell.value


EVERYWHERE = range(10_000)
LAWS: dict[str, tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]] = {
    "uniform": (lambda source, n: source.random(n), np.ones_like),
    "beta(2, 8)": (lambda source, n: source.beta(2, 8, n), lambda t: 72 * t * (1 - t) ** 7),
    "falling": (
        lambda source, n: source.exponential(0.1, n).clip(0, 0.9999),
        lambda t: 10 * np.exp(-10 * t),
    ),
}


@pytest.mark.parametrize("made", MADE[::2])
@pytest.mark.parametrize(("law", "exact"), LAWS.values(), ids=LAWS)
@pytest.mark.parametrize(("rows", "off"), [(1000, 0.3), (100_000, 0.12)])
def test_a_density_is_near_that_of_the_law(
    law: Callable[..., np.ndarray],
    exact: Callable[..., np.ndarray],
    rows: int,
    off: float,
    made: str,
) -> None:
    """By the root of the mean square, at epsilon 1; the peak of the second is 3.5."""
    source = np.random.default_rng(20261120)
    codes = (law(source, rows) * 10_000).astype(int).clip(0, 9999)
    places = range(250, 10_000, 500)
    planned = density(column(INTEGER, 0, 9999), ALONE, *places, mechanism=made)
    found = np.array(drawn(planned, codes)) * 10_000
    truth = exact((np.array(places) + 0.5) / 10_000)
    assert math.sqrt(np.mean((found - truth) ** 2)) < off


@pytest.mark.parametrize("made", MADE[::2])
@pytest.mark.parametrize("eps", ["1/100", 1])
@pytest.mark.parametrize("codes", [[], [0] * 3, [7] * 500, list(range(0, 97, 5)), [0, 96] * 50])
@pytest.mark.parametrize("cells", [1, 2, 97])
def test_it_is_never_negative_and_one_altogether(
    cells: int, codes: list[int], eps: str, made: str
) -> None:
    """Whatever the rows, the noise and the number of values."""
    planned = density(column(INTEGER, 0, cells - 1), ALONE, 0, eps=eps, mechanism=made)
    values = np.array(codes, dtype=int).clip(0, cells - 1)
    for seed in range(3):
        (noisy,) = planned.draw(Exact(values), Seeded(seed))
        shares = planned.shares(noisy)
        assert sum(shares) == 1
        assert min(shares) >= 0


@pytest.mark.parametrize("made", MADE[::2])
def test_what_is_read_off_at_all_values_adds_up_to_one(made: str) -> None:
    """As nearly as cells are equally wide."""
    codes = (np.random.default_rng(1).beta(2, 8, 5000) * 1000).astype(int)
    found = drawn(density(column(INTEGER, 0, 999), ALONE, *range(1000), mechanism=made), codes)
    assert sum(found) == pytest.approx(1, abs=0.01)
    assert min(found) >= 0


def test_outside_the_bounds_there_is_none_and_a_grid_is_taken_in() -> None:
    planned = density(column(DOUBLE, 0, 1, grid=Fraction(1, 100)), ALONE, -3, 0, 1, 2, eps=1000)
    codes = np.arange(101).repeat(20)
    before, *inside, after = drawn(planned, codes)
    assert before == after == 0
    assert inside == pytest.approx([1, 1], abs=0.1)


def test_values_that_are_few_have_shares_of_their_own() -> None:
    codes = np.array([0] * 100 + [1] * 300 + [2] * 600)
    planned = density(column(INTEGER, 0, 2), ALONE, 0, 1, 2, eps=1000)
    assert drawn(planned, codes) == pytest.approx([0.1, 0.3, 0.6], abs=0.02)


def test_at_any_epsilon_cosines_have_noise_of_their_law() -> None:
    planned = density(column(INTEGER, 0, 9), ALONE, 1, eps=10**9, mechanism="basis")
    assert planned.mechanism.scale >= planned.mechanism.size == COSINES + 1


def test_the_builder_writes_points_by_name() -> None:
    assert dpquery.density("age", at=[30, 40], eps=1).written().text == (
        "DP_DENSITY(age, at=[30, 40], eps=1)"
    )
