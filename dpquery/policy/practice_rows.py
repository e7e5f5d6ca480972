"""Rows to practise on: made from the policy and its public tables, and from nothing else.

No private file is opened here, so that nobody's rows can be told by it. The rows are the same
each time, and no guess at the data: only names, types, bounds, keys and units are as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from math import ceil, floor
from typing import Any

import pyarrow as pa

from dpquery.core.types import (
    DAY,
    EPOCH,
    FIRST_INSTANT,
    INTEGER,
    Interval,
    Kind,
    Type,
    decimal_value,
    ordinal,
)
from dpquery.policy.model import (
    Column,
    Frame,
    LedgerSettings,
    Policy,
    PublicFacts,
    Table,
    Through,
)
from dpquery.policy.value_parsers import ascii_folded

UNITS = 1000
MOST_ROWS = 4
"""A unit has from 1 to so many rows, where it may have several."""
_NULLS = 20
"""One value of so many is NULL, where NULL is a group."""
_FIRST, _LAST = date(2024, 1, 1), date(2024, 12, 31)
_HALF = 2**32


def made_up(policy: Policy, public: PublicFacts) -> Policy:
    """Return a policy with rows of its own in place of private ones, and a ledger in memory."""
    private = {name: table for name, table in policy.tables.items() if not table.public}
    publics = [name for name, table in policy.tables.items() if table.public]
    frames = {
        name: Frame(_Rows(table, private, public, publics).table())
        for name, table in private.items()
    }
    tables = {
        name: table if table.public else _held(table, frames)
        for name, table in policy.tables.items()
    }
    return replace(policy, tables=tables, ledger=LedgerSettings(None))


def _held(table: Table, frames: Mapping[str, Frame]) -> Table:
    """Return a table, and those on its way, with the rows that were made."""
    way = table.through
    if way is not None:
        way = replace(way, table=_held(way.table, frames))
    return replace(table, source=frames[table.name], through=way)


class _Rows:
    """The rows of one table, each the row of a unit by its number."""

    def __init__(
        self,
        table: Table,
        private: Mapping[str, Table],
        public: PublicFacts,
        publics: Sequence[str],
    ) -> None:
        self._table, self._private = table, private
        self._public, self._publics = public, publics
        one = table.single or table.unit is None
        self._rows = [
            (unit, at)
            for unit in range(UNITS)
            for at in range(1 + unit % MOST_ROWS * (not one))
        ]
        """Of each row, whose it is, and which of theirs: alike in all tables."""

    def table(self) -> pa.Table:
        """Return all columns that the policy names, and those that say whose rows are."""
        found = {name: self._values(column) for name, column in self._table.held.items()}
        for name, type_ in self._identifiers().items():
            numbers = self._numbers(name)
            column = self._table.columns.get(name)
            declared = column.type if column else type_
            values = [_identifier(number, declared) for number in numbers]
            found[name] = pa.array(values, _arrow(declared))
        return pa.table(found)

    def _identifiers(self) -> dict[str, Type]:
        """Return the columns that name units, and keys by which others reach them."""
        table, found = self._table, dict[str, Type]()
        if table.through is not None:
            found[table.through.column] = table.through.type
        elif table.unit is not None:
            found |= dict(table.together) or {table.unit: table.unit_type or INTEGER}
        for way in _ways(self._private):
            if way.table.name == table.name:
                found.setdefault(way.key, way.type)
        return found

    def _numbers(self, name: str) -> list[int]:
        """Return what a column that names something names in each row."""
        table, way = self._table, self._table.through
        if way is not None and name == way.column:
            target = self._private[way.table.name]
            other = _Rows(target, self._private, self._public, self._publics)
            among = other._numbers(way.key)
            drawn = (self._chance(name, row) for row in range(len(self._rows)))
            return [among[one * len(among) // _HALF] for one, _ in drawn]
        units: set[str | None] = {name for name, _ in table.together} or {table.unit}
        if way is None and name in units:
            return [unit for unit, _ in self._rows]
        return [_place(*row) for row in self._rows]

    def _values(self, column: Column) -> pa.Array:
        type_ = replace(column.type, listed=False)
        known = column.keys or self._public_values(column)
        made = [self._value(column, type_, known, row) for row in range(len(self._rows))]
        if not column.type.listed:
            return pa.array(made, _arrow(type_))
        # A list has the values of the rows before it, from none to three.
        lists = [made[max(0, row - row % MOST_ROWS) : row] for row in range(len(made))]
        return pa.array(lists, pa.list_(_arrow(type_)))

    def _value(self, column: Column, type_: Type, known: tuple[Any, ...], row: int) -> object:
        """Return the value of a column in a row."""
        unit, _ = self._rows[row]
        of = unit if column.per_unit else row
        first, second = self._chance(column.name, of)
        if column.null_group and self._chance(f"{column.name} null", of)[0] % _NULLS == 0:
            return None
        if known:  # the first ones have more rows than the last
            return _as(known[min(first, second) * len(known) // _HALF], type_)
        match type_.kind:
            case Kind.BOOLEAN:
                return first % 3 == 0
            case Kind.TEXT:
                return f"{column.name} {_place(*self._rows[row]) % 20}"[: column.max_length]
            case Kind.INTEGER if column.bounds is None:
                return _place(*self._rows[row])  # tables with the same rows share it
        least, most, step = _range(column, type_)
        low, high = ceil(least / step), floor(most / step)
        place = low + (high - low + 1) * (first + second) // (2 * _HALF)
        return _at(place * step, type_)

    def _public_values(self, column: Column) -> tuple[Any, ...]:
        """Return what a public table has under the same name, so that rows find each other."""
        folded = ascii_folded(column.name)
        for table in self._publics if column.bounds is None else ():
            for name, type_ in self._public.types(table).items():
                if ascii_folded(name) == folded and type_.kind is column.type.kind:
                    return self._public.values(table, name) or ()
        return ()

    def _chance(self, of: str, row: int) -> tuple[int, int]:
        """Return two numbers below `_HALF`, as a hash spreads them: no noise is made of it."""
        named = f"{self._table.name}\n{of}\n{row}".encode()
        digest = blake2b(named, digest_size=8).digest()
        return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big")


def _place(unit: int, at: int) -> int:
    return unit * MOST_ROWS + at


def _ways(tables: Mapping[str, Table]) -> Iterator[Through]:
    return (one.through for table in tables.values() for one in table.way if one.through)


_ARROW: dict[Kind, pa.DataType] = {
    Kind.INTEGER: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    Kind.TIME: pa.time64("us"),
}


def _arrow(type_: Type) -> pa.DataType:
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.kind]


def _range(column: Column, type_: Type) -> tuple[Fraction, Fraction, Fraction]:
    """Return the ends of a column's values and their step; a small range without bounds."""
    step = Fraction(1, 100)
    if type_.kind is Kind.DECIMAL:
        step = Fraction(1, 10**type_.scale)
    elif type_.kind is not Kind.DOUBLE:
        step = Fraction(1)
    elif column.grid is not None:
        step = column.grid
    within = column.interval
    if column.bounds is None and type_.kind is not Kind.TIME:
        within = _usual(type_) & within
    low, high = within.low or Fraction(0), within.high or Fraction(0)
    if ceil(low / step) > floor(high / step):  # narrower than a step, and so not at 0
        return low, low, low
    return low, high, step


