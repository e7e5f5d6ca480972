"""All small private tables of a few values, and what a planned release reads of them.

Releases are planned as the engine plans them, from a call and public facts. A table is a list
of units, each a list of rows; a row is a group and a value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpquery import functions
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN, INTEGER, Interval, Type
from dpquery.functions.base import Facts, Release
from dpquery.ir.expr import ColumnRef, Expr
from dpquery.ir.measures import Histogram, Measure
from dpquery.ir.query import Call, Contribution, Input, Key, Options, Scan
from dpquery.ir.relations import TableScan
from tests.oracle.totals import Totals

ADD_REMOVE, SUBSTITUTE = Neighbours
NOWHERE = Span(0, 0)
ONE = Fraction(1)

Row = tuple[int, object]
Unit = tuple[Row, ...]
Vector = tuple[int, ...]


def column(
    type_: Type = INTEGER,
    low: object = None,
    high: object = None,
    *,
    grid: Fraction | None = None,
) -> ColumnRef:
    """Return a column `x`, bounded where its bounds are given."""
    ends = (None if end is None else Fraction(end) for end in (low, high))
    return ColumnRef(NOWHERE, "x", type_, Interval(*ends), low is not None, grid)


def call(
    function: str,
    argument: Expr | tuple[Expr, ...] | None = None,
    *,
    eps: object = 1,
    order: object = None,
    distinct: bool = False,
    **options: object,
) -> Call:
    """Return a call as the binder would."""
    exprs = argument if isinstance(argument, tuple) else () if argument is None else (argument,)
    return Call(
        NOWHERE,
        "c0",
        function,
        tuple(Input(expr, NOWHERE) for expr in exprs),
        None,
        Options(Fraction(eps), NOWHERE, **options),
        distinct,
        _order(order),
    )


def _order(order: object) -> Fraction | tuple[Fraction, ...] | None:
    if isinstance(order, tuple | list):
        return tuple(map(Fraction, order))
    return None if order is None else Fraction(order)


def plan(asked: Call, facts: Facts) -> Release:
    return functions.find(asked.function).plan(asked, facts)


ALONE = Facts(Contribution("unit", True, 1), ADD_REMOVE, 1, False)
"""One row per unit, no groups, units added or removed."""


@dataclass(frozen=True)
class World:
    """Which tables there are: the values of a row, its groups, and how units are bounded."""

    values: tuple[object, ...]
    groups: int = 1
    limit: int = 1
    weighted: bool = False

    @property
    def argument(self) -> ColumnRef | tuple[ColumnRef, ...]:
        """The column `x`; or `x` and `y`, where a row has a pair of values."""
        if isinstance(self.values[0], tuple):
            parts = (replace(self, values=part) for part in zip(*self.values, strict=True))
            return tuple(
                replace(part.argument, name=name)
                for part, name in zip(parts, "xy", strict=True)
            )
        known = [value for value in self.values if value is not None]
        if isinstance(known[0], bool):
            return column(BOOLEAN)
        return column(INTEGER, min(known), max(known))

    def facts(self, relation: Neighbours) -> Facts:
        unit = Contribution("unit", not self.weighted, self.limit)
        return Facts(unit, relation, self.groups, self.groups > 1)

    def units(self) -> list[Unit]:
        """What a unit may own; nothing, as when its rows fail a filter."""
        kinds = list(itertools.product(range(self.groups), self.values))
        most = self.limit + 1 if self.weighted else 1
        return [
            unit
            for rows in range(most + 1)
            for unit in itertools.combinations_with_replacement(kinds, rows)
        ]

    def bases(self, rows: int) -> Iterator[tuple[Unit, ...]]:
        """The rows of all other units, so many at most."""
        for number in range(rows + 1):
            for units in itertools.combinations_with_replacement(self.units()[1:], number):
                if sum(map(len, units)) <= rows:
                    yield units


def cells(value: object) -> dict[tuple[int, str], object]:
    """Return the value of a row, or both, by column."""
    pair = value if isinstance(value, tuple) else (value,)
    return {(0, name): one for name, one in zip("xy", pair, strict=False)}


class Held:
    """The exact side of a release, computed row by row."""

    def __init__(self, world: World, units: tuple[Unit, ...]) -> None:
        group = Key(NOWHERE, "g", replace(column(), name="g"), tuple(range(world.groups)))
        unit = Contribution("unit", not world.weighted, world.limit)
        scan = Scan(TableScan(NOWHERE, "t"), unit, (), (group,))
        self.groups = world.groups
        self._totals = Totals(
            scan,
            [(n, {(0, "g"): g} | cells(x)) for n, rows in enumerate(units) for g, x in rows],
        )

    def values(self, measure: Measure) -> Vector:
        return self._totals.of(measure)

    def histogram(
        self, measure: Histogram, group: int, low: int, high: int, width: int
    ) -> np.ndarray:
        return self.histograms(measure, [(group, low, high, width)])[0]

    def histograms(
        self, measure: Histogram, requests: Sequence[tuple[int, int, int, int]]
    ) -> Sequence[np.ndarray]:
        return self._totals.histograms(measure, requests)


class _Listening:
    """In the place of a mechanism: keeps what it is given, and adds nothing."""

    def __init__(self, cells: int = 0, orders: tuple[Fraction, ...] = ()) -> None:
        self.cells = cells
        self.orders = orders
        self.given: list[int] = []

    def release(self, exact: object, randomness: None) -> object:
        if self.cells:
            self.given += exact(0, self.cells, 1).tolist()
            return [0] * len(self.orders) if self.orders else 0
        self.given += exact
        return exact


def exact_vector(release: Release, held: Held) -> Vector:
    """Return the integers that a release hands to its mechanism, group by group."""
    mechanism = release.mechanism
    listening = _Listening(getattr(mechanism, "cells", 0), getattr(mechanism, "orders", ()))
    replace(release, mechanism=listening).run(held, None)
    return tuple(listening.given)


def vectors(release: Release, world: World, rows: int) -> Iterator[list[Vector]]:
    """For each table of the other units: what is handed over with each unit added to it.

    The first unit owns nothing, so the first vector is that of the table without it.
    """
    units = world.units()
    for base in world.bases(rows):
        yield [exact_vector(release, Held(world, (*base, unit))) for unit in units]
