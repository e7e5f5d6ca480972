r"""CSV after RFC 4180: a header, lines that end in \r\n, UTF-8 without a mark.

NULL is an empty field and the empty text is `""`, as DuckDB and PostgreSQL read them back.
Values keep every character: unlike a table, a CSV file is not made for terminals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from dpquery.answer import Answer
from dpquery.layout import value_text

__all__ = ["write"]

_QUOTED = frozenset('",\r\n')


def write(answer: Answer, stream: IO[bytes]) -> None:
    """Write the answer as CSV."""
    stream.write(_line(answer.columns))
    for row in answer.rows:
        stream.write(_line(row))


def _line(values: Iterable[object]) -> bytes:
    return (",".join(map(_field, values)) + "\r\n").encode()


def _field(value: object) -> str:
    if value is None:
        return ""
    text = value_text(value)
    quoted = not text or text != text.strip() or not _QUOTED.isdisjoint(text)
    return '"' + text.replace('"', '""') + '"' if quoted else text
