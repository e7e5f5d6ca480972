"""Group keys in DuckDB's SQL: how they are written, and the numbers of the groups they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from dpquery.core.types import Kind, Type, ordinal
from dpquery.engine.duckdb.clamped_table_sql import Place, kept_key
from dpquery.engine.duckdb.expr_sql import Values, cast, listed_sql
from dpquery.engine.duckdb.quantize_sql import value_sql
from dpquery.engine.duckdb.quoting import quoted, text
from dpquery.ir.expr import ColumnRef, Scalar
from dpquery.ir.query import Key, leading
from dpquery.policy.model import Column, Table


def key_sql(rows: Values, key: Key) -> str:
    """Write a key: a day as its number; a text as what is kept of it, or uncut."""
    if key.expr.type.kind is Kind.DATE:
        return value_sql(rows, key.expr)
    column = uncut(rows.table, key) if isinstance(rows, Place) else None
    if column is not None and kept_values(rows, key) is not None:
        return kept_key(column.name)
    if column is not None and isinstance(rows, Place) and not rows.held:
        return short_text(column, key.values)
    return rows.value(key.expr)


def kept_values(rows: Values, key: Key) -> Sequence[Scalar | None] | None:
    """Return the values of the enumeration that is kept of a text column, if a key is one."""
    if not isinstance(rows, Place) or not rows.held:
        return None
    column = uncut(rows.table, key)
    return enumerated(column) if column is not None and listed(column, key) else None


def enumerated(column: Column) -> Sequence[Scalar | None]:
    """Return what is told apart of a column that is kept for grouping; all else is NULL."""
    return (*(column.keys or ()), *([None] if column.null_group else []))


def no_key(keys: Sequence[Scalar | None]) -> str:
    """Return a text that is longer than every key."""
    return "?" * (_longest(keys) + 1)


def _longest(keys: Sequence[Scalar | None]) -> int:
    return max((len(str(key).encode()) for key in keys if key is not None), default=0)


def short_text(column: Column, keys: Sequence[Scalar | None]) -> str:
    """Write a text as it is where it could be one of the keys, else one that is none.

    What is longer than every key is none of them, and does not travel any further; counting
    bytes is far cheaper than cutting texts. Where NULL is no key, it stands for the rest.
    """
    name = quoted(column.name)
    longest = _longest(keys)
    if None in keys:
        return f"CASE WHEN strlen({name}) > {longest} THEN {text(no_key(keys))} ELSE {name} END"
    return f"CASE WHEN strlen({name}) <= {longest} THEN {name} END"


def uncut(table: Table, key: Key) -> Column | None:
    """Return the text column of a key, where no value of the key is as long as the cut.

    None where all that is not listed is a group.
    """
    if key.expr.type.kind is not Kind.TEXT or not isinstance(key.expr, ColumnRef):
        return None
    if key.rest or not key.values:
        return None
    column = table.columns[key.expr.name]
    longest = max((len(str(value)) for value in key.values if value is not None), default=0)
    return column if longest < column.max_length else None


def listed(column: Column, key: Key) -> bool:
    """Return whether all values of a key are among those that the policy lists.

    What is kept of a column stands for one key alone: those that are found may be several
    together.
    """
    known = key.finding is None and column.keys is not None
    return known and set(key.values) <= set(enumerated(column))


# The numbers of groups: the place of a row's keys among those that are declared.


class Numbered(NamedTuple):
    """How the values of a key are numbered, which stand in a column g0, g1, ..."""

    place: str
    """Where a value stands: from 0 on in a run of integers, or as it is listed."""
    limit: str | None = None
    """What keeps to a run."""
    join: str = ""
    """The join that numbers values which are listed one by one."""


def numbered(index: int, key: Key, kept: Sequence[Scalar | None] | None) -> Numbered:
    """Return how the values of a key are numbered.

    Args:
        index: which key of the scan it is.
        key: the key.
        kept: the values of the enumeration that the column is of, where it is one.
    """
    values, rest = key.values[:-1] if key.rest else key.values, str(len(key.values) - 1)
    if key.rest and not values:  # one group holds all rows
        return Numbered(rest)
    missing = kept is None and None in values  # NULL is a group, and the last one
    name, known = f"g{index}", _integers(key, values, kept)
    text = name if kept is None else f"CAST(enum_code({name}) AS BIGINT)"
    if known and not key.rest and known == [*range(known[0], known[0] + len(known))]:
        place, limit = f"({text} - {known[0]})", f"{text} BETWEEN {known[0]} AND {known[-1]}"
        if missing:
            return Numbered(f"coalesce({place}, {len(known)})", f"({limit} OR {name} IS NULL)")
        whole = kept is not None and len(known) == len(kept)  # cheaper for each row
        return Numbered(place, f"{name} IS NOT NULL" if whole else limit)
    written = [*map(str, known or ()), *["NULL"] * missing]
    if known is None:
        type_ = key.expr.type
        written = ["NULL" if value is None else listed_sql(value, type_) for value in values]
    rows = ", ".join(f"({i}, {value})" for i, value in enumerate(written))
    rows = rows or "the groups found"  # in EXPLAIN alone: a scan without any is not run
    same, alias = "IS NOT DISTINCT FROM" if missing else "=", f"l{index}"
    kind = "LEFT JOIN" if key.rest else "JOIN"
    join = f"{kind} (VALUES {rows}) AS {alias}(i, v) ON {text} {same} {alias}.v"
    return Numbered(f"coalesce({alias}.i, {rest})" if key.rest else f"{alias}.i", None, join)


def _integers(
    key: Key, values: Sequence[Scalar | None], kept: Sequence[Scalar | None] | None
) -> list[int] | None:
    """Return values as integers, where they are compared as such: but for NULL."""
    if kept is not None:
        return [kept.index(value) for value in values]
    if key.expr.type.kind not in {Kind.INTEGER, Kind.DATE}:
        return None
    return [
        ordinal(v) if isinstance(v, date) else int(v)
        for v in values
        if isinstance(v, int | Fraction | date)
    ]


def _side_by_side(keys: Mapping[int, Key]) -> Numbered:
    """Return how combinations of keys are numbered that are listed one by one.

    Doubles among them are not compared: what stands beside them tells the groups apart.
    """
    alias = f"l{min(keys)}"
    listed = [(i, key) for i, key in keys.items() if key.expr.type.kind is not Kind.DOUBLE]
    written = [[_listed_key(value, key.expr.type) for value in key.values] for _, key in listed]
    rows = ", ".join(
        f"({i}, {', '.join(row)})" for i, row in enumerate(zip(*written, strict=True))
    )
    rows = rows or "the groups found"  # as above
    names = ", ".join(f"k{i}" for i, _ in listed)
    equal = " AND ".join(
        f"g{i} {'IS NOT DISTINCT FROM' if None in key.values else '='} {alias}.k{i}"
        for i, key in listed
    )
    join = f"JOIN (VALUES {rows}) AS {alias}(i, {names}) ON {equal}"
    return Numbered(f"{alias}.i", None, join)


def _listed_key(value: Scalar | None, type_: Type) -> str:
    """Write a value as a key is: a day as its number."""
    if value is None:
        return "NULL"
    if type_.kind in {Kind.INTEGER, Kind.DATE} and isinstance(value, int | date):
        return str(ordinal(value) if isinstance(value, date) else int(value))
    return listed_sql(value, type_)


@dataclass(frozen=True, slots=True)
class Grouping:
    """The keys of a scan; the last one runs fastest."""

    joins: str
    """The joins that number keys which are listed one by one."""
    limits: list[str]
    """What keeps to the declared keys, where no join does."""
    cell: str
    """The number of a row's group."""


def grouping(rows: Values, keys: Sequence[Key]) -> Grouping:
    """Return how the groups of some keys are numbered."""
    together = leading(keys)
    found = [
        _side_by_side({at: keys[at] for at in (i, *beside)})
        if beside
        else numbered(i, keys[i], kept_values(rows, keys[i]))
        for i, *beside in together
    ]
    cell = found[0].place if found else "0"
    for (first, *_), one in zip(together[1:], found[1:], strict=True):
        cell = f"({cell} * {len(keys[first].values)} + {one.place})"
    return Grouping(
        " ".join(one.join for one in found if one.join),
        [one.limit for one in found if one.limit is not None],
        cast(cell, "BIGINT"),
    )
