"""Workers: answers and refusals, cancelling, deadlines, deaths, and what they cannot reach."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dpquery.budget.ledger.ledger import open_ledger
from dpquery.client.wire_format import arrow_table, loads
from dpquery.policy.load import load_policy
from dpquery.server.catalogue.policy_tables import shown_tables
from dpquery.server.catalogue.process_client import TwinSettings
from dpquery.server.service import Client, Service, Settings
from dpquery.server.users import Users
from dpquery.server.worker_messages import Reply, Request, packed, read_frame
from dpquery.server.worker_pool import Pool, Ticket, WorkerSettings
from tests.server.places import ANALYSTS, served, workers
from tests.shell.slow import slow_policy

COUNT = "SELECT DP_COUNT(*, eps=0.1) AS n FROM staff"
LONG = (
    "SELECT DP_COUNT(*, eps=0.1) AS n FROM visits v JOIN visits w USING (person_id) "
    "JOIN visits x USING (person_id) JOIN visits y USING (person_id)"
)


def asked(text: str, analyst: str = "alice", session: str | None = None) -> Request:
    return Request("sql", analyst, session, {"text": text})


def run(
    settings: WorkerSettings, use: Callable[[Pool], Awaitable[None]], size: int = 1
) -> None:
    """Use a pool, and end it."""

    async def whole() -> None:
        pool = Pool(settings, size)
        try:
            assert await pool.start() is None
            await use(pool)
        finally:
            await pool.close()

    asyncio.run(asyncio.wait_for(whole(), 120))


def spent(policy: Path, analyst: str) -> int:
    """Return how many charges an analyst has."""
    ledger = open_ledger(load_policy(policy).ledger)
    try:
        return len(ledger.entries(analyst))
    finally:
        ledger.close()


def test_statements_are_answered_and_refused(tmp_path: Path):
    policy = served(tmp_path)

    async def use(pool: Pool) -> None:
        reply = await pool.ask(asked(COUNT))
        assert (reply.ended, reply.tag) == ("answered", "SELECT")
        assert arrow_table(reply.body).column_names == ["n"]
        assert reply.notices[0] == "0.1 spent; 0.9 of 1 left"
        assert reply.notices[1].startswith("n: 95% within ± ")
        refused = await pool.ask(asked("SELECT salery FROM staff"))
        assert refused.fault is not None
        assert (refused.fault.code, refused.fault.sqlstate, refused.fault.start) == (
            "DPQ204", "42703", 7,
        )  # fmt: skip
        whole = await pool.ask(Request("budget", "alice", whole=True))
        assert str(loads(whole.body).left.epsilon) == "9/10"
        asks = Request("columns", "bob", None, {"text": COUNT})
        assert arrow_table((await pool.ask(asks)).body).column_names == ["n"]

    run(workers(policy), use)
    assert (spent(policy, "alice"), spent(policy, "bob")) == (1, 0)


def test_any_worker_goes_on_with_a_session(tmp_path: Path):
    async def use(pool: Pool) -> None:
        session = None
        view = "CREATE TEMP VIEW old AS SELECT * FROM staff WHERE age > 40"
        for text in ("SET dp.eps = 0.1", view):
            session = (await pool.ask(asked(text, session=session))).session
        replies = await asyncio.gather(
            *(pool.ask(asked("SELECT COUNT(*) FROM old", session=session)) for _ in range(2))
        )
        assert [reply.ended for reply in replies] == ["answered"] * 2
        other = await pool.ask(asked("SELECT COUNT(*) FROM old"))
        assert other.fault is not None

    run(workers(served(tmp_path)), use, size=2)


def test_a_stopped_statement_stays_charged_and_says_so(tmp_path: Path):
    policy = served(tmp_path)

    async def use(pool: Pool) -> None:
        ticket = Ticket()
        running = asyncio.create_task(pool.ask(asked(LONG), ticket))
        while not spent(policy, "alice"):
            await asyncio.sleep(0.02)
        ticket.stop()
        reply = await running
        if reply.ended == "stopped":  # it may have been answered by then
            assert reply.fault is not None
            known = "stopped; 0.1 spent; 0.9 of 1 left", "stopped while charging; SHOW LEDGER"
            assert reply.fault.text.startswith(known)
        assert (await pool.ask(asked(COUNT))).ended == "answered"

    run(workers(policy), use)


def test_one_analyst_does_not_hold_all_workers(tmp_path: Path):
    policy = slow_policy(tmp_path / "slow")
    with policy.open("a", encoding="utf-8") as file:
        file.write(ANALYSTS)
    scan = "SELECT DP_SUM(x * x, eps=0.1) FROM slow"

    async def use(pool: Pool) -> None:
        while pool.size < 2:
            await asyncio.sleep(0.02)
        tickets = [Ticket() for _ in "123"]
        slow = [asyncio.create_task(pool.ask(asked(scan), ticket)) for ticket in tickets]
        while not spent(policy, "alice"):
            await asyncio.sleep(0.02)
        assert (pool.idle, len(pool._idle._getters)) == (1, 0)  # the others wait beside it
        other = await pool.ask(Request("budget", "bob", whole=True))
        assert other.ended == "answered"
        tickets[2].stop()
        reply = await slow[2]
        assert reply.fault is not None
        assert reply.fault.text == "stopped before it began; nothing was charged"
        assert not slow[0].done()
        assert not slow[1].done()
        for ticket in tickets:
            ticket.stop()
        assert [(await one).ended for one in slow] == ["stopped"] * 3
        assert pool.idle == 2
        assert (await pool.ask(asked("SHOW TABLES"))).ended == "answered"

    run(workers(policy), use, size=2)
    assert spent(policy, "alice") == 1


def test_what_waits_can_be_stopped_and_costs_nothing(tmp_path: Path):
    policy = served(tmp_path)

    async def use(pool: Pool) -> None:
        ticket = Ticket()
        ticket.stop()
        reply = await pool.ask(asked(COUNT), ticket)
        assert reply.fault is not None
        assert reply.fault.text == "stopped before it began; nothing was charged"
        assert pool.idle == 1

    run(workers(policy), use)
    assert spent(policy, "alice") == 0


@pytest.mark.parametrize("how", ["killed", "late"])
def test_a_worker_that_dies_is_one_failure_and_is_replaced(tmp_path: Path, how: str):
    policy = served(tmp_path)

    async def use(pool: Pool) -> None:
        running = asyncio.create_task(pool.ask(asked(LONG)))
        if how == "killed":
            while not spent(policy, "alice"):
                await asyncio.sleep(0.02)
            for worker in list(pool._every):
                with suppress(ProcessLookupError):
                    worker._process.send_signal(signal.SIGKILL)
        reply = await running
        assert reply.fault is not None
        assert reply.fault.title == "the scan did not finish"
        again = (await pool.ask(asked(COUNT, "bob"))).ended
        assert again == ("answered" if how == "killed" else "refused")

    run(workers(policy, 60 if how == "killed" else 0.01), use)


def test_a_policy_that_does_not_load_is_told(tmp_path: Path):
    policy = served(tmp_path)
    policy.write_text("nonsense = 1")

    async def whole() -> Reply | None:
        pool = Pool(workers(policy), 2)
        fault = await pool.start()
        await pool.close()
        assert fault is not None
        assert "DPQ603" in fault.text
        return None

    asyncio.run(whole())


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("kind", ["worker", "twin"])
def test_a_process_whose_server_was_killed_ends_quietly(tmp_path: Path, kind: str, cut: bool):
    policy = served(tmp_path)
    own = (
        workers(policy) if kind == "worker" else TwinSettings(shown_tables(load_policy(policy)))
    )
    request = asked("SHOW TABLES") if kind == "worker" else Request("describe", "", None, SHOWN)
    pipe = subprocess.PIPE
    with subprocess.Popen(own.command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(own.first)
        process.stdin.flush()
        read_frame(process.stdout)
        process.stdin.write(packed(request)[: -1 if cut else None])
        process.stdout.close()
        process.stdin.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)


SHOWN = {"text": "SELECT relname FROM pg_class", "oids": []}
CONFINED = """
import os, socket, sys
from pathlib import Path
from dpquery.server.sandbox import confine, drop, limit, unplug
print(unplug())
drop()
inside, outside = Path(sys.argv[1]), Path(sys.argv[2])
assert (outside / "secret").read_text() == "x"
print(confine([inside / "read"], [inside / "write"], network=False))
print((inside / "read" / "file").read_text())
(inside / "write" / "new").write_text("y")
def fails(do):
    try: do()
    except OSError as error: return type(error).__name__
    return "done"
