"""Rows of one table as DuckDB's SQL: every name quoted, every value clamped.

Each private column is forced into its policy domain before any expression sees it: NULL stays
NULL, NaN becomes NULL, a zero loses its sign, the rest is clamped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

from dpquery.core.types import DECIMAL_DIGITS, INTEGER, Interval, Kind, Type, ordinal
from dpquery.engine.duckdb.connection import duckdb_name, quoted, text
from dpquery.engine.duckdb.expr_sql import (
    MOST_PARTS,
    SHORT_DIGITS,
    Values,
    as_one,
    cast,
    constant,
    listed_sql,
    parts_of,
    place_sql,
    settled,
    storage,
)
from dpquery.engine.duckdb.sources.stored_sql import ELEMENT, element_of
from dpquery.engine.duckdb.sources.views import view_name
from dpquery.ir.expr import (
    Code,
    ColumnRef,
    Compare,
    Expr,
    Literal,
    Scalar,
    columns_of,
    grid_step,
    on_grid,
)
from dpquery.ir.measures import Candidates
from dpquery.ir.query import Key, Scan, columns_read, leading
from dpquery.ir.relations import Filter, Relation, TableScan, only_table, tables_of
from dpquery.policy.model import Column, Table
from dpquery.rowfunctions.base import YEARS, cut_sql, scalar
from dpquery.rowfunctions.lists import MOST_VALUES
from dpquery.rowfunctions.ranges import conjuncts


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


# Codes and keys in DuckDB's SQL: values as integers, clamped before anything can overflow.


def code_sql(rows: Values, code: Code) -> str:
    """Write the code of an expression: NULL where it is NULL, else an integer in its range."""
    value, type_ = rows.value(code.expr), code.expr.type
    if code.values:
        return place_sql(value, code)
    if type_.kind is Kind.BOOLEAN:
        return cast(value, "BIGINT")
    if not _inside(code):
        value = cut_sql(value, _end(code.low, code), _end(code.high, code))
    match type_.kind:
        case Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ | Kind.TIME:
            number = _ordinal(value, type_)
        case Kind.DOUBLE:
            number = _on_grid(value, code)
        case Kind.DECIMAL:
            return _unscaled(value, code, type_.scale)
        case _:
            number = cast(value, _storage(code.low, code.high))
    return _less_origin(number, code)


def _ordinal(value: str, type_: Type) -> str:
    """Write a moment as its number since 1970, and any other value as it is."""
    if type_.kind in {Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME}:
        return f"epoch_us({value})"
    return f"({value} - CAST('1970-01-01' AS DATE))" if type_.kind is Kind.DATE else value


def _less_origin(number: str, code: Code) -> str:
    """Subtract the origin, in integers that hold all differences."""
    if not code.origin:
        return number
    differences = (code.low - code.origin, code.high - code.origin)
    wide = _storage(code.low, code.high, *differences)
    if wide == "BIGINT":
        return f"({number} - {code.origin})"
    return cast(f"({cast(number, wide)} - {code.origin})", _storage(*differences))


def _inside(code: Code) -> bool:
    """Return whether the expression's own range is that of the code.

    Computed doubles are rounded and can reach infinity on the way, whatever their range.
    """
    domain, expr = code.expr.domain, code.expr
    if expr.type.kind is Kind.DOUBLE and not (isinstance(expr, ColumnRef) and expr.clamped):
        return False
    low, high = code.range.low, code.range.high
    return low is not None and high is not None and domain.within(low, high)


def _end(end: int, code: Code) -> str:
    """Write an end of the range in the type of the value."""
    type_, place = code.expr.type, end * code.grid
    known = scalar(end, type_) if type_.kind in {Kind.INTEGER, Kind.TIME, *YEARS} else place
    return constant(known, type_, code.range)


def _on_grid(value: str, code: Code) -> str:
    """Write floor(x / grid + 1/2) in doubles, cut where doubles round an end outwards."""
    operator, step = grid_step(code.grid)
    # Doubles round: beside the ends of its type, a code is computed in the wider one.
    held = _storage(2 * code.low, 2 * code.high)
    number = f"CAST(floor({value} {operator} CAST('{step!r}' AS DOUBLE) + 5e-1) AS {held})"
    return cut_sql(number, code.low, code.high) if _rounds_outwards(code) else number


def _rounds_outwards(code: Code) -> bool:
    """Return whether an end has a code outside, in doubles; in between codes are monotone."""
    ends = (code.expr.domain.low, code.expr.domain.high) if _inside(code) else (None, None)
    low, high = (
        on_grid(float(code.grid * at if end is None else end), code.grid)
        for at, end in ((code.low, ends[0]), (code.high, ends[1]))
    )
    return low < code.low or high > code.high


def _unscaled(value: str, code: Code, scale: int) -> str:
    """Write a decimal's digits as an integer: each product is whole, so its cast is exact."""
    if max(len(str(abs(end))) for end in (code.low, code.high)) + scale < SHORT_DIGITS:
        short = cast(value, f"DECIMAL({SHORT_DIGITS}, {scale})")
        return _less_origin(cast(f"({short} * {10**scale})", "BIGINT"), code)
    number = cast(value, f"DECIMAL({DECIMAL_DIGITS}, {scale})")
    if code.origin:
        origin = constant(code.origin * code.grid, code.expr.type, code.range)
        number = f"({number} - {origin})"
    room = DECIMAL_DIGITS - 1 - len(str(code.size))
    while scale:  # a product has the digits of its zeros too, until the cast takes them away
        step = min(room, scale)
        scale -= step
        number = cast(f"({number} * {10**step})", f"DECIMAL({DECIMAL_DIGITS}, {scale})")
    return cast(number, _storage(code.low - code.origin, code.high - code.origin))