def _usual(type_: Type) -> Interval:
    """Return where values are of which the policy says nothing."""
    match type_.kind:
        case Kind.DATE:
            return Interval(Fraction(ordinal(_FIRST)), Fraction(ordinal(_LAST)))
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            first, last = (Fraction(ordinal(one) * DAY) for one in (_FIRST, _LAST))
            return Interval(first, last)
    return Interval(Fraction(0), Fraction(100))


def _at(place: Fraction, type_: Type) -> object:
    """Return the value at a place: days or microseconds of what is in the calendar."""
    match type_.kind:
        case Kind.DOUBLE:
            return float(place)
        case Kind.DECIMAL:
            return decimal_value(int(place * 10**type_.scale), type_.scale)
        case Kind.DATE:
            return EPOCH.date() + timedelta(days=int(place))
        case Kind.TIMESTAMP:
            return EPOCH + timedelta(microseconds=int(place))
        case Kind.TIMESTAMPTZ:
            return FIRST_INSTANT + timedelta(microseconds=int(place))
        case Kind.TIME:
            return (EPOCH + timedelta(microseconds=int(place))).time()
    return int(place)


def _as(key: object, type_: Type) -> object:
    """Return a key of the policy, or a value of a public table, as a value of a type."""
    match key:
        case int() | Fraction() | Decimal() if type_.numeric:
            return _at(Fraction(key), type_)
    return key


def _identifier(number: int, type_: Type) -> object:
    """Return a name of its own for each number."""
    match type_.kind:
        case Kind.TEXT:
            return f"{number}"
        case Kind.DECIMAL:
            return decimal_value(number % 10**type_.precision, type_.scale)
    return _at(Fraction(number), type_)
