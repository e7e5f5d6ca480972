"""Whole scans as SQL: rows, groups, weights, measures. Every result is an integer.

The rows of a scan are one subquery with engine-made columns: u the unit, g0, g1, ... the keys,
v0, ... the codes, b0, ... the conditions. What is summed over them is summed once per unit
where units are weighted, because a unit's weight depends on how many rows it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dpquery.engine.duckdb.codes import code_sql, key_sql
from dpquery.engine.duckdb.relations import Nested
from dpquery.engine.duckdb.render import Place, Rows
from dpquery.engine.duckdb.values import Values, constant
from dpquery.ir import (
    Code,
    CountRows,
    CountUnits,
    Expr,
    Histogram,
    Key,
    Measure,
    Scalar,
    Scan,
    SumCodes,
    Weight,
    columns_read,
)
from dpquery.policy.model import Table
from dpquery.relations import only_table
from dpquery.types import INT64, UNKNOWN, Interval, Kind, ordinal

__all__ = ["ScanSQL"]


@dataclass(frozen=True)
class ScanSQL:
    """Writes the queries of one scan over what stands after FROM for its tables' rows."""

    scan: Scan
    places: Mapping[str, Place]
    """Each private table that the scan reads, by name."""
    publics: Mapping[str, str]
    """What the engine calls each public table."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The private tables that the scan reads, each once."""
        return tuple(place.table for place in self.places.values())

    @property
    def summed(self) -> tuple[Measure, ...]:
        """The measures that one query answers; histograms are asked for on their own."""
        return tuple(m for m in self.scan.measures if not isinstance(m, Histogram))

    def sums(self) -> str:
        """Write the query that gives one row per group that has rows: its number, its sums."""
        if not self._weighted:
            sums = ", ".join(self._over_rows(measure) for measure in self.summed)
            return self._grouped(f"SELECT {self._list(sums)} FROM ({self.rows}) {self._by()}")
        if not self.scan.keys:
            return f"SELECT 0, {self._over_units()} FROM ({self._per_unit()})"
        return self._weighted_groups()

    def held(self, measure: Histogram) -> str:
        """Write the rows that a histogram counts: group, code, weight."""
        code, cell = self._code(measure.code), self._cell()
        where = self._where(f"{code} IS NOT NULL", self._condition(measure.condition))
        if measure.weight.plain:
            rows = f"SELECT *, 1 AS w FROM ({self.rows})"
        else:
            counted = f"SELECT u, count(*) AS n FROM ({self.rows}) GROUP BY u"
            weighted = f"SELECT r.*, {_weight('n', measure.weight)} AS w"
            rows = f"{weighted} FROM ({self.rows}) AS r JOIN ({counted}) USING (u)"
        return f"SELECT {cell} AS cell, {code} AS v, w FROM ({rows}) {self._joins}{where}"

    def ranges(
        self, measure: Histogram, source: str, cell: int | None, span: tuple[int, int, int]
    ) -> str:
        """Write the query that adds up weights by ranges of codes, for one group or for all.

        The width is a power of two. Weights of all rows together fit 64 bits: the plan saw to
        it.
        """
        low, high, width = span
        limits = [f"v >= {low}", f"v < {high}"] + ([] if cell is None else [f"cell = {cell}"])
        total = "count(*)" if measure.weight.plain else "CAST(sum(w) AS BIGINT)"
        place = f"(v - {low}) >> {width.bit_length() - 1}"
        return (
            f"SELECT cell, {place} AS b, {total} AS t FROM {source} AS r "
            f"WHERE {' AND '.join(limits)} GROUP BY ALL"
        )

    # What follows are the parts.

    @property
    def _weighted(self) -> bool:
        return any(not measure.weight.plain for measure in self.summed)

    @cached_property
    def _codes(self) -> list[Code]:
        codes = (m.code for m in self.scan.measures if isinstance(m, SumCodes | Histogram))
        return list(dict.fromkeys(codes))

    @cached_property
    def _conditions(self) -> list[Expr]:
        found = (m.condition for m in self.scan.measures if m.condition is not None)
        return list(dict.fromkeys(found))

    @cached_property
    def rows(self) -> str:
        """Write the rows: after WHERE, with a unit, in engine-made columns."""
        rows, unit, source = self._opened()
        columns = ["1 AS one"]
        if self.scan.contribution.unit is not None:
            columns = [f"{unit} AS u"]
        columns += [f"{key_sql(rows, key)} AS g{i}" for i, key in enumerate(self.scan.keys)]
        columns += [f"{code_sql(rows, code)} AS v{i}" for i, code in enumerate(self._codes)]
        columns += [f"{rows.value(c)} AS b{i}" for i, c in enumerate(self._conditions)]
        return f"SELECT {', '.join(columns)} FROM {source}"

    def _opened(self) -> tuple[Values, str, str]:
        """Give what writes expressions over the rows, their unit, and what follows FROM."""
        relation = self.scan.relation
        table = only_table(relation)
        if table is None:
            nested = Nested(self.places, self.publics, columns_read(self.scan))
            return nested, "u", nested.source(relation)
        place = self.places[table.table]
        rows = Rows(place)
        return rows, place.unit, rows.relation(relation)

    def _code(self, code: Code) -> str:
        return f"v{self._codes.index(code)}"

    def _condition(self, condition: Expr | None) -> str | None:
        return None if condition is None else f"b{self._conditions.index(condition)}"

    def _over_rows(self, measure: Measure) -> str:
        """Write one measure as an aggregate of rows, unweighted."""
        condition = self._condition(measure.condition)
        match measure:
            case CountRows():
                return (
                    "count(*)"
                    if condition is None
                    else f"count(CASE WHEN {condition} THEN 1 END)"
                )
            case SumCodes(code=code, degree=degree):
                value = self._power(code, degree)
                if condition is not None:
                    value = f"CASE WHEN {condition} THEN {value} END"
                return f"coalesce(sum({value}), 0)"
            case _:
                unit = "u" if condition is None else f"CASE WHEN {condition} THEN u END"
                single = self.scan.contribution.single
                return f"count({unit})" if single else f"count(DISTINCT {unit})"

    def _power(self, code: Code, degree: int) -> str:
        """Write code^degree in an integer that holds it."""
        name = self._code(code)
        if not Interval.point(int(code.size**degree)).within(*INT64):
            name = f"CAST({name} AS HUGEINT)"
        return " * ".join([name] * degree)

    def _list(self, sums: str) -> str:
        keys = "".join(f"g{i}, " for i in range(len(self.scan.keys)))
        return f"{keys}{sums}" if keys else f"0, {sums}"

    def _by(self, *more: str) -> str:
        names = [*more, *(f"g{i}" for i in range(len(self.scan.keys)))]
        return f"GROUP BY {', '.join(names)}" if names else ""

    def _grouped(self, sums: str) -> str:
        """Number the groups; those that are not declared are dropped here."""
        if not self.scan.keys:
            return sums
        names = ", ".join(self._names)
        keys = ", ".join(f"g{i}" for i in range(len(self.scan.keys)))
        source = f"({sums}) AS t({keys}, {names})"
        return f"SELECT {self._cell()}, {names} FROM {source} {self._joins}{self._where()}"

    def _per_unit(self) -> str:
        """Write each unit's sums, per group where there are groups, and its rows there."""
        sums = ", ".join(f"{self._of_unit(m)} AS m{i}" for i, m in enumerate(self.summed))
        keys = "".join(f"g{i}, " for i in range(len(self.scan.keys)))
        return f"SELECT u, {keys}count(*) AS n, {sums} FROM ({self.rows}) {self._by('u')}"

    def _of_unit(self, measure: Measure) -> str:
        """Write a measure of one unit's rows; a unit is in a group when one row is."""
        if isinstance(measure, CountUnits):
            return self._over_rows(CountRows(measure.weight, measure.condition))
        return self._over_rows(measure)

    def _over_units(self) -> str:
        return ", ".join(self._unit_sum(i, m) for i, m in enumerate(self.summed))

    def _unit_sum(self, index: int, measure: Measure) -> str:
        """Add up what units have, each by its weight; codes need the widest integers."""
        if isinstance(measure, CountUnits):
            weight = _weight(f"k{index}", measure.weight)
            return f"coalesce(sum(CASE WHEN m{index} > 0 THEN {weight} ELSE 0 END), 0)"
        amount = f"CAST(m{index} AS HUGEINT)" if isinstance(measure, SumCodes) else f"m{index}"
        return f"coalesce(sum({amount} * {_weight('n', measure.weight)}), 0)"

    def _weighted_groups(self) -> str:
        """Count rows per unit over all groups, declared or not; then add up by group."""
        names = ", ".join([f"{self._cell()} AS cell", *self._names])
        declared = f"SELECT u, {names} FROM parts {self._joins}{self._where()}"
        sums = ", ".join(self._unit_sum(i, m) for i, m in enumerate(self.summed))
        return (
            f"WITH parts AS MATERIALIZED ({self._per_unit()}), "
            "totals AS (SELECT u, CAST(sum(n) AS BIGINT) AS n FROM parts GROUP BY u), "
            f"declared AS MATERIALIZED ({declared}), spread AS ({self._spread()}) "
            f"SELECT cell, {sums} FROM declared JOIN totals USING (u) JOIN spread USING (u) "
            "GROUP BY cell"
        )

    def _spread(self) -> str:
        """Count each unit's groups, for measures that count units."""
        counted = (i for i, m in enumerate(self.summed) if isinstance(m, CountUnits))
        groups = "".join(f", count(CASE WHEN m{i} > 0 THEN 1 END) AS k{i}" for i in counted)
        return f"SELECT u{groups} FROM declared GROUP BY u"

    @property
    def _names(self) -> list[str]:
        return [f"m{i}" for i in range(len(self.summed))]

    def _where(self, *more: str | None) -> str:
        conditions = [part for part in more if part is not None]
        conditions += [limits for key in enumerate(self.scan.keys) for limits in _limits(*key)]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    @property
    def _joins(self) -> str:
        """Write the joins that number keys which are listed one by one."""
        return " ".join(
            _join(i, key) for i, key in enumerate(self.scan.keys) if not _dense(key)
        )

    def _cell(self) -> str:
        """Write the number of a row's group: the last key runs fastest."""
        text = "0"
        for index, key in enumerate(self.scan.keys):
            place = f"(g{index} - {_place(key.values[0])})" if _dense(key) else f"l{index}.i"
            text = f"({text} * {len(key.values)} + {place})" if index else place
        return f"CAST({text} AS BIGINT)"


