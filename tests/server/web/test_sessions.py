"""Logins end: by time, by a new password, and where there are too many."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from dpquery.server.service import Client, Service, Settings
from dpquery.server.web import logins as module
from dpquery.server.web.logins import IDLE, LONGEST, MOST_LOGINS, MOST_REQUESTS, Busy, Sessions
from dpquery.server.worker_pool import Ticket
from tests.server.web.serving import password_of, policy_of_three


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(Settings(policy_of_three(tmp_path)), log=lambda _: None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_login_ends_where_nobody_uses_it(service: Service, clock: list[float]):
    sessions = Sessions(service)
    token = sessions.open(Client("alice"))
    clock[0] += IDLE
    assert sessions.find(token) is not None
    clock[0] += IDLE
    assert sessions.find(token) is not None
    clock[0] += IDLE + 1
    assert sessions.find(token) is None
    clock[0] = 1000.0
    assert sessions.find(token) is None


def test_a_statement_that_runs_keeps_its_login(service: Service, clock: list[float]):
    sessions = Sessions(service)
    token = sessions.open(Client("alice"))
    login = sessions.find(token)
    assert login is not None
    login.ticket = Ticket()
    clock[0] += IDLE + 1
    assert sessions.find(token) is login
    sessions.close(token)
    assert login.ticket.stopped.is_set()


def test_every_login_ends(service: Service, clock: list[float]):
    sessions = Sessions(service)
    token = sessions.open(Client("alice"))
    until = clock[0] + LONGEST
    while clock[0] + IDLE < until:
        clock[0] += IDLE
        assert sessions.find(token) is not None
    clock[0] = until + 1
    assert sessions.find(token) is None


def test_a_new_password_a_removal_and_another_role_hold_at_once(service: Service):
    sessions = Sessions(service)
    token = sessions.open(Client("alice"))
    other = sessions.open(Client("bob"))
    service.users.with_user("bob", password_of("bob"), owner=True).write()
    assert sessions.find(other) is None, "it is another verifier"
    other = sessions.open(Client("bob"))
    login = sessions.find(other)
    assert login is not None
    assert login.client.owner
    service.users.with_user("alice", "another-password", owner=False).write()
    assert sessions.find(token) is None
    assert sessions.find(other) is login
    service.users.without("bob").write()
    assert sessions.find(other) is None


def test_the_oldest_of_too_many_logins_ends(service: Service):
    sessions = Sessions(service)
    bob = sessions.open(Client("bob"))
    tokens = [sessions.open(Client("alice")) for _ in range(MOST_LOGINS + 2)]
    assert len(set(tokens)) == len(tokens)
    assert [sessions.find(token) is None for token in tokens[:3]] == [True, True, False]
    assert sessions.find(bob) is not None


def test_requests_of_one_name_are_limited(service: Service):
    sessions = Sessions(service)
    entered = [sessions.entered("alice") for _ in range(MOST_REQUESTS)]
    for one in entered:
        one.__enter__()
    with pytest.raises(Busy), sessions.entered("alice"):
        pass
    with sessions.entered("bob"):
        pass
    entered.pop().__exit__(None, None, None)
    with sessions.entered("alice"):
        pass
