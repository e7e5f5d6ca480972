"""From released columns to the answer's table: the query above the frontier, and its noise.

Post-processing: free, and blind to private rows. It can fail by time or memory only (DPQ702).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dpquery.answer import Cell
from dpquery.engine.duckdb.public import PublicEngine, arrow_type
from dpquery.ir import Above
from dpquery.release import ReleasedColumn

__all__ = ["finish"]

Released = Sequence[tuple[ReleasedColumn, ...]]


def finish(
    above: Above, released: Released, public: PublicEngine
) -> tuple[pa.Table, list[list[Cell | None]]]:
    """Run the query above, name its columns, and find the noise behind each value."""
    result = public.run(above, [_table(columns) for columns in released])
    rows: list[int] = []
    if above.numbered:
        rows = result.column("row").to_pylist()
        result = result.drop_columns(["row"])
    table = result.rename_columns([column.name for column in above.columns])
    return table, _cells(above, released, rows)


def _table(columns: tuple[ReleasedColumn, ...]) -> pa.Table:
    """Put released columns side by side, with the number of each row."""
    height = len(columns[0].cells)
    arrays = {"row": pa.array(range(height), pa.int64())}
    for column in columns:
        values = [cell.value for cell in column.cells]
        arrays[column.name] = pa.array(values, arrow_type(column.type))
    return pa.table(arrays)


def _cells(above: Above, released: Released, rows: list[int]) -> list[list[Cell | None]]:
    """Give, for each row of the result, the releases that its columns show unchanged."""
    sources: list[Sequence[Cell] | None] = []
    for column in above.columns:
        if column.origin is None:
            sources.append(None)
            continue
        frontier, name = column.origin
        sources.append(next(c.cells for c in released[frontier] if c.name == name))
    return [[None if cells is None else cells[row] for cells in sources] for row in rows]
