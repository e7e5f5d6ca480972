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

from dpquery.client.wire_format import arrow_bytes
from dpquery.server.catalogue.process_client import Catalogue
from dpquery.server.postgres.connection import Limits
from dpquery.server.postgres.listener import PostgresDoor
from dpquery.server.service import Service, Settings
from dpquery.server.users import Users
from dpquery.server.worker_messages import Fault, Reply
from tests.samples import sample_policy

ALICE, BOB = ("alice", "alice's secret"), ("bob", "bob's secret")
BUDGET = """epsilon = 100000

[analysts.alice]
epsilon = 10000

[analysts.bob]
epsilon = 1
"""


class Chosen:
    """Answers what tests put into `KINDS`, and has the catalogue answer all else."""

    def __init__(self, catalogue: Catalogue | None) -> None:
        self._catalogue = catalogue

    def wants(self, text: str) -> bool:
        if self._catalogue is None:
            return "staff" not in text
        return _words(text) in KINDS or self._catalogue.wants(text)

    async def ask(
        self, text: str, oids: Sequence[int], values: Sequence[Any], *who: Any
    ) -> Reply:
        if (table := KINDS.get(_words(text))) is not None:
            return Reply("answered", tag="SELECT", body=arrow_bytes(table))
        assert self._catalogue is not None
        return await self._catalogue.ask(text, oids, values, *who)

    async def describe(
        self, text: str, oids: Sequence[int], *who: Any
    ) -> tuple[Sequence[int], pa.Schema] | Fault:
        if (table := KINDS.get(_words(text))) is not None:
            return oids, table.schema
        assert self._catalogue is not None
        return await self._catalogue.describe(text, oids, *who)


def _words(text: str) -> str:
    return text.lower().strip().rstrip(";").strip()


KINDS = {"select 1": pa.table({"?column?": pa.array([1], pa.int32())})}
"""Tables by the statement that asks for them: tests of types put them here."""


class Reached:
    """How clients reach a server that runs."""

    port: int

    def dsn(self, user: tuple[str, str] = ALICE, more: str = "") -> str:
        password = user[1].replace("'", "\\'")
        place = f"host=127.0.0.1 port={self.port} dbname=dpquery"
        return f"{place} user={user[0]} password='{password}' {more}"

    def url(self, driver: str = "postgresql", user: tuple[str, str] = ALICE) -> str:
        password = user[1].replace("'", "%27").replace(" ", "%20")
        return f"{driver}://{user[0]}:{password}@127.0.0.1:{self.port}/dpquery"

    def arguments(self, user: tuple[str, str] = ALICE) -> dict[str, Any]:
        name, password = user
        place = {"host": "127.0.0.1", "port": self.port, "database": "dpquery"}
        return {**place, "user": name, "password": password}


@dataclass
class Served(Reached):
    """A server that runs in this process."""

    place: Path
    service: Service
    door: PostgresDoor
    loop: asyncio.AbstractEventLoop
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def port(self) -> int:  # type: ignore[override]
        return self.door.port

    def run(self, what: Callable[[], Any]) -> Any:
        """Do something in the server's loop."""

        async def done() -> Any:
            found = what()
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(60)

    def spent(self, user: str = "alice") -> list[dict[str, Any]]:
        """Return the charges of somebody, as the ledger has them."""
        from dpquery.client.wire_format import arrow_table
        from dpquery.server.service import Client

        reply = self.run(lambda: self.service.ask(Client(user), "ledger"))
        return arrow_table(reply.body).to_pylist()

    def asked(self) -> list[str]:
        """Return what workers were asked to do, in order."""
        return [line["do"] for line in self.log if line["event"] == "statement"]


def shared(place: Path) -> Path:
    """Copy the samples under a policy of two analysts, who have passwords."""
    policy = sample_policy(place, BUDGET)
    users = Users.beside(policy)
    for name, password in (ALICE, BOB):
        users = users.with_user(name, password, owner=False)
    users.write()
    return policy


@contextmanager
def served(
    place: Path,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    *,
    lean: bool = False,
    before: Callable[[Path], None] = lambda _: None,
    **settings: Any,
) -> Iterator[Served]:
    """Run a server until the end of a block; a lean one answers `KINDS` alone."""
    policy = shared(place)
    before(policy.parent)
    lines: list[dict[str, Any]] = []
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    async def begin() -> tuple[Service, Catalogue | None, PostgresDoor]:
        chosen = Settings(policy, **{"workers": 1, **settings})
        service = Service(chosen, lambda line: lines.append(json.loads(line)))
        catalogue = None
        if not lean:
            fault = await service.start()
            assert fault is None, fault
            catalogue = await Catalogue.start(service.policy)
        door = PostgresDoor(service, Chosen(catalogue), "127.0.0.1", 0, tls, limits)
        await door.start()
        return service, catalogue, door

    service, catalogue, door = run(begin())
    try:
        yield Served(place, service, door, loop, lines)
    finally:
        run(door.close())
        if catalogue is not None:
            run(catalogue.close())
        run(service.close())
        run(loop.shutdown_asyncgens())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
