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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from dpquery.budget.chain import Chain
from dpquery.budget.process import is_gone

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

    def of(self, analyst: str) -> Open:
        """Give what an analyst has open.

        Raises:
            ValueError: the row is not the one that was written.
        """
        rows = self.chain.found("analyst = ? ORDER BY sequence DESC LIMIT 1", (analyst,))
        return Open.read(rows[0][-1]) if rows else Open()

    def analysts(self) -> Sequence[str]:
        """Name everybody who ever had one open."""
        named = "SELECT DISTINCT analyst FROM attempts ORDER BY analyst"
        return [str(analyst) for (analyst,) in self.chain.connection().execute(named)]

    def now(self) -> datetime:
        """Give the time, which no ledger sees go back: a clock that does forgives nothing."""
        rows = self.chain.found("1 = 1 ORDER BY sequence DESC LIMIT 1", ())
        clock = datetime.now(UTC)
        return max([clock, *(datetime.fromisoformat(row[2]) for row in rows)])

    def put(self, analyst: str, now: datetime, how: str, still: Open) -> None:
        """Add what an analyst has open from now on, and how that came."""
        self.chain.append([(analyst, now.isoformat(), how, still.text())])
