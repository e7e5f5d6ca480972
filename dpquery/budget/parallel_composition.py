"""Charges on a part of the units, and what all of them together cost any one unit.

A table is parted by a column of which every unit has one value, since scans keep no other rows
of it. A charge on one part moves nothing when a unit of another part is added or removed. So a
unit loses what was charged on its own part, and what was charged on all: the most that anybody
loses is the largest sum over the parts, and not the sum of all. Where scans keep rows of up to
g parts of each unit, it loses what was charged on these, at most the sum of the g largest.

* A charge is on the parts of one column. Columns of several tables part units in several ways,
  and a unit has a part in each: the largest sums of all columns add up.
* Where a unit is replaced by another, both lose: one leaves a part, the other enters another.
  There the two largest sums of a column add up, or 2 g: what is charged on a part can move if
  either unit has it. As soon as two sums add up, a charge on several parts, which a unit loses
  once even if it has them all, is on all.
* A unit keeps its part while the data and the policy's words on the column are the same. So
  sums are kept by these words; when a new version of the data begins, the largest of them are
  what every unit may have lost, and parts begin at nothing.

The sums only grow. For two neighbours it is fixed which parts they differ in, and what was
charged on these alone is what they have lost, however questions followed from answers: so each
filter that holds for the sum of charges holds for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from heapq import nlargest

from dpquery.budget.accountant import NOTHING, Spent
from dpquery.core.privacy_loss import Loss, Neighbours

FEW = 3
"""Names of parts that fit into a line."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The parts of a table in which a charge may tell of units."""

    column: str
    """A name for the column and all that the policy says of it and of its table."""
    parts: tuple[int, ...]
    """By number; there is none that could be left out where all are there."""
    names: tuple[str, ...] = field(default=(), compare=False)
    """What all parts of the column are called, for messages."""
    of: str = field(default="", compare=False)
    """What the column and its table are called, for messages."""
    per_unit: int = 1
    """How many parts one unit can have."""
    shared: bool = field(default=False, compare=False)
    """Whether a unit can have a share of each part instead, and loses that share of its charge.

    Then one of the sums has to keep the limit in all parts, for the unit has some of each.
    """

    @property
    def whole(self) -> bool:
        """Whether no part is left out."""
        return len(self.parts) == len(self.names)

    @property
    def told(self) -> str:
        """Return which parts of how many they are."""
        many = "all" if self.whole else f"{len(self.parts)} of"
        each = "" if self.per_unit == 1 else f", {self.per_unit} of a unit at most"
        return f"{many} {len(self.names)} parts of {self.of}{each}"

    @property
    def named(self) -> str:
        """Name the parts, where they are few."""
        names = [self.names[part] for part in self.parts]
        return " or ".join(names) if len(names) <= FEW else f"these {len(names)} parts"


EVERYBODY: None = None
"""What a charge touches that could tell of any unit."""


@dataclass(frozen=True, slots=True)
class Counting:
    """What fixes how parts add up."""

    version: int = 0
    """Of the data."""
    pairs: bool = True
    """Whether neighbours can differ in two parts."""

    @classmethod
    def of(cls, version: int, neighbours: str | None) -> Counting:
        """Count under a neighbouring relation; where none was promised, under either."""
        return cls(version, neighbours != Neighbours.ADD_REMOVE.value)

    def counted_on(self, touched: Touched | None) -> Touched | None:
        """Return the parts that a charge is counted on; None where it is on every unit."""
        if touched is None or not touched.parts or touched.whole:
            return None
        alone = self.apart(touched.per_unit) == 1
        return touched if alone or len(touched.parts) == 1 else None

    def apart(self, per_unit: int) -> int:
        """Return in how many parts neighbours can differ, where a unit can have so many."""
        return 2 * per_unit if self.pairs else per_unit


EITHER = Counting()
"""How parts add up whatever the neighbours, before anything is published."""


