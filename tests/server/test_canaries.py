"""What no byte on the wire has: rows, paths, and what another analyst asked, said or named.

All statements of grammar/ are asked over hostile rows, through the doors that there are. Each
private text and number that stands in one row alone is a canary.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpquery.server.service import Client
from dpquery.server.web.http_server import WebDoor
from tests.corpus import hostile
from tests.corpus.cases import all_files, read
from tests.server.postgres.raw import Raw, message
from tests.server.postgres.served import ALICE, Served, served
from tests.server.web.serving import Asking

TEXT, NUMBER, ASKED, VIEW = "canary-7f3a", 4_815_162_342_108, "bobs-own-text", "bobs_view"
EVERY = sorted({case.query for path in all_files() for case in read(path)})
MORE = [
    "SHOW LEDGER", "SHOW BUDGET", "SHOW TABLES", "SHOW FUNCTIONS", "SHOW ALL",
    f"SELECT * FROM {VIEW}", f"DESCRIBE {VIEW}", "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM pg_catalog.pg_roles", "SELECT * FROM pg_catalog.pg_settings",
    "SELECT * FROM pg_catalog.pg_database", "SELECT * FROM information_schema.tables",
    "SELECT * FROM information_schema.views", "SELECT * FROM pg_stat_activity",
    "SELECT pg_read_file('policy.users')", "SELECT * FROM read_text('policy.users')",
    "SELECT * FROM 'staff.parquet'", "SELECT * FROM read_parquet('staff.parquet') WHERE 1=0",
    "SELECT * FROM glob('*') LIMIT 0", "SELECT getenv('HOME')", "COPY staff TO STDOUT",
    "COPY (SELECT * FROM read_text('policy.toml')) TO STDOUT", "ATTACH 'ledger.db'",
    "SELECT * FROM duckdb_settings()", "SELECT * FROM duckdb_databases() WHERE 1=0",
    "SELECT current_setting('temp_directory')", "PRAGMA database_list", "SELECT version()",
    "SELECT * FROM sqlite_scan('ledger.db', 'charges') LIMIT 0", "SELECT CAST(dept AS INTEGER)",
    "SELECT error(dept) FROM staff",
    "SELECT * FROM staff s JOIN read_text('/etc/passwd') ON true",
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hostile, "HEAVY", 500)
        with served(tmp_path_factory.mktemp("unguessed"), before=hostile_rows) as running:
            bob = Client("bob")
            for text in (
                f"CREATE TEMP VIEW {VIEW} AS SELECT * FROM staff WHERE dept = '{ASKED}'",
                f"SELECT DP_COUNT(*, eps=0.1) AS n FROM {VIEW}",
                f"SELECT DP_COUNT(*, eps=0.1) AS n FROM staff WHERE dept = '{ASKED}'",
            ):
                reply = running.run(
                    lambda text=text: running.service.ask(bob, "sql", {"text": text})
                )
                assert reply.ended == "answered", reply
            yield running


def hostile_rows(place: Path) -> None:
    """Put hostile rows in the place of the samples, with canaries in one row each."""
    hostile.overwrite(place)
    for name, text, number in (("staff", "dept", "salary"), ("visits", "region", "person_id")):
        table = pq.read_table(place / f"{name}.parquet")
        for column, value in ((text, f"{TEXT}-{name}"), (number, NUMBER)):
            at = table.schema.get_field_index(column)
            chosen = pa.array([row == 300 for row in range(table.num_rows)])
            cells = table.column(at).combine_chunks()
            field = table.schema.field(at)
            mixed = pc.if_else(chosen, pa.scalar(value, field.type), cells)
            table = table.set_column(at, field, mixed)
        pq.write_table(table, place / f"{name}.parquet")


def leaks(server: Served, said: bytes, asked: str = "") -> list[str]:
    """Return what is said of what nobody may learn; what was in the question may be said."""
    names = (re.escape(part) for part in server.place.parts[1:])
    hidden = (
        TEXT, str(NUMBER), ASKED, VIEW, r"\bbob\b", *names, "policy\\.(toml|users)",
        "SCRAM-SHA-256\\$", "Traceback", 'File "', r"\.parquet", r"\.pytest", "/work/",
    )  # fmt: skip
    text = said.decode("utf-8", "replace")
    found = [what for what in hidden if re.search(what, text)]
    return [what for what in found if not re.search(what, asked)]


def test_leaks_are_seen(server: Served):
    for said in (
        f"a {TEXT}-staff",
        f"is {NUMBER}",
        str(server.service.settings.policy),
        "to bob",
    ):
        assert leaks(server, b"..." + said.encode() + b"...")
    assert not leaks(server, b"alice has 4.8 of staff")
    assert not leaks(server, b"no name bob here", "SELECT bob FROM staff")


def statements(request: pytest.FixtureRequest) -> list[str]:
    every = request.param
    return [*MORE, *EVERY[:: 1 if every else 40]]


SOME = [pytest.param(False, id="some"), pytest.param(True, id="all", marks=pytest.mark.slow)]


@pytest.fixture
def asked(request: pytest.FixtureRequest) -> list[str]:
    return statements(request)


@pytest.mark.parametrize("asked", SOME, indirect=True)
@pytest.mark.parametrize("whole", [False, True, "page"])
def test_the_service_tells_nothing_that_is_not_asked(
    server: Served, asked: list[str], whole: bool | str
):
    alice = Client("alice")

    async def all_of_them() -> list[tuple[str, list[str]]]:
        found = []
        for text in asked if whole is False else asked[::3]:
            for do in ("sql", "explain") if len(asked) > len(EVERY) else ("sql",):
                reply = await server.service.ask(alice, do, {"text": text}, whole=whole)
                told = json.dumps(
                    [reply.notices, str(reply.fault)], ensure_ascii=False
                ).encode()
                found.append((text, leaks(server, told + reply.body, text)))
            assert not leaks(server, (alice.session or "").encode(), " ".join(asked))
        return found

    said = asyncio.run_coroutine_threadsafe(all_of_them(), server.loop).result(3000)
    assert [one for one in said if one[1]] == []


@pytest.mark.parametrize("asked", SOME, indirect=True)
def test_the_door_of_postgresql_tells_nothing_that_is_not_asked(
    server: Served, asked: list[str]
):
    said = []
    with Raw(server, timeout=120) as peer:
        peer.log_in(ALICE)
        for text in asked:
            parts = [body for _, body in peer.query(text)]
            body = text.encode()
            parsed = message(b"P", b"\0" + body + b"\0\0\0")
            described = message(b"D", b"S\0")
            peer.send(parsed + described + message(b"S"))
            parts += [body for _, body in peer.until(b"Z")]
            said.append((text, leaks(server, b"".join(parts), text)))
    assert [one for one in said if one[1]] == []
    assert not [line for line in server.log if line["event"] == "door failed"]


@pytest.mark.parametrize("asked", SOME, indirect=True)
def test_copies_and_calls_tell_nothing_that_is_not_asked(server: Served, asked: list[str]):
    said = []
    with Raw(server, timeout=120) as peer:
        peer.log_in(ALICE)
        for text in asked:
            call = json.dumps({"do": "sql", "arguments": {"text": text}}).replace("'", "''")
            for sent in (f"COPY ({text}) TO STDOUT", f"CALL dpquery('{call}')"):
                parts = b"".join(body for _, body in peer.query(sent))
                said.append((sent, leaks(server, parts, sent)))
    assert [one for one in said if one[1]] == []


@pytest.mark.parametrize("asked", SOME, indirect=True)
def test_the_page_tells_nothing_that_is_not_asked(server: Served, asked: list[str]):
    door = WebDoor(server.service, "127.0.0.1", 0, None, None)
    server.run(door.start)
    try:
        asking, said = Asking(door.port), []
        assert asking.log_in(*ALICE)[0] == 200
        for text in asked:
            for name in ("price", "ask"):
                status, told = asking.call(name, text=text)
                assert status == 200, told
                raw = json.dumps([told, asking.headers], ensure_ascii=False).encode()
                said.append((text, leaks(server, raw, text)))
    finally:
        server.run(door.close)
    assert [one for one in said if one[1]] == []


def test_the_statements_were_answered(server: Served):
    """What is refused tells little: rows have to be read for a canary to sing."""
    ends = Counter(line["ended"] for line in server.log if line["event"] == "statement")
    codes = Counter(line["code"] for line in server.log if line["event"] == "statement")
    assert ends["answered"] > 50
    assert codes["DPQ701"] == codes["DPQ505"] == codes["DPQ901"] == 0
