"""Logistic regression: what one unit moves, and its coefficients beside those of all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

import dpquery
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import BOOLEAN, INTEGER
from dpquery.errors import QueryRefused
from dpquery.functions.base import NoisyCell
from dpquery.functions.moments.coefficient_intervals import Normal
from dpquery.functions.moments.logistic import LogisticRelease, fitted
from tests.corpus.cases import planned as planned_text
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
from tests.functions.test_linreg import moved
from tests.mechanisms.sources import Seeded

Rows = np.ndarray
PAIRS = ((None, 0), (True, None), *product((False, True), (0, 1, 2)))
WORLDS = {
    "rows": World(PAIRS),
    "limit 2": World(((False, 0), (True, 2), (False, 2)), 1, 2, True),
    "two groups": World(((None, 0), (False, 0), (True, 2), (False, 2)), 2),
}


def conditions(world: World) -> tuple[object, ...]:
    """Return the two columns: a condition and a number."""
    return replace(column(BOOLEAN), name="x"), replace(column(INTEGER, 0, 2), name="y")


@pytest.mark.parametrize("noise", ["max_norm", "laplace", "gaussian"])
@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_one_unit_moves_the_vector_by_no_more_than_the_distance(
    world: World, relation: Neighbours, noise: str
) -> None:
    options = {"delta": Fraction(1, 10**6)} if noise == "gaussian" else {}
    asked = call("DP_LOGREG", conditions(world), mechanism=noise, **options)
    planned = plan(asked, world.facts(relation))
    found = [exact_vector(planned, Held(world, (unit,))) for unit in world.units()]
    others = found if relation is SUBSTITUTE else [exact_vector(planned, Held(world, ()))]
    farthest = max(moved(planned, one, other) for one in found for other in others)
    norm = 2 if noise == "gaussian" else 1
    assert farthest <= planned.distance**norm
    if relation is ADD_REMOVE:
        assert farthest ** (1 / norm) >= float(planned.distance) * (1 - 1e-6)
    assert planned.epsilon == 1


def least_loss(rows: Rows, met: Rows) -> Rows:
    """Return the coefficients of the least log-loss over all rows, the intercept first."""
    columns = np.column_stack([np.ones(len(rows)), rows])
    found = np.zeros(columns.shape[1])
    for _ in range(30):
        odds = 1 / (1 + np.exp(-columns @ found))
        bend = (columns.T * (odds * (1 - odds))) @ columns + 1e-9 * np.eye(len(found))
        found += np.linalg.solve(bend, columns.T @ (met - odds))
    return found


def by_moments(rows: Rows, met: Rows, noise: float = 0) -> Rows:
    """Return those that are made of second moments alone."""
    count, y = len(rows), 2.0 * met - 1
    means, about = rows.mean(0), rows - rows.mean(0)
    base, slopes = fitted(Normal(count, y.mean(), means, about.T @ about, about.T @ y), noise)
    return np.array([base - means @ slopes, *slopes])


def correlated(source: np.random.Generator, shape: tuple[int, int]) -> Rows:
    one, own = source.normal(0, 0.2, (shape[0], 1)), source.normal(0, 0.2, shape)
    return (one + own).clip(-1, 1)


def mixed(source: np.random.Generator, shape: tuple[int, int]) -> Rows:
    """One of each kind: a share, even, and skewed."""
    columns = [
        2.0 * (source.random(shape[0]) < 0.3) - 1,
        source.uniform(-1, 1, shape[0]),
        source.exponential(0.3, shape[0]).clip(0, 2) - 1,
    ]
    return np.column_stack(columns)[:, : shape[1]]


LAWS: dict[str, tuple[Callable[..., Rows], float]] = {
    "uniform": (lambda source, shape: source.uniform(-1, 1, shape), 0.02),
    "normal": (lambda source, shape: source.normal(0, 0.3, shape).clip(-1, 1), 0.03),
    "near a bound": (lambda source, shape: 2 * source.beta(2, 8, shape) - 1, 0.05),
    "yes or no": (lambda source, shape: 2.0 * (source.random(shape) < 0.3) - 1, 0.02),
    "correlated": (correlated, 0.03),
    "mixed": (mixed, 0.02),
}
"""By what part of the largest coefficient any is off, at most; in deviations of columns."""


@pytest.mark.parametrize("strength", [0.5, 1.5])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("law", "off"), LAWS.values(), ids=LAWS)
def test_coefficients_are_about_those_of_all_rows(
    law: Callable[..., Rows], off: float, count: int, strength: float
) -> None:
    """Of 5,000 rows; strength is the deviation of log-odds."""
    source = np.random.default_rng(20261120)
    rows = law(source, (5000, count))
    deviations = rows.std(0)
    score = ((rows - rows.mean(0)) / deviations).sum(1) * strength / count**0.5
    met = source.random(5000) < 1 / (1 + np.exp(0.5 - score))
    exact, found = least_loss(rows, met), by_moments(rows, met)
    exact, found = exact[1:] * deviations, found[1:] * deviations
    assert abs(found - exact).max() <= off * np.linalg.norm(exact)


def test_least_squares_times_four_would_be_much_farther_off() -> None:
    """The log-loss cut after the square: what moments alone seem to allow."""
    source = np.random.default_rng(1)
    rows = source.uniform(-1, 1, (5000, 1))
    met = source.random(5000) < 1 / (1 + np.exp(-3 * rows[:, 0]))
    exact = least_loss(rows, met)[1]
    line = 4 * np.polyfit(rows[:, 0], met, 1)[0]
    assert line < 0.8 * exact
    assert by_moments(rows, met)[1] == pytest.approx(exact, rel=0.01)


def of_columns(rows: list[tuple[int, ...]], eps: object) -> list[float]:
    """Ask for the odds of the first of some columns by the others, between 0 and 20."""
    (cell,) = cells(rows, eps, 1)
    return cell.value


def cells(rows: list[tuple[int, ...]], eps: object, draws: int) -> list[NoisyCell]:
    """Ask for those of many groups that hold the same rows."""
    names = "xyzw"[: len(rows[0]) if rows else 3]
    others = tuple(replace(column(INTEGER, 0, 20), name=name) for name in names[1:])
    asked = (replace(column(BOOLEAN), name="x"), *others)
    planned = plan(call("DP_LOGREG", asked, eps=eps), ALONE)
    assert isinstance(planned, LogisticRelease)

    class Exact:
        groups = draws

        def values(self, measure: object) -> tuple[int, ...]:
            at = [names.index(code.expr.name) for code in measure.factors]
            total = sum(int(np.prod([row[i] for i in at], dtype=object)) for row in rows)
            return (total,) * draws

    return planned.run(Exact(), Seeded(1))


def test_the_release_gives_coefficients_of_values() -> None:
    source = np.random.default_rng(20261120)
    x = source.integers(0, 21, (2000, 2))
    odds = 1 / (1 + np.exp(1 - x @ [0.2, -0.1]))
    met = source.random(2000) < odds
    rows = [(int(one), *map(int, row)) for one, row in zip(met, x, strict=True)]
    exact = least_loss(x.astype(float), met)
    assert of_columns(rows, 10**5) == pytest.approx(exact, abs=0.02)
    assert of_columns(rows, 5)[1:] == pytest.approx(exact[1:], abs=0.1)


def test_intervals_hold_each_coefficient_as_often_as_stated() -> None:
    """What the columns' law gives without noise; of 100 draws, P[more misses] < 1e-6."""
    source, draws = np.random.default_rng(20261122), 100
    x = source.integers(0, 21, (2000, 2))
    met = source.random(2000) < 1 / (1 + np.exp(1 - x @ [0.2, -0.1]))
    rows = [(int(one), *map(int, row)) for one, row in zip(met, x, strict=True)]
    exact = np.array(of_columns(rows, 10**8))
    found = cells(rows, 1, draws)
    ends = np.array([cell.interval(Fraction(95, 100)) for cell in found])
    missed = ((ends[:, 0] > exact) | (exact > ends[:, 1])).sum(axis=0)
    assert (missed <= stats.binom.isf(1e-6, draws, 0.05)).all()
    off = np.quantile(abs(np.array([cell.value for cell in found]) - exact), 0.95, axis=0)
    assert (np.median(ends[:, 1] - ends[:, 0], axis=0) <= 2 * 1.35 * off).all()


