"""Rows of Parquet files, each value forced into its policy domain before anything sees it.

A date is held as its number of days, a timestamp as its number of microseconds: files can hold
moments that Python's calendar cannot. A decimal is a `Fraction`; NULL is None, and so is NaN;
a zero has no sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import copysign, isinf, isnan
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpquery.core.types import Kind, Type, decimal_value
from dpquery.engine.file_checks import DataChanged
from dpquery.policy.model import Column, DatabaseTable, Table
from dpquery.rowfunctions.base import Value
from dpquery.rowfunctions.evaluate import constant, settled
from dpquery.rowfunctions.lists import MOST_VALUES
from dpquery.rowfunctions.numeric import half_away


def read_rows(
    table: Table, names: Sequence[str]
) -> Iterator[tuple[Value, Mapping[str, Value]]]:
    """Return each row as its unit, unclamped, and the columns named, clamped.

    A row whose unit stands in another table comes once for each unit that has its key there.

    Raises:
        DataChanged: the table is not in Parquet files.
    """
    if table.through is None and table.owner != table.unit:
        yield from _coded_rows(table, names)
        return
    if table.through is None:
        yield from _stored_rows(table, table.unit, names)
        return
    other, key = table.through.table, table.through.key
    uncut = replace(other.columns[key], bounds=None, max_length=2**40, exact=True)
    other = replace(other, columns={key: uncut})
    claims = {(row[key], owner) for owner, row in read_rows(other, [key]) if owner is not None}
    owners = {value: [] for value, _ in claims if value is not None}
    for value, owner in claims:
        if value is not None:
            owners[value].append(owner)
    column = Column(table.through.column, table.through.type, max_length=2**40, exact=True)
    keys = _stored_rows(replace(table, columns={column.name: column}), None, [column.name])
    rows = _stored_rows(table, None, names)
    for (_, held), (_, row) in zip(keys, rows, strict=True):
        value = held[column.name]
        for owner in owners.get(value, []):
            yield owner, row


def _coded_rows(
    table: Table, names: Sequence[str]
) -> Iterator[tuple[Value, Mapping[str, Value]]]:
    """Return rows whose unit is one text, of one column or of several."""
    parts = table.together or ((table.unit, table.unit_type),)
    read = {name: Column(name, type_, max_length=2**40, exact=True) for name, type_ in parts}
    raw = _stored_rows(replace(table, columns=read), None, [*read])
    for (_, unit), (_, row) in zip(raw, _stored_rows(table, None, names), strict=True):
        texts = [_text(unit[name], type_) for name, type_ in parts]
        if None in texts:
            code = None
        elif table.together:
            code = "".join(f"{len(one.encode())}:{one}" for one in texts)
        else:
            (code,) = texts
        yield code, row


def _text(value: Value, type_: Type) -> str | None:
    if value is None or type_.kind in {Kind.TEXT, Kind.INTEGER}:
        return None if value is None else str(value)
    if type_.kind in {Kind.TIMESTAMP, Kind.TIMESTAMPTZ}:
        return None if value in {1 - 2**63, 2**63 - 1} else str(value)
    if type_.kind is Kind.DATE:
        return (date(1970, 1, 1) + timedelta(value)).isoformat()
    return str(decimal_value(int(value * 10**type_.scale), type_.scale))


def _stored_rows(
    table: Table, unit: str | None, names: Sequence[str]
) -> Iterator[tuple[Value, Mapping[str, Value]]]:
    if isinstance(table.source, DatabaseTable):
        raise DataChanged(
            f"{table.name!r} is in a DuckDB file, which this engine does not read"
        )
    columns = [table.held[name] for name in names]
    for path in table.source.paths:
        yield from _rows_of(path, unit, columns)


def _rows_of(
    path: Path, unit: str | None, columns: Sequence[Column]
) -> Iterator[tuple[Value, Mapping[str, Value]]]:
    wanted = {(column.path or (column.name,))[0] for column in columns} | (
        {unit} if unit is not None else set()
    )
    with pq.ParquetFile(path) as file:
        data, length = file.read(columns=sorted(wanted)), file.metadata.num_rows
    units = [None] * length if unit is None else _plain(data.column(unit))
    cells = [
        map(_Clamp(column), _plain(_field(data, column), exact=column.exact))
        for column in columns
    ]
    names = [column.name for column in columns]
    for owner, *values in zip(units, *cells, strict=True):
        yield owner, dict(zip(names, values, strict=True))


def _field(data: pa.Table, column: Column) -> pa.ChunkedArray:
    """Return a column, or a field inside of its structures."""
    if column.name in data.column_names:
        return data.column(column.name)
    first, *others = column.path
    return reduce(lambda of, name: pc.struct_field(of, [name]), others, data.column(first))


def plain_rows(table: pa.Table) -> Iterator[Mapping[str, Value]]:
    """Return the rows of a public table, by column."""
    cells = [map(_exact, _plain(table.column(name))) for name in table.column_names]
    for values in zip(*cells, strict=True):
        yield dict(zip(table.column_names, values, strict=True))


def _exact(cell: Value) -> Value:
    return Fraction(cell) if isinstance(cell, Decimal) else settled(cell)


def _plain(column: pa.ChunkedArray, *, exact: bool = False) -> list[Value]:
    """Return the cells of a column; moments as the integers that the file holds.

    Args:
        column: what the file has.
        exact: whether what is between two microseconds is NULL.
    """
    type_ = column.type
    if pa.types.is_date32(type_):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        column = column.cast(pa.int64())
    elif pa.types.is_time32(type_):
        column = column.cast(pa.int32())
    elif pa.types.is_list(type_):
        lists = (None if one.values is None else one.values for one in column)
        return [None if one is None else _plain(pa.chunked_array([one])) for one in lists]
    cells: list[Value] = column.to_pylist()
    if isinstance(type_, pa.UuidType):
        return [None if cell is None else str(cell) for cell in cells]
    if pa.types.is_temporal(type_) and not pa.types.is_date(type_):
        if exact and type_.unit == "ns":
            cells = [None if cell is None or cell % 1000 else cell for cell in cells]
        return [_microseconds(c, type_.unit, clock=pa.types.is_time(type_)) for c in cells]
    return cells


def _microseconds(cell: int | None, unit: str, *, clock: bool) -> int | None:
    """Return a moment in microseconds; NULL for those of nanoseconds that are infinite.

    A time beyond the day is NULL, and a millisecond without microseconds is infinite.
    """
    day = 24 * 3600 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    if cell is None or (clock and not 0 <= cell < day):
        return None
    if unit == "us":
        return cell
    if unit in {"s", "ms"}:
        return max(1 - 2**63, min(2**63 - 1, cell * {"ms": 1000, "s": 10**6}[unit]))
    if unit == "ns" and cell in {1 - 2**63, 2**63 - 1}:
        return None
    return cell // 1000


class _Clamp:
    """Forces the cells of one column into its domain: NULL and NaN first, then the bounds."""

    def __init__(self, column: Column) -> None:
        self._type = column.type
        self._longest = column.max_length
        self._exact = column.exact
        self._ends: tuple[Value, Value] | None = None
        if column.bounds is not None:
            low, high = column.bounds.low, column.bounds.high
            self._ends = constant(low, column.type), constant(high, column.type)
        elif column.type.kind in {Kind.INTEGER, Kind.DECIMAL}:
            self._ends = column.interval.low, column.interval.high

    def __call__(self, cell: Value) -> Value:
        if self._type.listed and cell is not None:
            return [
                None if each is None else self._clamped(each) for each in cell[:MOST_VALUES]
            ]
        return self._clamped(cell)

    def _clamped(self, cell: Value) -> Value:
        value = None if cell is None else self._typed(cell)
        if value is None or self._ends is None:
            return value
        low, high = self._ends
        if self._exact and not low <= value <= high:
            return None
        if self._type.kind is Kind.INTEGER or (
            self._type.kind is Kind.DECIMAL and not self._type.scale
        ):
            low, high = int(low), int(high)
        return low if value < low else high if value > high else value

    def _typed(self, cell: Value) -> Value:
        match self._type.kind:
            case Kind.INTEGER if self._exact and cell % 1:
                return None  # NaN and infinity too: what is left of them is NaN
            case Kind.DOUBLE:
                return settled(float(cell))
            case Kind.DECIMAL:
                return Fraction(cell) if self._type.scale else int(cell)
            case Kind.TEXT:
                return cell[: self._longest]
            case Kind.INTEGER if isinstance(cell, Decimal):
                return half_away(Fraction(cell))
            case Kind.INTEGER if isinstance(cell, float):
                if isnan(cell) or isinf(cell):
                    return None if isnan(cell) else int(copysign(2**63, cell))
                return round(cell)
        return cell
