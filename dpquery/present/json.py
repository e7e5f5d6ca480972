"""JSON: one array, one object for each row, one row on each line.

As with DuckDB's shell and PostgreSQL's `to_json`: integers and decimals are numbers with all
their digits (a reader that needs more than a double's precision must ask its parser for it),
dates and timestamps are ISO 8601 texts, and what JSON cannot say of a double is the text NaN,
Infinity or -Infinity. Characters that do not print are escaped, so that the output cannot drive
a terminal.
"""

from __future__ import annotations

import json
import math
from datetime import date
from decimal import Decimal
from typing import IO

from dpquery.answer import Answer

__all__ = ["write"]


def write(answer: Answer, stream: IO[bytes]) -> None:
    """Write the answer as an array of objects."""
    stream.write(b"[")
    for at, row in enumerate(answer.to_dicts()):
        stream.write((",\n" if at else "").encode() + _json(row).encode())
    stream.write(b"]\n")


def _json(value: object) -> str:
    match value:
        case None | bool() | int():
            return json.dumps(value)
        case float():
            return json.dumps(value if math.isfinite(value) else _unspeakable(value))
        case Decimal():
            return format(value, "f")
        case date():
            return json.dumps(value.isoformat())
        case list():
            return f"[{','.join(map(_json, value))}]"
        case dict():
            items = (f"{_text(key)}:{_json(item)}" for key, item in value.items())
            return f"{{{','.join(items)}}}"
    return _text(str(value))


def _unspeakable(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in written)
