"""The schema of a Parquet file in the policy's types.

Names and types only: no row, count, minimum or maximum is read here, although the same footer
holds them (I1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from pyarrow import types as is_

from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.policy.document import Unfit, written
from dpquery.policy.files import as_parquet, is_database
from dpquery.policy.model import Files, Table
from dpquery.policy.values import DECIMAL_MAX, ascii_folded, read_name


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
    """Read the schema of a Parquet file, or refuse what is none (DPQ601)."""
    import pyarrow.parquet as pq

    try:
        return schema_of(pq.read_schema(file))
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        pass
    what = f"names a file that is not readable as Parquet: {written(str(file))}"
    remedy = [as_parquet(file.name)]
    if is_database(file):
        named = f'database = {written(file.name)} and table = "people"'
        remedy.append(f"with the name of its table, or in a policy: {named}")
    raise Unfit(what, "tables are read from Parquet files.", *remedy, code="DPQ601")


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
        elif not read_name.fits(one.name):
            left_out[one.name] = "its name cannot be printed"
        elif type_ is not None:
            types[one.name] = type_
        elif is_.is_timestamp(one.type):
            only = "timestamps are in microseconds and have no time zone"
            left_out[one.name] = f"{only}, and this is {one.type}"
        else:
            left_out[one.name] = f"no type for {one.type}"
    return Schema(types, left_out, {one.name: str(one.type) for one in fields}, alike)


_PLAIN: dict[pa.DataType, Type] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), INTEGER),
    **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32()), INTEGER),
    **dict.fromkeys((pa.float32(), pa.float64()), DOUBLE),
    **dict.fromkeys((pa.string(), pa.large_string()), TEXT),
    pa.bool_(): BOOLEAN,
    pa.date32(): DATE,
    pa.timestamp("us"): TIMESTAMP,  # others hold moments without a number of microseconds
}


def type_of(arrow: pa.DataType) -> Type | None:
    """Return the policy's type of a file's, where every value of it has one."""
    if is_.is_dictionary(arrow):
        return TEXT if type_of(arrow.value_type) == TEXT else None
    if is_.is_decimal(arrow):
        fits = arrow.precision <= DECIMAL_MAX and 0 <= arrow.scale <= arrow.precision
        return Type(Kind.DECIMAL, arrow.precision, arrow.scale) if fits else None
    return _PLAIN.get(arrow)


def widens(actual: Type, declared: Type) -> bool:
    """Return whether every value of one type is a value of another.

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


# Whether files have the columns that a policy declares. The schema of its files is a public
# fact that the data owner answers for, as the policy is. What differs is told in words for
# the owner; analysts hear only that something does.


@dataclass(frozen=True, slots=True)
class Misfit:
    """What every query of a table, or of one of its columns, would fail by."""

    column: str | None
    text: str

    def __str__(self) -> str:
        return self.text if self.column is None else f"{self.column}: {self.text}"


def file_misfits(table: Table, read: Callable[[Path], Schema] = read_schema) -> list[Misfit]:
    """Return how the files of a table differ from the policy: of each column, the first one."""
    found: dict[str | None, Misfit] = {}
    first: dict[str, dict[str, Path]] = {}
    for path in table.source.paths if isinstance(table.source, Files) else ():
        try:
            schema = read(path)
        except Unfit:
            found.setdefault(None, Misfit(None, f"{path.name} {_unread(path)}"))
            continue
        for misfit in compare(table, schema, path.name, path):
            found.setdefault(misfit.column, misfit)
        for name in table.columns.keys() & schema.written.keys():
            first.setdefault(name, {}).setdefault(schema.written[name], path)
    for misfit in _narrowed(first):
        found.setdefault(misfit.column, misfit)
    return list(found.values())


def _narrowed(first: Mapping[str, Mapping[str, Path]]) -> Iterator[Misfit]:
    """Yield columns that files read together have in FLOAT, where one has other numbers.

    FLOAT is what DuckDB makes of FLOAT and all but DOUBLE, and it keeps 24 binary digits.
    """
    for name, places in first.items():
        others = sorted(places.keys() - {"float"})
        if "float" in places and others and "double" not in others:
            at = f"{places['float'].name} has float, {places[others[0]].name} has {others[0]}"
            yield Misfit(name, f"{at}: together they would lose digits, so write one type")


def _unread(path: Path) -> str:
    """Return why a file has no schema."""
    try:
        with path.open("rb"):
            return "is not readable as Parquet"
    except FileNotFoundError:
        return "is not there"
    except OSError:
        return "may not be read"


def compare(table: Table, schema: Schema, place: str, path: Path | None = None) -> list[Misfit]:
    """Return how the schema of a place differs from what the policy declares of a table.

    Folders on the way to a file, where there is one, may be named after a column.
    """
    wanted = {name: column.type for name, column in table.columns.items()}
    if table.through is not None:
        wanted[table.through.column] = table.through.type
    elif table.unit is not None:
        held = INTEGER if schema.types.get(table.unit) == INTEGER else TEXT
        wanted[table.unit] = table.unit_type or held
    return [
        Misfit(name, f"{place} {differs}")
        for name, type_ in wanted.items()
        if (differs := _differs(name, type_, schema, path)) is not None
    ]


def _differs(name: str, declared: Type, schema: Schema, path: Path | None) -> str | None:
    actual = schema.types.get(name)
    if actual is not None and widens(actual, declared):
        return None
    if name in schema.written:
        twice = "; it has others of that name but for case" if name in schema.alike else ""
        return f"has {schema.written[name]}, declared is {declared}{twice}"
    near = [one for one in schema.written if ascii_folded(one) == ascii_folded(name)]
    if near:
        return f"has no such column, but {written(near[0])}: write it as it is there"
    if path is not None and any(part.startswith(f"{name}=") for part in path.parts[:-1]):
        return "has no such column: names of folders are not read, so write it into the files"
    return "has no such column"
