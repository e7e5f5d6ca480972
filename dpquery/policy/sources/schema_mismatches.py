"""How the files of a table differ from the policy: what every query of it would fail by.

The schema of its files is a public fact that the data owner answers for, as the policy is. What
differs is told in words for the owner; analysts hear only that something does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from dpquery.core.types import INTEGER, TEXT, Type
from dpquery.errors import listed
from dpquery.policy.document import Unfit, toml_text, written
from dpquery.policy.model import Csv, External, Files, Format, Json, Parquet, Table
from dpquery.policy.sources.csv_headers import fields_of, likely_delimiter
from dpquery.policy.sources.open_external import opened
from dpquery.policy.sources.schema import Schema, schema_of, schema_reader, widens
from dpquery.policy.sources.snapshot_reader import Unreadable
from dpquery.policy.value_parsers import ascii_folded


@dataclass(frozen=True, slots=True)
class Misfit:
    """What every query of a table, or of one of its columns, would fail by."""

    column: str | None
    text: str
    lacking: bool = False
    """Whether the column is simply not there, under no name that differs in case."""

    def __str__(self) -> str:
        return self.text if self.column is None else f"{self.column}: {self.text}"


def file_misfits(table: Table, read: Callable[[Path], Schema] | None = None) -> list[Misfit]:
    """Return how the files of a table differ from the policy: of each column, the first one.

    Files may lack columns that others have, which are NULL there, as long as they have some.
    """
    if isinstance(table.source, External):
        return _external_misfits(table, table.source)
    format_ = _format(table)
    if isinstance(format_, Json):  # each line says what it has
        return _unopened(table)
    read = read or schema_reader(format_)
    found: dict[str | None, Misfit] = {}
    lacking: dict[str, Misfit] = {}
    somewhere = set[str]()
    folders = {*(format_.partitions if isinstance(format_, Parquet) else ())}
    longest: tuple[str, ...] = ()
    for schema, path in _kinds(table, read, found):
        if schema.fields is not None:
            short, longest = sorted((longest, schema.fields), key=len)
            if longest[: len(short)] != short:
                what = f"{path.name} has its fields in another order than other files"
                found.setdefault(None, Misfit(None, what))
        for misfit in compare(table, schema, path.name):
            if misfit.column is not None and misfit.lacking:
                lacking.setdefault(misfit.column, misfit)
            else:
                found.setdefault(misfit.column, misfit)
        held = _named(table) & schema.written.keys()
        if _named(table) and not held and not folders:
            found.setdefault(None, Misfit(None, f"{path.name} has none of the columns"))
        somewhere |= held
    if lacking and isinstance(format_, Csv) and (parted := likely_delimiter(longest)):
        what = f"{path.name} has one field by {toml_text(format_.delimiter)}; "
        return [Misfit(None, f"{what}try: delimiter = {toml_text(parted)}")]
    nowhere = [one for name, one in lacking.items() if name not in {*somewhere, *folders}]
    for misfit in nowhere:
        found.setdefault(misfit.column, misfit)
    return list(found.values())


def lacking_columns(table: Table) -> list[Misfit]:
    """Return which columns some files of a table lack that others have: NULL is read there."""
    format_, lack = _format(table), dict[str, list[Path]]()
    held = isinstance(table.source, Files) and not isinstance(format_, Json)
    paths = table.source.paths if isinstance(table.source, Files) and held else ()
    read = schema_reader(format_)
    for path in paths:
        for name in sorted(_named(table) - read(path).written.keys()):
            lack.setdefault(name, []).append(path)
    return [
        Misfit(
            name,
            f"{len(places)} of {len(paths)} files have no such column: it is NULL in "
            f"{listed(place.name for place in places)}",
        )
        for name, places in lack.items()
        if len(places) < len(paths)
    ]


def _kinds(
    table: Table, read: Callable[[Path], Schema], unread: dict[str | None, Misfit]
) -> Iterator[tuple[Schema, Path]]:
    """Yield the different schemas of a table's files, each with the first file that has it."""
    seen: dict[int, Schema] = {}
    for path in table.source.paths if isinstance(table.source, Files) else ():
        try:
            schema = read(path)
        except Unfit:
            what = f"{path.name} {why_unread(path, _format(table))}"
            unread.setdefault(None, Misfit(None, what))
            continue
        if id(schema) not in seen:
            seen[id(schema)] = schema
            yield schema, path


def _named(table: Table) -> Set[str]:
    """Return the columns that a policy names of a table, its unit among them."""
    stored = table.unit is not None and not table.together
    return {*table.held} | ({table.unit or ""} if stored else set())


def _format(table: Table) -> Format:
    return table.source.format if isinstance(table.source, Files) else Parquet()


def _external_misfits(table: Table, source: External) -> list[Misfit]:
    try:
        return compare(table, schema_of(opened(source).schema), source.name)
    except Unreadable as unfit:
        return [Misfit(None, f"{source.name} {unfit}")]


def _unopened(table: Table) -> list[Misfit]:
    paths = table.source.paths if isinstance(table.source, Files) else ()
    told = ((path, why_unread(path, Json())) for path in paths if not os.access(path, os.R_OK))
    return [Misfit(None, f"{path.name} {why}") for path, why in told][:1]


_NAMES: Mapping[type, str] = {Csv: "CSV", Json: "JSON", Parquet: "Parquet"}


def why_unread(path: Path, format_: Format) -> str:
    """Return why a file has no schema."""
    try:
        with path.open("rb"):
            if isinstance(format_, Csv) and fields_of(path, format_) is None:
                return "does not name its fields in its first line"
            return f"is not readable as {_NAMES[type(format_)]}"
    except FileNotFoundError:
        return "is not there"
    except OSError:
        return "may not be read"


def compare(table: Table, schema: Schema, place: str) -> list[Misfit]:
    """Return how the schema of a place differs from what the policy declares of a table."""
    wanted = {name: column.type for name, column in table.held.items()}
    nearest = {n for n, column in table.held.items() if column.keys or column.bounds}
    if table.through is not None:
        wanted[table.through.column] = table.through.type
    elif table.unit is not None and not table.together:
        held = INTEGER if schema.types.get(table.unit) == INTEGER else TEXT
        wanted[table.unit] = table.unit_type or held
    return [
        Misfit(name, f"{place} {differs}", differs == _NO_COLUMN)
        for name, type_ in wanted.items()
        if (differs := _differs(name, type_, schema, nearest=name in nearest)) is not None
    ]


_NO_COLUMN = "has no such column"


def _differs(name: str, declared: Type, schema: Schema, *, nearest: bool) -> str | None:
    actual = schema.types.get(name)
    if actual is not None and schema.fields is not None:
        return None
    if actual is not None and widens(actual, declared, nearest=nearest):
        return None
    if name in schema.written:
        if actual is not None and widens(actual, declared, nearest=True):
            return f"has {schema.written[name]}: an integer of it needs bounds or keys"
        twice = "; it has others of that name but for case" if name in schema.alike else ""
        return f"has {schema.written[name]}, declared is {declared}{twice}"
    near = [one for one in schema.written if ascii_folded(one) == ascii_folded(name)]
    if near:
        return f"{_NO_COLUMN}, but {written(near[0])}: write it as it is there"
    return _NO_COLUMN
