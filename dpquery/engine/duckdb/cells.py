"""Groups in DuckDB's SQL: which of its declared groups a row is in, as one number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from dpquery.engine.duckdb.values import constant
from dpquery.ir import Key, Scalar
from dpquery.types import UNKNOWN, Interval, Kind, ordinal

__all__ = ["cell_joins", "cell_limits", "cell_sql"]


def cell_sql(keys: Sequence[Key]) -> str:
    """Write the number of a row's group: the last key runs fastest."""
    text = "0"
    for index, key in enumerate(keys):
        place = _place_in(index, key)
        text = f"({text} * {len(key.values)} + {place})" if index else place
    return f"CAST({text} AS BIGINT)"


def cell_joins(keys: Sequence[Key]) -> str:
    """Write the joins that number keys which are listed one by one."""
    return " ".join(_join(i, key) for i, key in enumerate(keys) if _listed(key))


def cell_limits(keys: Sequence[Key]) -> Iterable[str]:
    """Write what rows have to keep to be in a group of keys that are numbered by themselves."""
    for index, key in enumerate(keys):
        if _dense(key):
            yield f"g{index} BETWEEN {_number(key.values[0])} AND {_number(key.values[-1])}"


def _dense(key: Key) -> bool:
    """Whether the values are a run of integers or days: then a number needs no list."""
    if key.expr.type.kind not in {Kind.INTEGER, Kind.DATE} or key.rest or not key.values:
        return False
    if None in key.values:
        return False
    places = [_number(value) for value in key.values]
    return places == list(range(places[0], places[0] + len(places)))


def _place_in(index: int, key: Key) -> str:
    """Write which of a key's values a row has."""
    if _dense(key):
        return f"(g{index} - {_number(key.values[0])})"
    if not _listed(key):
        return "0"
    return f"coalesce(l{index}.i, {len(key.values) - 1})" if key.rest else f"l{index}.i"


def _listed(key: Key) -> bool:
    """Whether values have to be looked up: not where one group holds all rows."""
    return not _dense(key) and not (key.rest and len(key.values) == 1)


def _number(value: object) -> int:
    return ordinal(value) if not isinstance(value, int) else value  # type: ignore[arg-type]


def _join(index: int, key: Key) -> str:
    values = key.values[:-1] if key.rest else key.values
    listed = ", ".join(f"({i}, {_written(key, value)})" for i, value in enumerate(values))
    same = "IS NOT DISTINCT FROM" if None in values else "="
    kind = "LEFT JOIN" if key.rest else "JOIN"
    listed = listed or "the groups found"  # in EXPLAIN alone: there are some when it is asked
    return f"{kind} (VALUES {listed}) AS l{index}(i, v) ON g{index} {same} l{index}.v"


def _written(key: Key, value: Scalar | None) -> str:
    """Write a key's value as it is compared; it may be one that the column never has."""
    if value is None:
        return "NULL"
    type_ = key.expr.type
    if type_.kind is Kind.DATE:
        return str(_number(value))
    domain = Interval.point(value) if isinstance(value, int | Fraction) else UNKNOWN
    return constant(value, type_, domain)
