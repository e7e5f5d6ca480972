"""A server in a thread: its door is the real one, and what can go wrong is switched on.

Connections that break, replies that say nothing, a service that does not stop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpquery.policy.sources.paths import copy_samples
from dpquery.server.postgres.listener import PostgresDoor
from dpquery.server.service import Client, Service, Settings
from dpquery.server.users import Users
from dpquery.server.worker_messages import Reply

PASSWORD = "correct horse"


class NoCatalogue:
    """Of tables and types, nobody asks here."""

    def wants(self, text: str) -> bool:
        return False


class Faulty(Service):
    """A service that can be told to fail."""

    breaks = ""
    """"before" or "after": a statement that comes in finds its connections broken."""
    body: bytes | None = None
    """What every reply holds, in the place of the real one."""
    deaf = False
    """Whether it answers nothing, and does not stop."""
    calls: list[str] = []  # noqa: RUF012

    async def ask(self, client: Client, do: str, *given: Any, **more: Any) -> Reply:
        self.calls.append(do)
        breaks, self.breaks = self.breaks, ""
        if self.deaf or breaks == "before":
            return await self._leave_alone(broken=not self.deaf)
        reply = await super().ask(client, do, *given, **more)
        if breaks:
            await self._leave_alone(broken=True)
        return reply if self.body is None else Reply("answered", body=self.body)

    async def _leave_alone(self, *, broken: bool) -> Reply:
        if broken:
            self.door.hang_up_now()
        await self.door.going.wait()
        raise ConnectionAbortedError

    door: Door


@contextmanager
def serving(place: Path) -> Iterator[str]:
    """Serve the sample data, and give the URL."""
    door = Door(copy_samples(place))
    try:
        yield door.url
    finally:
        door.close()


class Door:
    """Runs in a thread of its own until it is closed."""

    def __init__(self, policy: Path, name: str = "default") -> None:
        Users.beside(policy).with_user(name, PASSWORD, owner=False).write()
        self.name = name
        self.service = Faulty(Settings(policy, workers=1), lambda _: None)
        self.service.door, self.service.calls = self, []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.going = asyncio.Event()
        """Set once the door closes: what was left alone ends."""
        fault = self._run(self.service.start())
        assert fault is None, fault
        self.listen(0)

    def listen(self, port: int) -> None:
        self.going.clear()
        self._door = PostgresDoor(self.service, NoCatalogue(), "127.0.0.1", port)
        self._run(self._door.start())
        self.port = self._door.port

    def _run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result(60)

    @property
    def url(self) -> str:
        return f"postgresql://{self.name}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{self.port}/"

    @property
    def open_url(self) -> str:
        """Without the password."""
        return f"postgresql://{self.name}@127.0.0.1:{self.port}/"

    def hang_up_now(self) -> None:
        for key in list(self._door._keys.values()):
            key.connection.streams.writer.transport.abort()

    def hang_up(self) -> None:
        """Break every connection, as they are idle."""

        async def hang_up() -> None:
            self.hang_up_now()
            await asyncio.sleep(0.05)

        self._run(hang_up())

    def away(self) -> None:
        """Say good-bye to everybody, and listen no more."""
        self._loop.call_soon_threadsafe(self.going.set)
        self._run(self._door.close())

    def close(self) -> None:
        self.away()
        self._run(self.service.close())
        self._run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