def _storage(*ends: int) -> str:
    return storage(INTEGER, Interval(Fraction(min(ends)), Fraction(max(ends))))


def value_sql(rows: Values, expr: Expr) -> str:
    """Write a value that is told from others: moments as numbers."""
    return _ordinal(rows.value(expr), expr.type)


def key_sql(rows: Values, key: Key) -> str:
    """Write a key: a day as its number; a text as what is kept of it, or uncut."""
    if key.expr.type.kind is Kind.DATE:
        return value_sql(rows, key.expr)
    column = uncut(rows.table, key) if isinstance(rows, Place) else None
    if column is not None and kept_values(rows, key) is not None:
        return kept_key(column.name)
    if column is not None and isinstance(rows, Place) and not rows.held:
        return short_text(column, key.values)
    return rows.value(key.expr)


def kept_values(rows: Values, key: Key) -> Sequence[Scalar | None] | None:
    """Return the values of the enumeration that is kept of a text column, if a key is one."""
    if not isinstance(rows, Place) or not rows.held:
        return None
    column = uncut(rows.table, key)
    return enumerated(column) if column is not None and listed(column, key) else None


def enumerated(column: Column) -> Sequence[Scalar | None]:
    """Return what is told apart of a column that is kept for grouping; all else is NULL."""
    return (*(column.keys or ()), *([None] if column.null_group else []))


def no_key(keys: Sequence[Scalar | None]) -> str:
    """Return a text that is longer than every key."""
    return "?" * (_longest(keys) + 1)


def _longest(keys: Sequence[Scalar | None]) -> int:
    return max((len(str(key).encode()) for key in keys if key is not None), default=0)


def short_text(column: Column, keys: Sequence[Scalar | None]) -> str:
    """Write a text as it is where it could be one of the keys, else one that is none.

    What is longer than every key is none of them, and does not travel any further; counting
    bytes is far cheaper than cutting texts. Where NULL is no key, it stands for the rest.
    """
    name = quoted(column.name)
    longest = _longest(keys)
    if None in keys:
        return f"CASE WHEN strlen({name}) > {longest} THEN {text(no_key(keys))} ELSE {name} END"
    return f"CASE WHEN strlen({name}) <= {longest} THEN {name} END"


def uncut(table: Table, key: Key) -> Column | None:
    """Return the text column of a key, where no value of the key is as long as the cut.

    None where all that is not listed is a group.
    """
    if key.expr.type.kind is not Kind.TEXT or not isinstance(key.expr, ColumnRef):
        return None
    if key.rest or not key.values:
        return None
    column = table.columns[key.expr.name]
    longest = max((len(str(value)) for value in key.values if value is not None), default=0)
    return column if longest < column.max_length else None


def listed(column: Column, key: Key) -> bool:
    """Return whether all values of a key are among those that the policy lists.

    What is kept of a column stands for one key alone: those that are found may be several
    together.
    """
    known = key.finding is None and column.keys is not None
    return known and set(key.values) <= set(enumerated(column))


def wanted_columns(scan: Scan, table: Table) -> frozenset[str]:
    """Return what a scan wants kept: columns, listed values of key columns, and units.

    The number of a unit follows from what other units there are. So it stands for the unit
    where units are told from each other alone: not in joins, and not where it is hashed.
    """
    if only_table(scan.relation) is None:
        numbers = {one.number for one in tables_of(scan.relation) if one.table == table.name}
        of_table = (f"c:{ref.name}" for ref in columns_read(scan) if ref.of in numbers)
        return frozenset(of_table) | _unit(table, UNIT)
    named = any(isinstance(measure, Candidates) for measure in scan.measures)
    names = {f"c:{ref.name}" for ref in columns_read(replace(scan, keys=()))}
    if named or not table.single:
        names |= _unit(table, UNIT if named else COUNTED)
    for key in scan.keys:
        column = uncut(table, key)
        if column is not None and listed(column, key):
            names.add(f"k:{column.name}")
        else:
            names |= {f"c:{ref.name}" for ref in columns_of(key.expr).values()}
    return frozenset(names)


def _unit(table: Table, wanted: str) -> set[str]:
    return set() if table.unit is None else {wanted}


# The numbers of groups: the place of a row's keys among those that are declared.


