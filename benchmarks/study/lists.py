"""Rank errors of nine deciles drawn together, beside a first-order formula.

The formula takes each part between two deciles to miss its share by itself, by two-sided
exponential law; what all of them miss together is shared by all. It does not know that the gaps
between values differ, nor that values are shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.study.data import (
    TOP,
    Column,
    Values,
    connect,
    draws,
    salaries_in_cents,
    salaries_in_hundreds,
)
from benchmarks.study.figures import Figure
from dpquery.mechanisms import FittedQuantiles

ROWS = 100_000
DATA_SETS, DRAWS = 10, 10
DECILES = tuple(Fraction(k, 10) for k in range(1, 10))
MOST = 8
"""Rows, at epsilon 1."""
COLUMNS = {
    "smooth": "salary in cents, nobody shares one",
    "cents": "salary in cents, grid 0.01",
    "hundreds": "salary in hundreds, grid 100",
}


def columns(seed: int) -> dict[str, Column]:
    generator = np.random.default_rng(seed)
    smooth = np.exp(generator.normal(10.6, 0.6, ROWS)).round(2).clip(0, TOP)
    return {
        "smooth": Column(smooth, TOP, "0.01"),
        "cents": Column(salaries_in_cents(generator, ROWS), TOP, "0.01"),
        "hundreds": Column(salaries_in_hundreds(generator, ROWS), TOP, "100"),
    }


def figures(folder: Path) -> Iterator[Figure]:
    """Root mean square over deciles, draws and data sets."""
    errors: dict[str, list[Values]] = {name: [] for name in COLUMNS}
    call = f"DP_QUANTILE({{}}, {[float(order) for order in DECILES]}, eps=1)"
    for seed in range(DATA_SETS):
        tables = columns(seed)
        with connect(folder / f"lists-{seed}", tables) as session:
            for name, column in tables.items():
                found = draws(session, call.format(name), DRAWS).reshape(DRAWS, -1)
                errors[name].append(rank_errors(column.values, found))
    for name, found in errors.items():
        rmse = float(np.sqrt(np.mean(np.square(found))))
        yield Figure.within(
            ("nine deciles: rank RMSE", COLUMNS[name]),
            DATA_SETS * DRAWS,
            rmse,
            first_order(),
            (0, MOST),
        )


def rank_errors(values: Values, found: Values) -> Values:
    """How many rows each released value is away from the rank asked for."""
    ordered, targets = np.sort(values), np.array([float(o) for o in DECILES]) * len(values)
    below = np.searchsorted(ordered, found - 1e-6)
    up_to = np.searchsorted(ordered, found + 1e-6)
    return np.maximum(0, np.maximum(below - targets, targets - up_to))


def first_order() -> float:
    """The root mean square error of the deciles, were they on evenly spaced rows."""
    rate = FittedQuantiles.calibrated(DECILES, 1, 1, 1, Fraction(1)).rate
    parts = len(DECILES) + 1
    squares = [8 * parts * p * (1 - p) / rate**2 for p in DECILES]
    return float(np.sqrt(np.mean([float(square) for square in squares])))
