"""Statements that read private rows, from the charge until they have drawn: failures count.

Whether a statement fails can depend on one unit's rows, and nobody is charged for what a
failure tells. So failures are rationed: after a number of them within a day, the analyst is
frozen until the data owner thaws.

An attempt is open from the moment of its charge, in the same transaction, and is closed when
what was drawn is stored. A process that dies between leaves it open, and dying is a failure
like others. As many attempts of an analyst may be open as may still fail: each could.

Each row of the table holds all that an analyst has open after it, as each charge holds the
totals after it; the newest is all that is read.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from dpquery.budget.chain import Chain
from dpquery.budget.charge import Opened
from dpquery.budget.process import identity, is_gone

__all__ = ["WINDOW", "Attempt", "Attempts", "Open"]

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
    """Which process it is in, by `process.identity`."""
    failed: bool = False

    def has_failed(self, now: datetime) -> bool:
        """Say whether it counts: it failed, its process is gone, or its time is over."""
        return self.failed or now > self.until or is_gone(self.process)


@dataclass(frozen=True, slots=True)
class Open:
    """What one analyst has under way, and what failed within the window."""

    attempts: tuple[Attempt, ...] = ()

    def failures(self, now: datetime) -> int:
        """Count what has failed."""
        return sum(attempt.has_failed(now) for attempt in self.attempts)

    def within(self, now: datetime) -> Open:
        """Drop what began before the window."""
        return self._only(lambda attempt: now - attempt.at < WINDOW)

    def forgiven(self, now: datetime) -> Open:
        """Drop what has failed so far, and keep what is under way."""
        return self._only(lambda attempt: not attempt.has_failed(now))

    def plus(self, attempt: Attempt) -> Open:
        """Open one more."""
        return Open((*self.attempts, attempt))

    def without(self, identity: str) -> Open:
        """Close an attempt that did not fail."""
        return self._only(lambda attempt: attempt.id != identity)

    def failing(self, identity: str) -> Open:
        """Mark an attempt as failed."""
        return Open(
            tuple(replace(a, failed=a.failed or a.id == identity) for a in self.attempts)
        )

    def _only(self, kept: Callable[[Attempt], bool]) -> Open:
        return Open(tuple(filter(kept, self.attempts)))

    def text(self) -> str:
        """Write all attempts."""
        listed = [
            [a.id, a.at.isoformat(), a.until.isoformat(), a.process, a.failed]
            for a in self.attempts
        ]
        return json.dumps(listed, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Open:
        """Read what `text` wrote.

        Raises:
            ValueError: the text is something else.
        """
        return cls(tuple(map(_attempt, json.loads(text))))


def _attempt(part: object) -> Attempt:
    match part:
        case [str(identity), str(at), str(until), str(process), bool(failed)]:
            times = datetime.fromisoformat(at), datetime.fromisoformat(until)
            return Attempt(identity, *times, process, failed)
    raise ValueError("not the attempts of a ledger")


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts in an open ledger; rows are added within `Store.writing`."""

    chain: Chain

    def analysts(self) -> Sequence[str]:
        """Name everybody who ever had one open."""
        named = "SELECT DISTINCT analyst FROM attempts ORDER BY analyst"
        return [str(analyst) for (analyst,) in self.chain.connection().execute(named)]

    def number(self, analyst: str) -> int:
        """Return how many an analyst has open, those that failed among them."""
        return len(self._now(analyst)[1].attempts)

    def failures(self, analyst: str) -> int:
        """Return how many statements of an analyst count as failed."""
        now, still = self._now(analyst)
        return still.failures(now)

    def begin(self, analyst: str, most: int, time: timedelta) -> Opened:
        """Open one of an analyst who may fail so often; after so long it has surely ended."""
        opened = Opened(secrets.token_hex(8), analyst, most)
        now, still = self._now(analyst)
        attempt = Attempt(opened.id, now, now + time, identity())
        self._put(analyst, now, "begun", still.plus(attempt))
        return opened

    def close(self, opened: Opened, how: str) -> None:
        """Close one that did not fail."""
        now, still = self._now(opened.analyst)
        self._put(opened.analyst, now, how, still.without(opened.id))

    def fail(self, opened: Opened) -> int:
        """Mark one as failed, and return how many have."""
        now, still = self._now(opened.analyst)
        still = still.failing(opened.id)
        self._put(opened.analyst, now, "failed", still)
        return still.failures(now)

    def forgive(self, analyst: str) -> bool:
        """Drop what has failed so far; say whether anything had."""
        now, still = self._now(analyst)
        if not still.failures(now):
            return False
        self._put(analyst, now, "forgiven", still.forgiven(now))
        return True

    def _now(self, analyst: str) -> tuple[datetime, Open]:
        """Return the time and what an analyst has open; a clock set back forgives nothing.

        Raises:
            ValueError: the row is not the one that was written.
        """
        last = self.chain.found("1 = 1 ORDER BY sequence DESC LIMIT 1", ())
        now = max([datetime.now(UTC), *(datetime.fromisoformat(row[2]) for row in last)])
        own = self.chain.found("analyst = ? ORDER BY sequence DESC LIMIT 1", (analyst,))
        return now, (Open.read(own[0][-1]) if own else Open()).within(now)

    def _put(self, analyst: str, now: datetime, how: str, still: Open) -> None:
        """Add what an analyst has open from now on, and how that came."""
        self.chain.append([(analyst, now.isoformat(), how, still.text())])
