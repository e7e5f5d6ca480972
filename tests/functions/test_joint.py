"""Numbers of one column that share a draw: what they say, how far off, and when they do not.

Statistical: 1,000 draws; P[more than 85 misses of 95 % intervals] < 1e-6 where each misses
with probability 1/20 or less.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from scipy import stats

import dpquery
from dpquery.core.privacy_loss import Loss
from dpquery.functions.base import Release
from dpquery.functions.moments.joint_draw import JointRelease
from dpquery.ir.measures import Measure
from dpquery.mechanisms.randomness import Randomness
from dpquery.plan.plan import Plan
from tests.corpus.cases import planned
from tests.interface.conftest import samples_of

DRAWS, LEVEL = 1000, Fraction(95, 100)
MOST_MISSES = int(stats.binom.isf(1e-6, DRAWS, float(1 - LEVEL)))
ALL = (
    "SELECT COUNT(*) AS n, COUNT(bonus) AS c, SUM(bonus) AS total, AVG(bonus) AS mean, "
    "VAR_POP(bonus) AS v, STDDEV_POP(bonus) AS sd FROM staff"
)


def released(text: str, epsilon: str = "1") -> list[Release]:
    plan = planned(text, Loss(Fraction(epsilon)))
    return [one.release for frontier in plan.frontiers for one in frontier.releases]


def charged(plan: Plan) -> list[Fraction]:
    return [release.epsilon for of in plan.releases for release in of]


def test_all_numbers_of_a_column_are_one_release_for_the_whole_epsilon():
    plan = planned(ALL, Loss(Fraction(1)))
    assert charged(plan) == [1]
    assert [one.drawn_by for one in plan.frontiers[0].releases] == [None, 0, 0, 0, 0, 0]
    assert len({one.release.mechanism for one in plan.frontiers[0].releases}) == 1


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("SELECT COUNT(*), COUNT(bonus) FROM staff", [1, 1]),
        ("SELECT COUNT(*), AVG(bonus), MEDIAN(bonus) FROM staff", [2, 1]),
        ("SELECT AVG(bonus), AVG(age), COUNT(*), SUM(age) FROM staff", [2, 2]),
        ("SELECT COUNT(*), AVG(DISTINCT age) FROM staff", [1, 1]),
        ("SELECT COUNT(*) FILTER (WHERE remote), AVG(age) FROM staff", [1, 1]),
        (
            "SELECT COUNT(*) FILTER (WHERE remote), AVG(age) FILTER (WHERE remote), SUM(age) "
            "FROM staff",
            [2, 1],
        ),
        ("SELECT DP_COUNT(*, weight=2), AVG(age) FROM staff", [2, 1]),
        ("SELECT DP_COUNT(*, mechanism='staircase'), AVG(age) FROM staff", [1, 1]),
        ("SELECT DP_SUM(age, bounds=[20, 30]), AVG(age) FROM staff", [1, 1]),
        ("SELECT DP_COUNT(*, eps=0.5), AVG(age) FROM staff", None),
    ],
)
def test_calls_share_a_draw_of_one_column(text: str, shares: list[int] | None):
    found = charged(planned(text, Loss(Fraction(1))))
    if shares is None:  # what a call states itself is its own
        assert found == [Fraction(1, 2), Fraction(1, 2)]
    else:
        assert found == [Fraction(one, sum(shares)) for one in shares]


def test_numbers_that_share_a_draw_are_those_of_calls_by_themselves(tmp_path: Path):
    """At so large an epsilon nothing is left of the noise."""
    policy = samples_of(tmp_path / "data")
    text = re.sub(
        "^(epsilon|max_epsilon_per_query) = .*", r"\1 = 9e9", policy.read_text(), flags=re.M
    )
    policy.write_text(text)
    with dpquery.connect(policy) as session:
        for suffix in ("", " WHERE age > 40", " GROUP BY dept"):
            together = session.sql(ALL + suffix, eps=1e9)
            apart = session.sql(
                planned(ALL + suffix, Loss(Fraction(6 * 10**8))).checked.understood
            )
            for one, other in zip(together, apart, strict=True):
                assert one == pytest.approx(other, rel=1e-5, abs=1e-5)


class Held:
    """The same exact moments in as many groups as there are draws."""

    groups = DRAWS

    def __init__(self, release: JointRelease, codes: list[int | None]) -> None:
        present = [code for code in codes if code is not None]
        moments = [len(codes), *(sum(code**d for code in present) for d in (0, 1, 2))]
        self._moments = dict(zip(release.measures, moments, strict=True))

    def values(self, measure: Measure) -> tuple[int, ...]:
        return (self._moments[measure],) * DRAWS


CODES = [0, 100, 250, 400, None, 900, *([500] * 60), *([None] * 7)]
"""In cents."""


def misses(release: JointRelease, exact: float, wider: int) -> int:
    """Count the intervals that miss, of draws with so many times the noise."""
    noise = replace(release.mechanism, scale=release.mechanism.scale * wider)
    drawn = replace(release, mechanism=noise).draw(Held(release, CODES), Randomness())  # type: ignore[arg-type]
    ends = [release.interval(one, LEVEL) for one in drawn]
    return sum(not low <= exact <= high for low, high in ends)


def test_intervals_hold_the_exact_number_as_often_as_they_say():
    values = [code / 100 for code in CODES if code is not None]
    exact = [
        len(CODES), len(values), sum(values), statistics.fmean(values),
        statistics.pvariance(values), statistics.pstdev(values),
    ]  # fmt: skip
    for release, true in zip(released(ALL), exact, strict=True):
        assert isinstance(release, JointRelease)
        assert misses(release, true, 1) <= MOST_MISSES, release.function
        if release.linear is not None:  # others are cut to what bounds allow
            assert misses(release, true, 3) > MOST_MISSES, release.function


def test_a_shared_draw_has_less_than_half_of_the_noise_of_six_calls_apart():
    understood = planned(ALL, Loss(Fraction(1))).checked.understood
    for one, alone in list(zip(released(ALL), released(understood), strict=True))[:3]:
        low, high = one.interval((0,) * 4, LEVEL)
        least, most = alone.interval(0, LEVEL)
        assert 2 * (high - low) < most - least


def test_where_units_are_replaced_counts_and_sums_are_by_themselves(tmp_path: Path):
    policy = samples_of(tmp_path / "data")
    text = policy.read_text()
    policy.write_text(text.replace('"add-remove"', '"substitute"', 1))
    with dpquery.connect(policy) as session:
        steps = session.explain(ALL, eps=1).steps
    assert ["one draw" in step.why for step in steps] == [False] * 3 + [True] * 3
    assert sum(step.epsilon for step in steps) == 1


def test_a_draw_is_known_however_its_calls_are_written(tmp_path: Path):
    policy = samples_of(tmp_path / "data")
    with dpquery.connect(policy) as session:
        told = session.sql("SELECT SUM(age) AS s, AVG(age) AS a FROM staff", eps=1)
        for text in (
            "SELECT sum( AGE ) AS s, AVG(age) AS a",
            "SELECT AVG(age) AS a, SUM(age) AS s",
        ):
            again = session.sql(f"{text} FROM staff", eps=1)
            assert again.loss == Loss(Fraction(0))
            assert again.to_dicts() == [
                {name: told.to_dicts()[0][name] for name in again.columns}
            ]
