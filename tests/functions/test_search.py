"""Bounds by a release: its blocks, how far a unit moves them, and the law of what is found."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import pytest

from dpquery.functions.search import SHARE, blocks_of, fallback, search_for, shown
from dpquery.privacy import Neighbours
from dpquery.types import DATE, DOUBLE, INTEGER, TIMESTAMP, Interval, Kind, Type
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
    return search_for(call("DP_SUM", argument, eps=eps, auto=True), facts)


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


def law(release, weights) -> dict[tuple[int, int] | None, float]:
    """Give the probability of each pair of ends, from that of each block to stand out."""
    out = [_above(release, release.least - weight) for weight in weights]
    below = [1.0]
    for share in out:
        below.append(below[-1] * (1 - share))
    above = [1.0]
    for share in reversed(out):
        above.append(above[-1] * (1 - share))
    above.reverse()
    found: dict[tuple[int, int] | None, float] = {None: below[-1]}
    for a, one in enumerate(out):
        found[a, a] = below[a] * one * above[a + 1]
        for b in range(a + 1, len(out)):
            found[a, b] = below[a] * one * out[b] * above[b + 1]
    return found


def _above(release, least: int) -> float:
    """Give the probability that noise is `least` or more."""
    ratio = math.exp(-float(1 / release.noise.scale))
    tail = ratio ** abs(least if least > 0 else 1 - least) / (1 + ratio)
    return tail if least > 0 else 1 - tail


@pytest.mark.parametrize("eps", [1, 5])
@pytest.mark.parametrize("rows", [0, 1, 5, 12])
def test_what_is_found_is_as_private_as_is_charged(eps, rows):
    """The exact law on neighbours: one more row anywhere among rows in one block, or none."""
    release = release_of(column(), eps=eps)
    base = [3] * rows
    laws = [
        law(release, release.asked(held(*base, *more))) for more in ([], [3], [0], [FAR], [-9])
    ]
    assert sum(laws[0].values()) == pytest.approx(1)
    for other in laws[1:]:
        ratios = [math.log(other[key] / share) for key, share in laws[0].items()]
        assert max(map(abs, ratios)) <= float(eps * SHARE) * (1 + 1e-9)


def test_an_empty_table_finds_nothing_999_times_in_1000():
    release = release_of(column())
    nothing = law(release, release.asked(held()))[None]
    assert 0.999 <= nothing < 0.9997


class Counted:
    """Rows that are counted once for each request."""

    def __init__(self, *values: object) -> None:
        self.histogram = cache(held(*values).histogram)


@pytest.mark.parametrize("rows", [50, 55])
def test_the_sampler_follows_the_law(rows):
    """Of 500 draws by fixed bits, about as many find something as the law says.

    Within 5 standard deviations, which honest bits leave with probability below 1e-6; noise of
    half the scale, or of three times as much, would be found at once.
    """
    release = release_of(column())
    given = Counted(*[3] * rows)
    draws, source = 500, Seeded(rows)
    hits = sum(release.run(given, source)[0].value is not None for _ in range(draws))

    def off(asked) -> float:
        share = 1 - law(asked, release.asked(given))[None]
        return abs(hits - draws * share) / math.sqrt(draws * share * (1 - share))

    least, scale = release.least, release.noise.scale
    assert off(release) < 5
    for wrong in (scale / 2, scale * 3):
        noise = replace(release.noise, scale=wrong)
        assert off(SimpleNamespace(noise=noise, least=least, asked=release.asked)) > 5


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
        (DOUBLE, (Fraction(-1, 2), 4), "-0.5 to 4.0"),
        (MONEY, (Fraction("0.16"), 5), "0.16 to 5.00"),
        (DATE, (0, 511), "1970-01-01 to 1971-05-27"),
        (TIMESTAMP, (0, 10**6), "1970-01-01 00:00:00 to 1970-01-01 00:00:01"),
    ],
)
def test_bounds_are_shown_as_values(type_, bounds, text):
    assert shown(Interval(*map(Fraction, bounds)), type_) == text


def test_the_bounds_of_nothing_do_not_depend_on_data():
    assert fallback(INTEGER) == fallback(DOUBLE) == Interval(Fraction(0), Fraction(1))
    assert fallback(DATE).high == 511
