"""Whether files have the columns that a policy declares: names and types, no row.

The schema of its files is a public fact that the data owner answers for, as the policy is. What
differs is told in words for the owner; analysts hear only that something does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dpquery.policy.columns import ascii_folded
from dpquery.policy.model import Files, Table
from dpquery.policy.schema import Schema, read_schema, widens
from dpquery.policy.unfit import Unfit, written
from dpquery.types import INTEGER, TEXT, Type

__all__ = ["Misfit", "compare", "file_misfits"]


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
    """Say why a file has no schema."""
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
