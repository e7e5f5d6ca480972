"""What every door of the server does: let analysts in, and have their statements answered."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from dpquery.errors import DPQueryError
from dpquery.policy.load import load_policy
from dpquery.policy.model import External, Policy
from dpquery.server.frames import CALLS, OWNER_CALLS, Fault, Reply, Request
from dpquery.server.pool import Pool, Ticket, WorkerSettings
from dpquery.server.scram import Verifier
from dpquery.server.users import LONGEST, User, Users, analysts_of

LOGIN_SECONDS = 30
"""How long a login may take."""
PAUSE = 1.0
"""Seconds until a wrong password is told of."""
MOST_WRONG = 10
"""Wrong passwords in a row, of one name from one place, until a pause of a minute."""
MOST_WRONG_HERE = 100
"""Wrong passwords of all names from one place, until nobody logs in from there for as long."""
LOCKED = 60.0
FORGOTTEN = 600.0
"""Seconds after the last wrong password until those before it count no more."""
MOST_COUNTED = 10_000
"""Of names and places; the ones that were wrong longest ago are dropped first."""
SLOWER = 30.0
"""Seconds beyond the policy's limit of a scan that a statement may take in all."""
_READ_THEN = "analysts that the policy lists since the server began are known from SIGHUP on."


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is run."""

    policy: Path
    workers: int = 2
    memory: int = 6 << 30
    """Bytes of addresses of one worker."""
    connections: int = 2000
    """At all doors together."""
    statements: int = 100
    """That may wait or run at once."""


@dataclass(slots=True)
class Client:
    """Somebody who has logged in, at one connection."""

    name: str
    owner: bool = False
    door: str = ""
    session: str | None = None
    """What their session came to; the workers alone read it."""
    refresh: bool = False
    """Whether each statement is asked anew."""


@dataclass(slots=True)
class _Wrong:
    count: int = 0
    until: float = 0.0
    last: float = 0.0


_Guesser: TypeAlias = tuple[str | None, str]
"""A name and a place, or a place alone."""


class Service:
    """One policy, served."""

    def __init__(self, settings: Settings, log: Callable[[str], None] | None = None) -> None:
        self.settings = settings
        self.policy: Policy = load_policy(settings.policy)
        self._users = Users.beside(settings.policy)
        self._unfit = ""
        """Why the file of users is not read as it is now, as the log has it."""
        self.metrics: Counter[tuple[str, str]] = Counter()
        """How often something happened, and how it ended."""
        self._log = log or _to_standard_error
        self._pool = self._new_pool()
        self._retiring: set[asyncio.Task[None]] = set()
        self._wrong: dict[_Guesser, _Wrong] = {}
        """By name and place, and by place; the last that was wrong comes last."""
        self._seen: dict[_Guesser, None] = {}
        """Who has logged in, and from where: what others guess there does not lock them out."""
        self._secret = secrets.token_bytes(32)
        self._running: Counter[str] = Counter()
        """Statements that wait or run, by who asks."""
        self.clients = 0
        """Connections that are open."""

    @property
    def users(self) -> Users:
        """Who may log in: as the file says now, or as it said while it was in order."""
        unfit = ""
        if self._users.outdated():
            try:
                self._users = Users.beside(self.settings.policy)
            except DPQueryError as error:
                unfit = str(error)
                if unfit != self._unfit:
                    self.log("users refused", reason=unfit)
        self._unfit = unfit
        return self._users

    def _new_pool(self) -> Pool:
        seconds = self.policy.limits.seconds + SLOWER
        told = WorkerSettings(
            str(self.settings.policy), seconds, self.settings.memory, networked(self.policy)
        )
        return Pool(told, self.settings.workers, lambda what: self.log("worker", what=what))

    async def start(self) -> Fault | None:
        """Start the workers; return why they cannot be."""
        fault = await self._pool.start()
        if fault is None:
            shut = {"confined": self._pool.confined, "unplugged": self._pool.unplugged}
            self.log("started", policy=self.settings.policy.name, **shut)
        return fault

    async def reload(self) -> bool:
        """Read the policy anew; one that cannot be served leaves the old one in force.

        Returns:
            Whether the new one is in force.
        """
        try:
            policy = load_policy(self.settings.policy)
        except DPQueryError as error:
            self.log("reload refused", reason=str(error))
            return False
        old_policy, self.policy = self.policy, policy
        pool = self._new_pool()
        fault = await pool.start()
        if fault is not None:
            self.policy = old_policy
            await pool.close()
            self.log("reload refused", reason=fault.text)
            return False
        old, self._pool = self._pool, pool
        self.log("reloaded", policy=self.settings.policy.name)
        retiring = asyncio.create_task(old.retire())
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)
        return True

    async def close(self) -> None:
        """End the workers."""
        await self._pool.close()
        self.log("stopped")

    # Logins: a name that nobody has is asked for a password like any other.

    def verifier(self, name: str) -> Verifier:
        """Return what a login is held against."""
        user = self.users.known.get(name)
        secret = self._users.secret or self._secret
        return Verifier.of_nobody(name, secret) if user is None else user.verifier

    def require_unlocked(self, name: str, place: str) -> bool:
        """Return whether a name may try to log in from a place."""
        own, here = _counted(name, place)
        counted = (own,) if own in self._seen else (own, here)
        now = time.monotonic()
        return all(
            wrong is None or wrong.until <= now for wrong in map(self._wrong.get, counted)
        )

    async def refused(self, name: str, place: str) -> None:
        """Count a wrong password, and take time over it."""
        for who, most in zip(_counted(name, place), (MOST_WRONG, MOST_WRONG_HERE), strict=True):
            self._count(who, most)
        self.metrics["login", "refused"] += 1
        self.log("login refused", name=name[:LONGEST], place=place)
        await asyncio.sleep(PAUSE)

    def _count(self, who: _Guesser, most: int) -> None:
        now, counted = time.monotonic(), self._wrong
        wrong = counted.pop(who, None)
        if wrong is None or wrong.last + FORGOTTEN < now:
            wrong = _Wrong()
        wrong.count, wrong.last = wrong.count + 1, now
        if wrong.count % most == 0:
            wrong.until = now + LOCKED
        counted[who] = wrong
        while len(counted) > MOST_COUNTED:
            del counted[next(iter(counted))]

    def admitted(self, name: str, place: str, door: str) -> Client | None:
        """Let somebody in whose password was right; None where they are no user any more."""
        user: User | None = self.users.known.get(name)
        if user is None:
            return None
        own, _ = _counted(name, place)
        self._wrong.pop(own, None)
        self._seen[own] = None
        while len(self._seen) > MOST_COUNTED:
            del self._seen[next(iter(self._seen))]
        self.metrics["login", "admitted"] += 1
        self.log("login", name=name, place=place, door=door)
        return Client(name, user.owner, door)

    def knows(self, client: Client) -> bool:
        """Return whether who logged in is still a user: who was removed is answered nothing."""
        return client.name in self.users.known

    # Statements.

    async def ask(
        self,
        client: Client,
        do: str,
        arguments: dict[str, Any] | None = None,
        *,
        whole: bool | str = False,
        ticket: Ticket | None = None,
    ) -> Reply:
        """Have something done for a client; whatever happens, a reply comes.

        Args:
            client: who asks; what their session comes to is kept there.
            do: one of `CALLS`; of an owner, also one of `OWNER_CALLS`.
            arguments: what the call takes.
            whole: whether the value is wanted as `wire` writes it, in place of its rows; or
                "page" or "rows", in a form that the page shows.
            ticket: by which it can be stopped.
        """
        user = self.users.known.get(client.name)
        if user is None:
            return _refusal("28000", "this user was removed")
        if do not in CALLS | OWNER_CALLS:
            return _refusal("42883", "there is no such call")
        if do in OWNER_CALLS and not user.owner:
            return _refusal("42501", "this is for the data owner alone")
        if do not in OWNER_CALLS and not self.is_analyst(client.name):
            asks = "a data owner who" if user.owner else "who"
            return _refusal(
                "42501", f"{asks} is no analyst of the policy asks no data", _READ_THEN
            )
        running, most = self._running, self.settings.statements
        if running.total() >= most or running[client.name] >= max(1, most // 2):
            return _refusal("53300", "too many statements wait; ask again later")
        running[client.name] += 1
        began = time.monotonic()
        try:
            request = Request(do, client.name, client.session, arguments, whole)
            reply = await self._asked(request, ticket, began)
        finally:
            running[client.name] -= 1
        if reply.session is not None:
            client.session = reply.session
        await self._leave(began)
        self.metrics[do, reply.ended] += 1
        fault = reply.fault.code if reply.fault else None
        who = {"name": client.name, "door": client.door}
        self.log("statement", **who, do=do, ended=reply.ended, code=fault)
        return reply

    async def _asked(self, request: Request, ticket: Ticket | None, began: float) -> Reply:
        """Have a request answered; it is stopped on the grid of times, where there is one.

        Whether it had ended by the moment that an analyst chose would tell of time otherwise.
        """
        if ticket is None or self.policy.limits.answer_times is None:
            return await self._pool.ask(request, ticket)
        later = Ticket()

        async def pass_on() -> None:
            await ticket.stopped.wait()
            await self._leave(began)
            later.stop()

        passing = asyncio.create_task(pass_on())
        try:
            return await self._pool.ask(request, later)
        finally:
            passing.cancel()

    def is_analyst(self, name: str) -> bool:
        """Return whether a user has a budget to ask from."""
        return name in analysts_of(self.policy)

    @property
    def workers(self) -> tuple[int, int]:
        """Return how many workers there are, and how many of them wait."""
        return self._pool.size, self._pool.idle

    async def _leave(self, began: float) -> None:
        """Have replies leave on a grid of times, where the policy has one."""
        step = self.policy.limits.answer_times
        if step is not None:
            taken = time.monotonic() - began
            await asyncio.sleep(float(-taken % step))

    def log(self, event: str, **facts: object) -> None:
        """Write a line of the log: it tells of no data, and of no statement over tables."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._log(json.dumps({"at": at, "event": event, **facts}))


def _counted(name: str, place: str) -> tuple[_Guesser, _Guesser]:
    """Return for what a wrong password counts."""
    return (name[:LONGEST], place), (None, network_of(place))


def network_of(place: str) -> str:
    """Return what one guesser has of addresses: of IPv6, 2^64 of them.

    >>> network_of("192.0.2.1"), network_of("2001:db8::7"), network_of("elsewhere")
    ('192.0.2.1', '2001:db8::/64', 'elsewhere')
    """
    with suppress(ValueError):
        address = ipaddress.ip_address(place.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and not address.ipv4_mapped:
            return str(ipaddress.ip_network((address, 64), strict=False))
    return place


def networked(policy: Policy) -> bool:
    """Return whether the policy names something on another machine."""
    sources = [one.source for table in policy.tables.values() for one in table.way]
    remote = any("://" in one.place for one in sources if isinstance(one, External))
    return remote or policy.ledger.server is not None


def _refusal(sqlstate: str, text: str, why: str = "") -> Reply:
    return Reply("refused", fault=Fault("", sqlstate, text, text, why=why))


def _to_standard_error(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
