"""Codes and keys in DuckDB's SQL: values as integers, clamped before anything can overflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

from dpquery.engine.duckdb.connection import quoted, text
from dpquery.engine.duckdb.render import Rows, kept_key
from dpquery.engine.duckdb.values import (
    SHORT_DIGITS,
    Values,
    cast,
    constant,
    place_sql,
    storage,
)
from dpquery.ir import (
    Code,
    ColumnRef,
    Expr,
    Key,
    Scalar,
    Scan,
    columns_of,
    columns_read,
    grid_step,
    on_grid,
)
from dpquery.policy.model import Column, Table
from dpquery.relations import only_table, tables_of
from dpquery.types import DECIMAL_DIGITS, EPOCH, INTEGER, Interval, Kind, Type

__all__ = [
    "code_sql",
    "enumerated",
    "key_sql",
    "no_key",
    "short_text",
    "value_sql",
    "wanted_columns",
]

EPOCH_DAY = "CAST('1970-01-01' AS DATE)"


def code_sql(rows: Values, code: Code) -> str:
    """Write the code of an expression: NULL where it is NULL, else an integer in its range."""
    value, type_ = rows.value(code.expr), code.expr.type
    if code.values:
        return place_sql(value, code)
    if type_.kind is Kind.BOOLEAN:
        return cast(value, "BIGINT")
    if not _inside(code):
        value = _clamp(value, code, type_)
    match type_.kind:
        case Kind.DATE:
            number = f"({value} - {EPOCH_DAY})"
        case Kind.TIMESTAMP:
            number = f"epoch_us({value})"
        case Kind.DOUBLE:
            number = _on_grid(value, code)
        case Kind.DECIMAL:
            return _unscaled(value, code, type_.scale)
        case _:
            number = cast(value, _storage(code.low, code.high))
    return _less_origin(number, code)


def _less_origin(number: str, code: Code) -> str:
    """Subtract the origin, in integers that hold all differences."""
    if not code.origin:
        return number
    ends = (code.low, code.high, code.low - code.origin, code.high - code.origin)
    wide = _storage(min(ends), max(ends))
    if wide == "BIGINT":
        return f"({number} - {code.origin})"
    difference = f"({cast(number, wide)} - {code.origin})"
    return cast(difference, _storage(min(ends[2:]), max(ends[2:])))


def _inside(code: Code) -> bool:
    """Whether the expression's own range is that of the code.

    Computed doubles are rounded and can reach infinity on the way, whatever their range.
    """
    domain, expr = code.expr.domain, code.expr
    low, high = code.low * code.grid, code.high * code.grid
    return (
        (expr.type.kind is not Kind.DOUBLE or (isinstance(expr, ColumnRef) and expr.clamped))
        and domain.low is not None
        and domain.high is not None
        and low <= domain.low
        and domain.high <= high
    )


def _clamp(value: str, code: Code, type_: Type) -> str:
    low, high = (_end(end, code, type_) for end in (code.low, code.high))
    return _cut(value, low, high)


def _cut(value: str, low: object, high: object) -> str:
    outside = f"WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high}"
    return f"(CASE {outside} ELSE {value} END)"


def _end(end: int, code: Code, type_: Type) -> str:
    """Write an end of the range in the type of the value."""
    place: Scalar = end * code.grid
    match type_.kind:
        case Kind.DATE:
            place = EPOCH.date() + timedelta(days=end)
        case Kind.TIMESTAMP:
            place = EPOCH + timedelta(microseconds=end)
        case Kind.INTEGER:
            place = end
    return constant(place, type_, Interval(code.low * code.grid, code.high * code.grid))


def _on_grid(value: str, code: Code) -> str:
    """Write floor(x / grid + 1/2) in doubles, cut where doubles round an end outwards."""
    operator, step = grid_step(code.grid)
    # Doubles round: beside the ends of its type, a code is computed in the wider one.
    held = _storage(2 * min(code.low, 0), 2 * max(code.high, 0))
    number = f"CAST(floor({value} {operator} CAST('{step!r}' AS DOUBLE) + 5e-1) AS {held})"
    if not _rounds_outwards(code):
        return number
    return _cut(number, code.low, code.high)


def _rounds_outwards(code: Code) -> bool:
    """Whether the code of an end, in doubles, lies outside; in between they are monotone."""
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
        ends = Interval(code.low * code.grid, code.high * code.grid)
        number = f"({number} - {constant(code.origin * code.grid, code.expr.type, ends)})"
    room = DECIMAL_DIGITS - 1 - len(str(code.size))
    while scale:  # a product has the digits of its zeros too, until the cast takes them away
        step = min(room, scale)
        scale -= step
        number = cast(f"({number} * {10**step})", f"DECIMAL({DECIMAL_DIGITS}, {scale})")
    return cast(number, _storage(code.low - code.origin, code.high - code.origin))


def _storage(low: int, high: int) -> str:
    return storage(INTEGER, Interval(Fraction(low), Fraction(high)))


def key_sql(rows: Values, key: Key) -> str:
    """Write a key: a day as its number; a text as what is kept of it, or uncut."""
    expr = key.expr
    if expr.type.kind is Kind.DATE:
        return f"({rows.value(expr)} - {EPOCH_DAY})"
    column = uncut(rows.table, key) if isinstance(rows, Rows) else None
    if isinstance(rows, Rows) and column is not None:
        if not rows.origin.held:
            return short_text(column, key.values)
        if kept_values(rows, key) is not None:
            return kept_key(column.name)
    return rows.value(expr)


def value_sql(rows: Values, expr: Expr) -> str:
    """Write a value that is told from others: moments as numbers."""
    value = rows.value(expr)
    match expr.type.kind:
        case Kind.DATE:
            return f"({value} - {EPOCH_DAY})"
        case Kind.TIMESTAMP:
            return f"epoch_us({value})"
        case _:
            return value


def kept_values(rows: Values, key: Key) -> Sequence[Scalar | None] | None:
    """Give the values of the enumeration that is kept of a text column, if a key is one."""
    if not isinstance(rows, Rows) or not rows.origin.held:
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
    """Give the text column of a key, where no value of the key is as long as the cut.

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
    """Whether all values of a key are among those that the policy lists."""
    return column.keys is not None and set(key.values) <= set(enumerated(column))


def wanted_columns(scan: Scan, table: Table) -> frozenset[str]:
    """Give what a scan wants kept: columns, and the listed values of key columns."""
    if only_table(scan.relation) is None:
        return frozenset(f"c:{ref.name}" for ref in _of_table(scan, table))
    names = {f"c:{ref.name}" for ref in columns_read(replace(scan, keys=()))}
    for key in scan.keys:
        column = uncut(table, key)
        if column is not None and listed(column, key):
            names.add(f"k:{column.name}")
        else:
            names |= {f"c:{ref.name}" for ref in columns_of(key.expr).values()}
    return frozenset(names)


def _of_table(scan: Scan, table: Table) -> Iterator[ColumnRef]:
    """Give the columns of one table that a scan of several relations reads."""
    numbers = {one.number for one in tables_of(scan.relation) if one.table == table.name}
    return (ref for ref in columns_read(scan) if ref.of in numbers)
