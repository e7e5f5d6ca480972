"""How tables hang together, counted: whose rows they hold, and which keys other tables lack.

It serves `dpquery policy check` alone, as `data_validation.py` does: what is told depends
on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpquery.core.types import Kind, Type
from dpquery.errors import listed
from dpquery.policy.model import Policy, Table
from dpquery.policy.name_conventions import entity, own_words, person, refers_to
from dpquery.policy.value_parsers import ascii_folded

Rows = Callable[[Table, Sequence[str]], Iterable[pa.RecordBatch]]
"""Gives some columns of all rows of a table."""
Types = Callable[[Table], Mapping[str, Type]]
"""Gives the columns of a table."""
Told = tuple[str, str, str | None, str]
"""Severity, table, column and text."""


FEW = 10
"""Fewer units than these are in a public table by chance."""


def names_of(
    batches: list[pa.RecordBatch], name: str, type_: Type | None = None
) -> pa.ChunkedArray:
    """Return units or keys in one type, in which they are equal or not."""
    integers = all(pa.types.is_integer(batch.schema.field(name).type) for batch in batches)
    if type_ is not None:
        integers = type_.kind is Kind.INTEGER
    to = pa.int64() if integers else pa.string()
    return pa.chunked_array([pc.cast(batch.column(name), to) for batch in batches], to)


@dataclass(frozen=True, slots=True)
class Owners:
    """Whose the rows of a table are."""

    units: pa.ChunkedArray
    """One for each row and each unit that it belongs to."""
    rows: int
    nulls: int
    """Rows without a unit, or without a key to one."""
    unclaimed: int = 0
    """Rows with a key that no unit claims."""
    shared: int = 0
    """Rows that several units claim."""


def owners(table: Table, rows: Rows) -> Owners:
    """Find whose the rows of a table are, on its way to a unit."""
    if table.through is None:
        units = _stored(list(rows(table, _columns(table))), table)
        return Owners(pc.drop_null(units), len(units), units.null_count)
    column = table.through.column
    keys = names_of(list(rows(table, [column])), column, table.through.type)
    numbered = pa.table({"k": keys, "row": np.arange(len(keys))}).drop_null()
    owned = numbered.join(_claims(table, rows), "k", join_type="inner")
    each = pc.value_counts(owned["row"]).field("counts")
    unclaimed = numbered.num_rows - len(each)
    return Owners(owned["u"], len(keys), keys.null_count, unclaimed, _true(pc.greater(each, 1)))


def _columns(table: Table) -> list[str]:
    """Return the columns that say whose the rows of a table are, where it stores the unit."""
    return [name for name, _ in table.together] or [table.unit or ""]


def _stored(batches: list[pa.RecordBatch], table: Table) -> pa.ChunkedArray:
    """Return the units of rows; of several columns, each with its length before it."""
    if not table.together:
        return names_of(batches, table.unit or "")
    texts = [pc.cast(names_of(batches, name), pa.string()) for name, _ in table.together]
    parts = ((pc.cast(pc.binary_length(one), pa.string()), one) for one in texts)
    return pc.binary_join_element_wise(*(part for pair in parts for part in pair), ":")


def _claims(table: Table, rows: Rows) -> pa.Table:
    """Return which units claim which keys, on the way of a table to its unit: once each."""
    way = table.through
    assert way is not None  # noqa: S101 - the caller looked
    further = way.table.through
    owners = _columns(way.table) if further is None else [further.column]
    batches = list(rows(way.table, list(dict.fromkeys([way.key, *owners]))))
    keys = names_of(batches, way.key, way.type)
    if further is None:
        found = pa.table({"k": keys, "u": _stored(batches, way.table)})
    else:
        found = pa.table({"k": keys, "c": names_of(batches, further.column, further.type)})
        found = found.join(_claims(way.table, rows), "c", "k", join_type="inner")
    return found.select(["k", "u"]).drop_null().group_by(["k", "u"]).aggregate([])


def shared(policy: Policy, units: Mapping[str, pa.Array]) -> Iterator[Told]:
    """Say of each table how many of its units another has: the one that has most of them."""
    domains: dict[str, list[Table]] = {}
    for name in units:
        table = policy.tables[name]
        domain = "" if policy.unit is not None else ascii_folded(table.unit or "")
        domains.setdefault(domain, []).append(table)
    if len(domains) > 1:
        names = listed(f"{one.name}.{one.unit}" for of in domains.values() for one in of)
        told = f"is not declared: unit columns of different names are not joined: {names}"
        yield "note", "privacy", "unit", told
    for tables in domains.values():
        most = max(tables, key=lambda table: (table.single, len(units[table.name])))
        for table in tables:
            if table is not most:
                own, all_ = units[table.name], units[most.name]
                there = _common(own, all_)
                told = f"{there:,} of {len(own):,} units are among the {len(all_):,}"
                told += f" of {most.name}"
                apart = len(own) > 0 and not there
                told += ": do both columns name the same units?" if apart else ""
                yield "warning" if apart else "note", table.name, table.unit, told


def _common(few: pa.Array, many: pa.Array) -> int:
    """Count the units that are in both tables."""
    if few.type != many.type:
        few, many = few.cast(pa.string()), many.cast(pa.string())
    return _true(pc.is_in(few, value_set=many))


def _true(found: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.sum(found).as_py() or 0)


def exposed(
    policy: Policy, units: Mapping[str, pa.Array], types: Types, rows: Rows
) -> Iterator[Told]:
    """Ask of public tables whether they are, where a column has half of a table's units.

    Integers that count what a table here holds, such as products, have them by chance.
    """
    held = {entity(name) for name in policy.tables}
    for table in policy.tables.values() if units else ():
        try:
            columns = types(table) if table.public else {}
            for name, said in own_words(columns).items():
                refers, kind = refers_to(said, held), columns[name].kind
                refers = entity(table.name) if refers == "" else refers
                counted = kind is Kind.INTEGER and refers in held and not person(refers)
                if kind in {Kind.INTEGER, Kind.TEXT} and not counted:
                    values = names_of(list(rows(table, [name])), name, columns[name])
                    yield from _exposed(table, name, pc.unique(values), units)
        except (pa.ArrowException, OSError, KeyError):  # a fault that is told elsewhere
            continue


def _exposed(
    table: Table, name: str, values: pa.Array, units: Mapping[str, pa.Array]
) -> Iterator[Told]:
    found = {other: _common(own, values) for other, own in units.items() if len(own)}
    most = max(found, key=lambda other: found[other] / len(units[other]), default="")
    if most and FEW <= found[most] >= len(units[most]) / 2:
        share = f"{100 * found[most] // len(units[most])} % of the units of {most}"
        yield "warning", table.name, name, f"holds {share}: is {table.name} public?"


def lacking(policy: Policy, rows: Rows) -> Iterator[Told]:
    """Say of keys how many rows have none that a public table has: joins leave them out.

    A column of the name and type of the one that tells the rows of a public table apart is
    taken to be a key of it.
    """
    keyed = {
        key: table
        for table in policy.tables.values()
        for key in table.unique
        if len(table.unique) == 1 and key in table.columns
    }
    for table in policy.tables.values():
        for name in table.columns.keys() & keyed.keys() if not table.public else ():
            other = keyed[name]
            type_ = table.columns[name].type
            if other.columns[name].type == type_ and type_.kind in {Kind.INTEGER, Kind.TEXT}:
                yield from _lacking(table, name, other, rows)


def _lacking(table: Table, name: str, other: Table, rows: Rows) -> Iterator[Told]:
    type_ = table.columns[name].type
    try:
        keys, known = (names_of(list(rows(one, [name])), name, type_) for one in (table, other))
    except (pa.ArrowException, OSError, KeyError):  # which is a fault that is told elsewhere
        return
    found = pc.is_in(keys, value_set=pc.drop_null(known).combine_chunks())
    if without := len(keys) - _true(found):
        text = f"{without} of {len(keys)} rows have a value that {other.name} lacks"
        yield "warning", table.name, name, f"{text}: joins on it leave them out"
