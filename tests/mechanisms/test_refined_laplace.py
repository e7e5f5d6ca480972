"""Refining: the joint law by enumeration, the sampler against it, and what less would lose."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from dpquery.budget.accountant import additive
from dpquery.core.privacy_events import Refined, decode, encode
from dpquery.core.privacy_loss import Loss
from dpquery.errors import InternalError
from dpquery.mechanisms import DiscreteLaplace, Randomness, RefinedLaplace
from dpquery.mechanisms import laplace as refined_laplace
from dpquery.mechanisms.laplace import _first_part, _mass, _width
from tests.mechanisms.sources import ONES, PATTERNS, ZEROS, Repeating, Seeded, Stuck

HALF = Fraction(1, 2)
PAIRS = [
    (Fraction(1), HALF),
    (Fraction(2), Fraction(2, 3)),
    (Fraction(3), Fraction(29, 10)),
    (Fraction(1, 3), Fraction(1, 5)),
    (Fraction(5), Fraction(1, 2)),
]
REACH = 60
Law = Callable[[int], float]


def of_scales(before: Fraction, after: Fraction) -> RefinedLaplace:
    return RefinedLaplace(1 / before, 1 / after)


def ratio(scale: Fraction) -> float:
    return math.exp(-1 / scale)


def added(before: Fraction, after: Fraction) -> Law:
    """Return the law of what is between the two, as the claim's proof states it."""
    p, q = ratio(before), ratio(after)
    nothing = q * (1 - p) ** 2 / (p * (1 - q) ** 2)
    noise = DiscreteLaplace(before)
    return lambda step: nothing * (step == 0) + (1 - nothing) * noise.pmf(step)


