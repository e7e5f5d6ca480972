"""A limit of rows by a release: how many rows of one unit count, where nobody says.

Each unit has one value, the number of its rows. Raising a limit of k rows by one counts as
many rows more as there are units with more than k, and adds noise of 1/eps rows. So limits are
weighed against each other by the units that have more rows than they allow: a limit is worth
doubling where that reaches some 3/eps' units more, eps' being what the search may lose. Among
a few public limits to the octave, permute-and-flip chooses.

Sensitivity: a unit that is added has more rows than k for each limit k below its own number,
and for no other: each of these counts rises by 1 or stays, and where it is removed, falls by 1
or stays. Where it is replaced by a unit with more rows, some rise by 1 and none falls; by one
with fewer, some fall and none rises. So the differences lie within a range of width 1, times
SCALE. What is taken off for large limits is public, and the same in any data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate

from dpquery.events import Event
from dpquery.functions.base import MAX_ROWS_OF_TABLE, Measured, Step
from dpquery.functions.search import SHARE, FoundCell
from dpquery.ir import (
    Call,
    Code,
    ColumnRef,
    Contribution,
    Histogram,
    Measure,
    Relation,
    Scan,
    Weight,
)
from dpquery.mechanisms import PermuteAndFlip
from dpquery.mechanisms.randomness import Randomness
from dpquery.relations import Aggregate, PerUnit, UnitAggregate, walk
from dpquery.types import INTEGER, ROWS_MAX, Interval, Type

__all__ = ["LIMITS", "RowSearchRelease", "row_search_for"]

SCALE = 2**10
"""Counts are multiplied by it, so that what is taken off need not be whole."""
UNITS_PER_OCTAVE = 3
"""How many units, over eps', a limit has to reach more to be worth doubling."""
FINE = 2**12
"""Up to so many rows, numbers of rows are told apart one by one; beyond, to a part in four."""
_QUARTERS = (m << n for n in range(20) for m in (4, 5, 6, 7))
LIMITS = (*sorted({quarters // 4 for quarters in _QUARTERS if quarters % 4 == 0}), ROWS_MAX)
"""The limits that are chosen among."""


@dataclass(frozen=True, slots=True)
class RowSearchRelease:
    """One limit of rows, drawn among public ones."""

    name: str = field(compare=False)
    measure: Histogram
    distance: int
    mechanism: PermuteAndFlip

    @property
    def type(self) -> Type:
        """A limit is a number of rows."""
        return INTEGER

    @property
    def measures(self) -> tuple[Measure, ...]:
        """How many units have each number of rows, asked for in two ranges."""
        return (self.measure,)

    def event(self) -> Event:
        """State the loss at the proven distance."""
        return self.mechanism.event(self.distance)

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[FoundCell]:
        """Draw a limit."""
        place = self.mechanism.release(self.utilities(exact), randomness)
        return [FoundCell(Interval.point(LIMITS[place]), self.mechanism.name)]

    def utilities(self, exact: Measured) -> list[int]:
        """Return what speaks for each limit: few units with more rows, and a small limit."""
        counted = zip(self.asked(exact), self.taken_off, strict=True)
        return [-SCALE * more - off for more, off in counted]

    def asked(self, exact: Measured) -> list[int]:
        """Ask how many units have more rows than each limit."""
        coarse = FINE // 4
        near = exact.histogram(self.measure, 0, 0, FINE, 1)
        far = exact.histogram(self.measure, 0, FINE, ROWS_MAX, coarse)
        below = [0, *accumulate([*map(int, near), *map(int, far)])]
        place = (k if k <= FINE else FINE + (k - FINE) // coarse for k in LIMITS)
        return [below[-1] - below[at] for at in place]

    @property
    def taken_off(self) -> list[int]:
        """What a limit has to make up for: it rises from one power of two to the next."""
        unit = SCALE * UNITS_PER_OCTAVE / self.mechanism.loss(self.distance).epsilon
        return [int(unit * _octaves(limit)) for limit in LIMITS]

    def step(self) -> Step:
        """Describe the release in units."""
        loss = self.mechanism.loss(self.distance).epsilon
        return Step(
            function=self.name,
            mechanism=self.mechanism.name,
            epsilon=loss,
            sensitivity="1 unit",
            noise_scale=f"chosen among {len(LIMITS)} limits up to {ROWS_MAX:,}",
            expected_error=(
                f"doubled where that reaches about {-(-UNITS_PER_OCTAVE // loss):,} units more"
            ),
            weight=self.measure.weight,
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
    release = RowSearchRelease(name, measure, SCALE, mechanism)
    one_each = Contribution(contribution.unit, True, 1)
    return Scan(units, one_each, (measure,)), release


def _octaves(limit: int) -> Fraction:
    """Return about the binary logarithm of a limit: straight between powers of two."""
    whole = limit.bit_length() - 1
    return whole + Fraction(limit, 1 << whole) - 1
