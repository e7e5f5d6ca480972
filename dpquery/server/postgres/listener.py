"""The door: listens, counts who is there, and passes on requests to stop a statement."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass

from dpquery.server.postgres import messages
from dpquery.server.postgres.connection import INTERNAL, MALFORMED, STOPPING, Connection, Limits
from dpquery.server.postgres.login import Cancel, Start, Streams, begin, log_in
from dpquery.server.postgres.messages import Malformed, Refused
from dpquery.server.postgres.prepare_and_execute import Asker, Catalogue
from dpquery.server.service import Client, Service
from dpquery.server.worker_messages import Fault

GRACE = 30.0
"""Seconds that statements have to end when the server stops."""
_FULL = Fault("", "53300", "too many connections are open; try again later", "")
_LATE = Fault("", "08P01", "the login took too long", "")
_PLAIN = Fault("", "28000", "this server talks under TLS alone", "", remedy="sslmode=require")


@dataclass(slots=True)
class _Key:
    """By which a client asks to stop what it does."""

    secret: bytes
    connection: Connection
    task: asyncio.Task[None] | None


class PostgresDoor:
    """Lets clients of PostgreSQL in."""

    def __init__(
        self,
        service: Service,
        catalogue: Catalogue,
        host: str,
        port: int,
        tls_context: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Make a door that is not open yet.

        Args:
            service: what answers.
            catalogue: what answers about tables and types.
            host: where to listen.
            port: 0 is any that is free.
            tls_context: with a certificate; without it the host is this machine alone.
            limits: what one connection may take.
        """
        self._service, self._catalogue = service, catalogue
        self._host, self._port, self._tls = host, port, tls_context
        self._limits = limits or Limits()
        self._keys: dict[int, _Key] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            ValueError: others could listen: the host is not this machine alone, and there is
                no certificate.
            OSError: the port is in use, or the host is none of this machine.
        """
        if self._tls is None and not is_loopback(self._host):
            raise ValueError(
                f"without a certificate, others could read what is said at {self._host}: "
                "listen on 127.0.0.1, or give --tls-cert and --tls-key"
            )
        self._server = await asyncio.start_server(self._come, self._host, self._port)

    @property
    def port(self) -> int:
        """The port that is listened at."""
        if self._server is None or not self._server.sockets:
            return self._port
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Let nobody in, tell those who are there, and wait a little for what runs."""
        if self._server is not None:
            self._server.close()
        busy = {key.task for key in self._keys.values() if key.connection.busy}
        await asyncio.gather(*map(self._farewell, [*self._keys.values()]))
        for task in self._tasks - busy:
            task.cancel()
        if running := self._tasks & busy:
            await asyncio.wait(running, timeout=GRACE)
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _farewell(self, key: _Key) -> None:
        """Tell who asks nothing just now; who does is told after the answer."""
        key.connection.leaving = True
        if not key.connection.busy:
            with suppress(OSError):
                await key.connection.tell(STOPPING)

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: whatever happens there, no other one notices."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server runs each as one
        self._tasks.add(task)
        self._service.clients += 1
        try:
            await self._serve(Streams(reader, writer))
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - what it says may be anything
            self._service.log("door failed", door="postgres", kind=type(error).__name__)
        finally:
            self._service.clients -= 1
            self._tasks.discard(task)
            await _end(writer)

    async def _serve(self, streams: Streams) -> None:
        """Serve one connection, and say last words where it ends by a fault."""
        try:
            fault = await self._fault_of(streams)
            if fault is not None:
                async with asyncio.timeout(self._limits.login):
                    await streams.send(messages.error(fault, severity="FATAL"))
        except _GONE:
            pass

    async def _fault_of(self, streams: Streams) -> Fault | None:
        try:
            start = await self._begun(streams)
            if start is not None:
                await self._talk(streams, start)
        except Refused as refused:
            return refused.fault
        except Malformed:
            return MALFORMED
        except _GONE:
            return None
        except Exception as error:  # noqa: BLE001 - nothing of it goes out
            self._service.log("door failed", door="postgres", kind=type(error).__name__)
            return INTERNAL
        return None

    async def _begun(self, streams: Streams) -> tuple[Start, Client] | None:
        """Return who has logged in; None where nobody wants to."""
        connection = streams.writer.get_extra_info("socket")
        if connection is not None:  # so that one whose client has vanished ends some day
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            async with asyncio.timeout(self._limits.login):
                start = await begin(streams, self._tls)
                if isinstance(start, Cancel):
                    self._stop(start)
                    return None
                if self._tls is not None and not streams.encrypted:
                    raise Refused(_PLAIN)
                if self._service.clients > self._service.settings.connections:
                    raise Refused(_FULL)
                return start, await log_in(streams, start, self._service)
        except TimeoutError:
            raise Refused(_LATE) from None

    async def _talk(self, streams: Streams, begun: tuple[Start, Client]) -> None:
        start, client = begun
        asker = Asker(self._service, self._catalogue, client)
        connection = Connection(streams, asker, self._limits)
        process, secret = self._number(), secrets.token_bytes(4)
        self._keys[process] = _Key(secret, connection, asyncio.current_task())
        try:
            await connection.greet(start, process, secret)
            await connection.serve()
        finally:
            del self._keys[process]

    def _number(self) -> int:
        """Return a number that no connection has."""
        while (number := secrets.randbelow((1 << 31) - 1) + 1) in self._keys:
            pass
        return number

    def _stop(self, cancel: Cancel) -> None:
        """Stop the statement of a connection, if the key is its own."""
        key = self._keys.get(cancel.process)
        if key is not None and hmac.compare_digest(key.secret, cancel.secret):
            key.connection.asker.stop()


_GONE = (asyncio.IncompleteReadError, OSError)
"""How it shows that a client has left, or no longer reads."""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, seen from itself alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _end(writer: asyncio.StreamWriter) -> None:
    """End a connection, without waiting for who does not read."""
    with suppress(*_GONE, asyncio.CancelledError):
        writer.close()
        async with asyncio.timeout(1):
            await writer.wait_closed()
    writer.transport.abort()
