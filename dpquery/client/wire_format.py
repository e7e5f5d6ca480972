"""Values on their way between processes: answers, explanations, refusals, as JSON.

An answer that arrives is the one that was sent: its rows, its loss, and the law behind each
noisy value, so that every interval can be asked of it. Only our own data classes and plain
values have a form here, and reading one makes these and runs nothing.
"""

from __future__ import annotations

import io
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from importlib import import_module
from typing import Any

import pyarrow as pa

from dpquery.errors import DPQueryError, internal

_HOMES = ("answer", "core", "errors", "functions", "ir", "mechanisms", "plan", "session", "sql")
"""The modules of ours whose classes can be sent."""


def _fraction(text: str) -> Fraction:
    """Read a fraction as `str` writes it: an exponent could stand for any number of digits."""
    above, _, below = text.partition("/")
    return Fraction(int(above), int(below or 1))


_PLAIN: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "fraction": (Fraction, str, _fraction),
    "decimal": (Decimal, str, Decimal),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
}
"""By the word on the wire: the type, how it is written, and how it is read."""


def arrow_bytes(table: pa.Table) -> bytes:
    """Return a table as a stream of Arrow."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def arrow_table(stream: bytes) -> pa.Table:
    """Return the table that a stream of Arrow holds."""
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()


def dumps(value: object) -> bytes:
    """Write a value.

    Raises:
        InternalError: it is made of something that is not sent.
    """
    return json.dumps(_Writer().write(value), separators=(",", ":")).encode()


_UNREADABLE = (
    OSError, MemoryError, pa.ArrowException,  # of rows
    LookupError, TypeError, AttributeError, ImportError, ValueError, ArithmeticError,
    RecursionError,
)  # fmt: skip


def loads(text: bytes, *, plain: bool = False) -> Any:
    """Read a value that `dumps` wrote.

    Args:
        text: what was written.
        plain: whether it is of numbers, texts, times, lists and maps alone. What clients send
            is: a few bytes that say they are rows can stand for any amount of memory.

    Raises:
        ValueError: it is no such text.
    """
    try:
        return _Reader(plain=plain).read(json.loads(text))
    except _UNREADABLE:
        raise ValueError(
            "this is not what dpquery sends, or of another version of it"
        ) from None


class _Writer:
    """Writes each object once: what stands behind many cells is one law."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []

    def write(self, value: Any) -> Any:
        """Return what JSON can hold."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return {"enum": _name(type(value)), "is": value.name}
        if isinstance(value, str | int | float):  # of a kind of its own, too
            return next(plain(value) for plain in (str, int, float) if isinstance(value, plain))
        for word, (kind, written, _) in _PLAIN.items():
            if isinstance(value, kind):
                return {word: written(value)}
        if isinstance(value, list | tuple):
            items = [self.write(one) for one in value]
            return items if isinstance(value, list) else {"tuple": items}
        if isinstance(value, frozenset):
            return {"set": [self.write(one) for one in sorted(value)]}
        if isinstance(value, Mapping):
            return {"map": [[self.write(k), self.write(v)] for k, v in value.items()]}
        if isinstance(value, pa.Table):
            return {"arrow": b64encode(arrow_bytes(value)).decode()}
        if isinstance(value, pa.Schema):
            return {"schema": b64encode(arrow_bytes(value.empty_table())).decode()}
        return self._object(value)

    def _object(self, value: object) -> Any:
        if id(value) in self._seen:
            return {"again": self._seen[id(value)]}
        if isinstance(value, DPQueryError):
            parts = {name: self.write(part) for name, part in vars(value).items()}
        elif is_dataclass(value) and not isinstance(value, type):
            parts = {one.name: self.write(getattr(value, one.name)) for one in fields(value)}
        else:
            raise internal(f"a {type(value).__name__} is not sent")
        self._seen[id(value)] = len(self._kept)
        self._kept.append(value)  # so that no other object gets its id
        return {"object": _name(type(value)), "is": parts}


class _Reader:
    def __init__(self, *, plain: bool) -> None:
        self._plain = plain
        self._made: list[object] = []

    def read(self, text: Any) -> Any:
        """Return the value."""
        if isinstance(text, list):
            return [self.read(one) for one in text]
        if not isinstance(text, dict):
            return text
        (word, inner), *_ = text.items()
        if word in _PLAIN:
            return _PLAIN[word][2](inner)
        match word:
            case "tuple":
                return tuple(self.read(one) for one in inner)
            case "map":
                return {self.read(key): self.read(value) for key, value in inner}
            case _ if self._plain:
                raise LookupError(word)
            case "set":
                return frozenset(self.read(one) for one in inner)
            case "arrow":
                return arrow_table(b64decode(inner))
            case "schema":
                return arrow_table(b64decode(inner)).schema
            case "again":
                return self._made[inner]
            case "enum":
                return _class(inner, Enum)[text["is"]]
        return self._object(_class(text["object"], object), text["is"])

    def _object(self, kind: Any, parts: dict[str, Any]) -> object:
        """Make an object of its parts: its own code has run where it was made first."""
        values = {name: self.read(part) for name, part in parts.items()}
        made = kind.__new__(kind)
        if isinstance(made, DPQueryError):
            made.args = (values["diagnostic"].title,)
        else:
            values = {one.name: values[one.name] for one in fields(kind)}
        for name, value in values.items():
            object.__setattr__(made, name, value)
        self._made.append(made)
        return made


def _name(kind: type) -> str:
    return f"{kind.__module__.removeprefix('dpquery.')}:{kind.__qualname__}"


def _class(name: str, base: type) -> Any:
    """Return a class of ours that can be sent, by its name."""
    module, _, own = name.partition(":")
    if module.partition(".")[0] not in _HOMES or not own.isidentifier():
        raise LookupError(name)
    kind = vars(import_module(f"dpquery.{module}"))[own]
    sent = isinstance(kind, type) and kind.__module__ == f"dpquery.{module}"
    if not sent or not (is_dataclass(kind) or issubclass(kind, DPQueryError | Enum)):
        raise LookupError(name)
    if not issubclass(kind, base):
        raise LookupError(name)
    return kind
