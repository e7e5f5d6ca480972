"""What the data says of a policy: for the data owner's eyes, never an analyst's.

This is the one module of the policy that reads rows. It streams over them, gives counts, and
serves `dpquery policy check` alone: a finding depends on the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpquery.core.arrow_columns import arrow_type
from dpquery.core.arrow_columns import column as arrow_column
from dpquery.core.privacy_loss import Ceiling, decimal_text
from dpquery.core.types import DOUBLE, INTEGER, TEXT, Kind, Type
from dpquery.policy.model import Column, External, Files, Parquet, Policy, Table
from dpquery.policy.owner.cross_table_checks import (
    Owners,
    exposed,
    lacking,
    names_of,
    owners,
    shared,
)
from dpquery.policy.sources.schema import file_schemas
from dpquery.policy.sources.schema_mismatches import Misfit, lacking_columns
from dpquery.policy.sources.snapshot_reader import LONGEST

Misfits = Callable[[Table], list[Misfit]]
Rows = Callable[[Table, Sequence[str]], Iterable[pa.RecordBatch]]
"""Gives some columns of all rows of a table, as scans read them."""

WRONG_KEY = Fraction(9, 10)
"""Where no unit claims so many of the keys, they are keys of something else."""
LARGE_EPSILON = 20
"""What censuses have spent in all; most budgets stay below half of it."""
LARGE_DELTA = Fraction(1, 10**5)


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


def check(policy: Policy, misfits: Misfits, rows: Rows) -> list[Finding]:
    """Compare a policy with its data.

    Args:
        policy: what is declared.
        misfits: compares schemas.
        rows: reads tables; both are an engine's, which knows all kinds of sources.
    """
    findings = [Finding(Severity.WARNING, *told) for told in _limits(policy)]
    units: dict[str, pa.Array] = {}
    for table in policy.tables.values():
        visit = _Visit(table, policy.budget.limit.delta, rows, units)
        findings += (
            Finding(severity, table.name, column, text)
            for severity, column, text in _table(visit, misfits)
        )
    told = [
        *shared(policy, units),
        *exposed(policy, units, visit.types_of, visit.rows_of),
        *lacking(policy, visit.rows_of),
    ]
    return [*findings, *(Finding(Severity(one[0]), *one[1:]) for one in told)]


# Limits that promise little, or never bind. None is a fault: the owner decides.


def _limits(policy: Policy) -> Iterator[tuple[str, str, str]]:
    """Yield section, key and text of each."""
    whole = policy.budget.ceiling
    epsilon, delta = whole.limit.epsilon, whole.limit.delta
    if epsilon > LARGE_EPSILON:
        text = (
            f"{decimal_text(epsilon, 4)} is above {LARGE_EPSILON}: answers may nearly show "
            "what is true of one unit; 1 protects well, and 10 is much"
        )
        yield "budget", _key(whole), text
    if delta > LARGE_DELTA:
        text = (
            f"{decimal_text(delta)} is above 1e-5: with that chance nothing is promised; "
            "it should be far below 1 / the number of units"
        )
        yield "budget", "delta", text
    of_query = policy.budget.max_epsilon_per_query or Fraction(0)
    limits = [("budget", "max_epsilon_per_query", of_query, epsilon)]
    for name, own in policy.analysts.items():
        limits.append((f"analysts.{name}", _key(own), own.limit.epsilon, epsilon))
        limits.append((f"analysts.{name}", "delta", own.limit.delta, delta))
    for section, key, limit, most in limits:
        if limit > most:
            above = f"{decimal_text(limit, 4)} is above the {decimal_text(most, 4)}"
            yield section, key, f"{above} that the policy has in all: the total binds first"


def _key(ceiling: Ceiling) -> str:
    return "epsilon" if ceiling.summed else "rho"


# The rows of a table, held against what is declared of them.

Told = tuple[Severity, str | None, str]


@dataclass(frozen=True, slots=True)
class _Visit:
    """A table that is checked."""

    table: Table
    delta: Fraction
    """What the policy has in all."""
    rows: Rows
    units: dict[str, pa.Array]
    """The different units of each table that was checked."""

    def types_of(self, table: Table) -> Mapping[str, Type]:
        """Return the columns of a table; of one that lists none, those of its files."""
        listed = {column.name: column.type for column in table.columns.values()}
        return listed or next((one.types for one in file_schemas(table)), {})

    def rows_of(self, table: Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of another table."""
        yield from replace(self, table=table).batches(names)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows."""
        yield from self.rows(self.table, names)

    def read_as(self, column: Column, type_: Type) -> Iterator[pa.Array]:
        """Yield a column of a private table as if another type were declared."""
        declared = Column(column.name, type_, max_length=LONGEST, path=column.path)
        columns = {**self.table.columns, column.name: declared}
        table = replace(self.table, columns=columns, single=False)
        for batch in self.rows(table, [column.name]):
            yield batch.column(0)


def _table(visit: _Visit, misfits: Misfits) -> Iterator[Told]:
    table = visit.table
    try:
        found = misfits(table)
        further = [] if table.public or not table.way[1:] else misfits(table.way[1])
        for one in found:
            of = f" (a key of {table.way[1].name})" if one in further else ""
            yield Severity.FAULT, one.column, one.text + of
        if not table.public and not found:
            lack = lacking_columns(table)
            yield from ((Severity.NOTE, one.column, one.text) for one in lack)
        if not table.public and all(misfit.column is not None for misfit in found):
            unsound = {misfit.column for misfit in found}
            if any(misfits(one) for one in table.way[1:]):  # which is told of that table
                unsound.add(table.unit)
            yield from _rows(visit, unsound)
    except (pa.ArrowException, OSError):
        yield Severity.FAULT, None, "a file cannot be read"


def _rows(visit: _Visit, unsound: set[str | None]) -> Iterator[Told]:
    table = visit.table
    for column in table.columns.values():
        if column.name not in unsound:
            yield from _values(visit, column)
    if table.unit is None:
        yield from _delta(visit, sum(batch.num_rows for batch in visit.batches([])))
    elif not unsound & {table.unit, table.through and table.through.column}:
        yield from _units(visit, table.unit)
        parting = table.parting
        if table.together or parting is None:
            return
        if parting.per_unit and parting.name not in unsound:
            yield from _parts(visit, table.unit, parting, parting.per_unit)


def _values(visit: _Visit, column: Column) -> Iterator[Told]:
    """Count the values that are lost or rounded, clamped, or in no group."""
    rows, present, counts = 0, 0, Counter[str]()
    for batch in visit.batches([column.name]):
        values = _read(batch.column(0), column)
        rows += len(values)
        present += len(values) - values.null_count
        for what, found in _doubts(values, column):
            counts[what] += found.true_count
    yield from _misread(visit, column, present)
    for what, count in counts.items():
        if count:
            share = f"{count} of {rows} rows ({_percent(count, rows)} %)"
            yield Severity.WARNING, column.name, f"{share} are {what}"


def _misread(visit: _Visit, column: Column, present: int) -> Iterator[Told]:
    """Count values that have none of the declared type, or the nearest one."""
    source, kind = visit.table.source, column.type.kind
    lines = isinstance(source, Files) and not isinstance(source.format, Parquet)
    if lines and kind is not Kind.TEXT:
        texts = visit.read_as(column, TEXT)
        written = sum(len(values) - values.null_count for values in texts)
        if written > present:
            told = f"{written - present} of {written} values are no {kind}: they are NULL"
            yield Severity.WARNING, column.name, told
    exact = {visit.table.unit, *(name for name, _ in visit.table.together)}  # else NULL
    if visit.table.through is not None:
        exact.add(visit.table.through.column)
    rounded = kind is Kind.INTEGER and column.name not in exact
    if rounded and (lines or not _all_integers(visit.table, column)):
        broken = 0
        for values in visit.read_as(column, DOUBLE):
            broken += pc.sum(pc.not_equal(values, pc.trunc(values))).as_py() or 0
        if broken:
            told = f"{broken} of {present} values are not whole: they count as the nearest"
            yield Severity.WARNING, column.name, told


def _all_integers(table: Table, column: Column) -> bool:
    """Return whether the schema of a table's source is known to have integers there."""
    if isinstance(table.source, External):
        return True  # which its library makes them, one by one
    schemas = list({id(one): one for one in file_schemas(table)}.values())
    return bool(schemas) and all(
        one.types.get(column.name, INTEGER) == INTEGER for one in schemas
    )


