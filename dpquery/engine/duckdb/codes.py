"""Codes and keys in DuckDB's SQL: values as integers, clamped before anything can overflow."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

from dpquery.engine.duckdb.connection import quoted
from dpquery.engine.duckdb.render import Rows, cast, constant, storage
from dpquery.ir import Code, ColumnRef, Key, Scalar, grid_step, on_grid
from dpquery.policy.model import Table
from dpquery.types import EPOCH, Interval, Kind, Type

__all__ = ["code_sql", "key_sql"]

EPOCH_DAY = "CAST('1970-01-01' AS DATE)"


def code_sql(rows: Rows, code: Code) -> str:
    """Write the code of an expression: NULL where it is NULL, else an integer in its range."""
    value, type_ = rows.value(code.expr), code.expr.type
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
            number = _unscaled(value, code, type_.scale)
        case _:
            number = cast(value, _storage(code))
    return f"({number} - {code.origin})" if code.origin else number


def _inside(code: Code) -> bool:
    """Whether the expression's own range is that of the code."""
    domain = code.expr.domain
    low, high = code.low * code.grid, code.high * code.grid
    return (
        domain.low is not None
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
    number = f"CAST(floor({value} {operator} CAST('{step!r}' AS DOUBLE) + 5e-1) AS BIGINT)"
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
    """Write a decimal's digits as an integer: the product is whole, so the cast is exact."""
    digits = len(str(code.size)) + scale + 1
    wide = f"DECIMAL({18 if digits <= 18 else 38}, {scale})"
    return cast(f"({cast(value, wide)} * {10**scale})", _storage(code))


def _storage(code: Code) -> str:
    return storage(Type(Kind.INTEGER), Interval(Fraction(code.low), Fraction(code.high)))


def key_sql(rows: Rows, table: Table, key: Key) -> str:
    """Write a key: a day as its number; a text uncut where no key is as long as the cut."""
    expr = key.expr
    if expr.type.kind is Kind.DATE:
        return f"({rows.value(expr)} - {EPOCH_DAY})"
    if expr.type.kind is Kind.TEXT and isinstance(expr, ColumnRef):
        longest = max((len(str(value)) for value in key.values), default=0)
        if longest < table.columns[expr.name].max_length:
            return quoted(expr.name)
    return rows.value(expr)
