"""From what the owner names to tables: files, folders and DuckDB files, with their schemas.

Names of files, and names and types of columns, are looked at; no row, count or statistic (I1).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from pathlib import Path

from dpquery.policy.document import Unfit, toml_text, written
from dpquery.policy.files import as_parquet, find_external, find_files, is_database, stem
from dpquery.policy.model import Column, Files, Table
from dpquery.policy.names import words
from dpquery.policy.schema import Schema, external_schema, file_misfits, read_schema
from dpquery.policy.values import ascii_folded, read_name

Databases = Callable[[Path], Mapping[str, Schema]]
"""Returns the schemas of the tables in a DuckDB file, which only an engine can read."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table that a policy could have, and the lines that say where its rows are."""

    name: str
    source: dict[str, str]
    schema: Schema
    folders: tuple[str, ...] = ()
    """Columns whose values stand in names of folders (`year=2024`)."""


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
        external = find_external([path], directory)
        if external is not None:
            source = {"path": toml_text(path)}
            schema = external_schema(external)
            found.tables.append(FoundTable(stem(path.rstrip("/")), source, schema))
        elif (directory / path).is_dir():
            _in_folder(path, directory, databases, found)
        elif is_database(Path(path)):
            found.tables += _in_database(path, directory, databases)
        elif glob.has_magic(path) and not (directory / path).exists():
            found.tables.append(_table([path], directory))
        else:
            files.append(path)
    for group in _alike(files, directory):
        found.tables += _one_or_many(group, directory)
    found.tables = _apart(found.tables)
    return found


def _in_database(path: str, directory: Path, databases: Databases) -> Iterator[FoundTable]:
    tables = databases(directory / path)
    if not tables:
        what = f"names a DuckDB file without tables in main: {written(path)}"
        raise Unfit(what, "tables of other schemas, and views, are not read.", code="DPQ601")
    for name, schema in tables.items():
        source = {"database": toml_text(path), "table": toml_text(name)}
        yield FoundTable(name, source, schema)


def _in_folder(path: str, directory: Path, databases: Databases, found: Found) -> None:
    """Find what a folder holds, whatever else stands in it."""
    parquet, recipes, before = [], list[str](), len(found.tables)
    for place, folders, names in os.walk(directory / path):
        folders[:] = sorted(one for one in folders if one[0] not in "._")
        for name in sorted(one for one in names if one[0] not in "._"):
            file = os.path.normpath(Path(path, os.path.relpath(place, directory / path), name))
            suffix = Path(name).suffix.lower()
            if suffix in {".parquet", ".pq"}:
                parquet.append(Path(file).as_posix())
            elif is_database(Path(name)):
                found.tables += _in_database(file, directory, databases)
            elif (recipe := as_parquet(file)) != as_parquet(""):
                recipes.append(recipe)
                told = f"only public tables can name it as it is; otherwise {recipe}"
                found.left_out[file] = told
    first = None
    for group in _alike(parquet, directory):
        try:
            found.tables += _one_or_many(group, directory)
        except Unfit as unfit:
            first = first or unfit
            found.left_out[group[0]] = f"it {unfit.what}"
    if len(found.tables) == before:
        what = f"names a folder without Parquet or DuckDB files: {written(path)}"
        why = "tables are read from these."
        raise first or Unfit(what, why, *recipes[:3], code="DPQ601")


# Which files are one table: those of a folder whose names differ in numbers only, and all
# files below a folder whose own folders are named as values of a column.

_NUMBER = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\d+"
_HIVE = re.compile(r"[^=]+=[^=]*")
_PARTS = frozenset(["part", "data", "file", "chunk", "block", "split", "c"])
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
            return sorted(read_schema(directory / file).written.items())

        for _, same in groupby(sorted(group, key=columns), key=columns):
            yield _table(_pattern([*same], directory), directory)


def _pattern(group: list[str], directory: Path) -> list[str]:
    """Write a group as a glob where that names these files and no others."""
    if len(group) == 1 and _root(group[0]) == Path(group[0]).parent:
        return group
    root = _root(group[0])
    if any(Path(file).parent != root for file in group):
        patterns = [(root / "**/*.parquet").as_posix()]
    else:
        named = Path(group[0]).name
        begin = re.split(_NUMBER, named)[0]
        patterns = [(root / f"{one}*.parquet").as_posix() for one in ("", begin)]
    for pattern in patterns:
        names = glob.glob(pattern, root_dir=directory, recursive=True)
        if {*map(os.path.normpath, names)} == {*map(os.path.normpath, group)}:
            return [pattern]
    return group


def _table(paths: list[str], directory: Path) -> FoundTable:
    """Return the table of some paths; its columns are those of the first file."""
    files = find_files(paths, directory)
    schema = read_schema(files[0])
    _refuse_others(files, schema)
    texts = [toml_text(Path(path).as_posix()) for path in paths]
    source = {"path": texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"}
    folders = files[0].parent.parts[len(_root(str(files[0])).parts) :]
    columns = tuple(part.partition("=")[0] for part in folders)
    return FoundTable(_name(paths[0]), source, schema, columns)


def _name(path: str) -> str:
    """Name a table after its files, or after their folder where they have no name."""
    own = stem(path) if len(words(stem(path))) else ""
    own = re.split(rf"[\W_]*(?:{_NUMBER})", own)[0] if glob.has_magic(path) else own
    said = [word for word in words(own) if not word.isdigit()]
    return own if own and not set(said) <= _PARTS else _root(path).name or own


def _refuse_others(files: tuple[Path, ...], first: Schema) -> None:
    """Refuse files that do not fit what is drafted from the first of them."""
    columns = {name: Column(name, type_) for name, type_ in first.types.items()}
    misfits = file_misfits(Table("", Files(files), (), columns)) if len(files) > 1 else ()
    if misfits:
        raise Unfit(
            f"matches files that differ from {files[0].name}: {misfits[0]}",
            "all files of a table have the columns of the first, in types that widen to its.",
            "leave out the files that differ, or draft a table for each kind",
            code="DPQ612",
        )


def _apart(tables: list[FoundTable]) -> list[FoundTable]:
    """Give every table a name of its own, which can be printed."""
    seen: dict[str, FoundTable] = {}
    for table in tables:
        name = plain = table.name if read_name.fits(table.name) else "people"
        number = 1
        while ascii_folded(name) in seen:
            number += 1
            name = f"{plain}_{number}"
        seen[ascii_folded(name)] = FoundTable(name, table.source, table.schema, table.folders)
    return [*seen.values()]