@cache
def joint(before: Fraction, after: Fraction, value: int, reach: int = REACH) -> np.ndarray:
    """Return the probability of each earlier value (rows) and later one (columns)."""
    late, between = DiscreteLaplace(after), added(before, after)
    places = range(-reach, reach + 1)
    laws = np.array([between(step) for step in range(-2 * reach, 2 * reach + 1)])
    drawn = np.array([late.pmf(z - value) for z in places])
    return np.array([laws[y + 3 * reach - np.arange(2 * reach + 1)] * drawn for y in places])


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_the_earlier_value_has_its_own_law(before: Fraction, after: Fraction) -> None:
    """So the later one may be drawn from what the joint law says, given the earlier."""
    between = added(before, after)
    assert 0 < between(0) <= 1
    law, earlier = joint(before, after, 0), DiscreteLaplace(before)
    inner = range(-REACH // 2, REACH // 2)
    for y in inner:
        assert law[y + REACH].sum() == pytest.approx(earlier.pmf(y), rel=1e-4)


@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("distance", [1, 3])
def test_both_together_lose_what_the_later_one_does(
    before: Fraction, after: Fraction, distance: int
) -> None:
    one, other = (joint(before, after, value, 20) for value in (0, distance))
    ratios = np.log(one[one > 0] / other[one > 0])
    expected = float(distance / after)
    assert np.abs(ratios).max() == pytest.approx(expected, rel=1e-9)
    refined = of_scales(before, after)
    paid = DiscreteLaplace(before).loss(distance).epsilon + refined.loss(distance).epsilon
    assert paid == distance / after
    assert additive([refined.event(distance)]).loss == refined.loss(distance)


def test_two_values_that_refine_the_same_one_lose_more() -> None:
    """Which is why the ledger lets each be refined once."""
    before, after, places = Fraction(2), Fraction(1), range(-12, 13)
    worst = 0.0
    for y in places:
        here, there = (
            [joint_at(before, after, value, y, z) / law_of(before, y - value) for z in places]
            for value in (0, 1)
        )
        earlier = math.log(law_of(before, y) / law_of(before, y - 1))
        steps = [math.log(a / b) for a, b in zip(here, there, strict=True)]
        worst = max(worst, earlier + 2 * max(steps))
    assert worst > float(1 / after) + 0.4


def law_of(scale: Fraction, noise: int) -> float:
    return DiscreteLaplace(scale).pmf(noise)


def joint_at(before: Fraction, after: Fraction, value: int, y: int, z: int) -> float:
    return law_of(after, z - value) * added(before, after)(y - z)


def given(before: Fraction, after: Fraction, value: int, y: int) -> np.ndarray:
    """Return the law of the later value, given the earlier one."""
    law = joint(before, after, value)[y + REACH]
    return law / law.sum()


def divergence(before: Fraction, after: Fraction, y: int, order: float) -> float:
    """Return the Renyi divergence of the later value for 0 and 1, given the earlier one."""
    one, other = given(before, after, 0, y), given(before, after, 1, y)
    held = (one > 1e-250) & (other > 1e-250)
    logs = order * np.log(one[held]) + (1 - order) * np.log(other[held])
    return float(np.log(np.exp(logs).sum())) / (order - 1)


@pytest.mark.parametrize("order", [1.01, 2.0, 8.0])
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_given_the_earlier_value_its_rho_holds(
    before: Fraction, after: Fraction, order: float
) -> None:
    rho = float(additive([of_scales(before, after).event(1)]).rho)
    for y in range(-10, 12):
        assert divergence(before, after, y, order) <= order * rho * (1 + 1e-9)


def test_the_difference_of_both_rhos_would_not_hold() -> None:
    """Whoever refines some values alone, and asks something else otherwise, learns more."""
    before, after, order = Fraction(1), Fraction(100, 101), 2.0
    paid = float(1 / after**2 - 1 / before**2) / 2
    assert divergence(before, after, 10, order) > 3 * order * paid


DRAWS = 5_000
FALSE_ALARM = 1e-7
"""Of each test below; all sources are seeded, so that each always ends the same way."""


def agreement(
    before: Fraction, after: Fraction, y: int, sampled: RefinedLaplace, draws: int = DRAWS
) -> float:
    """Return the chi-square p-value of a sample, with the exact value at 0."""
    drawn = sampled.release([0] * draws, [y] * draws, Seeded(7))
    law = given(before, after, 0, y)
    places = np.clip(np.array(drawn) + REACH, 0, 2 * REACH)
    seen = np.bincount(places, minlength=2 * REACH + 1)
    common = law * draws >= 10
    expected = [*law[common] * draws, law[~common].sum() * draws + 1e-9]
    found = [*seen[common], seen[~common].sum()]
    return float(stats.chisquare(found, expected, sum_check=False).pvalue)


@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("y", [0, -7])
def test_values_are_drawn_by_that_law(before: Fraction, after: Fraction, y: int) -> None:
    assert agreement(before, after, y, of_scales(before, after)) > FALSE_ALARM


@pytest.mark.parametrize(("before", "after"), [(Fraction(3), Fraction(3, 2))])
@pytest.mark.parametrize(
    "wrong", [(Fraction(3), Fraction(6, 5)), (Fraction(5), Fraction(3, 2))]
)
def test_another_law_is_told_apart(
    before: Fraction, after: Fraction, wrong: tuple[Fraction, Fraction]
) -> None:
    assert agreement(before, after, 4, of_scales(*wrong)) < FALSE_ALARM


MANY = 20_000
RARE_ALARM = 1e-8
"""Of each of 22 larger samples: 2.2e-7 of them all."""
LARGE = (Fraction(3), Fraction(3, 2))
ENDS = [0, 8]
"""Where noisy and exact value are one, and where the way between has more than two widths."""


@pytest.mark.parametrize("y", ENDS)
def test_a_larger_sample_agrees_at_both_ends(y: int) -> None:
    assert agreement(*LARGE, y, of_scales(*LARGE), MANY) > RARE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [LARGE, (Fraction(1), HALF)])
