"""Partition selection: its law against the definition, and against every pair of neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, product

import pytest

from dpquery.core.privacy_events import Approximate, decode, encode
from dpquery.core.privacy_loss import Loss
from dpquery.errors import InternalError
from dpquery.mechanisms import PartitionSelection
from dpquery.mechanisms.partition_selection import LEAST_EPSILON
from tests.mechanisms.sources import ONES, ZEROS, Failing, Repeating, Seeded, Stuck

DELTA = Fraction(1, 10**6)
LAWS = [
    PartitionSelection(Fraction(epsilon), Fraction(delta))
    for epsilon in ("0.01", "0.1", "1", "2.5", "20", "100000")
    for delta in ("1e-30", "1e-6", "0.1", "0.7")
] + [PartitionSelection(Fraction(1), Fraction(1, 10**6), least) for least in (2, 50)]
STEP = Decimal(2) ** -126


def exact(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / number.denominator


def defined(law: PartitionSelection, count: int) -> list[Decimal]:
    """Return the probabilities of the definition, which rounds nothing, to 80 digits."""
    grow, delta, found = exact(min(law.epsilon, Fraction(64))).exp(), exact(law.delta), []
    p = Decimal(0)
    for n in range(count):
        found.append(p)
        if n + 1 >= law.least:
            p = min(grow * p + delta, 1 - (1 - p - delta) / grow, Decimal(1))
    return found


def steps(law: PartitionSelection) -> int:
    """Return the least count that is always shown."""
    count = 1
    while law.probability(count) < 1:
        count *= 2
    return next(n for n in range(count // 2, count + 1) if law.probability(n) == 1)


@pytest.mark.parametrize("law", LAWS)
def test_the_law_is_the_optimal_one_rounded_down(law: PartitionSelection):
    """What is lost grows no faster than the probabilities do, and stays far below them."""
    with localcontext(prec=80):
        most = steps(law) + 2
        for n, p in enumerate(defined(law, most)):
            known = exact(law.probability(n))
            assert known <= p
            assert p - known <= max(p * Decimal("1e-6"), STEP)


@pytest.mark.parametrize("law", LAWS)
def test_neighbouring_counts_keep_the_promise_and_use_it_up(law: PartitionSelection):
    """All four conditions for every count; at each, one of them is nearly an equality."""
    with localcontext(prec=80):
        grow, delta = exact(law.epsilon).exp(), exact(law.delta)
        assert law.probability(0) == 0
        for n in range(steps(law) + 1):
            a, b = exact(law.probability(n)), exact(law.probability(n + 1))
            left = [
                grow * a + delta - b,
                grow * b + delta - a,
                grow * (1 - b) + delta - (1 - a),
                grow * (1 - a) + delta - (1 - b),
            ]
            assert min(left) >= 0
            used_up = min(left) <= 4 * grow * STEP or law.epsilon > 64
            assert b == 1 or used_up or b == 0 < law.least - 1 - n


def chances(law: PartitionSelection, counts: Sequence[int]) -> dict[tuple[bool, ...], Fraction]:
    """Return the law of the set that is shown."""
    found = {}
    for shown in product((False, True), repeat=len(counts)):
        chance = Fraction(1)
        for one, count in zip(shown, counts, strict=True):
            p = law.probability(count)
            chance *= p if one else 1 - p
        found[shown] = chance
    return found


def excess(a: dict, b: dict, epsilon: Fraction) -> Decimal:
    """Return the least delta for which a is bounded by b at an epsilon: by the worst family."""
    grow = exact(epsilon).exp()
    over = (exact(a[shown]) - grow * exact(b[shown]) for shown in a)
    return sum((part for part in over if part > 0), Decimal(0))


def moves(places: int, groups: int) -> Iterator[tuple[int, ...]]:
    """Return what one unit adds: 1 in at most so many places."""
    for number in range(groups + 1):
        for chosen in combinations(range(places), number):
            yield tuple(int(place in chosen) for place in range(places))


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("substituted", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_every_pair_of_neighbours_is_within_the_loss(
    groups: int, substituted: bool, least: int
):
    """Three groups, one of which may be a single unit's own: it appears and vanishes whole."""
    distance = 2 * groups if substituted else groups
    law = PartitionSelection.calibrated(distance, Fraction(1), Fraction(1, 20), least)
    loss, worst = law.loss(distance), Decimal(0)
    assert loss == Loss(Fraction(1), Fraction(1, 20))
    with localcontext(prec=60):
        for base in product((0, 1, 2, 5), repeat=3):
            around = [
                chances(law, [n + m for n, m in zip(base, move, strict=True)])
                for move in moves(3, groups)
            ]
            pairs = combinations(around, 2) if substituted else ((around[0], b) for b in around)
            for a, b in pairs:
                worst = max(worst, excess(a, b, loss.epsilon), excess(b, a, loss.epsilon))
    assert worst <= exact(loss.delta)
    assert groups > 1 or substituted or worst > exact(loss.delta) * Decimal("0.999999")


