"""What the data says of a policy: for the data owner's eyes, never an analyst's.

This is the one module of the policy that reads rows. It streams over the files with pyarrow,
gives counts, and serves `dpquery policy check` alone: a finding depends on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dpquery.core.privacy import Ceiling, decimal_text
from dpquery.core.types import Kind, Type
from dpquery.policy.model import Column, Files, Policy, Table, Value
from dpquery.policy.schema import Misfit, Schema, file_misfits, read_schema, schema_of

if TYPE_CHECKING:
    import pyarrow as pa


# What a policy's budget hardly promises any more, for the data owner: epsilon and delta.
#
# None of it is a fault, since the owner decides how much may be lost. Deltas are held
# against the numbers of units too, which `check.py` counts in the data.


LARGE_EPSILON = 20
"""What censuses have spent in all; most budgets stay below half of it."""
LARGE_DELTA = Fraction(1, 10**5)


def generous(policy: Policy) -> Iterator[tuple[str, str, str]]:
    """Yield section, key and text of each limit that protects little, or never binds."""
    whole = policy.budget.ceiling
    for key, text in _large(whole):
        yield "budget", key, text
    of_query = policy.budget.max_epsilon_per_query
    if of_query is not None and of_query > whole.limit.epsilon:
        yield "budget", "max_epsilon_per_query", _never_binds(of_query, whole.limit.epsilon)
    for name, own in policy.analysts.items():
        yield from ((f"analysts.{name}", *each) for each in _beyond(own, whole))


def _large(ceiling: Ceiling) -> Iterator[tuple[str, str]]:
    epsilon, delta = ceiling.limit.epsilon, ceiling.limit.delta
    if epsilon > LARGE_EPSILON:
        text = (
            f"{decimal_text(epsilon, 4)} is above {LARGE_EPSILON}: answers may nearly show "
            "what is true of one unit; 1 protects well, and 10 is much"
        )
        yield ("epsilon" if ceiling.summed else "rho"), text
    if delta > LARGE_DELTA:
        text = (
            f"{decimal_text(delta)} is above 1e-5: with that chance nothing is promised; "
            "it should be far below 1 / the number of units"
        )
        yield "delta", text


def _beyond(own: Ceiling, whole: Ceiling) -> Iterator[tuple[str, str]]:
    limits = (
        ("epsilon" if own.summed else "rho", own.limit.epsilon, whole.limit.epsilon),
        ("delta", own.limit.delta, whole.limit.delta),
    )
    for key, limit, most in limits:
        if limit > most:
            yield key, _never_binds(limit, most)


def _never_binds(limit: Fraction, most: Fraction) -> str:
    return (
        f"{decimal_text(limit, 4)} is above the {decimal_text(most, 4)} that the policy has in "
        "all: the total binds first"
    )


def above_one_unit(delta: Fraction, units: int) -> str | None:
    """Return what is to be said of a delta that allows to show a unit of so many."""
    if delta * units <= 1:
        return None
    return (
        f"delta = {decimal_text(delta)} is above 1 / {units:,} units: an answer that shows one "
        "of them whole would be allowed"
    )


Misfits = Callable[[Table], list[Misfit]]


class Severity(StrEnum):
    """What a finding means for answers."""

    FAULT = "fault"
    """Every query of the table would fail, or the policy says what is not so."""
    WARNING = "warning"
    """Answers are private, and may be far from what the data says."""
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the data owner should know."""

    severity: Severity
    place: str
    """A table, or a section of the policy."""
    column: str | None
    """Or a key of the section."""
    text: str


@dataclass(slots=True)
class _Tally:
    """Rows of a column, by what would happen to them."""

    rows: int = 0
    missing: int = 0
    nan: int = 0
    below: int = 0
    above: int = 0
    undeclared: int = 0


@dataclass(slots=True)
class _Visit:
    """A table being checked, and what was found so far."""

    table: Table
    delta: Fraction
    """What the policy has in all."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def files(self) -> tuple[Path, ...]:
        """The table's files; none of a table in a database."""
        return self.table.source.paths if isinstance(self.table.source, Files) else ()

    def add(self, severity: Severity, column: str | None, text: str) -> None:
        self.findings.append(Finding(severity, self.table.name, column, text))


def check(policy: Policy, misfits: Misfits = file_misfits) -> list[Finding]:
    """Compare a policy with its data.

    Args:
        policy: what is declared.
        misfits: compares schemas; of a DuckDB file only an engine knows it.
    """
    limits = [Finding(Severity.WARNING, *told) for told in generous(policy)]
    delta = policy.budget.limit.delta
    visits = [_Visit(table, delta) for table in policy.tables.values()]
    return [*limits, *(finding for visit in visits for finding in _check(visit, misfits))]


def _check(visit: _Visit, misfits: Misfits) -> list[Finding]:
    import pyarrow as pa

    table = visit.table
    try:
        public = table.public  # it may be a CSV file, which is read by the declared types
        found = file_misfits(table, partial(_schema, table=table)) if public else misfits(table)
        for misfit in found:
            visit.add(Severity.FAULT, misfit.column, misfit.text)
        if not isinstance(table.source, Files):
            visit.add(Severity.NOTE, None, "its rows stand in a DuckDB file: not checked")
        elif all(misfit.column is not None for misfit in found):
            _check_rows(visit, {misfit.column for misfit in found})
    except (pa.ArrowException, OSError):
        visit.add(Severity.FAULT, None, "a file cannot be read")
    return visit.findings


