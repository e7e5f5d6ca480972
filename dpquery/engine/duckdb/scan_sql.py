"""Whole scans as SQL: rows, groups, weights, measures. Every result is an integer.

The rows of a scan are one subquery with engine-made columns: u the unit, g0, g1, ... the keys,
v0, ... the codes, b0, ... the conditions. What is summed over them is summed once per unit
where units are weighted, because a unit's weight depends on how many rows it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

from dpquery.core.types import INT64, UNKNOWN, Interval, Kind, ordinal
from dpquery.engine.duckdb.column_sql import (
    Place,
    Rows,
    code_sql,
    kept_values,
    key_sql,
    value_sql,
)
from dpquery.engine.duckdb.expr_sql import Values, constant
from dpquery.engine.duckdb.relation_sql import (
    Nested,
    chosen_sql,
    clamped_sql,
    counts_sql,
    nameable_sql,
    pair_sum_sql,
    row_weight_sql,
    total_sql,
    weight_sql,
    weighted_sql,
    with_table_sql,
)
from dpquery.ir.expr import Code, Expr, Scalar
from dpquery.ir.measures import (
    Candidates,
    CountRows,
    CountUnits,
    CountValues,
    Histogram,
    Measure,
    Requested,
    SumCodes,
    SumProducts,
    TableWeight,
    UnitTotals,
    Weight,
)
from dpquery.ir.query import Key, Scan, columns_read
from dpquery.ir.relations import only_table, tables_of
from dpquery.policy.model import Table

# The numbers of groups in SQL: the place of a row's keys among those that are declared.


@dataclass(frozen=True, slots=True)
class NumberedKey:
    """A key of a scan, in a column g0, g1, ... of the engine's, and how values are numbered."""

    index: int
    key: Key
    kept: Sequence[Scalar | None] | None
    """The values of the enumeration that the column is of, where it is one."""

    @property
    def place(self) -> str:
        """Write where a value stands: from 0 on in a run of integers, or as it is listed."""
        run = self._run
        if run is not None:
            number = f"({self._text} - {run[0]})"
            return f"coalesce({number}, {len(run)})" if self._missing else number
        listed = f"l{self.index}.i"
        rest = str(len(self.key.values) - 1)
        if self._alone:
            return rest
        return f"coalesce({listed}, {rest})" if self.key.rest else listed

    @property
    def limits(self) -> str | None:
        """Write what keeps to a run; to all of an enumeration, what is cheap for each row."""
        run = self._run
        if run is None:
            return None
        if self.kept is not None and len(run) == len(self.kept):
            return f"g{self.index} IS NOT NULL"
        inside = f"{self._text} BETWEEN {run[0]} AND {run[-1]}"
        return f"({inside} OR g{self.index} IS NULL)" if self._missing else inside

    @property
    def join(self) -> str | None:
        """Write the join that numbers values which are listed one by one."""
        if self._run is not None or self._alone:
            return None
        known = self._integers
        values = [*map(self._written, self._listed)]
        if known is not None:
            values = [*map(str, known), *["NULL"] * self._missing]
        listed = ", ".join(f"({i}, {value})" for i, value in enumerate(values))
        listed = listed or "the groups found"  # in EXPLAIN alone: a scan without any is not run
        same = "IS NOT DISTINCT FROM" if self._missing else "="
        name, kind = f"l{self.index}", "LEFT JOIN" if self.key.rest else "JOIN"
        return f"{kind} (VALUES {listed}) AS {name}(i, v) ON {self._text} {same} {name}.v"

    @property
    def _alone(self) -> bool:
        """Return whether one group holds all rows: then nothing has to be looked up."""
        return self.key.rest and len(self.key.values) == 1

    @property
    def _listed(self) -> Sequence[Scalar | None]:
        """Return the values that are groups of their own."""
        return self.key.values[:-1] if self.key.rest else self.key.values

    @property
    def _missing(self) -> bool:
        """Return whether NULL is a group: the last one, and no value of an enumeration."""
        return self.kept is None and None in self._listed

    @property
    def _text(self) -> str:
        """Write a value as it is compared: of an enumeration, as its number there."""
        name = f"g{self.index}"
        return name if self.kept is None else f"CAST(enum_code({name}) AS BIGINT)"

    @property
    def _integers(self) -> list[int] | None:
        """Return the values as integers, where they are compared as such: but for NULL."""
        if self.kept is not None:
            return [self.kept.index(value) for value in self._listed]
        if self.key.expr.type.kind not in {Kind.INTEGER, Kind.DATE}:
            return None
        return [_place(value) for value in self._listed if value is not None]

    @property
    def _run(self) -> range | None:
        """Return the values as a run of integers or days: then a number needs no list."""
        places = self._integers
        if (
            self.key.rest
            or not places
            or places != list(range(places[0], places[0] + len(places)))
        ):
            return None
        return range(places[0], places[-1] + 1)

    def _written(self, value: Scalar | None) -> str:
        """Write a value as it is compared; it may be one that the column never has."""
        if value is None:
            return "NULL"
        type_ = self.key.expr.type
        if type_.kind is Kind.DATE:
            return str(_place(value))
        domain = Interval.point(value) if isinstance(value, int | Fraction) else UNKNOWN
        return constant(value, type_, domain)


