"""Files that are no table by themselves: those of a table format, and those that hold several.

A table format keeps rows that were deleted, and a log that says which count. Its Parquet files
read one by one would bring people back who were to be forgotten, so they are refused by name.
Nothing here opens a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from glob import escape, glob
from pathlib import Path

from dpquery.policy.unfit import Unfit, written

__all__ = ["as_parquet", "is_database", "refuse_formats"]


@dataclass(frozen=True, slots=True)
class _Format:
    """A table format: what stands in its folder, and what reads its current version."""

    name: str
    log: str
    reader: str | None = None


_FORMATS = (
    _Format("a Delta Lake table", "_delta_log", "delta_scan"),
    _Format("an Iceberg table", "metadata/*.metadata.json", "iceberg_scan"),
    _Format("a Hudi table", ".hoodie"),
)
_DUCKLAKE = ".ducklake.files"
"""What DuckLake adds to the name of its catalogue, for the folder of a catalogue's files."""
_READERS = {
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".txt": "read_csv",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}
_DATABASES = frozenset({".duckdb", ".ddb", ".db"})


def refuse_formats(folders: Iterable[Path]) -> None:
    """Refuse folders that are those of a table format, or stand in one.

    Raises:
        Unfit: DPQ613.
    """
    ways = {way for one in set(folders) for way in (one.absolute(), _followed(one))}
    for folder in sorted({folder for way in ways for folder in (way, *way.parents)}):
        for one in _FORMATS:
            if glob(os.path.join(escape(str(folder)), one.log)):
                raise _unfit(one.name, folder, one.reader)
        if folder.name.endswith(_DUCKLAKE):
            raise _unfit("a DuckLake catalogue", folder, None)


def _followed(folder: Path) -> Path:
    """Follow links; of what has none, or a loop of them, what is written."""
    return Path(os.path.realpath(folder))


def _unfit(name: str, folder: Path, reader: str | None) -> Unfit:
    remedy = "write its current version to Parquet files elsewhere, with what keeps the table"
    if reader is not None:
        call = f"duckdb.table_function({reader!r}, [{str(folder)!r}])"
        remedy = _python(f"{call}.write_parquet({f'{folder.name}.parquet'!r})")
    return Unfit(
        f"names files of {name}: {written(str(folder))}",
        "its Parquet files can hold rows that were deleted since, and people with them.",
        remedy,
        code="DPQ613",
    )


def as_parquet(name: str) -> str:
    """Write what makes a Parquet file of another file, with what is installed here.

    >>> print(as_parquet("a.csv"))
    python -c "import duckdb; duckdb.read_csv('a.csv').write_parquet('a.parquet')"
    """
    path = Path(name)
    reader, to = _READERS.get(path.suffix.lower()), f"{path.stem}.parquet"
    if is_database(path):
        table = f"duckdb.connect({name!r}, read_only=True).table('people')"
        return _python(f"{table}.write_parquet('people.parquet')")
    if reader is None:
        return '"people.parquet"'
    return _python(f"duckdb.{reader}({name!r}).write_parquet({to!r})")


def _python(call: str) -> str:
    return f'python -c "import duckdb; {call}"'


def is_database(path: Path) -> bool:
    """Say whether a file is named as a database that DuckDB keeps."""
    return path.suffix.lower() in _DATABASES
