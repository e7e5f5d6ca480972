"""Private files as they stand: fingerprints, and whether their types are the policy's.

Nothing here runs before a receipt is open. A fingerprint is taken before and after each scan,
so that one release sees one state of the data. Files are trusted to be what their format says:
text that is not UTF-8, or a page that cannot be decoded, fails every scan that reads it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dpquery.policy.fit import Misfit
from dpquery.policy.model import DatabaseTable, Table

__all__ = [
    "DataChanged",
    "Fingerprint",
    "State",
    "about_bytes",
    "files_of",
    "fingerprint",
    "require_none",
    "require_unchanged",
    "state_of",
]

_FOOTER = 8
_LARGEST_FOOTER = 2**26
_END = 2**20


class DataChanged(Exception):
    """The files are not what the policy or the scan took them for; for the owner's log."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells one state of a table's files from another."""

    files: tuple[tuple[int, int, int, int, str], ...]


def fingerprint(table: Table) -> Fingerprint:
    """Take the fingerprint of a table's files: place, size, time and footer of each."""
    return Fingerprint(tuple(_of_file(path) for path in files_of(table)))


def files_of(table: Table) -> list[Path]:
    """Give the files of a table: of a database, what waits to be written to it too."""
    if not isinstance(table.source, DatabaseTable):
        return list(table.source.paths)
    wal = table.source.database.with_name(table.source.database.name + ".wal")
    return [table.source.database, *([wal] if wal.exists() else [])]


State = dict[str, Fingerprint]
"""What several tables' files are, by table."""


def state_of(tables: Iterable[Table]) -> State:
    """Take the fingerprints of several tables."""
    return {table.name: fingerprint(table) for table in tables}


def require_unchanged(tables: Sequence[Table], state: State) -> None:
    """Hold files against what they were.

    Raises:
        DataChanged: one release would see two states of the data.
    """
    if state_of(tables) != state:
        names = ", ".join(table.name for table in tables)
        raise DataChanged(f"the files of {names} changed while they were read")


def _of_file(path: Path) -> tuple[int, int, int, int, str]:
    with path.open("rb") as file:
        state = os.fstat(file.fileno())
        end = _footer_length(_tail(file, state.st_size, _FOOTER))
        digest = hashlib.sha256(_tail(file, state.st_size, end)).hexdigest()
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, digest


def about_bytes(path: Path, *, whole: bool = False) -> str:
    """Give what tells the bytes of a file from others: its size, and a hash of both ends.

    In a Parquet file these are its first rows and its footer, with where all others are; a
    DuckDB file has at its beginning what counts every change. Values between can be exchanged
    without a trace in either, so that a hash of the whole file can be asked for.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if whole:
            digest = hashlib.file_digest(file, "sha256")
        else:
            digest = hashlib.sha256(file.read(_END) + _tail(file, size, _END))
    return f"{size} {digest.hexdigest()}"


def _tail(file: BinaryIO, size: int, length: int) -> bytes:
    file.seek(max(0, size - length))
    return file.read(length)


def _footer_length(tail: bytes) -> int:
    """Give how many bytes at the end hold a Parquet footer; a fixed share of other files."""
    if tail[4:] == b"PAR1":
        return min(int.from_bytes(tail[:4], "little") + _FOOTER, _LARGEST_FOOTER)
    return 4096


def require_none(table: Table, misfits: Sequence[Misfit]) -> None:
    """Refuse to read a table that is not what the policy says.

    Raises:
        DataChanged: a column is missing, or its type does not widen to the declared one.
    """
    if misfits:
        raise DataChanged(f"{table.name}: {misfits[0]}")
