"""Relations as SQL: each node a SELECT whose rows carry their owner and engine-made columns.

The owner of a row is the column u. A column that a relation gives is named by the number of
the relation and a name, so that nothing an analyst writes is ever a name here. Only columns in
use are written. What is computed per unit does not depend on the order of rows: integers,
decimals and codes are added up, and ties are broken by every column in use: as equal values are
the same bytes (`expr_sql.py`), they are left between rows that nothing can tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dpquery.core.types import Kind
from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.engine.duckdb.expr_sql import Values, cast, settled, storage
from dpquery.engine.duckdb.quantize_sql import code_sql
from dpquery.engine.duckdb.quoting import quoted, text
from dpquery.ir.expr import ColumnRef, Expr, grid_step
from dpquery.ir.relations import (
    Aggregate,
    Filter,
    Output,
    PerUnit,
    Project,
    PublicJoin,
    Relation,
    SemiJoin,
    TableScan,
    UnionAll,
    UnitAggregate,
    UnitJoin,
    Unnest,
    WindowColumn,
    Windowed,
    WindowFunction,
    equated,
    kept_rows,
    numbers,
    only_table,
    sides_of,
    tables_of,
)

_RANKED = frozenset({WindowFunction.RANK, WindowFunction.DENSE_RANK})
_PLACED = frozenset(WindowFunction) - _RANKED - {WindowFunction.AGGREGATE}
"""Windows in which a row's place counts."""


