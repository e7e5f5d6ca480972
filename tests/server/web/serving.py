"""A server with its page, in a thread of its own, and a client that asks its API."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from dpquery.policy.sources.paths import copy_samples
from dpquery.server.service import Service, Settings
from dpquery.server.users import Users
from dpquery.server.web.http_server import WebDoor
from tests.samples import edit

ANALYSTS = "epsilon = 20\n[analysts.alice]\nepsilon = 5\n[analysts.bob]\nepsilon = 3"
OURS = {"x-dpquery": "page"}


def password_of(name: str) -> str:
    return f"{name}-password"


def policy_of_three(folder: Path) -> Path:
    """Write a policy of two analysts, whose owner is olga; bella is owner and analyst."""
    policy = copy_samples(folder / "data")
    edit(policy, "epsilon = 2.0", f"{ANALYSTS}\n[analysts.bella]\nepsilon = 1")
    users = Users.beside(policy)
    for name in ("alice", "bob", "olga", "bella"):
        users = users.with_user(name, password_of(name), owner=name in {"olga", "bella"})
    users.write()
    return policy


@dataclass
class Served:
    service: Service
    loop: asyncio.AbstractEventLoop
    port: int = 0
    lines: list[str] = field(default_factory=list)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def client(self, name: str = "") -> Asking:
        """Return a client, logged in where a name is given."""
        asking = Asking(self.port)
        if name:
            asking.log_in(name)
        return asking


@contextmanager
def served(
    policy: Path, certificate: Path | None = None, key: Path | None = None, **settings: int
) -> Iterator[Served]:
    """Serve a policy at a free port."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    lines: list[str] = []
    told = Settings(policy, **{"workers": 1, **settings})
    server = Served(Service(told, log=lines.append), loop, lines=lines)
    door = WebDoor(server.service, "127.0.0.1", 0, certificate, key)
    try:
        assert server.run(server.service.start()) is None
        server.run(door.start())
        server.port = door.port
        yield server
    finally:
        server.run(door.close())
        server.run(server.service.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@dataclass
class Asking:
    """Asks the API as the page does."""

    port: int
    tls: ssl.SSLContext | None = None
    cookie: str = ""
    set_cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """Of the last answer."""

    def log_in(self, name: str, password: str | None = None) -> tuple[int, Any]:
        given = {"name": name, "password": password or password_of(name)}
        return self.call("login", **given)

    def call(self, name: str, /, **given: object) -> tuple[int, Any]:
        """Make a call; return its status and what it says."""
        return self.send("POST", f"/api/{name}", json.dumps(given).encode(), OURS)

    def told(self, name: str, /, **given: object) -> Any:
        """Make a call that is answered."""
        status, told = self.call(name, **given)
        assert status == 200, told
        return told

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Any = None
    ) -> tuple[int, Any]:
        """Send a request as it is given."""
        if self.tls is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        else:
            connection = http.client.HTTPSConnection(
                "localhost", self.port, timeout=60, context=self.tls
            )
        sent = dict(headers or {}) | ({"cookie": self.cookie} if self.cookie else {})
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        if "set-cookie" in self.headers:
            self.set_cookie = self.headers["set-cookie"]
            self.cookie = self.set_cookie.partition(";")[0]
        kind = self.headers.get("content-type", "")
        return response.status, json.loads(text) if "json" in kind else text.decode()
