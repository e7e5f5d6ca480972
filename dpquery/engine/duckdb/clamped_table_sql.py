"""Rows of one table as DuckDB's SQL: every name quoted, every value clamped.

Each private column is forced into its policy domain before any expression sees it: NULL stays
NULL, NaN becomes NULL, a zero loses its sign, the rest is clamped.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from dpquery.core.types import Kind
from dpquery.engine.duckdb.expr_sql import (
    MOST_PARTS,
    Values,
    as_one,
    cast,
    constant,
    parts_of,
    place_sql,
    settled,
)
from dpquery.engine.duckdb.quoting import duckdb_name, quoted
from dpquery.engine.duckdb.sources.source_views import view_name
from dpquery.engine.duckdb.sources.stored_columns_sql import ELEMENT, element_of
from dpquery.ir.expr import ColumnRef, Compare, Expr, Literal
from dpquery.ir.relations import Filter, Relation, TableScan
from dpquery.policy.model import Column, Table
from dpquery.rowfunctions.analysis.conditions import conjuncts
from dpquery.rowfunctions.base import cut_sql
from dpquery.rowfunctions.lists import MOST_VALUES


def held_name(name: str) -> str:
    """Name a column that is kept: no name from a policy is also the unit's."""
    return quoted(f"c:{name}")


def kept_key(name: str) -> str:
    """Name what is kept of a text column for grouping: its listed values, as an enumeration."""
    return quoted(f"k:{name}")


UNIT, COUNTED = "u:", "n:"
"""What a scan wants kept beside columns: the unit of each row as it is, or what counts by it: a
number of the unit in its place, and how many rows the unit has in the table."""


@dataclass(frozen=True)
class Place(Values):
    """A private table, and where its rows are read: from files, or from columns in memory.

    What is held in memory is clamped, and rows that do not count are not among it: those
    without a unit, and those of other parts of the table than their unit's first.
    """

    table: Table
    source: str
    """What stands after FROM."""
    held: bool = False
    owner: str = "u"
    """What says whose a row is that is held: u the unit, or i its number, beside which stands
    how many rows the unit has, n; or 1, where each unit has one row and none is named."""

    @classmethod
    def in_files(cls, table: Table) -> Place:
        """Return where a table's rows are read if nothing is kept of them."""
        return cls(table, quoted(view_name(table)))

    @property
    def unit(self) -> str:
        """Write the unit column, or what stands in its place."""
        return self.owner if self.held else quoted(self.table.owner or "")

    def held_in(self, name: str, names: Set[str]) -> Place:
        """Return the place where some of it is held for a scan."""
        owner = "u" if UNIT in names else "i" if COUNTED in names else "1"
        return Place(self.table, name, held=True, owner=owner)

    @property
    def near(self) -> bool:
        """Whether the unit stands beside the rows."""
        return self.held or self.table.through is None

    def column(self, reference: ColumnRef) -> str:
        """Write a column in its domain."""
        column = self.table.held[reference.name]
        return held_name(column.name) if self.held else clamped(column)

    def relation(self, relation: Relation) -> str:
        """Write FROM and WHERE; rows without a unit are dropped."""
        parts: list[Expr] = []
        while isinstance(relation, Filter):
            parts[:0] = conjuncts(relation.condition)
            relation = relation.source
        conditions = self._filters(parts)
        assert isinstance(relation, TableScan)  # noqa: S101 - the tree has no other relation
        if self.table.unit is not None and not self.held:
            conditions[:0] = self.counted(relation)
        where = " WHERE " + " AND ".join(f"({c})" for c in conditions) if conditions else ""
        return f"{self.source}{where}"

    def counted(self, scan: TableScan) -> list[str]:
        """Write which rows of the files count: those of a unit, and of its first parts."""
        unit, part = quoted(self.table.owner or ""), scan.part
        owned = f"{unit} IS NOT NULL"
        if part is None:
            return [owned]
        place = f"coalesce({place_sql(self.value(part.expr), part)}, {len(part.values)})"
        source = f"FROM {self.source} WHERE {owned}"
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
                if self.held or not _inside_bounds(right, column):
                    return self.value(part)
                raw = f"{quoted(name)} {operator} {self.value(right)}"
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
    name, kind = quoted(column.name), column.type.kind
    if column.type.listed:
        inner = clamped(element_of(column))
        return f"list_transform({name}[1:{MOST_VALUES}], lambda {quoted(ELEMENT)}: {inner})"
    if kind is Kind.TEXT:
        return f"left({name}, {column.max_length})"
    if kind is Kind.BOOLEAN:
        return name
    raw = cast(name, duckdb_name(column.type))
    nan, inside = "", raw
    if kind is Kind.DOUBLE:
        nan, inside = f"WHEN {is_nan(column.name)} THEN NULL ", settled(raw)
    if column.bounds is None and kind is not Kind.DECIMAL:
        return f"(CASE {nan}ELSE {inside} END)" if nan else raw
    # A decimal in a file can be wider than its type says; the plan relies on its type.
    ends = column.bounds or column.interval
    low, high = (constant(end, column.type, column.interval) for end in (ends.low, ends.high))
    return cut_sql(raw, low, high, nan, inside)


def is_nan(name: str) -> str:
    """Write whether a column of doubles holds NaN, where DuckDB cannot think that it knows.

    The least and greatest value in a Parquet footer pass over NaN, and DuckDB takes from them
    that no row is NaN: `isnan` would be false for all. It concludes nothing through TRY.
    """
    return f"isnan(TRY({cast(quoted(name), 'DOUBLE')}))"