class Numbered(NamedTuple):
    """How the values of a key are numbered, which stand in a column g0, g1, ..."""

    place: str
    """Where a value stands: from 0 on in a run of integers, or as it is listed."""
    limit: str | None = None
    """What keeps to a run."""
    join: str = ""
    """The join that numbers values which are listed one by one."""


def numbered(index: int, key: Key, kept: Sequence[Scalar | None] | None) -> Numbered:
    """Return how the values of a key are numbered.

    Args:
        index: which key of the scan it is.
        key: the key.
        kept: the values of the enumeration that the column is of, where it is one.
    """
    values, rest = key.values[:-1] if key.rest else key.values, str(len(key.values) - 1)
    if key.rest and not values:  # one group holds all rows
        return Numbered(rest)
    missing = kept is None and None in values  # NULL is a group, and the last one
    name, known = f"g{index}", _integers(key, values, kept)
    text = name if kept is None else f"CAST(enum_code({name}) AS BIGINT)"
    if known and not key.rest and known == [*range(known[0], known[0] + len(known))]:
        place, limit = f"({text} - {known[0]})", f"{text} BETWEEN {known[0]} AND {known[-1]}"
        if missing:
            return Numbered(f"coalesce({place}, {len(known)})", f"({limit} OR {name} IS NULL)")
        whole = kept is not None and len(known) == len(kept)  # cheaper for each row
        return Numbered(place, f"{name} IS NOT NULL" if whole else limit)
    written = [*map(str, known or ()), *["NULL"] * missing]
    if known is None:
        type_ = key.expr.type
        written = ["NULL" if value is None else listed_sql(value, type_) for value in values]
    rows = ", ".join(f"({i}, {value})" for i, value in enumerate(written))
    rows = rows or "the groups found"  # in EXPLAIN alone: a scan without any is not run
    same, alias = "IS NOT DISTINCT FROM" if missing else "=", f"l{index}"
    kind = "LEFT JOIN" if key.rest else "JOIN"
    join = f"{kind} (VALUES {rows}) AS {alias}(i, v) ON {text} {same} {alias}.v"
    return Numbered(f"coalesce({alias}.i, {rest})" if key.rest else f"{alias}.i", None, join)


def _integers(
    key: Key, values: Sequence[Scalar | None], kept: Sequence[Scalar | None] | None
) -> list[int] | None:
    """Return values as integers, where they are compared as such: but for NULL."""
    if kept is not None:
        return [kept.index(value) for value in values]
    if key.expr.type.kind not in {Kind.INTEGER, Kind.DATE}:
        return None
    return [
        ordinal(v) if isinstance(v, date) else int(v)
        for v in values
        if isinstance(v, int | Fraction | date)
    ]


def _side_by_side(keys: Mapping[int, Key]) -> Numbered:
    """Return how combinations of keys are numbered that are listed one by one.

    Doubles among them are not compared: what stands beside them tells the groups apart.
    """
    alias = f"l{min(keys)}"
    listed = [(i, key) for i, key in keys.items() if key.expr.type.kind is not Kind.DOUBLE]
    written = [[_listed_key(value, key.expr.type) for value in key.values] for _, key in listed]
    rows = ", ".join(
        f"({i}, {', '.join(row)})" for i, row in enumerate(zip(*written, strict=True))
    )
    rows = rows or "the groups found"  # as above
    names = ", ".join(f"k{i}" for i, _ in listed)
    equal = " AND ".join(
        f"g{i} {'IS NOT DISTINCT FROM' if None in key.values else '='} {alias}.k{i}"
        for i, key in listed
    )
    join = f"JOIN (VALUES {rows}) AS {alias}(i, {names}) ON {equal}"
    return Numbered(f"{alias}.i", None, join)


def _listed_key(value: Scalar | None, type_: Type) -> str:
    """Write a value as a key is: a day as its number."""
    if value is None:
        return "NULL"
    if type_.kind in {Kind.INTEGER, Kind.DATE} and isinstance(value, int | date):
        return str(ordinal(value) if isinstance(value, date) else int(value))
    return listed_sql(value, type_)


@dataclass(frozen=True, slots=True)
class Grouping:
    """The keys of a scan; the last one runs fastest."""

    joins: str
    """The joins that number keys which are listed one by one."""
    limits: list[str]
    """What keeps to the declared keys, where no join does."""
    cell: str
    """The number of a row's group."""


def grouping(rows: Values, keys: Sequence[Key]) -> Grouping:
    """Return how the groups of some keys are numbered."""
    together = leading(keys)
    found = [
        _side_by_side({at: keys[at] for at in (i, *beside)})
        if beside
        else numbered(i, keys[i], kept_values(rows, keys[i]))
        for i, *beside in together
    ]
    cell = found[0].place if found else "0"
    for (first, *_), one in zip(together[1:], found[1:], strict=True):
        cell = f"({cell} * {len(keys[first].values)} + {one.place})"
    return Grouping(
        " ".join(one.join for one in found if one.join),
        [one.limit for one in found if one.limit is not None],
        cast(cell, "BIGINT"),
    )
