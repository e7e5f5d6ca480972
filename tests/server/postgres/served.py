"""A server in a thread: the samples, two analysts with passwords, and a door at a free port."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpquery.server.frames import Fault, Reply
from dpquery.server.postgres.connection import Limits
from dpquery.server.postgres.door import PostgresDoor
from dpquery.server.service import Service, Settings
from dpquery.server.users import Users
from dpquery.wire import arrow_bytes
from tests.samples import sample_policy

ALICE, BOB = ("alice", "alice's secret"), ("bob", "bob's secret")
BUDGET = """epsilon = 100000

[analysts.alice]
epsilon = 10000

[analysts.bob]
epsilon = 1
"""


class StubCatalogue:
    """Stands for the twin of the catalogue: a few statements that clients send at once."""

    def wants(self, text: str) -> bool:
        words = text.lower()
        return "pg_" in words or " from " not in " ".join(words.split())

    async def ask(self, text: str, oids: Sequence[int], values: Sequence[Any]) -> Reply:
        table = self._table(text, values)
        if isinstance(table, Fault):
            return Reply("refused", fault=table)
        return Reply("answered", tag="SELECT", body=arrow_bytes(table))

    async def describe(
        self, text: str, oids: Sequence[int]
    ) -> tuple[Sequence[int], pa.Schema] | Fault:
        table = self._table(text, [None] * len(oids))
        return table if isinstance(table, Fault) else ([oid or 25 for oid in oids], table.schema)

    def _table(self, text: str, values: Sequence[Any]) -> pa.Table | Fault:
        words = text.lower().strip().rstrip(";").strip()
        if words.startswith("select") and "pg_catalog.version()" in words:
            return pa.table({"version": ["PostgreSQL 15.0 (stub)"]})
        if "pg_" in words:  # of a type that nobody knows, of an extension, of a lock
            names = ["oid", "typname", "typarray", "typelem", "typreceive", "typbasetype"]
            return pa.table({name: pa.array([], pa.string()) for name in names})
        if words == "select 1":
            return pa.table({"?column?": pa.array([1], pa.int32())})
        if words.startswith("select $1"):
            return pa.table({"given": pa.array([values[0]])})
        if words in KINDS:
            return KINDS[words]
        return Fault("", "0A000", "the catalogue has no answer", "", start=0)


KINDS: dict[str, pa.Table] = {}
"""Further statements that the stub answers, by their text: tests of types put them here."""


@dataclass
class Served:
    """A server that runs, and how to reach it."""

    place: Path
    service: Service
    door: PostgresDoor
    loop: asyncio.AbstractEventLoop
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.door.port

    def dsn(self, user: tuple[str, str] = ALICE, more: str = "") -> str:
        password = user[1].replace("'", "\\'")
        return f"host=127.0.0.1 port={self.port} user={user[0]} password='{password}' dbname=dpquery {more}"

    def url(self, driver: str = "postgresql", user: tuple[str, str] = ALICE) -> str:
        password = user[1].replace("'", "%27").replace(" ", "%20")
        return f"{driver}://{user[0]}:{password}@127.0.0.1:{self.port}/dpquery"

    def arguments(self, user: tuple[str, str] = ALICE) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.port, "user": user[0], "password": user[1], "database": "dpquery"}

    def run(self, what: Callable[[], Any]) -> Any:
        """Do something in the server's loop."""

        async def done() -> Any:
            found = what()
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(60)

    def spent(self, user: str = "alice") -> list[dict[str, Any]]:
        """Return the charges of somebody, as the ledger has them."""
        from dpquery.server.service import Client
        from dpquery.wire import arrow_table

        reply = self.run(lambda: self.service.ask(Client(user), "ledger"))
        return arrow_table(reply.body).to_pylist()

    def asked(self) -> list[str]:
        """Return what workers were asked to do, in order."""
        return [line["do"] for line in self.log if line["event"] == "statement"]


@contextmanager
def served(
    place: Path,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    catalogue: Any = None,
    **settings: Any,
) -> Iterator[Served]:
    """Run a server until the end of a block."""
    policy = sample_policy(place, BUDGET)
    users = Users.beside(policy)
    for name, password in (ALICE, BOB):
        users = users.with_user(name, password, owner=False)
    users.write()
    lines: list[dict[str, Any]] = []
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    async def begin() -> tuple[Service, PostgresDoor]:
        chosen = Settings(policy, **{"workers": 1, **settings})
        service = Service(chosen, lambda line: lines.append(json.loads(line)))
        fault = await service.start()
        assert fault is None, fault
        door = PostgresDoor(service, catalogue or StubCatalogue(), "127.0.0.1", 0, tls, limits)
        await door.start()
        return service, door

    service, door = run(begin())
    try:
        yield Served(place, service, door, loop, lines)
    finally:
        run(door.close())
        run(service.close())
        run(loop.shutdown_asyncgens())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
