"""The page's door: what it serves to whom, with TLS and without, and to whom it closes."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpquery.server.service import Service, Settings
from dpquery.server.web import http_server as module
from dpquery.server.web import metrics
from dpquery.server.web.http_server import WebDoor
from dpquery.server.web.quick_fixes import pasted
from tests.server.web.serving import Asking, Served, policy_of_three, served

PAGE = Path(module.__file__).with_name("page")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a certificate for this machine that it signs itself."""
    place = tmp_path_factory.mktemp("tls")
    key, certificate = place / "key.pem", place / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
    ]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key)]
    try:
        subprocess.run([*command, "-out", str(certificate)], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is missing")
    return certificate, key


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]
) -> Iterator[Served]:
    place = policy_of_three(tmp_path_factory.mktemp("door"))
    with pytest.MonkeyPatch.context() as patch, served(place) as server:
        patch.setattr(module, "PATIENCE", 0.3)
        yield server


def test_the_page_is_whole_and_from_here_alone(server: Served):
    index = PAGE.joinpath("index.html").read_text("utf-8")
    asking = server.client()
    assert asking.send("GET", "/") == (200, index)
    for path in sorted(PAGE.iterdir()):
        text = path.read_text("utf-8")
        if path.name != "index.html":
            assert asking.send("GET", f"/page/{path.name}") == (200, text)
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
        assert (
            re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", text)
            == []
        )
        for imported in re.findall(r'from "\./([\w.]+)"', text):
            assert PAGE.joinpath(imported).exists()
    assert re.findall(r"<script(?![^>]* src=)|\son\w+=|\sstyle=|<style", index) == []
    for named in re.findall(r'(?:src|href)="(/[^"]+)"', index):
        assert asking.send("GET", named)[0] == 200


def test_every_answer_says_what_a_browser_may_do(server: Served):
    asking = server.client()
    for method, path in (("GET", "/"), ("GET", "/x"), ("POST", "/api/me"), ("GET", "/health")):
        asking.send(method, path)
        policy = asking.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert asking.headers["x-content-type-options"] == "nosniff"
        assert "server" not in asking.headers
        kept = "no-cache" if path == "/" else "no-store"
        assert asking.headers["cache-control"] == kept
    assert asking.send("GET", "/")[0] == 200
    known = {"if-none-match": asking.headers["etag"]}
    assert asking.send("GET", "/", None, known) == (304, "")


@pytest.mark.parametrize(
    "path",
    [
        "/page/../door.py",
        "/page/%2e%2e/door.py",
        "/page/..%2fdoor.py",
        "/page/",
        "/policy.toml",
    ],
)
def test_nothing_else_is_served(server: Served, path: str):
    assert server.client().send("GET", path)[0] == 404


def test_metrics_count_and_name_nobody(server: Served, monkeypatch):
    asking = server.client("alice")
    asking.told("ask", text="SELECT DP_COUNT(*, eps=0.1) FROM staff")
    now = time.monotonic() + 100
    monkeypatch.setattr(metrics, "time", SimpleNamespace(monotonic=lambda: now))
    status, text = asking.send("GET", "/metrics")
    assert status == 200
    assert 'dpquery_statements_total{call="sql",outcome="answered"} 1' in text
    assert 'dpquery_logins_total{outcome="admitted"} 1' in text
    assert "dpquery_workers 1" in text
    assert "dpquery_connections 1" in text
    names = (
        r'(?:# TYPE )?dpquery_[a-z_]+(\{(call="\w+",)?outcome="\w+"\})?( counter| gauge| \d+)'
    )
    assert [line for line in text.splitlines() if not re.fullmatch(names, line)] == []
    assert not re.search("alice|staff|second", text)
    asking.told("ask", text="SELECT DP_COUNT(*, eps=0.2) FROM staff")
    assert asking.send("GET", "/metrics") == (200, text), "a single statement is not seen"
    assert asking.send("GET", "/health") == (200, "ok\n")
    now += metrics.STEP
    assert asking.send("GET", "/metrics") != (200, text)


def test_where_answers_have_their_times_metrics_do_not_tell_who_works(server: Served):
    assert "workers_idle" in metrics.Metrics(server.service).text
    limits = server.service.policy.limits
    object.__setattr__(limits, "answer_times", 1)
    try:
        assert "workers_idle" not in metrics.Metrics(server.service).text
    finally:
        object.__setattr__(limits, "answer_times", None)


def shut(one: socket.socket) -> bool:
    """Read until the other side has closed; it may say something before."""
    try:
        while one.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"\x00\xff" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
def test_what_asks_nothing_is_shut_out(server: Served, monkeypatch, sent: bytes):
    monkeypatch.setattr("dpquery.server.web.api.SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as one:
        one.sendall(sent)
        assert shut(one)
    assert server.client().send("GET", "/health")[0] == 200


def test_no_more_connections_than_the_server_takes(tmp_path: Path):
    with served(policy_of_three(tmp_path), connections=3) as server:
        place = "127.0.0.1", server.port
        held = [socket.create_connection(place, timeout=10) for _ in range(3)]
        try:
            deadline = time.monotonic() + 10
            while server.service.clients < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            with socket.create_connection(place, timeout=10) as more:
                assert shut(more)
        finally:
            for one in held:
                one.close()


def test_passwords_do_not_leave_this_machine_in_the_open(tmp_path: Path):
    service = Service(Settings(policy_of_three(tmp_path)), log=lambda _: None)
    for host in ("0.0.0.0", "::"):
        with pytest.raises(ValueError, match="others could read what is said"):
            asyncio.run(WebDoor(service, host, 0).start())


def test_a_place_that_is_taken_and_a_certificate_that_is_none_are_told(
    server: Served, tmp_path: Path
):
    with pytest.raises(OSError, match="in use"):
        asyncio.run(WebDoor(server.service, "127.0.0.1", server.port).start())
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate", "utf-8")
    with pytest.raises(ssl.SSLError):
        asyncio.run(WebDoor(server.service, "127.0.0.1", 0, broken, broken).start())
    missing = tmp_path / "missing.pem"
    with pytest.raises(FileNotFoundError):
        asyncio.run(WebDoor(server.service, "127.0.0.1", 0, missing, missing).start())


def test_over_tls_the_cookie_is_for_tls_alone(tmp_path: Path, certificate: tuple[Path, Path]):
    with served(policy_of_three(tmp_path), *certificate) as server:
        asking = Asking(server.port, tls=ssl.create_default_context(cafile=certificate[0]))
        assert asking.log_in("alice")[0] == 200
        assert asking.cookie.startswith("__Host-dpquery=")
        assert "secure" in asking.set_cookie.lower()
        assert asking.headers["strict-transport-security"] == "max-age=31536000"
        assert asking.told("me")["name"] == "alice"
        with pytest.raises((OSError, ValueError)):
            Asking(server.port).told("me")


def test_a_hostile_text_is_not_searched_for_ever():
    began = time.process_time()
    for text in ("(" * 2000, ")" * 2000, "eps " * 500, "'" * 2000):
        for _ in zip(range(40), pasted(text, None, "eps"), strict=False):
            pass
    assert time.process_time() - began < 5