print(fails(lambda: (outside / "secret").read_text()), fails(lambda: os.listdir(outside)))
read, new = inside / "read" / "file", outside / "new"
print(fails(lambda: read.write_text("z")), fails(lambda: new.write_text("z")))
print(fails(lambda: socket.create_connection(("127.0.0.1", 9), 1)))
print(fails(Path("/etc/passwd").read_bytes))
scoped = __import__("ctypes").CDLL(None).syscall(444, None, 0, 1) >= 6
print(fails(lambda: os.kill(os.getppid(), 0)) if scoped else "PermissionError")
print(fails(Path(f"/proc/{os.getppid()}/environ").read_bytes))
"""
UNPLUGGED = """
import os, socket, sys
from dpquery.server.sandbox import drop, unplug
if sys.argv[2] == "nobody" and os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
groups = os.getuid(), os.getgid()
print(unplug())
drop()
assert groups == (os.getuid(), os.getgid())
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")))
for kind in socket.SOCK_DGRAM, socket.SOCK_STREAM:
    try:
        with socket.socket(socket.AF_INET, kind) as sent:
            sent.connect(("127.0.0.1", int(sys.argv[1])))
            sent.send(b"data")
    except OSError as error: print(error.strerror)
"""


@pytest.mark.parametrize("who", ["nobody", "the server's user"])
def test_an_unplugged_process_reaches_nobody(who: str):
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as heard:
        heard.bind(("127.0.0.1", 0))
        argv = [sys.executable, "-c", UNPLUGGED, str(heard.getsockname()[1]), who]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        unplugged, rights, *failed = done.stdout.split("\n")[:-1]
        if unplugged == "False":
            pytest.skip("this system does not permit it")
        assert int(rights, 16) & ~0b1110 == 0
        assert failed == ["Network is unreachable"] * 2
        heard.setblocking(False)
        with pytest.raises(BlockingIOError):
            heard.recv(10)


def test_a_confined_process_reaches_its_files_and_no_other(tmp_path: Path):
    for name in ("inside/read", "inside/write", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "inside/read/file").write_text("data")
    (tmp_path / "outside/secret").write_text("x")
    argv = [sys.executable, "-c", CONFINED, str(tmp_path / "inside"), str(tmp_path / "outside")]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env={**os.environ})
    _, confined, *told = done.stdout.split("\n")[:-1]
    if confined == "False":
        pytest.skip("this system has no Landlock")
    denied = "PermissionError"
    twice = f"{denied} {denied}"
    assert told == ["data", twice, twice, denied, denied, denied, denied]


def test_with_answer_times_a_stop_is_heard_at_these_times_alone(tmp_path: Path, monkeypatch):
    """When an analyst stops it, would else tell whether it had ended by any moment."""
    policy = served(tmp_path)
    Users.beside(policy).with_user("alice", "a long password", owner=False).write()
    service = Service(Settings(policy), lambda _: None)
    object.__setattr__(service.policy.limits, "answer_times", 1)
    heard: list[float] = []

    async def ask(request: Request, ticket: Ticket) -> Reply:
        began = time.monotonic()
        await ticket.stopped.wait()
        heard.append(time.monotonic() - began)
        return Reply("stopped")

    monkeypatch.setattr(service._pool, "ask", ask)

    async def stopped() -> None:
        ticket, client = Ticket(), Client("alice")
        asking = asyncio.create_task(service.ask(client, "sql", {"text": COUNT}, ticket=ticket))
        await asyncio.sleep(0.1)
        ticket.stop()
        assert (await asking).ended == "stopped"

    asyncio.run(stopped())
    assert 0.9 < heard[0] < 1.9
