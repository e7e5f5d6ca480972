"""Errors of counts, sums, means and variances, beside their closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, sqrt
from pathlib import Path

import numpy as np

from benchmarks.study.data import TOP, Column, Values, connect, draws, salaries_in_cents
from benchmarks.study.figures import Figure

ROWS = 10_000
DRAWS = 4000
CLOSED = (0.9, 1.1)
"""Ratios to a closed form. The RMSE of 4000 draws is off by 0.019 (one standard deviation, for
a kurtosis of 6): outside with probability below 1e-6."""
MEAN, VARIANCE = (0.9, 1.5), (0.5, 1.4)


def columns() -> dict[str, Column]:
    generator = np.random.default_rng(20261118)
    return {
        "uniform": Column(generator.random(ROWS), 1, "1e-9"),
        "beta": Column(generator.beta(2, 8, ROWS), 1, "1e-9"),
        "salary": Column(salaries_in_cents(generator, ROWS), TOP, "0.01"),
    }


def figures(folder: Path) -> Iterator[Figure]:
    """Every figure at epsilon 1."""
    tables = columns()
    with connect(folder / "moments", tables) as session:
        found = draws(session, "DP_COUNT(*, eps=1)", DRAWS)
        yield _number("COUNT", "", rmse(found, ROWS), exp(-1), 1)
        salary = tables["salary"].values
        found = draws(session, "DP_SUM(salary, eps=1)", DRAWS)
        steps = TOP * 100
        yield _number("SUM", "salary", rmse(found, salary.sum()), exp(-1 / steps), 0.01)
        for name, column in tables.items():
            shares = column.values / column.high
            found = draws(session, f"DP_AVG({name}, eps=1)", DRAWS)
            error = rmse(found / column.high, shares.mean()) * ROWS
            named = ("AVG: RMSE x n eps / (b - a)", name)
            yield Figure.within(named, DRAWS, error, _mean_error(shares), MEAN)
            found = draws(session, f"DP_VAR_POP({name}, eps=1)", DRAWS)
            error = rmse(found / column.high**2, shares.var()) * ROWS
            named = ("VAR: RMSE x n eps / (b - a)^2", name)
            yield Figure.within(named, DRAWS, error, _variance_error(shares), VARIANCE)


def rmse(found: Values, exact: float) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2)))


def _number(function: str, data: str, error: float, q: float, unit: float) -> Figure:
    """Two-sided geometric noise has variance 2 q / (1 - q)^2, in squared steps."""
    closed = unit * sqrt(2 * q) / (1 - q)
    return Figure.within(
        (f"{function}: RMSE / closed form", data), DRAWS, error / closed, 1, CLOSED
    )


def _mean_error(shares: Values) -> float:
    """The error of a share of two sums, each with noise of scale 1 row; to first order.

    Half a row is added to each, which draws the mean to the middle.
    """
    mean = shares.mean()
    return _error(np.array([0, 1]) - mean)


def _variance_error(shares: Values) -> float:
    """The same for three sums, whose rows have means 0, 1/2, 1 and mean squares 0, 0, 1."""
    mean, square = shares.mean(), (shares**2).mean()
    return _error(np.array([0, 0, 1]) - square - 2 * mean * (np.array([0, 0.5, 1]) - mean))


def _error(slopes: Values) -> float:
    """Put together noise of variance 2 in each sum and one row that all sums share."""
    return float(np.hypot(sqrt(2) * np.linalg.norm(slopes), slopes.mean()))
