"""The schema of a Parquet file in the policy's types.

Names and types only: no row, count, minimum or maximum is read here, although the same footer
holds them (I1). pyarrow is imported where it is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.policy.columns import ascii_folded, likely_units
from dpquery.policy.document import Unfit, toml_key, toml_text, written
from dpquery.policy.files import as_parquet, find_files, is_database, stem
from dpquery.policy.model import Column, Files, Table
from dpquery.policy.values import DECIMAL_MAX, read_name

if TYPE_CHECKING:
    import pyarrow as pa


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
    """Return the policy's type of a file's, where every value of it has one."""
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


# Whether files have the columns that a policy declares: names and types, no row.
#
# The schema of its files is a public fact that the data owner answers for, as the policy
# is. What differs is told in words for the owner; analysts hear only that something does.


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
            misfits = [Misfit(None, f"{path.name} {_unread(path)}")]
        else:
            misfits = compare(table, schema, path.name, path)
            for name in table.columns.keys() & schema.written.keys():
                first.setdefault(name, {}).setdefault(schema.written[name], path)
        for misfit in misfits:
            found.setdefault(misfit.column, misfit)
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
    """Return how a schema differs from what the policy declares of a table.

    Args:
        table: what is declared.
        schema: what is there.
        place: what has the schema, for the words.
        path: the file, if folders on the way to it may be named after a column.
    """
    wanted = {name: column.type for name, column in table.columns.items()}
    if table.unit is not None:
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


# A first policy for a Parquet file, drafted from its schema alone.
#
# The draft does not load until the data owner has named the privacy unit: a guess could be
# wrong, and a wrong unit protects nobody. Bounds stand as comments: they must not come from
# the data.


_HEAD = """\
# A policy: what may be asked of these tables, and how much may be lost in all.
# Drafted from the schema of {file}; no row was read.

[privacy]
neighbours = "add-remove"    # or "substitute", where the number of units is public

[budget]
epsilon = 1                  # the most that all queries together may lose

[tables.{table}]
path = {path}    # relative to this file
# Whose presence is protected? Write the column that names that person, account or device.
{guess}
privacy_unit_column = "?"
# How many rows may one of them have? One of these two lines, or each query has to say it.
# rows_per_unit = 1               # one at most: the least noise; a scan verifies it
# max_rows_contributed = "auto"   # any number: a query finds how many count, for 1/5 of its ε
#                                 # or a number that few have more than, such as 20

# What is not listed does not exist for analysts: delete what nobody should ask about.
# Choose bounds and keys from what a column means, never by looking at the data.
# per_unit = true beside the keys of one column: a unit has one of them, and counts in no other.
# Or parts = true there: it counts in all of them, and shares its weight where a query says so.
[tables.{table}.columns]
"""
_HINTS = {
    Kind.INTEGER: "bounds = [0, 100]",
    Kind.DOUBLE: "bounds = [0, 100]",
    Kind.DECIMAL: "bounds = [0, 9]",
    Kind.TEXT: 'keys = ["a", "b"]',
    Kind.DATE: "bounds = [2000-01-01, 2030-12-31]",
    Kind.TIMESTAMP: "bounds = [2000-01-01T00:00:00, 2030-12-31T23:59:59]",
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
    head = _HEAD.format(
        file=written(Path(path).name),
        table=toml_key(stem(str(path)) or "people"),
        path=toml_text(Path(path).as_posix()),
        guess=_guess(schema),
    )
    return head + "\n".join([*_columns(schema), *_left_out(schema)]) + "\n"


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


def _guess(schema: Schema) -> str:
    likely = likely_units(schema.types)
    if likely:
        return f"# By its name it could be {' or '.join(map(written, likely))}: confirm."
    return "# No column looks like one by its name. Without this line each row is its own unit."


def _columns(schema: Schema) -> list[str]:
    lines = [
        f'{toml_key(name)} = {{ type = "{type_}" }}' for name, type_ in schema.types.items()
    ]
    edge = max(map(len, lines), default=0)
    return [
        f"{line:{edge}}{_hint(type_)}".rstrip()
        for line, type_ in zip(lines, schema.types.values(), strict=True)
    ]


def _hint(type_: Type) -> str:
    hint = _HINTS.get(type_.kind)
    return "" if hint is None else f"   # with {hint}, say"


def _left_out(schema: Schema) -> list[str]:
    return [f"# {written(name)} is left out: {why}" for name, why in schema.left_out.items()]