def _place(value: object) -> int:
    return ordinal(value) if not isinstance(value, int) else value  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Grouping:
    """The keys of a scan; the last one runs fastest."""

    keys: tuple[NumberedKey, ...]

    @property
    def joins(self) -> str:
        """Write the joins that number keys which are listed one by one."""
        return " ".join(key.join for key in self.keys if key.join is not None)

    @property
    def limits(self) -> list[str]:
        """Write what keeps to the declared keys, where no join does."""
        return [key.limits for key in self.keys if key.limits is not None]

    @property
    def cell(self) -> str:
        """Write the number of a row's group."""
        text = "0"
        for number, key in enumerate(self.keys):
            text = f"({text} * {len(key.key.values)} + {key.place})" if number else key.place
        return f"CAST({text} AS BIGINT)"


PLAIN = Weight()


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
        return tuple(m for m in self.scan.measures if not isinstance(m, Requested))

    def queries(self) -> list[tuple[tuple[Measure, ...], str]]:
        """Write the queries for the summed measures, each with those that it answers.

        A query gives one row per group that has rows: its number, its sums.
        """
        found: list[tuple[tuple[Measure, ...], str]] = []
        if self._of_rows:
            found.append((self._of_rows, self._sums()))
        if self._of_pairs:
            found.append((self._of_pairs, self._over_pairs()))
        found += [((m,), self._different(m)) for m in self.summed if isinstance(m, CountValues)]
        return found

    def whole(self) -> list[str]:
        """Write the queries that are run as they are; histograms are asked for in ranges."""
        found = [m for m in self.scan.measures if isinstance(m, Candidates)]
        return [*(query for _, query in self.queries()), *map(self.candidates, found)]

    def candidates(self, measure: Candidates) -> str:
        """Write how many units have each value: its value x, and their number n."""
        where = self._where(self._condition(measure.condition), *nameable_sql(measure.value))
        rows = f"SELECT u, x FROM ({self._told(measure, where)}) GROUP BY u, x"
        if self.scan.contribution.unit is None:
            rows = self._told(measure, where)
        elif self._several:
            rows = chosen_sql(rows, measure.weight.limit, "x")
        return f"SELECT x, count(*) AS n FROM ({rows}) GROUP BY x"

    def held(self, measure: Histogram) -> str:
        """Write the rows that a histogram counts: group, code, and weight if they have one."""
        code, cell = self._code(measure.code), self._groups.cell
        where = self._where(f"{code} IS NOT NULL", self._condition(measure.condition))
        rows, weight = self.rows, ""
        if not measure.weight.plain:
            rows, weight = weighted_sql(rows, self.table_rows, measure.weight), ", w"
        source = f"({rows}) {self._groups.joins}"
        return f"SELECT {cell} AS cell, {code} AS v{weight} FROM {source}{where}"

    def ranges(
        self, measure: Histogram, source: str, cell: int | None, span: tuple[int, int, int]
    ) -> str:
        """Write the query that adds up weights by ranges of codes, for one group or for all.

        The width is a power of two.
        """
        low, high, width = span
        limits = [f"v >= {low}", f"v < {high}"] + ([] if cell is None else [f"cell = {cell}"])
        place = f"(v - {low}) >> {width.bit_length() - 1}"
        return (
            f"SELECT cell, CAST({place} AS BIGINT) AS b, {total_sql(measure)} AS t "
            f"FROM {source} AS r "
            f"WHERE {' AND '.join(limits)} GROUP BY ALL"
        )

    def blocks(
        self,
        measure: Histogram,
        source: str,
        wanted: Sequence[tuple[int, int]],
        shape: tuple[int, int],
    ) -> str:
        """Write the query that adds up weights by ranges, of all codes of blocks of groups.

        A block has a power of two of codes, and block k starts with code k times that; `wanted`
        has pairs of a group and a block. Ranges are numbered from code 0 on.
        """
        block, width = (size.bit_length() - 1 for size in shape)
        listed = ", ".join(map(str, wanted))
        return (
            f"SELECT cell, v >> {width} AS b, {total_sql(measure)} AS t FROM {source} AS r "
            f"JOIN (VALUES {listed}) AS k(g, p) ON cell = g AND v >> {block} = p GROUP BY ALL"
        )

    # What follows are the parts.

    @cached_property
    def _several(self) -> bool:
        """Return whether a unit may have several rows."""
        return self.scan.contribution.unit is not None and not self.scan.contribution.single

    @cached_property
    def _of_pairs(self) -> tuple[Measure, ...]:
        """The measures that are added up over pairs of a unit and a group."""
        if not self.scan.keys or not self._several:
            return ()
        return tuple(m for m in self.summed if isinstance(m, CountUnits | UnitTotals))

    @cached_property
    def _of_rows(self) -> tuple[Measure, ...]:
        apart = self._of_pairs
        return tuple(m for m in self.summed if m not in apart and type(m) is not CountValues)

    @cached_property
    def _weights(self) -> list[Weight]:
        """The weights that rows have, each once."""
        found = (m.weight for m in self._of_rows if not m.weight.plain)
        return list(dict.fromkeys(found))

    def _sums(self) -> str:
        """Write the sums over rows."""
        clamped = self._several and any(isinstance(m, UnitTotals) for m in self._of_rows)
        if not self.scan.keys and (self._weights or clamped):
            return f"SELECT 0, {self._over_units()} FROM ({self._per_unit()})"
        if self._weights:
            return self._weighted_groups()
        sums = ", ".join(self._over_rows(measure) for measure in self._of_rows)
        return self._grouped(f"SELECT {self._list(sums)} FROM ({self.rows}) {self._by()}")

    @cached_property
    def codes(self) -> list[Code]:
        """The codes that rows have, each once."""
        return list(dict.fromkeys(c for measure in self.scan.measures for c in measure.codes))

    @cached_property
    def conditions(self) -> list[Expr]:
        """The conditions of measures, each once."""
        found = (m.condition for m in self.scan.measures if m.condition is not None)
        return list(dict.fromkeys(found))

    @cached_property
    def values(self) -> list[Expr]:
        """The expressions whose values are told apart, each once: they stand in x0, x1, ..."""
        return list(dict.fromkeys(v for measure in self.scan.measures for v in measure.values))

    @cached_property
    def rows(self) -> str:
        """Write the rows: after WHERE, with a unit, in engine-made columns."""
        rows, unit, source = self._opened()
        columns = ["1 AS one"]
        if self.scan.contribution.unit is not None:
            columns = [f"{unit} AS u"]
        columns += [f"{key_sql(rows, key)} AS g{i}" for i, key in enumerate(self.scan.keys)]
        columns += [f"{code_sql(rows, code)} AS v{i}" for i, code in enumerate(self.codes)]
        columns += [f"{rows.value(c)} AS b{i}" for i, c in enumerate(self.conditions)]
        columns += [f"{value_sql(rows, x)} AS x{i}" for i, x in enumerate(self.values)]
        return f"SELECT {', '.join(columns)} FROM {source}"

    @cached_property
    def by_table(self) -> bool:
        """Return whether weights count all rows that a unit has in the table."""
        return any(isinstance(measure.weight, TableWeight) for measure in self.scan.measures)

    @cached_property
    def table_rows(self) -> str:
        """Write the units of all rows of the table, before WHERE."""
        table = tables_of(self.scan.relation)[0]
        place = self.places[table.table]
        return f"SELECT {place.unit} AS u FROM {Rows(place).relation(table)}"

    def _opened(self) -> tuple[Values, str, str]:
        """Return what writes expressions over the rows, their unit, and what follows FROM."""
        relation = self.scan.relation
        table = only_table(relation)
        if table is None:
            nested = Nested(self.places, self.publics, columns_read(self.scan))
            return nested, "u", nested.source(relation)
        place = self.places[table.table]
        rows = Rows(place)
        return rows, place.unit, rows.relation(relation)

    def _code(self, code: Code) -> str:
        return f"v{self.codes.index(code)}"

    def _condition(self, condition: Expr | None) -> str | None:
        return None if condition is None else f"b{self.conditions.index(condition)}"

    def _over_rows(self, measure: Measure) -> str:
        """Write one measure as an aggregate of rows."""
        condition = self._condition(measure.condition)
        match measure:
            case CountRows(weight=weight):
                return self._added("1", condition, weight)
            case SumCodes(weight=weight) | SumProducts(weight=weight):
                return self._added(self._product(measure, weight), condition, weight)
            case UnitTotals():
                value = clamped_sql(self._value(measure.code), measure)
                return self._added(value, condition, measure.weight)
            case _:
                unit = "u" if condition is None else f"CASE WHEN {condition} THEN u END"
                single = self.scan.contribution.single
                return f"count({unit})" if single else f"count(DISTINCT {unit})"

    def _added(self, value: str, condition: str | None, weight: Weight) -> str:
        """Write a sum over rows, each with its weight."""
        if weight.plain and value == "1":
            met = "*" if condition is None else f"CASE WHEN {condition} THEN 1 END"
            return f"count({met})"
        if not weight.plain:
            name = f"w{self._weights.index(weight)}"
            value = name if value == "1" else f"{name} * {value}"
        if condition is not None:
            value = f"CASE WHEN {condition} THEN {value} END"
        return f"coalesce(sum({value}), 0)"

    def _value(self, code: Code | None) -> str:
        return "1" if code is None else self._code(code)

    def _product(self, measure: SumCodes | SumProducts, weight: Weight) -> str:
        """Write the product of codes in an integer that holds it, and it times a weight."""
        names = [self._code(code) for code in measure.factors]
        # A constant's code is 0 alone, but the weight is multiplied before it is.
        largest = prod(max(code.size, 1) for code in measure.factors)
        if not Interval.point(largest * weight.scale).within(*INT64):
            names = [f"CAST({name} AS HUGEINT)" for name in names]
        return " * ".join(names)

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
        names = ", ".join(f"m{i}" for i in range(len(self._of_rows)))
        keys = ", ".join(f"g{i}" for i in range(len(self.scan.keys)))
        source = f"({sums}) AS t({keys}, {names})"
        joins, where = self._groups.joins, self._where()
        return f"SELECT {self._groups.cell}, {names} FROM {source} {joins}{where}"

    def _weighted_groups(self) -> str:
        """Count rows per unit over all groups, declared or not; then weigh each row.

        The rows of one table are read twice, which costs less than keeping them.
        """
        cheap = only_table(self.scan.relation) is not None
        first = "" if cheap else f"WITH r AS MATERIALIZED ({self.rows}) "
        rows = f"({self.rows})" if cheap else "r"
        weights = ", ".join(f"{row_weight_sql(w)} AS w{i}" for i, w in enumerate(self._weights))
        counted = counts_sql(rows, self.table_rows, self._weights)
        sums = ", ".join(self._over_rows(measure) for measure in self._of_rows)
        source = f"{rows} JOIN (SELECT u, {weights} FROM ({counted})) USING (u)"
        return first + self._grouped(f"SELECT {self._list(sums)} FROM {source} {self._by()}")

    def _per_unit(self) -> str:
        """Write each unit's sums, its rows, and all of its rows in the table if they matter."""
        sums = ", ".join(f"{self._of_unit(m)} AS m{i}" for i, m in enumerate(self._of_rows))
        own = f"SELECT u, count(*) AS n, {sums} FROM ({self.rows}) GROUP BY u"
        return with_table_sql(own, self.table_rows) if self.by_table else own

    def _of_unit(self, measure: Measure) -> str:
        """Write a measure of one unit's rows, unweighted; NULL where it has no part in it."""
        condition = self._condition(measure.condition)
        match measure:
            case SumCodes() | SumProducts():
                return self._added(self._product(measure, PLAIN), condition, PLAIN)
            case UnitTotals(code=code):
                value = self._value(code)
                if condition is not None:
                    value = f"CASE WHEN {condition} THEN {value} END"
                return clamped_sql(f"sum({value})", measure)
            case CountUnits():
                return f"nullif({self._added('1', condition, PLAIN)}, 0)"
            case _:
                return self._added("1", condition, PLAIN)

    def _over_units(self) -> str:
        return ", ".join(self._unit_sum(i, m) for i, m in enumerate(self._of_rows))

    def _unit_sum(self, index: int, measure: Measure) -> str:
        """Add up what units have, each by its weight; codes need the widest integers."""
        match measure:
            case CountUnits(weight=weight):
                return f"count(m{index}) * {weight.scale}"
            case UnitTotals(weight=weight):
                return f"coalesce(sum(m{index}), 0) * {weight.scale}"
            case SumCodes(weight=weight) | SumProducts(weight=weight):
                amount = f"CAST(m{index} AS HUGEINT)"
            case _:
                amount, weight = f"m{index}", measure.weight
        return f"coalesce(sum({amount} * {row_weight_sql(weight)}), 0)"

    def _over_pairs(self) -> str:
        """Add up over units and their groups, each unit's weight shared by its groups."""
        pairs = list(enumerate(self._of_pairs))
        each = "".join(f", {self._of_unit(m)} AS m{i}" for i, m in pairs)
        cell, source = self._groups.cell, f"({self.rows}) AS r {self._groups.joins}"
        numbered = f"SELECT r.*, {cell} AS cell FROM {source}"
        parts = f"SELECT u, cell{each} FROM ({numbered}{self._where()}) GROUP BY u, cell"
        shared = [(i, m.weight) for i, m in pairs if not m.weight.plain]
        sums = ", ".join(pair_sum_sql(i, m) for i, m in pairs)
        if not shared:
            return f"SELECT cell, {sums} FROM ({parts}) GROUP BY cell"
        spread = "".join(f", count(m{i}) AS k{i}" for i, _ in shared)
        weights = "".join(f", {weight_sql(f'k{i}', weight)} AS w{i}" for i, weight in shared)
        return (
            f"WITH parts AS MATERIALIZED ({parts}), "
            f"spread AS (SELECT u{spread} FROM parts GROUP BY u) "
            f"SELECT cell, {sums} FROM parts JOIN (SELECT u{weights} FROM spread) USING (u) "
            "GROUP BY cell"
        )

    def _different(self, measure: CountValues) -> str:
        """Count different values in each group, of what is kept of each unit's."""
        where = self._where("x IS NOT NULL", self._condition(measure.condition))
        cells = self._told(measure, where)
        if self._several:
            pairs = f"SELECT u, cell, x FROM ({cells}) GROUP BY u, cell, x"
            cells = chosen_sql(pairs, measure.weight.limit, "cell", "x")
        return f"SELECT cell, count(DISTINCT x) FROM ({cells}) GROUP BY cell"

    def _told(self, measure: CountValues | Candidates, where: str) -> str:
        """Write the rows with the group and the value that a measure tells apart."""
        place = f"x{self.values.index(measure.value)}"
        rows = f"SELECT r.*, {place} AS x FROM ({self.rows}) AS r"
        cell, joins = self._groups.cell, self._groups.joins
        return f"SELECT *, {cell} AS cell FROM ({rows}) {joins}{where}"

    def _where(self, *more: str | None) -> str:
        conditions = [part for part in more if part is not None]
        conditions += self._groups.limits
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    @cached_property
    def _groups(self) -> Grouping:
        rows = self._opened()[0]
        keys = enumerate(self.scan.keys)
        return Grouping(tuple(NumberedKey(i, key, kept_values(rows, key)) for i, key in keys))
