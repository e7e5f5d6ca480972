"""The rows of a ledger: one writer at a time, and rows that are only ever added.

The store makes rows durable and notices when they are not the rows it wrote; what a charge
may spend is decided above it, and which database holds them is settled below. It keeps the
durable half of I2: when `writing` has ended without a fault, its row is on disk, and below the
high-water mark if there is one.

Connections never cross a fork: locks belong to the process that took them.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import methodcaller
from pathlib import Path

from dpquery.budget.accountant import ACCOUNTANTS
from dpquery.budget.ledger.charge import Account, Opened
from dpquery.budget.ledger.errors import UNKNOWN_FORMAT, forgetting, refused, rolled_back
from dpquery.budget.ledger.high_water import HighWater, Mark
from dpquery.budget.ledger.record import Record, Totals, Wording
from dpquery.budget.ledger.tables import (
    ANSWERS,
    ATTEMPTS,
    BOUNDS,
    CHARGES,
    EARLIER,
    FORMAT,
    REFINED,
    SHORT,
    STATES,
    Chain,
    Database,
    Earlier,
    LedgerTable,
)
from dpquery.errors import internal

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


_TOTALS = """
    SELECT (SELECT totals FROM charges ORDER BY sequence DESC LIMIT 1),
           (SELECT totals FROM charges WHERE analyst = ? ORDER BY sequence DESC LIMIT 1),
           (SELECT totals FROM charges WHERE session = ? ORDER BY sequence DESC LIMIT 1)
"""


class Store:
    """An open ledger.

    What SQLite and the file system raise passes through its methods: the ledger names it.
    """

    def __init__(self, database: Database, mark: HighWater | None) -> None:
        self._database = database
        self._mark = mark
        self._process = os.getpid()
        self._open = True
        self._seen: Mark  # the last row of the history that this session has read
        with database.locked():
            try:
                database.open(marked=mark.path if mark and mark.read() else None)
                self._require_sound()
            except BaseException:
                self.close()
                raise

    @property
    def path(self) -> Path | str | None:
        """Where the ledger is, for messages; None in memory."""
        return self._database.path

    def close(self) -> None:
        """Disconnect; a forked child leaves it to the process that connected."""
        if self._open and self._process == os.getpid():
            self._database.close()
        self._open = False

    @property
    def database(self) -> Database:
        """What holds the rows, while it may be used."""
        if self._process != os.getpid():
            raise internal("a ledger is not carried over a fork")
        if not self._open:
            raise internal("a closed ledger is not used")
        return self._database

    def totals(self, account: Account) -> Totals:
        """Return what is spent: by everyone, by this analyst, in this session."""
        row = self.database.execute(_TOTALS, (account.analyst, account.session)).fetchone()
        read = {text: Totals.read(text) if text else Totals() for text in set(row)}
        policy, analyst, session = (read[text] for text in row)
        return Totals(policy.policy, analyst.analyst, session.session)

    def records(self, where: str = "1 = 1", *values: object) -> Iterator[Record]:
        """Return charges and orders, oldest first, from one snapshot."""
        some = f"SELECT * FROM charges WHERE {where} ORDER BY sequence"  # noqa: S608 - ours
        return (Record(*row[:-1]) for row in self.database.execute(some, values))

    def whole_records(self) -> Iterator[Record]:
        """Return all of them, each held against its hash."""
        return map(Record._make, self.charges.rows())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Have the ledger alone; what is appended is durable when this ends.

        What was decided over `last` stays true: the next is never one of an earlier copy.
        """
        database = self.database
        with database.locked():
            with database.transaction():
                self.require_not_rolled_back()
                if self._hash_at(self._seen.sequence) != self._seen.hash:
                    raise rolled_back(self.path, "this session, which has seen more of it")
                self._newest = self._seen = self._head()
                yield
            if self._newest != self._seen:
                database.settle()
            self._seen = self._newest
            self._raise_mark()

    @property
    def last(self) -> int:
        """The sequence that the next row comes after; within `writing`."""
        return self._newest.sequence

    def append(self, account: Account, wording: Wording, totals: Totals) -> None:
        """Add a charge or an order; only within `writing`."""
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        who = account.analyst, account.session
        row = wording.id, at, *who, wording.query, wording.events, totals.text()
        self.charges.append([row])
        self._newest = self._head()

    def _require_sound(self) -> None:
        """Check what may be spent by, but for older hashes and totals.

        These, and what was released, are for `Ledger.verify`.
        """
        with self.database.transaction():
            meta = dict(self.database.execute("SELECT key, value FROM meta"))
            if meta.get("format") != FORMAT or meta.get("accountant") not in ACCOUNTANTS:
                raise refused(self.path, *UNKNOWN_FORMAT)
            self.id: str = meta["id"]
            self.secret: str = meta["secret"]
            self.accountant = ACCOUNTANTS[meta["accountant"]]
            self.charges = self._chain(CHARGES)
            self.bounds = self._chain(BOUNDS)
            self.answers = self._chain(ANSWERS)
            self.earlier = Earlier(self._chain(EARLIER), self._chain(REFINED))
            self.states = self._chain(STATES)
            self.attempts = Attempts(self._chain(ATTEMPTS))
            self.database.require_whole(SHORT)
            self.require_not_rolled_back()
            self.charges.newest()  # is held against its hash
            self._seen = self._newest = self._head()
            # It changes nothing, and finds a read-only file: SQLite begins a transaction there.
            self.database.execute("UPDATE meta SET value = value WHERE key = 'format'")
        self.database.settle()
        self._raise_mark()

    def _chain(self, table: LedgerTable) -> Chain:
        return Chain(table, lambda: self.database, self.id)

    def require_not_rolled_back(self) -> None:
        """Refuse an earlier copy, and a history that the mark does not belong to."""
        mark = self._mark.read() if self._mark else None
        if mark is None or self._mark is None:
            return
        if mark.ledger != self.id:
            raise refused(
                self.path,
                "the ledger is not the one that its high-water mark belongs to",
                "another ledger would give back everything that this one's predecessor spent.",
                "bring back the ledger that the mark was written for",
                forgetting(self._mark.path),
            )
        if self._hash_at(mark.sequence) != mark.hash:
            raise rolled_back(self.path, "its high-water mark", self._mark.path)

    def _raise_mark(self) -> None:
        """Bring the mark up to the last row; under the lock, so that it never goes back."""
        if self._mark is None or (self._mark.usual and not self._seen.sequence):
            return  # nobody is surprised that a ledger begins anew where nothing was charged
        if self._mark.read() != self._seen:
            self._mark.write(self._seen)

    def _head(self) -> Mark:
        return Mark(self.id, *self.charges.head())

    def _hash_at(self, sequence: int) -> str | None:
        if sequence == 0:
            return self.id
        query = "SELECT hash FROM charges WHERE sequence = ?"
        row = self.database.execute(query, (sequence,)).fetchone()
        return str(row[0]) if row else None
