"""Codes in DuckDB's SQL: values as integers, clamped before anything can overflow."""

from __future__ import annotations

from fractions import Fraction

from dpquery.core.types import DECIMAL_DIGITS, INTEGER, Interval, Kind, Type
from dpquery.engine.duckdb.expr_sql import (
    SHORT_DIGITS,
    Values,
    cast,
    constant,
    place_sql,
    storage,
)
from dpquery.ir.expr import Code, ColumnRef, Expr, grid_step, on_grid
from dpquery.rowfunctions.base import YEARS, cut_sql, scalar


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