def _doubts(values: pa.Array, column: Column) -> Iterator[tuple[str, pa.BooleanArray]]:
    """Yield what becomes of some values, and which these are."""
    if not column.null_group:
        yield "NULL: no group has them (null_group = false)", values.is_null()
    if column.type.kind is Kind.DOUBLE:
        yield "NaN: they count as NULL", pc.is_nan(values)
    if column.bounds is not None:
        low, high = arrow_column((column.bounds.low, column.bounds.high), values.type)
        yield "below the bounds: they count as the low end", pc.less(values, low)
        yield "above the bounds: they count as the high end", pc.greater(values, high)
    if column.keys is not None:
        declared = pc.is_in(values, value_set=arrow_column(column.keys, values.type))
        what = "of keys that are not declared: no group has them"
        yield what, pc.and_not(values.is_valid(), declared)


def _read(raw: pa.Array, column: Column) -> pa.Array:
    """Return values in the column's type, texts cut as a scan does."""
    values = pc.cast(raw, arrow_type(column.type), safe=False)
    if column.type.kind is Kind.TEXT:
        return pc.utf8_slice_codeunits(values, 0, column.max_length)
    return values


def _percent(count: int, rows: int) -> str:
    """Write a share in two digits; only all of the rows are 100 %."""
    share = 100 * count / rows
    return f"{share:.2g}" if share < 99 else "100" if count == rows else "more than 99"


