"""Measures: the integers that are taken from private rows, and what a unit counts in them.

Each is a definition that every backend follows to the last digit. How far one unit moves it is
said in `sensitivity.py`, beside the proof.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from dpquery.ir.expr import Code, Expr, Scalar

Told = tuple[Scalar | None, ...]
"""What tells a value from others: what each of its expressions gives."""


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
class _Measured:
    """What all measures say, so that who writes or describes one need not know which it is."""

    of_rows: ClassVar[bool] = False
    """Whether each row adds its weight times a number, however many rows the unit has."""

    weight: Weight

    @property
    def codes(self) -> tuple[Code, ...]:
        """The codes that it adds up or counts by, each once."""
        return ()

    @property
    def factors(self) -> tuple[Code, ...]:
        """The codes whose product it adds up."""
        return ()

    @property
    def values(self) -> tuple[Expr, ...]:
        """The expressions whose values it tells apart."""
        return ()


@dataclass(frozen=True, slots=True)
class _OfCode(_Measured):
    code: Code

    @property
    def codes(self) -> tuple[Code, ...]:
        """The one code."""
        return (self.code,)


@dataclass(frozen=True, slots=True)
class CountRows(_Measured):
    """The total weight of the rows that meet a condition (all rows where there is none)."""

    of_rows = True

    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class SumCodes(_OfCode):
    """The sum of weight * code^degree over the rows that have a code and meet a condition."""

    of_rows = True

    degree: int = 1
    condition: Expr | None = None

    @property
    def factors(self) -> tuple[Code, ...]:
        """The code, as often as the degree says."""
        return (self.code,) * self.degree


@dataclass(frozen=True, slots=True)
class SumProducts(_Measured):
    """The sum of weight * product of codes over the rows that have all and meet a condition."""

    of_rows = True

    factors: tuple[Code, ...]
    condition: Expr | None = None

    @property
    def codes(self) -> tuple[Code, ...]:
        """Each once."""
        return tuple(dict.fromkeys(self.factors))


@dataclass(frozen=True, slots=True)
class CountUnits(_Measured):
    """How many units have a row that meets a condition, each in at most one group's worth.

    With groups, a unit that is in g_u of them counts floor(scale * min(1, limit / g_u)) in
    each.
    """

    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class Histogram(_OfCode):
    """Total weights by range of codes, asked for range by range while the scan is open."""

    of_rows = True

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
class UnitTotals(_Measured):
    """What each unit has in each of its groups, clamped, and added up over the units.

    A unit that is in g_u groups, with a row there that meets the condition and has a code,
    counts with weight floor(scale * min(1, limit / g_u)) in each. Its total in a group is the
    sum of its codes there, clamped to [low, high].
    """

    code: Code | None
    """None counts rows."""
    low: int
    high: int
    condition: Expr | None = None

    @property
    def size(self) -> int:
        """The largest size of a total."""
        return max(abs(self.low), abs(self.high))

    @property
    def codes(self) -> tuple[Code, ...]:
        """One, unless rows are counted."""
        return () if self.code is None else (self.code,)


@dataclass(frozen=True, slots=True)
class CountValues(_Measured):
    """How many different values there are, where a unit stands for at most `limit` of its own.

    What is counted is pairs of a group and a value. Which ones count: the pairs are put in the
    order of a keyed hash of group and value, and one counts if all that count before it, and
    it, can be given to units that have them, at most `limit` to each.
    """

    value: Expr
    condition: Expr | None = None

    @property
    def values(self) -> tuple[Expr, ...]:
        """The one expression."""
        return (self.value,)


@dataclass(frozen=True, slots=True)
class SumValues(SumCodes):
    """The sum of code^degree over the different values of an expression that count.

    Those are the pairs that `CountValues` counts with the same limit and condition.
    """

    of_rows = False

    @property
    def values(self) -> tuple[Expr, ...]:
        """The expression that the code is of."""
        return (self.code.expr,)


@dataclass(frozen=True, slots=True)
class Candidates(_Measured):
    """How many units have each value, where a unit shows at most `limit` of its own.

    A value is what several expressions make together: a combination is counted as such, once
    for each unit that has it in a row, and it counts as one of the unit's. NULL is told from
    all else in each of them. The values are not public: they are asked for one by one, once
    they are chosen.
    """

    told: tuple[Expr, ...]
    condition: Expr | None = None

    @property
    def values(self) -> tuple[Expr, ...]:
        """The expressions, in the order of the call."""
        return self.told


Measure = (
    CountRows
    | SumCodes
    | SumProducts
    | CountUnits
    | Histogram
    | UnitTotals
    | CountValues
    | SumValues
    | Candidates
)
OfValues = CountValues | SumValues
"""Measures of the different values that units have together."""
Requested = Histogram | Candidates
"""Measures that are asked for while the scan is open, instead of being one integer a group."""
