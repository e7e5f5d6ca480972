"""Laws written down: how far neighbours are apart, and whether samples follow them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
from scipy import stats

from dpquery.core.privacy_loss import Neighbours
from dpquery.mechanisms.quantiles.sampling.exact_histograms import Weights as Histogram
from dpquery.mechanisms.randomness import Randomness
from tests.mechanisms.histograms import Rows
from tests.mechanisms.sources import Seeded

JointLaw = Mapping[tuple[int, ...], float]
Weights = tuple[int, ...]
Sample = Callable[[int, int], list[Hashable]]
"""Draws by seed and number."""


class Draws(Protocol):
    """A mechanism that draws lists of cells."""

    def release(self, histogram: Histogram, randomness: Randomness) -> Sequence[int]: ...


def tables(kinds: Sequence[Weights], most: int) -> Iterator[Weights]:
    """Weights of up to so many rows, each of which is of one of the kinds."""
    for number in range(most + 1):
        for rows in itertools.combinations_with_replacement(kinds, number):
            yield tuple(map(sum, zip(*rows, strict=True))) or (0,) * len(kinds[0])


def single_rows(cells: int, weight: int = 1) -> list[Weights]:
    """One row in each cell."""
    return [tuple(weight * (at == cell) for at in range(cells)) for cell in range(cells)]


def neighbours(
    kinds: Sequence[Weights], most: int, relation: Neighbours
) -> Iterator[tuple[Weights, Weights]]:
    """All pairs: a row is added, or one row stands in the place of another."""
    for base in set(tables(kinds, most)):
        with_row = [tuple(map(sum, zip(base, kind, strict=True))) for kind in kinds]
        if relation is Neighbours.SUBSTITUTE:
            yield from itertools.combinations(with_row, 2)
        else:
            yield from ((base, one) for one in with_row)


def worst_loss(
    pmf: Callable[[Weights], JointLaw],
    kinds: Sequence[Weights],
    most: int,
    relation: Neighbours,
) -> float:
    """The largest log-ratio between neighbours, either way round."""
    law = cache(pmf)
    return max(apart(law(a), law(b)) for a, b in neighbours(kinds, most, relation))


def in_two_groups(pmf: Callable[[Weights], JointLaw]) -> Callable[[Weights], JointLaw]:
    """The law of two groups side by side, each with half of the cells: the laws multiply."""

    def law(weights: Weights) -> JointLaw:
        half = len(weights) // 2
        one, other = pmf(weights[:half]), pmf(weights[half:])
        return {a + b: p * q for a, p in one.items() for b, q in other.items()}

    return law


def apart(one: JointLaw, other: JointLaw) -> float:
    """The largest log-ratio of two laws; infinite where one has what the other has not."""
    if one.keys() != other.keys():
        return math.inf
    return max(abs(math.log(one[key] / other[key])) for key in one)


def sampling(draw: Callable[[Randomness], Hashable]) -> Sample:
    """Draws one after the other."""

    def sample(seed: int, draws: int) -> list[Hashable]:
        randomness = Seeded(seed)
        return [draw(randomness) for _ in range(draws)]

    return sample


def drawing(mechanism: Draws, weights: Sequence[int]) -> Sample:
    """Draws from rows of these weights."""
    rows = Rows(dict(enumerate(weights)))
    return sampling(lambda randomness: tuple(mechanism.release(rows, randomness)))


def agreement(law: Mapping[Any, float], sample: Sample, seeds: int, draws: int) -> float:
    """Chi-square of so many draws per seed; how likely the p-values are if all is right."""
    keys = sorted(law, key=lambda key: (-law[key], str(key)))
    pool, at, held = {}, 0, 0.0
    for key in keys:
        pool[key] = at
        held += law[key] * draws
        if held > 5 and at < 19:
            at, held = at + 1, 0.0
    expected = np.zeros(at + 1)
    for key in keys:
        expected[pool[key]] += law[key] * draws
    if expected[-1] < 5:
        expected[-2] += expected[-1]
        expected, pool = expected[:-1], {key: min(one, at - 1) for key, one in pool.items()}
    assert len(expected) >= 4
    p_values = []
    for seed in range(seeds):
        seen = np.bincount([pool[key] for key in sample(seed, draws)], minlength=len(expected))
        p_values.append(float(stats.chisquare(seen, expected, sum_check=False).pvalue))
    return float(stats.kstest(p_values, "uniform").pvalue)
