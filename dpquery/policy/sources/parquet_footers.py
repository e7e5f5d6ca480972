"""What tells one state of a file from another, and the schema in the footer of a Parquet file.

A footer is read once for each state of its file, also by several sessions of a process: with a
thousand files that is most of what opening them takes. The hash of a footer is held against a
later one after a charge, and shown to nobody; of what else stands there, names and types alone
are looked at (I1).
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

_MAGIC = b"PAR1"
_END = 8
"""Bytes that close a footer: its length, and what says that the file is Parquet."""
_TAIL = 2**14
_LARGEST = 2**26
SETTLED = 2 * 10**9
"""Nanoseconds after which a file that is written to has another time: clocks have ticks."""
_MOST = 2**17
_KEPT: dict[str, tuple[tuple[int, ...] | None, Footer]] = {}
"""Each file that was read, with its state; None where it was too new for its time to tell."""


@dataclass(frozen=True, slots=True)
class Footer:
    """A file as it stands: its place, size and time, and what its end says."""

    state: tuple[int, int, int, int, str]
    schema: pa.Schema | None
    """None where the file is no Parquet file, or not a whole one."""


def footer(path: Path) -> Footer:
    """Return the end of a file, as it is now.

    Raises:
        OSError: it is not there, or may not be read.
    """
    key = str(path)
    found = os.stat(key)
    known, kept = _KEPT.get(key, (None, None))
    if kept is not None and known == _state(found):
        return kept
    read, found = _read(key)
    settled = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > SETTLED
    if len(_KEPT) >= _MOST:
        _KEPT.clear()
    _KEPT[key] = _state(found) if settled else None, read
    return read


def seen(path: Path) -> Footer:
    """Return the end of a file as it was when it was last looked at."""
    known = _KEPT.get(str(path))
    return footer(path) if known is None else known[1]


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(path: str) -> tuple[Footer, os.stat_result]:
    file = os.open(path, os.O_RDONLY)
    try:
        found = os.fstat(file)
        tail = _last(file, found.st_size, _TAIL)
        parquet, length = tail[-4:] == _MAGIC, 4096
        if parquet:
            length = min(int.from_bytes(tail[-_END:-4], "little") + _END, _LARGEST)
        end = tail[-length:] if length <= len(tail) else _last(file, found.st_size, length)
    finally:
        os.close(file)
    digest = hashlib.sha256(end).hexdigest()
    state = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, digest
    return Footer(state, _schema(end) if parquet else None), found


def _last(file: int, size: int, length: int) -> bytes:
    return os.pread(file, length, max(0, size - length))


_SCHEMAS: list[pa.Schema] = []
"""Schemas that were read: most files of a table have the same, and then it is one object."""


def _schema(end: bytes) -> pa.Schema | None:
    # `pyarrow.parquet` has this class too, but brings TLS and every cloud with it.
    from pyarrow._parquet import ParquetReader

    reader = ParquetReader()
    try:
        # The engine reads INT96 in microseconds, which hold more years than nanoseconds do. Of
        # what Parquet calls a UUID, few writers put down Arrow's type as well.
        reader.open(
            pa.BufferReader(end),
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=True,
        )
        found = reader.schema_arrow
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None
    same = next((one for one in _SCHEMAS if found.equals(one, check_metadata=True)), None)
    if same is None:
        _SCHEMAS[:] = [found, *_SCHEMAS[:15]]
    return same or found