def _weight(rows: str, weight: Weight) -> str:
    """Write floor(scale * min(1, limit / rows))."""
    if weight.plain:
        return "1"
    shared = f"{weight.total} // {rows}"
    return f"CASE WHEN {rows} <= {weight.limit} THEN {weight.scale} ELSE {shared} END"


def _dense(key: Key) -> bool:
    """Whether the values are a run of integers or days: then a number needs no list."""
    if key.expr.type.kind not in {Kind.INTEGER, Kind.DATE}:
        return False
    if None in key.values:
        return False
    places = [_place(value) for value in key.values]
    return places == list(range(places[0], places[0] + len(places)))


def _place(value: object) -> int:
    return ordinal(value) if not isinstance(value, int) else value  # type: ignore[arg-type]


def _limits(index: int, key: Key) -> Iterable[str]:
    if _dense(key):
        yield f"g{index} BETWEEN {_place(key.values[0])} AND {_place(key.values[-1])}"


def _join(index: int, key: Key) -> str:
    listed = ", ".join(f"({i}, {_written(key, value)})" for i, value in enumerate(key.values))
    same = "IS NOT DISTINCT FROM" if None in key.values else "="
    return f"JOIN (VALUES {listed}) AS l{index}(i, v) ON g{index} {same} l{index}.v"


def _written(key: Key, value: Scalar | None) -> str:
    """Write a key's value as it is compared; it may be one that the column never has."""
    if value is None:
        return "NULL"
    type_ = key.expr.type
    if type_.kind is Kind.DATE:
        return str(_place(value))
    domain = Interval.point(value) if isinstance(value, int | Fraction) else UNKNOWN
    return constant(value, type_, domain)
