"""Passwords by SCRAM-SHA-256 (RFC 5802, RFC 7677): what is stored cannot be logged in with."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass

ROUNDS = 4096
"""Of the hash: as many as PostgreSQL takes, since its clients compute them at each login."""
_HEAD = "SCRAM-SHA-256"


@dataclass(frozen=True, slots=True)
class Verifier:
    """What is kept of a password, written as PostgreSQL writes it."""

    salt: bytes
    rounds: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, password: str, salt: bytes | None = None) -> Verifier:
        """Make one of a password."""
        salt = secrets.token_bytes(16) if salt is None else salt
        client, server = _keys(password, salt, ROUNDS)
        return cls(salt, ROUNDS, hashlib.sha256(client).digest(), server)

    @classmethod
    def read(cls, text: str) -> Verifier:
        """Read one as it is stored.

        Raises:
            ValueError: it is no verifier.
        """
        head, hashed, keys = text.split("$")
        rounds, salt = hashed.split(":")
        stored, server = keys.split(":")
        if head != _HEAD or int(rounds) < 1:
            raise ValueError("not a verifier of SCRAM-SHA-256")
        return cls(*_decoded(salt), int(rounds), *_decoded(stored), *_decoded(server))

    @classmethod
    def of_nobody(cls, name: str, secret: bytes) -> Verifier:
        """Make one for a name that no user has, the same each time: nothing tells it apart."""
        salt = hmac.digest(secret, name.encode(), "sha256")[:16]
        return cls(salt, ROUNDS, secrets.token_bytes(32), secrets.token_bytes(32))

    def __str__(self) -> str:
        salt, stored, server = map(_encoded, (self.salt, self.stored_key, self.server_key))
        return f"{_HEAD}${self.rounds}:{salt}${stored}:{server}"

    def takes(self, password: str) -> bool:
        """Return whether this is the password."""
        client, _ = _keys(password, self.salt, self.rounds)
        return hmac.compare_digest(hashlib.sha256(client).digest(), self.stored_key)


class Exchange:
    """The server's side of one login: two messages of the client, and two answers."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._said = ""
        self._binding = ""
        self._nonce = ""

    def first(self, message: str) -> str:
        """Answer the client's first message.

        Raises:
            ValueError: it is none, or asks for what is not offered.
        """
        flag, name, bare = message.split(",", 2)
        if flag not in ("n", "y"):
            raise ValueError("no channel binding is offered")
        self._binding = f"{flag},{name},"
        parts = _parts(bare)
        self._nonce = parts["r"] + secrets.token_urlsafe(24)
        salt = _encoded(self._verifier.salt)
        told = f"r={self._nonce},s={salt},i={self._verifier.rounds}"
        self._said = f"{bare},{told}"
        return told

    def final(self, message: str) -> str | None:
        """Answer the client's proof; None where it is of another password.

        Raises:
            ValueError: it is no such message.
        """
        bare, _, proof = message.rpartition(",p=")
        parts = _parts(bare)
        signed = f"{self._said},{bare}".encode()
        ours = hmac.digest(self._verifier.stored_key, signed, "sha256")
        (given,) = _decoded(proof)
        if len(given) != len(ours):
            raise ValueError("a proof of another length")
        client = bytes(a ^ b for a, b in zip(given, ours, strict=True))
        proven = hmac.compare_digest(hashlib.sha256(client).digest(), self._verifier.stored_key)
        same = hmac.compare_digest(parts["r"].encode(), self._nonce.encode())
        bound = _decoded(parts["c"]) == (self._binding.encode(),)
        if not (proven and same and bound):
            return None
        return f"v={_encoded(hmac.digest(self._verifier.server_key, signed, 'sha256'))}"


def _keys(password: str, salt: bytes, rounds: int) -> tuple[bytes, bytes]:
    """Return the client's and the server's key of a password."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    client = hmac.digest(salted, b"Client Key", "sha256")
    return client, hmac.digest(salted, b"Server Key", "sha256")


def _parts(message: str) -> dict[str, str]:
    try:
        found = dict(part.split("=", 1) for part in message.split(","))
        return {key: found.get(key, "") for key in "rcn"}
    except ValueError:
        raise ValueError("not a message of SCRAM") from None


def _encoded(raw: bytes) -> str:
    return b64encode(raw).decode()


def _decoded(text: str) -> tuple[bytes]:
    return (b64decode(text, validate=True),)
