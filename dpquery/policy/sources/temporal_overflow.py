"""Moments of Arrow that DuckDB cannot read by all of their values, as such that it can.

A file may hold a time of day beyond the day, and a millisecond that has no number of
microseconds. DuckDB stops at either, so that one person's value would fail every scan. Here the
first becomes NULL, and the second infinite; files that may have such values are read by Arrow.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import types as is_

from dpquery.core.types import DECIMAL_DIGITS

_OF_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 24 * 3600
_MOST = 2**63 - 1
_ROWS = 2**13
"""Rows that are read at a time: with lists in them, all that is held."""


def partial(type_: pa.DataType) -> bool:
    """Return whether DuckDB fails by some values of a type, or of what is inside of it.

    >>> partial(pa.timestamp("ms")), partial(pa.timestamp("us")), partial(pa.time64("us"))
    (True, False, True)
    """
    if is_.is_list(type_) or is_.is_large_list(type_) or is_.is_dictionary(type_):
        return partial(type_.value_type)
    if is_.is_struct(type_):
        return any(partial(one.type) for one in type_.fields)
    return is_.is_time(type_) or (is_.is_timestamp(type_) and type_.unit in {"s", "ms"})


def total(values: pa.Array) -> pa.Array:
    """Return values of a type of which DuckDB reads each one."""
    type_ = values.type
    if is_.is_dictionary(type_):  # the batches of a stream have different ones
        return total(values.dictionary_decode())
    if is_.is_time(type_):
        return _times(values)
    if is_.is_timestamp(type_) and partial(type_):
        return _timestamps(values)
    if is_.is_float16(type_):
        return values.cast(pa.float32())
    if is_.is_decimal256(type_) and type_.precision <= DECIMAL_DIGITS:
        return values.cast(pa.decimal128(type_.precision, type_.scale), safe=False)
    if is_.is_string(type_) or is_.is_large_string(type_):
        return _texts(values)
    if is_.is_struct(type_):
        inner = [total(values.field(at)) for at in range(type_.num_fields)]
        fields = [f.with_type(a.type) for f, a in zip(type_.fields, inner, strict=True)]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=values.is_null())
    if not (is_.is_list(type_) or is_.is_large_list(type_)):
        return values
    inner = total(values.values)
    made = pa.large_list(inner.type) if is_.is_large_list(type_) else pa.list_(inner.type)
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(
        made, len(values), buffers, values.null_count, values.offset, [inner]
    )


def _texts(values: pa.Array) -> pa.Array:
    """Return texts, with a question mark for each byte that is none, as DuckDB reads files."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raw = values.view(pa.binary() if is_.is_string(values.type) else pa.large_binary())
        texts = (None if one is None else one.decode(errors=_MARKED) for one in raw.to_pylist())
        return pa.array(texts, values.type)
    return values


_MARKED = "dpquery-marked"


def _marked(fault: UnicodeError) -> tuple[str, int]:
    assert isinstance(fault, UnicodeDecodeError)  # noqa: S101 - nothing is encoded
    return "?" * (fault.end - fault.start), fault.end


codecs.register_error(_MARKED, _marked)


def _times(values: pa.Array) -> pa.Array:
    """Return times of day in microseconds; NULL for what is beyond the day."""
    import pyarrow.compute as pc  # loaded where such files are read

    type_, unit = values.type, _OF_SECOND[values.type.unit]
    numbers = values.view(pa.int32() if type_.bit_width == 32 else pa.int64()).cast(pa.int64())
    inside = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, _DAY * unit))
    held = pc.if_else(inside, numbers, None)
    if unit > 10**6:
        return pc.divide(held, unit // 10**6).view(pa.time64("us"))
    return pc.multiply(held, 10**6 // unit).view(pa.time64("us"))


def _timestamps(values: pa.Array) -> pa.Array:
    """Return moments in microseconds; infinite ones for what is beyond these."""
    import pyarrow.compute as pc

    numbers, times = values.view(pa.int64()), 10**6 // _OF_SECOND[values.type.unit]
    most = (_MOST - 1) // times
    early = pc.if_else(pc.less(numbers, -most), -_MOST, pc.multiply(numbers, times))
    found = pc.if_else(pc.greater(numbers, most), _MOST, early)
    return found.view(pa.timestamp("us", values.type.tz))


def total_rows(rows: pa.Table) -> pa.Table:
    """Return a table whose columns DuckDB reads by each of their values."""
    for at, column in enumerate(rows.columns):
        if partial(column.type):
            type_ = _type(column.type)
            chunks = pa.chunked_array([total(chunk) for chunk in column.chunks], type_)
            rows = rows.set_column(at, rows.field(at).with_type(type_), chunks)
    return rows


def total_batches(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return what a reader gives, as DuckDB reads it by each of its values."""
    made = pa.schema([one.with_type(_type(one.type)) for one in rows.schema])
    batches = (pa.record_batch(_columns(batch), schema=made) for batch in rows)
    return pa.RecordBatchReader.from_batches(made, batches)


def _type(type_: pa.DataType) -> pa.DataType:
    return total(pa.array([], type_)).type if partial(type_) else type_


def _columns(batch: pa.RecordBatch) -> list[pa.Array]:
    return [total(one) if partial(one.type) else one for one in batch.columns]


class MomentsOfFiles:
    """Some columns of Parquet files of one schema, as a stream that can be read again."""

    def __init__(self, paths: Sequence[Path], names: Iterable[str], path: str | None) -> None:
        """Name files, columns, and that of the place of each row's file, if there is one."""
        self._paths = tuple(paths)
        self._names = frozenset(names)
        self._path = path

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Begin to read, for whatever reads Arrow."""
        batches = self._batches()
        first = next(batches)  # of no row
        found = pa.RecordBatchReader.from_batches(first.schema, batches)
        return found.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield a batch of no row, which has the types, and then the rows."""
        import pyarrow.parquet as pq

        for number, path in enumerate(self._paths):
            with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
                schema = file.schema_arrow
                named = [one for one in schema.names if one in self._names]
                if not number:
                    empty = {name: pa.nulls(0, schema.field(name).type) for name in named}
                    yield self._batch(empty, path)
                for batch in file.iter_batches(_ROWS, columns=named):
                    yield self._batch({name: batch.column(name) for name in named}, path)

    def _batch(self, columns: Mapping[str, pa.Array], path: Path) -> pa.RecordBatch:
        made = {name: total(column) for name, column in columns.items()}
        if self._path is not None:
            rows = len(next(iter(made.values())))
            made[self._path] = pa.array([str(path)] * rows, pa.string())
        return pa.record_batch(made)
