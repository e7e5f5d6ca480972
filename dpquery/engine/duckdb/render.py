"""Our tree to DuckDB's SQL: every name quoted, every literal printed anew, every value clamped.

Each private column is forced into its policy domain before any expression sees it: NULL stays
NULL, NaN becomes NULL, the rest is clamped. What each node means is fixed by the tree, not by
DuckDB's defaults; the Python engine has the same meaning, and both give the same integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from dpquery.engine.duckdb.connection import quoted, text
from dpquery.engine.duckdb.schema import duckdb_name
from dpquery.ir import (
    Arithmetic,
    ColumnRef,
    Compare,
    Expr,
    Filter,
    In,
    IsNull,
    Literal,
    Logic,
    Negate,
    Not,
    Operator,
    Relation,
    TableScan,
    Widen,
)
from dpquery.policy.model import Column, Table
from dpquery.types import INT64, WIDEST_EXACT, Interval, Kind, Type

__all__ = [
    "Expressions",
    "Origin",
    "Place",
    "Rows",
    "cast",
    "clamped",
    "column_name",
    "constant",
    "held_name",
    "kept_key",
    "storage",
]

NAN = "CAST('nan' AS DOUBLE)"
SHORT_DIGITS = 18
"""Decimals of so many digits are held in 64 bits."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a table's rows are read: from its files, or from columns kept in memory.

    What is kept is clamped, and rows without a unit are not among it.
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


def column_name(ref: ColumnRef) -> str:
    """Name a column that a relation gives: by number and name, so that none meet."""
    return quoted(f"{ref.of}.{ref.name}")


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


class Expressions:
    """Renders expressions; how a column is written is for each kind of rows to say."""

    def column(self, ref: ColumnRef) -> str:
        """Write a column in its domain."""
        return column_name(ref)

    def value(self, expr: Expr) -> str:
        """Write an expression; every operand is in brackets or atomic."""
        match expr:
            case ColumnRef():
                return self.column(expr)
            case Literal():
                return literal(expr)
            case Widen():
                return self._widened(expr)
            case Negate() | Arithmetic() if expr.type.kind is Kind.DOUBLE:
                return f"nullif({self._number(expr)}, {NAN})"
            case Negate():
                return self._negated(expr)
            case Arithmetic():
                return self._exact(expr)
            case Compare(operator=operator, left=left, right=right):
                left_text, right_text = self._stored(left, right)
                return f"({left_text} {operator} {right_text})"
            case Logic(conjunction=conjunction, parts=parts):
                joint = " AND " if conjunction else " OR "
                return "(" + joint.join(self.value(part) for part in parts) + ")"
            case Not(operand=operand):
                return f"(NOT {self.value(operand)})"
            case IsNull(operand=operand):
                return f"({self.value(operand)} IS NULL)"
            case In(operand=operand, options=options):
                value, *inside = self._stored(operand, *options)
                return f"({value} IN ({', '.join(inside)}))"

    def _stored(self, *operands: Expr) -> list[str]:
        """Write numbers of one type in one storage, wide enough for all of them."""
        texts = [self.value(operand) for operand in operands]
        if operands[0].type.kind not in {Kind.INTEGER, Kind.DECIMAL}:
            return texts
        wide = _widest([storage(operand.type, operand.domain) for operand in operands])
        return [cast(text_, wide) for text_ in texts]

    def _number(self, expr: Expr) -> str:
        """Write a double in which NaN may stand for NULL, as it does inside arithmetic.

        No operand is written twice, as `nullif` does it: texts would double at each level.
        """
        match expr:
            case Negate(operand=operand):
                return f"(-{self._number(operand)})"
            case Arithmetic(operator=Operator.DIVIDE, left=left, right=right):
                divisor = f"list_filter([{self._number(right)}], lambda v: v <> 0)[1]"
                if isinstance(right, ColumnRef | Literal):  # short, and much faster
                    divisor = f"nullif({self.value(right)}, 0)"
                return f"({self._number(left)} / {divisor})"
            case Arithmetic(operator=operator, left=left, right=right):
                return f"({self._number(left)} {operator} {self._number(right)})"
        return self.value(expr)

    def _exact(self, expr: Arithmetic) -> str:
        """Write an operation so that it cannot raise: in a storage that holds every result.

        Division by zero gives NULL, which is a pin of the connection.
        """
        target = storage(expr.type, expr.domain)
        if expr.type.kind is Kind.DECIMAL and expr.operator is Operator.MULTIPLY:
            return cast(self._product(expr.left, expr.right), target)
        wide = _operand_storage(expr, target)
        left, right = (cast(self.value(side), wide) for side in (expr.left, expr.right))
        result = f"({left} {expr.operator} {right})"
        return cast(result, target) if expr.type.kind is Kind.DECIMAL else result

    def _widened(self, expr: Widen) -> str:
        """Write a wider number; a double is the nearest one.

        DuckDB rounds twice from HUGEINT to DOUBLE, but once from a text.
        """
        operand = self.value(expr.operand)
        if expr.type.kind is Kind.DOUBLE and expr.operand.type.kind is Kind.INTEGER:
            held = _held(expr.operand)
            operand = cast(operand, "VARCHAR" if held == "HUGEINT" else held)
        return cast(operand, _held(expr))

    def _negated(self, expr: Negate) -> str:
        operand = self.value(expr.operand)
        if expr.type.kind is not Kind.DOUBLE:
            operand = cast(operand, _widest([_held(expr), _held(expr.operand)]))
        return f"(-{operand})"

    def _product(self, *factors: Expr) -> str:
        """Write factors in the narrowest decimals that hold them: widths add up.

        Of factors that fit 64 bits DuckDB makes a product that has to fit them too, or raises;
        one digit more in a factor, and it has its full width.
        """
        left, right = (decimal_storage(side.type.scale, side.domain) for side in factors)
        if _digits(left) <= SHORT_DIGITS < _digits(left) + _digits(right):
            left = f"DECIMAL({SHORT_DIGITS + 1}, {factors[0].type.scale})"
        return f"({cast(self.value(factors[0]), left)} * {cast(self.value(factors[1]), right)})"


