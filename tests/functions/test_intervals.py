"""Stated intervals hold the exact value as often as they say, on what the functions release.

Two bounds on chance, both at 1e-6 for one test: right intervals pass, since they may miss one
time in 20 at most; and intervals that are computed for half the noise there is are caught.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, product

import numpy as np
import pytest
from scipy import stats

from dpquery.answer import Ranked
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import INTEGER
from dpquery.functions.base import Facts, Release
from dpquery.functions.order_statistics.quantile import OF_LISTS
from dpquery.ir.measures import Measure
from dpquery.ir.query import Contribution
from tests.functions.tables import ALONE, Held, World, call, column, plan
from tests.mechanisms.sources import Seeded

DRAWS = 2000
LEVEL = Fraction(95, 100)
MOST_FEW = int(stats.binom.isf(1e-6, 300, float(1 - LEVEL)))
MOST_MISSES = int(stats.binom.isf(1e-6, DRAWS, float(1 - LEVEL)))
"""P[more misses] < 1e-6 where each draw misses with probability 1/20 or less: 150 of 2000."""
ROWS = [3, 5, 5, 6, 9, *([4] * 30), *([0] * 15)]


class Repeated:
    """The same exact integers in many groups: as many independent draws."""

    groups = DRAWS

    def __init__(self, held: Held) -> None:
        self.held = held

    def values(self, measure: Measure) -> tuple[int, ...]:
        return self.held.values(measure) * DRAWS


def draws(release: Release, rows: list[int], wider: int = 1) -> list:
    """Draw cells; `wider` noise than the release knows of is a mistake to be caught."""
    world = World((0, 10))
    held = Held(world, tuple(((0, row),) for row in rows))
    truthful = release.mechanism
    cells = replace(release, mechanism=type(truthful)(truthful.scale * wider)).run(
        Repeated(held), Seeded(20261118)
    )
    return [replace(cell, release=release) for cell in cells]


def misses(cells: list, exact: float) -> int:
    intervals = [cell.interval(LEVEL) for cell in cells]
    assert all(
        low <= cell.value <= high for cell, (low, high) in zip(cells, intervals, strict=True)
    )
    return sum(not low <= exact <= high for low, high in intervals)


EXACT: dict[str, Callable[[list[int]], float]] = {
    "DP_COUNT": len,
    "DP_SUM": sum,
    "DP_AVG": statistics.mean,
    "DP_VAR_POP": statistics.pvariance,
    "DP_VAR_SAMP": statistics.variance,
    "DP_STDDEV_POP": statistics.pstdev,
}
WEIGHTED = Facts(Contribution("unit", False, 2), Neighbours.SUBSTITUTE, 1, False)
SIMPLE, EPS = ("DP_COUNT", "DP_SUM", "DP_AVG"), ("1/10", "3")


QUICK = {("DP_STDDEV_POP", "1/10"), *product(SIMPLE, EPS)}
"""The intervals of spreads take ten times as long as those of numbers."""


@pytest.mark.parametrize(
    ("name", "eps", "facts"),
    [
        pytest.param(
            *case, facts, id=f"{'-'.join(case)}-{said}", marks=[pytest.mark.slow] * slow
        )
        for case in product(EXACT, EPS)
        for said, facts in (("rows", ALONE), ("weights", WEIGHTED))
        for slow in [case not in QUICK or (case[0] not in SIMPLE and facts == ALONE)]
    ],
)
def test_an_interval_holds_the_exact_value_as_often_as_stated(
    name: str, eps: str, facts: Facts
) -> None:
    release = plan(call(name, column(INTEGER, 0, 10), eps=eps), facts)
    assert misses(draws(release, ROWS), EXACT[name](ROWS)) <= MOST_MISSES


PAIRED = {
    "apart": [(row, (7 * row + 3) % 11) for row in ROWS],
    "together": [(row, min(10, row + 1)) for row in ROWS],
    "against": [(row, 10 - row) for row in ROWS * 4],
    "alike": [(10, 10)] * 40,
}


@pytest.mark.parametrize(
    ("rows", "eps", "facts"),
    [
        pytest.param("apart", "1/10", ALONE, marks=pytest.mark.slow),
        pytest.param("apart", "3", WEIGHTED, marks=pytest.mark.slow),
        pytest.param("together", "1/10", WEIGHTED, marks=pytest.mark.slow),
        ("against", "1/10", ALONE),
        pytest.param("alike", "3", ALONE, marks=pytest.mark.slow),
    ],
)
def test_an_interval_of_a_covariance_holds_the_exact_one(
    rows: str, eps: str, facts: Facts
) -> None:
    both = column(INTEGER, 0, 10), replace(column(INTEGER, 0, 10), name="y")
    release = plan(call("DP_COVAR_POP", both, eps=eps), facts)
    exact = np.cov(np.array(PAIRED[rows]).T, bias=True)[0, 1]
    assert misses(draws(release, PAIRED[rows]), exact) <= MOST_MISSES


def of_pairs(rows: list[tuple[int, int]]) -> dict[str, float]:
    """Return what NumPy computes of pairs of y and x."""
    (yy, yx), (_, xx) = np.cov(np.array(rows).T, bias=True)
    y, x = np.array(rows).mean(axis=0)
    return {
        "DP_COVAR_SAMP": yx * len(rows) / (len(rows) - 1),
        "DP_CORR": yx / math.sqrt(yy * xx),
        "DP_REGR_R2": yx**2 / (yy * xx),
        "DP_REGR_SLOPE": yx / xx,
        "DP_REGR_INTERCEPT": y - yx / xx * x,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", of_pairs([(0, 1), (2, 3)]))
@pytest.mark.parametrize("facts", [ALONE, WEIGHTED], ids=["rows", "weights"])
@pytest.mark.parametrize("rows", ["apart", "together", "against"])
def test_an_interval_of_a_line_or_correlation_holds_the_exact_one(
    rows: str, name: str, facts: Facts
) -> None:
    both = column(INTEGER, 0, 10), replace(column(INTEGER, 0, 10), name="y")
    pairs = PAIRED[rows] * 10
    cells = draws(plan(call(name, both, eps="1/2"), facts), pairs)
    assert misses(cells, of_pairs(pairs)[name]) <= MOST_MISSES


@pytest.mark.parametrize("name", of_pairs([(0, 1), (2, 3)]))
def test_lines_and_correlations_are_what_numpy_computes_where_noise_is_small(name: str) -> None:
    """At epsilon 1000 each sum is off by a hundredth of a row; draws differ by far less."""
    both = column(INTEGER, 0, 10), replace(column(INTEGER, 0, 10), name="y")
    for rows in PAIRED["apart"] * 3, PAIRED["against"]:
        (cell,) = plan(call(name, both, eps=1000), ALONE).run(
            Held(World((0, 10)), tuple(((0, row),) for row in rows)), Seeded(1)
        )
        exact = of_pairs(rows)[name]
        low, high = cell.interval(LEVEL)
        assert cell.value == pytest.approx(exact, abs=0.01)
        assert low <= exact <= high
        assert high - low < 0.1


@pytest.mark.parametrize("name", of_pairs([(0, 1), (2, 3)]))
def test_the_interval_of_a_line_is_little_wider_than_the_error(name: str) -> None:
    """Of the first 300 draws: what 95 of 100 are off has an error of 10 % itself."""
    rows = PAIRED["apart"] * 20
    both = column(INTEGER, 0, 10), replace(column(INTEGER, 0, 10), name="y")
    cells = draws(plan(call(name, both, eps="2"), ALONE), rows)[:300]
    exact = of_pairs(rows)[name]
    off = np.quantile([abs(cell.value - exact) for cell in cells], 0.95)
    ends = [cell.interval(LEVEL) for cell in cells]
    assert np.median([high - low for low, high in ends]) <= 1.3 * 2 * off
    assert sum(not low <= exact <= high for low, high in ends) <= MOST_FEW


@pytest.mark.parametrize("name", ["DP_COUNT", "DP_SUM"])
def test_the_interval_of_a_number_is_no_wider_than_it_must_be(name: str) -> None:
    """It misses 1 time in 20 less what rounding takes: with 1 in 25, P[fewer] < 1e-6."""
    release = plan(call(name, column(INTEGER, 0, 1000), eps="1/50"), ALONE)
    least = stats.binom.ppf(1e-6, DRAWS, 1 / 25)
    assert misses(draws(release, ROWS), EXACT[name](ROWS)) >= least


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("DP_AVG", 1.25),
        ("DP_VAR_POP", 1.25),
        pytest.param("DP_VAR_SAMP", 1.25, marks=pytest.mark.slow),
        pytest.param("DP_STDDEV_POP", 1.25, marks=pytest.mark.slow),
    ],
)
def test_the_interval_of_a_mean_or_variance_is_little_wider_than_the_error(
    name: str, most: float
) -> None:
    """Half of it against what 95 of 100 of 2,000 draws are off, which is 5 % off itself."""
    rows = ROWS * 20
    cells = draws(plan(call(name, column(INTEGER, 0, 10), eps="1/2"), ALONE), rows)
    off = np.quantile([abs(cell.value - EXACT[name](rows)) for cell in cells], 0.95)
    halves = [high - cell.value for cell, (_, high) in ((c, c.interval(LEVEL)) for c in cells)]
    assert np.median(halves) <= most * off


@pytest.mark.parametrize("eps", ["1/10", "1", "10"])
def test_errors_of_means_are_never_said_to_be_zero(eps: str) -> None:
    """Of proportions, and of numbers between 0 and 1; and those of deviations are of them."""
    said = {
        name: plan(call(name, column(INTEGER, 0, 1), eps=eps), ALONE).step().expected_error
        for name in ("DP_AVG", "DP_VAR_POP", "DP_STDDEV_POP")
    }
    assert all(float(text.split("±")[1].split()[0]) > 0 for text in said.values())
    assert "deviate by 0.25, at most" in said["DP_STDDEV_POP"]
    assert "variance" not in said["DP_STDDEV_POP"]


@pytest.mark.parametrize(
    ("name", "wider"), [("DP_COUNT", 2), ("DP_SUM", 2), ("DP_AVG", 2), ("DP_VAR_POP", 2)]
)
def test_an_interval_for_less_noise_than_there_is_is_caught(name: str, wider: int) -> None:
    release = plan(call(name, column(INTEGER, 0, 10), eps=3), ALONE)
    rows = ROWS * 20
    assert misses(draws(release, rows, wider), EXACT[name](rows)) > MOST_MISSES


@pytest.mark.parametrize("name", ["DP_AVG", pytest.param("DP_VAR_POP", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rows", [[], [10], [0, 10]], ids=str)
def test_few_rows_give_an_interval_all_the_same(name: str, rows: list[int]) -> None:
    release = plan(call(name, column(INTEGER, 0, 10)), ALONE)
    exact = EXACT[name](rows) if rows else 0
    assert misses(draws(release, rows), exact) <= MOST_MISSES


@pytest.mark.parametrize("order", ["0", "0.1", "0.5", "0.99", "1"])
@pytest.mark.parametrize("facts", [ALONE, WEIGHTED], ids=["rows", "weights"])
@pytest.mark.parametrize("eps", ["1/10", "1"])
def test_a_quantile_says_how_many_rows_it_is_off_at_most(
    order: str, eps: str, facts: Facts
) -> None:
    """No sampling: the probability of every cell, on rows with a large atom or without."""
    for weights in ([30, *[0] * 400, 200, 0, 1, *[0] * 400, 30], [1] * 1000):
        release = plan(
            call("DP_QUANTILE", column(INTEGER, 0, len(weights) - 1), eps=eps, order=order),
            facts,
        )
        whole, total = release.measure.weight.scale, sum(weights)
        law = release.mechanism.pmf([weight * whole for weight in weights])
        off = release.ranks_off(LEVEL, any_data=True)
        below, beyond = 0, 0.0
        for probability, weight in zip(law, weights, strict=True):
            target = Fraction(order) * total
            beyond += probability * (max(below - target, target - below - weight) > off)
            below += weight
        assert beyond <= 0.05 + 1e-9


EVEN = [(order, eps) for order in ("0.1", "0.5", "0.75") for eps in ("1/10", "1/3", "1")]


@pytest.mark.parametrize("facts", [ALONE, WEIGHTED], ids=["rows", "weights"])
@pytest.mark.parametrize(("order", "eps"), EVEN)
def test_on_even_data_the_likely_error_holds_and_is_not_twice_too_large(
    order: str, eps: str, facts: Facts
) -> None:
    """No sampling: the exact law on rows that differ, three cells apart, or with an atom.

    With rows as many as EXPLAIN says, or more.
    """
    asked = call("DP_QUANTILE", column(INTEGER, 0, 5999), eps=eps, order=order)
    release = plan(asked, facts)
    said, whole = release.ranks_off(LEVEL), release.measure.weight.scale
    assert release.step().expected_error.startswith(f"about {math.ceil(said)} ranks, over")
    for atom in (1, 1500):
        weights = [0, 1, 0] * 2000
        weights[3001] = atom
        total, below, off = sum(weights), 0, []
        for weight in weights:
            target = Fraction(order) * total
            off.append(max(0, below - target, target - below - weight))
            below += weight
        law = np.array(release.mechanism.pmf([weight * whole for weight in weights]))
        held = [float(law[[one <= most for one in off]].sum()) for most in (said, said / 2)]
        assert held[0] >= 0.95
        assert atom > 1 or (held[0] <= 0.998 and held[1] < 0.95)


SAID = {
    "quantile": (4, 7),
    "exponential": (4, 28),
    "inverse_sensitivity": None,
    "laplace": None,
    "gaussian": None,
}
"""At epsilon 1, on even data and on any; what smoothing gives may lie beside such a value."""


@pytest.mark.parametrize("mechanism", SAID)
def test_a_quantile_is_off_by_as_many_ranks_as_explain_says(mechanism: str) -> None:
    delta = Fraction(1, 10**6) if mechanism == "gaussian" else None
    smooth = Fraction(3) if mechanism == "inverse_sensitivity" else None
    asked = call(
        "DP_QUANTILE", column(INTEGER, 18, 70), order="0.5", mechanism=mechanism,
        delta=delta, smooth=smooth,
    )  # fmt: skip
    release = plan(asked, ALONE)
    (cell,) = release.run(Held(World((18, 70)), ()), Seeded(1))
    if not isinstance(cell, Ranked) or SAID[mechanism] is None:
        assert not isinstance(cell, Ranked) or cell.rank_interval(LEVEL) is None
        return
    likely, most = (cell.rank_interval(LEVEL, any_data=any_data) for any_data in (False, True))
    assert (likely, most) == SAID[mechanism]
    words = (
        f"about {likely} ranks, over 16 or more rows spread evenly; on any data at most {most}"
    )
    assert words == release.step().expected_error


@pytest.mark.parametrize("mechanism", OF_LISTS)
def test_a_list_is_off_by_as_many_ranks_as_explain_says_if_that_is_proven(
    mechanism: str,
) -> None:
    argument = column(INTEGER, 18, 70)
    for facts in (ALONE, WEIGHTED):
        asked = call("DP_QUANTILE", argument, order=("0.25", "0.5"), mechanism=mechanism)
        release = plan(asked, facts)
        (cell,) = release.run(Held(World((18, 70)), ()), Seeded(1))
        ranks, said = cell.rank_interval(LEVEL), release.step().expected_error
        assert (ranks is None) == ("beside them" in said)
        assert ranks is None or f" {math.ceil(ranks)} ranks" in said
        most = cell.rank_interval(LEVEL, any_data=True)
        assert ranks is None or said.endswith(f"at most {round(most):,}") or ranks == most


@pytest.mark.parametrize("function", ["DP_MIN", "DP_MAX"])
@pytest.mark.parametrize("rows", [0, 5, 3000])
def test_no_more_rows_lie_beyond_an_extreme_than_is_said(function: str, rows: int) -> None:
    """From the law of the place where the search stops."""
    release = plan(call(function, column(INTEGER, 0, 999), eps="1/5"), ALONE)
    held = Held(World((0, 999)), tuple(((0, row % 1000),) for row in range(rows)))
    _, weights = release.asked(held, 0)
    beyond = [rows - below for below in accumulate(weights)]
    law = release.mechanism.pmf([-count for count in beyond[:-1]], -release.few)
    (cell,) = release.run(held, Seeded(1))
    most = cell.rank_interval(LEVEL)
    assert cell.interval(LEVEL) is None
    assert sum(p for count, p in zip(beyond, law, strict=True) if count > most) <= 0.05
    assert 0 < most < 200
