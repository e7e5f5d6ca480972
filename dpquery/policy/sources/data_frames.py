"""Rows in memory, of whatever library they are, as one Arrow table.

No value and no text of another library's error ever stands in a message: they can quote rows.
What a column is, is decided by its type and not by its values, so that one row more changes no
type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from dpquery.core.types import DECIMAL_DIGITS
from dpquery.policy.document import Unfit
from dpquery.policy.sources.temporal_overflow import total_rows

_KIND = "pandas, polars, Arrow or DuckDB"


def is_frame(value: object) -> bool:
    """Return whether something holds rows in memory: what Arrow can read has this method."""
    return hasattr(type(value), "__arrow_c_stream__") or isinstance(value, pa.RecordBatch)


def read_frame(value: Any) -> pa.Table:
    """Return the rows of a frame, which nobody else can change.

    Raises:
        Unfit: DPQ608 it can be read once only, or Arrow cannot hold it.
    """
    why = f"rows in memory are a frame of {_KIND}."
    if isinstance(value, pa.RecordBatchReader):
        what = "is a reader, which gives its rows once"
        raise Unfit(what, why, "reader.read_all()", code="DPQ608")
    try:
        rows = _read(value)
        types = [_engines(one.type) for one in rows.schema]
        rows = rows.select([at for at, type_ in enumerate(types) if type_ is not None])
        kept = [type_ for type_ in types if type_ is not None]
        rows = rows.cast(pa.schema([*zip(rows.column_names, kept, strict=True)]))
        rows = total_rows(rows)
        rows.validate(full=True)
    except Exception:  # noqa: BLE001 - whatever is wrong, its text can quote rows
        rows = None
    if rows is None:
        what = f"cannot be read as a table: {type(value).__name__}"
        raise Unfit(
            what, why, "df.write_parquet, or to_parquet, and name the file", code="DPQ608"
        )
    return rows


def _engines(type_: pa.DataType) -> pa.DataType | None:
    """Return the type in which DuckDB reads a column of Arrow with all of its values.

    None where there is none: it would read no other column beside it.
    """
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_decimal256(type_):
        fits = type_.precision <= DECIMAL_DIGITS
        return pa.decimal128(type_.precision, type_.scale) if fits else None
    return type_


def _read(value: Any) -> pa.Table:
    match value:
        case pa.Table():
            return value
        case pa.RecordBatch():
            return pa.Table.from_batches([value])
    match type(value).__module__.partition(".")[0]:
        case "pandas":
            return _of_pandas(value)
        case "polars":
            return value.to_arrow()
        case "duckdb" | "_duckdb":
            return value.to_arrow_table()
    return pa.RecordBatchReader.from_stream(value).read_all()


def _of_pandas(frame: Any) -> pa.Table:
    """Return the columns of a pandas frame, and of its index where that has names; copied."""
    named = [name for name in frame.index.names if name is not None]
    index = [(name, frame.index.get_level_values(name)) for name in named]
    columns = [*index, *frame.items()]
    arrays = [_column(values) for _, values in columns]
    rows = pa.Table.from_arrays(arrays, names=[str(name) for name, _ in columns])
    copied = pa.BufferOutputStream()  # what a frame lends is changed by whoever writes to it
    with pa.ipc.new_stream(copied, rows.schema) as stream:
        stream.write_table(rows)
    return pa.ipc.open_stream(copied.getvalue()).read_all()


def _column(values: Any) -> pa.Array:
    """Return a column; of objects the texts, and NULL for all others."""
    if values.dtype != object:
        try:
            return pa.array(values, from_pandas=True)
        except (pa.ArrowException, UnicodeEncodeError):
            pass
    return pa.array(_texts(values), pa.large_string())


def _texts(values: Iterable[object]) -> list[str | None]:
    return [one if isinstance(one, str) and _encodes(one) else None for one in values]


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
