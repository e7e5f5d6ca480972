"""The claim of every mechanism, computed from its law on all neighbours of all small data sets.

No sampling: the largest loss is at most what is claimed, and at least what is known to be
attained, so too much noise is noticed as well as too little.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from dpquery.core.privacy_loss import Neighbours, root_above
from dpquery.mechanisms import AdditiveNoise, DiscreteGaussian, DiscreteLaplace
from tests.mechanisms.cases import DELTA, EPSILONS, WRONG_SPREADS, W
from tests.mechanisms.laws import hockey_stick, log_ratio, pmf_vector, renyi

ROWS = 6
Unit = tuple[int, ...]
"""A unit's number of rows in each group."""
Shift = tuple[tuple[int, ...], tuple[int, ...]]
"""Exact values on two neighbouring data sets."""


@dataclass(frozen=True)
class Counting:
    """`count_rows` over some groups, with the weights and the sensitivities of the calculus."""

    groups: int
    limit: int
    whole: int
    """The weight W of a row that is not reduced; 1 with one row per unit."""

    def units(self) -> list[Unit]:
        """What one unit may own; it may own nothing, as when its rows fail the filter."""
        most = 1 if self.whole == 1 else self.limit + 1
        counts = itertools.product(range(most + 1), repeat=self.groups)
        return [unit for unit in counts if sum(unit) <= most]

    def added(self, unit: Unit) -> tuple[int, ...]:
        rows = sum(unit)
        weight = self.whole * min(rows, self.limit) // rows if rows else 0
        return tuple(weight * count for count in unit)

    def exact(self, units: tuple[Unit, ...]) -> tuple[int, ...]:
        columns = zip(*map(self.added, units), strict=True)
        return tuple(map(sum, columns)) if units else (0,) * self.groups

    def distance(self, neighbours: Neighbours, norm: int) -> Fraction:
        single = Fraction(self.limit * self.whole)
        if neighbours is Neighbours.ADD_REMOVE or self.groups == 1:
            return single
        return 2 * single if norm == 1 else single * root_above(2)

    def shifts(self, neighbours: Neighbours) -> Iterator[Shift]:
        """Exact values of all pairs of neighbours with up to ROWS rows, each pair once."""
        found = set()
        for number in range(1, ROWS + 1 if self.whole == 1 else 4):
            for units in itertools.combinations_with_replacement(self.units(), number):
                if sum(map(sum, units)) <= ROWS:
                    here = self.exact(units)
                    found.update(
                        (here, self.exact(other)) for other in self._next(units, neighbours)
                    )
        return iter(found)

    def _next(
        self, units: tuple[Unit, ...], neighbours: Neighbours
    ) -> Iterator[tuple[Unit, ...]]:
        for place in range(len(units)):
            rest = units[:place] + units[place + 1 :]
            if neighbours is Neighbours.ADD_REMOVE:
                yield rest
            else:
                yield from ((*rest, unit) for unit in self.units())


QUERIES = [
    Counting(groups, limit, whole)
    for groups in (1, 2)
    for limit, whole in ((1, 1), (1, W), (2, W))
]


def worst_log_ratio(mechanism: AdditiveNoise, query: Counting, neighbours: Neighbours) -> float:
    return max(log_ratio(mechanism, a, b) for a, b in query.shifts(neighbours))


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_laplace_loses_exactly_its_epsilon(query: Counting, neighbours: Neighbours) -> None:
    for epsilon in EPSILONS:
        mechanism = DiscreteLaplace.calibrated(query.distance(neighbours, 1), epsilon)
        assert mechanism.loss(query.distance(neighbours, 1)).epsilon == epsilon
        worst = worst_log_ratio(mechanism, query, neighbours)
        assert epsilon * (1 - 1e-12) <= worst <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("factor", WRONG_SPREADS)
def test_laplace_of_another_scale_fails_the_law(factor: Fraction) -> None:
    query, epsilon = QUERIES[0], Fraction(1)
    wrong = DiscreteLaplace(factor * query.distance(Neighbours.ADD_REMOVE, 1) / epsilon)
    worst = worst_log_ratio(wrong, query, Neighbours.ADD_REMOVE)
    assert not epsilon * (1 - 1e-12) <= worst <= epsilon * (1 + 1e-12)


def test_groups_under_substitution_need_twice_the_noise() -> None:
    """The calibration of one ungrouped count loses 2 epsilon when a unit changes its group."""
    query = Counting(groups=2, limit=1, whole=1)
    single = DiscreteLaplace.calibrated(1, Fraction(1))
    assert worst_log_ratio(single, query, Neighbours.SUBSTITUTE) == pytest.approx(2, abs=1e-12)


def small_weights(query: Counting) -> Counting:
    """The same with W = 4: a Gaussian law over multiples of 2^32 is too wide to write down."""
    return Counting(query.groups, query.limit, min(query.whole, 4))


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_gaussian_keeps_rho_at_every_order(query: Counting, neighbours: Neighbours) -> None:
    """Attained at integer orders by the farthest neighbours, up to the rounding of a root."""
    query = small_weights(query)
    mechanism = DiscreteGaussian.calibrated(query.distance(neighbours, 2), Fraction(1), DELTA)
    law, rho = pmf_vector(mechanism), float(mechanism.rho(mechanism.sensitivity))
    moves = {tuple(sorted(map(abs, np.subtract(*pair)))) for pair in query.shifts(neighbours)}
    for order in (1.5, 2.0, 3.0, 8.0):
        divergence = max(sum(renyi(law, int(move), order) for move in moved) for moved in moves)
        assert divergence <= order * rho * (1 + 1e-9)
        if order.is_integer():
            assert divergence >= order * rho * (1 - 1e-8)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("shifts", "square"), [((1,), 1), ((2,), 4), ((1, 1), 2)])
def test_gaussian_keeps_its_delta(
    shifts: tuple[int, ...], square: int, epsilon: Fraction
) -> None:
    """The conversion from rho gives away less than a factor 30 in delta."""
    mechanism = DiscreteGaussian.calibrated(root_above(square), epsilon, Fraction(1, 10**4))
    attained = hockey_stick(pmf_vector(mechanism), shifts, float(epsilon))
    assert mechanism.delta / 30 <= attained <= mechanism.delta


def test_gaussian_of_a_smaller_spread_cannot_be_made_and_would_break_delta() -> None:
    right = DiscreteGaussian.calibrated(1, Fraction(1), Fraction(1, 10**4))
    for factor in (Fraction(1, 2), Fraction(7, 10)):
        with pytest.raises(ValueError, match="too small"):
            DiscreteGaussian(right.sigma2 * factor**2, Fraction(1), right.epsilon, right.delta)
        wrong = DiscreteGaussian(
            right.sigma2 * factor**2, Fraction(1), Fraction(100), right.delta
        )
        assert hockey_stick(pmf_vector(wrong), (1,), 1.0) > right.delta