ODD = {
    "none": [],
    "one": [(1, 4, 5)],
    "all meet it": [(1, n % 21, n % 13) for n in range(500)],
    "constant": [(n % 2, 4, 5) for n in range(500)],
    "alike": [(n % 2, n % 21, n % 21) for n in range(500)],
    "parted": [(int(n % 21 > 10), n % 21, 7) for n in range(500)],
    "at the bounds": [(1, 20, 0), (0, 0, 20)] * 200,
}


@pytest.mark.parametrize("eps", ["1/100", 1, 1000, 10**9])
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
def test_no_rows_and_rows_that_are_alike_or_parted_give_numbers(
    rows: list[tuple[int, ...]], eps: object
) -> None:
    (cell,) = cells(rows, eps, 1)
    assert len(cell.value) == 3
    assert all(isinstance(one, float) and abs(one) < 1e6 for one in cell.value)
    low, high = cell.interval(Fraction(95, 100))
    found = zip(low, cell.value, high, strict=True)
    assert all(a <= one <= b and np.isfinite(b - a) for a, one, b in found)


def test_a_column_of_one_value_has_no_coefficient_and_the_others_have() -> None:
    held = Held(World(((True, 2),)), tuple(((0, (row > 3, 2)),) for row in range(6)))
    columns = replace(column(BOOLEAN), name="x"), replace(column(INTEGER, 2, 2), name="y")
    (cell,) = plan(call("DP_LOGREG", columns, eps=1000), ALONE).run(held, Seeded(1))
    assert cell.value == pytest.approx([np.log(2 / 4), 0], abs=0.05)


