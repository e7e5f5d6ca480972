"""Whole scans as SQL: rows, groups, weights, measures. Every result is an integer.

The rows of a scan are one subquery with engine-made columns: u the unit, g0, g1, ... the keys,
v0, ... the codes, b0, ... the conditions. What is summed over them is summed once per unit
where units are weighted, because a unit's weight depends on how many rows it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from dpquery.core.types import INT64, Interval
from dpquery.engine.base import nameable
from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.engine.duckdb.connection import KEY
from dpquery.engine.duckdb.expr_sql import Values, cast
from dpquery.engine.duckdb.group_keys_sql import Grouping, grouping, key_sql
from dpquery.engine.duckdb.quantize_sql import code_sql, value_sql
from dpquery.engine.duckdb.quoting import text
from dpquery.engine.duckdb.relation_sql import Nested
from dpquery.ir.expr import Code, Expr
from dpquery.ir.measures import (
    Candidates,
    CountUnits,
    Histogram,
    Measure,
    OfValues,
    Requested,
    TableWeight,
    UnitTotals,
    Weight,
)
from dpquery.ir.query import Scan, columns_read
from dpquery.ir.relations import PublicJoin, TableScan, only_table, tables_of, walk
from dpquery.policy.model import Table

PLAIN = Weight()


def weighs_all_rows(scan: Scan) -> bool:
    """Return whether rows weigh by how many of the whole table their unit has."""
    every = isinstance(scan.relation, TableScan)
    weights = (m.weight for m in scan.measures if m.of_rows and not m.weight.plain)
    return any(every or isinstance(weight, TableWeight) for weight in weights)


def public_names(scan: Scan, known: Mapping[str, str]) -> dict[str, str]:
    """Return what the engine calls the public tables of a scan: what queries made, by name."""
    joins = (node for node in walk(scan.relation) if isinstance(node, PublicJoin))
    return {join.table: known.get(join.table, join.table) for join in joins}


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
        of_values = self._free if self._several else self._different
        return [*found, *((measures, of_values(measures)) for measures in self._of_values)]

    def contested(self) -> list[tuple[tuple[OfValues, ...], str]]:
        """Write the queries for the values that may count or not, and whose they are.

        A query gives one row per group and value, in the order in which they are placed: the
        group, the codes of the measures, and the units.
        """
        if not self._several:
            return []
        return [(measures, self._contested(measures)) for measures in self._of_values]

    def whole(self) -> list[str]:
        """Write the queries that are run as they are; histograms are asked for in ranges."""
        found = [m for m in self.scan.measures if isinstance(m, Candidates)]
        summed = [query for _, query in self.queries()]
        contested = [query for _, query in self.contested()]
        return [*summed, *contested, *map(self.candidates, found)]

    def candidates(self, measure: Candidates) -> str:
        """Write how many units have each value: what makes it, t0, t1, and their number n."""
        names = [f"t{i}" for i in range(len(measure.values))]
        limits = map(nameable, measure.values)  # what a column of an answer can show
        within = [
            f"({name} IS NULL OR {name} BETWEEN {ends[0]} AND {ends[1]})"
            for name, ends in zip(names, limits, strict=True)
            if ends is not None
        ]
        where = self._where(self._condition(measure.condition), *within)
        told, listed = self._told(measure, where), ", ".join(names)
        rows = f"SELECT u, {listed} FROM ({told}) GROUP BY u, {listed}"
        if self.scan.contribution.unit is None:
            rows = told
        elif self._several:
            rows = chosen_sql(rows, measure.weight.limit, *names)
        return f"SELECT {listed}, count(*) AS n FROM ({rows}) GROUP BY {listed}"

    def held(self, measure: Histogram) -> str:
        """Write the rows that a histogram counts: group, code, and weight if they have one."""
        code, cell = self._code(measure.code), self._groups.cell
        where = self._where(f"{code} IS NOT NULL", self._condition(measure.condition))
        rows, weight = self.rows, ""
        if not measure.weight.plain:
            joined = ""
            if not self.said:
                counted = self._counted(f"({rows})", [measure.weight])
                joined = f" JOIN ({counted}) USING (u)"
            weighted = f"SELECT r.*, {_row_weight(measure.weight)} AS w"
            rows, weight = f"{weighted} FROM ({rows}) AS r{joined}", ", w"
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
            f"SELECT cell, CAST({place} AS BIGINT) AS b, {_total(measure)} AS t "
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
            f"SELECT cell, v >> {width} AS b, {_total(measure)} AS t FROM {source} AS r "
            f"JOIN (VALUES {listed}) AS k(g, p) ON cell = g AND v >> {block} = p GROUP BY ALL"
        )

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
        rows = (m for m in self.summed if not isinstance(m, OfValues))
        return tuple(m for m in rows if m not in apart)

    @cached_property
    def _of_values(self) -> list[tuple[OfValues, ...]]:
        """The measures of different values, those together of which the same values count."""
        together: dict[object, list[OfValues]] = {}
        for measure in self.summed:
            if isinstance(measure, OfValues):
                same = measure.values, measure.weight, measure.condition
                together.setdefault(same, []).append(measure)
        return [*map(tuple, together.values())]

    @cached_property
    def _weights(self) -> list[Weight]:
        """The weights that rows have, each once."""
        return [*dict.fromkeys(m.weight for m in self._of_rows if not m.weight.plain)]

    @cached_property
    def said(self) -> tuple[str, ...]:
        """Return the counts that rows say themselves, if these are all that weights need.

        They are kept beside the rows of a table. Before WHERE, a unit has as many rows in the
        scan as in the table.
        """
        weights = {m.weight for m in self.scan.measures if m.of_rows and not m.weight.plain}
        table = only_table(self.scan.relation)
        if table is None or self.places[table.table].owner != "i":
            return ()
        counts = sorted({_count(weight) for weight in weights})
        every = isinstance(self.scan.relation, TableScan)
        return tuple(counts) if every or counts == ["t"] else ()

    def _sums(self) -> str:
        """Write the sums over rows."""
        clamped = self._several and any(isinstance(m, UnitTotals) for m in self._of_rows)
        if not self.scan.keys and (self._weights or clamped):
            sums = ", ".join(self._unit_sum(i, m) for i, m in enumerate(self._of_rows))
            return f"SELECT 0, {sums} FROM ({self._per_unit()})"
        return self._weighted_groups() if self._weights else self._grouped(f"({self.rows})")

    @cached_property
    def codes(self) -> list[Code]:
        """The codes that rows have, each once."""
        return [*dict.fromkeys(c for measure in self.scan.measures for c in measure.codes)]

    @cached_property
    def conditions(self) -> list[Expr]:
        """The conditions of measures, each once."""
        found = dict.fromkeys(measure.condition for measure in self.scan.measures)
        return [condition for condition in found if condition is not None]

    @cached_property
    def values(self) -> list[Expr]:
        """The expressions whose values are told apart, each once: they stand in x0, x1, ..."""
        return [*dict.fromkeys(v for measure in self.scan.measures for v in measure.values)]

    @cached_property
    def rows(self) -> str:
        """Write the rows: after WHERE, with a unit, in engine-made columns."""
        rows, unit, source = self._opened()
        columns = ["1 AS one"]
        if self.scan.contribution.unit is not None:
            columns = [f"{unit} AS u", *(f"n AS {count}" for count in self.said)]
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
        return f"SELECT {place.unit} AS u FROM {place.relation(table)}"

    def _opened(self) -> tuple[Values, str, str]:
        """Return what writes expressions over the rows, their unit, and what follows FROM."""
        relation = self.scan.relation
        table = only_table(relation)
        if table is None:
            nested = Nested(self.places, self.publics, columns_read(self.scan))
            return nested, "u", nested.source(relation)
        place = self.places[table.table]
        return place, place.unit, place.relation(relation)

    def _code(self, code: Code) -> str:
        return f"v{self.codes.index(code)}"

    def _condition(self, condition: Expr | None) -> str | None:
        return None if condition is None else f"b{self.conditions.index(condition)}"

    def _over_rows(self, measure: Measure) -> str:
        """Write one measure as an aggregate of rows."""
        condition = self._condition(measure.condition)
        match measure:
            case UnitTotals():
                value = _clamped(self._value(measure.code), measure)
                return self._added(value, condition, measure.weight)
            case CountUnits():
                unit = _when(condition, "u")
                single = self.scan.contribution.single
                return f"count({unit})" if single else f"count(DISTINCT {unit})"
        return self._summed(measure, measure.weight)

    def _summed(self, measure: Measure, weight: Weight) -> str:
        """Write a sum over rows of the product of a measure's codes, each with its weight."""
        value = self._product(measure.factors, weight) if measure.factors else "1"
        return self._added(value, self._condition(measure.condition), weight)

    def _added(self, value: str, condition: str | None, weight: Weight) -> str:
        if weight.plain and value == "1":
            return f"count({'*' if condition is None else _when(condition, '1')})"
        if not weight.plain:
            name = f"w{self._weights.index(weight)}"
            value = name if value == "1" else f"{name} * {value}"
        return f"coalesce(sum({_when(condition, value)}), 0)"

    def _value(self, code: Code | None) -> str:
        return "1" if code is None else self._code(code)

    def _product(self, factors: Sequence[Code], weight: Weight) -> str:
        """Write the product of codes in an integer that holds it, and it times a weight."""
        names = [*map(self._code, factors)]
        # A constant's code is 0 alone, but the weight is multiplied before it is.
        largest = prod(max(code.size, 1) for code in factors)
        if not Interval.point(largest * weight.scale).within(*INT64):
            names = [f"CAST({name} AS HUGEINT)" for name in names]
        return " * ".join(names)

    def _grouped(self, source: str) -> str:
        """Add rows up, and number the groups; those that are not declared are dropped here."""
        sums = ", ".join(map(self._over_rows, self._of_rows))
        if not self.scan.keys:
            return f"SELECT 0, {sums} FROM {source} "
        names = ", ".join(f"m{i}" for i in range(len(self._of_rows)))
        keys = ", ".join(f"g{i}" for i in range(len(self.scan.keys)))
        added = f"(SELECT {keys}, {sums} FROM {source} GROUP BY {keys}) AS t({keys}, {names})"
        joins, where = self._groups.joins, self._where()
        return f"SELECT {self._groups.cell}, {names} FROM {added} {joins}{where}"

    def _weighted_groups(self) -> str:
        """Count rows per unit over all groups, declared or not; then weigh each row.

        The rows of one table are read twice, which costs less than keeping them, unless whose
        they are stands elsewhere.
        """
        if self.said:
            return self._grouped(f"({self._weighted(f'({self.rows})')})")
        table = only_table(self.scan.relation)
        cheap = table is not None and self.places[table.table].near
        first = "" if cheap else f"WITH r AS MATERIALIZED ({self.rows}) "
        rows = f"({self.rows})" if cheap else "r"
        counted = self._counted(rows, self._weights)
        source = f"{rows} JOIN ({self._weighted(f'({counted})', 'u')}) USING (u)"
        return first + self._grouped(source)

    def _weighted(self, counted: str, names: str = "*") -> str:
        """Write the weights that counts of rows give, beside what they are of."""
        weights = "".join(f", {_row_weight(w)} AS w{i}" for i, w in enumerate(self._weights))
        return f"SELECT {names}{weights} FROM {counted}"

    def _per_unit(self) -> str:
        """Write each unit's sums, its rows, and all of its rows in the table if they matter.

        Units with equally many rows are taken together, where rows say how many these are.
        """
        sums = ", ".join(f"{self._of_unit(m)} AS m{i}" for i, m in enumerate(self._of_rows))
        if self._alike:
            counts = ", ".join(self.said)
            return f"SELECT {counts}, {sums} FROM ({self.rows}) GROUP BY {counts}"
        own = f"SELECT u, count(*) AS n, {sums} FROM ({self.rows}) GROUP BY u"
        return self._with_table(own) if self.by_table else own

    @cached_property
    def _alike(self) -> bool:
        """Return whether units of equally many rows can be added up together."""
        return bool(self.said) and all(measure.of_rows for measure in self._of_rows)

    def _counted(self, rows: str, weights: Sequence[Weight]) -> str:
        """Write how many rows each unit has, of those that the weights count."""
        by_table = [isinstance(weight, TableWeight) for weight in weights]
        if all(by_table):
            return self._in_table
        counted = f"SELECT u, count(*) AS n FROM {rows} GROUP BY u"
        return self._with_table(counted) if any(by_table) else counted

    def _with_table(self, units: str) -> str:
        """Write what units have, and beside it how many rows each has in the table."""
        return f"SELECT * FROM ({units}) JOIN ({self._in_table}) USING (u)"

    @property
    def _in_table(self) -> str:
        return f"SELECT u, count(*) AS t FROM ({self.table_rows}) GROUP BY u"

    def _of_unit(self, measure: Measure) -> str:
        """Write a measure of one unit's rows, unweighted; NULL where it has no part in it."""
        match measure:
            case UnitTotals(code=code, condition=condition):
                value = _when(self._condition(condition), self._value(code))
                return _clamped(f"sum({value})", measure)
            case CountUnits():
                return f"nullif({self._summed(measure, PLAIN)}, 0)"
        return self._summed(measure, PLAIN)

    def _unit_sum(self, index: int, measure: Measure) -> str:
        """Add up what units have, each by its weight; codes need the widest integers."""
        match measure:
            case CountUnits(weight=weight):
                return f"count(m{index}) * {weight.scale}"
            case UnitTotals(weight=weight):
                return f"coalesce(sum(m{index}), 0) * {weight.scale}"
        wide = measure.factors or self._alike
        amount = f"CAST(m{index} AS HUGEINT)" if wide else f"m{index}"
        return f"coalesce(sum({amount} * {_row_weight(measure.weight)}), 0)"

    def _pair_sum(self, index: int, measure: Measure) -> str:
        """Write a sum over units and groups: their number, or their totals, weighted."""
        totals = isinstance(measure, UnitTotals)
        amount = f"m{index}" if totals else f"CASE WHEN m{index} > 0 THEN 1 END"
        weight = "" if measure.weight.plain else f" * w{index}"
        return f"coalesce(sum({amount}{weight}), 0)"

    def _over_pairs(self) -> str:
        """Add up over units and their groups, each unit's weight shared by its groups."""
        pairs = list(enumerate(self._of_pairs))
        each = "".join(f", {self._of_unit(m)} AS m{i}" for i, m in pairs)
        cell, source = self._groups.cell, f"({self.rows}) AS r {self._groups.joins}"
        numbered = f"SELECT r.*, {cell} AS cell FROM {source}"
        parts = f"SELECT u, cell{each} FROM ({numbered}{self._where()}) GROUP BY u, cell"
        shared = [(i, m.weight) for i, m in pairs if not m.weight.plain]
        sums = ", ".join(self._pair_sum(i, m) for i, m in pairs)
        if not shared:
            return f"SELECT cell, {sums} FROM ({parts}) GROUP BY cell"
        spread = "".join(f", count(m{i}) AS k{i}" for i, _ in shared)
        weights = "".join(f", {_weight(f'k{i}', weight)} AS w{i}" for i, weight in shared)
        return (
            f"WITH parts AS MATERIALIZED ({parts}), "
            f"spread AS (SELECT u{spread} FROM parts GROUP BY u) "
            f"SELECT cell, {sums} FROM parts JOIN (SELECT u{weights} FROM spread) USING (u) "
            "GROUP BY cell"
        )

    def _different(self, measures: Sequence[OfValues]) -> str:
        """Write sums over the different values in each group, where all of them count."""
        told = self._columns(measures)
        cells = f"SELECT {told} FROM ({self._present(measures[0])}) GROUP BY {told}"
        return f"SELECT cell, {self._value_sums(measures)} FROM ({cells}) GROUP BY cell"

    def _free(self, measures: Sequence[OfValues]) -> str:
        """Write sums over the values of which one unit has no more than it may stand for.

        Each counts, and takes no slot that another value could have.
        """
        least = f"{self._by_value(measures, 'min(n) AS least')}"
        cells = f"SELECT * FROM ({least}) WHERE least <= {measures[0].weight.limit}"
        return f"SELECT cell, {self._value_sums(measures)} FROM ({cells}) GROUP BY cell"

    def _contested(self, measures: Sequence[OfValues]) -> str:
        """Write the other values, in an order that nobody knows and no other row changes."""
        asked = self._by_value(measures, "min(n) AS least, list(u) AS units")
        shown = ", ".join(["cell", *self._value_codes(measures), "units"])
        order = f"ORDER BY {hashed_sql('cell', 't0')}, cell, t0"
        return f"SELECT {shown} FROM ({asked}) WHERE least > {measures[0].weight.limit} {order}"

    def _by_value(self, measures: Sequence[OfValues], found: str) -> str:
        """Write something of each group and value, by the values that its units have."""
        told = self._columns(measures)
        pairs = f"SELECT u, {told} FROM ({self._present(measures[0])}) GROUP BY u, {told}"
        counted = f"SELECT *, count(*) OVER (PARTITION BY u) AS n FROM ({pairs})"
        return f"SELECT {told}, {found} FROM ({counted}) GROUP BY {told}"

    def _present(self, measure: OfValues) -> str:
        where = self._where("t0 IS NOT NULL", self._condition(measure.condition))
        return self._told(measure, where)

    def _value_codes(self, measures: Sequence[OfValues]) -> list[str]:
        return [*dict.fromkeys(self._code(code) for m in measures for code in m.codes)]

    def _columns(self, measures: Sequence[OfValues]) -> str:
        return ", ".join(["cell", "t0", *self._value_codes(measures)])

    def _value_sums(self, measures: Sequence[OfValues]) -> str:
        products = (self._product(m.factors, PLAIN) if m.factors else "1" for m in measures)
        return ", ".join(self._added(product, None, PLAIN) for product in products)

    def _told(self, measure: OfValues | Candidates, where: str) -> str:
        """Write the rows with the group and the value that a measure tells apart."""
        places = enumerate(map(self.values.index, measure.values))
        told = ", ".join(f"x{place} AS t{i}" for i, place in places)
        rows = f"SELECT r.*, {told} FROM ({self.rows}) AS r"
        cell, joins = self._groups.cell, self._groups.joins
        return f"SELECT *, {cell} AS cell FROM ({rows}) {joins}{where}"

    def _where(self, *more: str | None) -> str:
        conditions = [part for part in more if part is not None]
        conditions += self._groups.limits
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    @cached_property
    def _groups(self) -> Grouping:
        return grouping(self._opened()[0], self.scan.keys)


