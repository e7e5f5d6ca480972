"""Groupings that are added up from the first: when, what they say, and how far off they are."""

from __future__ import annotations

import itertools
from collections import defaultdict
from fractions import Fraction
from math import prod
from pathlib import Path

import numpy as np
import pytest

import dpquery
from dpquery.core.privacy_loss import Loss
from dpquery.functions.additive_releases import LEVEL, AdditiveRelease
from dpquery.functions.rollup_sums import SumRelease, half_width
from dpquery.mechanisms import DiscreteLaplace
from dpquery.plan.plan import Plan
from tests.corpus.cases import planned
from tests.interface.conftest import samples_of

COUNT = "DP_COUNT(*, eps=1) AS n"
ADDED = (
    "GROUP BY ROLLUP (dept)",
    "GROUP BY CUBE (dept, remote)",
    "GROUP BY ROLLUP (remote, dept, (year(hired) >= 2020))",
    "GROUP BY GROUPING SETS ((dept, remote), (remote), ())",
    "GROUP BY dept, ROLLUP (remote)",
    "GROUP BY ROLLUP (CASE WHEN age > 40 THEN 'old' ELSE 'young' END)",
)


def of(plan: Plan) -> list[int | None]:
    return [frontier.added for frontier in plan.frontiers]


@pytest.mark.parametrize("grouped", ADDED)
def test_the_first_grouping_has_all_of_epsilon_and_the_errors_are_less(grouped: str):
    query = f"SELECT {COUNT}, DP_SUM(salary, eps=1) AS pay FROM staff {grouped}"
    plan = planned(query)
    assert of(plan) == [None, *([0] * (len(plan.frontiers) - 1))]
    assert [event.epsilon for event in plan.charge.events] == [1, 1]
    apart = DiscreteLaplace(Fraction(len(plan.frontiers))).interval(0, LEVEL)[1]
    reach = []
    for frontier in plan.frontiers:
        one = frontier.releases[0].release
        assert isinstance(one, AdditiveRelease | SumRelease)
        reach.append(one.reach(LEVEL))
    assert prod(reach) < apart ** len(reach)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {COUNT} FROM staff GROUP BY ROLLUP (age)",  # 53 groups make one total
        f"SELECT {COUNT} FROM staff GROUP BY GROUPING SETS ((dept), (remote))",
        f"SELECT {COUNT} FROM staff GROUP BY GROUPING SETS ((), (dept))",
        f"SELECT {COUNT}, DP_AVG(age, eps=1) FROM staff GROUP BY ROLLUP (dept)",
        "SELECT DP_COUNT(DISTINCT person_id, eps=1) FROM visits GROUP BY ROLLUP (region)",
        "SELECT DP_COUNT(DISTINCT age, eps=1) FROM staff GROUP BY ROLLUP (dept)",
        "SELECT DP_COUNT(*, error=5) FROM staff GROUP BY ROLLUP (dept)",
        "SELECT DP_COUNT(*, eps=1, mechanism='gaussian', delta=1e-6) FROM staff "
        "GROUP BY ROLLUP (dept)",
        f"SELECT {COUNT} FROM staff GROUP BY ROLLUP (DP_KEYS(age, eps=1, delta=1e-6))",
        f"SELECT {COUNT} FROM staff GROUP BY dept",
    ],
)
def test_other_groupings_are_by_themselves(query: str):
    assert {*of(planned(query))} == {None}


@pytest.mark.parametrize("grouped", ADDED)
def test_totals_are_those_of_duckdb_where_there_is_no_noise(grouped: str, tmp_path: Path):
    policy = samples_of(tmp_path / "data", epsilon="9e9")
    text = policy.read_text()
    policy.write_text(text.replace("max_epsilon_per_query", "# "))
    keys = grouped.removeprefix("GROUP BY ").replace("CUBE", "ROLLUP")
    with dpquery.connect(policy) as session:
        query = (
            f"SELECT DP_COUNT(*, eps=1e7) AS n, DP_SUM(age, eps=1e7) AS s FROM staff {grouped}"
        )
        rows = session.sql(query).rows
        assert session.sql(query).rows == rows
        assert session.sql(query).loss == Loss(Fraction(0))
        (total,) = session.sql("SELECT DP_COUNT(*, eps=1e7), DP_SUM(age, eps=1e7) FROM staff")
        assert keys.startswith("dept,") or rows[-1] == total


