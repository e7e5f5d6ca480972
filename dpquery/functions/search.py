"""Bounds by a release: between which powers of two values lie, where nobody chose any.

The grid of the type is parted into public blocks: between one power of two and the next, on
both sides of zero; for dates and timestamps, about a year each. The weight of each block gets
noise. The bounds run from the lowest block that stands out of the noise to the highest, and on
past their neighbours as long as a few of these together stand out: rows that are spread over
many blocks count too. With too few rows none does, and there are bounds by type.

Sensitivity: a row is in one block, so a unit moves the histogram of the blocks by its weight,
limit * scale, in L1 norm, and by twice that where it is replaced. What is made of the noisy
weights is post-processing. Blocks, noise and what stands out are functions of plan and policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate
from math import ceil

import numpy as np

from dpquery.events import Event
from dpquery.functions.base import Facts, Measured, Step
from dpquery.functions.choice import in_rows
from dpquery.ir import Call, Code, ColumnRef, Expr, Histogram, Measure
from dpquery.mechanisms import DiscreteLaplace
from dpquery.mechanisms.certified import tail_bound
from dpquery.mechanisms.randomness import Randomness
from dpquery.rowfunctions.base import CALENDAR
from dpquery.sensitivity import sensitivity
from dpquery.types import Interval, Kind, Type

__all__ = [
    "SHARE",
    "FoundCell",
    "SearchRelease",
    "blocks_of",
    "fallback",
    "search_for",
    "searched",
]

SHARE = Fraction(1, 5)
"""What bounds take of the epsilon of the call that has them found."""
SURE = Fraction(999, 1000)
"""How often no run of blocks stands out that has no rows."""
TILT = Fraction(3, 4)
RUNS = (1, 2, 4, 8)
"""How many neighbouring blocks are looked at together."""
EXACT, FLOATING = 60, 96
"""The powers of two up to which values are told apart, in steps of their grid."""
FINEST = Fraction(1, 2**33)
"""The step of doubles without a grid of their own: up to 2^63 they are told apart."""
FINE = 12
"""Binary digits by which one request to the engine tells powers of two apart."""
MOMENTS = {Kind.DATE: 9, Kind.TIMESTAMP: 45}
"""Binary digits of a block of moments: 512 days, or 2^45 microseconds (407 days)."""

Request = tuple[int, int, int]
"""The first code, the one after the last, and the width of a cell."""


@dataclass(frozen=True, slots=True)
class Block:
    """A run of codes, and between which values it lies."""

    first: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class FoundCell:
    """The bounds that were found, in the measure of values; None where no block stands out."""

    value: Interval | None
    mechanism: str

    def interval(self, confidence: Fraction) -> None:
        """Give nothing: between which bounds the values lie is up to the data."""


@dataclass(frozen=True, slots=True)
class SearchRelease:
    """The weights of public blocks with noise, and the bounds that they show."""

    name: str = field(compare=False)
    measure: Histogram
    distance: int
    noise: DiscreteLaplace

    @property
    def type(self) -> Type:
        """The type of what is bounded."""
        return self.measure.code.expr.type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """One histogram, asked for range by range."""
        return (self.measure,)

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.noise.event(self.distance)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[FoundCell]:
        """Add noise to every block, and give the bounds of those that stand out."""
        noisy = self.noise.release(self.asked(exact), randomness)
        ends = self._ends(noisy)
        if ends is None:
            return [FoundCell(None, self.noise.name)]
        blocks, grid = blocks_of(self.measure.code), self.measure.code.grid
        low, high = blocks[ends[0]].low, blocks[ends[1] - 1].high
        return [FoundCell(Interval(low * grid, high * grid), self.noise.name)]

    def _ends(self, noisy: Sequence[int]) -> tuple[int, int] | None:
        """Give the first block within the bounds and the one after the last."""
        sums, least = list(accumulate(noisy, initial=0)), self.least

        def stands(start: int, run: int) -> bool:
            inside = start >= 0 and start + run < len(sums)
            return inside and sums[start + run] - sums[start] >= least[run]

        for run in RUNS:
            starts = [start for start in range(len(noisy)) if stands(start, run)]
            if starts:
                low, high = starts[0], starts[-1] + run
                break
        else:
            return None
        while more := next((run for run in RUNS if stands(high, run)), 0):
            high += more
        while more := next((run for run in RUNS if stands(low - run, run)), 0):
            low -= more
        return low, high

    def asked(self, exact: Measured) -> list[int]:
        """Ask for the exact weight of each block."""
        code, weights = self.measure.code, []
        firsts = [block.first for block in blocks_of(code)]
        for low, high, width in _requests(code):
            cells = exact.histogram(self.measure, 0, low, high, width)
            starts = [(first - low) // width for first in firsts if low <= first < high]
            weights += np.add.reduceat(cells, starts).tolist()
        return [int(weight) for weight in weights]

    @property
    def least(self) -> dict[int, int]:
        """From which noisy weight on a run of so many blocks stands out.

        The sum of m noises is t or more with probability at most M^m exp(-c t / scale), where
        M = 1 / (1 - c^2) bounds the mean of exp(c noise / scale), 0 < c < 1: with a = 1 / scale
        that is (cosh a - 1) / (cosh a - cosh c a), and (cosh x - 1) / x^2 rises with x.
        """
        tests = len(RUNS) * len(blocks_of(self.measure.code))
        rate, mean = TILT / self.noise.scale, 1 / (1 - TILT**2)
        runs = {run: tail_bound(ceil(tests * mean**run), rate, SURE) for run in RUNS[1:]}
        return {1: tail_bound(tests, 1 / self.noise.scale, SURE), **runs}

    @property
    def told_from(self) -> int:
        """From how many rows on at one power of two bounds are found around them."""
        return -(-self.least[1] // self.measure.weight.scale)

    def step(self) -> Step:
        """Describe the release in rows."""
        weight, rows = self.measure.weight, self.told_from
        return Step(
            function=self.name,
            mechanism=self.noise.name,
            epsilon=self.noise.loss(self.distance).epsilon,
            sensitivity=in_rows(weight, self.distance),
            noise_scale=f"{in_rows(weight, self.noise.scale)}, of each power of two",
            expected_error=f"told from {rows:,} rows at one power of two on",
            weight=weight,
        )


def search_for(call: Call, facts: Facts, epsilon: Fraction) -> SearchRelease:
    """Plan the search for the bounds of a call's argument, for an epsilon.

    Facts are those of all rows of its relation, without groups. Where it is to be found how
    many rows of a unit count, its rows count as one here.
    """
    argument = call.argument
    assert argument is not None  # noqa: S101 - there are bounds of an argument alone
    if call.options.auto_rows:
        one = replace(call.options, max_rows_contributed=1, rows_search=None)
        call = replace(call, options=one)
    measure = Histogram(facts.cell_weight(call), searched(argument))
    distance = sensitivity(measure, facts.neighbours)
    noise = DiscreteLaplace.calibrated(distance, epsilon)
    return SearchRelease(f"bounds of {call.written}", measure, distance, noise)


def fallback(type_: Type) -> Interval:
    """Give the bounds where none were found: 0 to 1, or the first block from 1970 on."""
    digits = MOMENTS.get(type_.kind)
    return Interval(Fraction(0), Fraction(1 if digits is None else (1 << digits) - 1))


def searched(argument: Expr) -> Code:
    """Give the codes among which bounds are looked for; what lies beyond counts as the end."""
    digits = MOMENTS.get(argument.type.kind)
    if digits is not None:
        low, high = CALENDAR[argument.type.kind].low, CALENDAR[argument.type.kind].high
        assert low is not None  # noqa: S101 - the calendar has both ends
        assert high is not None  # noqa: S101
        return Code(argument, Fraction(1), int(low), int(high))
    if argument.type.kind is not Kind.DOUBLE:
        return Code(argument, Fraction(1, 10**argument.type.scale), -(1 << EXACT), 1 << EXACT)
    own = argument.grid if isinstance(argument, ColumnRef) else None
    return Code(argument, own or FINEST, -(1 << FLOATING), 1 << FLOATING)


def blocks_of(code: Code) -> list[Block]:
    """Part a code into its blocks, in rising order.

    >>> from dpquery.ir import Literal
    >>> from dpquery.source import Span
    >>> from dpquery.types import INTEGER
    >>> code = Code(Literal(Span(0, 0), 0, INTEGER), Fraction(1), -2, 4)
    >>> [(block.low, block.high) for block in blocks_of(code)]
    [(-2, -1), (-1, 0), (0, 0), (0, 1), (1, 2), (2, 4)]
    """
    digits = MOMENTS.get(code.expr.type.kind)
    if digits is not None:
        firsts = range(code.low >> digits, (code.high >> digits) + 1)
        return [_year(code, place << digits, 1 << digits) for place in firsts]
    falling, rising = ((abs(end)).bit_length() - 1 for end in (code.low, code.high))
    below = [Block(-(1 << n), -(1 << n), -(1 << n >> 1)) for n in range(falling, -1, -1)]
    above = [Block((1 << n >> 1) + 1, 1 << n >> 1, 1 << n) for n in range(rising + 1)]
    return [*below, Block(0, 0, 0), *above]


def _year(code: Code, first: int, size: int) -> Block:
    low = max(first, code.low)
    return Block(low, low, min(first + size - 1, code.high))


def _requests(code: Code) -> Iterator[Request]:
    """Give what to ask for: ranges of whole blocks, ever coarser away from zero."""
    digits = MOMENTS.get(code.expr.type.kind)
    if digits is not None:
        yield code.low >> digits << digits, code.high + 1, 1 << digits
        return
    top = code.high.bit_length() - 1
    steps = range(FINE, top, FINE)
    for n in reversed(steps):
        yield -(1 << min(n + FINE, top)), -(1 << n), 1 << n
    yield -(1 << FINE), (1 << FINE) + 1, 1
    for n in steps:
        yield (1 << n) + 1, (1 << min(n + FINE, top)) + 1, 1 << n
