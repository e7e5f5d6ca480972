"""Relations row by row: each row its owner, and its values by column.

What a node means is what `ir/relations.py` says, computed in the plainest way: a unit's rows
are lists, a join is two loops, a tie is broken by all columns in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import count

from dpquery.core.types import Kind
from dpquery.engine.base import PublicRows
from dpquery.ir.expr import Code, ColumnRef, Expr, columns_of
from dpquery.ir.relations import (
    Aggregate,
    Filter,
    Output,
    PerUnit,
    Project,
    PublicJoin,
    Relation,
    SemiJoin,
    Sorted,
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
    sides_of,
)
from dpquery.policy.model import Table
from dpquery.rowfunctions.base import Value
from dpquery.rowfunctions.evaluate import Row, evaluate, settled
from tests.oracle.rows import plain_rows, read_rows
from tests.oracle.values import code_of, from_sum

Owned = tuple[Value, Row]
"""A row with its owner."""
ByUnit = dict[Value, list[Row]]


@dataclass(frozen=True)
class Relations:
    """Reads the relations of one scan."""

    tables: Mapping[str, Table]
    public: PublicRows
    used: Sequence[ColumnRef]

    def rows(self, relation: Relation) -> list[Owned]:
        """Return the rows of a relation."""
        match relation:
            case TableScan():
                return self._table(relation)
            case Filter(source=source, condition=condition):
                return [r for r in self.rows(source) if evaluate(condition, r[1]) is True]
            case Project(source=source, number=number, outputs=outputs):
                return _projected(self.rows(source), number, outputs)
            case PublicJoin():
                return list(self._public(relation))
            case Unnest():
                return list(self._unnested(relation))
            case UnitJoin():
                return list(self._joined(relation))
            case SemiJoin():
                return list(self._semi_joined(relation))
            case UnionAll(number=number, parts=parts):
                return [
                    row
                    for part, outputs in parts
                    for row in _projected(self.rows(part), number, outputs)
                ]
            case PerUnit():
                return list(_per_unit(relation, self.rows(relation.source)))
            case Windowed():
                return self._windowed(relation)

    def _table(self, scan: TableScan) -> list[Owned]:
        """Read a table; where it names no unit, each row is its own."""
        table, rows = self.tables[scan.table], count()
        names = [ref.name for ref in self.used if ref.of == scan.number]
        if scan.part is not None:
            names += [ref.name for ref in columns_of(scan.part.expr).values()]
        owned: list[Owned] = []
        for unit, row in read_rows(table, list(dict.fromkeys(names))):
            owner = next(rows) if table.unit is None else unit
            if owner is not None:
                owned.append((owner, {(scan.number, name): v for name, v in row.items()}))
        return owned if scan.part is None else _first_parts(scan.part, scan.kept, owned)

    def _public(self, join: PublicJoin) -> Iterator[Owned]:
        names = {ref.name: ref for ref in self.used if ref.of == join.number}
        others = [
            {(join.number, name): row[name] for name in names}
            for row in plain_rows(self.public.rows(join.table))
        ]
        missing = {(join.number, name): None for name in names}
        ours = [at for at in columns_of(join.condition) if at[0] != join.number]
        met: dict[object, list[Row]] = {}
        for unit, row in self.rows(join.source):
            cells = tuple(row[at] for at in ours)  # rows that are equal there meet the same
            if cells not in met:
                met[cells] = [
                    o for o in others if evaluate(join.condition, {**row, **o}) is True
                ]
            for other in met[cells] or ([missing] if join.keeps else []):
                yield unit, {**row, **other}

    def _unnested(self, node: Unnest) -> Iterator[Owned]:
        for unit, row in self.rows(node.source):
            values = [evaluate(output.expr, row) for output in node.values]
            if node.separator is not None:
                (text,) = values
                without = [None] if node.keeps else []
                values = without if text is None else text.split(node.separator)[: node.most]
            if node.listed:
                (listed,) = values
                values = listed or ([None] if node.keeps else [])
            for value in values:
                yield unit, {**row, (node.number, node.values[0].name): value}

    def _joined(self, join: UnitJoin) -> Iterator[Owned]:
        left, right = self._paired(join)
        no_left, no_right = (self._missing(side) for side in (join.left, join.right))
        for unit in {**left, **right}:
            partnered = set()
            for row in left.get(unit, []):
                pairs = [
                    number
                    for number, other in enumerate(right.get(unit, []))
                    if _meets(join.condition, {**row, **other})
                ]
                partnered |= set(pairs)
                for number in pairs:
                    yield unit, {**row, **right[unit][number]}
                if not pairs and join.keeps_left:
                    yield unit, {**row, **no_right}
            for number, other in enumerate(right.get(unit, [])):
                if number not in partnered and join.keeps_right:
                    yield unit, {**no_left, **other}

    def _semi_joined(self, join: SemiJoin) -> Iterator[Owned]:
        """Return the rows that meet a row, or none; equal rows of a unit are looked at once."""
        ours, theirs = self._paired(join)
        for unit, own in ours.items():
            others = list({tuple(row.items()): row for row in theirs.get(unit, [])}.values())
            met: dict[object, bool] = {}
            for row in own:
                cells = tuple(row.items())
                if cells not in met:
                    met[cells] = any(_meets(join.condition, {**row, **o}) for o in others)
                if met[cells] is not join.negated:
                    yield unit, row

    def _missing(self, relation: Relation) -> Row:
        return {(ref.of, ref.name): None for ref in self._columns(relation)}

    def _columns(self, relation: Relation) -> list[ColumnRef]:
        """Return the columns in use that the rows of a relation have, in one order."""
        given = numbers(relation)
        return sorted((ref for ref in self.used if ref.of in given), key=lambda ref: ref.of)

    def _paired(self, join: UnitJoin | SemiJoin) -> tuple[ByUnit, ByUnit]:
        """Return the rows of both sides by unit: the first ones of a unit with many pairs."""
        left, right = (_by_unit(self.rows(side)) for side in sides_of(join))
        if join.pairs is None:
            return left, right
        for unit in left.keys() & right.keys():
            if _too_many(join, left[unit], right[unit]):
                for rows, side in zip((left, right), sides_of(join), strict=True):
                    compare = cmp_to_key(_compare([], self._columns(side)))
                    rows[unit] = sorted(rows[unit], key=compare)[: kept_rows(join.pairs)]
        return left, right

    def _windowed(self, node: Windowed) -> list[Owned]:
        rows = self.rows(node.source)
        columns = self._columns(node.source)
        made: list[dict[tuple[int, str], Value]] = [{} for _ in rows]
        for column in node.columns:
            values = _window(column, rows, columns)
            for row, value in zip(made, values, strict=True):
                row[node.number, column.name] = value
        return [(unit, {**row, **new}) for (unit, row), new in zip(rows, made, strict=True)]


def _first_parts(part: Code, kept: int, rows: Sequence[Owned]) -> list[Owned]:
    """Give the rows that lie in the first parts of their unit; what has no place comes last."""
    last = len(part.values)
    placed = [(last if (at := code_of(part, row)) is None else at) for _, row in rows]
    parts: dict[Value, set[int]] = {}
    for (unit, _), place in zip(rows, placed, strict=True):
        parts.setdefault(unit, set()).add(place)
    first = {unit: sorted(places)[:kept] for unit, places in parts.items()}
    pairs = zip(rows, placed, strict=True)
    return [(unit, row) for (unit, row), place in pairs if place in first[unit]]


def _too_many(join: UnitJoin | SemiJoin, left: Sequence[Row], right: Sequence[Row]) -> bool:
    """Return whether rows of one unit make more pairs than a join takes.

    Rows are partners where all agrees that the join equates. As many pairs as one side has
    rows with partners are taken in any case.
    """
    keys = [list(side) for side in zip(*equated(join), strict=True)] or [[], []]
    ours, theirs = (
        Counter(tuple(evaluate(key, row) for key in given) for row in rows)
        for given, rows in zip(keys, (left, right), strict=True)
    )
    met = [key for key in ours.keys() & theirs.keys() if None not in key]
    pairs = sum(ours[key] * theirs[key] for key in met)
    rows = max(sum(side[key] for key in met) for side in (ours, theirs))
    return join.pairs is not None and pairs > max(join.pairs, rows)


def _meets(condition: Expr | None, row: Row) -> bool:
    return condition is None or evaluate(condition, row) is True


def _by_unit(rows: Sequence[Owned]) -> ByUnit:
    found: ByUnit = {}
    for unit, row in rows:
        found.setdefault(unit, []).append(row)
    return found


def _projected(rows: Sequence[Owned], number: int, outputs: Sequence[Output]) -> list[Owned]:
    return [
        (unit, {(number, output.name): evaluate(output.expr, row) for output in outputs})
        for unit, row in rows
    ]


def _per_unit(node: PerUnit, rows: Sequence[Owned]) -> Iterator[Owned]:
    groups: dict[tuple[Value, ...], list[Row]] = {}
    for unit, row in rows:
        keys = tuple(evaluate(key.expr, row) for key in node.keys)
        groups.setdefault((unit, *keys), []).append(row)
    for (unit, *found), own in groups.items():
        made = {
            (node.number, key.name): value for key, value in zip(node.keys, found, strict=True)
        }
        for one in node.aggregates:
            made[node.number, one.name] = _aggregate(one, own)
        yield unit, made


def _aggregate(one: UnitAggregate, rows: Sequence[Row]) -> Value:
    kept = [r for r in rows if one.condition is None or evaluate(one.condition, r) is True]
    if one.argument is None:
        return len(kept)
    values = [v for row in kept if (v := evaluate(one.argument, row)) is not None]
    match one.function:
        case Aggregate.COUNT:
            return len(values)
        case Aggregate.COUNT_DISTINCT:
            return len(set(values))
        case Aggregate.SUM | Aggregate.AVG:
            return _sum(one, kept, values)
    if not values:
        return None
    return _CHOICES[one.function](values)


_CHOICES: Mapping[Aggregate, Callable[[list[Value]], Value]] = {
    Aggregate.MIN: min,
    Aggregate.MAX: max,
    Aggregate.ALL: all,
    Aggregate.ANY: any,
}


def _sum(one: UnitAggregate, rows: Sequence[Row], values: Sequence[Value]) -> Value:
    """Add up exactly; a mean is one division, and doubles are added up as codes."""
    if not values:
        return None
    number: Value = sum(values, start=0)
    if one.code is not None:
        codes = [code for row in rows if (code := code_of(one.code, row)) is not None]
        number = from_sum(one.code, sum(codes))
    if one.type.kind is not Kind.DOUBLE:
        return number
    count = len(values) if one.function is Aggregate.AVG else 1
    return settled(float(number) / count)


def _window(
    column: WindowColumn, rows: Sequence[Owned], columns: Sequence[ColumnRef]
) -> list[Value]:
    """Return a column's value for each row."""
    parts: dict[tuple[Value, ...], list[int]] = {}
    for number, (unit, row) in enumerate(rows):
        part = (unit, *(evaluate(expr, row) for expr in column.parts))
        parts.setdefault(part, []).append(number)
    found: list[Value] = [None] * len(rows)
    for places in parts.values():
        own = [rows[place][1] for place in places]
        values = _over_part(column, own, columns)
        for place, value in zip(places, values, strict=True):
            found[place] = value
    return found


