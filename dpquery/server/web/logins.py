"""Who is logged in at the page: a secret in a cookie, until it expires."""

from __future__ import annotations

import secrets
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dpquery.editing.completion import Known
from dpquery.server.scram import Verifier
from dpquery.server.service import Client, Service
from dpquery.server.worker_pool import Ticket

IDLE = 30 * 60.0
"""Seconds after which a login nobody uses ends."""
LONGEST = 12 * 3600.0
"""Seconds after which every login ends."""
MOST_LOGINS = 8
"""Of one name at once; the oldest ends where there are more."""
MOST_REQUESTS = 6
"""Of one name at once."""
REMEMBERED = 50
"""Statements of a login."""


@dataclass(slots=True)
class Login:
    """One browser that has logged in."""

    client: Client
    verifier: Verifier
    began: datetime
    until: float
    used: float
    ticket: Ticket | None = None
    """Of the statement that runs."""
    eps: str = ""
    """What each statement may spend, as it was set."""
    known: Known | None = None
    """What completion offers."""
    asked: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """What it has asked, the newest last."""


class Busy(Exception):
    """As many requests of one name are under way as may be."""


class Sessions:
    """The logins of a page."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._logins: dict[str, Login] = {}
        self._running: Counter[str] = Counter()

    def open(self, client: Client) -> str:
        """Begin a login, and return the secret by which it is known."""
        now, known = time.monotonic(), self._service.users.known
        self._logins = {k: one for k, one in self._logins.items() if self._holds(one)}
        own = [token for token, one in self._logins.items() if one.client.name == client.name]
        for token in own[: max(0, len(own) - MOST_LOGINS + 1)]:
            self.close(token)
        token = secrets.token_urlsafe(32)
        verifier = known[client.name].verifier
        self._logins[token] = Login(client, verifier, datetime.now(UTC), now + LONGEST, now)
        return token

    def find(self, token: str) -> Login | None:
        """Return who has a secret; None where nobody has, or has it any more."""
        login = self._logins.get(token)
        if login is None:
            return None
        if not self._holds(login):
            self.close(token)
            return None
        login.used = time.monotonic()
        return login

    def _holds(self, login: Login) -> bool:
        """Return whether a login goes on: a new password ends those by the old one."""
        user, now = self._service.users.known.get(login.client.name), time.monotonic()
        if user is None or user.verifier != login.verifier:
            return False
        login.client.owner = user.owner
        idle = login.ticket is None and now > login.used + IDLE
        return not idle and now <= login.until

    def close(self, token: str) -> None:
        """End a login; what it runs is stopped."""
        login = self._logins.pop(token, None)
        if login is not None and login.ticket is not None:
            login.ticket.stop()

    @contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """Count a request of a name.

        Raises:
            Busy: there are as many as may be.
        """
        if self._running[name] >= MOST_REQUESTS:
            raise Busy
        self._running[name] += 1
        try:
            yield
        finally:
            self._running[name] -= 1
            if not self._running[name]:
                del self._running[name]
