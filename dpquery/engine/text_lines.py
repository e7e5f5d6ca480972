"""The lines of text files, one by one: what stands in one of them changes no other.

A reader of CSV lets a quote that is not closed take in the lines below it, guesses by the first
ones how the others are written, and gives up at what it cannot read: one person's line would
decide about those of others. So files are cut at line ends alone, and what stands in a line is
made columns by expressions that have a value for every text (`duckdb/sources/lines_sql.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpquery.policy.sources.csv_headers import MARK, opened

LONGEST = 2**18
"""Bytes of a line: a longer one cannot be read."""
BLOCK = 2**20
"""Bytes that are read at a time: with the line before them, all that is held."""
SCHEMA = pa.schema([("line", pa.string())])
_LF, _CR = b"\n\r"


class Lines:
    """The lines of some files, as a stream that can be read again and again.

    NULL is a line that cannot be read: one that is too long, or is no UTF-8.
    """

    def __init__(self, paths: Sequence[Path], *, header: bool) -> None:
        """Name files; with a header, the first line of each is none of their rows."""
        self._paths = tuple(paths)
        self._header = header

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Begin to read, for whatever reads Arrow."""
        batches = pa.RecordBatchReader.from_batches(SCHEMA, self._batches())
        return batches.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for path in self._paths:
            first = self._header
            for data in _whole_lines(path):
                lines = _lines(data)
                lines = lines[1:] if first else lines
                first = False
                yield pa.record_batch([lines.filter(_full(lines))], schema=SCHEMA)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces of whole lines, each with its end."""
    with opened(path) as file:
        rest, mark = b"", MARK
        while block := file.read(BLOCK):
            block, mark = block.removeprefix(mark), b""
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end]
                rest = b""
            rest = (rest + block[end:])[: LONGEST + 2]  # of what is too long, enough to know
        if rest:
            yield rest + b"\n"


def _lines(data: bytes) -> pa.Array:
    """Cut whole lines apart, without their ends; those that cannot be read are NULL."""
    given = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(given == _LF)
    returned = given[ends - 1] == _CR  # of a first end, the last byte: an end, and no return
    kept = np.ones(len(given), bool)
    kept[ends] = kept[ends[returned] - 1] = False
    lengths = np.diff(ends, prepend=-1) - 1 - returned
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    text, readable = given[kept].tobytes(), lengths <= LONGEST
    if not data.isascii():
        try:
            data.decode()  # with the ends: lines without them can be text together alone
        except UnicodeDecodeError:
            readable &= [_is_text(text[a:b]) for a, b in pairwise(offsets)]
    present = np.packbits(readable, bitorder="little")
    buffers = [pa.py_buffer(present), pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(ends), buffers)


def _full(lines: pa.Array) -> pa.Array:
    """Say which lines are rows: all but those with nothing in them."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.not_equal(pc.binary_length(lines), 0), True)


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
