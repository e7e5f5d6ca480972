"""The code of an expression for one row: its value clamped, on the grid, as an integer."""

from __future__ import annotations

from dpquery.core.types import Kind
from dpquery.ir.expr import Code, grid_step, on_grid
from dpquery.rowfunctions.evaluate import Row, constant, evaluate


def code_of(code: Code, row: Row) -> int | None:
    """Return the code of a row, or None where the expression is NULL."""
    value = evaluate(code.expr, row)
    if value is None:
        return None
    if code.values:
        listed = [constant(each, code.expr.type) for each in code.values]
        return listed.index(value) if value in listed else None
    match code.expr.type.kind:
        case Kind.DOUBLE:
            low, high = float(code.low * code.grid), float(code.high * code.grid)
            number = on_grid(min(max(value, low), high), code.grid)
        case Kind.DECIMAL:
            number = int(value / code.grid)
        case _:
            number = int(value)
    return min(max(number, code.low), code.high) - code.origin


def from_sum(code: Code, total: int) -> float:
    """Return a sum of codes in the measure of the values."""
    operator, step = grid_step(code.grid)
    return float(total) / step if operator == "*" else float(total) * step
