"""What every registered mechanism keeps: headings, loss, events, law, intervals, integers."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dpquery import functions
from dpquery.core.privacy_events import BoundedRange, Composed, Gaussian, Pure, decode, encode
from dpquery.core.privacy_loss import Loss
from dpquery.functions.base import DPFunction
from dpquery.mechanisms import (
    ADDITIVE,
    ALL,
    PURE,
    AboveThreshold,
    AdditiveNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteStaircase,
    FiniteExponential,
    FirstNoisyCount,
    FittedQuantiles,
    GapQuantile,
    GridQuantile,
    IndependentQuantiles,
    JointQuantiles,
    LargestNoisyCounts,
    Majority,
    MaxNorm,
    MeanExponential,
    MeanInverseSensitivity,
    Mechanism,
    NoisyQuantile,
    NoisyTop,
    PartitionSelection,
    PermuteAndFlip,
    RecursiveQuantiles,
    SmoothedJointQuantiles,
    SmoothQuantile,
    ThresholdQuantiles,
    TreeQuantiles,
)
from tests.mechanisms.cases import DELTA, EPSILONS, NAMED, Case
from tests.mechanisms.laws import pmf_vector
from tests.mechanisms.sources import Seeded

HEADINGS = ["Claim", "Assumes", "Proof", "Sampling", "Rounding", "Utility", "Checked"]


def made(case: Case) -> list[AdditiveNoise]:
    return [
        case.calibrated(distance, epsilon) for distance in (1, 3, 2**33) for epsilon in EPSILONS
    ]


@pytest.mark.parametrize("kind", ALL)
def test_docstring_has_the_headings_in_order(kind: type) -> None:
    lines = [line.strip() for line in (kind.__doc__ or "").splitlines()]
    assert [
        line[:-1] for line in lines if line[:-1] in HEADINGS and line.endswith(":")
    ] == HEADINGS


@pytest.mark.parametrize("kind", ALL)
def test_a_mechanism_of_another_kind_has_tests_of_its_law(kind: type) -> None:
    own = {
        GridQuantile: "test_grid_quantile.py",
        DiscreteStaircase: "test_discrete_staircase.py",
        MaxNorm: "test_max_norm.py",
        FiniteExponential: "test_choices.py",
        PermuteAndFlip: "test_choices.py",
        NoisyTop: "test_choices.py",
        LargestNoisyCounts: "test_noisy_histogram.py",
        FirstNoisyCount: "test_noisy_histogram.py",
        Majority: "test_majority.py",
        AboveThreshold: "test_above_threshold.py",
        MeanExponential: "test_mean_selection.py",
        MeanInverseSensitivity: "test_mean_selection.py",
        FittedQuantiles: "test_quantile_lists.py",
        GapQuantile: "test_single_quantiles.py",
        IndependentQuantiles: "test_quantile_lists.py",
        JointQuantiles: "test_quantile_lists.py",
        SmoothedJointQuantiles: "test_quantile_lists.py",
        NoisyQuantile: "test_single_quantiles.py",
        RecursiveQuantiles: "test_quantile_lists.py",
        SmoothQuantile: "test_smooth_quantile.py",
        ThresholdQuantiles: "test_quantile_lists.py",
        TreeQuantiles: "test_quantile_lists.py",
        PartitionSelection: "test_partition.py",
    }
    assert kind in ADDITIVE or (Path(__file__).parent / own[kind]).exists()


def test_a_quantile_loses_in_proportion_and_says_so() -> None:
    mechanism = GridQuantile.calibrated(Fraction(1, 2), 8, 100, Fraction(3), Fraction(1))
    assert mechanism.loss(0) == Loss(Fraction(0))
    assert mechanism.loss(3) == Loss(Fraction(1))
    assert mechanism.loss(4).epsilon > 1
    assert decode(encode(mechanism.event(3))) == BoundedRange(Fraction(1))


ONE, HALF = Fraction(1), Fraction(1, 2)
CALIBRATED = [
    DiscreteStaircase.calibrated(3, ONE),
    MaxNorm.calibrated(3, ONE, 2),
    FiniteExponential.calibrated(3, ONE),
    PermuteAndFlip.calibrated(3, ONE),
    NoisyTop.calibrated(3, ONE, 4),
    LargestNoisyCounts.calibrated(3, ONE, 4),
    FirstNoisyCount.calibrated(3, ONE),
    Majority.calibrated(3, ONE),
    Majority.calibrated(3, ONE, step=3),
    AboveThreshold.calibrated(3, ONE),
    MeanExponential.calibrated(3, ONE),
    MeanInverseSensitivity.calibrated(3, ONE),
    FittedQuantiles.calibrated((HALF,), 8, 100, 3, ONE),
    GapQuantile.calibrated(HALF, 8, 100, 3, ONE),
    SmoothQuantile.calibrated(HALF, 8, 100, 3, ONE),
    RecursiveQuantiles.calibrated((HALF,), 8, 100, 3, ONE),
    IndependentQuantiles.calibrated((HALF,), 8, 100, (HALF,), 3, ONE),
    JointQuantiles.calibrated((HALF,), 8, 100, ONE, 3, ONE),
    SmoothedJointQuantiles.calibrated((HALF,), 8, 100, ONE, 3, ONE),
    ThresholdQuantiles.calibrated((HALF,), 8, (ONE,), 3, ONE),
    TreeQuantiles.calibrated((HALF,), 8, 3, ONE),
]
"""Of each other kind, noise that loses 1 at a distance of 3."""
EXPONENTIAL = {
    FiniteExponential,
    MeanExponential,
    MeanInverseSensitivity,
    GapQuantile,
    SmoothQuantile,
    FittedQuantiles,
    IndependentQuantiles,
    JointQuantiles,
    SmoothedJointQuantiles,
}
"""Those whose losses have a range (`test_bounded_range.py`)."""


@pytest.mark.parametrize(
    "mechanism", CALIBRATED, ids=lambda mechanism: type(mechanism).__name__
)
def test_what_is_chosen_loses_what_was_asked_and_says_so(mechanism: Mechanism) -> None:
    assert mechanism.loss(0) == Loss(Fraction(0))
    assert mechanism.loss(3) == Loss(ONE)
    losses = [mechanism.loss(distance).epsilon for distance in range(9)]
    assert losses == sorted(losses)
    assert losses[6] >= 2
    kind = BoundedRange if type(mechanism) in EXPONENTIAL else Pure
    whole = Composed((kind(ONE),)) if isinstance(mechanism, IndependentQuantiles) else kind(ONE)
    assert decode(encode(mechanism.event(3))) == whole


@pytest.mark.parametrize(
    "mechanism",
    [one for one in CALIBRATED if one.weight_linear],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_parts_of_a_unit_lose_no_more_than_the_whole(mechanism: Mechanism) -> None:
    """What a unit has in several groups: so one charge covers them all."""
    whole = isinstance(mechanism, Majority)  # of counts, which move by whole rows
    parts = ([1, 2], [1] * 3) if whole else ([HALF, HALF, 2], [Fraction(1, 7)] * 21)
    for distances in parts:
        lost = sum(mechanism.loss(distance).epsilon for distance in distances)
        assert lost <= mechanism.loss(sum(distances)).epsilon == 1


@pytest.mark.parametrize("kind", PURE, ids=lambda kind: kind.name)
def test_noise_that_counts_take_shows_a_scale_that_its_error_follows(kind: type) -> None:
    for distance, epsilon in ((1, ONE), (40, ONE), (40, Fraction(1, 4))):
        noise = kind.calibrated(distance, epsilon)
        assert noise.loss(distance) == Loss(epsilon)
        assert noise.norm == 1
        _, high = noise.interval(0, Fraction(95, 100))
        assert noise.scale_shown <= high + 1 <= 5 * noise.scale_shown + 1


def test_every_other_kind_is_calibrated_above() -> None:
    bounded_by_its_range = {NoisyQuantile, PartitionSelection}  # with losses of their own
    others = {GridQuantile, *map(type, CALIBRATED)} | bounded_by_its_range
    assert others == set(ALL) - set(ADDITIVE)


@pytest.mark.parametrize("function", functions.ALL, ids=lambda function: function.name)
def test_a_function_names_each_of_its_mechanisms_once(function: DPFunction) -> None:
    assert len(set(function.mechanisms)) == len(function.mechanisms) > 0


@pytest.mark.parametrize(("name", "case"), NAMED)
def test_nothing_is_lost_at_no_distance_and_more_at_a_greater_one(
    name: str, case: Case
) -> None:
    for mechanism in made(case):
        losses = [mechanism.loss(distance) for distance in (0, 1, 2, 3, 5, 2**32, 2**33, 2**40)]
        assert losses[0] == Loss(Fraction(0))
        assert all(a.epsilon <= b.epsilon for a, b in pairwise(losses))
        assert losses[1].epsilon < losses[-1].epsilon


@pytest.mark.parametrize(("name", "case"), NAMED)
def test_the_event_says_the_loss_and_survives_the_ledger(name: str, case: Case) -> None:
    for mechanism in made(case):
        event, loss = mechanism.event(3), mechanism.loss(3)
        assert decode(encode(event)) == event
        assert isinstance(event, Pure | Gaussian)
        assert event.epsilon == loss.epsilon
        assert getattr(event, "delta", 0) == loss.delta


@pytest.mark.parametrize(("name", "case"), NAMED)
def test_the_loss_at_the_sensitivity_is_what_was_asked(name: str, case: Case) -> None:
    for epsilon in EPSILONS:
        assert case.calibrated(2**33, epsilon).loss(2**33).epsilon == epsilon


@pytest.mark.parametrize(("name", "case"), NAMED)
def test_probabilities_sum_to_one_and_mirror(name: str, case: Case) -> None:
    for spread in (Fraction(1, 3), Fraction(1), *case.small, Fraction(70)):
        law = pmf_vector(case.of_spread(spread))
        assert law.sum() == pytest.approx(1, abs=1e-12)
        assert (law == law[::-1]).all()


@pytest.mark.parametrize(
    "confidence", [Fraction(1, 10), Fraction(1, 2), Fraction(95, 100), Fraction(999_999, 10**6)]
)
@pytest.mark.parametrize(("name", "case"), NAMED)
def test_the_interval_is_the_smallest_that_holds_enough(
    name: str, case: Case, confidence: Fraction
) -> None:
    for spread in (Fraction(1, 3), Fraction(1), *case.small):
        mechanism = case.of_spread(spread)
        low, high = mechanism.interval(10, confidence)
        assert low + high == 20
        held = sum(mechanism.pmf(noise) for noise in range(low - 10, high - 9))
        less = held - 2 * mechanism.pmf(high - 10)
        assert held >= float(confidence) - 1e-12
        assert high == 10 or less < float(confidence)


@pytest.mark.parametrize(("name", "case"), NAMED)
def test_wide_intervals_hold_as_often_as_stated(name: str, case: Case) -> None:
    """20,000 draws, false alarm 1e-6 (4.9 standard deviations)."""
    for spread in case.large:
        mechanism = case.of_spread(spread)
        _, width = mechanism.interval(0, Fraction(9, 10))
        held = sum(abs(noise) <= width for noise in mechanism.release([0] * 20_000, Seeded(3)))
        assert abs(held - 18_000) < 4.9 * (20_000 * 0.9 * 0.1) ** 0.5


@pytest.mark.parametrize("confidence", [Fraction(0), Fraction(1), Fraction(-1), Fraction(2)])
@pytest.mark.parametrize(("name", "case"), NAMED)
def test_a_confidence_outside_its_range_is_no_interval(
    name: str, case: Case, confidence: Fraction
) -> None:
    with pytest.raises(ValueError, match="confidence"):
        case.of_spread(Fraction(1)).interval(0, confidence)


@pytest.mark.parametrize("count", [0, 1, 32, 33, 1000])
@pytest.mark.parametrize(("name", "case"), NAMED)
def test_release_adds_to_each_value_an_integer_of_its_own(
    name: str, case: Case, count: int
) -> None:
    """The same noise goes to zeros and to values of 126 bits, as Python's integers."""
    for spread in (*case.small, *case.large):
        mechanism = case.of_spread(spread)
        exact = [(-1) ** place * (2**126 - place) for place in range(count)]
        noisy = mechanism.release(exact, Seeded(5))
        noise = mechanism.release([0] * count, Seeded(5))
        assert [a - b for a, b in zip(noisy, exact, strict=True)] == noise
        assert {type(value) for value in noisy} <= {int}
        assert count < 33 or len(set(noise)) > 10


@pytest.mark.parametrize(("name", "case"), NAMED)
def test_arrays_are_read_as_integers_and_floats_are_not(name: str, case: Case) -> None:
    mechanism = case.of_spread(Fraction(2**70))
    top = np.full(40, 2**63 - 1)
    assert {type(value) for value in mechanism.release(top, Seeded(1))} == {int}
    for count in (1, 40):
        with pytest.raises(TypeError):
            mechanism.release([0.5] * count, Seeded(1))


def test_parameters_without_noise_or_meaning_are_refused() -> None:
    one = Fraction(1)
    for wrong in (Fraction(0), Fraction(-1)):
        with pytest.raises(ValueError, match="above zero"):
            DiscreteLaplace(wrong)
        with pytest.raises(ValueError, match="above zero"):
            DiscreteGaussian(wrong, one, one, DELTA)
        with pytest.raises(ValueError, match="above zero"):
            DiscreteGaussian(one, wrong, one, DELTA)


def test_importing_mechanisms_loads_no_engine_and_no_scipy() -> None:
    heavy = "{'sqlglot', 'duckdb', 'pyarrow', 'scipy', 'pandas', 'dp_accounting'}"
    code = f"import sys, dpquery.mechanisms; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
