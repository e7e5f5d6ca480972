"""Rows on their way to a client: as messages of data, or as COPY writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo

import pyarrow as pa

from dpquery.server.postgres import messages
from dpquery.server.postgres.messages import NULL, is_binary
from dpquery.server.postgres.statement_kinds import Form
from dpquery.server.postgres.type_codecs import PgType, encoder, type_of

STEP = 500
"""Rows that are written at once."""
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + messages.int32(0, 0)
_ESCAPES = {
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}

Row = Sequence[bytes | None]


def description(schema: pa.Schema, formats: Sequence[bool]) -> bytes:
    """Write what columns an answer has."""
    parts = [messages.int16(len(schema))]
    for at, field in enumerate(schema):
        type_ = _type(field)
        parts += [
            messages.text(field.name),
            messages.int32(0) + messages.int16(0) + type_.oid.to_bytes(4),
            messages.int16(type_.width) + messages.int32(type_.modifier),
            messages.int16(is_binary(formats, at)),
        ]
    return messages.message(b"T", *parts)


def data(
    table: pa.Table, schema: pa.Schema, formats: Sequence[bool], zone: tzinfo
) -> Iterator[bytes]:
    """Write rows, some at a time, in the types that were described."""
    binary = [is_binary(formats, at) for at in range(len(schema))]
    for rows in _encoded(table, schema, binary, zone):
        yield b"".join(_message(b"D", row) for row in rows)


def copied(table: pa.Table, form: Form, zone: tzinfo) -> Iterator[bytes]:
    """Write rows as COPY does, from its first message to its last but one."""
    binary, width = form.name == "binary", len(table.schema)
    overall = b"\1" if binary else b"\0"
    yield messages.message(b"H", overall, messages.int16(width, *[int(binary)] * width))
    lines = _Lines(form)
    head = _SIGNATURE if binary else b""
    if form.header and not binary:
        yield messages.message(b"d", lines.of([name.encode() for name in table.schema.names]))
    for rows in _encoded(table, table.schema, [binary] * width, zone):
        written: list[bytes] = []
        for row in rows:
            if binary:  # clients expect what stands before all rows beside the first
                written.append(_message(b"d", row, head))
            else:
                written.append(messages.message(b"d", lines.of(row)))
            head = b""
        yield b"".join(written)
    if binary:
        yield messages.message(b"d", head, messages.int16(-1))
    yield messages.message(b"c")


def _type(field: pa.Field) -> PgType:
    """Return the type of a column; what answers from the catalogue may name one of its own."""
    named = (field.metadata or {}).get(b"oid")
    return type_of(field.type) if named is None else PgType(int(named))


def _encoded(
    table: pa.Table, schema: pa.Schema, binary: Sequence[bool], zone: tzinfo
) -> Iterator[list[Row]]:
    encoders = [
        encoder(_type(field).oid, binary=one, zone=zone)
        for field, one in zip(schema, binary, strict=True)
    ]
    for start in range(0, table.num_rows, STEP):
        part = table.slice(start, STEP)
        columns = [
            [None if value is None else write(value) for value in column.to_pylist()]
            for column, write in zip(part.columns, encoders, strict=True)
        ]
        rows: list[Row] = list(zip(*columns, strict=True)) if columns else [()] * part.num_rows
        yield rows


def _message(letter: bytes, row: Row, head: bytes = b"") -> bytes:
    parts = [head, messages.int16(len(row))]
    for value in row:
        if value is None:
            parts.append(NULL)
        else:
            parts += [messages.int32(len(value)), value]
    return messages.message(letter, *parts)


class _Lines:
    """Writes rows as lines of text or of CSV."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._escapes = str.maketrans({**_ESCAPES, form.delimiter: f"\\{form.delimiter}"})
        if form.delimiter in _ESCAPES:
            self._escapes = str.maketrans(_ESCAPES)
        self.of: Callable[[Row], bytes] = self._csv if form.name == "csv" else self._text

    def _text(self, row: Row) -> bytes:
        values = [
            self._form.null if value is None else value.decode().translate(self._escapes)
            for value in row
        ]
        return (self._form.delimiter.join(values) + "\n").encode()

    def _csv(self, row: Row) -> bytes:
        alone = len(row) == 1
        values = [
            self._form.null if value is None else self._quoted(value.decode(), alone)
            for value in row
        ]
        return (self._form.delimiter.join(values) + "\n").encode()

    def _quoted(self, value: str, alone: bool) -> str:
        form = self._form
        special = value == form.null or (alone and value == "\\.")
        if special or any(sign in value for sign in (form.delimiter, form.quote, "\n", "\r")):
            return form.quote + value.replace(form.quote, form.quote * 2) + form.quote
        return value
