"""`dpquery serve`: the doors of a server opened, and closed again in an orderly way."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import signal
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from dpquery.server.catalogue import Catalogue
from dpquery.server.postgres.listener import PostgresDoor
from dpquery.server.service import Service, Settings

PORT = 5433
"""One beside PostgreSQL's own."""


class Unservable(Exception):
    """What keeps a server from starting, in words."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a door listens."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str, port: int = PORT) -> Place:
        """Read HOST:PORT, HOST or :PORT.

        >>> str(Place.read("0.0.0.0:6000")), str(Place.read("[::1]")), str(Place.read(":8080"))
        ('0.0.0.0:6000', '[::1]:5433', '127.0.0.1:8080')

        Raises:
            Unservable: it is none of these.
        """
        host, colon, number = text.rpartition(":")
        if not colon or (host and text.endswith("]")):
            host, number = text, str(port)
        if not number.isascii() or not number.isdecimal() or not 0 <= int(number) < 1 << 16:
            raise Unservable(f"a door is HOST:PORT, such as 127.0.0.1:{port}; {text!r} is none")
        return cls(host.strip("[]") or "127.0.0.1", int(number))

    @property
    def loopback(self) -> bool:
        """Whether only programs of this machine come to it."""
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Doors:
    """What a server listens to."""

    postgres: Place
    web: Place | None = None
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext | None:
        """Return what connections are encrypted with.

        Raises:
            Unservable: there is nothing, and a door is open to other machines; or it is unfit.
        """
        if self.certificate is None or self.key is None:
            for place in filter(None, (self.postgres, self.web)):
                if not place.loopback:
                    raise Unservable(
                        f"{place} is open to other machines, so what is said there has to be "
                        "encrypted: --tls-cert FILE --tls-key FILE, or listen on 127.0.0.1"
                    )
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for file in (self.certificate, self.key):
            try:
                file.open("rb").close()
            except OSError as error:
                raise Unservable(f"{file} cannot be read: {_reason(error)}") from None
        try:
            context.load_cert_chain(self.certificate, self.key)
        except ssl.SSLError as error:
            reason = "the key is of another one"
            if error.reason != "KEY_VALUES_MISMATCH":
                reason = "each has to be in PEM, the key without a passphrase"
            raise Unservable(
                f"{self.certificate.name} and {self.key.name} are no certificate with its key: "
                f"{reason}"
            ) from None
        if (ended := _ended(self.certificate)) is not None:
            raise Unservable(f"{self.certificate.name} has expired: {ended}")
        return context

    def require_free(self) -> None:
        """Require that no other program listens here, before workers are started in vain.

        Raises:
            Unservable: one does, or a host is none of this machine.
        """
        for place in filter(None, (self.postgres, self.web)):
            try:
                family, kind, protocol, _, address = socket.getaddrinfo(
                    place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
                )[0]
                with socket.socket(family, kind, protocol) as tried:
                    tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    tried.bind(address)
                    tried.listen()
            except OSError as error:
                raise _closed(place, error) from None


def _ended(certificate: Path) -> str | None:
    """Return when a certificate ended; None where it goes on."""
    until: str = ssl._ssl._test_decode_cert(str(certificate))["notAfter"]  # type: ignore[attr-defined]
    return until if ssl.cert_time_to_seconds(until) < time.time() else None


async def serve(settings: Settings, doors: Doors, said: Callable[[str], None]) -> None:
    """Serve until the process is told to stop.

    Args:
        settings: what is served, and how.
        doors: where.
        said: takes the lines that tell the owner where the server is.

    Raises:
        Unservable: it cannot start.
        PolicyInvalid: the policy or its users need mending.
    """
    context = doors.context()
    doors.require_free()
    if os.geteuid() == 0:
        said("this runs as root, whose files are all files: take a user who owns these alone")
    service = Service(settings)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(service.close)
        fault = await service.start()
        if fault is not None:
            raise Unservable(fault.text)
        if not service.users.known:
            told = f"dpquery user add {settings.policy} NAME"
            said(f"nobody can log in yet: {told}")
        catalogue = await Catalogue.start(service.policy, service.log)
        stack.push_async_callback(catalogue.close)
        stop = _signals(service, catalogue)
        here = doors.postgres
        door = PostgresDoor(service, catalogue, here.host, here.port, context)
        await _opened(door.start, here)
        stack.push_async_callback(door.close)
        here = Place(here.host, door.port)
        said(f"postgresql://NAME@{here}/ for psql, and what speaks as PostgreSQL does")
        if doors.web is not None:
            from dpquery.server.web.http_server import WebDoor

            page = WebDoor(
                service, doors.web.host, doors.web.port, doors.certificate, doors.key
            )
            await _opened(page.start, doors.web)
            stack.push_async_callback(page.close)
            there = Place(doors.web.host, page.port)
            said(f"http{'s' * (context is not None)}://{there}/ for browsers")
        await stop.wait()
        said("stopping: what runs is answered first")


async def _opened(start: Callable[[], Awaitable[object]], place: Place) -> None:
    try:
        await start()
    except OSError as error:
        raise _closed(place, error) from None


def _closed(place: Place, error: OSError) -> Unservable:
    """Return why nobody can listen at a place, and what helps."""
    match error.errno:
        case errno.EADDRINUSE:
            other = Place(place.host, place.port + 1 if place.port < (1 << 16) - 1 else 0)
            return Unservable(
                f"another program listens at {place}: end it, or take another port: {other}"
            )
        case errno.EADDRNOTAVAIL:
            return Unservable(f"{place.host} is no address of this machine: 0.0.0.0 is all")
        case errno.EACCES:
            return Unservable(f"{place} is for root alone: take a port from 1024 on")
    return Unservable(f"{place}: {_reason(error)}")


def _reason(error: OSError) -> str:
    """Return what the system says, without what Python adds."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return (error.strerror or "it cannot be opened").lower()
    return os.strerror(error.errno).lower()


def _signals(service: Service, catalogue: Catalogue) -> asyncio.Event:
    """Have SIGHUP read the policy anew, and SIGTERM and SIGINT stop the server."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    reloads: set[asyncio.Task[None]] = set()

    async def reload_all() -> None:
        if await service.reload():
            await catalogue.renew(service.policy)

    def reload() -> None:
        task = asyncio.create_task(reload_all())
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    for end in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(end, stop.set)
    return stop