@dataclass
class Nested(Values):
    """Writes relations over the tables of one scan, each read at its place."""

    places: Mapping[str, Place]
    publics: Mapping[str, str]
    """What the engine calls each public table."""
    used: Iterable[ColumnRef]
    _by_number: dict[int, list[ColumnRef]] = field(init=False)
    _made: int = 0

    def __post_init__(self) -> None:
        self._by_number = {}
        for ref in self.used:
            self._by_number.setdefault(ref.of, []).append(ref)

    def column(self, reference: ColumnRef) -> str:
        """Write a column by its engine-made name."""
        return column_name(reference)

    def source(self, relation: Relation) -> str:
        """Write what stands after FROM for a relation's rows."""
        return f"({self._select(relation)}) AS r"

    def _select(self, relation: Relation) -> str:
        """Write a relation as a query; all nodes below it are written first, in turn."""
        if only_table(relation) is not None:
            return self._table(relation)
        match relation:
            case Filter(source=source, condition=condition):
                return f"SELECT * FROM ({self._select(source)}) WHERE {self.value(condition)}"
            case Project(source=source, number=number, outputs=outputs):
                return self._projected(source, number, outputs)
            case PublicJoin():
                return self._public(relation)
            case Unnest():
                return self._unnested(relation)
            case UnitJoin():
                return self._joined(relation)
            case SemiJoin():
                return self._semi_joined(relation)
            case UnionAll(number=number, parts=parts):
                selects = (self._projected(part, number, outputs) for part, outputs in parts)
                return " UNION ALL ".join(selects)
            case PerUnit():
                return self._per_unit(relation)
            case Windowed():
                return self._windowed(relation)
        raise AssertionError(relation)  # the tree has no other relation

    def _columns(self, *of: int) -> list[ColumnRef]:
        return [ref for number in sorted(of) for ref in self._by_number.get(number, [])]

    def _names(self, relation: Relation) -> list[str]:
        return [column_name(ref) for ref in self._columns(*numbers(relation))]

    def _owned(self, relation: Relation) -> bool:
        """Return whether rows have units with several rows: all tables have a unit, or none."""
        return self.places[tables_of(relation)[0].table].table.unit is not None

    def _table(self, relation: Relation) -> str:
        """Write a table's rows."""
        scan = only_table(relation)
        assert isinstance(scan, TableScan)  # noqa: S101 - the caller looked
        place = self.places[scan.table]
        columns = [
            f"{place.value(ref)} AS {column_name(ref)}" for ref in self._columns(scan.number)
        ]
        if place.table.unit is not None:
            columns.insert(0, f"{place.unit} AS u")
        return f"SELECT {', '.join(columns) or '1 AS one'} FROM {place.relation(relation)}"

    def _projected(self, source: Relation, number: int, outputs: Iterable[Output]) -> str:
        """Write computed columns, in the one storage that all parts of a union share."""
        made = {output.name: output.expr for output in outputs}
        columns = [
            f"{self._stored_as(made[ref.name], ref)} AS {column_name(ref)}"
            for ref in self._columns(number)
        ]
        if self._owned(source):
            columns.insert(0, "u")
        return f"SELECT {', '.join(columns) or '1 AS one'} FROM ({self._select(source)})"

    def _stored_as(self, expr: Expr, ref: ColumnRef) -> str:
        value = self.value(expr)
        exact = ref.type.kind in {Kind.INTEGER, Kind.DECIMAL}
        return cast(value, storage(ref.type, ref.domain)) if exact else value

    def _public(self, join: PublicJoin) -> str:
        """Write a join with a public table, whose doubles came in their one form."""
        given = self._columns(join.number)
        columns = ", ".join(f"{quoted(ref.name)} AS {column_name(ref)}" for ref in given)
        public = f"SELECT {columns or '1 AS one'} FROM {self.publics[join.table]}"
        names = [f"a.{name}" for name in self._names(join.source)]
        names += [column_name(ref) for ref in given]
        owner = ["a.u"] if self._owned(join.source) else []
        kind = "LEFT JOIN" if join.keeps else "JOIN"
        return (
            f"SELECT {', '.join([*owner, *names]) or '1 AS one'} "
            f"FROM ({self._select(join.source)}) AS a {kind} ({public}) AS p "
            f"ON {self.value(join.condition)}"
        )

    def _unnested(self, node: Unnest) -> str:
        """Write a row for each value of a list; of values that nobody reads, their number."""
        used = self._columns(node.number)
        if node.separator is not None:
            (one,) = node.values
            parts = f"string_split({self.value(one.expr)}, {text(node.separator)})"
            parts = f"coalesce({parts}, list_value(NULL))" if node.keeps else parts
            values = f"{parts}[1:{node.most}]"
        elif node.listed:
            (one,) = node.values
            values = self.value(one.expr)
            if node.keeps:
                values = f"CASE WHEN len({values}) > 0 THEN {values} ELSE list_value(NULL) END"
        else:
            each = [self._stored_as(v.expr, ref) for v in node.values for ref in used]
            values = f"list_value({', '.join(each or ['1'] * node.most)})"
        column = quoted(f"{node.number}.{node.values[0].name}")
        return f"SELECT *, unnest({values}) AS {column} FROM ({self._select(node.source)})"

    def _joined(self, join: UnitJoin) -> str:
        shared, left, right = self._sides(join)
        kinds = {(True, True): "FULL", (True, False): "LEFT", (False, True): "RIGHT"}
        kind = kinds.get((join.keeps_left, join.keeps_right), "INNER")
        names = ", ".join(["coalesce(a.u, b.u) AS u", *self._names(join)])
        on = self._also(join.condition)
        sides = f"({left}) AS a {kind} JOIN ({right}) AS b"
        return f"{shared}SELECT {names} FROM {sides} ON a.u = b.u{on}"

    def _also(self, condition: Expr | None) -> str:
        return "" if condition is None else f" AND {self.value(condition)}"

    def _semi_joined(self, join: SemiJoin) -> str:
        shared, source, other = self._sides(join)
        found = f"SELECT 1 FROM ({other}) AS b WHERE b.u = a.u{self._also(join.condition)}"
        which = "NOT EXISTS" if join.negated else "EXISTS"
        return f"{shared}SELECT a.* FROM ({source}) AS a WHERE {which} ({found})"

    def _sides(self, join: UnitJoin | SemiJoin) -> tuple[str, str, str]:
        """Write what WITH names before a join, and its sides, with the rows that are paired.

        Few units have more pairs than are taken. They are found in two steps: by their rows
        alone, and among those by the rows that agree in what the join equates.
        """
        a, b = sides_of(join)
        left, right = self._select(a), self._select(b)
        if join.pairs is None:
            return "", left, right
        self._made += 1
        s, t, h, k = (f"{letter}{self._made}" for letter in "sthk")
        keys, heavy = equated(join), h
        units = (f"SELECT u FROM {s}", f"SELECT u FROM {t}")
        shared = [(s, left), (t, right), (h, _crowded(units, 0, join.pairs))]
        if keys:
            ours, theirs = zip(*keys, strict=True)
            rows = (self._agreeing(s, h, ours), self._agreeing(t, h, theirs))
            shared.append((k, _crowded(rows, len(keys), join.pairs)))
            heavy = k
        written = ", ".join(f"{name} AS MATERIALIZED ({sql})" for name, sql in shared)
        kept = kept_rows(join.pairs)
        few = [self._few(name, heavy, side, kept) for name, side in ((s, a), (t, b))]
        return f"WITH {written} ", few[0], few[1]

    def _agreeing(self, rows: str, heavy: str, values: Sequence[Expr]) -> str:
        """Write what a join equates of the rows of some units."""
        keys = [f"{self.value(expr)} AS k{i}" for i, expr in enumerate(values)]
        among = f"EXISTS (SELECT 1 FROM {heavy} AS h WHERE h.u = s.u)"
        return f"SELECT {', '.join(['u', *keys])} FROM {rows} AS s WHERE {among}"

    def _few(self, rows: str, heavy: str, side: Relation, kept: int) -> str:
        """Write the rows of a side: of units with many pairs, the first ones alone."""
        order = self._order_of_all(side)
        return (
            f"SELECT * FROM {rows} AS s WHERE NOT EXISTS "
            f"(SELECT 1 FROM {heavy} AS h WHERE h.u = s.u) UNION ALL "
            f"SELECT * FROM (SELECT s.* FROM {rows} AS s JOIN {heavy} AS h ON h.u = s.u "
            f"QUALIFY row_number() OVER (PARTITION BY s.u{order}) <= {kept})"
        )

    def _order_of_all(self, relation: Relation, *first: str) -> str:
        order = [*first, *(f"{name} ASC NULLS LAST" for name in self._names(relation))]
        return f" ORDER BY {', '.join(order)}" if order else ""

    def _per_unit(self, node: PerUnit) -> str:
        keys = {key.name: key.expr for key in node.keys}
        aggregates = {one.name: one for one in node.aggregates}
        columns, groups = ["u"], ["u", *map(self.value, keys.values())]
        for ref in self._columns(node.number):
            if ref.name in keys:
                value = self._stored_as(keys[ref.name], ref)
            else:
                value = self._aggregate(aggregates[ref.name])
            columns.append(f"{value} AS {column_name(ref)}")
        source = self._select(node.source)
        return f"SELECT {', '.join(columns)} FROM ({source}) GROUP BY {', '.join(groups)}"

    def _aggregate(self, one: UnitAggregate, over: str = "") -> str:
        """Write an aggregate of one unit's rows in the storage of its range."""
        value = "*" if one.argument is None else self.value(one.argument)
        kept = "" if one.condition is None else f" FILTER (WHERE {self.value(one.condition)})"
        match one.function:
            case Aggregate.COUNT_DISTINCT:
                return f"count(DISTINCT {value}){kept}{over}"
            case Aggregate.SUM | Aggregate.AVG:
                return self._sum(one, value, kept + over)
            case _:
                return f"{one.function}({value}){kept}{over}"

    def _sum(self, one: UnitAggregate, value: str, rest: str) -> str:
        """Write a sum, or a mean as one division of it; of doubles, over codes."""
        if one.code is not None:
            value = code_sql(self, one.code)
        total = f"sum({value}){rest}"
        if one.type.kind is not Kind.DOUBLE:
            return cast(total, storage(one.type, one.domain))
        number = cast(cast(total, "VARCHAR"), "DOUBLE")
        if one.code is not None:
            operator, step = grid_step(one.code.grid)
            back = "/" if operator == "*" else "*"
            number = f"({number} {back} CAST('{step!r}' AS DOUBLE))"
        if one.function is Aggregate.AVG:
            number = f"({number} / count({value}){rest})"
        return settled(number)

    def _windowed(self, node: Windowed) -> str:
        """Write rows with their windows.

        Rows that no column tells apart are numbered first, where several windows put them in
        order: else one window could take them in one order and the next in another.
        """
        source = self._select(node.source)
        ordered = [one for one in node.columns if one.function in _PLACED]
        twins = quoted(f"{node.number}.twin") if len(ordered) > 1 else ""
        columns = "".join(f", {self._window(node, c, twins)}" for c in node.columns)
        if not twins:
            return f"SELECT *{columns} FROM ({source})"
        names = ", ".join(["u", *self._names(node.source)])
        alike = f"row_number() OVER (PARTITION BY {names})"
        numbered = f"SELECT *, {alike} AS {twins} FROM ({source})"
        return f"SELECT * EXCLUDE ({twins}){columns} FROM ({numbered})"

    def _window(self, node: Windowed, column: WindowColumn, twins: str) -> str:
        parts = ", ".join(["u", *map(self.value, column.parts)])
        order = [
            f"{self.value(key.expr)} {'DESC' if key.descending else 'ASC'} "
            f"NULLS {'FIRST' if key.nulls_first else 'LAST'}"
            for key in column.order
        ]
        name = column_name(ColumnRef(node.span, column.name, column.type, of=node.number))
        if column.aggregate is not None:
            found = self._aggregate(column.aggregate, f" OVER (PARTITION BY {parts})")
            return f"{found} AS {name}"
        by = f" ORDER BY {', '.join(order)}"
        if column.function not in _RANKED:
            by = self._order_of_all(node.source, *order) + (f", {twins}" if twins else "")
        argument = str(column.offset) if column.function is WindowFunction.NTILE else ""
        if column.argument is not None:
            argument = f"{self.value(column.argument)}, {column.offset}"
        return f"{column.function}({argument}) OVER (PARTITION BY {parts}{by}) AS {name}"


def column_name(ref: ColumnRef) -> str:
    """Name a column that a relation gives: by number and name, so that none meet."""
    return quoted(f"{ref.of}.{ref.name}")


def _crowded(rows: tuple[str, str], keys: int, pairs: int) -> str:
    """Write the units that have more pairs than are taken, of rows that agree in all keys.

    As many pairs as either side has rows with partners are taken in any case. Pairs of rows
    can be more than 2^63.
    """
    names = ["u", *(f"k{i}" for i in range(keys))]
    by = ", ".join(names)
    a, b = (f"SELECT {by}, count(*) AS n FROM ({side}) GROUP BY {by}" for side in rows)
    on = " AND ".join(f"a.{name} = b.{name}" for name in names)
    product = "CAST(a.n AS HUGEINT) * b.n"
    return (
        f"SELECT a.u AS u FROM ({a}) AS a JOIN ({b}) AS b ON {on} GROUP BY a.u "
        f"HAVING sum({product}) > greatest({pairs}, sum(a.n), sum(b.n))"
    )