def test_the_error_that_is_said_is_about_that_of_noise() -> None:
    """In log-odds from bound to bound, over 1,000 rows: 19 in 20 are within it, or nearly."""
    source = np.random.default_rng(7)
    rows = source.uniform(-1, 1, (1000, 2))
    met = source.random(1000) < 1 / (1 + np.exp(-rows @ [1.0, -1.0]))
    columns = tuple(replace(column(INTEGER, 0, 1000), name=name) for name in "yz")
    planned = plan(
        call("DP_LOGREG", (replace(column(BOOLEAN), name="x"), *columns), eps=1), ALONE
    )
    said = float(planned.step().expected_error.split()[2])
    noise, count = planned.mechanism, 300
    scale = float(noise.scale_shown / planned._size)
    drawn = noise.release([0] * (noise.size * count), Seeded(1))
    off = np.array([float(one / planned._size) for one in drawn]).reshape(count, -1)
    exact = by_moments(rows, met)[1:]
    about = rows - rows.mean(0)
    found = []
    for extra in off:
        noisy = Normal(
            1000 + extra[0],
            (2.0 * met - 1).mean() + extra[1] / 1000,
            rows.mean(0) + extra[2:4] / 1000,
            about.T @ about + np.array([[extra[6], extra[7]], [extra[7], extra[8]]]) / 2,
            about.T @ (2.0 * met - 1) + extra[4:6],
        )
        found.append(2 * abs(fitted(noisy, scale)[1] - exact))
    assert said / 2 < np.quantile(found, 0.95) < said * 1.25


def test_the_builder_writes_it() -> None:
    assert dpquery.logreg("remote", ["age"], eps=1).written().text == (
        "DP_LOGREG(remote, [age], eps=1)"
    )


def test_there_are_no_more_groups_than_can_be_fitted():
    with pytest.raises(QueryRefused, match="is fitted in 50 groups at most"):
        planned_text("SELECT DP_LOGREG(remote, [age, rating], eps=1) FROM staff GROUP BY age")