# What a unit may add, as SQL: its weight, its clamped totals, the values that it shows.


def chosen_sql(pairs: str, limit: int, *told: str) -> str:
    """Keep some of what each unit has: which, does not depend on any other unit."""
    order = f"PARTITION BY u ORDER BY {hashed_sql('u', *told)}, {', '.join(told)}"
    return f"SELECT * FROM ({pairs}) QUALIFY row_number() OVER ({order}) <= {limit}"


def hashed_sql(*names: str) -> str:
    """Write a hash of what columns hold, and of the secret.

    That is a variable of the connection, for a fault may quote the text of a query.
    """
    texts = ", ".join(f"CAST({name} AS VARCHAR)" for name in names)
    return f"sha256(concat_ws('|', getvariable({text(KEY)}), {texts}))"


def _total(measure: Histogram) -> str:
    """Write the weight of rows; of all together it fits 64 bits, by the plan."""
    return "count(*)" if measure.weight.plain else "CAST(sum(w) AS BIGINT)"


def _clamped(total: str, measure: UnitTotals) -> str:
    """Write a total in its range, in an integer that holds its product with the weight."""
    narrow = Interval.point(measure.size * measure.weight.scale).within(*INT64)
    inside = f"least(greatest({total}, {measure.low}), {measure.high})"
    found = cast(inside, "BIGINT" if narrow else "HUGEINT")
    return f"CASE WHEN {total} IS NOT NULL THEN {found} END"


def _row_weight(weight: Weight) -> str:
    """Write what each row counts."""
    return _weight(_count(weight), weight)


def _count(weight: Weight) -> str:
    """Name what a weight is by: n, the rows of a unit, or t, those that it has in the table."""
    return "t" if isinstance(weight, TableWeight) else "n"


def _weight(rows: str, weight: Weight) -> str:
    """Write floor(scale * min(1, limit / rows))."""
    if weight.plain:
        return "1"
    shared = f"{weight.total} // {rows}"
    return f"CASE WHEN {rows} <= {weight.limit} THEN {weight.scale} ELSE {shared} END"


def _when(condition: str | None, value: str) -> str:
    """Write a value that is NULL unless a condition holds."""
    return value if condition is None else f"CASE WHEN {condition} THEN {value} END"
