"""Rank errors of quantiles on salaries with atoms, beside the exact law of the mechanism.

The law is written down by stretches of cells with one score, so the expected error of a data
set is known without sampling. What is required of the error is required of that expectation;
of the draws, that they follow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
from scipy.special import softmax

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

ROWS = 100_000
DATA_SETS, DRAWS = 100, 10
ORDERS = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
MOST = 2
"""Rows; where the grid is that of the values."""
DEVIATIONS = 5
"""How far the mean of the draws may be from the law: P < 1e-6."""
COLUMNS = {
    "cents": "salary in cents, grid 0.01",
    "hundreds": "salary in hundreds, grid 100",
    "fine": "salary in hundreds, grid 0.01",
}


def columns(seed: int) -> dict[str, Column]:
    generator = np.random.default_rng(seed)
    cents, hundreds = (
        law(generator, ROWS) for law in (salaries_in_cents, salaries_in_hundreds)
    )
    return {
        "cents": Column(cents, TOP, "0.01"),
        "hundreds": Column(hundreds, TOP, "100"),
        "fine": Column(hundreds, TOP, "0.01"),
    }


def figures(folder: Path) -> Iterator[Figure]:
    """Every figure at epsilon 1, over fresh data sets."""
    found: dict[tuple[str, Fraction], list[tuple[Values, float, float]]] = {}
    for seed in range(DATA_SETS):
        tables = columns(seed)
        for key, one in _measured(folder / f"ranks-{seed}", tables):
            found.setdefault(key, []).append(one)
    for (name, order), of_sets in sorted(found.items()):
        yield _figure(name, order, of_sets)


def _measured(
    folder: Path, tables: Mapping[str, Column]
) -> Iterator[tuple[tuple[str, Fraction], tuple[Values, float, float]]]:
    with connect(folder, tables) as session:
        for name, column in tables.items():
            for order in ORDERS:
                call = f"DP_QUANTILE({name}, {float(order)}, eps=1)"
                errors = rank_errors(column.values, draws(session, call, DRAWS), order)
                yield (name, order), (errors, *law(column, order))


def _figure(name: str, order: Fraction, of_sets: list[tuple[Values, float, float]]) -> Figure:
    errors = np.concatenate([errors for errors, _, _ in of_sets])
    expected = float(np.mean([mean for _, mean, _ in of_sets]))
    spread = np.sqrt(np.mean([variance for _, _, variance in of_sets]) / len(errors))
    follows = abs(errors.mean() - expected) <= DEVIATIONS * spread + 1 / len(errors)
    bounded = name != "fine"
    return Figure(
        f"quantile {float(order)}: mean rank error",
        COLUMNS[name],
        len(errors),
        float(errors.mean()),
        expected,
        f"draws follow the law{f', which expects at most {MOST}' if bounded else ''}",
        bool(follows and (expected <= MOST or not bounded)),
    )


def rank_errors(values: Values, found: Values, order: Fraction) -> Values:
    """How many rows each released value is away from the rank asked for."""
    ordered, target = np.sort(values), float(order * len(values))
    below = np.searchsorted(ordered, found - 1e-6)
    up_to = np.searchsorted(ordered, found + 1e-6)
    return np.maximum(0, np.maximum(below - target, target - up_to))


def law(column: Column, order: Fraction) -> tuple[float, float]:
    """Mean and variance of the rank error, cells being weighted exp(-rate * rank error)."""
    grid = float(column.grid)
    codes, counts = np.unique(np.rint(column.values / grid).astype(int), return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])
    past = below - float(order * len(column.values))
    gaps = np.diff(np.concatenate([[-1], codes, [round(column.high / grid) + 1]])) - 1
    empty = gaps > 0
    errors = np.concatenate([abs(past[empty]), np.maximum(0, np.maximum(past[:-1], -past[1:]))])
    sizes = np.concatenate([gaps[empty], np.ones(len(codes))])
    rate = 1 / (2 * float(max(order, 1 - order)))
    shares = softmax(np.log(sizes) - rate * errors)
    mean = shares @ errors
    return float(mean), float(shares @ (errors - mean) ** 2)
