"""Measures: the integers that are taken from private rows, and what a unit counts in them.

Each is a definition that every backend follows to the last digit; how far one unit moves it is
said in `sensitivity.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dpquery.expr import Code, Expr

__all__ = [
    "Candidates",
    "CountRows",
    "CountUnits",
    "CountValues",
    "GroupRequest",
    "Histogram",
    "Measure",
    "Requested",
    "SumCodes",
    "TableWeight",
    "UnitTotals",
    "Weight",
    "code_in",
    "value_in",
]


@dataclass(frozen=True, slots=True)
class Weight:
    """How rows are weighted: a unit with n rows gives each floor(scale * min(1, limit / n)).

    Scale and limit are functions of plan and policy, never of the file. A unit's total is at
    most `total`, whatever its rows; without weights both are 1 and each row counts 1.
    """

    limit: int = 1
    scale: int = 1
    search: int | None = field(default=None, repr=False)
    """Which search of the statement the limit comes from, if one does."""

    @property
    def total(self) -> int:
        """The largest weight of one unit: the sensitivity of a count, in units of 1/scale."""
        return self.limit * self.scale

    @property
    def plain(self) -> bool:
        """Whether every row counts 1."""
        return self.scale == 1


@dataclass(frozen=True, slots=True)
class TableWeight(Weight):
    """How rows are weighted where n counts all rows of the unit in the table, before WHERE.

    The rows that a query sees then weigh no more than their share of `total`: of a unit with
    n rows, m of them weigh m floor(scale * min(1, limit / n)) <= total * m / n together.
    """


@dataclass(frozen=True, slots=True)
class CountRows:
    """The total weight of the rows that meet a condition (all rows where there is none)."""

    weight: Weight
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class SumCodes:
    """The sum of weight * code^degree over the rows that have a code and meet a condition."""

    weight: Weight
    code: Code
    degree: int = 1
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class CountUnits:
    """How many units have a row that meets a condition, each in at most one group's worth.

    With groups, a unit that is in g_u of them counts floor(scale * min(1, limit / g_u)) in
    each.
    """

    weight: Weight
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """Total weights by range of codes, asked for range by range while the scan is open."""

    weight: Weight
    code: Code
    condition: Expr | None = None


class GroupRequest(NamedTuple):
    """What is asked of a histogram: a group's codes from low to high - 1, by ranges of a width.

    The width is a power of two.
    """

    group: int
    low: int
    high: int
    width: int


@dataclass(frozen=True, slots=True)
class UnitTotals:
    """What each unit has in each of its groups, clamped, and added up over the units.

    A unit that is in g_u groups, with a row there that meets the condition and has a code,
    counts with weight floor(scale * min(1, limit / g_u)) in each. Its total in a group is the
    sum of its codes there, clamped to [low, high].
    """

    weight: Weight
    code: Code | None
    """None counts rows."""
    low: int
    high: int
    condition: Expr | None = None

    @property
    def size(self) -> int:
        """The largest size of a total."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True, slots=True)
class CountValues:
    """How many different values there are, where a unit shows at most `limit` of its own.

    What is counted is pairs of a group and a value; which of a unit's pairs are kept is decided
    by a keyed hash of unit, group and value.
    """

    weight: Weight
    value: Expr
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """How many units have each value, where a unit shows at most `limit` of its own.

    The values are not public: they are asked for one by one, once they are chosen.
    """

    weight: Weight
    value: Expr
    condition: Expr | None = None


Measure = CountRows | SumCodes | CountUnits | Histogram | UnitTotals | CountValues | Candidates
Requested = Histogram | Candidates
"""Measures that are asked for while the scan is open, instead of being one integer a group."""


def code_in(measure: Measure) -> Code | None:
    """Give the code that a measure adds up or counts by, if it does."""
    return measure.code if isinstance(measure, SumCodes | Histogram | UnitTotals) else None


def value_in(measure: Measure) -> Expr | None:
    """Give the expression whose values a measure tells apart, if it does."""
    return measure.value if isinstance(measure, CountValues | Candidates) else None
