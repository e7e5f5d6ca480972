"""Statements under way or failed, and the processes they are in: failures are rationed."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import methodcaller
from pathlib import Path

from dpquery.budget.ledger.charge_and_receipt import Opened
from dpquery.budget.ledger.hash_chain import Chain

# Which process this is, so that another one on the same machine can tell that it is gone. Linux
# says so by numbers that hold until the next start of the machine, in one namespace of
# processes. Of a process of another machine, or another system, nothing is known.

_PROC = Path("/proc")
_ENDED = ("Z", "X")
"""States of a process that runs no more, and whose parent has not looked yet."""


def this_process() -> str:
    """Return a name of this process; an empty one where the system gives none."""
    return _named(os.getpid())


@lru_cache(maxsize=1)
def _named(number: int) -> str:
    machine, state = _machine(number), _state(number)
    return f"{machine} {number} {state[1]}" if machine and state else ""


def is_gone(process: str) -> bool:
    """Return whether a named process has surely ended; of one elsewhere it is not known."""
    machine, _, known = process.rpartition(" ")
    machine, _, number = machine.rpartition(" ")
    if not machine or machine != _machine(os.getpid()):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is somebody else's, and there
        pass
    state = _state(int(number))
    return state is not None and (state[0] in _ENDED or state[1] != known)


@lru_cache(maxsize=1)
def _machine(_: int) -> str:
    """Return which start of which machine this is, and which namespace of its processes."""
    try:
        start = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{start} {os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return ""


def _state(number: int) -> tuple[str, str] | None:
    """Return what a process does, and when it was started; None where that is not told."""
    try:
        fields = (_PROC / str(number) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return fields[0], fields[19]


WINDOW = timedelta(hours=24)
"""How long a failure counts, from the moment of the charge."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A statement that has not drawn yet, or that failed."""

    id: str
    at: datetime
    until: datetime
    """When it has surely ended."""
    process: str
    """Which process it is in, by `this_process`."""
    failed: bool = False

    def has_failed(self, now: datetime) -> bool:
        """Return whether it counts: it failed, its process is gone, or its time is over."""
        return self.failed or now > self.until or is_gone(self.process)


def encode_attempts(attempts: Iterable[Attempt]) -> str:
    """Write what one analyst has under way, and what failed within the window."""
    listed = list(map(astuple, attempts))
    return json.dumps(listed, separators=(",", ":"), default=methodcaller("isoformat"))


def decode_attempts(text: str) -> list[Attempt]:
    """Read what `encode_attempts` wrote; another text is a ValueError."""
    return [_attempt(part) for part in json.loads(text)]


def _attempt(part: object) -> Attempt:
    match part:
        case [str(identity), str(at), str(until), str(process), bool(failed)]:
            times = datetime.fromisoformat(at), datetime.fromisoformat(until)
            return Attempt(identity, *times, process, failed)
    raise ValueError("not the attempts of a ledger")


@dataclass(frozen=True, slots=True)
class Attempts:
    """Statements that read private rows, from the charge until they have drawn.

    Whether a statement fails can depend on one unit's rows, and nobody is charged for what a
    failure tells. So failures are rationed: after a number of them within a day, the analyst is
    frozen until the data owner thaws.

    An attempt is open from the moment of its charge, in the same transaction, and is closed
    when what was drawn is stored. A process that dies between leaves it open, and dying is a
    failure like others. As many attempts of an analyst may be open as may still fail: each
    could. Each row of the table holds all that an analyst has open after it, as each charge
    holds the totals after it; the newest is all that is read.
    """

    chain: Chain

    def analysts(self) -> Sequence[str]:
        """Name everybody who ever had one open."""
        named = "SELECT DISTINCT analyst FROM attempts ORDER BY analyst"
        return [str(analyst) for (analyst,) in self.chain.database().execute(named)]

    def open(self, analyst: str) -> list[Attempt]:
        """Return those of an analyst, those that failed among them."""
        return self._now(analyst)[1]

    def failures(self, analyst: str) -> int:
        """Return how many statements of an analyst count as failed."""
        return _failures(*self._now(analyst))

    def begin(self, analyst: str, time: timedelta) -> Opened:
        """Open one of an analyst; after so long it has surely ended."""
        opened = Opened(secrets.token_hex(8), analyst)
        now, still = self._now(analyst)
        attempt = Attempt(opened.id, now, now + time, this_process())
        self._put(analyst, now, "begun", [*still, attempt])
        return opened

    def close(self, opened: Opened, how: str) -> None:
        """Close one that did not fail."""
        now, still = self._now(opened.analyst)
        self._put(opened.analyst, now, how, [a for a in still if a.id != opened.id])

    def fail(self, opened: Opened) -> int:
        """Mark one as failed, and return how many have."""
        now, still = self._now(opened.analyst)
        still = [replace(a, failed=a.failed or a.id == opened.id) for a in still]
        self._put(opened.analyst, now, "failed", still)
        return _failures(now, still)

    def forgive(self, analyst: str) -> bool:
        """Drop what has failed so far; say whether anything had."""
        now, still = self._now(analyst)
        if not _failures(now, still):
            return False
        self._put(analyst, now, "forgiven", [a for a in still if not a.has_failed(now)])
        return True

    def _now(self, analyst: str) -> tuple[datetime, list[Attempt]]:
        """Return the time and what is within the window; a clock set back forgives nothing."""
        now, last = datetime.now(UTC), self.chain.newest()
        if last is not None:
            now = max(now, datetime.fromisoformat(last[2]))
        own = self.chain.newest(analyst=analyst)
        attempts = [] if own is None else decode_attempts(own[-1])
        return now, [attempt for attempt in attempts if now - attempt.at < WINDOW]

    def _put(self, analyst: str, now: datetime, how: str, still: Iterable[Attempt]) -> None:
        """Add what an analyst has open from now on, and how that came."""
        self.chain.append([(analyst, now.isoformat(), how, encode_attempts(still))])


def _failures(now: datetime, attempts: Iterable[Attempt]) -> int:
    return sum(attempt.has_failed(now) for attempt in attempts)
