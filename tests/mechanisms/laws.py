"""Exact laws of noise written down, and how far two of them, or a sample, are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from scipy import stats

from dpquery.mechanisms import AdditiveNoise

NEARLY_ALL = 1 - Fraction(1, 10**15)


def pmf_vector(mechanism: AdditiveNoise) -> np.ndarray:
    """Probabilities from -m to m, where only 1e-15 lies outside."""
    _, width = mechanism.interval(0, NEARLY_ALL)
    return np.array([mechanism.pmf(noise) for noise in range(-width, width + 1)])


def log_ratio(mechanism: AdditiveNoise, a: Sequence[int], b: Sequence[int]) -> float:
    """Largest log-ratio of the laws of the outputs for two lists of exact values.

    The noise is independent: the largest ratios of the single values multiply. Equal values
    have equal laws. For noise
    whose log probability is concave on each side of zero and linear or steeper in the tails,
    the largest ratio stands at one of the two values, between them, or far outside.
    """
    return sum(_log_ratio(mechanism, x, y) for x, y in zip(a, b, strict=True) if x != y)


def _log_ratio(mechanism: AdditiveNoise, a: int, b: int) -> float:
    step = abs(a - b)
    points = {
        a,
        b,
        (a + b) // 2,
        *range(-3, 10),
        a - step,
        b + step,
        a + 3 * step,
        b - 3 * step,
    }
    return max(abs(mechanism.log_pmf(y - a) - mechanism.log_pmf(y - b)) for y in points)


def renyi(law: np.ndarray, shift: int, order: float) -> float:
    """Renyi divergence between a law and itself moved by an integer."""
    if shift == 0:
        return 0.0
    here, moved = law[shift:], law[:-shift]
    held = (here > 0) & (moved > 0)
    logs = order * np.log(here[held]) + (1 - order) * np.log(moved[held])
    return float(np.log(np.exp(logs - logs.max()).sum()) + logs.max()) / (order - 1)


def hockey_stick(law: np.ndarray, shifts: Sequence[int], epsilon: float) -> float:
    """Exact delta at epsilon for values that move by these shifts, up to two of them."""
    here, there = np.ones(1), np.ones(1)
    for shift in shifts:
        pad = np.zeros(shift)
        here = np.multiply.outer(here, np.concatenate([law, pad])).ravel()
        there = np.multiply.outer(there, np.concatenate([pad, law])).ravel()
    return float(np.maximum(here - math.exp(epsilon) * there, 0).sum())


class Cells:
    """At least 20 stretches of noise values with their probabilities under a mechanism."""

    def __init__(self, mechanism: AdditiveNoise) -> None:
        _, width = mechanism.interval(0, Fraction(99, 100))
        self.edges, inner = (_pooled if width <= 2000 else _spaced)(mechanism, width)
        outer = (1 - sum(inner)) / 2
        self.probabilities = np.array([outer, *inner, outer])
        assert len(self.probabilities) >= 20

    def p_value(self, noise: Sequence[int]) -> float:
        """Chi-square of a sample."""
        values = np.array(noise, dtype=float)
        cell = np.searchsorted(np.array(self.edges, dtype=float), values, side="right")
        seen = np.bincount(cell, minlength=len(self.probabilities))
        expected = self.probabilities * len(noise)
        return float(stats.chisquare(seen, expected, sum_check=False).pvalue)


def _pooled(mechanism: AdditiveNoise, width: int) -> tuple[list[int], list[float]]:
    """From -width to width, neighbours share a cell until it has one part in 50."""
    edges, inner, held = [-width], [], 0.0
    for noise in range(-width, width + 1):
        held += mechanism.pmf(noise)
        if held >= 1 / 50:
            edges.append(noise + 1)
            inner.append(held)
            held = 0.0
    if held:
        inner[-1] += held
        edges[-1] = width + 1
    return edges, inner


def _spaced(mechanism: AdditiveNoise, width: int) -> tuple[list[int], list[float]]:
    """Cells of equal width, zero at an edge; wide laws are smooth, so sums are integrals."""
    edges = [width * place // 16 for place in range(-16, 17)]
    inner = []
    for low, high in pairwise(edges):
        points = [low + (high - low) * place // 200 for place in range(201)]
        logs = [mechanism.log_pmf(point) + math.log(high - low) for point in points]
        inner.append(float(np.trapezoid(np.exp(logs), dx=1 / 200)))
    return edges, inner
