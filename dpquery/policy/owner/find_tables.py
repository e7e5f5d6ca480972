"""From what the owner names to tables: files, folders and DuckDB files, with their schemas.

Names of files, and names and types of columns, are looked at; no row, count or statistic (I1).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from pathlib import Path

from dpquery.core.source_text import visible
from dpquery.core.types import TEXT
from dpquery.policy.document import Unfit, toml_key, toml_text, written
from dpquery.policy.model import MAIN, Column, External, Files, Table
from dpquery.policy.name_conventions import words
from dpquery.policy.sources.csv_headers import fields_of, likely_delimiter
from dpquery.policy.sources.paths import (
    as_parquet,
    csv_format,
    find_external,
    find_files,
    folder_columns,
    format_of,
    is_database,
    is_sqlite,
    stem,
)
from dpquery.policy.sources.schema import (
    Schema,
    external_schema,
    read_header,
    read_schema,
    united,
)
from dpquery.policy.sources.schema_mismatches import file_misfits
from dpquery.policy.sources.sqlite_postgres import sqlite_names
from dpquery.policy.value_parsers import ascii_folded, read_name

Databases = Callable[[Path], Mapping[tuple[str, str], Schema]]
"""Returns what the tables of a DuckDB file have, by schema and name: only an engine can."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table that a policy could have, and the lines that say where its rows are."""

    name: str
    source: dict[str, str]
    schema: Schema
    untyped: frozenset[str] = frozenset()
    """Columns of texts that may be read as something else: of CSV, and of names of folders."""


@dataclass(slots=True)
class Found:
    """All tables that were found, and why others are not among them."""

    tables: list[FoundTable] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def find_tables(paths: Sequence[str], directory: Path, databases: Databases) -> Found:
    """Find the tables behind some paths; their names are told apart, as SQL does.

    Raises:
        Unfit: DPQ601 a path names nothing that holds a table; DPQ612 files of a glob do not
            have the columns of the first; DPQ613 files of a table format.
    """
    found, files = Found(), []
    for path in paths:
        if (external := find_external([path], directory)) is not None:
            found.tables.append(_external(path, external))
        elif (directory / path).is_dir():
            _in_folder(path, directory, databases, found)
        elif is_database(Path(path)):
            _in_database(path, directory, databases, found)
        elif glob.has_magic(path) and not (directory / path).exists():
            found.tables.append(_table([path], directory))
        else:
            files.append(path)
    for group in _alike(files, directory):
        found.tables += _one_or_many(group, directory)
    found.tables = _apart(found.tables)
    return found


def _external(path: str, source: External) -> FoundTable:
    name = stem(path.rstrip("/"))
    return FoundTable(name, {"path": toml_text(path)}, external_schema(source))


def _in_database(path: str, directory: Path, databases: Databases, found: Found) -> None:
    """Find the tables of a database, and say which of its views cannot be read row by row."""
    file = directory / path
    if file.is_file() and is_sqlite(file):
        place = os.path.realpath(file)
        whole = [External("sqlite", place, name) for name in sqlite_names(Path(place))]
        tables: Mapping[tuple[str, str], Schema] = {
            (MAIN, one.table): external_schema(one) for one in whole
        }
    else:
        tables = databases(file)
    if not tables:
        what = f"names a database without tables: {written(path)}"
        raise Unfit(what, "a policy is made of the columns of tables.", code="DPQ601")
    for (schema, name), columns in tables.items():
        source = {"database": toml_text(path), "table": toml_text(name)}
        if schema != MAIN or "." in name:
            source["schema"] = toml_text(schema)
        if columns.types or not columns.left_out:
            found.tables.append(FoundTable(name, source, columns))
        else:
            found.left_out[f"{name} of {path}"] = next(iter(columns.left_out.values()))


def _in_folder(path: str, directory: Path, databases: Databases, found: Found) -> None:
    """Find what a folder holds, whatever else stands in it."""
    files, before, refused = list[str](), len(found.tables), list[Unfit]()

    @contextmanager
    def telling(what: str) -> Iterator[None]:
        try:
            yield
        except Unfit as unfit:
            refused.append(unfit)
            lines = unfit.remedy[1:] if format_of([Path(what)]) == "json" else ()
            told = "\n  ".join([f"it {unfit.what}", *lines])
            found.left_out[Path(what).as_posix()] = told

    for place, folders, names in os.walk(directory / path):
        here = os.path.normpath(Path(path, os.path.relpath(place, directory / path)))
        external = find_external([here], directory)
        if external is not None:
            folders.clear()
            with telling(here):
                found.tables.append(_external(Path(here).as_posix(), external))
            continue
        folders[:] = sorted(one for one in folders if one[0] not in "._" or "=" in one)
        for name in sorted(one for one in names if one[0] not in "._"):
            file = os.path.normpath(Path(here, name))
            if is_database(Path(name)):
                with telling(file):
                    _in_database(file, directory, databases, found)
            elif name.lower().endswith(".parquet") or format_of([Path(name)]) != "parquet":
                files.append(Path(file).as_posix())
    for group in _alike(files, directory):
        with telling(group[0]):
            found.tables += _one_or_many(group, directory)
    if len(found.tables) == before:
        what = f"names a folder without Parquet, CSV or DuckDB files: {written(path)}"
        missing = Unfit(what, "tables are read from these.", code="DPQ601")
        raise next(iter(refused), missing)


# Which files are one table: those of a folder whose names differ in numbers only, and all
# files below a folder whose own folders are named as values of a column.

