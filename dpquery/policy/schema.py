"""The schema of a Parquet file in the policy's types.

Names and types only: no row, count, minimum or maximum is read here, although the same footer
holds them (I1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import types as is_

from dpquery.core.names import dotted
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
from dpquery.policy.document import Unfit, toml_key, toml_text, written
from dpquery.policy.files import as_parquet, find_files, is_database, stem
from dpquery.policy.model import Column, Files, Table
from dpquery.policy.units import likely_units
from dpquery.policy.values import ascii_folded, read_name


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a file: those a policy can list, and why it cannot list the others."""

    types: dict[str, Type]
    left_out: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """All columns, with the file's own name of each type."""
    alike: frozenset[str] = frozenset()
    """Names that differ from another in case only, or not at all."""
    converted: frozenset[str] = frozenset()
    """Columns that a type is made of when they are read: a moment of nanoseconds, say."""
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of fields inside of structures, the name of each of those."""

    def converts(self, column: Column) -> bool:
        """Return whether a column that fits is converted as it is read."""
        if column.name in self.converted:
            return True
        actual, kind = self.types.get(column.name), column.type.kind
        if actual is None or kind is Kind.DOUBLE:
            return False
        return actual.kind is not kind or (kind is Kind.DECIMAL and actual != column.type)


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
    return schema_from(
        (Found(path, type_of(one), str(one), _converted(one)) for path, one in _flat(fields)),
        {dotted(path): _left_out(one) for path, one in _flat(fields) if path[1:]}
        | {one.name: _left_out(one.type) for one in fields},
    )


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
    **dict.fromkeys((pa.timestamp("us"), pa.timestamp("ns")), TIMESTAMP),
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
    if is_.is_timestamp(arrow) and arrow.tz is not None and arrow.unit in {"us", "ns"}:
        return TIMESTAMPTZ
    return _PLAIN.get(arrow)


_CONVERTED = frozenset({pa.uint64(), pa.uuid(), pa.time64("ns")})


def _converted(arrow: pa.DataType) -> bool:
    if is_.is_list(arrow) or is_.is_large_list(arrow):
        return _converted(arrow.value_type)
    return arrow in _CONVERTED or (is_.is_timestamp(arrow) and arrow.unit == "ns")


_RECIPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (is_.is_timestamp, "some milliseconds are years beyond 294247; store microseconds"),
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
        for name in table.held.keys() & schema.written.keys():
            first.setdefault(name, {}).setdefault(schema.written[name], path)
    for misfit in _narrowed(first):
        found.setdefault(misfit.column, misfit)
    return list(found.values())


def fitted(table: Table, schemas: Iterable[Schema]) -> Table:
    """Return a table that says where its columns are in files, and which are converted."""
    read = tuple(schemas)

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


def schemas_of(table: Table, read: Callable[[Path], Schema] = read_schema) -> Iterator[Schema]:
    """Yield the schemas of a table's files, of those that have one."""
    for path in table.source.paths if isinstance(table.source, Files) else ():
        with suppress(Unfit):
            yield read(path)


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
    wanted = {name: column.type for name, column in table.held.items()}
    nearest = {n for n, column in table.held.items() if column.keys or column.bounds}
    if table.through is not None:
        wanted[table.through.column] = table.through.type
    elif table.unit is not None:
        held = INTEGER if schema.types.get(table.unit) == INTEGER else TEXT
        wanted[table.unit] = table.unit_type or held
    return [
        Misfit(name, f"{place} {differs}")
        for name, type_ in wanted.items()
        if (differs := _differs(name, type_, schema, path, name in nearest)) is not None
    ]


def _differs(
    name: str, declared: Type, schema: Schema, path: Path | None, nearest: bool
) -> str | None:
    actual = schema.types.get(name)
    if actual is not None and widens(actual, declared, nearest=nearest):
        return None
    if name in schema.written:
        if actual is not None and widens(actual, declared, nearest=True):
            return f"has {schema.written[name]}: an integer of it needs bounds or keys"
        twice = "; it has others of that name but for case" if name in schema.alike else ""
        return f"has {schema.written[name]}, declared is {declared}{twice}"
    near = [one for one in schema.written if ascii_folded(one) == ascii_folded(name)]
    if near:
        return f"has no such column, but {written(near[0])}: write it as it is there"
    if path is not None and any(part.startswith(f"{name}=") for part in path.parts[:-1]):
        return "has no such column: names of folders are not read, so write it into the files"
    return "has no such column"