class Rows(Expressions):
    """Renders expressions over the rows of one table, as they are read."""

    def __init__(self, place: Place) -> None:
        self.table = place.table
        self.origin = place.origin

    def column(self, ref: ColumnRef) -> str:
        """Write a column in its domain."""
        return self.origin.column(self.table.columns[ref.name])

    def relation(self, relation: Relation) -> str:
        """Write FROM and WHERE; rows without a unit are dropped."""
        conditions: list[str] = []
        while isinstance(relation, Filter):
            conditions[:0] = [self._filter(part) for part in _conjuncts(relation.condition)]
            relation = relation.source
        assert isinstance(relation, TableScan)  # noqa: S101 - the tree has no other relation
        if self.table.unit is not None and not self.origin.held:
            conditions.insert(0, f"{quoted(self.table.unit)} IS NOT NULL")
        where = " WHERE " + " AND ".join(f"({c})" for c in conditions) if conditions else ""
        return f"{self.origin.sql}{where}"

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


def _held(expr: Expr) -> str:
    return storage(expr.type, expr.domain)


def _operand_storage(expr: Arithmetic, target: str) -> str:
    """Give the storage that holds the result, both operands, and what lies between."""
    held = [target, _held(expr.left), _held(expr.right)]
    if expr.operator is Operator.REMAINDER and not expr.right.domain.within(0, WIDEST_EXACT):
        # The least BIGINT % -1 raises: DuckDB divides, and the quotient is no BIGINT.
        held.append(storage(expr.type, -expr.left.domain))
    return _widest(held)


def _conjuncts(condition: Expr) -> list[Expr]:
    """Part a condition at its outer ANDs."""
    if isinstance(condition, Logic) and condition.conjunction:
        return [inner for part in condition.parts for inner in _conjuncts(part)]
    return [condition]


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
            nan = f"WHEN {is_nan(column.name)} THEN NULL "
            if column.bounds is None:
                return f"(CASE {nan}ELSE {raw} END)"
        case _:
            raw, nan = cast(name, duckdb_name(column.type)), ""
    bounds = column.bounds
    if bounds is None and column.type.kind is not Kind.DECIMAL:
        return raw
    # A decimal in a file can be wider than its type says; the plan relies on its type.
    low, high = (
        _constant(end, column)
        for end in ((bounds.low, bounds.high) if bounds else _ends(column))
    )
    outside = f"WHEN {raw} < {low} THEN {low} WHEN {raw} > {high} THEN {high}"
    return f"(CASE {nan}{outside} ELSE {raw} END)"


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


def literal(expr: Literal) -> str:
    """Write a literal in its type."""
    return constant(expr.value, expr.type, expr.domain)


def constant(value: int | Fraction | str | bool | date, type_: Type, domain: Interval) -> str:
    """Write a value so that DuckDB reads exactly it, in the type meant.

    >>> constant(3, Type(Kind.INTEGER), Interval.point(3))
    'CAST(3 AS BIGINT)'
    >>> constant(Fraction(1, 10), Type(Kind.DOUBLE), Interval.point(Fraction(1, 10)))
    "CAST('0.1' AS DOUBLE)"
    """
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return text(value)
        case datetime():
            return f"CAST({text(value.isoformat(sep=' '))} AS TIMESTAMP)"
        case date():
            return f"CAST({text(value.isoformat())} AS DATE)"
    if type_.kind is Kind.DOUBLE:
        return f"CAST({text(repr(float(value)))} AS DOUBLE)"
    if type_.kind is Kind.DECIMAL:
        scaled = Fraction(value) * 10**type_.scale
        return cast(
            text(_point(int(scaled), type_.scale)), decimal_storage(type_.scale, domain)
        )
    return cast(str(int(value)), storage(type_, domain))


def _point(scaled: int, scale: int) -> str:
    if scale == 0:
        return str(scaled)
    digits = str(abs(scaled)).rjust(scale + 1, "0")
    return ("-" if scaled < 0 else "") + digits[:-scale] + "." + digits[-scale:]


def storage(type_: Type, domain: Interval) -> str:
    """Give the DuckDB type that holds every value of a type and range."""
    if type_.kind is Kind.INTEGER and not domain.within(*INT64):
        return "HUGEINT"
    if type_.kind is Kind.DECIMAL:
        return decimal_storage(type_.scale, domain)
    return duckdb_name(type_)


def decimal_storage(scale: int, domain: Interval) -> str:
    """Give the narrowest decimal type for a range; a range without ends gets the widest."""
    if domain.low is None or domain.high is None:
        return f"DECIMAL(38, {scale})"
    largest = max(abs(domain.low), abs(domain.high)) * 10**scale
    whole = -(-largest.numerator // largest.denominator)
    return f"DECIMAL({max(len(str(whole)), scale, 1)}, {scale})"


def _widest(storages: list[str]) -> str:
    """Pick the storage that holds the values of all: the longest decimal, or HUGEINT."""
    if storages[0].startswith("DECIMAL"):
        return max(storages, key=_digits)
    return "HUGEINT" if "HUGEINT" in storages else "BIGINT"


def _digits(storage_: str) -> int:
    return int(storage_[len("DECIMAL(") : storage_.index(",")])


def cast(text_: str, storage_: str) -> str:
    """Write a cast that the plan has shown to succeed for every value."""
    return f"CAST({text_} AS {storage_})"
