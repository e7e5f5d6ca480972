"""A server that speaks just enough of PostgreSQL's protocol for a client of our own.

It stands before the real `Service` and its workers. What can go wrong between the two is
switched on from the tests: connections that break, replies that say nothing.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import dpquery
from dpquery.server.frames import Reply
from dpquery.server.pool import Ticket
from dpquery.server.scram import Exchange
from dpquery.server.service import Client, Service, Settings
from dpquery.server.users import Users

PASSWORD = "correct horse"
CALL = re.compile(r"CALL dpquery\('(.*)'\)", re.DOTALL)
SSL, GSS, CANCEL = 80877103, 80877104, 80877102


class Hung(Exception):
    """The test wants this connection broken."""


class Door:
    """Runs in a thread of its own until it is closed."""

    def __init__(self, policy: Path, name: str = "default", service: Any = None) -> None:
        self.version = f"15.0 (dpquery {dpquery.__version__})"
        self.breaks = ""
        """"before" or "after": a statement that comes in finds its connection broken."""
        self.body: bytes | None = None
        """What every reply holds, in the place of the real one."""
        self.calls: list[dict[str, Any]] = []
        Users.beside(policy).with_user(name, PASSWORD, owner=False).write()
        self.service = service or Service(Settings(policy, workers=1), lambda _: None)
        self.name = name
        self._tickets: dict[tuple[int, int], Ticket] = {}
        self._open: dict[asyncio.StreamWriter, asyncio.Task[Any] | None] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        fault = self.run(self.service.start())
        assert fault is None, fault
        self.listen(0)

    def listen(self, port: int) -> None:
        self._server = self.run(self._started(port))
        self.port = self._server.sockets[0].getsockname()[1]

    async def _started(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", port)

    def run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result(60)

    @property
    def url(self) -> str:
        return f"postgresql://{self.name}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{self.port}/"

    @property
    def open_url(self) -> str:
        """Without the password."""
        return f"postgresql://{self.name}@127.0.0.1:{self.port}/"

    def hang_up(self) -> None:
        """Break every connection, as they are idle."""
        self.run(self._hang_up())

    async def _hang_up(self) -> None:
        talks = [task for task in self._open.values() if task is not None]
        for talk in talks:
            talk.cancel()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*talks, return_exceptions=True)

    def away(self) -> None:
        """Listen no more, and break every connection."""
        self.run(self._away())

    async def _away(self) -> None:
        self._server.close()
        await self._hang_up()

    def close(self) -> None:
        self.run(self._away())
        self.run(self.service.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = asyncio.current_task()
        try:
            await Talk(self, reader, writer).hold()
        except (Hung, ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            del self._open[writer]
            writer.close()

    def begun(self, key: tuple[int, int]) -> Ticket:
        self._tickets[key] = Ticket()
        return self._tickets[key]

    def stop(self, key: tuple[int, int]) -> None:
        with suppress(KeyError):
            self._tickets[key].stop()


class Talk:
    """One connection."""

    def __init__(
        self, door: Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._door, self._reader, self._writer = door, reader, writer
        self._key = (1, secrets.randbits(31))

    def _say(self, kind: str, body: bytes = b"") -> None:
        self._writer.write(kind.encode() + struct.pack("!i", len(body) + 4) + body)

    async def _read(self) -> tuple[str, bytes]:
        kind, length = struct.unpack("!ci", await self._reader.readexactly(5))
        return kind.decode(), await self._reader.readexactly(length - 4)

    async def hold(self) -> None:
        client = await self._admitted()
        if client is None:
            return
        self._say("S", b"server_version\0" + self._door.version.encode() + b"\0")
        self._say("K", struct.pack("!ii", *self._key))
        self._say("Z", b"I")
        text = ""
        while True:
            await self._writer.drain()
            kind, body = await self._read()
            match kind:
                case "X":
                    return
                case "P":
                    text = body.split(b"\0")[1].decode()
                    self._say("1")
                case "B":
                    self._say("2")
                case "E":
                    await self._answer(client, text)
                case "S":
                    self._say("Z", b"I")

    async def _admitted(self) -> Client | None:
        while True:
            length, code = struct.unpack("!ii", await self._reader.readexactly(8))
            body = await self._reader.readexactly(length - 8)
            if code not in (SSL, GSS):
                break
            self._writer.write(b"N")
        if code == CANCEL:
            self._door.stop(struct.unpack("!ii", body))
            return None
        words = body.decode().split("\0")
        name = dict(zip(words[::2], words[1::2], strict=False))["user"]
        exchange = Exchange(self._door.service.verifier(name))
        self._say("R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0")
        _, said = await self._read()
        first = said.split(b"\0", 1)[1][4:].decode()
        self._say("R", struct.pack("!i", 11) + exchange.first(first).encode())
        _, proof = await self._read()
        final = exchange.final(proof.decode())
        if final is None:
            self._fail("28P01", f'password authentication failed for user "{name}"', "FATAL")
            return None
        self._say("R", struct.pack("!i", 12) + final.encode())
        self._say("R", struct.pack("!i", 0))
        return self._door.service.admitted(name, "here", "test")

    async def _answer(self, client: Client, text: str) -> None:
        found = CALL.fullmatch(text)
        assert found, text
        asked = json.loads(found[1].replace("''", "'"))
        self._door.calls.append(asked)
        breaks, self._door.breaks = self._door.breaks, ""
        if breaks == "before":
            raise Hung
        ticket = self._door.begun(self._key)
        reply: Reply = await self._door.service.ask(
            client, asked["do"], asked["arguments"], whole=True, ticket=ticket
        )
        if breaks == "after":
            raise Hung
        body = reply.body if self._door.body is None else self._door.body
        if not body:
            assert reply.fault is not None
            fault = reply.fault
            self._fail(fault.sqlstate, fault.title, D=fault.why, H=fault.remedy)
            return
        named = b"value\0" + struct.pack("!ihihih", 0, 0, 17, -1, -1, 1)
        self._say("T", struct.pack("!h", 1) + named)
        self._say("D", struct.pack("!hi", 1, len(body)) + body)
        self._say("C", b"CALL\0")

    def _fail(self, sqlstate: str, title: str, severity: str = "ERROR", **more: str) -> None:
        fields = {"S": severity, "V": severity, "C": sqlstate, "M": title, **more}
        told = b"".join(f"{key}{text}\0".encode() for key, text in fields.items() if text)
        self._say("E", told + b"\0")