@dataclass(frozen=True, slots=True)
class Parted:
    """What was charged on parts alone, by column and part, in one version of the data."""

    version: int = 0
    columns: Mapping[str, tuple[Mapping[int, Spent], int]] = field(default_factory=dict)
    """Each with its parts, and with how many of them one unit can have."""

    def plus(self, spent: Spent, version: int, touched: Touched) -> Parted:
        """Add a charge on some parts, in the version that these are of."""
        before, per_unit = self.columns.get(touched.column, ({}, 1))
        added = {part: before.get(part, NOTHING) + spent for part in touched.parts}
        after = {**before, **added}, max(touched.per_unit, per_unit)
        return Parted(version, {**self.columns, touched.column: after})

    def most(self, counting: Counting, touched: Touched | None = EVERYBODY) -> Spent:
        """Return the most that a unit has lost, of those that may be in the parts touched."""
        on = counting.counted_on(touched)
        if self.version != counting.version:
            on = None  # units may have moved since
        most = (
            _most(
                sums,
                counting.apart(per_unit),
                on.parts if on and on.column == column else None,
            )
            for column, (sums, per_unit) in self.columns.items()
        )
        return sum(most, NOTHING)

    def listed(self) -> list[object]:
        """Return the numbers, exactly, as texts."""
        columns = [
            [column, [[part, *texts(spent)] for part, spent in sorted(sums.items())], per_unit]
            for column, (sums, per_unit) in sorted(self.columns.items())
        ]
        return [self.version, columns]

    @classmethod
    def read(cls, listed: object) -> Parted:
        """Read what `listed` gave; another thing is a ValueError."""
        match listed:
            case [int(version), [_, *_] as columns]:
                return cls(version, dict(map(_column, columns)))
        raise ValueError("not the parts of a ledger")


NO_PARTS = Parted()


def _column(part: object) -> tuple[str, tuple[dict[int, Spent], int]]:
    match part:
        case [str(column), [_, *_] as sums, int(per_unit)]:
            return column, (dict(map(_sum, sums)), per_unit)
    raise ValueError("not the parts of a ledger")


def _sum(part: object) -> tuple[int, Spent]:
    match part:
        case [int(number), *rest]:
            return number, read_spent(rest)
    raise ValueError("not the parts of a ledger")


def _most(sums: Mapping[int, Spent], apart: int, parts: Sequence[int] | None) -> Spent:
    """Return the most that is spent on the parts that neighbours differ in, one among some."""
    if parts is None or (apart > 1 and len(parts) > 1):
        return _largest(sums.values(), apart)
    within = _largest((sums.get(part, NOTHING) for part in parts), 1)
    if apart == 1:
        return within
    others = (spent for part, spent in sums.items() if part not in parts)
    return within + _largest(others, apart - 1)


def _largest(sums: Iterable[Spent], most: int) -> Spent:
    """Return the largest of each number, added up: what bounds any so many."""
    found = list(sums)

    def largest(numbers: Iterable[Fraction]) -> Fraction:
        return sum(nlargest(most, numbers), Fraction(0))

    epsilon = largest(s.loss.epsilon for s in found)
    delta = largest(s.loss.delta for s in found)
    rho = largest(s.rho for s in found)
    return Spent(Loss(epsilon, delta), rho, all(s.summed for s in found))


def texts(spent: Spent) -> tuple[str, str, str, bool]:
    """Return the numbers of what is spent, exactly, as texts."""
    return str(spent.loss.epsilon), str(spent.loss.delta), str(spent.rho), spent.summed


@lru_cache(maxsize=1024)
def _number(text: str) -> Fraction:
    """Read a number; the same stand in several totals of a row, and in many rows."""
    numerator, over, denominator = text.partition("/")
    return Fraction(int(numerator), int(denominator) if over else 1)


def read_spent(listed: Iterable[object]) -> Spent:
    """Read what `texts` gave; another thing is a ValueError."""
    match tuple(listed):
        case (str(epsilon), str(delta), str(rho), bool(summed)):
            return Spent(Loss(_number(epsilon), _number(delta)), _number(rho), summed)
    raise ValueError("not a total of a ledger")
