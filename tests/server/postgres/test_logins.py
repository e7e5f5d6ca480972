"""Who gets in: passwords, TLS, and what becomes of those who do not speak."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from dpquery.server.postgres import listener as doors
from dpquery.server.postgres.listener import PostgresDoor
from tests.server.postgres.served import Served, served


def test_wrong_passwords_are_slow_counted_and_all_alike(server: Served):
    before = server.service.metrics["login", "refused"]
    said = []
    for user in (("alice", "wrong secret"), ("nobody", "wrong secret")):
        began = time.monotonic()
        with pytest.raises(psycopg.OperationalError) as raised:
            psycopg.connect(server.dsn(user))
        assert time.monotonic() - began >= 1
        said.append(str(raised.value).replace(user[0], "NAME"))
    assert said[0] == said[1]
    assert "is wrong, or there is no such user" in said[0]
    assert server.service.metrics["login", "refused"] == before + 2
    psycopg.connect(server.dsn()).close()


def test_a_name_is_locked_after_many_wrong_passwords(
    server: Served, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dpquery.server.service.PAUSE", 0.0)
    for _ in range(10):
        with pytest.raises(psycopg.OperationalError, match="is wrong"):
            psycopg.connect(server.dsn(("mallory", "guess")))
    with pytest.raises(psycopg.OperationalError, match="too many wrong passwords"):
        psycopg.connect(server.dsn(("mallory", "guess")))
    psycopg.connect(server.dsn()).close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DP_COUNT(*, eps=0.5) FROM staff", "SELECT 1",
        "SELECT table_name FROM information_schema.tables",
        "SHOW dp.eps", "SET dp.eps = 1", "FETCH 1 FROM earlier", "COMMIT", "",
    ],
)  # fmt: skip
def test_a_user_who_is_removed_is_answered_nothing(server: Served, text: str):
    with psycopg.connect(server.dsn(), autocommit=True) as client:
        client.execute("DECLARE earlier CURSOR WITH HOLD FOR SELECT 1")
        kept = server.service.users
        try:
            kept.without("alice").write()
            with pytest.raises(psycopg.OperationalError, match="this user was removed"):
                client.execute(text, prepare=False)
            assert client.closed
        finally:
            kept.write()


def test_connections_are_counted(server: Served):
    def settled() -> int:
        for _ in range(100):
            if server.service.clients == 0:
                break
            time.sleep(0.05)
        return server.service.clients

    assert settled() == 0
    with psycopg.connect(server.dsn()):
        assert server.service.clients == 1
    assert settled() == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_without_a_certificate_only_this_machine_is_listened_to(server: Served, host: str):
    door = PostgresDoor(server.service, server.door._catalogue, host, 0)
    with pytest.raises(ValueError, match="--tls-cert"):
        server.run(door.start)
    assert doors.is_loopback("localhost")


# TLS


def certificate(place: Path) -> tuple[Path, Path]:
    """Make a certificate of this machine, signed by itself."""
    key, cert = place / "key.pem", place / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        [*command, *names, "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )
    return cert, key


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    place = tmp_path_factory.mktemp("tls")
    cert, key = certificate(place)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with served(place, context, lean=True) as running:
        yield running, cert


def test_tls_is_verified_and_needed(encrypted: tuple[Served, Path]):
    server, cert = encrypted
    verified = f"sslmode=verify-full sslrootcert={cert}"
    with psycopg.connect(server.dsn(more=verified)) as client:
        assert client.pgconn.ssl_in_use
        assert client.execute("SELECT 1").fetchall() == [(1,)]
    with pytest.raises(psycopg.OperationalError, match="under TLS alone"):
        psycopg.connect(server.dsn(more="sslmode=disable"))
    asyncpg = pytest.importorskip("asyncpg")

    async def talk() -> None:
        context = ssl.create_default_context(cafile=str(cert))
        connection = await asyncpg.connect(**server.arguments(), ssl=context)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close(timeout=5)

    asyncio.run(talk())


def test_what_is_sent_before_tls_is_not_taken_for_encrypted(encrypted: tuple[Served, Path]):
    server, _ = encrypted
    with dialled(server) as peer:
        start = struct.pack("!ii", 196608, 0)
        peer.sendall(struct.pack("!ii", 8, 80877103) + struct.pack("!i", 12) + start)
        answer = peer.recv(100)
        assert answer[:1] in (b"S", b"")
        rest = answer[1:] + peer.recv(1000)
        assert b"R\0\0\0" not in rest  # nothing of a login follows


@contextmanager
def dialled(server: Served) -> Iterator[socket.socket]:
    peer = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    try:
        yield peer
    finally:
        peer.close()


# Those who do not log in, do not read, or do not leave.


def test_a_login_takes_no_longer_than_it_may(narrow: Served):
    with dialled(narrow) as peer:
        peer.sendall(b"\0\0")
        said = b"".join(iter(lambda: peer.recv(1000), b""))
    assert b"the login took too long" in said


def test_connections_have_a_limit(narrow: Served):
    peers = [socket.create_connection(("127.0.0.1", narrow.port)) for _ in range(20)]
    try:
        time.sleep(0.2)
        with pytest.raises(psycopg.OperationalError, match="too many connections"):
            psycopg.connect(narrow.dsn())
    finally:
        for peer in peers:
            peer.close()


def test_statements_and_cursors_have_a_limit(narrow: Served):
    with psycopg.connect(narrow.dsn(), autocommit=True) as client:
        client.prepare_threshold = 0
        client.prepared_max = None
        for _ in range(5):
            client.execute("SELECT 1")
            client.execute("DEALLOCATE ALL", prepare=False)
        for number in range(5):
            client.execute(f"SELECT 1{';' * number}")
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            client.execute("SELECT 1 ;")
        client.execute("DEALLOCATE ALL", prepare=False)
        for number in range(3):
            client.execute(f"DECLARE c{number} CURSOR FOR SELECT 1", prepare=False)
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="cursors"):
            client.execute("DECLARE c CURSOR FOR SELECT 1", prepare=False)
        client.execute("CLOSE ALL", prepare=False)
        client.execute("DECLARE c CURSOR FOR SELECT 1", prepare=False)


def test_messages_have_a_limit(narrow: Served):
    text = "SELECT '" + "x" * 200_000 + "'"
    with (
        psycopg.connect(narrow.dsn(), autocommit=True) as client,
        pytest.raises(psycopg.OperationalError),
    ):
        client.execute(text)
    psycopg.connect(narrow.dsn()).close()
