"""What the server and its workers say to each other: a header in JSON, and bytes.

A request names what is to be done, for whom, and what their session came to. A reply says how
it ended: nothing in it is private, since a worker's session has charged for all it tells.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from dpquery.errors import DPQueryError

_LENGTHS = struct.Struct("!II")
CALLS = frozenset(
    {"sql", "explain", "columns", "budget", "ledger", "losses", "tables", "describe", "begin"}
)
"""What analysts ask."""
OWNER_CALLS = frozenset({"overview", "freeze", "thaw", "grant", "publish"})
"""What is done for data owners alone: they look at all charges and give orders."""
MOST_BYTES = 1 << 30
"""Of one frame: the rows of an answer are bounded by what the engine may compute."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a worker is to do."""

    do: str
    """One of `CALLS`, or of `OWNER_CALLS`."""
    analyst: str
    session: str | None = None
    """What the session came to, as `wire` writes it; None: it begins."""
    arguments: dict[str, Any] | None = None
    whole: bool | str = False
    """Whether the value itself is wanted, for clients of our own, in place of its rows.

    As "page" or "rows", in a form that the page shows.
    """


@dataclass(frozen=True, slots=True)
class Reply:
    """How it ended."""

    ended: str
    """"answered", "refused", "failed" or "stopped"."""
    session: str | None = None
    tag: str = ""
    """What kind of statement it was, such as SELECT."""
    notices: tuple[str, ...] = ()
    """What it cost, what is left, how far the noise reaches, and the notes."""
    fault: Fault | None = None
    body: bytes = b""
    """Rows as a stream of Arrow, or the value or error as `wire` writes it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as clients of databases show it."""

    code: str
    sqlstate: str
    title: str
    text: str
    """All of it, as the shell prints it."""
    start: int | None = None
    """Where in the text of the statement it points: characters before it."""
    why: str = ""
    remedy: str = ""
    budget: str = ""


def tag_of(*, confined: bool, unplugged: bool) -> str:
    """Return the tag of a process's first reply: what it is shut out of."""
    return " ".join([*["confined"] * confined, *["unplugged"] * unplugged])


def fault_of(error: DPQueryError) -> Fault:
    """Return an error as clients of databases show it."""
    found, span = error.diagnostic, error.span
    return Fault(
        error.code,
        error.sqlstate,
        found.title,
        str(error),
        None if span is None else span.start,
        " ".join(found.why),
        "\n".join(found.remedy),
        error.budget,
    )


def packed(frame: Request | Reply) -> bytes:
    """Write a frame."""
    header = asdict(frame)
    body = header.pop("body", b"")
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((_LENGTHS.pack(len(text), len(body)), text, body))


def lengths(head: bytes) -> tuple[int, int]:
    """Return the lengths of header and bytes.

    Raises:
        ValueError: no frame is so long.
    """
    header, body = _LENGTHS.unpack(head)
    if header + body > MOST_BYTES:
        raise ValueError("a frame is too long")
    return header, body


HEAD = _LENGTHS.size


def request_of(header: bytes) -> Request:
    """Read a request."""
    return Request(**json.loads(header))


def reply_of(header: bytes, body: bytes) -> Reply:
    """Read a reply."""
    parts = json.loads(header)
    fault = parts.pop("fault")
    notices = tuple(parts.pop("notices"))
    return Reply(
        **parts, notices=notices, fault=None if fault is None else Fault(**fault), body=body
    )


def read_frame(stream: BinaryIO) -> tuple[bytes, bytes] | None:
    """Read a frame from a pipe; None at its end, be it within a frame."""
    head = stream.read(HEAD)
    if len(head) < HEAD:
        return None
    header, body = lengths(head)
    parts = stream.read(header), stream.read(body)
    return parts if (len(parts[0]), len(parts[1])) == (header, body) else None
