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
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpquery.core.types import Kind, Type, decimal_value
from dpquery.engine.files import DataChanged
from dpquery.policy.model import Column, DatabaseTable, Table
from dpquery.rowfunctions.base import Value
from dpquery.rowfunctions.evaluate import constant, settled


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
    uncut = replace(other.columns[key], bounds=None, max_length=2**40)
    other = replace(other, columns={key: uncut})
    claims = {(row[key], owner) for owner, row in read_rows(other, [key]) if owner is not None}
    owners = {value: [] for value, _ in claims if value is not None}
    for value, owner in claims:
        if value is not None:
            owners[value].append(owner)
    for value, row in _stored_rows(table, table.through.column, names):
        for owner in owners.get(value, []):
            yield owner, row


def _coded_rows(
    table: Table, names: Sequence[str]
) -> Iterator[tuple[Value, Mapping[str, Value]]]:
    """Return rows whose unit is one text, of one column or of several."""
    parts = table.together or ((table.unit, table.unit_type),)
    read = {name: Column(name, type_, max_length=2**40) for name, type_ in parts}
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
    columns = [table.columns[name] for name in names]
    for path in table.source.paths:
        yield from _rows_of(path, unit, columns)


def _rows_of(
    path: Path, unit: str | None, columns: Sequence[Column]
) -> Iterator[tuple[Value, Mapping[str, Value]]]:
    wanted = {column.name for column in columns} | ({unit} if unit is not None else set())
    with pq.ParquetFile(path) as file:
        data, length = file.read(columns=sorted(wanted)), file.metadata.num_rows
    units = [None] * length if unit is None else _plain(data.column(unit))
    cells = [map(_Clamp(column), _plain(data.column(column.name))) for column in columns]
    names = [column.name for column in columns]
    for owner, *values in zip(units, *cells, strict=True):
        yield owner, dict(zip(names, values, strict=True))


def plain_rows(table: pa.Table) -> Iterator[Mapping[str, Value]]:
    """Return the rows of a public table, by column."""
    cells = [map(_exact, _plain(table.column(name))) for name in table.column_names]
    for values in zip(*cells, strict=True):
        yield dict(zip(table.column_names, values, strict=True))


def _exact(cell: Value) -> Value:
    return Fraction(cell) if isinstance(cell, Decimal) else settled(cell)


def _plain(column: pa.ChunkedArray) -> list[Value]:
    """Return the cells of a column; moments as the integers that the file holds."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    cells: list[Value] = column.to_pylist()
    return cells


class _Clamp:
    """Forces the cells of one column into its domain: NULL and NaN first, then the bounds."""

    def __init__(self, column: Column) -> None:
        self._type = column.type
        self._longest = column.max_length
        self._ends: tuple[Value, Value] | None = None
        if column.bounds is not None:
            low, high = column.bounds.low, column.bounds.high
            self._ends = constant(low, column.type), constant(high, column.type)

    def __call__(self, cell: Value) -> Value:
        value = None if cell is None else self._typed(cell)
        if value is None or self._ends is None:
            return value
        low, high = self._ends
        return low if value < low else high if value > high else value

    def _typed(self, cell: Value) -> Value:
        match self._type.kind:
            case Kind.DOUBLE:
                return settled(float(cell))
            case Kind.DECIMAL:
                return Fraction(cell)
            case Kind.TEXT:
                return cell[: self._longest]
        return cell
