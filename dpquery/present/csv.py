r"""CSV after RFC 4180: a header, lines that end in \r\n, UTF-8 without a mark.

NULL is an empty field and the empty text is `""`, as DuckDB and PostgreSQL read them back.
Texts can be chosen by people in the data, and spreadsheets take some for formulas: these get an
apostrophe before them, as OWASP advises. All other values keep every character in a file and in
a pipe, which a program reads; on a terminal they become visible. JSON, Arrow and Parquet keep
texts as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO

from dpquery.answer import Answer
from dpquery.layout import value_text
from dpquery.source import visible

__all__ = ["write"]

_QUOTED = frozenset('",\r\n')
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a text begins with that a spreadsheet may run."""


def write(answer: Answer, stream: IO[bytes]) -> None:
    """Write the answer as CSV."""
    shown = visible if stream.isatty() else str
    stream.write(_line(answer.columns, shown))
    for row in answer.rows:
        stream.write(_line(row, shown))


def _line(values: Iterable[object], shown: Callable[[str], str]) -> bytes:
    return (",".join(_field(value, shown) for value in values) + "\r\n").encode()


def _field(value: object, shown: Callable[[str], str]) -> str:
    if value is None:
        return ""
    text = value_text(value)
    if isinstance(value, str) and text.startswith(_FORMULA):
        text = f"'{text}"
    text = shown(text)
    quoted = not text or text != text.strip() or not _QUOTED.isdisjoint(text)
    return '"' + text.replace('"', '""') + '"' if quoted else text
