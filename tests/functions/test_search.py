"""Bounds by a release: its blocks, how far a unit moves them, and the law of what is found."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import DATE, DOUBLE, INTEGER, TIMESTAMP, Interval, Kind, Type
from dpquery.functions.bounds_search import RUNS, SHARE, blocks_of, fallback, search_for
from dpquery.functions.quantize import written_ends
from dpquery.mechanisms import DiscreteLaplace
from tests.functions.tables import ALONE, Held, World, call, column
from tests.mechanisms.sources import Seeded

MONEY = Type(Kind.DECIMAL, 0, 2)
FAR = 2**62
TYPES = {
    "integer": column(INTEGER),
    "decimal": column(MONEY),
    "double": column(DOUBLE),
    "gridded": column(DOUBLE, grid=Fraction(1, 100)),
    "date": column(DATE),
    "timestamp": column(TIMESTAMP),
}


def release_of(argument, facts=ALONE, eps=1):
    return search_for(call("DP_SUM", argument, eps=eps, auto=True), facts, eps * SHARE)


def held(*values) -> Held:
    return Held(World((0,)), tuple(((0, value),) for value in values))


@pytest.mark.parametrize("argument", TYPES.values(), ids=TYPES.keys())
def test_blocks_part_all_codes_in_order(argument):
    code = release_of(argument).measure.code
    blocks = blocks_of(code)
    assert blocks[0].first == blocks[0].low == code.low
    assert blocks[-1].high == code.high
    for one, other in pairwise(blocks):
        assert one.first < other.first
        assert one.low <= one.first <= one.high
        assert one.high in {other.first - 1, other.low}


POWERS = [2**n + d for n in (0, 1, 2, 11, 12, 13, 24, 36, 59) for d in (-1, 0, 1)]
NUMBERS = [*POWERS, *(-power for power in POWERS), FAR, -FAR]
INF = math.inf
VALUES = {
    "integer": NUMBERS,
    "decimal": [Fraction(number, 100) for number in NUMBERS],
    "double": [0.0, 1e-12, -1e-9, 0.3, -0.3, 1.0, 1.5, -2.0, 1e6, 1e18, -1e19, INF, -INF],
    "gridded": [0.0, 0.01, -0.02, 3.17, 1e6, 1e300, -INF],
    "date": [-719162, -1, 0, 511, 512, 20000, 2932896],
    "timestamp": [-(2**55), -1, 0, 2**45 - 1, 2**45, 2**50],
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_a_row_is_in_the_block_that_holds_its_value(name):
    """In exactly one: what lies beyond all blocks is in the last one."""
    release = release_of(TYPES[name])
    code, blocks = release.measure.code, blocks_of(release.measure.code)
    for value in VALUES[name]:
        weights = release.asked(held(value))
        assert len(weights) == len(blocks)
        assert sorted(weights)[-2:] == [0, 1]
        block = blocks[weights.index(1)]
        place = Fraction(min(max(value, code.low * code.grid), code.high * code.grid))
        half = code.grid / 2
        assert block.low * code.grid - half <= place <= block.high * code.grid + half


def test_null_is_in_no_block():
    assert not any(release_of(column()).asked(held(None, None)))


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(("limit", "weighted"), [(1, False), (1, True), (2, True)])
def test_a_unit_moves_the_blocks_as_far_as_is_charged_and_no_farther(relation, limit, weighted):
    world = World((None, 0, 3, -FAR), 1, limit, weighted)
    release = release_of(column(), world.facts(relation))
    farthest = 0
    for base in world.bases(1):
        own = [release.asked(Held(world, (*base, unit))) for unit in world.units()]
        others = own if relation is Neighbours.SUBSTITUTE else own[:1]
        moves = (
            sum(abs(a - b) for a, b in zip(one, other, strict=True))
            for one in own
            for other in others
        )
        farthest = max(farthest, *moves)
    assert farthest == release.distance
    assert release.event().epsilon == SHARE


class Given:
    """Stands in for the noise: gives one vector, and keeps what it was to be added to."""

    name = "laplace"

    def __init__(self, release, noisy) -> None:
        self.scale = release.mechanism.scale
        self.noisy = noisy
        self.exact: list[list[int]] = []

    def release(self, exact, randomness) -> list[int]:
        self.exact.append(exact)
        return list(self.noisy)


@pytest.mark.parametrize("relation", Neighbours)
def test_what_is_found_is_made_of_the_noisy_weights_alone(relation):
    """The rows reach the noise, which is of the scale that is charged, and nothing else."""
    release = release_of(column(), replace(ALONE, neighbours=relation), eps=2)
    assert release.mechanism == DiscreteLaplace(Fraction(release.distance) / (2 * SHARE))
    noisy = [0] * len(blocks_of(release.measure.code))
    noisy[70] = release.least[1]
    noise, found = Given(release, noisy), []
    for values in ([], [3], [FAR, -FAR, 0]):
        (cell,) = replace(release, mechanism=noise).run(held(*values), None)
        found.append(cell.value)
        assert noise.exact[-1] == release.asked(held(*values))
    assert len(set(found)) == 1
    assert found[0] is not None


def found_in(**weights: int):
    """Return the ends that noisy weights show, by powers of two; `least` counts in 100ths."""
    release = release_of(column())
    least = {f"r{run}": weight for run, weight in release.least.items()}
    noisy = [0] * len(blocks_of(release.measure.code))
    for name, share in weights.items():
        power, run = name.split("_")
        noisy[62 + int(power[1:])] = -(-least[run] * share // 100)
    (cell,) = replace(release, mechanism=Given(release, noisy)).run(held(), None)
    return None if cell.value is None else (int(cell.value.low), int(cell.value.high))


@pytest.mark.parametrize(
    ("weights", "ends"),
    [
        ({}, None),
        ({"p5_r1": 90}, None),
        ({"p5_r1": 100}, (16, 32)),
        ({"p5_r1": 100, "p9_r1": 100}, (16, 512)),
        ({"p5_r1": 100, "p6_r1": 60}, (16, 32)),
        ({"p5_r2": 50, "p6_r2": 50}, (16, 64)),
        ({"p5_r1": 9999, "p6_r2": 50, "p7_r2": 50}, (16, 128)),
        ({"p5_r1": 9999, "p3_r2": 50, "p4_r2": 50}, (4, 32)),
        ({"p5_r1": 9999, "p7_r4": 50, "p9_r4": 50}, (16, 512)),
        ({"p5_r8": 40, "p9_r8": 40, "p12_r8": 20}, (16, 4096)),
    ],
)
def test_bounds_reach_as_far_as_runs_of_blocks_stand_out(weights, ends):
    assert found_in(**weights) == ends


def test_an_empty_table_shows_no_bounds():
    """At least 999 times in 1000: of 500 draws, 8 or more would have a chance of 1e-7."""
    release, source = release_of(column()), Seeded(1)
    given = Counted()
    hits = sum(release.run(given, source)[0].value is not None for _ in range(500))
    assert hits < 8


class Counted:
    """Rows that are counted once for each request."""

    def __init__(self, *values: object) -> None:
        self.histogram = cache(held(*values).histogram)


@pytest.mark.parametrize("run", RUNS)
def test_the_sum_of_noises_stands_out_as_rarely_as_is_stated(run):
    """By the exact law of the sum, at a scale where it can be written down."""
    release = replace(release_of(column()), mechanism=DiscreteLaplace(Fraction(2)))
    one = np.array([release.mechanism.pmf(noise) for noise in range(-200, 201)])
    law = np.array([1.0])
    for _ in range(run):
        law = np.convolve(law, one)
    chance = law[len(law) // 2 + release.least[run] :].sum()
    tests = len(RUNS) * len(blocks_of(release.measure.code))
    assert chance * tests <= 0.001
    assert chance * tests >= 1e-7


@pytest.mark.parametrize(
    ("argument", "values", "low", "high"),
    [
        (column(), [5, 1000], 4, 1024),
        (column(), [1024, 1025], 512, 2048),
        (column(), [-5, 0], -8, 0),
        (column(), [0, 1], 0, 1),
        (column(), [FAR], 2**59, 2**60),
        (column(MONEY), [Fraction("0.25"), Fraction(3)], Fraction("0.16"), Fraction("5.12")),
        (column(DOUBLE), [0.3, -100.0], -128, Fraction(1, 2)),
        (column(DOUBLE), [math.inf], 2**62, 2**63),
        (column(DATE), [18262, 18263], 17920, 18431),
    ],
)
def test_with_many_rows_the_bounds_are_the_nearest_powers_of_two(argument, values, low, high):
    (cell,) = release_of(argument).run(held(*values * 400), Seeded(1))
    assert cell.value == Interval(Fraction(low), Fraction(high))


@pytest.mark.parametrize(
    ("type_", "bounds", "text"),
    [
        (INTEGER, (0, 64), "0 to 64"),
        (DOUBLE, (Fraction(-1, 2), 4), "-0.5 to 4"),
        (MONEY, (Fraction("0.16"), 5), "0.16 to 5"),
        (DATE, (0, 511), "1970-01-01 to 1971-05-27"),
        (TIMESTAMP, (0, 10**6), "1970-01-01 00:00:00 to 1970-01-01 00:00:01"),
    ],
)
def test_bounds_are_shown_as_values(type_, bounds, text):
    assert " to ".join(written_ends(Interval(*map(Fraction, bounds)), type_)) == text


def test_the_bounds_of_nothing_do_not_depend_on_data():
    assert fallback(INTEGER) == fallback(DOUBLE) == Interval(Fraction(0), Fraction(1))
    assert fallback(DATE).high == 511