def _check_rows(visit: _Visit, unsound: set[str | None]) -> None:
    table = visit.table
    names = [*table.columns, *([] if table.unit is None else [table.unit])]
    sound = [name for name in dict.fromkeys(names) if name not in unsound]
    if table.public:
        _check_unique(visit, [name for name in table.unique if _present(visit, name)])
        return
    _check_columns(visit, sound)
    if table.unit in sound:
        _check_unit(visit, table.unit)
    elif table.unit is None:
        _check_delta(visit, _rows(visit))
    column = table.parting
    if table.unit in sound and column is not None and _cut(column, sound):
        _check_parts(visit, table.unit, column)


def _present(visit: _Visit, name: str) -> bool:
    """Return whether each file has a column; of one that is listed, it has been reported."""
    table = visit.table
    lacking = [file for file in visit.files if name not in _schema(file, table).written]
    for file in lacking if name not in table.columns else ():
        visit.add(Severity.FAULT, name, f"{file.name} has no such column")
    return not lacking


def _schema(file: Path, table: Table) -> Schema:
    return schema_of(_csv(file, table).schema) if _is_csv(file) else read_schema(file)


def _is_csv(file: Path) -> bool:
    return file.suffix.lower() == ".csv"


def _csv(file: Path, table: Table) -> pa.Table:
    from pyarrow import csv

    types = {column.name: _arrow(column.type) for column in table.columns.values()}
    return csv.read_csv(file, convert_options=csv.ConvertOptions(column_types=types))


