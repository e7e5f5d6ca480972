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
from typing import Any, ClassVar

import numpy as np

from dpquery.core.types import INTEGER, ROWS_MAX, Interval, Kind, Type
from dpquery.functions.base import MAX_ROWS_OF_TABLE, Facts, Measured, Words
from dpquery.functions.order_statistics.base import ValueRelease
from dpquery.functions.quantize import in_rows
from dpquery.ir.expr import Code, ColumnRef, Expr
from dpquery.ir.measures import Histogram, Weight
from dpquery.ir.query import Call, Contribution, Scan
from dpquery.ir.relations import Aggregate, PerUnit, Relation, UnitAggregate, walk
from dpquery.ir.sensitivity import sensitivity
from dpquery.mechanisms import DiscreteLaplace, PermuteAndFlip
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.samplers import tail_bound
from dpquery.rowfunctions.base import CALENDAR

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
FINE_DIGITS = 12
"""Binary digits by which one request to the engine tells powers of two apart."""
MOMENTS = {Kind.DATE: 9, Kind.TIMESTAMP: 45, Kind.TIMESTAMPTZ: 45}
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
class FoundLimits(ValueRelease):
    """A release of bounds, or of a limit: both ends are drawn, or nothing is found."""

    function: str = field(compare=False)
    """What is found, in words."""

    where: ClassVar[str]
    """Among which rows it is found."""

    def value(self, drawn: Any) -> Interval | None:
        """Return what was found, in the measure of values."""
        return None if drawn is None else Interval(*drawn)


