"""`dpquery serve` as a process: answers, reads its policy anew, and ends in an orderly way."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from dpquery.server.users import Users
from tests.server.places import served

PASSWORD = "correct horse"


class Served:
    """A server that runs, and its log."""

    def __init__(self, place: Path) -> None:
        self.policy = served(place)
        Users.beside(self.policy).with_user("alice", PASSWORD, owner=False).write()
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = place / "log"
        listen = f":{self.port}"
        argv = [sys.executable, "-m", "dpquery", "serve", self.policy, "--listen", listen]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(argv, stderr=log)
        self.until("for psql")

    def until(self, said: str) -> None:
        """Wait for a line of the log."""
        for _ in range(600):
            if said in self.log.read_text("utf-8"):
                return
            assert self.process.poll() is None, self.log.read_text("utf-8")
            time.sleep(0.1)
        raise TimeoutError(self.log.read_text("utf-8"))

    def asked(self, text: str) -> list[tuple[object, ...]]:
        url = f"postgresql://alice@127.0.0.1:{self.port}/"
        with psycopg.connect(url, password=PASSWORD, autocommit=True) as connection:
            return connection.execute(text).fetchall()

    def events(self) -> list[str]:
        lines = [x for x in self.log.read_text("utf-8").splitlines() if x.startswith("{")]
        return [json.loads(line)["event"] for line in lines]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    running = Served(tmp_path)
    yield running
    running.process.kill()
    running.process.wait()


COLUMNS = "SELECT column_name FROM information_schema.columns WHERE table_name = 'staff'"


def test_a_policy_is_read_anew_and_a_broken_one_is_not_put_in_force(server: Served):
    count = "SELECT DP_COUNT(*, eps=0.1) AS n FROM staff"
    ((n,),) = server.asked(count)
    assert isinstance(n, int)
    text = server.policy.read_text("utf-8")
    server.policy.write_text(text + "\nnonsense = 1\n", "utf-8")
    server.process.send_signal(signal.SIGHUP)
    server.until("reload refused")
    assert server.asked(count) == [(n,)], "the old policy is in force"
    assert ("rating",) in server.asked(COLUMNS)
    lines = [line for line in text.splitlines() if not line.startswith("rating")]
    server.policy.write_text("\n".join(lines), "utf-8")
    server.process.send_signal(signal.SIGHUP)
    server.until('"reloaded"')
    for _ in range(100):
        if ("rating",) not in server.asked(COLUMNS):
            break
        time.sleep(0.1)
    assert ("rating",) not in server.asked(COLUMNS)
    with pytest.raises(psycopg.Error, match="there is no column 'rating'"):
        server.asked("SELECT DP_AVG(rating, eps=0.1) FROM staff")
    server.process.terminate()
    assert server.process.wait(30) == 0
    assert server.events()[-1] == "stopped"
    assert PASSWORD not in server.log.read_text("utf-8")
    assert "DP_AVG" not in server.log.read_text("utf-8")
