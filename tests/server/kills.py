"""A server whose workers are killed, and whose statements are stopped, at random moments.

    python -m tests.server.kills POLICY JOURNAL

It goes on until it is killed itself. The journal has a line for each reply that came.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

from dpquery.server.service import Client, Service, Settings
from dpquery.server.worker_pool import Ticket

NUMBERS = count(1)


def statement(mark: int) -> str:
    """Return a statement that no other is like."""
    return f"SELECT DP_COUNT(*, eps=0.001) AS n FROM staff WHERE salary <> {mark}"


async def asking(service: Service, journal: int) -> None:
    """Ask one statement after another, and stop some."""
    client, loop = Client("alice"), asyncio.get_running_loop()
    while True:
        text, ticket = statement(os.getpid() * 100_000 + next(NUMBERS)), Ticket()
        if random.random() < 0.3:
            loop.call_later(random.random() * 0.3, ticket.stop)
        reply = await service.ask(client, "sql", {"text": text}, ticket=ticket)
        said = reply.fault.text if reply.fault else ""
        line = json.dumps([text, reply.ended, said, len(reply.body)])
        os.write(journal, line.encode() + b"\n")


async def killing(service: Service) -> None:
    """Kill a worker now and then that answers something."""
    while True:
        await asyncio.sleep(random.random() * 3)
        while not (busy := service._pool._every - {*service._pool._idle._queue}):
            await asyncio.sleep(0.01)
        await asyncio.sleep(random.random() * 0.2)
        for worker in [*busy][:1]:
            with suppress(ProcessLookupError):
                worker._process.kill()


async def main(policy: str, journal: str) -> None:
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    service = Service(Settings(Path(policy), workers=3), lambda _: None)
    fault = await service.start()
    assert fault is None, fault
    os.write(file, b'"started"\n')
    await asyncio.gather(killing(service), *(asking(service, file) for _ in range(4)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
