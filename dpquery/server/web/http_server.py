"""The page's door: HTTP on a socket of its own, in the server's loop, with TLS off loopback."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import uvicorn
from h11 import LocalProtocolError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpquery.server.service import Service
from dpquery.server.web.api import Api
from dpquery.server.web.metrics import Metrics

PATIENCE = 15.0
"""Seconds that a connection may be open without asking anything."""
_GOODBYE = 5
"""Seconds that answers have to leave when the door closes."""
_PAGE = Path(__file__).with_name("page")
_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class WebDoor:
    """The page and its API, where browsers find them."""

    def __init__(
        self,
        service: Service,
        host: str,
        port: int,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self._service = service
        self._place = host, port
        self._tls = certificate, key
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = port
        """Where it listens, once it does: of port 0, the one that was free."""

    async def start(self) -> None:
        """Listen.

        Raises:
            ValueError: the place is not this machine alone, and there is no certificate.
            OSError: the place is taken or not ours, or the certificate or key cannot be read.
            ssl.SSLError: certificate and key are none, or do not fit.
        """
        certificate, key = self._tls
        sockets = _listening(*self._place, secure=certificate is not None)
        self.port = sockets[0].getsockname()[1]
        try:
            config = Config(
                application(self._service, secure=certificate is not None),
                http=_protocol(self._service),
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_GOODBYE,
                ssl_certfile=certificate,
                ssl_keyfile=key,
            )
            config.load()
        except BaseException:
            for one in sockets:
                one.close()
            raise
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=sockets))
        while not self._server.started:
            if self._serving.done():
                await self._serving
                break
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Let answers that are under way leave, and listen no more."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            with suppress(asyncio.CancelledError):
                await self._serving


class _Server(uvicorn.Server):
    """One that leaves signals to who runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listening(host: str, port: int, *, secure: bool) -> list[socket.socket]:
    """Open the sockets of a place."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    places = dict.fromkeys((family, place) for family, _, _, _, place in found)
    for _, place in places:
        if not secure and not ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback:
            raise ValueError(
                f"without a certificate, others could read what is said at {host}: "
                "listen on 127.0.0.1, or give --tls-cert and --tls-key"
            )
    sockets: list[socket.socket] = []
    try:
        for family, place in places:
            try:
                sockets.append(socket.create_server(place, family=family, backlog=256))
            except OSError as error:  # a name may have a place that this machine has not
                if error.errno != errno.EADDRNOTAVAIL or len(places) == 1:
                    raise
                continue
            sockets[-1].setblocking(False)
            # An answer's head and body leave apart: without this each waits 40 ms.
            sockets[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if port == 0:
                break
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return sockets


def _protocol(service: Service) -> type[H11Protocol]:
    """Return HTTP whose connections are counted, and closed where they ask nothing."""

    class Counted(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            service.clients += 1
            self._seen: tuple[object, int] = (None, 0)
            self._watch = self.loop.call_later(PATIENCE, self._look)
            if service.clients > service.settings.connections:
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            service.clients -= 1
            self._watch.cancel()
            super().connection_lost(exc)

        def shutdown(self) -> None:
            try:
                super().shutdown()
            except LocalProtocolError:  # it was told already that it spoke no HTTP
                self.transport.abort()

        def _look(self) -> None:
            """Close the connection if it has neither asked nor read since the last look."""
            waits = self.transport.get_write_buffer_size()
            asking = self.cycle is not None and not self.cycle.response_complete
            seen, self._seen = self._seen, (self.cycle, waits)
            if seen == self._seen and (waits or not asking):
                self.transport.abort()
                return
            self._watch = self.loop.call_later(PATIENCE, self._look)

    return Counted


def application(service: Service, *, secure: bool) -> ASGIApp:
    """Return the page, its API, and what monitors ask."""
    metrics = Metrics(service)

    async def health(_: Request) -> Response:
        healthy = metrics.healthy
        return PlainTextResponse("ok\n" if healthy else "no worker\n", 200 if healthy else 503)

    async def counts(_: Request) -> Response:
        return PlainTextResponse(metrics.text)

    routes = [
        Route("/api/{call}", Api(service, secure=secure).__call__, methods=["POST"]),
        Route("/health", health),
        Route("/metrics", counts),
        *(_file(path) for path in sorted(_PAGE.iterdir()) if path.suffix in _KINDS),
    ]
    return _Guarded(Starlette(routes=routes), secure=secure)


def _file(path: Path) -> Route:
    """Serve one file of the page, which is read once."""
    body, kind = path.read_bytes(), _KINDS[path.suffix]
    mark = f'"{sha256(body).hexdigest()[:20]}"'

    async def send(request: Request) -> Response:
        headers = {"etag": mark, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=kind)

    return Route("/" if path.name == "index.html" else f"/page/{path.name}", send)


class _Guarded:
    """Gives answers the headers by which browsers run and keep nothing that is not ours."""

    def __init__(self, app: ASGIApp, *, secure: bool) -> None:
        self._app = app
        self._headers = dict(_HEADERS)
        if secure:
            self._headers["strict-transport-security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                more = self._headers | {"cache-control": "no-store"}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in more.items()
                        if name.encode() not in own
                    ),
                ]
            await send(message)

        await self._app(scope, receive, sent)
