"""The schema of a Parquet file in the policy's types.

Names and types only: no row, count, minimum or maximum is read here, although the same footer
holds them (I1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import types as is_

from dpquery.core.dotted_names import dotted
from dpquery.core.types import (
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS,
    DOUBLE,
    INTEGER,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
)
from dpquery.errors import listed
from dpquery.policy.document import Unfit, written
from dpquery.policy.model import (
    Column,
    Csv,
    External,
    Files,
    Format,
    Frame,
    Json,
    Parquet,
    Table,
)
from dpquery.policy.sources.csv_headers import fields_of
from dpquery.policy.sources.open_external import opened
from dpquery.policy.sources.parquet_footers import Footer, footer, seen
from dpquery.policy.sources.paths import as_parquet, is_database
from dpquery.policy.sources.snapshot_reader import Unreadable
from dpquery.policy.sources.temporal_overflow import partial as partial_type
from dpquery.policy.value_parsers import ascii_folded, read_name


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a file: those a policy can list, and why it cannot list the others."""

    types: dict[str, Type]
    left_out: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """All columns, with the file's own name of each type."""
    alike: frozenset[str] = frozenset()
    """Names that differ from another in case only, or not at all."""
    fields: tuple[str, ...] | None = None
    """Of lines of texts, what these are called, in order: every type is made of a text."""
    converted: frozenset[str] = frozenset()
    """Columns that a type is made of when they are read: a moment of nanoseconds, say."""
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of fields inside of structures, the name of each of those."""
    partial: frozenset[str] = frozenset()
    """Columns of Parquet of which DuckDB cannot read all values, so that Arrow has to."""

    def converts(self, column: Column) -> bool:
        """Return whether a column that fits is converted as it is read."""
        if self.fields is not None:
            return False
        if column.name in self.converted:
            return True
        actual, kind = self.types.get(column.name), column.type.kind
        if actual is None or kind is Kind.DOUBLE:
            return False
        return actual.kind is not kind or (kind is Kind.DECIMAL and actual != column.type)


_MOST = 4096
_READ: dict[int, tuple[pa.Schema, Schema]] = {}
"""What was made of schemas, by identity: a thousand files have one, and hashing it is slow."""


def read_schema(file: Path, look: Callable[[Path], Footer] = footer) -> Schema:
    """Read the schema of a Parquet file, or refuse what is none (DPQ601)."""
    with suppress(OSError):
        found = look(file).schema
        if found is not None:
            same, known = _READ.get(id(found), (None, None))
            if known is None or same is not found:
                known = schema_of(found)
                if len(_READ) >= _MOST:
                    _READ.clear()
                _READ[id(found)] = found, known
            return known
    what = f"names a file that is not readable as Parquet: {written(str(file))}"
    remedy = [as_parquet(file.name)]
    if is_database(file):
        named = f'database = {written(file.name)} and table = "people"'
        remedy.append(f"with the name of its table, or in a policy: {named}")
    raise Unfit(what, "tables are read from Parquet files.", *remedy, code="DPQ601")


def seen_schema(file: Path) -> Schema:
    """Return the schema of a file as it was when its fingerprint was taken."""
    return read_schema(file, seen)


def read_header(file: Path, format_: Csv) -> Schema:
    """Read the names of a CSV file's fields, or refuse what names none (DPQ601)."""
    fields = fields_of(file, format_)
    if fields is None:
        what = f"names a file whose first line does not name its fields: {written(str(file))}"
        why = "a line of CSV says what its fields are called, or the policy does."
        raise Unfit(what, why, 'fields = ["user_id", "age"]', code="DPQ601")
    found = schema_of(pa.schema([(name, pa.string()) for name in fields]))
    return replace(found, fields=fields)


def schema_reader(format_: Format) -> Callable[[Path], Schema]:
    """Return what reads the schemas of files of a format."""
    return partial(read_header, format_=format_) if isinstance(format_, Csv) else read_schema


@lru_cache(maxsize=16)
def schema_of(fields: pa.Schema) -> Schema:
    """Return the schema that Arrow has read; most files of a table have the same."""
    found = schema_from(
        (Found(path, type_of(one), str(one), _converted(one)) for path, one in _flat(fields)),
        {dotted(path): _left_out(one) for path, one in _flat(fields) if path[1:]}
        | {one.name: _left_out(one.type) for one in fields},
    )
    return replace(found, partial=frozenset(o.name for o in fields if partial_type(o.type)))


