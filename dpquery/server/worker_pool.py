"""The workers of a server: started before they are needed, and ended where they take too long.

The server's own process opens no private file. It hands statements to workers and waits; what
becomes of one of them, no other analyst notices.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Protocol, TypeVar

from dpquery.client.wire_format import dumps
from dpquery.errors import Diagnostic, ScanFailed
from dpquery.server.worker_messages import (
    HEAD,
    Fault,
    Reply,
    Request,
    lengths,
    packed,
    reply_of,
)

T = TypeVar("T")
GRACE = 5.0
"""Seconds that a worker has to end a statement that was stopped."""


class ProcessSettings(Protocol):
    """How processes are run with which frames are exchanged."""

    @property
    def command(self) -> tuple[str, ...]:
        """What is run."""

    @property
    def first(self) -> bytes:
        """What a process is told as it begins."""

    @property
    def seconds(self) -> float:
        """How long one statement may take."""


def command_of(module: str, **told: object) -> tuple[str, ...]:
    """Return what runs a module as a process of the server."""
    # -P: where the server was started is no place to read or to import from.
    begin = sys.executable, "-P", "-m", "dpquery.server.process_main"
    return *begin, module, json.dumps(told)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How workers are run."""

    policy: str
    seconds: float
    """How long one statement may take."""
    memory: int
    """Bytes of addresses of one worker."""
    network: bool = False
    """Whether the policy needs one."""

    @property
    def command(self) -> tuple[str, ...]:
        """What is run."""
        return command_of("dpquery.server.worker", **asdict(self))

    @property
    def first(self) -> bytes:
        """Nothing: it reads the policy."""
        return b""


@dataclass(slots=True)
class Ticket:
    """A statement that is asked, by which it can be stopped."""

    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """Have it stopped, soon; one that has ended stays as it is."""
        self.stopped.set()


class Gone(Exception):
    """A worker has ended."""


