"""What draws of the grid quantile rest on: exponents, coins, tables; what they survive.

Statistics would not see a slip of one part in a million here; these tests compare integers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.errors import InternalError
from dpquery.mechanisms import GridQuantile, Randomness
from dpquery.mechanisms.quantiles.sampling.rejection import (
    ATTEMPTS,
    DEEPEST,
    Envelope,
    Exponents,
)
from dpquery.mechanisms.samplers import (
    LONGEST,
    STEP,
    _around,
    _below_rest,
    ln2_around,
    log_above,
)
from tests.mechanisms.histograms import Law, Rows
from tests.mechanisms.sources import ONES, PATTERNS, ZEROS, Failing, Repeating, Seeded, Stuck

HALF = Fraction(1, 2)
HUGE = [2**40, 2**63 - 1, 2**63]


@pytest.mark.parametrize("bits", [0, 1, 64, 128, 256, 1000])
def test_integers_enclose_the_logarithm_of_two(bits: int) -> None:
    with localcontext(prec=400):
        exact = Decimal(2).ln() * 2**bits
    low, high = ln2_around(bits)
    assert low <= exact <= high <= low + 2


@given(st.fractions(1, 10**30))
def test_logarithms_are_rounded_upwards(number: Fraction) -> None:
    with localcontext(prec=60):
        exact = (Decimal(number.numerator) / number.denominator).ln()
        assert exact - Decimal(10) ** -50 <= Decimal(float(log_above(number))) + Decimal(
            "1e-12"
        )
        assert log_above(number) <= Fraction(exact) + Fraction(1, 64) + Fraction(1, 10**12)


@given(
    rate=st.builds(
        lambda part, power: part * Fraction(2) ** power,
        st.fractions(Fraction(1, 2), 1, max_denominator=10**6),
        st.integers(-150, 40),
    ),
    share=st.fractions(0, 200, max_denominator=10**6),
)
def test_exponents_are_below_the_exact_ones_and_near(rate: Fraction, share: Fraction) -> None:
    """In 64 bits where scores fit, and in Python's integers, with the same result."""
    exponents = Exponents.of(rate)
    score = int(share / rate)
    low, high = (Fraction(bound, 2**400) for bound in ln2_around(400))
    kinds: list[type] = [object, np.int64] if score < 2**62 else [object]
    for kind in kinds:
        found = int(exponents(np.array([score], dtype=kind))[0])
        assert 0 <= found <= rate * score / high
        assert found >= min(rate * score / low - 1 - Fraction(1, 2**18), DEEPEST)


class Digits(Randomness):
    """Uniform integers that are given, and then zeros."""

    __slots__ = ("_given",)

    def __init__(self, given: Sequence[int]) -> None:
        self._given = list(given)

    def below(self, bound: int) -> int:
        assert bound == 1 << STEP
        return self._given.pop(0) if self._given else 0


@pytest.mark.parametrize(("x", "e"), [("7/5", 2), ("1/3", 0), ("133", 191), ("50", 60)])
def test_open_comparisons_ask_for_more_digits(x: str, e: int) -> None:
    """The digits of the bound itself, 320 of them, leave it open; the next one decides."""
    exponent = Fraction(x)
    known = _around(exponent, e, STEP)[0]
    with localcontext(prec=300):
        z = Decimal(exponent.numerator) / exponent.denominator - e * Decimal(2).ln()
        rest = int((z - Decimal(known) / 2**STEP) * 2 ** (5 * STEP))
    for change, expected in ((-(2**20), True), (2**20, False)):
        wanted = rest + change
        digits = [wanted >> STEP * place & (1 << STEP) - 1 for place in (4, 3, 2, 1, 0)]
        assert _below_rest(exponent, e, known, Digits(digits)) is expected