def _batches(visit: _Visit, names: list[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    for file in visit.files:
        if _is_csv(file):
            yield from _csv(file, visit.table).select(names).to_batches()
        else:
            with pq.ParquetFile(file) as parquet:
                yield from parquet.iter_batches(columns=names)


def _check_unique(visit: _Visit, names: list[str]) -> None:
    import pyarrow as pa

    batches = list(_batches(visit, names)) if len(names) == len(visit.table.unique) else []
    if not (names and batches):
        return
    table = pa.Table.from_batches(batches)
    repeated = table.num_rows - table.group_by(names).aggregate([]).num_rows
    if repeated:
        text = f"not unique: {repeated} of {table.num_rows} rows repeat another"
        visit.add(Severity.FAULT, ", ".join(names), text)


def _check_columns(visit: _Visit, sound: list[str]) -> None:
    columns = [visit.table.columns[name] for name in sound if name in visit.table.columns]
    tallies = {column.name: _Tally() for column in columns}
    for batch in _batches(visit, list(tallies)) if tallies else ():
        for column in columns:
            _count(tallies[column.name], column, batch.column(column.name))
    for name, tally in tallies.items():
        _report(visit, name, tally)


def _count(tally: _Tally, column: Column, raw: pa.Array) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    type_ = _arrow(column.type)
    values = pc.cast(raw, type_, safe=False)
    tally.rows += len(values)
    tally.missing += 0 if column.null_group else values.null_count
    if column.type.kind is Kind.DOUBLE:
        tally.nan += _true(pc.is_nan(values))
    if column.bounds is not None:
        low, high = (
            _scalar(end, column.type) for end in (column.bounds.low, column.bounds.high)
        )
        tally.below += _true(pc.less(values, pa.scalar(low, type_)))
        tally.above += _true(pc.greater(values, pa.scalar(high, type_)))
    if column.keys is not None:
        if column.type.kind is Kind.TEXT:
            values = pc.utf8_slice_codeunits(values, 0, column.max_length)
        keys = pa.array([_scalar(key, column.type) for key in column.keys], type_)
        declared = pc.is_in(values, value_set=keys)
        tally.undeclared += _true(pc.and_not(values.is_valid(), declared))


def _true(flags: pa.Array) -> int:
    return int(flags.true_count)


def _report(visit: _Visit, name: str, tally: _Tally) -> None:
    said = (
        (tally.missing, "NULL: no group has them (null_group = false)"),
        (tally.nan, "NaN: they count as NULL"),
        (tally.below, "below the bounds: they count as the low end"),
        (tally.above, "above the bounds: they count as the high end"),
        (tally.undeclared, "of keys that are not declared: no group has them"),
    )
    for count, what in said:
        if count:
            share = f"{count} of {tally.rows} rows ({_percent(count, tally.rows)} %)"
            visit.add(Severity.WARNING, name, f"{share} are {what}")


def _percent(count: int, rows: int) -> str:
    """Write a share in two digits; only all of the rows are 100 %."""
    share = 100 * count / rows
    return f"{share:.2g}" if share < 99 else "100" if count == rows else "more than 99"


def _check_unit(visit: _Visit, unit: str) -> None:
    import pyarrow.compute as pc

    values = _units(list(_batches(visit, [unit])), unit)
    if values.null_count:
        text = f"{values.null_count} of {len(values)} rows have no unit: they never count"
        visit.add(Severity.WARNING, unit, text)
    units = pc.count_distinct(values).as_py()
    rows = len(values) - values.null_count
    _check_delta(visit, units)
    if visit.table.single and units < rows:
        text = f"rows_per_unit = 1 does not hold: {units} units have {rows} rows"
        visit.add(Severity.FAULT, unit, text)
    if not visit.table.single and units < rows:
        _check_limit(visit, unit, values)


def _rows(visit: _Visit) -> int:
    import pyarrow.parquet as pq

    return sum(int(pq.read_metadata(file).num_rows) for file in visit.files)


def _check_delta(visit: _Visit, units: int) -> None:
    shown = above_one_unit(visit.delta, units)
    if shown is not None:
        visit.add(Severity.WARNING, visit.table.unit, shown)


def _check_limit(visit: _Visit, unit: str, values: pa.ChunkedArray) -> None:
    """Return how many rows units have, and what the policy's limit leaves of them."""
    import numpy as np
    import pyarrow.compute as pc

    counts = pc.value_counts(pc.drop_null(values)).field("counts").to_numpy()
    of = ", ".join(
        f"{name} {int(np.quantile(counts, share, method='inverted_cdf')):,}"
        for name, share in (("median", 0.5), ("95 %", 0.95), ("99 %", 0.99), ("largest", 1))
    )
    told = f"{len(counts):,} units have {int(counts.sum()):,} rows: {of} each"
    limit = visit.table.max_rows_contributed
    if limit is None:
        told += "; max_rows_contributed is not stated: each query has to state it"
    visit.add(Severity.NOTE, unit, told)
    if isinstance(limit, int):
        cut = float(np.maximum(counts - limit, 0).sum() / counts.sum())
        if cut:
            text = f"max_rows_contributed = {limit} cuts {100 * cut:.3g} % of the rows' weight"
            visit.add(Severity.WARNING, unit, text)


def _units(batches: list[pa.RecordBatch], unit: str) -> pa.ChunkedArray:
    """Return the units of rows in one type, in which they are equal or not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    integers = all(pa.types.is_integer(batch.schema.field(unit).type) for batch in batches)
    type_ = pa.int64() if integers else pa.string()
    return pa.chunked_array([pc.cast(batch.column(unit), type_) for batch in batches], type_)


def _cut(column: Column, sound: list[str]) -> bool:
    """Return whether units lose rows by a column that can be read."""
    return bool(column.per_unit) and column.name in sound


def _check_parts(visit: _Visit, unit: str, column: Column) -> None:
    """Say of how many units some rows do not count: those beyond the first parts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    batches = list(_batches(visit, list(dict.fromkeys([unit, column.name]))))
    places = [_place(batch.column(column.name), column) for batch in batches]
    rows = pa.table(
        {"unit": _units(batches, unit), "place": pa.chunked_array(places, pa.int32())}
    )
    rows = rows.filter(pc.is_valid(rows["unit"]))
    units = rows.group_by("unit").aggregate([("place", "count_distinct")])
    kept = column.per_unit or 1
    beyond = int(pc.sum(pc.greater(units["place_count_distinct"], kept)).as_py() or 0)
    if beyond:
        many, first = ("several", "") if kept == 1 else (f"more than {kept}", f" {kept}")
        text = (
            f"{beyond} of {units.num_rows} units have rows in {many} parts: "
            f"only those of the first{first} count"
        )
        visit.add(Severity.WARNING, column.name, text)


def _place(raw: pa.Array, column: Column) -> pa.Array:
    """Return the place of each value among the parts of a table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    type_ = _arrow(column.type)
    values = _in_domain(pc.cast(raw, type_, safe=False), column)
    parts = pa.array([_scalar(part, column.type) for part in column.parts], type_)
    return pc.fill_null(pc.index_in(values, value_set=parts), len(column.parts))


def _in_domain(values: pa.Array, column: Column) -> pa.Array:
    """Cut texts and clamp numbers, as a scan does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.type.kind is Kind.TEXT:
        return pc.utf8_slice_codeunits(values, 0, column.max_length)
    if column.bounds is None:
        return values
    low, high = (
        pa.scalar(_scalar(end, column.type), values.type)
        for end in (column.bounds.low, column.bounds.high)
    )
    return pc.max_element_wise(
        pc.min_element_wise(values, high, skip_nulls=False), low, skip_nulls=False
    )


def _arrow(type_: Type) -> pa.DataType:
    import pyarrow as pa

    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return {
        Kind.INTEGER: pa.int64(),
        Kind.DOUBLE: pa.float64(),
        Kind.TEXT: pa.string(),
        Kind.BOOLEAN: pa.bool_(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
    }[type_.kind]


def _scalar(value: Value, type_: Type) -> object:
    """Return a value as pyarrow takes it; a double's as the nearest float: enough to count."""
    if not isinstance(value, Fraction):
        return value
    if type_.kind is Kind.DOUBLE:
        return float(value)
    return Decimal(value.numerator) / Decimal(value.denominator)