# A first policy for a Parquet file, drafted from its schema alone. It does not load until the
# data owner has named the privacy unit: a guess could be wrong, and a wrong unit protects
# nobody. Bounds stand as comments: they must not come from the data.


_HEAD = """\
# A policy: what may be asked of these tables, and the privacy budget in all.
# Drafted from the schema of {file}; no row was read.

[privacy]
neighbours = "add-remove"    # or "substitute", where the number of units is public

[budget]
epsilon = 1                  # the most that all queries together may lose

[tables.{table}]
path = {path}    # relative to this file
# Whose presence is protected? Write the column that names that person, account or device.
# {guess}
privacy_unit_column = "?"
# How many rows may one of them have? One of these two lines, or each query has to say it.
# rows_per_unit = 1               # one at most: the least noise; a scan verifies it
# max_rows_contributed = "auto"   # any number: a query finds how many count, for 1/5 of its ε
#                                 # or a number that few have more than, such as 20

# What is not listed does not exist for analysts: delete what nobody should ask about.
# Choose bounds and keys from what a column means, never by looking at the data.
# per_unit = true beside the keys of one column: a person has one of them, such as a home, and
# queries about different keys do not add up. parts = true: a person may have several of them,
# and queries with weights='table' do not add up. `dpquery explain parts` has more.
[tables.{table}.columns]
"""
_HINTS = {
    Kind.INTEGER: "bounds = [0, 100]",
    Kind.DOUBLE: "bounds = [0, 100]",
    Kind.DECIMAL: "bounds = [0, 9]",
    Kind.TEXT: 'keys = ["a", "b"]',
    Kind.DATE: "bounds = [2000-01-01, 2030-12-31]",
    Kind.TIMESTAMP: "bounds = [2000-01-01T00:00:00, 2030-12-31T23:59:59]",
    Kind.TIMESTAMPTZ: "bounds = [2000-01-01T00:00:00Z, 2030-12-31T23:59:59Z]",
    Kind.TIME: "bounds = [08:00:00, 18:00:00]",
}


def draft(path: str | Path) -> str:
    """Draft a policy for a Parquet file, or a glob of them; the path is kept as written.

    Raises:
        PolicyInvalid: DPQ601 the file is not there, or not Parquet; DPQ612 files of a glob do
            not have the columns of the first.
    """
    try:
        files = find_files([str(path)], Path.cwd())
        schema = read_schema(files[0])
        _refuse_others(files, schema)
    except Unfit as unfit:
        raise unfit.at("the path") from None
    guess = "No column looks like one by its name. Without this line each row is its own unit."
    if likely := likely_units(schema.types):
        guess = f"By its name it could be {' or '.join(map(written, likely))}: confirm."
    head = _HEAD.format(
        file=written(Path(path).name),
        table=toml_key(stem(str(path)) or "people"),
        path=toml_text(Path(path).as_posix()),
        guess=guess,
    )
    columns = {f'{toml_key(name)} = {{ type = "{t}" }}': t for name, t in schema.types.items()}
    edge = max(map(len, columns), default=0)
    lines = [
        f"{line:{edge}}   # with {_HINTS[type_.kind]}, say" if type_.kind in _HINTS else line
        for line, type_ in columns.items()
    ]
    lines += [f"# {written(name)} is left out: {why}" for name, why in schema.left_out.items()]
    return head + "\n".join(lines) + "\n"


def _refuse_others(files: tuple[Path, ...], first: Schema) -> None:
    """Refuse files that do not fit what is drafted from the first of them."""
    columns = {name: Column(name, type_) for name, type_ in first.types.items()}
    misfits = file_misfits(Table("", Files(files), (), columns))
    if misfits:
        raise Unfit(
            f"matches files that differ from {files[0].name}: {misfits[0]}",
            "all files of a table have the columns of the first, in types that widen to its.",
            "leave out the files that differ, or draft a table for each kind",
            code="DPQ612",
        )