def test_a_comparison_that_stays_open_ends() -> None:
    """x = 0 leaves a rest of zero: no digits are below it."""
    assert not _below_rest(Fraction(0), 0, 0, Digits([]))
    digits = [(1 << STEP) // 3] * (LONGEST // STEP)
    with pytest.raises(InternalError, match="randomness"):
        _below_rest(Fraction(1, 3), 0, 0, Digits(digits))


@pytest.mark.parametrize("factor", [2**30, 2**60, 3 * 2**70])
def test_weights_of_any_size_give_the_same_draws(factor: int) -> None:
    """The same law with heavier rows: in 64 bits, on its border, in Python's integers."""
    weights = {3: 5, 40: 1, 41: 7, 500: 2, 777: 9}
    for order in (Fraction(0), HALF, Fraction(9, 10), Fraction(1)):
        light = GridQuantile(order, 1000, Fraction(1, 3), 24, 8, 40)
        heavy = GridQuantile(order, 1000, Fraction(1, 3 * factor), 24 * factor, 8, 40)
        drawn = [light.release(Rows(weights), Seeded(seed)) for seed in range(40)]
        rows = Rows({cell: weight * factor for cell, weight in weights.items()})
        assert [heavy.release(rows, Seeded(seed)) for seed in range(40)] == drawn
        assert len(set(drawn)) > 5


@given(
    cells=st.integers(1, 400),
    order=st.fractions(0, 1, max_denominator=20),
    rate=st.fractions(Fraction(1, 1000), 5, max_denominator=1000),
    rows=st.lists(st.tuples(st.integers(0, 399), st.integers(1, 50)), max_size=20),
    bits=st.integers(1, 5),
    seed=st.integers(0, 2**32),
)
def test_what_is_known_of_cells_encloses_their_weights(
    cells: int,
    order: Fraction,
    rate: Fraction,
    rows: list[tuple[int, int]],
    bits: int,
    seed: int,
) -> None:
    """After any draws: bounds hold on each open bin, bins cover the grid once, counts agree."""
    weights = [0] * cells
    for cell, weight in rows:
        weights[cell % cells] += weight
    histogram = Rows(dict(enumerate(weights)))
    mechanism = GridQuantile(order, cells, rate, sum(weights), 1 << bits, 1 << bits + 2)
    tree = mechanism.tree(histogram)
    for _ in range(3):
        mechanism.draw(tree, Seeded(seed))
    envelope = Envelope(tree, order, rate, sum(weights))
    up_to, covered = list(accumulate(weights)), [0] * cells
    for bounds in envelope._all():
        for place in np.flatnonzero(bounds.table.open).tolist():
            start, end = bounds.table.span(place)
            for g in range(start, end):
                covered[g] += 1
                target = order * up_to[-1]
                score = max(Fraction(0), up_to[g] - weights[g] - target, target - up_to[g])
                doublings = float(rate * score) / math.log(2)
                assert bounds.least[place] <= doublings + 1e-9
                assert min(doublings, DEEPEST) <= bounds.most[place] + 1 + 1e-5
                if bounds.resolved[place]:
                    assert bounds.scores[place] == score * order.denominator
    assert covered == [1] * cells


@pytest.mark.parametrize("cells", HUGE)
@pytest.mark.parametrize("order", [Fraction(0), HALF, Fraction(1)])
def test_rows_in_one_cell_are_found_on_a_huge_grid(cells: int, order: Fraction) -> None:
    """10,000 rows at a rate of 1: the median leaves their cell once in e^4900 draws."""
    for cell in (0, cells // 3, cells - 1):
        mechanism = GridQuantile(order, cells, Fraction(1), 10_000)
        drawn = mechanism.release(Rows({cell: 10_000}), Randomness())
        assert order < 1 or drawn >= cell
        assert order > 0 or drawn <= cell
        assert order != HALF or drawn == cell


@pytest.mark.parametrize("cells", [1, 2, 3, 8192, 8193, *HUGE])
def test_without_rows_each_cell_is_as_likely(cells: int) -> None:
    """200 draws in quarters of the grid, false alarm 1e-6 each (4.9 standard deviations)."""
    mechanism, rows = GridQuantile(HALF, cells, Fraction(1), 0), Rows({})
    drawn = [mechanism.release(rows, Seeded(seed)) for seed in range(200)]
    assert rows.asked == 200
    assert 0 <= min(drawn) <= max(drawn) < cells
    if cells > 8000:
        low = sum(4 * cell < cells for cell in drawn)
        assert abs(low - 50) < 4.9 * math.sqrt(200 * 3 / 16)


def test_a_grid_of_one_cell_gives_that_cell() -> None:
    assert GridQuantile(HALF, 1, Fraction(1), 5).release(Rows({0: 5}), Randomness()) == 0


LAWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "uniform": lambda t: t,
    "a heap at one end": lambda t: t**0.125,
    "an atom of 40 %": lambda t: 0.6 * t + 0.4 * (t > 0.3),
    "all in a small part": lambda t: np.clip((t - 0.7) * 1e6, 0, 1),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("order", "epsilon"), [("1/2", "1"), ("1/2", "1/1000"), ("999/1000", "1/10")]
)
def test_a_billion_rows_take_a_few_histograms_and_little_memory(
    law: str, order: str, epsilon: str
) -> None:
    """Twelve draws; none took more than nine histograms in a hundred times as many."""
    p, cells, rows = Fraction(order), 2**44, 10**9
    mechanism = GridQuantile(p, cells, Fraction(epsilon) / (2 * max(p, 1 - p)), 2**36)
    for seed in range(12):
        histogram = Law(rows, cells, LAWS[law])
        tree = mechanism.tree(histogram)
        cell = mechanism.draw(tree, Seeded(seed))
        assert tree.size <= 2**16
        assert histogram.asked <= 16
        below, up_to = np.floor(rows * LAWS[law](np.array([cell, cell + 1]) / cells))
        error = max(0, below - p * rows, p * rows - up_to)
        assert error <= mechanism.rank_interval(1 - Fraction(1, 10**7))


def test_draws_share_a_frontier_and_hold_no_more_than_they_may() -> None:
    """Other orders and rates on the same tables; bins in use are let go when too many."""
    histogram = Law(10**9, 2**44, LAWS["uniform"])
    first = GridQuantile(HALF, 2**44, Fraction(1), 2**36)
    tree = first.tree(histogram)
    for seed in range(60):
        order = Fraction(seed % 12, 11)
        mechanism = GridQuantile(order, 2**44, Fraction(1, 1 + seed), 2**36)
        cell = mechanism.draw(tree, Seeded(seed))
        reach = mechanism.rank_interval(1 - Fraction(1, 10**9))
        assert abs(cell / 2**44 - order) < reach / 10**9 + 1e-8
        assert tree.size <= 2**16 + 2**15
    assert histogram.asked < 60 * 4


@pytest.mark.parametrize("law", LAWS)
def test_a_draw_that_may_keep_nothing_between_attempts_ends(law: str) -> None:
    """What makes an attempt likely to succeed is asked for again before each one."""
    mechanism = GridQuantile(HALF, 2**44, Fraction(1), 2**36, 2**10, 2**10)
    histogram = Law(10**9, 2**44, LAWS[law])
    for seed in range(10):
        mechanism.release(histogram, Seeded(seed))
    assert histogram.asked < 10 * 40


HARD = {
    "each row twice as far": ({2**k: 1 for k in range(63)}, "0"),
    "both ways": ({2**62 + s * 2**k: 1 for k in range(61) for s in (-1, 1)}, "1/2"),
    "heavier and heavier": ({2**k: 1 << k for k in range(60)}, "1/1000"),
}


@pytest.mark.parametrize("bins", [2, 16, 2**13])
@pytest.mark.parametrize("rate", ["1/10", "7/10", "30"])
@pytest.mark.parametrize("name", HARD)
def test_attempts_succeed_often_on_hard_data(name: str, rate: str, bins: int) -> None:
    """40 draws; each attempt succeeds with probability 1/8.1 or more, false alarm 1e-6."""
    weights, order = HARD[name]
    tree = GridQuantile(Fraction(order), 2**63, Fraction(rate), 2**61, bins, 1 << 16).tree(
        Rows(weights)
    )
    envelope = Envelope(tree, Fraction(order), Fraction(rate), 2**61)
    randomness, attempts, drawn = Seeded(5), 0, 0
    while drawn < 40:
        attempts += 1
        drawn += envelope._attempt(envelope.settle(), randomness) is not None
    assert attempts < 700


FAULTS: dict[str, Callable[[int, int, int], object]] = {
    "too few bins": lambda low, high, width: [0] * (-(-(high - low) // width) - 1),
    "too many bins": lambda low, high, width: [0] * (-(-(high - low) // width) + 1),
    "less than nothing": lambda low, high, width: [-1] * -(-(high - low) // width),
    "more than the bound": lambda low, high, width: [30] * -(-(high - low) // width),
    "sums that wrap": lambda low, high, width: [2**62] * -(-(high - low) // width),
    "other rows each time": lambda low, high, width: (
        [1 + (high == 90)] + [0] * (-(-(high - low) // width) - 1)
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_histograms_that_cannot_be_are_faults(name: str) -> None:
    mechanism = GridQuantile(Fraction(1, 3), 90, Fraction(5), 100, bins=4)
    with pytest.raises(InternalError) as fault:
        mechanism.release(FAULTS[name], Seeded(1))
    assert fault.value.code == "DPQ901"


@pytest.mark.parametrize("kind", [list, np.array])
def test_weights_are_integers(kind: Callable[[list[float]], object]) -> None:
    mechanism = GridQuantile(Fraction(1, 3), 4, Fraction(5), 100, bins=4)
    with pytest.raises(TypeError):
        mechanism.release(lambda *_: kind([1.0, 0.0, 0.0, 2.0]), Seeded(1))


def outcome(randomness: Randomness) -> int | str:
    """The cell of one release, or the code it was refused with."""
    mechanism = GridQuantile(HALF, 2**40, Fraction(1, 3), 2**36)
    start = time.monotonic()
    try:
        return mechanism.release(Rows({5: 40, 2**39: 3, 2**40 - 1: 41}), randomness)
    except InternalError as fault:
        return fault.code
    finally:
        assert time.monotonic() - start < 5


@pytest.mark.parametrize("source", [Repeating, Stuck])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_broken_source_ends_with_a_cell_or_a_fault(
    pattern: str, source: Callable[[bytes], Randomness]
) -> None:
    result = outcome(source(PATTERNS[pattern]))
    assert result == "DPQ902" or result in range(2**40)


@pytest.mark.parametrize("source", [Repeating(ZEROS), Repeating(ONES), Failing()])
def test_bits_that_never_change_release_nothing(source: Randomness) -> None:
    assert outcome(source) == "DPQ902"


def test_a_draw_that_never_succeeds_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(Envelope, "_attempt", lambda *_: tried.append(1))
    assert outcome(Seeded(1)) == "DPQ902"
    assert len(tried) == ATTEMPTS
