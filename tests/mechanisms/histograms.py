"""Weighted counts to draw quantiles from, answered as an engine would."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np


class Rows:
    """Cells that hold rows, each with its weight; a grid of any size."""

    def __init__(self, weights: Mapping[int, int]) -> None:
        self.weights = weights
        self.asked = 0

    def __call__(self, low: int, high: int, width: int) -> list[int]:
        self.asked += 1
        bins = [0] * -(-(high - low) // width)
        for cell, weight in self.weights.items():
            if low <= cell < high:
                bins[(cell - low) // width] += weight
        return bins


class Codes:
    """Rows of weight 1 as an array of their cells."""

    def __init__(self, codes: np.ndarray) -> None:
        self.codes = codes

    def __call__(self, low: int, high: int, width: int) -> np.ndarray:
        held = self.codes[(self.codes >= low) & (self.codes < high)]
        return np.bincount((held - low) // width, minlength=-(-(high - low) // width))


class Law:
    """Many rows, known through how many of them lie below each part of the grid."""

    def __init__(
        self, rows: int, cells: int, below: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        self.rows, self.cells, self.below = rows, cells, below
        self.asked = 0

    def __call__(self, low: int, high: int, width: int) -> np.ndarray:
        self.asked += 1
        bins = -(-(high - low) // width)
        edges = np.minimum(low + width * np.arange(bins + 1), high)
        return np.diff(np.floor(self.rows * self.below(edges / self.cells)).astype(np.int64))


def salaries(seed: int, unit: int) -> np.ndarray:
    """In cents, rounded to a unit; one in five earns the same."""
    numbers = np.random.default_rng(seed)
    cents = np.exp(numbers.normal(10.5, 0.5, 100_000)) * 100
    cents[numbers.random(100_000) < 0.2] = 2_120_000
    return np.minimum(cents, 30_000_000).astype(np.int64) // unit
