"""The schema of a Parquet file in the policy's types.

Names and types only: no row, count, minimum or maximum is read here, although the same footer
holds them (I1). pyarrow is imported where it is used.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dpquery.policy.columns import ascii_folded
from dpquery.policy.formats import as_parquet, is_database
from dpquery.policy.unfit import Unfit, written
from dpquery.policy.values import DECIMAL_MAX, read_name
from dpquery.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Schema", "read_schema", "schema_of", "type_of", "widens"]


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a file: those a policy can list, and why it cannot list the others."""

    types: dict[str, Type]
    left_out: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """All columns, with the file's own name of each type."""
    alike: frozenset[str] = frozenset()
    """Names that differ from another in case only, or not at all."""


def read_schema(file: Path) -> Schema:
    """Read the schema of a Parquet file.

    Raises:
        Unfit: DPQ601 the file is not Parquet, or cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return schema_of(pq.read_schema(file))
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise _unreadable(file) from None


def _unreadable(file: Path) -> Unfit:
    what = f"names a file that is not readable as Parquet: {written(str(file))}"
    remedy = [as_parquet(file.name)]
    if is_database(file):
        named = f'database = {written(file.name)} and table = "people"'
        remedy = [*remedy, f"with the name of its table, or in a policy: {named}"]
    return Unfit(what, "tables are read from Parquet files.", *remedy, code="DPQ601")


@lru_cache(maxsize=16)
def schema_of(fields: pa.Schema) -> Schema:
    """Return the schema that Arrow has read; most files of a table have the same."""
    types: dict[str, Type] = {}
    left_out: dict[str, str] = {}
    folded = Counter(ascii_folded(one.name) for one in fields)
    alike = frozenset(one.name for one in fields if folded[ascii_folded(one.name)] > 1)
    for one in fields:
        type_ = type_of(one.type)
        if one.name in alike:
            left_out[one.name] = "another column has the same name but for case"
        elif not _named(one.name):
            left_out[one.name] = "its name cannot be printed"
        elif type_ is None:
            left_out[one.name] = _untyped(one.type)
        else:
            types[one.name] = type_
    return Schema(types, left_out, {one.name: str(one.type) for one in fields}, alike)


def _untyped(arrow: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_timestamp(arrow):
        return f"timestamps are in microseconds and have no time zone, and this is {arrow}"
    return f"no type for {arrow}"


def _named(name: str) -> bool:
    try:
        return read_name(name) == name
    except Unfit:
        return False


def type_of(arrow: pa.DataType) -> Type | None:
    """Give the policy's type of a file's, where every value of it has one."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(arrow):
        return TEXT if type_of(arrow.value_type) == TEXT else None
    if is_.is_decimal(arrow):
        return _decimal(arrow.precision, arrow.scale)
    if is_.is_timestamp(arrow):
        # Other units hold moments that have no number of microseconds in 64 bits.
        return TIMESTAMP if arrow.tz is None and arrow.unit == "us" else None
    plain = (
        (lambda t: is_.is_integer(t) and not is_.is_uint64(t), INTEGER),
        (lambda t: is_.is_float32(t) or is_.is_float64(t), DOUBLE),
        (lambda t: is_.is_string(t) or is_.is_large_string(t), TEXT),
        (is_.is_boolean, BOOLEAN),
        (is_.is_date32, DATE),
    )
    return next((type_ for fits, type_ in plain if fits(arrow)), None)


def _decimal(precision: int, scale: int) -> Type | None:
    fits = precision <= DECIMAL_MAX and 0 <= scale <= precision
    return Type(Kind.DECIMAL, precision, scale) if fits else None


def widens(actual: Type, declared: Type) -> bool:
    """Say whether every value of one type is a value of another.

    >>> widens(INTEGER, DOUBLE), widens(DOUBLE, INTEGER)
    (True, False)

    A date is no timestamp: the last days of a file's range have no number of microseconds.
    """
    if actual.kind is Kind.DECIMAL and declared.kind is Kind.DECIMAL:
        whole = declared.precision - declared.scale
        return actual.scale <= declared.scale and actual.precision - actual.scale <= whole
    if declared.kind is Kind.DOUBLE:
        return actual.numeric
    return actual == declared
