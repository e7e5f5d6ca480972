"""Columns as files store them, in the policy's types: total, whatever the file's own type is.

A file may hold a declared type in another one: moments in nanoseconds, categories in doubles,
unsigned integers. Each value becomes one of the declared type, the nearest end of it, or NULL,
and none can raise. Several files of a table may have several types: `source_views.py` reads
those of one type together. Which that is, `typeof` tells when a query is planned: what is for
others is gone before a row is read, and row groups are skipped as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from dpquery.core.types import INT64, Kind, Type, decimal_value
from dpquery.engine.duckdb.expr_sql import cast
from dpquery.engine.duckdb.quoting import duckdb_name, quoted, text
from dpquery.engine.duckdb.sources.duckdb_schema import INTEGERS
from dpquery.policy.model import Column

ELEMENT = "list value"
"""What a value of a list is called."""


def place_of(column: Column) -> str:
    """Write a column as the file has it: a field of a structure is NULL where that is."""
    first, *others = column.path or (column.name,)
    return reduce(lambda of, name: f"struct_extract({of}, {text(name)})", others, quoted(first))


def element_of(column: Column) -> Column:
    """Return what is said of each value of a list, as a column of that name."""
    return replace(column, name=ELEMENT, type=replace(column.type, listed=False), path=())


def stored_sql(column: Column) -> str:
    """Write a column in its declared type, not yet clamped; NULL where a value has none."""
    place, type_ = place_of(column), column.type
    match type_.kind:
        case _ if not column.converted:
            return place
        case _ if type_.listed:
            inner = stored_sql(element_of(column))
            return f"list_transform({place}, lambda {quoted(ELEMENT)}: {inner})"
        case Kind.INTEGER:
            whole = f"CASE WHEN TRY(trunc({place}) = {place}) THEN {_try(place, 'BIGINT')} END"
            nearest = whole if column.exact else _nearest(place, "BIGINT", *map(str, INT64))
            return _by_type(place, INTEGERS, cast(place, "BIGINT"), nearest)
        case Kind.DECIMAL:
            own = duckdb_name(type_)
            nearest = _try(place, own) if column.exact else _nearest(place, own, *_ends(type_))
            return _by_type(place, [own.replace(" ", "")], cast(place, own), nearest)
        case Kind.TIMESTAMP:
            floored = _floored(column, "make_timestamp")
            return _by_type(place, ["TIMESTAMP_NS"], floored, _try(place, "TIMESTAMP"))
        case Kind.TIMESTAMPTZ:
            own = duckdb_name(type_)
            floored = _floored(column, "make_timestamptz")
            return _by_type(place, ["TIMESTAMPTZ_NS"], floored, _try(place, own))
        case Kind.TIME:
            midnight = cast(text("00:00:00"), "TIME")
            floored = f"({midnight} + to_microseconds(epoch_ns({place}) // 1000))"
            return _by_type(place, ["TIME_NS"], floored, _try(place, "TIME"))
    return _try(place, duckdb_name(type_))


def _try(place: str, type_: str) -> str:
    return f"TRY_CAST({place} AS {type_})"


def _by_type(place: str, types: Sequence[str], then: str, otherwise: str) -> str:
    """Write one of two texts, by the type that the file has."""
    named = ", ".join(map(text, types))
    return f"CASE WHEN typeof({place}) IN ({named}) THEN {then} ELSE {otherwise} END"


def _nearest(place: str, type_: str, low: str, high: str) -> str:
    """Write a number of any type as one of another: rounded, the nearest end, or NULL for NaN.

    What is asked of the double is hidden in TRY, since a footer's ends pass over NaN.
    """
    number = f"TRY(CAST({place} AS DOUBLE))"
    below, above = cast(low, type_), cast(high, type_)
    end = f"WHEN {number} < 0 THEN {below} WHEN {number} > 0 THEN {above}"
    beyond = f"CASE WHEN isnan({number}) THEN NULL {end} END"
    return f"coalesce(TRY_CAST({place} AS {type_}), {beyond})"


def _ends(type_: Type) -> tuple[str, str]:
    largest = 10**type_.precision - 1
    low, high = (format(decimal_value(end, type_.scale), "f") for end in (-largest, largest))
    return text(low), text(high)


def _floored(column: Column, made: str) -> str:
    """Write a moment of nanoseconds in microseconds: a cast would round it."""
    nanos = f"epoch_ns({place_of(column)})"
    whole, rest = f"{nanos} // 1000", f"{nanos} % 1000"
    if column.exact:
        return f"CASE WHEN {rest} = 0 THEN {made}({whole}) END"
    return f"{made}({whole} - CASE WHEN {rest} < 0 THEN 1 ELSE 0 END)"
