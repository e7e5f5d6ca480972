"""Messages of PostgreSQL's protocol 3: read within limits, and written.

Each is a letter, a length that counts itself, and a body; the first of a connection has no
letter. Nothing here knows what a message means.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dpquery.core.source_text import visible_lines
from dpquery.server.worker_messages import Fault

PROTOCOL: Final = 3
CANCEL, TLS, GSS = 80877102, 80877103, 80877104
"""What a first message can be instead of a start."""
_INT16, _INT32 = struct.Struct("!h"), struct.Struct("!i")
NULL: Final = b"\xff\xff\xff\xff"
_LONGEST_TEXT = 16_000
"""Characters of a message to people."""


class Malformed(Exception):
    """What came is no message of the protocol: nothing can be said to whom sent it."""


class Refused(Exception):
    """A statement that is answered with an error."""

    def __init__(self, fault: Fault, at: int | None = None) -> None:
        """Take the error, and where it points in what the client sent."""
        super().__init__(fault.title)
        self.fault = fault
        self.at = at

    @classmethod
    def of(cls, sqlstate: str, title: str, at: int | None = None, remedy: str = "") -> Refused:
        """Make one of the door's own."""
        return cls(Fault("", sqlstate, title, title, remedy=remedy), at)


class Parts:
    """The parts of a message's body, one after another."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def int16(self) -> int:
        """Read a number of two bytes."""
        return int(_INT16.unpack(self.raw(2))[0])

    def int32(self) -> int:
        """Read a number of four bytes."""
        return int(_INT32.unpack(self.raw(4))[0])

    def text(self) -> str:
        """Read a text that ends with a zero."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise Malformed
        raw, self._at = self._body[self._at : end], end + 1
        return decoded(raw)

    def raw(self, count: int) -> bytes:
        """Read so many bytes."""
        end = self._at + count
        if count < 0 or end > len(self._body):
            raise Malformed
        raw, self._at = self._body[self._at : end], end
        return raw

    def value(self) -> bytes | None:
        """Read a length and so many bytes; None where it is NULL."""
        length = self.int32()
        return None if length == -1 else self.raw(length)

    def formats(self) -> tuple[bool, ...]:
        """Read a list of formats: whether each is binary."""
        formats = [self.int16() for _ in range(self.count())]
        if not set(formats) <= {0, 1}:
            raise Malformed
        return tuple(one == 1 for one in formats)

    def count(self) -> int:
        """Read how many of something come."""
        count = self.int16() & 0xFFFF
        if count > len(self._body):
            raise Malformed
        return count

    @property
    def rest(self) -> bytes:
        """What was not read yet."""
        return self._body[self._at :]

    def end(self) -> None:
        """Require that all was read."""
        if self._at != len(self._body):
            raise Malformed


def decoded(raw: bytes) -> str:
    """Return a text that came.

    Raises:
        Malformed: it is not UTF-8.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Malformed from None


def is_binary(formats: Sequence[bool], at: int) -> bool:
    """Return whether a value is binary: no format means text, and one is that of all.

    Raises:
        Malformed: the value has no format.
    """
    if len(formats) <= 1:
        return bool(formats) and formats[0]
    if at >= len(formats):
        raise Malformed
    return formats[at]


async def read_start(reader: asyncio.StreamReader, longest: int) -> tuple[int, bytes]:
    """Read a first message: its code and body.

    Raises:
        Malformed: it is none, or too long.
    """
    length = _INT32.unpack(await reader.readexactly(4))[0]
    if not 8 <= length <= longest:
        raise Malformed
    body = await reader.readexactly(length - 4)
    return _INT32.unpack_from(body)[0], body[4:]


async def read_message(reader: asyncio.StreamReader, longest: int) -> tuple[bytes, bytes]:
    """Read a message: its letter and body.

    Raises:
        Malformed: it is none, or too long.
    """
    head = await reader.readexactly(5)
    length = _INT32.unpack_from(head, 1)[0]
    if not 4 <= length <= longest:
        raise Malformed
    return head[:1], await reader.readexactly(length - 4)


def message(letter: bytes, *parts: bytes) -> bytes:
    """Write a message."""
    return b"".join((letter, _INT32.pack(4 + sum(map(len, parts))), *parts))


def int16(*numbers: int) -> bytes:
    """Write numbers of two bytes."""
    return struct.pack(f"!{len(numbers)}h", *numbers)


def int32(*numbers: int) -> bytes:
    """Write numbers of four bytes."""
    return struct.pack(f"!{len(numbers)}i", *numbers)


def text(value: str) -> bytes:
    """Write a text that ends with a zero."""
    return value.encode("utf-8", "replace").replace(b"\0", b"") + b"\0"


def authentication(code: int, more: bytes = b"") -> bytes:
    """Write one step of a login."""
    return message(b"R", int32(code), more)


def parameter_status(name: str, value: str) -> bytes:
    """Write what a setting is."""
    return message(b"S", text(name), text(value))


def ready(status: bytes) -> bytes:
    """Write that the next statement can come."""
    return message(b"Z", status)


def complete(tag: str) -> bytes:
    """Write that a statement was done."""
    return message(b"C", text(tag))


def parameters(oids: Iterable[int]) -> bytes:
    """Write what types the parameters of a statement have."""
    known = list(oids)
    return message(b"t", int16(len(known)), int32(*known))


def notice(line: str) -> bytes:
    """Write a line beside an answer."""
    return _told(b"N", "NOTICE", "00000", {b"M": line})


def error(fault: Fault, at: int | None = None, severity: str = "ERROR") -> bytes:
    """Write an error: what is wrong, why, and what helps.

    Args:
        fault: the error.
        at: where in the text that the client sent it points, from 0.
        severity: ERROR, or FATAL where the connection ends.
    """
    title = f"{fault.code}: {fault.title}" if fault.code else fault.title
    detail = [fault.why, f"budget: {fault.budget}" if fault.budget else ""]
    fields = {
        b"M": title,
        b"D": "\n".join(filter(None, detail)),
        b"H": fault.remedy,
        b"P": "" if at is None else str(at + 1),
    }
    return _told(b"E", severity, fault.sqlstate, fields)


def _told(letter: bytes, severity: str, code: str, fields: Mapping[bytes, str]) -> bytes:
    told = {b"S": severity, b"V": severity, b"C": code, **fields}
    parts = [
        key + text(visible_lines(value)[:_LONGEST_TEXT]) for key, value in told.items() if value
    ]
    return message(letter, *parts, b"\0")
