"""The rows of a ledger: one writer at a time, and rows that are only ever added.

The store makes rows durable and notices when they are not the rows it wrote; what a charge
may spend is decided above it, and which database holds them is settled below. It keeps the
durable half of I2: when `writing` has ended without a fault, its row is on disk, and below the
high-water mark if there is one.

Connections never cross a fork: locks belong to the process that took them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from dpquery.budget.accountant import ACCOUNTANTS
from dpquery.budget.ledger.attempts import Attempts
from dpquery.budget.ledger.charge_and_receipt import Account
from dpquery.budget.ledger.earlier_releases import Earlier
from dpquery.budget.ledger.hash_chain import Chain
from dpquery.budget.ledger.high_water import HighWater, Mark
from dpquery.budget.ledger.ledger_faults import UNKNOWN_FORMAT, forgetting, refused, rolled_back
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
    Database,
    LedgerTable,
)
from dpquery.errors import internal

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