_NUMBER = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\d+"
_HIVE = re.compile(r"[^=]+=[^=]*")
_PARTS = frozenset(("part", "data", "file", "chunk", "block", "split", "c"))
"""What files are called that have no name of their own."""


def _alike(files: Sequence[str], directory: Path) -> Iterator[list[str]]:
    """Yield groups of files that could be one table."""

    def told(file: str) -> tuple[str, str]:
        root = _root(file)
        name = re.sub(_NUMBER, "#", Path(file).name)
        return (str(root), "") if root != Path(file).parent else (str(root), name)

    ordered = sorted(dict.fromkeys(files), key=lambda file: (told(file), file))
    for _, group in groupby(ordered, key=told):
        yield [*group]


def _root(file: str) -> Path:
    """Return the folder of a file, above those that are named as values."""
    parts = Path(file).parent.parts
    above = [*takewhile(lambda part: not _HIVE.fullmatch(part), parts)]
    return Path(*above)


def _one_or_many(group: list[str], directory: Path) -> Iterator[FoundTable]:
    """Yield the one table of some files, or a table for each schema among them."""
    try:
        yield _table(_pattern(group, directory), directory)
    except Unfit as unfit:
        if unfit.code != "DPQ612":
            raise

        def columns(file: str) -> list[tuple[str, str]]:
            return sorted(_schema((directory / file,)).written.items())

        for _, same in groupby(sorted(group, key=columns), key=columns):
            yield _table(_pattern([*same], directory), directory)


def _pattern(group: list[str], directory: Path) -> list[str]:
    """Write a group as a glob or a folder, where that names these files and no others."""
    root, begin = _root(group[0]), re.split(_NUMBER, Path(group[0]).name)[0]
    below = any(Path(file).parent != root for file in group)
    if len(group) == 1 and not below:
        return group
    end = "".join(Path(group[0]).suffixes[-2:]) if group[0].endswith(".gz") else ""
    end = end or Path(group[0]).suffix
    patterns = [str(root)] if below else [str(root / f"{one}*{end}") for one in ("", begin)]
    for pattern in patterns:
        if _named(group, directory) == _named([pattern], directory):
            return [pattern]
    return group


def _named(paths: list[str], directory: Path) -> set[Path]:
    """Return the files that paths name; none where they are refused."""
    try:
        return {*find_files(paths, directory)}
    except Unfit:
        return set()


def _table(paths: list[str], directory: Path) -> FoundTable:
    """Return the table of some paths: its columns are those of all files together."""
    files = find_files(paths, directory)
    if format_of(files) == "json":
        raise _unlisted(paths, files)
    schema = _schema(files)
    parted = likely_delimiter(fields_of(files[0], csv_format(files)) or ())
    source = {"delimiter": toml_text(parted)} if schema.fields and parted else {}
    lines, folders = format_of(files) == "csv", folder_columns(files) - schema.written.keys()
    named = {name: TEXT for name in sorted(folders) if read_name.fits(name)}
    return FoundTable(
        _name(paths[0]),
        {"path": _place(paths)} | source,
        replace(schema, types={**schema.types, **named}),
        frozenset(schema.types if lines else ()) | named.keys(),
    )


def _place(paths: Sequence[str]) -> str:
    texts = [toml_text(Path(path).as_posix()) for path in paths]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _unlisted(paths: Sequence[str], files: Sequence[Path]) -> Unfit:
    """Refuse files of JSON, with the lines that a policy can have of them."""
    name = visible(files[0].name)
    return Unfit(
        f"names a file that does not say what its columns are, so list them: {name}",
        "each line of JSON has fields of its own.",
        as_parquet(str(files[0])),
        f"[tables.{toml_key(_name(paths[0]))}]   # in a policy, with its unit or public = true",
        f"path = {_place(paths)}",
        'columns = { name = { type = "text" }, amount = { type = "integer" } }   # for example',
        code="DPQ601",
    )


def _schema(files: tuple[Path, ...]) -> Schema:
    """Read the schema of some files, or refuse those that do not fit the first of them."""
    if format_of(files) == "csv":
        format_ = csv_format(files)
        parted = likely_delimiter(read_header(files[0], format_).fields or ())
        format_ = replace(format_, delimiter=parted or format_.delimiter)
        return united(read_header(file, format_) for file in files)
    first = read_schema(files[0])
    columns = {name: Column(name, type_) for name, type_ in first.types.items()}
    misfits = file_misfits(Table("", Files(files), (), columns)) if len(files) > 1 else ()
    if misfits:
        raise Unfit(
            f"matches files that differ from {files[0].name}: {misfits[0]}",
            "all files of a table have the columns of the first, in types that widen to its.",
            "leave out the files that differ, or draft a table for each kind",
            code="DPQ612",
        )
    return united(map(read_schema, files))


def _name(path: str) -> str:
    """Name a table after its files, or after their folder where they have no name."""
    own = stem(path.removesuffix(".gz")) if words(stem(path)) else ""
    own = re.split(rf"[\W_]*(?:{_NUMBER})", own)[0] if glob.has_magic(path) else own
    said = [word for word in words(own) if not word.isdigit()]
    return own if own and not set(said) <= _PARTS else _root(path).name or own


def _apart(tables: list[FoundTable]) -> list[FoundTable]:
    """Give every table a name of its own, which can be printed."""
    seen: dict[str, FoundTable] = {}
    for table in tables:
        name = plain = table.name if read_name.fits(table.name) else "people"
        number = 1
        while ascii_folded(name) in seen:
            number += 1
            name = f"{plain}_{number}"
        seen[ascii_folded(name)] = replace(table, name=name)
    return [*seen.values()]