def test_half_the_loss_would_be_found_out():
    """The same check fails for a selection that is made for fewer groups than a unit is in."""
    law = PartitionSelection.calibrated(1, Fraction(1), Fraction(1, 20))
    with localcontext(prec=60):
        a, b = chances(law, (1, 1, 0)), chances(law, (0, 0, 0))
        assert excess(a, b, Fraction(1)) > Decimal("0.05")


def test_a_threshold_that_cuts_without_moving_the_law_would_be_found_out():
    """Smaller counts are not cut off from the law of all: 3 would be shown far too often."""
    law = PartitionSelection(Fraction(1), Fraction(1, 20))
    cut = law.probability(3)
    assert cut > law.delta
    assert PartitionSelection(law.epsilon, law.delta, 3).probability(3) <= law.delta
    assert PartitionSelection(law.epsilon, law.delta, 3).probability(2) == 0


@pytest.mark.parametrize(("epsilon", "half"), [(Fraction(1), 14), (Fraction(1, 10), 109)])
def test_half_of_the_groups_are_shown_from_so_many_units_on(epsilon: Fraction, half: int):
    law = PartitionSelection(epsilon, DELTA)
    assert law.probability(half - 1) < Fraction(1, 2) <= law.probability(half)


def test_places_are_shown_as_often_as_the_law_says():
    """60,000 draws for each count; false alarm below 1e-6 in all (5.3 standard deviations).

    The law of the next count lies outside of what is let pass.
    """
    law, size = PartitionSelection(Fraction(1, 2), Fraction(1, 100)), 60_000
    for count in (1, 2, 4, 6, 8, 10):
        p, after = (float(law.probability(n)) for n in (count, count + 1))
        margin = 5.3 * (p * (1 - p) * size) ** 0.5
        shown = len(law.select([count] * size, Seeded(count)))
        assert abs(shown - p * size) < margin < abs(after - p) * size


def test_a_group_of_nobody_is_never_shown_and_a_large_one_always():
    law = PartitionSelection(Fraction(1), DELTA)
    assert law.select([0] * 1000, Seeded(1)) == []
    assert law.select([10**12, 0, 2**70, 40], Seeded(1)) == [0, 2, 3]
    assert law.select([], Seeded(1)) == []


def test_counts_are_integers():
    with pytest.raises(TypeError):
        PartitionSelection(Fraction(1), DELTA).select([1.0], Seeded(1))  # type: ignore[list-item]


@pytest.mark.parametrize(
    "source", [Repeating(ZEROS), Repeating(ONES), Stuck(ZEROS), Stuck(ONES), Failing()]
)
def test_hostile_bits_show_no_group_of_nobody(source):
    """Most are noticed; what is not can show a group of one unit, and never one of none."""
    law = PartitionSelection(Fraction(1), DELTA)
    shown: list[int] = []
    with suppress(InternalError):
        shown = law.select([0, 0, 5], source)
    assert set(shown) <= {2}


def test_the_event_says_the_loss_and_survives_the_ledger():
    law = PartitionSelection.calibrated(4, Fraction(1, 2), DELTA)
    event = law.event(4)
    assert event == Approximate(Fraction(1, 2), DELTA)
    assert decode(encode(event)) == event
    assert law.loss(0) == Loss(Fraction(0))


def test_what_cannot_be_kept_is_refused():
    for epsilon in (Fraction(0), LEAST_EPSILON / 2):
        with pytest.raises(ValueError, match="epsilon"):
            PartitionSelection(epsilon, DELTA)
    for delta in (Fraction(0), Fraction(1), Fraction(1, 2**125)):
        with pytest.raises(ValueError, match="delta"):
            PartitionSelection(Fraction(1), delta)
    with pytest.raises(ValueError, match="nobody"):
        PartitionSelection(Fraction(1), DELTA, 0)
