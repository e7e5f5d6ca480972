"""The first line of a CSV file, which names its fields: its schema, as a footer is of Parquet.

A policy says that there is such a line. Nothing below it is looked at here (I1).
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

from dpquery.policy.model import Csv

MARK = b"\xef\xbb\xbf"
"""What may begin a file of UTF-8, and is no text."""
_LONGEST = 2**18


def opened(path: Path) -> BinaryIO:
    """Open a file, which may be compressed."""
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(path))
    return path.open("rb")


def fields_of(path: Path, format_: Csv) -> tuple[str, ...] | None:
    """Return the names of the fields of a file; None where they cannot be read."""
    if format_.fields is not None:
        return format_.fields
    signs = {"delimiter": format_.delimiter, "quotechar": format_.quote or None}
    quoting = csv.QUOTE_MINIMAL if format_.quote else csv.QUOTE_NONE
    try:
        with opened(path) as file:
            line = file.readline(_LONGEST).removeprefix(MARK)
        text = line.decode().rstrip("\r\n")
        (names,) = csv.reader([text], quoting=quoting, **signs)  # type: ignore[arg-type]
    except (OSError, EOFError, ValueError, csv.Error, zlib.error):
        return None
    return tuple(names) or None


def likely_delimiter(fields: Sequence[str]) -> str | None:
    """Return what may part the fields of a line that was taken for one field.

    >>> [likely_delimiter(names) for names in (["id;age;city"], ["id"], ["a;b", "c"])]
    [';', None, None]
    """
    if len(fields) != 1:
        return None
    return max(";\t|", key=fields[0].count) if set(";\t|") & set(fields[0]) else None
