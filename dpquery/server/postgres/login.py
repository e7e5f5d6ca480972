"""The beginning of a connection: TLS, who it is, and the proof of a password."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from dpquery.server.postgres import messages
from dpquery.server.postgres.messages import Malformed, Parts, Refused
from dpquery.server.scram import Exchange
from dpquery.server.service import Client, Service

MECHANISM = "SCRAM-SHA-256"
LONGEST = 10_000
"""Bytes of a message before anybody is known."""
_MOST_REQUESTS = 3
"""For TLS or such, before a start."""
_WRONG = 'the password of user "{}" is wrong, or there is no such user'


@dataclass(frozen=True, slots=True)
class Start:
    """What the first message of a connection says."""

    minor: int
    told: dict[str, str] = field(default_factory=dict)
    """Who it is, and how things are to be set."""

    @property
    def settings(self) -> dict[str, str]:
        """What is to be set before the first statement."""
        own = {"user", "database", "options", "replication"}
        given = {
            name.lower(): value
            for name, value in self.told.items()
            if name not in own and not name.startswith("_pq_.")
        }
        words = self.told.get("options", "").replace("-c ", "-c").split()
        pairs = [word[2:].partition("=") for word in words if word.startswith("-c")]
        return {**given, **{name.lower(): value for name, _, value in pairs if value}}

    @property
    def unknown(self) -> list[str]:
        """Extensions of the protocol that are not here."""
        return [name for name in self.told if name.startswith("_pq_.")]


@dataclass(frozen=True, slots=True)
class Cancel:
    """A connection that only asks to stop what another one does."""

    process: int
    secret: bytes


@dataclass(slots=True)
class Streams:
    """The two ends of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def place(self) -> str:
        """Where it comes from."""
        peer = self.writer.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    @property
    def encrypted(self) -> bool:
        """Whether it is under TLS."""
        return self.writer.get_extra_info("ssl_object") is not None

    async def send(self, *parts: bytes) -> None:
        """Send messages."""
        self.writer.write(b"".join(parts))
        await self.writer.drain()

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Go on under TLS.

        Raises:
            Malformed: something was sent before, which nobody could tell from what is
                encrypted.
        """
        self.writer.write(b"S")
        if getattr(self.reader, "_buffer", b""):
            raise Malformed
        await self.writer.start_tls(context)


async def begin(streams: Streams, tls: ssl.SSLContext | None) -> Start | Cancel:
    """Read what a connection is for, under TLS where it asks for that.

    Raises:
        Malformed: it is none of this protocol.
        Refused: it is of another version.
    """
    for _ in range(_MOST_REQUESTS):
        code, body = await messages.read_start(streams.reader, LONGEST)
        match code:
            case messages.TLS if tls is not None and not streams.encrypted:
                await streams.encrypt(tls)
            case messages.TLS | messages.GSS:
                await streams.send(b"N")
            case messages.CANCEL:
                parts = Parts(body)
                return Cancel(parts.int32(), parts.raw(4))
            case _:
                return _start(code, body)
    raise Malformed


def _start(code: int, body: bytes) -> Start:
    if code >> 16 != messages.PROTOCOL:
        if code >> 16 in (1, 2):
            raise Refused.of("08P01", "protocol 3 of PostgreSQL is spoken here")
        raise Malformed
    parts, told = Parts(body), dict[str, str]()
    while name := parts.text():
        told[name] = parts.text()
    parts.end()
    return Start(code & 0xFFFF, told)


async def log_in(streams: Streams, start: Start, service: Service) -> Client:
    """Have a client prove who it is.

    Raises:
        Refused: it cannot.
        Malformed: it does not speak the protocol.
    """
    name, place = start.told.get("user", ""), streams.place
    if not name:
        raise Refused.of("28000", "a login has a user's name")
    if "replication" in start.told:
        raise Refused.of("0A000", "there is nothing to replicate here")
    if not service.require_unlocked(name, place):
        title = "too many wrong passwords: try again in a minute"
        raise Refused.of("28000", title)
    exchange = Exchange(service.verifier(name))
    if not await _proven(streams, exchange, lambda: service.require_unlocked(name, place)):
        await service.refused(name, place)
        raise Refused.of("28P01", _WRONG.format(name[:64]))
    client = service.admitted(name, place, "postgres")
    if client is None:
        raise Refused.of("28P01", _WRONG.format(name[:64]))
    return client


async def _proven(streams: Streams, exchange: Exchange, unlocked: Callable[[], bool]) -> bool:
    """Return whether a client knows the password, and too many at once have not guessed it."""
    await streams.send(messages.authentication(10, messages.text(MECHANISM) + b"\0"))
    parts = Parts(await _password(streams))
    mechanism, first = parts.text(), parts.value()
    if mechanism != MECHANISM or first is None:
        raise Malformed
    try:
        said = exchange.first(messages.decoded(first))
        await streams.send(messages.authentication(11, said.encode()))
        proof = exchange.final(messages.decoded(await _password(streams)))
    except ValueError:
        raise Malformed from None
    if proof is None or not unlocked():
        return False
    await streams.send(messages.authentication(12, proof.encode()), messages.authentication(0))
    return True


async def _password(streams: Streams) -> bytes:
    letter, body = await messages.read_message(streams.reader, LONGEST)
    if letter != b"p":
        raise Malformed
    return body