def _units(visit: _Visit, unit: str) -> Iterator[Told]:
    """Say how many rows units have, and what the policy's limit leaves of them."""
    through, found = visit.table.through, owners(visit.table, visit.rows)
    yield from _owned(visit.table, unit, found)
    counted = pc.value_counts(found.units)
    if through is None:
        visit.units[visit.table.name] = counted.field("values")
    counts = counted.field("counts").to_numpy()
    units, rows = len(counts), int(counts.sum())
    yield from _delta(visit, units)
    if units == rows:
        return
    if visit.table.single:
        text = f"rows_per_unit = 1 does not hold: {units} units have {rows} rows"
        yield Severity.FAULT, unit, text
        return
    shares = {"median": 0.5, "95 %": 0.95, "99 %": 0.99, "largest": 1}
    levels = np.quantile(counts, list(shares.values()), method="inverted_cdf")
    of = ", ".join(f"{name} {rows:,}" for name, rows in zip(shares, levels, strict=True))
    told = f"{units:,} units have {rows:,} rows: {of} each"
    limit = visit.table.max_rows_contributed
    if limit is None:
        told += "; max_rows_contributed is not stated: each query has to state it"
    yield Severity.NOTE, unit, told
    if isinstance(limit, int) and (cut := int((counts - limit).clip(0).sum())):
        share = f"cuts {100 * cut / rows:.3g} % of the rows' weight"
        yield Severity.WARNING, unit, f"max_rows_contributed = {limit} {share}"


def _owned(table: Table, unit: str, found: Owners) -> Iterator[Told]:
    """Say how many rows are nobody's, and how many several units'."""
    way = table.through
    if way is None:
        if found.nulls:
            text = f"{found.nulls} of {found.rows} rows have no unit: they never count"
            yield Severity.WARNING, unit, text
        return
    wrong = found.unclaimed >= WRONG_KEY * (found.rows - found.nulls)
    key = f": is {way.table.name}.{way.key} the key?" if wrong else ""
    severity = Severity.FAULT if wrong else Severity.WARNING
    unclaimed = f"have a key that no unit claims: they are nobody's{key}"
    several = "are claimed by several units: they count once for each"
    for level, count, what in (
        (Severity.WARNING, found.nulls, "have no key: they are nobody's"),
        (severity, found.unclaimed, unclaimed),
        (Severity.WARNING, found.shared, several),
    ):
        if count:
            share = f"{count} of {found.rows} rows ({_percent(count, found.rows)} %)"
            yield level, way.column, f"{share} {what}"


def _delta(visit: _Visit, units: int) -> Iterator[Told]:
    """Hold the policy's delta against the number of units."""
    if visit.delta * units > 1:
        text = (
            f"delta = {decimal_text(visit.delta)} is above 1 / {units:,} units: an answer that "
            "shows one of them whole would be allowed"
        )
        yield Severity.WARNING, visit.table.unit, text


def _parts(visit: _Visit, unit: str, column: Column, kept: int) -> Iterator[Told]:
    """Say of how many units some rows do not count: those beyond the first parts."""
    batches = list(visit.batches(list(dict.fromkeys([unit, column.name]))))
    parts = [_part(batch.column(column.name), column) for batch in batches]
    arrays = [names_of(batches, unit), pa.chunked_array(parts, pa.int32())]
    rows = pa.table(arrays, ["unit", "part"]).drop_null()
    units = rows.group_by("unit").aggregate([("part", "count_distinct")])
    beyond = int(pc.sum(pc.greater(units["part_count_distinct"], kept)).as_py() or 0)
    if beyond:
        many, first = ("several", "") if kept == 1 else (f"more than {kept}", f" {kept}")
        those = f"{beyond} of {units.num_rows} units have rows in {many} parts"
        yield Severity.WARNING, column.name, f"{those}: only those of the first{first} count"


def _part(raw: pa.Array, column: Column) -> pa.Array:
    """Return the number of the part of each value, cut or clamped as a scan does."""
    values = _read(raw, column)
    if column.bounds is not None:
        low, high = arrow_column((column.bounds.low, column.bounds.high), values.type)
        at_most = partial(pc.min_element_wise, skip_nulls=False)
        values = pc.max_element_wise(at_most(values, high), low, skip_nulls=False)
    found = pc.index_in(values, value_set=arrow_column(column.parts, values.type))
    return pc.fill_null(found, len(column.parts))
