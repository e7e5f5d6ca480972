"""What the server's parts take from each other, and what they refuse."""

from __future__ import annotations

import asyncio
import json
import random
import time
from base64 import b64encode
from contextlib import suppress
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from dpquery.client.wire_format import arrow_bytes, dumps, loads
from dpquery.core.privacy_loss import NO_LOSS
from dpquery.core.types import Kind
from dpquery.server import worker, worker_messages
from dpquery.server.postgres.call_statement import call_of
from dpquery.server.postgres.login import Exchange
from dpquery.server.postgres.messages import Refused
from dpquery.server.service import Client, Service, Settings, _Wrong
from dpquery.server.users import Users
from dpquery.server.worker_messages import Request
from dpquery.server.worker_pool import Pool
from tests.server.places import served, workers
from tests.server.postgres import served as postgres
from tests.server.test_pool import COUNT, asked, run


def test_what_no_worker_does_reaches_none(tmp_path: Path):
    policy = served(tmp_path)
    Users.beside(policy).with_user("alice", "a long password", owner=False).write()
    service = Service(Settings(policy), lambda _: None)  # without workers: it does not wait
    reply = asyncio.run(service.ask(Client("alice"), "shutdown"))
    assert reply.fault is not None
    assert reply.fault.sqlstate == "42883"
    assert set(worker.CALLS) == worker_messages.CALLS
    assert set(worker.ORDERS) == worker_messages.OWNER_CALLS


def test_nobody_takes_all_that_may_wait(tmp_path: Path):
    policy = served(tmp_path)
    users = Users.beside(policy)
    for name in ("alice", "bob"):
        users = users.with_user(name, "a long password", owner=False)
    users.write()
    service = Service(Settings(policy, statements=4), lambda _: None)

    async def ask() -> None:
        waiting = [asyncio.create_task(service.ask(Client("alice"), "budget")) for _ in "12"]
        await asyncio.sleep(0.01)
        reply = await service.ask(Client("alice"), "budget")
        assert reply.fault is not None
        assert reply.fault.sqlstate == "53300"
        waiting += [asyncio.create_task(service.ask(Client("bob"), "budget"))]
        await asyncio.sleep(0.01)
        assert not any(one.done() for one in waiting)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert service._running.total() == 0

    asyncio.run(ask())


@pytest.mark.parametrize("values", ["nonsense", "[" * 100_000, '{"again":7}'])
def test_a_worker_outlives_what_it_cannot_read(tmp_path: Path, values: str):
    async def use(pool: Pool) -> None:
        (one,) = pool._every
        told = {"text": COUNT, "values": values}
        for whole in (False, True, "page"):
            reply = await pool.ask(Request("sql", "alice", None, told, whole))
            assert reply.ended == "refused"
            assert reply.fault is not None
            assert reply.fault.code == "DPQ901"
            assert "dpquery sends" not in reply.fault.text
        assert (await pool.ask(asked(COUNT))).ended == "answered"
        assert pool._every == {one}

    run(workers(served(tmp_path)), use)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"tuple":' * 5000 + b"1" + b"}" * 5000])
def test_what_is_nested_too_deeply_is_nothing_that_is_sent(text: bytes):
    with pytest.raises(ValueError, match="not what dpquery sends"):
        loads(text)


@pytest.mark.parametrize("word", ["arrow", "schema", "object", "enum", "again", "set"])
def test_values_of_clients_are_plain(word: str):
    held: dict[str, object] = {"arrow": pa.table({"a": [1]}), "schema": pa.schema([])}
    held |= {"object": NO_LOSS, "set": frozenset([1]), "enum": Kind.INTEGER}
    text = dumps([held.get(word)]) if word in held else b'[1,{"again":0}]'
    assert word.encode() in text
    with pytest.raises(ValueError, match="not what dpquery sends"):
        loads(text, plain=True)
    call = json.dumps({"do": "sql", "arguments": {"text": "x", "values": text.decode()}})
    with pytest.raises(Refused, match="no call of dpquery"):
        call_of(call)


def test_values_of_clients_arrive_as_they_were():
    values = [1, 0.5, "a", None, True, Decimal("1.50"), Fraction(1, 3), date(2025, 1, 1), (1,)]
    assert loads(dumps({"a": values}), plain=True) == {"a": values}


def test_bytes_that_are_no_rows_are_nothing_that_is_sent():
    chance, honest = random.Random(1), arrow_bytes(pa.table({"a": [1, 2]}))
    for _ in range(1000):
        rows = bytearray(honest)
        for _ in range(3):
            rows[chance.randrange(len(rows))] = chance.randrange(256)
        cut = bytes(rows[: chance.randrange(len(rows))])
        with suppress(ValueError):
            loads(json.dumps({"arrow": b64encode(cut).decode()}).encode())


def test_workers_import_nothing_from_where_the_server_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    policy = served(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)

    async def use(pool: Pool) -> None:
        assert (await pool.ask(asked(COUNT))).ended == "answered"

    run(workers(policy), use)


def test_a_password_that_was_guessed_beside_many_wrong_ones_lets_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with postgres.served(tmp_path, lean=True) as server:
        honest = Exchange.final

        def final(exchange: Exchange, message: str) -> str | None:
            locked = _Wrong(10, time.monotonic() + 60)  # others were wrong in the meantime
            server.service._wrong["alice", "127.0.0.1"] = locked
            return honest(exchange, message)

        monkeypatch.setattr(Exchange, "final", final)
        with pytest.raises(psycopg.OperationalError, match="the password of user"):
            psycopg.connect(server.dsn())