def _over_part(
    column: WindowColumn, rows: Sequence[Row], columns: Sequence[ColumnRef]
) -> list[Value]:
    """Return a column's value for each row of one part."""
    if column.aggregate is not None:
        return [_aggregate(column.aggregate, rows)] * len(rows)
    ranked = column.function in {WindowFunction.RANK, WindowFunction.DENSE_RANK}
    compare = _compare(column.order, [] if ranked else columns)

    def places(one: int, other: int) -> int:
        return compare(rows[one], rows[other])

    order = sorted(range(len(rows)), key=cmp_to_key(places))
    found: list[Value] = [None] * len(rows)
    rank = dense = 0
    for place, number in enumerate(order):
        if place == 0 or compare(rows[order[place - 1]], rows[number]):
            rank, dense = place + 1, dense + 1
        match column.function:
            case WindowFunction.ROW_NUMBER:
                found[number] = place + 1
            case WindowFunction.RANK:
                found[number] = rank
            case WindowFunction.DENSE_RANK:
                found[number] = dense
            case WindowFunction.NTILE:
                found[number] = _tile(place, len(order), column.offset)
            case _:
                back = -1 if column.function is WindowFunction.LAG else 1
                other = place + back * column.offset
                if column.argument is not None and 0 <= other < len(order):
                    found[number] = evaluate(column.argument, rows[order[other]])
    return found


def _tile(place: int, rows: int, tiles: int) -> int:
    """Give the part of a place where rows are parted evenly, the first parts longer by one."""
    size, longer = divmod(rows, tiles)
    if place < longer * (size + 1):
        return place // (size + 1) + 1
    return longer + (place - longer * (size + 1)) // size + 1


def _compare(
    order: Sequence[Sorted], columns: Sequence[ColumnRef]
) -> Callable[[Row, Row], int]:
    """Return what says which of two rows is first: the order, then every column, NULLs last."""
    keys = [
        *order,
        *(Sorted(column, descending=False, nulls_first=False) for column in columns),
    ]

    def compare(one: Row, other: Row) -> int:
        for key in keys:
            decided = _compared(key, evaluate(key.expr, one), evaluate(key.expr, other))
            if decided:
                return decided
        return 0

    return compare


def _compared(key: Sorted, one: Value, other: Value) -> int:
    if one is None or other is None:
        missing = (one is None) - (other is None)
        return -missing if key.nulls_first else missing
    decided = int(one > other) - int(one < other)
    return -decided if key.descending else decided