class WorkerProcess:
    """One process, with which one statement at a time is talked over."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, settings: ProcessSettings) -> tuple[WorkerProcess, Reply]:
        """Start a process, and wait until it is ready or says why it cannot be.

        Raises:
            Gone: it ended without a word.
        """
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *settings.command, stdin=pipe, stdout=pipe, start_new_session=True
        )
        worker = cls(process)
        await worker._send(settings.first)
        return worker, await worker._reply()

    async def ask(self, request: Request) -> Reply:
        """Have a request answered.

        Raises:
            Gone: the process ended before it had answered.
        """
        await self._send(packed(request))
        return await self._reply()

    async def _send(self, frame: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - it is a pipe
        try:
            stdin.write(frame)
            await stdin.drain()
        except ConnectionError:
            raise Gone from None

    async def _reply(self) -> Reply:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101
        try:
            header, body = lengths(await stdout.readexactly(HEAD))
            return reply_of(await stdout.readexactly(header), await stdout.readexactly(body))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError, LookupError):
            raise Gone from None

    def interrupt(self) -> None:
        """Have it stop what it does."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    async def end(self) -> None:
        """End it, whatever it does."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


class Pool:
    """Some workers, and the requests that wait for one."""

    def __init__(
        self,
        settings: ProcessSettings,
        size: int,
        noted: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._size = size
        self._noted = noted
        """Takes what the data owner should know, a word each."""
        self._idle: asyncio.Queue[WorkerProcess] = asyncio.Queue()
        self._every: set[WorkerProcess] = set()
        self._making: set[asyncio.Task[None]] = set()
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(max(1, size - 1))
        )
        """By who asks: nobody holds all workers while others wait."""
        self._closed = False
        self.confined = self.unplugged = False
        """Whether the system shuts workers out of all other files, and out of the network."""

    async def start(self) -> Fault | None:
        """Start the workers; return why they cannot be."""
        try:
            worker, said = await WorkerProcess.start(self._settings)
        except Gone:
            text = "a worker ended as it began: too little memory may be allowed to it"
            return Fault("", "58000", text, text)
        if said.fault is not None:
            await worker.end()
            return said.fault
        self.confined = "confined" in said.tag.split()
        self.unplugged = "unplugged" in said.tag.split()
        self._admit(worker)
        for _ in range(self._size - 1):
            self._replace()
        return None

    def _admit(self, worker: WorkerProcess) -> None:
        self._every.add(worker)
        self._idle.put_nowait(worker)

    def _replace(self) -> None:
        """Start one more worker, while others go on."""
        making = asyncio.create_task(self._make())
        self._making.add(making)
        making.add_done_callback(self._making.discard)

    async def _make(self) -> None:
        wait = 0.1
        while not self._closed:
            try:
                worker, said = await WorkerProcess.start(self._settings)
            except Gone:
                said = Reply("failed", fault=Fault("", "58000", "", ""))
            else:
                if said.fault is None and not self._closed:
                    self._admit(worker)
                    return
                await worker.end()
            self._noted("a worker could not be started")
            await asyncio.sleep(wait)
            wait = min(2 * wait, 60)

    async def ask(self, request: Request, ticket: Ticket | None = None) -> Reply:
        """Have a request answered, when a worker is free; whatever happens, a reply comes."""
        ticket, turn = ticket or Ticket(), self._turns[request.analyst]
        stopped = asyncio.create_task(ticket.stopped.wait())
        try:
            if not await _unless(stopped, turn.acquire(), lambda _: turn.release()):
                return _STOPPED
            try:
                worker = await _unless(stopped, self._idle.get(), self._idle.put_nowait)
                return await self._asked(worker, request, stopped) if worker else _STOPPED
            finally:
                turn.release()
        finally:
            stopped.cancel()

    async def _asked(
        self, worker: WorkerProcess, request: Request, stopped: asyncio.Task[bool]
    ) -> Reply:
        asking = asyncio.create_task(worker.ask(request))
        whole = False
        try:
            seconds = self._settings.seconds
            await asyncio.wait({asking, stopped}, timeout=seconds, return_when=_FIRST)
            if not asking.done() and stopped.done():
                worker.interrupt()
                await asyncio.wait({asking}, timeout=GRACE)
            whole = asking.done() and asking.exception() is None
            if whole:
                return asking.result()
            self._noted("a worker was ended" if not asking.done() else "a worker has died")
            return FAILED
        finally:
            asking.cancel()
            if whole and not self._closed:
                self._idle.put_nowait(worker)
            else:
                self._every.discard(worker)
                await worker.end()
                if not self._closed:
                    self._replace()

    @property
    def idle(self) -> int:
        """How many workers wait for a request."""
        return self._idle.qsize()

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self._every)

    async def retire(self) -> None:
        """Let workers end what they do, and end them: another pool takes what comes."""
        self._closed = True
        until = asyncio.get_running_loop().time() + self._settings.seconds
        while self._every and asyncio.get_running_loop().time() < until:
            while not self._idle.empty():
                worker = self._idle.get_nowait()
                self._every.discard(worker)
                await worker.end()
            await asyncio.sleep(0.2)
        await self.close()

    async def close(self) -> None:
        """End all workers; what they were asked is broken off."""
        self._closed = True
        for making in list(self._making):
            making.cancel()
        for worker in list(self._every):
            await worker.end()


async def _unless(
    stopped: asyncio.Task[bool],
    wanted: Coroutine[None, None, T],
    give_back: Callable[[T], None],
) -> T | None:
    """Wait for something; None where the statement was stopped before it was there."""
    waiting = asyncio.create_task(wanted)
    kept = False
    try:
        await asyncio.wait({waiting, stopped}, return_when=_FIRST)
        kept = waiting.done() and not stopped.done()
        return waiting.result() if kept else None
    finally:
        if not waiting.done():
            waiting.cancel()
        elif not kept:
            give_back(waiting.result())


_FIRST = asyncio.FIRST_COMPLETED
_SAID = "stopped before it began; nothing was charged"
_STOPPED = Reply("stopped", fault=Fault("", "57014", _SAID, _SAID))


def _failure() -> Reply:
    """Return the one constant failure of a statement whose worker is gone."""
    why = (
        "the process that answered has ended: time or memory may have run out. It may have",
        "been charged: SHOW LEDGER says so. Such failures are counted.",
    )
    found = Diagnostic("DPQ701", "the scan did not finish", why=why, remedy=("SHOW LEDGER",))
    error = ScanFailed(found)
    fault = Fault(
        error.code, error.sqlstate, found.title, str(error), None, " ".join(why), "SHOW LEDGER"
    )
    return Reply("refused", fault=fault, body=dumps(error))


FAILED = _failure()