class Found(NamedTuple):
    """A column of a file, or a field inside of its structures."""

    path: tuple[str, ...]
    type: Type | None
    written: str
    """The file's own name of the type."""
    converted: bool


def _flat(
    fields: Iterable[pa.Field], before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Yield columns, and in the place of structures their fields."""
    for one in fields:
        if is_.is_struct(one.type):
            yield from _flat(one.type.fields, (*before, one.name))
        else:
            yield (*before, one.name), one.type


def schema_from(columns: Iterable[Found], reasons: Mapping[str, str]) -> Schema:
    """Return a schema of columns; a column is one before a field of the same name.

    Args:
        columns: what a file has.
        reasons: why columns without a type are left out, by name.
    """
    found = [(dotted(one.path) if one.path[1:] else one.path[0], one) for one in columns]
    plain = {name for name, one in found if not one.path[1:]}
    found = [(name, one) for name, one in found if not one.path[1:] or name not in plain]
    folded = Counter(ascii_folded(name) for name, _ in found)
    schema = Schema({}, alike=frozenset(n for n, _ in found if folded[ascii_folded(n)] > 1))
    converted = set[str]()
    for name, one in found:
        schema.written[name] = one.written
        if name in schema.alike:
            schema.left_out[name] = "another column has the same name but for case"
        elif not read_name.fits(name):
            schema.left_out[name] = "its name cannot be printed"
        elif one.type is not None:
            schema.types[name] = one.type
            if one.path[1:]:
                schema.paths[name] = one.path
            if one.converted:
                converted.add(name)
        else:
            schema.left_out[name] = reasons.get(name, f"no type for {one.written}")
    return replace(schema, converted=frozenset(converted))


_PLAIN: dict[pa.DataType, Type] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), INTEGER),
    **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32()), INTEGER),
    pa.uint64(): Type(Kind.DECIMAL, 20),
    **dict.fromkeys((pa.float16(), pa.float32(), pa.float64()), DOUBLE),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view(), pa.uuid()), TEXT),
    pa.bool_(): BOOLEAN,
    **dict.fromkeys((pa.date32(), pa.date64()), DATE),
    **dict.fromkeys(map(pa.timestamp, ("s", "ms", "us", "ns")), TIMESTAMP),
    **dict.fromkeys((pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")), TIME),
}


def type_of(arrow: pa.DataType) -> Type | None:
    """Return the policy's type of a file's, as a draft names it; None where there is none."""
    if is_.is_dictionary(arrow):
        return type_of(arrow.value_type)
    if is_.is_list(arrow) or is_.is_large_list(arrow):
        inner = type_of(arrow.value_type)
        return None if inner is None or inner.listed else replace(inner, listed=True)
    if is_.is_decimal(arrow):
        fits = arrow.precision <= DECIMAL_DIGITS and 0 <= arrow.scale <= arrow.precision
        return Type(Kind.DECIMAL, arrow.precision, arrow.scale) if fits else None
    if is_.is_timestamp(arrow) and arrow.tz is not None:
        return TIMESTAMPTZ
    if isinstance(arrow, pa.JsonType):
        return type_of(arrow.storage_type)
    return _PLAIN.get(arrow)


_CONVERTED = frozenset(
    {
        pa.uint64(),
        pa.uuid(),
    }
)


def _converted(arrow: pa.DataType) -> bool:
    if is_.is_list(arrow) or is_.is_large_list(arrow):
        return _converted(arrow.value_type)
    if is_.is_dictionary(arrow):  # in memory, DuckDB makes an ENUM of it
        return True
    return arrow in _CONVERTED or (is_.is_timestamp(arrow) and arrow.unit == "ns")


_RECIPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (is_.is_map, "store its entries as rows of a table of their own"),
    (is_.is_nested, "store a row for each value in a table of its own"),
    (is_.is_duration, "store it as a number, of seconds say"),
    (is_.is_decimal, f"store it with at most {DECIMAL_DIGITS} digits, or as a double"),
    (is_.is_null, "it has no value in any row"),
    (lambda _: True, "store it as a text or a number"),
)
"""What the owner can do about a column that a policy has no type for."""


def _left_out(arrow: pa.DataType) -> str:
    """Say why a column is left out, and what its owner can do."""
    return f"no type for {arrow}: {next(told for fits, told in _RECIPES if fits(arrow))}"


def widens(actual: Type, declared: Type, *, nearest: bool = False) -> bool:
    """Return whether values of one type are values of another.

    Args:
        actual: what a file has.
        declared: what the policy says.
        nearest: whether a number may become the nearest integer.

    >>> widens(INTEGER, DOUBLE), widens(DOUBLE, INTEGER), widens(DOUBLE, INTEGER, nearest=True)
    (True, False, True)

    A date is no timestamp: the last days of a file's range have no number of microseconds.
    """
    if actual.listed or declared.listed:
        inner = (replace(one, listed=False) for one in (actual, declared))
        return actual.listed is declared.listed and widens(*inner, nearest=nearest)
    if actual.kind is Kind.DECIMAL and declared.kind is Kind.DECIMAL:
        whole = declared.precision - declared.scale
        return actual.scale <= declared.scale and actual.precision - actual.scale <= whole
    if declared.kind is Kind.DOUBLE or (declared.kind is Kind.INTEGER and nearest):
        return actual.numeric
    return actual.kind is declared.kind


def united(schemas: Iterable[Schema]) -> Schema:
    """Return the columns of files that are read together: each in the widest type among them.

    A column that some files lack is NULL there.
    """
    kinds = list({id(schema): schema for schema in schemas}.values())
    if len(kinds) == 1:
        return kinds[0]
    types: dict[str, Type] = {}
    left_out: dict[str, str] = {}
    names = dict.fromkeys(name for kind in kinds for name in kind.written)
    folded = Counter(map(ascii_folded, names))
    for name in names:
        among = [kind.types.get(name) for kind in kinds if name in kind.written]
        reasons = (kind.left_out[name] for kind in kinds if name in kind.left_out)
        if folded[ascii_folded(name)] > 1:
            left_out[name] = "another column has the same name but for case"
        elif (reason := next(reasons, None)) is not None:
            left_out[name] = reason
        elif widest := [
            one for one in among if one and all(o and widens(o, one) for o in among)
        ]:
            types[name] = widest[0]
        else:
            has = listed(sorted({kind.written[name] for kind in kinds if name in kind.written}))
            left_out[name] = f"files have it in types that are not one: {has}"
    written = {name: kind.written[name] for kind in kinds for name in kind.written}
    converted = frozenset[str]().union(*(kind.converted for kind in kinds))
    paths = {name: path for kind in kinds for name, path in kind.paths.items()}
    return Schema(types, left_out, written, converted=converted, paths=paths)


def fitted(table: Table, schemas: Iterable[Schema]) -> Table:
    """Return a table that says where its columns are in files, and which are converted."""
    read = list({id(schema): schema for schema in schemas}.values())

    def placed(columns: Mapping[str, Column]) -> dict[str, Column]:
        return {
            name: replace(
                column,
                converted=any(schema.converts(column) for schema in read),
                path=next((s.paths[name] for s in read if name in s.paths), ()),
            )
            for name, column in columns.items()
        }

    return replace(table, columns=placed(table.columns), lists=placed(table.lists))


def file_schemas(table: Table) -> Iterator[Schema]:
    """Yield the schemas of what a table's rows are read from, of those that have one.

    Of a Parquet file it is the one that was seen last, which is held against the policy.
    """
    match table.source:
        case External() as source:
            with suppress(Unreadable):
                yield schema_of(opened(source).schema)
        case Frame(rows):
            yield schema_of(rows.schema)
        case Files(paths) as source if not isinstance(source.format, Json):
            parquet = isinstance(source.format, Parquet)
            read = seen_schema if parquet else schema_reader(source.format)
            for path in paths:
                with suppress(Unfit):
                    yield read(path)


def external_schema(source: External) -> Schema:
    """Read the schema of what a library reads, or refuse what it cannot read (DPQ601)."""
    try:
        return schema_of(opened(source).schema)
    except Unreadable as unfit:
        what = f"{written(source.name)} {unfit}"
        raise Unfit(what, "its own library says what its columns are.", code="DPQ601") from None
