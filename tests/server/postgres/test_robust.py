"""Whatever comes, nothing but its own connection is affected, and nothing inner is told."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import time
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery.client.wire_format import arrow_bytes
from dpquery.server.worker_messages import Reply
from tests.server.postgres.raw import Raw, message
from tests.server.postgres.served import KINDS, Served, served

SECRETS = (b"Traceback", b'File "', b"dpquery/", b".parquet", b"policy.toml", b"asyncio")
LETTERS = b"QPBDECHSXFdcfp\0zRT"


def alive(server: Served) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as client:
        assert client.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "start",
    [
        b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0", b"\xff" * 100,
        struct.pack("!ii", 2**31 - 1, 196608), struct.pack("!ii", -1, 196608),
        struct.pack("!ii", 8, 131072), struct.pack("!ii", 9, 196608) + b"u",
        struct.pack("!ii", 16, 80877102) + b"\0" * 8, struct.pack("!ii", 8, 80877103) * 10,
        struct.pack("!ii", 14, 196608) + b"user\0\xff",
        struct.pack("!ii", 20, 196608) + b"database\0\0\0\0",
    ],
)  # fmt: skip
def test_no_start_does_harm(server: Served, start: bytes):
    with Raw(server) as peer:
        peer.send(start)
        peer.socket.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: peer._exactly(1), b""))
        assert not any(secret in said for secret in SECRETS)
    alive(server)


@pytest.mark.parametrize(
    "sent",
    [
        message(b"z"), message(b"Q"), message(b"Q", b"SELECT 1"), message(b"Q", b"\xff\0"),
        b"Q" + struct.pack("!i", 2**31 - 1), b"Q" + struct.pack("!i", 3), message(b"D", b"X\0"),
        message(b"P", b"\0SELECT 1\0\x7f\xff"), message(b"E"),
        message(b"P", b"\0SELECT 1\0\0\0") + message(b"B", b"\0\0\0\0\0\1\0\0\0\5"),
    ],
)  # fmt: skip
def test_malformed_messages_end_their_connection_alone(server: Served, sent: bytes):
    with Raw(server) as peer:
        peer.log_in()
        peer.send(sent)
        peer.socket.shutdown(socket.SHUT_WR)
        read = peer.until(b"")
        told = b"".join(body for letter, body in read if letter == b"E")
        assert b"SFATAL\0" in told
        assert b"C08P01\0" in told
        assert not any(secret in told for secret in SECRETS)
    alive(server)


def test_what_goes_wrong_inside_is_one_constant_text(
    server: Served, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> object:
        raise RuntimeError("/secret/path.parquet")

    with psycopg.connect(server.dsn(), autocommit=True) as client:
        monkeypatch.setattr("dpquery.server.postgres.statement_kinds.split", broken)
        with pytest.raises(psycopg.InternalError) as raised:
            client.execute("SELECT 1", prepare=False)
    monkeypatch.undo()
    assert "something went wrong here" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "RuntimeError" in [line.get("kind") for line in server.log]
    alive(server)


def test_newer_protocols_are_told_what_is_spoken(server: Served):
    with Raw(server) as peer:
        peer.log_in(minor=2, more=b"_pq_.fancy\0on\0")
        assert peer.query("SELECT 1")[-1] == (b"Z", b"I")


def test_errors_skip_what_follows_until_sync(server: Served):
    parse = message(b"P", b"\0SELECT 1\0\0\0")
    bind, execute = message(b"B", b"\0none\0\0\0\0\0\0\0"), message(b"E", b"\0\0\0\0\0")
    with Raw(server) as peer:
        peer.log_in()
        peer.send(parse + bind + execute + execute + message(b"H") + message(b"S"))
        assert [letter for letter, _ in peer.until(b"Z")] == [b"1", b"E", b"Z"]
        bound = message(b"B", b"\0\0\0\0\0\0\0\0")
        peer.send(parse + bound + execute + message(b"S"))
        assert [letter for letter, _ in peer.until(b"Z")] == [b"1", b"2", b"D", b"C", b"Z"]
        few = message(b"P", b"\0SELECT DP_COUNT(*, eps=$1) FROM staff\0\0\0")
        peer.send(few + bound + message(b"S"))
        letters = peer.until(b"Z")
        assert [letter for letter, _ in letters] == [b"1", b"E", b"Z"]
        assert b"C08P01" in letters[1][1]


def test_portals_give_rows_by_and_by(server: Served):
    KINDS["select many"] = pa.table({"n": list(range(5))})
    before = len(server.asked())
    with Raw(server) as peer:
        peer.log_in()
        bind = message(b"B", b"p\0\0\0\0\0\0\0\0")
        peer.send(message(b"P", b"\0SELECT many\0\0\0") + bind)
        two = message(b"E", b"p\0" + struct.pack("!i", 2))
        peer.send(two + two + two + message(b"S"))
        letters = b"".join(letter for letter, _ in peer.until(b"Z"))
        assert letters == b"12DDsDDsDCZ"
        peer.send(two + message(b"S"))  # the portal has ended with its transaction
        assert [letter for letter, _ in peer.until(b"Z")] == [b"E", b"Z"]
    assert len(server.asked()) == before


def test_a_client_that_does_not_read_is_left(narrow: Served):
    KINDS["select much"] = pa.table({"t": ["x" * 1000] * 20_000})
    with Raw(narrow) as peer:
        peer.log_in()
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.send(message(b"Q", b"SELECT much\0"))
        alive(narrow)  # while the other one waits
        deadline = time.monotonic() + 15
        while narrow.service.clients and time.monotonic() < deadline:
            time.sleep(0.1)
        assert narrow.service.clients == 0


def test_many_idle_connections_do_no_harm(server: Served):
    peers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
    try:
        alive(server)
    finally:
        for peer in peers:
            peer.close()


# Stopping


def stop(server: Served, key: tuple[int, bytes]) -> None:
    peer = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    with peer:
        peer.sendall(struct.pack("!iii", 16, 80877102, key[0]) + key[1])
        assert peer.recv(1) == b""


@pytest.fixture
def busy(server: Served):
    """Take the one worker away, so that statements wait."""
    pool = server.service._pool
    worker = server.run(pool._idle.get)
    yield
    server.run(lambda: pool._idle.put_nowait(worker))


@pytest.mark.usefixtures("busy")
def test_a_statement_is_stopped_by_its_key_alone(server: Served):
    with Raw(server) as peer:
        peer.log_in()
        peer.send(message(b"Q", b"SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age > 61\0"))
        time.sleep(0.3)
        stop(server, (peer.key[0], b"none"))
        stop(server, (peer.key[0] ^ 1, peer.key[1]))
        peer.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            peer.read()
        peer.socket.settimeout(20)
        stop(server, peer.key)
        ((letter, told), (_, status)) = peer.until(b"Z")
        assert (letter, status) == (b"E", b"I")
        assert b"C57014\0" in told
        assert b"nothing was charged" in told


@pytest.mark.usefixtures("busy")
def test_psycopg_cancels_and_time_outs_hold(server: Served):
    with psycopg.connect(server.dsn(), autocommit=True) as client:
        timer = threading.Timer(0.5, client.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute("SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age > 62")
        timer.join()
        client.execute("SET statement_timeout = '200ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute("SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age > 62")


def many_visits(place: Path) -> None:
    """Have so many rows that reading them takes seconds."""
    count = 18_000_000
    rows = np.arange(count)
    table = pa.table(
        {
            "person_id": rows * 7919 % 400_000,
            "day": (rows % 90 + 20089).astype("int32"),
            "region": pa.array(["north", "south", "east"] * (count // 3)),
            "minutes": (rows % 240).astype("int32"),
            "spent": pa.array((rows % 500).astype(float)).cast(pa.decimal128(9, 2)),
            "at": pa.array(1735689600000000 + rows, pa.timestamp("us")),
        }
    )
    day = table.schema.get_field_index("day")
    table = table.set_column(day, "day", table.column("day").cast(pa.date32()))
    pq.write_table(table, place / "visits.parquet")


@pytest.mark.slow
def test_a_scan_that_is_stopped_has_been_paid(tmp_path: Path):
    text = "SELECT day, DP_MEDIAN(minutes, eps=0.5) FROM visits GROUP BY day"
    with served(tmp_path, before=many_visits, workers=3) as running, Raw(running) as peer:
        peer.log_in()
        peer.send(message(b"Q", text.encode() + b"\0"))
        deadline = time.monotonic() + 60
        while not running.spent() and time.monotonic() < deadline:
            time.sleep(0.01)
        stop(running, peer.key)
        ((letter, told), _) = peer.until(b"Z")
        assert letter == b"E", "the scan ended before it could be stopped"
        assert b"C57014\0" in told
        assert b"0.5 spent" in told, told
        assert len(running.spent()) == 1
        assert peer.query("SELECT 1")[-1] == (b"Z", b"I")


def test_a_door_that_closes_has_statements_answered_first(tmp_path: Path):
    answered = Reply("answered", tag="SELECT", body=arrow_bytes(pa.table({"n": [7]})))

    async def slow(*_: object, **__: object) -> Reply:
        await asyncio.sleep(0.5)
        return answered

    with served(tmp_path, lean=True) as running, Raw(running) as idle, Raw(running) as busy:
        running.service.ask = slow  # type: ignore[method-assign]
        stranger = socket.create_connection(("127.0.0.1", running.port))
        idle.log_in()
        busy.log_in()
        for sent in (b"P\0\0\0\x1b\0SELECT n FROM staff\0\0\0", message(b"B", b"\0" * 8)):
            busy.send(sent)
        busy.send(message(b"E", b"\0" * 5) + message(b"S"))
        time.sleep(0.2)
        began = time.monotonic()
        running.run(running.door.close)
        assert time.monotonic() - began < 5
        ((letter, told), (end, _)) = idle.until(b"Z")
        assert (letter, end) == (b"E", b"")
        assert b"C57P01\0" in told
        read = busy.until(b"Z")
        assert [letter for letter, _ in read] == [b"1", b"2", b"D", b"C", b"E", b""]
        assert read[2][1].endswith(b"7")
        assert stranger.recv(1) == b""
        stranger.close()
        with pytest.raises(ConnectionError):
            Raw(running)


# Fuzz


def noise(chance: random.Random) -> bytes:
    """Return bytes that look more or less like messages."""
    texts = [
        b"SELECT 1",
        b"BEGIN",
        b"FETCH 1 FROM c",
        b"COPY (SELECT 1) TO STDOUT",
        b"\xff",
        b"$1",
    ]
    made = b""
    for _ in range(chance.randint(1, 12)):
        kind = chance.randrange(4)
        letter = bytes([chance.choice(LETTERS)])
        if kind == 0:
            made += chance.randbytes(chance.randint(1, 60))
        elif kind == 1:
            made += letter + struct.pack("!i", chance.randint(-5, 80)) + chance.randbytes(20)
        elif kind == 2:
            made += message(letter, chance.choice(texts) + b"\0" * chance.randint(0, 8))
        else:
            parts = [
                chance.choice(texts),
                b"",
                b"\0\0",
                b"\0\1",
                b"\0\0\0\5",
                chance.randbytes(3),
            ]
            body = b"\0".join(chance.choice(parts) for _ in range(chance.randint(1, 6)))
            made += message(letter, body)
    return made


@pytest.mark.parametrize("rounds", [20, pytest.param(600, marks=pytest.mark.slow)])
def test_noise_does_no_harm(server: Served, rounds: int):
    chance = random.Random(rounds)
    spent = len(server.spent())
    for number in range(rounds):
        with Raw(server) as peer:
            if number % 2:
                peer.log_in()
            peer.send(noise(chance))
            peer.socket.shutdown(socket.SHUT_WR)
            said = b"".join(iter(lambda peer=peer: peer._exactly(1), b""))
            assert not any(secret in said for secret in SECRETS), said
    assert len(server.spent()) == spent
    kinds = {line["kind"] for line in server.log if line["event"] == "door failed"}
    assert kinds <= {"RuntimeError"}  # of the test above
    alive(server)