@pytest.mark.parametrize("y", range(10))
def test_a_larger_sample_agrees_at_each_distance(
    before: Fraction, after: Fraction, y: int
) -> None:
    assert agreement(before, after, y, of_scales(before, after), 2 * MANY) > RARE_ALARM


def without_the_two(part: Fraction, whole: Fraction, randomness: Randomness) -> bool:
    """Keep a noisy value by parts of half of what they are."""
    return _first_part(part / 2, whole / 2, randomness)


def of_three_widths(places: int | None, rate: Fraction) -> int:
    """Weigh the way between by more than is proposed on it."""
    return _mass(places, rate) if places is None else min(places, 3 * _width(rate))


@pytest.mark.parametrize(
    ("name", "wrong", "y"), [("_first_part", without_the_two, 0), ("_mass", of_three_widths, 8)]
)
def test_a_slip_of_the_sampler_is_told_apart(
    name: str, wrong: Callable[..., object], y: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refined_laplace, name, wrong)
    assert agreement(*LARGE, y, of_scales(*LARGE), MANY) < RARE_ALARM


def test_one_after_the_other_they_have_the_law_of_one_release() -> None:
    before, after, source = Fraction(2), Fraction(5, 4), Seeded(3)
    exact = [11] * DRAWS
    earlier = DiscreteLaplace(before).release(exact, source)
    late = of_scales(before, after).release(exact, earlier, source)
    for drawn, scale in ((earlier, before), (late, after)):
        law = np.array([law_of(scale, noise) for noise in range(-6, 7)])
        seen = [drawn.count(11 + noise) for noise in range(-6, 7)]
        found, expected = [*seen, DRAWS - sum(seen)], [*law * DRAWS, (1 - law.sum()) * DRAWS]
        assert stats.chisquare(found, expected, sum_check=False).pvalue > FALSE_ALARM


WIDE = [
    (Fraction(2**40), Fraction(2**39)),
    (Fraction(2**40), Fraction(2**40 * 10**6, 10**6 + 1)),
    (Fraction(2**70), Fraction(1)),
    (Fraction(1, 100), Fraction(1, 101)),
]


@pytest.mark.parametrize(("before", "after"), WIDE)
def test_wide_and_narrow_noise_is_drawn_in_few_rounds(
    before: Fraction, after: Fraction
) -> None:
    """Half of 400 values lie beyond the median: 130 is 7 standard deviations off."""
    source, exact = Seeded(5), [0] * 400
    earlier = DiscreteLaplace(before).release(exact, source)
    late = of_scales(before, after).release(exact, earlier, source)
    if after >= 2**30:
        beyond = sum(abs(noise) > after * Fraction(6931, 10_000) for noise in late)
        assert 130 < beyond < 270
    else:
        assert max(map(abs, late)) < 40 * max(after, 1)


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", [*PATTERNS.values(), ZEROS, ONES])
def test_a_broken_source_ends_with_a_value_or_a_fault(
    pattern: bytes, source: Callable[[bytes], Randomness]
) -> None:
    for before, after in (*PAIRS, *WIDE):
        try:
            code, drawn = "", of_scales(before, after).release([0], [3], source(pattern))
        except InternalError as fault:
            code, drawn = fault.code, []
        assert code == "DPQ902" or len(drawn) == 1


def test_it_states_both_losses_and_refuses_to_add_noise() -> None:
    refined = of_scales(Fraction(2), HALF)
    assert refined.loss(0) == Loss(Fraction(0))
    assert refined.loss(3) == Loss(Fraction(9, 2))
    assert refined.event(3) == Refined(Fraction(3, 2), Fraction(6))
    assert decode(encode(refined.event(3))) == refined.event(3)
    for scales in ((1, 1), (2, 1), (0, 1)):
        with pytest.raises(ValueError, match="the later one"):
            RefinedLaplace(*map(Fraction, scales))