@dataclass(frozen=True, slots=True)
class SearchRelease(FoundLimits):
    """The weights of public blocks with noise, and the bounds that they show."""

    mechanism: DiscreteLaplace

    where: ClassVar[str] = "in all rows"

    def draw(self, exact: Measured, randomness: Randomness) -> list[object]:
        """Add noise to every block, and return the bounds of those that stand out."""
        ends = self._ends(self.mechanism.release(self.asked(exact), randomness))
        if ends is None:
            return [None]
        blocks, grid = blocks_of(self.code), self.code.grid
        return [(blocks[ends[0]].low * grid, blocks[ends[1] - 1].high * grid)]

    def _ends(self, noisy: Sequence[int]) -> tuple[int, int] | None:
        """Return the first block within the bounds and the one after the last."""
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
        code, weights = self.code, []
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
        tests = len(RUNS) * len(blocks_of(self.code))
        rate, mean = TILT / self.mechanism.scale, 1 / (1 - TILT**2)
        runs = {run: tail_bound(ceil(tests * mean**run), rate, SURE) for run in RUNS[1:]}
        return {1: tail_bound(tests, 1 / self.mechanism.scale, SURE), **runs}

    @property
    def told_from(self) -> int:
        """From how many rows on at one power of two bounds are found around them."""
        return -(-self.least[1] // self.measure.weight.scale)

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        weight = self.measure.weight
        return Words(
            in_rows(weight, self.distance),
            f"{in_rows(weight, self.mechanism.scale)}, of each power of two",
            f"found where {self.told_from:,} rows lie between two powers of two",
        )


def search_for(call: Call, facts: Facts, epsilon: Fraction) -> SearchRelease:
    """Plan the search for the bounds of a call's argument, for an epsilon.

    Facts are those of all rows of its relation, without groups. Where it is to be found how
    many rows of a unit count, its rows count as one here.
    """
    argument = call.inputs[0].expr
    if call.options.auto_rows:
        one = replace(call.options, max_rows_contributed=1, rows_search=None)
        call = replace(call, options=one)
    measure = Histogram(facts.cell_weight(call), searched(argument))
    distance = sensitivity(measure, facts.neighbours)
    noise = DiscreteLaplace.calibrated(distance, epsilon)
    name, type_ = f"bounds of {call.written}", argument.type
    return SearchRelease(name, (measure,), distance, noise, type_)


def fallback(type_: Type) -> Interval:
    """Return the bounds where none were found: 0 to 1, or the first block from 1970 on."""
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

    >>> from dpquery.ir.expr import Literal
    >>> from dpquery.core.source_text import Span
    >>> from dpquery.core.types import INTEGER
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
    """Return what to ask for: ranges of whole blocks, ever coarser away from zero."""
    digits = MOMENTS.get(code.expr.type.kind)
    if digits is not None:
        yield code.low >> digits << digits, code.high + 1, 1 << digits
        return
    top = code.high.bit_length() - 1
    steps = range(FINE_DIGITS, top, FINE_DIGITS)
    for n in reversed(steps):
        yield -(1 << min(n + FINE_DIGITS, top)), -(1 << n), 1 << n
    yield -(1 << FINE_DIGITS), (1 << FINE_DIGITS) + 1, 1
    for n in steps:
        yield (1 << n) + 1, (1 << min(n + FINE_DIGITS, top)) + 1, 1 << n


# A limit of rows by a release: how many rows of one unit count, where nobody says.
#
# Each unit has one value, the number of its rows. Raising a limit of k rows by one counts
# as many rows more as there are units with more than k, and adds noise of 1/eps rows. So
# limits are weighed against each other by the units that have more rows than they allow: a
# limit is worth doubling where that reaches some 3/eps' units more, eps' being what the
# search may lose. Among a few public limits to the octave, permute-and-flip chooses.
#
# Sensitivity: a unit that is added has more rows than k for each limit k below its own
# number, and for no other: each of these counts rises by 1 or stays, and where it is
# removed, falls by 1 or stays. Where it is replaced by a unit with more rows, some rise by
# 1 and none falls; by one with fewer, some fall and none rises. So the differences lie
# within a range of width 1, times SCALE. What is taken off for large limits is public, and
# the same in any data.


SCALE = 2**10
"""Counts are multiplied by it, so that what is taken off need not be whole."""
UNITS_PER_OCTAVE = 3
"""How many units, over eps', a limit has to reach more to be worth doubling."""
FINE_ROWS = 2**12
"""Up to so many rows, numbers of rows are told apart one by one; beyond, to a part in four."""
_QUARTERS = (m << n for n in range(20) for m in (4, 5, 6, 7))
LIMITS = (*sorted({quarters // 4 for quarters in _QUARTERS if quarters % 4 == 0}), ROWS_MAX)
"""The limits that are chosen among."""


@dataclass(frozen=True, slots=True)
class RowSearchRelease(FoundLimits):
    """One limit of rows, drawn among public ones."""

    mechanism: PermuteAndFlip

    where: ClassVar[str] = "of the rows of this query"

    def draw(self, exact: Measured, randomness: Randomness) -> list[object]:
        """Draw a limit."""
        limit = LIMITS[self.mechanism.release(self.utilities(exact), randomness)]
        return [(Fraction(limit), Fraction(limit))]

    def utilities(self, exact: Measured) -> list[int]:
        """Return what speaks for each limit: few units with more rows, and a small limit."""
        counted = zip(self.asked(exact), self.taken_off, strict=True)
        return [-SCALE * more - off for more, off in counted]

    def asked(self, exact: Measured) -> list[int]:
        """Ask how many units have more rows than each limit."""
        coarse = FINE_ROWS // 4
        near = exact.histogram(self.measure, 0, 0, FINE_ROWS, 1)
        far = exact.histogram(self.measure, 0, FINE_ROWS, ROWS_MAX, coarse)
        below = [0, *accumulate([*map(int, near), *map(int, far)])]
        place = (k if k <= FINE_ROWS else FINE_ROWS + (k - FINE_ROWS) // coarse for k in LIMITS)
        return [below[-1] - below[at] for at in place]

    @property
    def taken_off(self) -> list[int]:
        """What a limit has to make up for: it rises from one power of two to the next."""
        unit = SCALE * UNITS_PER_OCTAVE / self.epsilon
        return [int(unit * _octaves(limit)) for limit in LIMITS]

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in units."""
        worth = f"{-(-UNITS_PER_OCTAVE // self.epsilon):,} units"
        return Words(
            "1 unit",
            f"chosen among {len(LIMITS)} limits up to {ROWS_MAX:,}",
            f"doubled where that reaches about {worth} more",
        )


def row_search_for(
    call: Call, relation: Relation, contribution: Contribution, epsilon: Fraction
) -> tuple[Scan, RowSearchRelease]:
    """Plan the search for a limit of rows, for a share of what a call may lose in all.

    Its scan has one row for each unit: how many rows it has in the relation.
    """
    most = Interval(Fraction(1), Fraction(MAX_ROWS_OF_TABLE))
    number = 1 + max(getattr(node, "number", 0) for node in walk(relation))
    count = UnitAggregate("n", Aggregate.COUNT, None, None, INTEGER, most)
    units = PerUnit(relation.span, relation, number, (), (count,))
    rows = ColumnRef(relation.span, "n", INTEGER, most, of=number)
    measure = Histogram(Weight(), Code(rows, Fraction(1), 1, ROWS_MAX, 1))
    mechanism = PermuteAndFlip.calibrated(SCALE, epsilon * SHARE)
    name = f"max_rows_contributed, how many rows of one {contribution.unit} count"
    release = RowSearchRelease(name, (measure,), SCALE, mechanism, INTEGER)
    one_each = Contribution(contribution.unit, True, 1)
    return Scan(units, one_each, (measure,)), release


def _octaves(limit: int) -> Fraction:
    """Return about the binary logarithm of a limit: straight between powers of two."""
    whole = limit.bit_length() - 1
    return whole + Fraction(limit, 1 << whole) - 1
