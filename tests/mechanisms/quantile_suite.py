"""How mechanisms of lists of quantiles are made for tests, and how far off a list is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpquery.core.privacy_loss import Neighbours
from dpquery.mechanisms import (
    FittedQuantiles,
    IndependentQuantiles,
    JointQuantiles,
    RecursiveQuantiles,
    SmoothedJointQuantiles,
    ThresholdQuantiles,
    TreeQuantiles,
    joint_move,
    rank_range,
    threshold_cost,
)
from tests.mechanisms.histograms import Law

ADD_REMOVE, SUBSTITUTE = Neighbours
ONE, HALF = Fraction(1), Fraction(1, 2)
ALARM = 1e-6
"""How often a test would fail for right draws and fresh bits; its seeds are fixed."""
MOST = 1 << 36
BILLION = 10**9
DECILES = tuple(Fraction(k, 10) for k in range(1, 10))
ORDERS = {
    "the least": (Fraction(0),),
    "the median": (HALF,),
    "a high one": (Fraction(3, 4),),
    "the largest": (ONE,),
    "two": (Fraction(1, 4), Fraction(3, 4)),
    "near": (Fraction(2, 5), HALF),
    "low": (Fraction(1, 10), Fraction(1, 5)),
    "quartiles": (Fraction(1, 4), HALF, Fraction(3, 4)),
    "uneven": (Fraction(1, 10), HALF, Fraction(9, 10)),
    "with both ends": (Fraction(0), HALF, ONE),
    "five": (Fraction(0), Fraction(1, 5), HALF, Fraction(4, 5), ONE),
}
JOINT = (JointQuantiles, SmoothedJointQuantiles)
SPREAD = (RecursiveQuantiles, FittedQuantiles, SmoothedJointQuantiles)
KINDS = (*SPREAD, JointQuantiles, IndependentQuantiles, ThresholdQuantiles, TreeQuantiles)


def calibrated(
    kind: type,
    orders: Sequence[Fraction],
    cells: int,
    relation: Neighbours = ADD_REMOVE,
    *,
    weight: int = 1,
    epsilon: Fraction = ONE,
    most: int = MOST,
    grouped: bool = False,
    **changes: Any,
) -> Any:
    """As a query would, for units of a weight: in one group, or also from group to group."""
    substitution = relation is SUBSTITUTE
    distance = weight * (2 if substitution else 1)
    how = {"substitution": substitution, "grouped": grouped}
    if kind in JOINT:
        settings = (most, joint_move(orders, **how), weight)
    elif kind is IndependentQuantiles:
        settings = (most, [rank_range(order, 1, **how) for order in orders], weight)
    elif kind is ThresholdQuantiles:
        settings = ([threshold_cost(order, **how) for order in orders], weight)
    elif kind is TreeQuantiles:
        settings = (distance,)
    else:
        settings = (most, distance)
    return replace(kind.calibrated(orders, cells, *settings, epsilon), **changes)


def rows_off(weights: Sequence[int], order: Fraction, cell: int) -> Fraction:
    """How far the rank of a cell is from an order."""
    target = order * sum(weights)
    return max(Fraction(0), sum(weights[:cell]) - target, target - sum(weights[: cell + 1]))


def ranks_off(
    codes: np.ndarray, orders: Sequence[Fraction], found: Sequence[int]
) -> np.ndarray:
    """The same of each cell of a list, for rows that are sorted."""
    below, up_to = np.searchsorted(codes, [found, np.add(found, 1)])
    targets = np.array([float(order) * len(codes) for order in orders])
    return np.maximum(0, np.maximum(below - targets, targets - up_to))


def ranks_off_law(law: Law, orders: Sequence[Fraction], found: Sequence[int]) -> np.ndarray:
    """The same for many rows of a law."""
    edges = np.array([found, np.add(found, 1)]) / law.cells
    below, up_to = law.rows * law.below(edges)
    targets = np.array([float(order) * law.rows for order in orders])
    return np.maximum(0, np.maximum(below - targets, targets - up_to))


def recursive(name: str, weights: list[int], rate: str, *spread_bins_held: int) -> tuple:
    parameters = (len(weights), Fraction(rate), sum(weights), *spread_bins_held)
    return RecursiveQuantiles(ORDERS[name], *parameters), weights, (24, 100)


def fitted(name: str, weights: list[int], rate: str, bins: int, spread: int) -> tuple:
    parameters = (len(weights), Fraction(rate), sum(weights) + 20, spread, bins)
    return FittedQuantiles(ORDERS[name], *parameters), weights, (12, 40)


def joint(name: str, weights: list[int], rate: str, bins: int, *spread: int) -> tuple:
    parameters = (len(weights), Fraction(rate), sum(weights), Fraction(2), bins, *spread)
    kind = SmoothedJointQuantiles if spread else JointQuantiles
    return kind(ORDERS[name], *parameters), weights, (12, 40)


def independent(name: str) -> tuple:
    ranges = (ONE,) * len(ORDERS[name])
    mechanism = IndependentQuantiles(ORDERS[name], 8, Fraction(2), 12, ranges, 4, 12)
    return mechanism, [4, 0, 0, 1, 2, 0, 0, 5], (24, 100)


THRESHOLDS = ThresholdQuantiles(ORDERS["two"], 6, Fraction(2), (Fraction(5, 4), Fraction(7, 4)))
DRAWN = {
    "recursive, two bins": recursive("quartiles", [3, 0, 5, 1, 0, 2], "4/3", 2, 2, 8),
    "recursive, four bins": recursive("uneven", [1, 9, 0, 0, 4], "4/5", 3, 4, 16),
    "recursive, both ends": recursive(
        "with both ends", [2, 0, 0, 7, 1, 1, 0, 3], "2", 1, 8, 16
    ),
    "recursive, not spread": recursive("two", [4, 0, 0, 1, 2, 0, 0, 5, 1], "1", 0, 2, 6),
    "recursive, low orders": recursive("low", [4, 0, 0, 1, 2, 0, 3], "1", 1, 4, 8),
    "recursive, no rows": recursive("quartiles", [0, 0, 0, 0], "4", 2, 4, 16),
    "recursive": recursive("quartiles", [6, 1, 0, 0, 2, 3], "4/3", 3, 16, 1 << 16),
    "fitted": fitted("quartiles", [3, 0, 5, 1, 0, 2], "2", 8, 0),
    "fitted, coarse bins": fitted("quartiles", [3, 0, 5, 1, 0, 2, 4, 0, 1, 1, 0], "2", 2, 0),
    "fitted, no rows": fitted("quartiles", [0, 0, 0, 0], "4", 4, 0),
    "fitted, steep": fitted("uneven", [3, 9, 0, 7, 0, 1, 8, 2], "2", 8, 0),
    "fitted, both ends": fitted("with both ends", [6, 1, 0, 0, 2, 3], "1", 8, 0),
    "fitted, spread": fitted("quartiles", [3, 0, 5, 1], "2", 2, 2),
    "fitted, spread, no rows": fitted("two", [0, 0, 0, 0], "4", 2, 1),
    "fitted, spread, two": fitted("two", [40, 0, 31, 2], "1/8", 2, 2),
    "joint": joint("quartiles", [3, 0, 5, 1, 0, 2], "2", 8),
    "joint, in ranges": joint("quartiles", [3, 0, 5, 1, 0, 2, 4, 0, 1, 1, 0], "2", 4),
    "joint, one heap": joint("two", [0, 0, 0, 40, 0, 0, 0, 0], "1", 8),
    "joint, no rows": joint("quartiles", [0, 0, 0, 0], "4", 4),
    "joint, steep": joint("uneven", [3, 9, 0, 7, 0, 1, 8, 2], "2", 8),
    "joint, both ends": joint("with both ends", [6, 1, 0, 0, 2, 3], "1", 8),
    "joint, spread": joint("quartiles", [3, 0, 5, 1], "2", 2, 2),
    "joint, spread, no rows": joint("two", [0, 0, 0, 0], "4", 2, 1),
    "joint, spread, steep": joint("uneven", [5, 0, 1, 30], "1", 4, 2),
    "joint, spread, two": joint("two", [40, 0, 31, 2], "1/4", 2, 2),
    "independent, two": independent("two"),
    "independent, uneven": independent("uneven"),
    "thresholds": (THRESHOLDS, [4, 0, 3, 1, 2, 5], (24, 100)),
}
"""A mechanism, weights, and over how many seeds how often is drawn."""
