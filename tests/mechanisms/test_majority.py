"""The majority: its law against its claim, and against rules of the same claim; samples."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy import stats

from dpquery.mechanisms import Majority
from tests.mechanisms.sources import PATTERNS, Repeating, Seeded, Stuck, ended

ONE = Fraction(1)
ALARM = 1e-6
"""How often a test below would fail for right draws and fresh bits; its seeds are fixed."""


def loss(mechanism: Majority, a: int, b: int) -> float:
    """The other answer has the probability of this one at the mirrored difference."""
    pairs = [(mechanism.pmf(side * a), mechanism.pmf(side * b)) for side in (1, -1)]
    return max(abs(math.log(p / q)) for p, q in pairs)


@pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
@pytest.mark.parametrize(
    ("distance", "step"), [(1, 1), (2, 1), (2, 2), (12, 1), (12, 12), (12, 4)]
)
def test_it_loses_exactly_its_epsilon(distance: int, step: int, epsilon: str) -> None:
    asked = Fraction(epsilon)
    mechanism = Majority.calibrated(distance, asked, step=step)
    worst = max(
        loss(mechanism, d, d + moved)
        for d in range(-30, 31)
        for moved in range(1, distance + 1)
    )
    assert float(asked) * (1 - 1e-9) <= worst <= float(asked) * (1 + 1e-9)


def test_noise_for_one_added_vote_fails_when_a_vote_turns() -> None:
    wrong = Majority.calibrated(1, ONE)
    assert max(loss(wrong, d, d + 2) for d in range(-5, 6)) > 1.99


def test_parts_of_a_step_lose_as_much_as_a_whole_one() -> None:
    """So a unit that is in two groups loses more than once: groups need a step of 1."""
    mechanism = Majority.calibrated(12, ONE, step=12)
    assert loss(mechanism, -1, 1) == pytest.approx(1)
    assert mechanism.loss(2) == mechanism.loss(12)
    alike = Majority.calibrated(12, ONE)
    assert max(loss(alike, d, d + 1) for d in range(-30, 31)) <= 1 / 12 + 1e-9


def test_of_an_odd_number_of_votes_it_is_the_best_rule() -> None:
    """Errors at margins 1, 2, 3; the recursion p' <= min(e p, 1 - (1 - p) / e) is met."""
    mechanism = Majority.calibrated(2, ONE, step=2)
    wrong = [1 - mechanism.pmf(2 * r - 1) for r in (1, 2, 3)]
    assert wrong == pytest.approx([0.269, 0.099, 0.036], abs=5e-4)
    for r in range(-6, 7):
        p, more = mechanism.pmf(2 * r - 1), mechanism.pmf(2 * r + 1)
        assert more == pytest.approx(min(math.e * p, 1 - (1 - p) / math.e))


@pytest.mark.parametrize(("scale", "step"), [("1", 1), ("1", 2), ("7/3", 3), ("40", 1)])
def test_answers_follow_the_law_and_mirror(scale: str, step: int) -> None:
    """4,000 draws at each of nine differences, false alarm 1e-6."""
    mechanism, randomness = Majority(Fraction(scale), step), Seeded(4)
    for difference in range(-4, 5):
        assert mechanism.pmf(difference) == pytest.approx(1 - mechanism.pmf(-difference))
        above = sum(mechanism.release(difference, randomness) for _ in range(4000))
        chance = mechanism.pmf(difference)
        assert stats.binomtest(above, 4000, chance).pvalue > ALARM / 9
    wrong = stats.binomtest(
        sum(mechanism.release(4, randomness) for _ in range(4000)),
        4000,
        Majority(2 * Fraction(scale), step).pmf(4),
    )
    assert wrong.pvalue < ALARM or scale == "40"


def test_wide_integers_are_read_exactly_and_floats_are_not() -> None:
    mechanism = Majority(ONE)
    assert mechanism.release(2**200, Seeded(1)) is True
    assert mechanism.release(-(2**200), Seeded(1)) is False
    with pytest.raises(TypeError):
        mechanism.release(0.5, Seeded(1))


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_broken_source_ends(pattern: str, source: type) -> None:
    bits = source(PATTERNS[pattern])
    assert ended(lambda: Majority(Fraction(7, 3)).release(3, bits)) in {True, False, "DPQ902"}


def test_parameters_without_meaning_are_refused() -> None:
    for scale, step in ((Fraction(0), 1), (Fraction(-1), 1), (ONE, 0)):
        with pytest.raises(ValueError, match="scale"):
            Majority(scale, step)
