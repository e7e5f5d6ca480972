"""A client that says what it likes, well or not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import struct
from typing import Self

from tests.server.postgres.served import ALICE, Served


def message(letter: bytes, body: bytes = b"") -> bytes:
    return letter + struct.pack("!i", len(body) + 4) + body


class Raw:
    """A connection, as bytes."""

    def __init__(self, server: Served, timeout: float = 20) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=timeout)
        self.key = (0, b"")
        self._left = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> tuple[bytes, bytes]:
        """Return the next message; its letter is empty at the end."""
        head = self._exactly(5)
        if len(head) < 5:
            return b"", b""
        return head[:1], self._exactly(struct.unpack("!i", head[1:])[0] - 4)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionError:
                more = b""
            if not more:
                break
            data += more
        return data

    def until(self, letter: bytes) -> list[tuple[bytes, bytes]]:
        """Return the messages up to one of a kind, or to the end."""
        read = [self.read()]
        while read[-1][0] not in (letter, b""):
            read.append(self.read())
        return read

    def log_in(self, user: tuple[str, str] = ALICE, minor: int = 0, more: bytes = b"") -> None:
        told = b"user\0" + user[0].encode() + b"\0" + more + b"\0"
        start = struct.pack("!i", 196608 + minor) + told
        self.send(struct.pack("!i", len(start) + 4) + start)
        assert self.read()[0] == b"R"
        bare = "n=,r=abcdefgh"
        first = f"n,,{bare}".encode()
        self.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
        said = self.read()[1][4:].decode()
        parts = dict(part.split("=", 1) for part in said.split(","))
        salted = hashlib.pbkdf2_hmac(
            "sha256", user[1].encode(), base64.b64decode(parts["s"]), int(parts["i"])
        )
        client = hmac.digest(salted, b"Client Key", "sha256")
        last = f"c=biws,r={parts['r']}"
        signed = hmac.digest(
            hashlib.sha256(client).digest(), f"{bare},{said},{last}".encode(), "sha256"
        )
        proof = bytes(a ^ b for a, b in zip(client, signed, strict=True))
        self.send(message(b"p", f"{last},p={base64.b64encode(proof).decode()}".encode()))
        told_at_start = self.until(b"Z")
        keys = [body for letter, body in told_at_start if letter == b"K"]
        self.key = (struct.unpack("!i", keys[0][:4])[0], keys[0][4:])

    def query(self, text: str) -> list[tuple[bytes, bytes]]:
        self.send(message(b"Q", text.encode() + b"\0"))
        return self.until(b"Z")
