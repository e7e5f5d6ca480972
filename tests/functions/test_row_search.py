"""How many rows of one unit count, where a release finds it: its law, and what comes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dpquery.budget.ledger.charge_and_receipt import Receipt
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import INTEGER, ROWS_MAX, Interval
from dpquery.functions.bounds_search import FINE_ROWS, LIMITS, SCALE, SHARE, RowSearchRelease
from dpquery.ir.measures import Histogram
from dpquery.mechanisms import PermuteAndFlip
from dpquery.plan.plan import with_bounds
from dpquery.policy.model import Column
from tests.worlds import planned, policy_of, private_table

COLUMN = Column("v", INTEGER)
AUTO = "max_rows_contributed='auto'"


class Units:
    """The exact side of a search: units with so many rows each."""

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = np.minimum(np.asarray(rows, dtype=np.int64), ROWS_MAX)

    def histogram(self, _: Histogram, group: int, low: int, high: int, width: int):
        inside = self.rows[(self.rows - 1 >= low) & (self.rows - 1 < high)] - 1
        return np.bincount((inside - low) // width, minlength=-(-(high - low) // width))


def policy(neighbours: Neighbours = Neighbours.ADD_REMOVE, **settings: object):
    table = private_table(
        [Path("t.parquet")], [COLUMN], **{"max_rows_contributed": None, **settings}
    )
    return policy_of(table, neighbours)


def search(eps: str = "1", neighbours: Neighbours = Neighbours.ADD_REMOVE) -> RowSearchRelease:
    (found,) = planned(
        policy(neighbours), f"SELECT DP_COUNT(*, eps={eps}, {AUTO}) FROM t"
    ).searches
    return found.release


def law(release: RowSearchRelease, rows: Sequence[int], rate: Fraction | None = None):
    """Return the probability of each limit, as `PermuteAndFlip.pmf` states it, but faster.

    The mean of 1 / (1 + other heads) is the integral from 0 to 1 of the product of 1 - p + p t
    over the others: a polynomial, for which 64 nodes are exact.
    """
    utilities = release.utilities(Units(rows))
    lacks = [float((rate or release.mechanism.rate) * (max(utilities) - u)) for u in utilities]
    chances = np.exp(-np.array(lacks))
    nodes, weights = np.polynomial.legendre.leggauss(64)
    factors = 1 - chances[:, None] * (1 - (nodes[None, :] + 1) / 2)
    return chances * ((factors.prod(0) / factors) @ weights) / 2


def test_the_law_is_that_of_the_mechanism():
    release, rows = search("2"), [3, 3, 9, 9, 9, 80, 5000]
    stated = release.mechanism.pmf(release.utilities(Units(rows)))
    assert law(release, rows) == pytest.approx(stated, rel=1e-9)
    assert law(release, rows).sum() == pytest.approx(1)


SIZES = (1, 2, 3, 5, 6, 40, 4096, 4097, 5000, ROWS_MAX, 2 * ROWS_MAX)


@pytest.mark.parametrize(
    "neighbours",
    [Neighbours.SUBSTITUTE, pytest.param(Neighbours.ADD_REMOVE, marks=pytest.mark.slow)],
)
def test_no_unit_tells_more_than_the_share_of_epsilon(neighbours):
    """Over all data sets of up to two units of these sizes, and all of their neighbours."""
    release = search("5", neighbours)
    epsilon = 5 * float(SHARE)
    assert release.event().epsilon == 5 * SHARE
    pairs = []
    for rows in [(), *((n,) for n in SIZES), *product(SIZES[:6], SIZES[4:8])]:
        if neighbours is Neighbours.ADD_REMOVE:
            pairs += [(rows, (*rows, more)) for more in SIZES]
        elif rows:
            pairs += [(rows, (*rows[:-1], other)) for other in SIZES]
    worst = 0.0
    for one, other in pairs:
        worst = max(worst, np.abs(np.log(law(release, one) / law(release, other))).max())
    assert 0.8 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_a_wrong_calibration_is_seen():
    release = search("5")
    rate = PermuteAndFlip.calibrated(Fraction(SCALE, 2), 5 * SHARE).rate
    one, other = (law(release, rows, rate) for rows in ((5000,), (5000, 5000)))
    assert np.abs(np.log(one / other)).max() > 5 * float(SHARE)


def test_counts_are_of_units_with_more_rows():
    rows = [*SIZES, 7, 7, 4095, 6000, 10**6]
    clamped = [min(n, ROWS_MAX) for n in rows]
    assert search().asked(Units(rows)) == [sum(n > k for n in clamped) for k in LIMITS]


def test_the_limits_are_those_that_the_requests_can_tell_apart():
    assert LIMITS[0] == 1
    assert LIMITS[-1] == ROWS_MAX
    assert list(LIMITS) == sorted(set(LIMITS))
    assert all(k <= FINE_ROWS or k % (FINE_ROWS // 4) == 0 for k in LIMITS)


@pytest.mark.parametrize("limit", [1, 2, 7, 448, ROWS_MAX])
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(
    "query",
    [
        "DP_COUNT(*, eps=1, {})",
        "DP_COUNT(*, eps=1, {}, mechanism='gaussian', delta=1e-7)",
        "DP_SUM(v, eps=1, bounds=[-5, 1000], {0}), DP_AVG(v, eps=0.3, bounds=[0, 9], {0})",
        "DP_VAR_SAMP(v, eps=1, bounds=[0, 9], {})",
        "DP_QUANTILE(v, [0.1, 0.9], eps=1, bounds='auto', {})",
        "DP_MAX(v, eps=1, bounds=[0, 1000], {})",
        "DP_PROPORTION(v > 3, eps=1, {})",
        "DP_MAJORITY(v > 3, eps=1, {})",
        "DP_SUM(v, eps=1, bounds='auto', {})",
        "DP_COUNT(*, eps=1, {}) AS n, v FROM t WHERE v IN (1, 2, 3) GROUP BY v --",
        "DP_MEDIAN(v, eps=1, bounds=[0, 9], {}) AS m, v FROM t WHERE v IN (1, 2) GROUP BY v --",
    ],
)
def test_nothing_that_is_found_is_refused_or_costs_more(query, neighbours, limit):
    of = policy(neighbours)
    plan = planned(of, f"SELECT {query.format(AUTO)} FROM t")
    found = [
        Interval.point(limit) if isinstance(one.release, RowSearchRelease) else None
        for one in plan.searches
    ]
    known = with_bounds(plan, found, of)
    events = [release.event() for releases in known.releases for release in releases]
    assert tuple(events) == plan.charge.events
    for number, frontier in enumerate(known.frontiers):
        Receipt(plan.charge, "").open(number, frontier.scan)


def rmse(release: RowSearchRelease, rows: np.ndarray, eps: float) -> tuple[float, float]:
    """Return what a count is off by: with what is found, and with the best limit there is."""

    def square(limit: int, spent: float) -> float:
        return float(np.maximum(rows - limit, 0).sum()) ** 2 + 2 * (limit / spent) ** 2

    shares = law(release, rows)
    found = sum(p * square(k, 0.8 * eps) for p, k in zip(shares, LIMITS, strict=True))
    best = min(square(k, eps) for k in {*LIMITS, *rows.tolist()})
    return math.sqrt(found), math.sqrt(best)


SHAPES = {
    "uniform": (1.6, lambda chance: chance.integers(1, 11, 10_000)),
    "one each": (1.5, lambda _: np.ones(10_000, dtype=np.int64)),
    "planes": (1.8, lambda chance: np.ceil(575 * chance.beta(0.6, 3.6, 4_000))),
    "zipf": (5, lambda chance: np.minimum(chance.zipf(2.5, 10_000), 10**4)),
}
"""Numbers of rows, and how much worse than the best a count may be.

Of a long tail the best limit is made by one or two units, which a release must not show.
"""


@pytest.mark.parametrize("eps", ["0.1", "1"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_count_is_about_as_good_as_with_the_best_limit(shape, eps):
    """Four fifths of eps alone are 1.25 times the noise; all of it is computed from the law."""
    most, drawn = SHAPES[shape]
    rows = drawn(np.random.default_rng(5)).astype(np.int64)
    found, best = rmse(search(eps), rows, float(eps))
    assert found < most * best
