"""One quantile by other mechanisms: charges, refusals, intervals, and what is said of them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpquery.core.privacy_events import BoundedRange, Gaussian, Pure
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import DATE, INTEGER
from dpquery.errors import NameRefused, PlanRefused
from dpquery.functions.order_statistics.quantile import (
    OF_ONE,
    NoisyQuantileRelease,
    QuantileRelease,
)
from dpquery.mechanisms import SmoothQuantile, rank_range
from dpquery.plan.touched_partitions import require_groups
from tests.functions.tables import ALONE, Held, World, call, column, plan
from tests.mechanisms.sources import Seeded

ARGUMENT = column(INTEGER, 10, 110)
WORLD = World((10, 110))
ROWS = tuple(((0, value),) for value in range(30, 61))
DELTA = Fraction(1, 10**6)


def asked(mechanism: str, **options: object):
    if mechanism == "gaussian":
        options["delta"] = DELTA
    return call("DP_QUANTILE", ARGUMENT, order="0.5", mechanism=mechanism, **options)


@pytest.mark.parametrize("mechanism", OF_ONE)
def test_each_mechanism_answers_with_a_value_of_the_column(mechanism: str) -> None:
    found = plan(asked(mechanism, eps=2), ALONE)
    (cell,) = found.run(Held(WORLD, ROWS), Seeded(2))
    assert type(cell.value) is int
    assert 10 <= cell.value <= 110
    assert cell.mechanism == mechanism
    event = found.event()
    assert isinstance(event, Gaussian if mechanism == "gaussian" else Pure | BoundedRange)
    assert event.epsilon == 2
    assert found.step().mechanism == mechanism


@pytest.mark.parametrize("relation", Neighbours)
def test_gaps_are_calibrated_as_the_default_is(relation: Neighbours) -> None:
    facts = World((10, 110), 2, 3, True).facts(relation)
    default, gaps = (plan(asked(name), facts) for name in ("quantile", "exponential"))
    assert isinstance(gaps, QuantileRelease)
    assert gaps.distance == default.distance == rank_range(
        Fraction(1, 2), gaps.measure.weight.total,
        substitution=relation is Neighbours.SUBSTITUTE, grouped=True,
    )  # fmt: skip
    assert gaps.mechanism.rate == default.mechanism.rate


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_noise_spans_the_range_and_the_answer_says_so(mechanism: str) -> None:
    found = plan(asked(mechanism), ALONE)
    assert isinstance(found, NoisyQuantileRelease)
    assert found.mechanism.sensitivity == 100
    assert "teaching" in found.note
    assert found.step().sensitivity == "100"
    assert not plan(asked("quantile"), ALONE).note


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_noise_on_a_value_is_refused_with_groups(mechanism: str) -> None:
    facts = World((10, 110), 2).facts(Neighbours.ADD_REMOVE)
    release = plan(asked(mechanism), facts)
    with pytest.raises(PlanRefused, match="no groups") as refused:
        require_groups(asked(mechanism), release, facts)
    assert refused.value.code == "DPQ404"


def test_smoothing_is_counted_in_steps_of_the_grid() -> None:
    found = plan(asked("inverse_sensitivity", smooth=Fraction(7, 2)), ALONE)
    assert isinstance(found.mechanism, SmoothQuantile)
    assert found.mechanism.smooth == 4
    assert found.step().expected_error.endswith("or 4 steps beside such a value")
    assert (
        plan(asked("inverse_sensitivity", smooth=Fraction(10**9)), ALONE).mechanism.smooth
        == 101
    )


@pytest.mark.parametrize("mechanism", ["quantile", "exponential", "laplace"])
def test_smoothing_of_another_mechanism_is_refused(mechanism: str) -> None:
    with pytest.raises(NameRefused, match="rho_smooth") as refused:
        plan(asked(mechanism, smooth=Fraction(1)), ALONE)
    assert refused.value.code == "DPQ205"


def test_intervals_of_noisy_values_are_values_of_the_column_and_hold() -> None:
    """1,000 draws at 0.9; more than 150 misses once in 10^6 times."""
    found = plan(asked("laplace", eps=20), ALONE)
    held, misses = Held(WORLD, ROWS), 0
    for seed in range(1000):
        (cell,) = found.run(held, Seeded(seed))
        low, high = cell.interval(Fraction(9, 10))
        assert 10 <= low <= high <= 110
        misses += not low <= 45 <= high
    assert misses <= 150
    days = call("DP_QUANTILE", column(DATE, 0, 9), order="0.5", mechanism="laplace")
    (cell,) = plan(days, ALONE).run(Held(World((0, 9)), ()), Seeded(1))
    assert all(type(end) is type(cell.value) for end in cell.interval(Fraction(1, 2)))
