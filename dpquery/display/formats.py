"""The formats an answer can be written in: one function each, and one line in FORMATS.

A writer sees an answer and a stream of bytes, nothing else. It never refuses: the answer has
been charged for, and must reach the analyst.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from datetime import date, time
from decimal import Decimal
from typing import IO, TYPE_CHECKING

from dpquery.core.source_text import visible
from dpquery.core.text_table import value_text

if TYPE_CHECKING:
    from dpquery.answer import Answer

Writer = Callable[["Answer", IO[bytes]], None]


def write_table(answer: Answer, stream: IO[bytes]) -> None:
    """Write the answer as aligned text, each noisy value with its 95 % interval.

    Control characters show as signs and long texts are shortened; the other formats keep all.
    A terminal gets the first and the last rows of a long answer.
    """
    text = str(answer) if stream.isatty() else answer.to_text()
    stream.write(f"{text}\n".encode(errors="replace"))


_QUOTED = frozenset('",\r\n')
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a text begins with that a spreadsheet may run."""


def write_csv(answer: Answer, stream: IO[bytes]) -> None:
    r"""Write the answer as CSV after RFC 4180: a header, lines that end in \r\n, UTF-8.

    NULL is an empty field and the empty text is `""`, as DuckDB and PostgreSQL read them back.
    Texts can be chosen by people in the data, and spreadsheets take some for formulas: these
    get an apostrophe before them, as OWASP advises. All other values keep every character in a
    file and in a pipe, which a program reads; on a terminal they become visible. JSON, Arrow
    and Parquet keep texts as they are.
    """
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


def write_json(answer: Answer, stream: IO[bytes]) -> None:
    """Write the answer as a JSON array of objects, one row on each line.

    As with DuckDB's shell and PostgreSQL's `to_json`: integers and decimals are numbers with
    all their digits (a reader that needs more than a double's precision must ask its parser for
    it), dates and timestamps are ISO 8601 texts, and what JSON cannot say of a double is the
    text NaN, Infinity or -Infinity. Characters that do not print are escaped, so that the
    output cannot drive a terminal.
    """
    stream.write(b"[")
    for at, row in enumerate(answer.to_dicts()):
        stream.write((",\n" if at else "").encode() + _json(row).encode())
    stream.write(b"]\n")


def _json(value: object) -> str:
    match value:
        case None | bool() | int():
            return json.dumps(value)
        case float():
            text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return json.dumps(value if math.isfinite(value) else text)
        case Decimal():
            return format(value, "f")
        case date() | time():
            return json.dumps(value.isoformat())
        case list():
            return f"[{','.join(map(_json, value))}]"
        case dict():
            items = (f"{_text(key)}:{_json(item)}" for key, item in value.items())
            return f"{{{','.join(items)}}}"
    return _text(str(value))


def _text(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in written)


def write_arrow(answer: Answer, stream: IO[bytes]) -> None:
    """Write the answer as an Arrow IPC file."""
    import pyarrow as pa

    table = answer.to_arrow()
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)


def write_parquet(answer: Answer, stream: IO[bytes]) -> None:
    """Write the answer as a Parquet file."""
    from pyarrow import parquet

    parquet.write_table(answer.to_arrow(), stream)


FORMATS: dict[str, Writer] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
    "arrow": write_arrow,
    "parquet": write_parquet,
}

BINARY = frozenset({"arrow", "parquet"})
"""Formats that are a whole file of bytes: one answer each, and never to a terminal."""
