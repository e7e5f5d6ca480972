"""Clients of many kinds at a server that runs as a process of its own.

First eight clients that do nothing but pay, for charges per second; then many who pay, repeat,
are refused, look around and cancel, with the memory of all processes before and after. No
answer may come without its charge, and no client may hear of anything but what it did.
`python -m benchmarks.bench.serving [CLIENTS] [SECONDS]`.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from tests.server.running import Running, running

PAYING = 8
PAYING_SECONDS = 10.0
EPSILON = "0.0001"
NUMBERS = itertools.count(1)
COUNT = "SELECT DP_COUNT(*, eps={}) AS n FROM staff WHERE salary > {}"
LONG = (
    "SELECT DP_QUANTILE(spent, 0.5, eps={}, max_rows_contributed={}) AS q FROM visits "
    "GROUP BY region, CAST(day AS DATE)"
)
CATALOGUE = (
    "SELECT c.relname, d.description FROM pg_catalog.pg_class c LEFT JOIN pg_catalog."
    "pg_description d ON d.objoid = c.oid AND d.objsubid = 0 "
    "WHERE c.relname IN ('staff', 'visits', 'regions')"
)


def pay(client: psycopg.Connection) -> str:
    """Ask what nobody has asked."""
    client.execute(COUNT.format(EPSILON, next(NUMBERS))).fetchall()  # type: ignore[arg-type]
    return "charged"


def repeat(client: psycopg.Connection) -> str:
    """Ask what was asked."""
    client.execute(COUNT.format("0.5", 0)).fetchall()  # type: ignore[arg-type]
    return "repeated"


def be_refused(client: psycopg.Connection) -> str:
    """Ask for rows."""
    try:
        client.execute("SELECT * FROM staff LIMIT 200")
    except psycopg.errors.InsufficientPrivilege:
        return "refused"
    return "shown rows!"


def look_around(client: psycopg.Connection) -> str:
    """Ask the catalogue."""
    return "catalogue" if len(client.execute(CATALOGUE).fetchall()) == 3 else "no tables!"


def cancel(client: psycopg.Connection) -> str:
    """Stop a statement soon after it was sent; one that was faster is charged all the same."""
    stop = threading.Timer(random.random() * 2, client.cancel)
    stop.start()
    try:
        client.execute(LONG.format(EPSILON, 1 + next(NUMBERS) % 200))  # type: ignore[arg-type]
    except psycopg.errors.QueryCanceled:
        return "cancelled"
    finally:
        stop.join()
    return "not cancelled in time"


KINDS: list[Callable[[psycopg.Connection], str]] = [
    *[pay] * 3, *[repeat] * 3, be_refused, look_around, cancel
]  # fmt: skip


def crowd(
    server: Running, clients: int, seconds: float, kinds: list[Callable[..., str]]
) -> Counter[str]:
    """Let clients do what they do until the time is over; return what came of it, in number."""
    ended: Counter[str] = Counter()
    until = time.monotonic() + seconds

    def run(seed: int) -> None:
        chosen = random.Random(seed)
        with psycopg.connect(server.dsn(), autocommit=True) as client:
            while time.monotonic() < until:
                try:
                    what = chosen.choice(kinds)(client)
                except psycopg.Error as error:
                    what = f"{error.sqlstate}: {str(error).splitlines()[0]}"
                ended[what] += 1

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def memory(process: int) -> Iterator[tuple[str, int]]:
    """Return a process and those that it started, with the megabytes that each holds."""
    status = Path(f"/proc/{process}/status").read_text().split()
    command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    kind = next((part for part in (b"worker", b"catalogue") if part in b" ".join(command)), b"")
    yield kind.decode() or "front", int(status[status.index("VmRSS:") + 1]) // 1024
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from memory(int(child))


def main(clients: int = 50, seconds: float = 60) -> None:
    """Print what a server does under load."""
    with tempfile.TemporaryDirectory() as place, running(Path(place)) as server:
        paid = crowd(server, PAYING, PAYING_SECONDS, [pay])
        rate = paid["charged"] / PAYING_SECONDS
        print(f"{PAYING} clients: {rate:.0f} charges a second", flush=True)
        crowd(server, clients, 5, KINDS)
        before, known = [*memory(server.process.pid)], server.charges()
        ended = crowd(server, clients, seconds, KINDS)
        after, charges = [*memory(server.process.pid)], server.charges() - known
        print(f"{clients} clients, {seconds:.0f} s: {sum(ended.values())} statements")
        for what, times in ended.most_common():
            print(f"  {times:6} {what}")
        print(f"charges in the ledger: {charges}; MB before {before}, after {after}")
        assert charges >= ended["charged"], "an answer without a charge"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
