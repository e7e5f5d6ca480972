"""Counts and sums from one Gaussian draw: how far one unit moves it, and what is read from it.

Statistical: 1,000 draws; P[more than 85 misses of 95 % intervals] < 1e-6 where each misses
with probability 1/20 or less.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from scipy import stats

import dpquery
from dpquery.core.privacy_events import Concentrated, Gaussian, Pure
from dpquery.core.privacy_loss import Ceiling, Loss, Neighbours
from dpquery.core.types import BOOLEAN
from dpquery.functions.additive_releases import LEVEL, AdditiveRelease
from dpquery.functions.gaussian_vector import VectorRelease, families, in_one_draw
from dpquery.ir.measures import Measure
from dpquery.mechanisms.randomness import Randomness
from dpquery.plan.plan import Plan
from tests.corpus.cases import planned
from tests.functions.tables import ADD_REMOVE, SUBSTITUTE, Held, World, call, column, plan
from tests.interface.conftest import samples_of

DRAWS = 1000
MOST_MISSES = int(stats.binom.isf(1e-6, DRAWS, float(1 - LEVEL)))
DELTA = Fraction(1, 10**6)
CEILING = Ceiling.of(Loss(Fraction(10), Fraction(1, 10**4)), Fraction(1, 2))
IN_RHO = Ceiling.in_rho(Fraction(1), Fraction(1, 10**4), Fraction(1, 2))
COUNTS = [f"COUNT_IF(age > {20 + 2 * n}) AS n{n}" for n in range(20)]
TWENTY = f"SELECT dept, {', '.join(COUNTS)} FROM staff GROUP BY dept"
MIXED = (
    "SELECT DP_COUNT(*, weight=0.999) AS n, COUNT(bonus) AS c, SUM(salary) AS s, "
    "SUM(age) AS a, COUNT(*) FILTER (WHERE remote) AS r, COUNT_IF(age > 40) AS o, "
    "SUM(rating) AS t, COUNT_IF(age > 50) AS p, SUM(bonus) FILTER (WHERE age > 20) AS b "
    "FROM staff"
)


def drawn(text: str, delta: Fraction = DELTA) -> Plan:
    return planned(text, Loss(Fraction(1), delta))


def alone(text: str) -> list[AdditiveRelease]:
    """The same calls, each by itself."""
    understood = drawn(text).checked.understood
    releases = [one.release for one in planned(understood).frontiers[0].releases]
    assert all(isinstance(one, AdditiveRelease) for one in releases)
    return releases


def released(text: str) -> list[VectorRelease]:
    releases = [one.release for one in drawn(text).frontiers[0].releases]
    assert all(isinstance(one, VectorRelease) for one in releases)
    return releases


# What is charged, and how good it is.


def test_twenty_counts_are_one_gaussian_release_of_the_whole_price():
    plan = drawn(TWENTY)
    (event,) = plan.charge.events
    assert isinstance(event, Gaussian)
    assert (event.epsilon, event.delta) == (1, DELTA)
    assert [one.drawn_by for one in plan.frontiers[0].releases] == [None, *([0] * 19)]


def test_twenty_counts_have_less_than_half_of_the_noise_of_calls_apart():
    for one, other in zip(released(TWENTY), alone(TWENTY), strict=True):
        assert other.reach(LEVEL) > Fraction(5, 2) * one.reach(LEVEL)
        rows, own = one.worth
        spread = math.sqrt((rows**2 + own**2) * one.mechanism.sigma2)
        q = math.exp(-1 / other.mechanism.scale)
        assert math.sqrt(2 * q) / (1 - q) > 2.3 * spread


@pytest.mark.parametrize("calls", range(2, 12))
def test_the_choice_never_has_more_error_than_calls_apart(calls: int):
    text = f"SELECT {', '.join(COUNTS[:calls])} FROM staff"
    plan = drawn(text)
    for one, other in zip(plan.frontiers[0].releases, alone(text), strict=True):
        assert one.release.reach(LEVEL) <= other.reach(LEVEL)
        assert "one Gaussian draw" in one.why
    shared = isinstance(plan.charge.events[0], Gaussian)
    assert len(plan.charge.events) == (1 if shared else calls)
    assert shared == (calls > 4)


def test_errors_stay_in_the_proportion_that_they_have_apart():
    ratios = [
        one.reach(LEVEL) / other.reach(LEVEL)
        for one, other in zip(released(MIXED), alone(MIXED), strict=True)
    ]
    assert max(ratios) < 1
    counts, *others = ratios  # all rows may have less: each of the others needs them
    assert counts <= min(others) * Fraction(102, 100)
    assert max(others) / min(others) < Fraction(102, 100)


def test_a_weight_has_its_part_of_the_error():
    calls = [f"DP_{COUNTS[0].split(')', maxsplit=1)[0]}, weight=2) AS w", *COUNTS[1:]]
    heavy, light, *_ = released(f"SELECT {', '.join(calls)} FROM staff")
    assert light.reach(LEVEL) / heavy.reach(LEVEL) == pytest.approx(2, rel=0.02)
    assert (heavy.share, light.share) == (Fraction(2, 21), Fraction(1, 21))


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (f"SELECT {', '.join(COUNTS[:8])}, MEDIAN(age) FROM staff", 2),
        (f"SELECT {', '.join(COUNTS[:8])}, AVG(age), COUNT(age) FROM staff", 2),
        (f"SELECT {', '.join(COUNTS[:8])}, COUNT(DISTINCT age) FROM staff", 2),
        (f"SELECT {', '.join(COUNTS[:8])}, DP_COUNT(*, eps=0.1) FROM staff", 2),
        (f"SELECT {', '.join(COUNTS[:8])}, DP_COUNT(*, mechanism='staircase') FROM staff", 2),
        (f"SELECT {', '.join(COUNTS[:8])}, COUNT(*), SUM(age) FROM staff", 2),
        (f"{MIXED} WHERE age > 30", 1),
        (f"SELECT dept, {', '.join(COUNTS[:15])} FROM staff GROUP BY ROLLUP (dept)", 2),
        ("SELECT COUNT(*), COUNT(age), SUM(age), SUM(bonus), SUM(salary) FROM staff", 3),
    ],
)
def test_calls_with_a_price_or_noise_of_their_own_are_drawn_by_themselves(
    text: str, events: int
):
    found = drawn(text).charge.events
    assert len(found) == events
    assert sum(one.epsilon for one in found) == 1
    assert sum(one.delta for one in found if isinstance(one, Gaussian)) <= DELTA


def test_without_a_delta_that_somebody_states_nothing_is_gaussian(tmp_path: Path):
    assert {*map(type, drawn(TWENTY, Fraction(0)).charge.events)} == {Pure}
    policy = samples_of(tmp_path / "data", epsilon="20\ndelta = 1e-4")
    with dpquery.connect(policy) as session:
        assert session.explain(TWENTY, eps=1).charge.delta == 0
        told = session.explain(TWENTY, eps=1, delta="1e-6")
        assert told.charge == Loss(Fraction(1), DELTA)
        assert "one Gaussian draw for 20 calls: ± 23, else ± 60" in str(told)
        session.sql("SET dp.delta = 1e-6")
        assert session.explain(TWENTY, eps=1).charge.delta == DELTA


def test_under_a_budget_in_rho_all_of_them_share_it(tmp_path: Path):
    policy = samples_of(tmp_path / "data", epsilon="200")
    policy.write_text(policy.read_text().replace("epsilon = 200", "rho = 1\ndelta = 1e-6", 1))
    with dpquery.connect(policy) as session:
        for query, apart in ((TWENTY, Fraction(1, 40)), (MIXED, Fraction(1, 17))):
            (event,) = session.explain(query, eps=1).events
            assert isinstance(event, Concentrated)
            assert event.rho <= apart
            assert event.epsilon <= Fraction(101, 100)


def test_answers_are_given_again_in_whatever_order(tmp_path: Path):
    policy = samples_of(tmp_path / "data", epsilon="20\ndelta = 1e-4")
    with dpquery.connect(policy) as session:
        told = session.sql(TWENTY, eps=1, delta="1e-6")
        assert told.loss == Loss(Fraction(1), DELTA)
        for columns in (COUNTS, COUNTS[::-1]):
            again = session.sql(
                f"SELECT dept, {', '.join(columns)} FROM staff GROUP BY dept",
                eps=1,
                delta="1e-6",
            )
            assert again.loss == Loss(Fraction(0))
            assert again.to_pandas()[list(told.columns)].equals(told.to_pandas())
            assert again.interval("n3") == told.interval("n3")


def test_what_is_read_is_what_calls_by_themselves_say(tmp_path: Path):
    """At so large an epsilon nothing is left of the noise."""
    policy = samples_of(tmp_path / "data", epsilon="9e9\ndelta = 1e-4")
    text = re.sub("^max_epsilon_per_query.*$", "", policy.read_text(), flags=re.M)
    policy.write_text(text)
    with dpquery.connect(policy) as session:
        for query in (MIXED, f"{MIXED} WHERE age > 40", TWENTY):
            together = session.sql(query, eps=10**8, delta="1e-6", refresh=True)
            apart = session.sql(planned(query, Loss(Fraction(10**8))).checked.understood)
            for one, other in zip(together, apart, strict=True):
                for number, same in zip(one, other, strict=True):
                    assert number == same or abs(number - same) <= 1 + abs(same) / 1000


# How far one unit moves the vector, in all small worlds.


def vector(world: World, relation: Neighbours, ceiling: Ceiling = CEILING) -> VectorRelease:
    """The release of a count of rows, of values, of some rows, and of two sums."""
    facts, x = world.facts(relation), column(low=-1, high=3)
    asked = [
        call("DP_COUNT", eps="0.3"),
        call("DP_COUNT", x, eps="0.1"),
        call("DP_SUM", x, eps="0.2"),
        call("DP_SUM", replace(x, domain=replace(x.domain, low=Fraction(0))), eps="0.2"),
    ]
    asked = [replace(one, options=replace(one.options, spare=DELTA)) for one in asked]
    apart = [plan(one, facts) for one in asked]
    (members,) = families(asked, apart, ceiling)
    assert len(members) == len(asked)
    return in_one_draw([*members.values()], facts, ceiling)[0]


class Listening:
    """In the place of the noise: keeps what it is given."""

    def release(self, exact: Sequence[int], randomness: None) -> Sequence[int]:
        self.given = list(exact)
        return exact


def exact(release: VectorRelease, held: Held) -> list[int]:
    listening = Listening()
    list(replace(release, mechanism=listening).draw(held, None))  # type: ignore[arg-type]
    return listening.given


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("limit", "weighted"), [(1, False), (1, True), (2, True)])
@pytest.mark.parametrize("relation", Neighbours)
def test_no_unit_moves_it_farther_and_one_moves_it_so_far(
    relation: Neighbours, limit: int, weighted: bool, groups: int
):
    world = World((None, -1, 0, 3), groups, limit, weighted)
    release, farthest = vector(world, relation), 0
    for base in ((), ((((0, 3)),),)):
        given = [exact(release, Held(world, (*base, unit))) for unit in world.units()]
        pairs = (
            ((one, given[0]) for one in given)
            if relation is ADD_REMOVE
            else itertools.combinations(given, 2)
        )
        for one, other in pairs:
            moved = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
            farthest = max(farthest, moved)
    assert farthest <= release.distance**2
    # The ends of two sums of one column are not those of any one row.
    assert farthest >= Fraction(1, 2) * release.distance**2


def test_the_distance_is_attained_where_numbers_are_independent():
    """Three counts of conditions that go with each other or not."""
    for relation, groups in itertools.product((ADD_REMOVE, SUBSTITUTE), (1, 2)):
        world = World((False, True), groups)
        facts, x = world.facts(relation), column(BOOLEAN)
        asked = [call("DP_COUNT_IF", x, eps="0.3"), call("DP_COUNT", eps="0.1")]
        asked = [replace(one, options=replace(one.options, spare=DELTA)) for one in asked]
        (members,) = families(asked, [plan(one, facts) for one in asked], CEILING)
        release = in_one_draw([*members.values()], facts, CEILING)[0]
        given = [exact(release, Held(world, (unit,))) for unit in world.units()]
        farthest = max(
            sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
            for one, other in itertools.combinations(given, 2)
            if relation is SUBSTITUTE or given[0] in (one, other)
        )
        assert farthest == pytest.approx(float(release.distance**2), rel=1e-9)


def test_noise_that_is_claimed_for_less_cannot_be_made():
    release = vector(World((None, 0, 1)), ADD_REMOVE)
    noise = release.mechanism
    assert noise.sensitivity == release.distance
    with pytest.raises(ValueError, match="too small"):
        replace(noise, sigma2=noise.sigma2 * Fraction(9, 10))


def test_in_rho_it_loses_what_calls_apart_would():
    event = vector(World((None, 0, 1)), ADD_REMOVE, IN_RHO).event()
    assert isinstance(event, Concentrated)
    assert event.rho <= (Fraction(9) + 1 + 4 + 4) / 200


# Intervals.


class Constant:
    """The same exact numbers in as many groups as there are draws."""

    groups = DRAWS

    def __init__(self, numbers: dict[Measure, int]) -> None:
        self._numbers = numbers

    def values(self, measure: Measure) -> tuple[int, ...]:
        return (self._numbers[measure],) * DRAWS


def misses(text: str, wider: int) -> list[int]:
    """Count the intervals that miss, of draws with so many times the noise."""
    releases = released(text)
    first = releases[0]
    measures = [first.measure, *(measure for measure, _ in first.numbers)]
    held = Constant({one: 1000 * (at + 1) for at, one in enumerate(measures)})
    noise = replace(first.mechanism, sigma2=first.mechanism.sigma2 * wider**2)
    draws = list(replace(first, mechanism=noise).draw(held, Randomness()))  # type: ignore[arg-type]
    found = []
    for release in releases:
        exact = held.values(release.measures[-1])[0] * release.unit
        ends = [release.cell(one).interval(LEVEL) for one in draws]
        found.append(sum(not low <= exact <= high for low, high in ends))
    return found


@pytest.mark.parametrize("text", [TWENTY, MIXED])
def test_intervals_hold_the_exact_number_as_often_as_they_say(text: str):
    assert max(misses(text, 1)) <= MOST_MISSES
    assert min(misses(text, 2)) > MOST_MISSES