def test_what_is_shown_adds_up_and_what_is_told_agrees(tmp_path: Path):
    policy = samples_of(tmp_path / "data", epsilon="20")
    old = "CASE WHEN age > 40 THEN 'old' ELSE 'young' END"
    with dpquery.connect(policy) as session:
        query = f"SELECT {old} AS o, {COUNT} FROM staff GROUP BY ROLLUP (o)"
        *groups, (_, total) = session.sql(query).rows
        assert sum(n for _, n in groups) == total
        told = str(session.explain(query))
        assert "added up   from 2 groups each, for no loss" in told
        assert "note         GROUP BY has 2 groupings: the first gets all of ε" in told
        sample = session.sql(f"SELECT dept, {COUNT} FROM staff GROUP BY ROLLUP (dept)")
        assert len(sample.rows) == 6  # what is in no group is none
        margins = [high - low for low, high in sample.interval("n")]
        assert margins == [6] * 5 + [14]


def test_a_grouping_that_pays_the_difference_adds_up_again(tmp_path: Path):
    policy = samples_of(tmp_path / "data", epsilon="20")
    text = policy.read_text()
    policy.write_text(text)
    dpquery_publish(policy)
    old = "CASE WHEN age > 40 THEN 'old' ELSE 'young' END"
    with dpquery.connect(policy) as session:
        query = f"SELECT {old} AS o, {COUNT} FROM staff GROUP BY ROLLUP (o)"
        session.sql(query)
        answer = session.sql(query.replace("eps=1", "eps=3"))
        assert answer.loss == Loss(Fraction(2))
        *groups, (_, total) = answer.rows
        assert sum(n for _, n in groups) == total
        (low, high) = answer.interval("n")[-1]
        assert high - low == 2 * half_width(Fraction(1, 3), 2, LEVEL)


def dpquery_publish(policy: Path) -> None:
    from dpquery.shell.main import main

    assert main(["policy", "publish", str(policy)]) == 0


# The law of a sum.


def exact(scale: float, times: int) -> dict[int, float]:
    """Convolve the law of one noise so many times with itself."""
    one = {k: DiscreteLaplace(Fraction(scale)).pmf(k) for k in range(-200, 201)}
    found = {0: 1.0}
    for _ in range(times):
        more: dict[int, float] = defaultdict(float)
        for (a, p), (b, q) in itertools.product(found.items(), one.items()):
            more[a + b] += p * q
        found = more
    return found


@pytest.mark.parametrize(("scale", "times"), [(0.25, 3), (1, 2), (2.5, 3), (1, 4)])
@pytest.mark.parametrize("confidence", [Fraction(1, 2), LEVEL, Fraction(999, 1000)])
def test_the_width_is_the_least_that_keeps_its_confidence(
    scale: float, times: int, confidence: Fraction
):
    law = exact(scale, times)
    width = half_width(Fraction(scale), times, confidence)
    missed = [sum(p for k, p in law.items() if abs(k) > m) for m in (width, width - 1)]
    assert missed[0] <= float(1 - confidence) < missed[1] + 1e-9 or width == 0


def test_wide_laws_agree_with_those_of_continuous_noise():
    """Both ways of computing it, where both can be done: the other is `times` wider at most."""
    for scale, times in ((5000, 4), (3000, 16)):
        near = half_width(Fraction(scale), times, LEVEL)
        far = half_width(Fraction(scale * 2**40), times, LEVEL) / 2**40
        assert near == pytest.approx(far, rel=2e-3)
    one = half_width(Fraction(2**60), 1, LEVEL)
    assert one == pytest.approx(
        DiscreteLaplace(Fraction(2**60)).interval(0, LEVEL)[1], rel=1e-6
    )
    many = half_width(Fraction(2**40), 4096, LEVEL) / 2**40
    assert many == pytest.approx(1.96 * np.sqrt(2 * 4096), rel=2e-3)


def test_what_is_searched_for_elsewhere_is_found_and_answered(tmp_path: Path):
    grouped = f"SELECT dept, {COUNT} FROM staff GROUP BY ROLLUP (dept)"
    search = "SELECT DP_SUM(salary, eps=1, bounds='auto') AS s FROM staff"
    policy = samples_of(tmp_path / "data")
    with dpquery.connect(policy, epsilon=9) as session:
        answer = session.sql(f"WITH a AS ({grouped}), b AS ({search}) SELECT * FROM a, b")
        assert len(answer) == 6
    staff = policy.with_name("staff.parquet")
    with dpquery.connect(
        staff, unit="person_id", epsilon=9, max_rows_contributed="auto"
    ) as session:
        told = grouped.replace("GROUP", "WHERE dept IN ('eng', 'ops') GROUP")
        for _ in range(2):
            assert len(session.sql(told, refresh=True)) == 3
