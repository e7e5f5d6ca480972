"""From released tables to the answer's table: the query above the frontier, and its noise.

Post-processing: free, and blind to private rows. It can fail by time or memory only, which is
counted (DPQ702).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa

from dpquery.answer import Cell
from dpquery.core.arrow_columns import arrow_type, column
from dpquery.core.types import Kind, Type, decimal_value
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.ir.expr import Scalar
from dpquery.ir.query import Above, IntervalEnd, Scan, combinations
from dpquery.ir.walk import constants_in, filled
from dpquery.plan.plan import Plan
from dpquery.release import ReleasedTable, with_found
from dpquery.simulated_intervals import simulate


def finish(
    above: Above, released: Sequence[ReleasedTable], public: PublicEngine
) -> tuple[pa.Table, list[list[Cell | None]]]:
    """Run the query above, name its columns, and find the noise behind each value."""
    tables = _tables(above, released)
    result = public.run(above, tables)
    numbers = [result.column(name).to_pylist() for name in _numbers(above)]
    table = _shown_columns(above, result)
    cells = _cells(above, released, numbers, table.num_rows)
    for at, simulated in simulate(above, released, tables, result, public.in_worlds).items():
        for row, cell in zip(cells, simulated, strict=True):
            row[at] = cell
    return table, cells


def schema_of(plan: Plan, public: PublicEngine) -> pa.Schema:
    """Return the columns that the answer would have, whatever is released."""
    above, empty = plan.above, []
    for number, frontier in enumerate(plan.frontiers):
        released = {one.column: one.release.type for one in frontier.releases}
        types = {"row": pa.int64()}
        types |= {key.column: arrow_type(key.expr.type) for key in frontier.scan.keys}
        types |= {name: arrow_type(type_) for name, type_ in released.items()}
        types |= {name: types[end.column] for name, end in above.ends if end.frontier == number}
        empty.append(pa.schema(types.items()).empty_table())
    return _shown_columns(above, public.run(above, empty)).schema


def _numbers(above: Above) -> list[str]:
    """Return the columns with the numbers of rows, which are not shown."""
    return [f"r{i}" for i in range(len(above.rows))]


def _shown_columns(above: Above, result: pa.Table) -> pa.Table:
    names = [shown.name for shown in above.columns]
    return result.drop_columns(_numbers(above)).rename_columns(names)


def value_of(above: Above, tables: Sequence[pa.Table], public: PublicEngine) -> Scalar | None:
    """Compute one value from what was released so far: a constant of a later scan."""
    (value,) = public.run(above, tables).column(0).to_pylist()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return Fraction(value) if isinstance(value, float) else value


def _tables(above: Above, released: Sequence[ReleasedTable]) -> list[pa.Table]:
    """Return the released tables as a query finds them, with the ends that it asks for."""
    asked = [
        [part for part in above.ends if part[1].frontier == n] for n in range(len(released))
    ]
    return [_table(one, ends) for one, ends in zip(released, asked, strict=True)]


def _table(released: ReleasedTable, ends: Sequence[tuple[str, IntervalEnd]]) -> pa.Table:
    """Put keys and released columns side by side, with the number of each row."""
    rows = list(combinations(released.keys))
    arrays = {"row": column(range(len(rows)), pa.int64())}
    columns = zip(*rows, strict=True) if rows else iter(() for _ in released.keys)
    for key, values in zip(released.keys, columns, strict=True):
        shown = [_shown(value, key.expr.type) for value in values]
        arrays[key.column] = column(shown, arrow_type(key.expr.type))
    for drawn in released.columns:
        noisy = [cell.value for cell in drawn.cells]
        arrays[drawn.name] = column(noisy, arrow_type(drawn.type))
    arrays |= _ends(released, ends)
    return pa.table(arrays)


def _ends(
    released: ReleasedTable, asked: Sequence[tuple[str, IntervalEnd]]
) -> dict[str, pa.Array]:
    """Return ends of intervals as columns; NULL where noise alone cannot tell."""
    drawn = {one.name: one for one in released.columns}

    @cache
    def intervals(name: str, confidence: Fraction) -> list[tuple[Any, Any] | None]:
        return [cell.interval(confidence) for cell in drawn[name].cells]

    columns = {}
    for name, end in asked:
        both = intervals(end.column, end.confidence)
        ends = [None if one is None else one[end.high] for one in both]
        columns[name] = column(ends, arrow_type(drawn[end.column].type))
    return columns


def _shown(value: Scalar | None, type_: Type) -> object:
    if type_.kind is Kind.DECIMAL and isinstance(value, int | Fraction):
        return decimal_value(int(value * 10**type_.scale), type_.scale)
    if isinstance(value, Fraction):
        return float(value)
    return value


def _cells(
    above: Above,
    released: Sequence[ReleasedTable],
    numbers: Sequence[Sequence[int | None]],
    height: int,
) -> list[list[Cell | None]]:
    """Give, for each row of the result, the releases that its columns show unchanged."""
    sources = [
        [
            (numbers[origin.row], drawn.cells)
            for origin in shown.origins
            for drawn in released[origin.frontier].columns
            if drawn.name == origin.column
        ]
        for shown in above.columns
    ]
    return [[_cell(row, source) for source in sources] for row in range(height)]


def _cell(
    row: int, source: Sequence[tuple[Sequence[int | None], Sequence[Cell]]]
) -> Cell | None:
    """Return the release behind a value; None where it cannot be told."""
    cells = [cells[at] for numbers, cells in source if (at := numbers[row]) is not None]
    return cells[0] if len(cells) == 1 else None


def ready(
    plan: Plan,
    scan: Scan,
    released: Sequence[ReleasedTable],
    values: dict[int, Scalar | None],
    public: PublicEngine,
) -> Scan:
    """Put into a scan what earlier releases have to say in it: groups, and constants."""
    scan = with_found(scan, released)
    if not plan.constants:
        return scan
    tables: dict[object, list[pa.Table]] = {}  # many constants are of the same ones
    for constant in constants_in(scan):
        if constant.number not in values:
            above = plan.constants[constant.number]
            if above.ends not in tables:
                tables[above.ends] = _tables(above, released)
            values[constant.number] = value_of(above, tables[above.ends], public)
    return filled(scan, values)
