"""Calls that ask for an error: the epsilon that is found keeps to it, and is nearly the least.

Both are held against the exact laws of the mechanisms, added up outcome by outcome, at the
worst data there are. Nothing is drawn, so no alarm is false.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest

from dpquery import BudgetRefused, QueryRefused, connect
from dpquery.functions.base import Facts, Release
from dpquery.ir.query import Call, Contribution, Wanted
from dpquery.mechanisms import DiscreteLaplace
from dpquery.plan.by_error import digits_below, least, priced
from dpquery.policy.sources.files import copy_samples
from dpquery.session import Session
from tests.functions.tables import ADD_REMOVE, ALONE, SUBSTITUTE, call, column, plan
from tests.mechanisms.laws import pmf_vector

NEARLY = Fraction(10, 11)
"""A tenth less than what was found misses the error: the least is within 10 %."""
MANY = pytest.param(1000, marks=pytest.mark.slow)
MECHANISMS = (None, *[None, "staircase"] * 4, "gaussian")
LEVELS = (Fraction(9, 10), Fraction(19, 20), Fraction(99, 100))


def found(asked: Call, facts: Facts) -> tuple[Release, Release]:
    """Return the release at the epsilon that is found, and at a tenth less."""
    options = priced(asked, facts).options
    less = replace(options, epsilon=options.epsilon * NEARLY)
    return plan(replace(asked, options=options), facts), plan(
        replace(asked, options=less), facts
    )


def facts_of(chance: Random, *, limit: int) -> Facts:
    unit = Contribution("unit", limit == 1, limit)
    return Facts(unit, chance.choice([ADD_REMOVE, SUBSTITUTE]), 3, chance.random() < 0.5)


# Counts and sums: the chance that noise, and what the type rounds, pass the error.


def beyond(release: Release, error: Fraction) -> float:
    """Return how often the noise of a release is above an error, by its exact law."""
    noise, most = release.mechanism, error / release.unit
    if isinstance(noise, DiscreteLaplace):
        q = 1 / float(noise.scale)
        return 2 * math.exp(-q * (math.floor(most) + 1)) / (1 + math.exp(-q))
    law = pmf_vector(noise)
    sizes = np.abs(np.arange(len(law)) - len(law) // 2)
    return float(law[sizes > math.floor(most)].sum())


def additive_target(chance: Random) -> tuple[Call, Facts, Fraction]:
    """Return a call with a random target, and what rounding takes of its error."""
    name, weighted = chance.choice(["DP_COUNT", "DP_SUM"]), chance.random() < 0.4
    argument = column(low=-5, high=chance.choice([5, 20])) if name == "DP_SUM" else None
    mechanism = None if weighted else chance.choice(MECHANISMS)
    error = Fraction(chance.randint(1, 400), chance.choice([1, 2]))
    if weighted or name == "DP_SUM":
        error += 5
    asked = call(
        name,
        argument,
        wanted=Wanted(error, chance.choice(LEVELS)),
        mechanism=mechanism,
        delta=Fraction(1, 10**6) if mechanism == "gaussian" else None,
    )
    facts = facts_of(chance, limit=chance.randint(2, 5) if weighted else 1)
    if mechanism == "staircase":  # it has no groups
        facts = replace(facts, grouped=False, cells=1)
    return asked, facts, Fraction(1, 2) if weighted else Fraction(0)


@pytest.mark.parametrize("targets", [100, MANY])
def test_a_count_or_a_sum_keeps_to_its_error_at_the_least_epsilon(targets):
    chance = Random(1)
    for _ in range(targets):
        asked, facts, rounding = additive_target(chance)
        wanted = asked.options.wanted
        missed = float(1 - wanted.confidence)
        release, cheaper = found(asked, facts)
        assert beyond(release, wanted.error - rounding) <= missed * (1 + 1e-9)
        assert beyond(cheaper, wanted.error - rounding) > missed


# Means: both noises together, at every mean there may be.


def missed_by_a_mean(release: Release, share: Fraction, over: int) -> float:
    """Return how often a mean is farther off than a share of its bounds, at the worst mean."""
    scale, whole = float(release.mechanism.scale_shown), over * float(release._basis.row)
    half = math.ceil(12 * scale)
    law = np.array([release.mechanism.pmf(k) for k in range(-half, half + 1)])
    k, e, damping = np.arange(-half, half + 1), float(share), scale / 2
    worst = 0.0
    near = {e + part * damping / whole for part in (0, 1, 1.5, 2, 3, 5)}
    for mean in {0.0, 0.5, *(one for one in near if one < 0.5)}:
        upper = np.maximum(mean * whole + k, 0)[:, None] + damping
        lower = np.maximum((1 - mean) * whole + k, 0)[None, :] + damping
        off = np.abs(upper / (upper + lower) - mean) > e * (1 + 1e-12)
        worst = max(worst, float(law @ off @ law))
    return worst


@pytest.mark.parametrize("targets", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_mean_keeps_to_its_error_over_so_many_rows(targets):
    chance = Random(2)
    for _ in range(targets):
        width, over = chance.choice([20, 50]), chance.choice([10, 50, 200])
        # such that the exact law has few enough outcomes
        share = Fraction(chance.randint(20, 200), over * chance.choice([9, 31, 101]))
        wanted = Wanted(min(share, Fraction(2, 5)) * width, chance.choice(LEVELS), over)
        asked = call("DP_AVG", column(low=3, high=3 + width), wanted=wanted)
        missed = float(1 - wanted.confidence)
        release, cheaper = found(asked, ALONE)
        if not 8 < release.mechanism.scale_shown < 60:
            continue
        share = wanted.error / width
        assert missed_by_a_mean(release, share, over) <= missed
        if share <= Fraction(1, 4):  # above, its bound counts what hardly ever is
            assert missed_by_a_mean(cheaper, share, over) > missed


@pytest.mark.parametrize("mechanism", [None, "gaussian"])
def test_a_mean_over_more_rows_costs_less(mechanism):
    delta = Fraction(1, 10**6) if mechanism else None
    prices = [
        priced(
            call(
                "DP_AVG",
                column(low=0, high=100),
                wanted=Wanted(Fraction(1), Fraction(19, 20), over),
                mechanism=mechanism,
                delta=delta,
            ),
            ALONE,
        ).options.epsilon
        for over in (100, 1000, 10_000)
    ]
    assert prices == sorted(prices, reverse=True)
    assert len(set(prices)) == 3


# Quantiles: rows that all have one value, of which each other is as far as an error allows.


def missed_by_a_median(release: Release, error: int) -> float:
    """Return how often a median is farther off, where all other values are just too far."""
    cells = release.mechanism.cells
    weights = [0] * cells
    weights[cells // 2] = 2 * (error + 1) * release.measure.weight.scale
    law = release.mechanism.pmf(weights)
    return 1 - law[cells // 2]


@pytest.mark.parametrize("targets", [20, MANY])
def test_a_median_keeps_to_its_rank_error_on_the_worst_data(targets):
    chance = Random(3)
    for _ in range(targets):
        error, cells = chance.randint(1, 300), chance.randint(20, 60)
        wanted = Wanted(Fraction(error), chance.choice(LEVELS))
        asked = call("DP_MEDIAN", column(low=1, high=cells), wanted=wanted)
        missed = float(1 - wanted.confidence)
        release, cheaper = found(asked, ALONE)
        assert missed_by_a_median(release, error) <= missed
        assert missed_by_a_median(cheaper, error - 1) > missed


@pytest.mark.parametrize("name", ["DP_MAX", "DP_MIN"])
def test_no_more_rows_lie_beyond_an_extreme_than_the_rank_error_says(name):
    """By the bound of EXPLAIN, which `test_above_threshold.py` holds against the law."""
    for error, level in ((20, LEVELS[1]), (300, LEVELS[2])):
        wanted = Wanted(Fraction(error), level)
        release, cheaper = found(call(name, column(low=0, high=500), wanted=wanted), ALONE)
        assert release.ranks_off(level, any_data=True) <= error
        assert cheaper.ranks_off(level, any_data=True) > error


# The epsilon itself.


def test_an_epsilon_has_three_digits():
    for error in (1, 3, 7, 50, 12_345):
        epsilon = priced(
            call("DP_COUNT", wanted=Wanted(Fraction(error), Fraction(19, 20))), ALONE
        ).options.epsilon
        assert digits_below(epsilon) == epsilon


@pytest.mark.parametrize("threshold", ["0.5", "0.1001", "999.5", "1e-8", "123456"])
def test_the_least_number_is_found_from_both_sides(threshold):
    border = Fraction(threshold)
    for low in (Fraction(1, 10**9), border / 3, border, border * 3):
        found = least(lambda number: number >= border, low, Fraction(10**9))
        assert found is not None
        assert found >= border
        assert low > border or found <= border * Fraction(101, 100)
    assert least(lambda _: False, Fraction(1), Fraction(10**9)) is None


# What is refused, and what is offered.


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with connect(copy_samples(tmp_path / "data")) as opened:
        yield opened


def test_what_is_offered_is_the_error_that_is_affordable(session):
    with pytest.raises(BudgetRefused) as refused:
        session.sql("SELECT DP_COUNT(*, error=1), DP_COUNT(salary, eps=0.5) FROM staff")
    offered = refused.value.diagnostic.remedy[0]
    assert offered.startswith("DP_COUNT(*, error=")
    again = f"SELECT {offered}, DP_COUNT(salary, eps=0.5) FROM staff"
    assert session.explain(again).charge.epsilon <= session.budget.left.epsilon
    session.sql(again)


def test_a_whole_statement_is_offered_with_larger_errors(session):
    text = "SELECT DP_COUNT(*, error=0.6), DP_COUNT(salary, error=0.5) FROM staff"
    with pytest.raises(BudgetRefused) as refused:
        session.sql(text)
    offered = refused.value.diagnostic.remedy[0]
    assert session.explain(offered).charge.epsilon <= session.budget.left.epsilon


def test_each_grouping_keeps_to_the_error(session):
    plain = session.explain("SELECT DP_COUNT(*, error=9) FROM staff GROUP BY dept")
    both = session.explain("SELECT DP_COUNT(*, error=9) FROM staff GROUP BY ROLLUP (dept)")
    assert both.charge.epsilon == 2 * plain.charge.epsilon
    assert "gets 1/2" not in str(both)


def test_an_answer_is_shown_within_the_error(session):
    for table, error in (("staff", 5), ("visits", 40)):
        answer = session.sql(f"SELECT DP_COUNT(*, error={error}) AS n FROM {table}")
        cell = answer.cells[0][0]
        assert cell is not None
        low, high = cell.interval(Fraction(19, 20))
        assert high - low <= 2 * error


def test_two_prices_are_refused(session):
    for text in (
        "DP_COUNT(*, error=5, eps=1)",
        "DP_COUNT(*, error=5, weight=2)",
        "DP_AVG(age, error=5)",
        "DP_AVG(age, over=5, eps=1)",
        "DP_COUNT(*, confidence=0.9, eps=1)",
        "DP_COUNT(*, error=0)",
        "DP_COUNT(*, error=5, confidence=1)",
    ):
        with pytest.raises(QueryRefused):
            session.explain(f"SELECT {text} FROM staff")
