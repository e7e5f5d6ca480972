"""Choosing among places by counts: the claims, on all neighbours of all small lists; samples.

No sampling in the claims: the loss is at most what is claimed and at least what is known to be
attained, so a rate that is too low is noticed as well as one that is too high.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.mechanisms import FiniteExponential, NoisyTop, PermuteAndFlip
from tests.mechanisms.joint_laws import agreement, sampling
from tests.mechanisms.sources import ONES, PATTERNS, ZEROS, Repeating, Seeded, Stuck, ended

ADD_REMOVE, SUBSTITUTE = Neighbours
ONE = Fraction(1)
ALARM = 1e-6
"""How often a test below would fail for right draws and fresh bits; its seeds are fixed."""

Choice = FiniteExponential | PermuteAndFlip
Counts = tuple[int, ...]
CHOICES = [FiniteExponential, PermuteAndFlip]


def units(places: int, limit: int, whole: int) -> list[Counts]:
    """What one unit may add to each count, nothing first; rows weigh floor(W min(1, k / n))."""
    most = 1 if whole == 1 else limit + 1
    return [
        tuple(
            whole * min(rows, limit) // rows * held.count(p) if rows else 0
            for p in range(places)
        )
        for rows in range(most + 1)
        for held in itertools.combinations_with_replacement(range(places), rows)
    ]


def bases(units: list[Counts], most: int) -> Iterator[np.ndarray]:
    """What all other units add up to."""
    chosen = (
        some
        for number in range(most + 1)
        for some in itertools.combinations_with_replacement(units[1:], number)
    )
    sums = {tuple(map(sum, zip(*some, strict=True))) or (0,) * len(units[0]) for some in chosen}
    return map(np.array, sums)


def worst_loss(
    law: Callable[[Counts], np.ndarray],
    units: list[Counts],
    most: int,
    relation: Neighbours,
    groups: int = 1,
) -> float:
    """The largest log-ratio between neighbours, at the worst output in each group."""

    def laws(counts: np.ndarray) -> np.ndarray:
        return np.array([law(tuple(part)) for part in counts.reshape(groups, -1).tolist()])

    worst = 0.0
    for base in bases(units, most):
        there = np.array([laws(base + unit) for unit in units])
        here = there if relation is SUBSTITUTE else there[:1]
        moved = here[:, None] - there[None]
        worst = max(
            worst,
            moved.max(axis=-1).sum(axis=-1).max(),
            (-moved).max(axis=-1).sum(axis=-1).max(),
        )
    return worst


def log_law(mechanism: Choice) -> Callable[[Counts], np.ndarray]:
    return cache(lambda counts: np.log(mechanism.pmf(counts)))


def log_law_of_lists(mechanism: NoisyTop, places: int) -> Callable[[Counts], np.ndarray]:
    orders = list(itertools.permutations(range(places), mechanism.size))
    return cache(lambda counts: np.log([mechanism.pmf(counts, order) for order in orders]))


def distance(total: int, relation: Neighbours) -> int:
    return total * (2 if relation is SUBSTITUTE else 1)


ATTAINED = {
    (FiniteExponential, ADD_REMOVE): 0.98,
    (FiniteExponential, SUBSTITUTE): 0.95,
    (PermuteAndFlip, ADD_REMOVE): 1 - 1e-9,
    (PermuteAndFlip, SUBSTITUTE): 0.99,
}
"""With five places and up to six rows; more of either come nearer to 1."""


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("kind", CHOICES)
def test_a_choice_by_rows_loses_its_epsilon(kind: type, relation: Neighbours) -> None:
    """Rates are of the whole epsilon where a row is added: not of half of it."""
    epsilon = Fraction(2)
    mechanism = kind.calibrated(distance(1, relation), epsilon)
    worst = max(
        worst_loss(log_law(mechanism), units(places, 1, 1), 6, relation) for places in (2, 3, 4)
    )
    assert ATTAINED[kind, relation] * epsilon <= worst <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(("limit", "whole"), [(1, 4), (2, 4), (2, 12)])
@pytest.mark.parametrize("kind", CHOICES)
def test_a_choice_by_weights_loses_at_most_epsilon(
    kind: type, limit: int, whole: int, relation: Neighbours
) -> None:
    mechanism = kind.calibrated(distance(limit * whole, relation), ONE)
    worst = worst_loss(log_law(mechanism), units(3, limit, whole), 2, relation)
    assert 0.59 <= worst <= 1 + 1e-12


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(("limit", "whole"), [(1, 1), (1, 4), (2, 4)])
@pytest.mark.parametrize("kind", CHOICES)
def test_one_epsilon_covers_two_groups(
    kind: type, limit: int, whole: int, relation: Neighbours
) -> None:
    """A unit may leave one group for the other, or have rows in both."""
    mechanism = kind.calibrated(distance(limit * whole, relation), ONE)
    worst = worst_loss(
        log_law(mechanism), units(6, limit, whole), 1 if limit > 1 else 2, relation, groups=2
    )
    assert 0.59 <= worst <= 1 + 1e-12


@pytest.mark.parametrize(("kind", "lost"), [(FiniteExponential, 1.94), (PermuteAndFlip, 1.99)])
def test_the_rate_of_an_added_row_fails_for_a_replaced_one(kind: type, lost: float) -> None:
    worst = worst_loss(log_law(kind(ONE)), units(3, 1, 1), 8, SUBSTITUTE)
    assert lost < worst <= 2


@pytest.mark.parametrize("kind", CHOICES)
def test_half_of_the_rate_wastes_half_of_epsilon_where_a_row_is_added(kind: type) -> None:
    worst = worst_loss(log_law(kind(ONE / 2)), units(3, 1, 1), 8, ADD_REMOVE)
    assert worst <= 0.5 + 1e-12


SIZES = [1, 2, pytest.param(3, marks=pytest.mark.slow)]


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("size", SIZES)
def test_the_first_few_lose_exactly_epsilon(size: int, relation: Neighbours) -> None:
    """A replaced row lowers one count and raises another: size + 1, and not twice the size."""
    shift = size + (relation is SUBSTITUTE)
    mechanism = NoisyTop.calibrated(shift, 2 * ONE, size)
    worst = worst_loss(log_law_of_lists(mechanism, 4), units(4, 1, 1), 4, relation)
    assert 0.96 * 2 <= worst <= 2 * (1 + 1e-9)


@pytest.mark.parametrize("relation", Neighbours)
def test_the_first_two_by_weight_in_groups_lose_at_most_epsilon(relation: Neighbours) -> None:
    mechanism = NoisyTop.calibrated(8 * (2 + (relation is SUBSTITUTE)), ONE, 2)
    law = log_law_of_lists(mechanism, 3)
    assert 0.6 <= worst_loss(law, units(6, 2, 4), 1, relation, groups=2) <= 1 + 1e-9


def test_an_epsilon_that_is_not_split_fails_for_the_first_two() -> None:
    wrong = NoisyTop(ONE, 2)
    assert worst_loss(log_law_of_lists(wrong, 4), units(4, 1, 1), 4, ADD_REMOVE) > 1.9


def test_the_first_of_one_shot_is_permute_and_flip() -> None:
    """Two formulas, of polynomials in different variables."""
    for counts in itertools.product(range(4), repeat=4):
        for rate in (Fraction(1, 3), Fraction(2)):
            law = [NoisyTop(rate, 1).pmf(counts, [place]) for place in range(4)]
            assert law == pytest.approx(PermuteAndFlip(rate).pmf(counts), abs=1e-12)


def test_permute_and_flip_is_nearer_to_the_largest() -> None:
    counts = [100, 98, 95, *[90] * 20]

    def gap(mechanism: Choice) -> float:
        law = zip(mechanism.pmf(counts), counts, strict=True)
        return sum(p * (100 - count) for p, count in law)

    assert gap(FiniteExponential(ONE / 2)) == pytest.approx(1.574, abs=1e-3)
    assert gap(PermuteAndFlip(ONE / 2)) == pytest.approx(1.069, abs=1e-3)


@pytest.mark.parametrize("kind", CHOICES)
def test_what_is_lacking_stays_within_its_bound(kind: type) -> None:
    counts, mechanism = list(range(40)), kind(Fraction(1, 3))
    law = mechanism.pmf(counts)
    for confidence in (Fraction(1, 2), Fraction(19, 20)):
        g = mechanism.shortfall(40, confidence)
        assert (
            sum(p for p, count in zip(law, counts, strict=True) if 39 - count > g)
            <= 1 - confidence
        )


FEW_PLACES = (7, 3, 0, 9, 9, 4)
MANY_PLACES = tuple(place * 37 % 50 for place in range(40))
SETTINGS = [
    (counts, rate)
    for counts in (FEW_PLACES, MANY_PLACES)
    for rate in (Fraction(2, 7), Fraction(1, 2**33 + 1) * 2**31)
]
SETTINGS[2] = pytest.param(*SETTINGS[2], marks=pytest.mark.slow)


@pytest.mark.parametrize(("counts", "rate"), SETTINGS)
@pytest.mark.parametrize("kind", CHOICES)
def test_choices_follow_the_law(kind: type, counts: Counts, rate: Fraction) -> None:
    """24 x 120 draws, false alarm 1e-6; up to 32 places and more take different paths."""
    mechanism = kind(rate)
    law = dict(enumerate(mechanism.pmf(counts)))
    assert (
        agreement(law, sampling(lambda bits: mechanism.release(counts, bits)), 24, 120) > ALARM
    )


@pytest.mark.parametrize("kind", CHOICES)
@pytest.mark.parametrize("factor", ["1/2", pytest.param("2", marks=pytest.mark.slow)])
def test_choices_at_another_rate_are_noticed(kind: type, factor: str) -> None:
    """At the sizes used above."""
    law = dict(enumerate(kind(Fraction(2, 7)).pmf(MANY_PLACES)))
    wrong = kind(Fraction(2, 7) * Fraction(factor))
    assert (
        agreement(law, sampling(lambda bits: wrong.release(MANY_PLACES, bits)), 24, 120) < ALARM
    )


@pytest.mark.parametrize("size", SIZES)
def test_the_first_few_follow_the_law(size: int) -> None:
    """24 x 120 draws, false alarm 1e-6; and with another rate they do not."""
    mechanism = NoisyTop(Fraction(2, 7), size)
    law = {
        order: mechanism.pmf(FEW_PLACES, order)
        for order in itertools.permutations(range(6), size)
    }
    assert math.fsum(law.values()) == pytest.approx(1, abs=1e-9)

    def drawn(rate: Fraction) -> float:
        top = NoisyTop(rate, size)
        return agreement(
            law, sampling(lambda bits: tuple(top.release(FEW_PLACES, bits))), 24, 120
        )

    assert drawn(mechanism.rate) > ALARM
    assert drawn(2 * mechanism.rate) < ALARM


def test_an_open_order_is_decided_by_further_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no digit after the point at first, most orders are open; the law is the same."""
    monkeypatch.setattr("dpquery.mechanisms.samplers.COARSE", 0)
    mechanism = NoisyTop(Fraction(2, 7), 2)
    law = {o: mechanism.pmf(FEW_PLACES, o) for o in itertools.permutations(range(6), 2)}
    assert (
        agreement(
            law, sampling(lambda bits: tuple(mechanism.release(FEW_PLACES, bits))), 24, 120
        )
        > ALARM
    )


