"""Rows of one table as DuckDB's SQL: every name quoted, every value clamped.

Each private column is forced into its policy domain before any expression sees it: NULL stays
NULL, NaN becomes NULL, a zero loses its sign, the rest is clamped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from itertools import accumulate
from typing import Any

from dpquery.engine.duckdb.connection import quoted
from dpquery.engine.duckdb.schema import duckdb_name
from dpquery.engine.duckdb.values import (
    MOST_PARTS,
    Values,
    as_one,
    cast,
    constant,
    literal,
    parts_of,
    place_sql,
    settled,
)
from dpquery.ir import ColumnRef, Compare, Expr, Filter, Literal, Relation, TableScan
from dpquery.policy.model import Column, Table
from dpquery.rowfunctions.ranges import conjuncts
from dpquery.types import Kind

__all__ = ["Origin", "Place", "Rows", "clamped", "held_name", "kept_key"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a table's rows are read: from its files, or from columns kept in memory.

    What is kept is clamped, and rows that do not count are not among it: those without a unit,
    and those of other parts of the table than their unit's first.
    """

    sql: str
    """What stands after FROM."""
    held: bool

    def unit(self, table: Table) -> str:
        """Write the unit column."""
        return "u" if self.held else quoted(table.unit or "")

    def column(self, column: Column) -> str:
        """Write a column in its domain."""
        return held_name(column.name) if self.held else clamped(column)


def held_name(name: str) -> str:
    """Name a column that is kept: no name from a policy is also the unit's."""
    return quoted(f"c:{name}")


def kept_key(name: str) -> str:
    """Name what is kept of a text column for grouping: its listed values, as an enumeration."""
    return quoted(f"k:{name}")


@dataclass(frozen=True, slots=True)
class Place:
    """A private table, and where its rows are read."""

    table: Table
    origin: Origin

    @property
    def unit(self) -> str:
        """Write the unit column."""
        return self.origin.unit(self.table)


class Rows(Values):
    """Renders expressions over the rows of one table, as they are read."""

    def __init__(self, place: Place) -> None:
        self.table = place.table
        self.origin = place.origin

    def column(self, reference: ColumnRef) -> str:
        """Write a column in its domain."""
        return self.origin.column(self.table.columns[reference.name])

    def relation(self, relation: Relation) -> str:
        """Write FROM and WHERE; rows without a unit are dropped."""
        parts: list[Expr] = []
        while isinstance(relation, Filter):
            parts[:0] = conjuncts(relation.condition)
            relation = relation.source
        conditions = self._filters(parts)
        assert isinstance(relation, TableScan)  # noqa: S101 - the tree has no other relation
        if self.table.unit is not None and not self.origin.held:
            conditions[:0] = self.counted(relation)
        where = " WHERE " + " AND ".join(f"({c})" for c in conditions) if conditions else ""
        return f"{self.origin.sql}{where}"

    def counted(self, scan: TableScan) -> list[str]:
        """Write which rows of the files count: those of a unit, and of its first parts."""
        unit, part = quoted(self.table.unit or ""), scan.part
        owned = f"{unit} IS NOT NULL"
        if part is None:
            return [owned]
        place = f"coalesce({place_sql(self.value(part.expr), part)}, {len(part.values)})"
        source = f"FROM {self.origin.sql} WHERE {owned}"
        first = f"SELECT {unit}, min({place}) {source} GROUP BY {unit}"
        if scan.kept > 1:
            each = f"SELECT {unit} AS u, {place} AS p {source} GROUP BY {unit}, {place}"
            ranked = "row_number() OVER (PARTITION BY u ORDER BY p)"
            first = f"SELECT u, p FROM ({each}) QUALIFY {ranked} <= {scan.kept}"
        return [owned, f"({unit}, {place}) IN ({first})"]

    def _filters(self, parts: Sequence[Expr]) -> list[str]:
        """Write the parts of WHERE; beyond the first ones, as one."""
        written = [self._filter(part) for part in parts]
        few = sum(count <= MOST_PARTS for count in accumulate(map(parts_of, parts)))
        rest = " AND ".join(f"({c})" for c in written[few:])
        return [*written[:few], as_one(rest)] if rest else written

    def _filter(self, part: Expr) -> str:
        """Write one part of WHERE: on the raw column where the clamp cannot change its truth.

        For a literal strictly inside the bounds, a value and its clamped value stand on the
        same side of it, and a filter does not tell false from NULL. Then row groups can be
        skipped.
        """
        match part:
            case Compare(
                operator=operator, left=ColumnRef(name=name), right=Literal() as right
            ):
                column = self.table.columns[name]
                if self.origin.held or not _inside_bounds(right, column):
                    return self.value(part)
                raw = f"{quoted(name)} {operator} {literal(right)}"
                number = f" AND NOT {is_nan(name)}" if column.type.kind is Kind.DOUBLE else ""
                return raw + number
        return self.value(part)


def _inside_bounds(right: Literal, column: Column) -> bool:
    if column.bounds is None or right.type.kind is not column.type.kind:
        return False
    trio: list[Any] = [column.bounds.low, right.value, column.bounds.high]
    if column.type.kind is Kind.DOUBLE:
        trio = [float(value) for value in trio]  # two literals can be one double
    low, value, high = trio
    return bool(low < value < high)


def clamped(column: Column) -> str:
    """Write a column forced into its domain: NULL and NaN first, then the bounds.

    `least` and `greatest` would turn NULL into a bound, so it is CASE.
    """
    name = quoted(column.name)
    match column.type.kind:
        case Kind.TEXT:
            return f"left({name}, {column.max_length})"
        case Kind.BOOLEAN:
            return name
        case Kind.DOUBLE:
            raw = cast(name, "DOUBLE")
            nan, inside = f"WHEN {is_nan(column.name)} THEN NULL ", settled(raw)
            if column.bounds is None:
                return f"(CASE {nan}ELSE {inside} END)"
        case _:
            raw, nan = cast(name, duckdb_name(column.type)), ""
            inside = raw
    bounds = column.bounds
    if bounds is None and column.type.kind is not Kind.DECIMAL:
        return raw
    # A decimal in a file can be wider than its type says; the plan relies on its type.
    low, high = (
        _constant(end, column)
        for end in ((bounds.low, bounds.high) if bounds else _ends(column))
    )
    outside = f"WHEN {raw} < {low} THEN {low} WHEN {raw} > {high} THEN {high}"
    return f"(CASE {nan}{outside} ELSE {inside} END)"


def _ends(column: Column) -> tuple[Fraction, Fraction]:
    domain = column.interval
    assert domain.low is not None  # noqa: S101 - decimals have a least and a greatest value
    assert domain.high is not None  # noqa: S101
    return domain.low, domain.high


def is_nan(name: str) -> str:
    """Write whether a column of doubles holds NaN, where DuckDB cannot think that it knows.

    The least and greatest value in a Parquet footer pass over NaN, and DuckDB takes from them
    that no row is NaN: `isnan` would be false for all. It concludes nothing through TRY.
    """
    return f"isnan(TRY({cast(quoted(name), 'DOUBLE')}))"


def _constant(value: int | Fraction | date, column: Column) -> str:
    return constant(value, column.type, column.interval)
