"""The twins in processes of their own: started, asked, ended, and started again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dpquery.client.wire_format import arrow_table
from dpquery.policy.model import Policy
from dpquery.server.catalogue import Catalogue, process_client
from dpquery.server.worker_messages import Fault

ENDLESS = "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d"


def rows(reply: Any) -> list[dict[str, object]]:
    assert reply.fault is None
    return arrow_table(reply.body).to_pylist()


def test_a_process_answers(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_client, "PROCESSES", 1)
    heard: list[tuple[str, dict[str, object]]] = []

    async def talk() -> None:
        asked = await Catalogue.start(
            policy, lambda event, **facts: heard.append((event, facts))
        )
        try:
            text = "SELECT current_user AS u, relname FROM pg_class WHERE oid = $1"
            assert rows(await asked.ask(text, [26], [16384], "alice")) == [
                {"u": "alice", "relname": "staff"}
            ]
            described = await asked.describe(text, [], "bob")
            assert not isinstance(described, Fault)
            assert described[0] == [26]
            assert described[1].names == ["u", "relname"]
            refused = await asked.describe("SELECT * FROM pg_nothing", [], "bob")
            assert isinstance(refused, Fault)
            assert refused.sqlstate == "42P01"
            bad = await asked.ask("SELECT $1", [25], [object()], "bob")
            assert bad.fault is not None
            [process] = asked._pool._every
            process._process.kill()
            await process._process.wait()
            gone = await asked.ask("SELECT 1", [], [], "bob")
            assert gone.fault is not None
            assert gone.fault.sqlstate == "57014"
            assert rows(await asked.ask("SELECT 1 AS n", [], [], "bob")) == [{"n": 1}]
            assert asked.asked[""] == 3
        finally:
            await asked.close()

    asyncio.run(talk())
    assert ("catalogue", {"refused": "42P01", "text": "SELECT * FROM pg_nothing"}) in heard


@pytest.mark.slow
def test_one_that_takes_too_long_is_ended(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_client, "PROCESSES", 2)

    async def talk() -> None:
        asked = await Catalogue.start(policy)
        try:
            while asked._pool.idle < 2:
                await asyncio.sleep(0.1)
            hung = asyncio.create_task(asked.ask(ENDLESS, [], [], "alice"))
            await asyncio.sleep(0.2)
            for _ in range(20):
                assert rows(await asked.ask("SELECT 1 AS n", [], [], "bob")) == [{"n": 1}]
            fault = (await hung).fault
            assert fault is not None
            assert fault.sqlstate == "57014"
        finally:
            await asked.close()

    asyncio.run(talk())