WIDE = [-(2**90), 2**90, 2**90 - 1]


@pytest.mark.parametrize("mechanism", [FiniteExponential(ONE), PermuteAndFlip(ONE)])
def test_wide_integers_are_read_exactly_and_floats_are_not(mechanism: Choice) -> None:
    drawn = Counter(mechanism.release(WIDE, Seeded(seed)) for seed in range(200))
    assert set(drawn) == {1, 2}
    with pytest.raises(TypeError):
        mechanism.release([0.5, 1.5], Seeded(1))


def test_the_first_few_of_wide_integers_are_exact_too() -> None:
    orders = Counter(tuple(NoisyTop(ONE, 2).release(WIDE, Seeded(seed))) for seed in range(200))
    assert set(orders) == {(1, 2), (2, 1)}
    with pytest.raises(TypeError):
        NoisyTop(ONE, 1).release([0.5, 1.5], Seeded(1))


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("counts", [FEW_PLACES, MANY_PLACES])
def test_a_broken_source_ends_with_a_place_or_a_fault(
    counts: Counts, pattern: str, source: type
) -> None:
    for mechanism in (FiniteExponential(ONE), PermuteAndFlip(ONE), NoisyTop(ONE, 2)):
        drawn = ended(partial(mechanism.release, counts, source(PATTERNS[pattern])))
        assert drawn == "DPQ902" or drawn in range(40) or len(set(drawn)) == 2
        if source is Repeating and PATTERNS[pattern] in {ZEROS, ONES}:
            assert drawn == "DPQ902"


def test_parameters_without_meaning_are_refused() -> None:
    for rate in (Fraction(0), Fraction(-1)):
        for made in (FiniteExponential, PermuteAndFlip, lambda r: NoisyTop(r, 1)):
            with pytest.raises(ValueError, match="rate"):
                made(rate)
    with pytest.raises(ValueError, match="size"):
        NoisyTop(ONE, 0)
    for confidence in (Fraction(0), ONE):
        with pytest.raises(ValueError, match="confidence"):
            PermuteAndFlip(ONE).shortfall(3, confidence)
