"""Arrow columns of Python values, made of their buffers.

pyarrow's own `array()` imports pandas, wherever that is installed, to find out whether it was
given a piece of it: a tenth of a second at the first answer of each process.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpquery.core.types import UTC_ZONE, Kind, Type, ordinal

_FIRST_DAY = date(1970, 1, 1).toordinal()
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def arrow_type(type_: Type) -> pa.DataType:
    """Return the Arrow type in which released values of a type are handed on."""
    if type_.listed:
        return pa.list_(arrow_type(replace(type_, listed=False)))
    match type_.kind:
        case Kind.INTEGER:
            return pa.int64()
        case Kind.DOUBLE:
            return pa.float64()
        case Kind.DECIMAL:
            return pa.decimal128(38, type_.scale)
        case Kind.TEXT:
            return pa.string()
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us")
        case Kind.TIMESTAMPTZ:
            return pa.timestamp("us", type_.zone or UTC_ZONE)
        case Kind.TIME:
            return pa.time64("us")


def table_of(rows: Sequence[Sequence[object]], fields: Mapping[str, pa.DataType]) -> pa.Table:
    """Return rows as a table; there may be none.

    >>> table_of([(1, None)], {"n": pa.int64(), "unit": pa.string()}).to_pylist()
    [{'n': 1, 'unit': None}]
    """
    values = zip(*rows, strict=True) if rows else [()] * len(fields)
    columns = [column(one, type_) for one, type_ in zip(values, fields.values(), strict=True)]
    return pa.Table.from_arrays(columns, names=list(fields))


def column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return values as a column of one of the types above; None is NULL.

    Raises:
        ValueError: a decimal has more places than its type.
        OverflowError: a number does not fit its type.
    """
    known = [value is not None for value in values]
    validity = None if all(known) else _bits(known)
    if pa.types.is_list(type_):
        ends = array("i", accumulate((len(value or ()) for value in values), initial=0))
        inner = column([item for value in values for item in value or ()], type_.value_type)
        buffers = [validity, pa.py_buffer(ends)]
        return pa.Array.from_buffers(type_, len(values), buffers, children=[inner])
    return pa.Array.from_buffers(type_, len(values), [validity, *_data(values, type_)])


def numbers(values: pa.Array | pa.ChunkedArray, null: float = 0) -> npt.NDArray[Any]:
    """Return the numbers of a column, of its buffers; `to_numpy` imports pandas, too.

    Args:
        values: whole numbers, or doubles.
        null: what stands for NULL.
    """
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    kind = "f" if pa.types.is_floating(whole.type) else "i"
    validity, data = whole.buffers()
    place = slice(whole.offset, whole.offset + len(whole))
    found = np.frombuffer(data or b"", f"{kind}{whole.type.bit_width // 8}")[place]
    if not whole.null_count:
        return found
    bits = np.frombuffer(validity, np.uint8)
    return np.where(np.unpackbits(bits, bitorder="little")[place], found, null)


def _data(values: Sequence[Any], type_: pa.DataType) -> list[pa.Buffer]:
    if pa.types.is_string(type_):
        texts = [b"" if value is None else value.encode() for value in values]
        ends = array("i", accumulate(map(len, texts), initial=0))
        return [pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    if pa.types.is_boolean(type_):
        return [_bits([bool(value) for value in values])]
    if pa.types.is_decimal(type_):
        coded = (b"\0" * 16 if v is None else _decimal(v, type_.scale) for v in values)
        return [pa.py_buffer(b"".join(coded))]
    form, code = _form(type_)
    return [pa.py_buffer(array(form, [0 if v is None else code(v) for v in values]))]


def _form(type_: pa.DataType) -> tuple[str, Callable[[Any], Any]]:
    """Give how a type of fixed width is laid out: the kind of number, and a value's number."""
    if pa.types.is_float64(type_):
        return "d", float
    if pa.types.is_date32(type_):
        return "i", lambda day: day.toordinal() - _FIRST_DAY
    if pa.types.is_timestamp(type_):
        return "q", _moment
    if pa.types.is_time64(type_):
        return "q", ordinal
    return "q", int


def _moment(value: datetime) -> int:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - _FIRST_MOMENT) // _MICROSECOND


def _decimal(value: Decimal | int, scale: int) -> bytes:
    above, below = value.as_integer_ratio()
    code: int
    code, rest = divmod(above * 10**scale, below)
    if rest:
        raise ValueError(f"a decimal has more than {scale} places")
    return code.to_bytes(16, "little", signed=True)


def _bits(flags: Sequence[bool]) -> pa.Buffer:
    """Pack flags eight to a byte, the first one lowest."""
    return pa.py_buffer(np.packbits(np.array(flags, bool), bitorder="little").tobytes())
