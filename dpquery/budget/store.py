"""The rows of a ledger: one writer at a time, and rows that are only ever added.

The store makes rows durable and notices when they are not the rows it wrote; what a charge
may spend is decided above it, and which database holds them is settled below. It keeps the
durable half of I2: when `writing` has ended without a fault, its row is on disk, and below the
high-water mark if there is one.

Connections never cross a fork: locks belong to the process that took them.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from dpquery.budget.accountant import ACCOUNTANTS
from dpquery.budget.answers import Answers
from dpquery.budget.attempts import Attempts
from dpquery.budget.chain import Chain
from dpquery.budget.charge import Account
from dpquery.budget.database import Database
from dpquery.budget.earlier import Earlier
from dpquery.budget.faults import (
    damaged,
    forgetting,
    outdated,
    refused,
    rolled_back,
    unknown_format,
)
from dpquery.budget.high_water import HighWater, Mark
from dpquery.budget.kept import KeptBounds
from dpquery.budget.record import Record, Totals
from dpquery.budget.schema import (
    ANSWERS,
    ATTEMPTS,
    BOUNDS,
    EARLIER,
    REFINED,
    STATES,
    Table,
)
from dpquery.budget.states import States
from dpquery.errors import internal

__all__ = ["Store", "first_meta"]

_FORMAT = "6"
"""2: totals have a rho, and there are events of bounded range. 3: orders stand among
charges, so that a version which would not obey them opens no such ledger. 4: charges can be
on some parts of the units, and totals have these. 5: a unit can have several parts. 6: an
analyst can be suspended."""

_TOTALS = """
    SELECT (SELECT totals FROM charges ORDER BY sequence DESC LIMIT 1),
           (SELECT totals FROM charges WHERE analyst = ? ORDER BY sequence DESC LIMIT 1),
           (SELECT totals FROM charges WHERE session = ? ORDER BY sequence DESC LIMIT 1)
"""

_NEXT_HEAD = """
    SELECT sequence, hash, (SELECT hash FROM charges WHERE sequence = ?)
    FROM charges ORDER BY sequence DESC LIMIT 1
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
    def _sql(self) -> Database:
        if self._process != os.getpid():
            raise internal("a ledger is not carried over a fork")
        if not self._open:
            raise internal("a closed ledger is not used")
        return self._database

    def totals(self, account: Account) -> Totals:
        """Give what is spent: by everyone, by this analyst, in this session."""
        row = self._sql.execute(_TOTALS, (account.analyst, account.session)).fetchone()
        read = {text: Totals.read(text) if text else Totals() for text in set(row)}
        policy, analyst, session = (read[text] for text in row)
        return Totals(policy.policy, analyst.analyst, session.session)

    def records(self) -> Iterator[Record]:
        """Give all charges and orders, oldest first, from one snapshot."""
        return map(Record._make, self._sql.execute("SELECT * FROM charges ORDER BY sequence"))

    def records_of(self, analyst: str) -> Iterator[Record]:
        """Give one analyst's charges, oldest first, from one snapshot."""
        query = "SELECT * FROM charges WHERE analyst = ? AND session <> '' ORDER BY sequence"
        return map(Record._make, self._sql.execute(query, (analyst,)))

    def orders(self, after: int = 0) -> Iterator[str]:
        """Give the owner's orders after a sequence, oldest first, from one snapshot."""
        query = (
            "SELECT events FROM charges WHERE session = '' AND sequence > ? ORDER BY sequence"
        )
        return (str(order) for (order,) in self._sql.execute(query, (after,)))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Have the ledger alone; what is appended is durable when this ends.

        What was decided over `last` stays true: the next is never one of an earlier copy.
        """
        database = self._sql
        with database.locked():
            with database.transaction():
                database.require_same()
                self._require_not_rolled_back()
                self._newest = self._seen = self._next_head()
                yield
            if self._newest != self._seen:
                database.settle()
            self._seen = self._newest
            self._raise_mark()

    @property
    def last(self) -> tuple[int, str]:
        """The sequence and hash that the next row comes after; within `writing`."""
        return self._newest.sequence, self._newest.hash

    def append(self, record: Record) -> None:
        """Add a row; only within `writing`."""
        self._sql.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", record)
        self._newest = Mark(self.id, record.sequence, record.hash)

    def copy_to(self, file: Path) -> None:
        """Write a copy that holds every charge that was acknowledged before."""
        self._sql.copy_to(file)

    def snapshot(self) -> AbstractContextManager[None]:
        """Read all rows as they are now, whatever others write meanwhile."""
        return self._sql.snapshot()

    def require_whole(self) -> None:
        """Check the database's own structures, and that the mark belongs to this history."""
        self._sql.require_whole()
        self._require_not_rolled_back()

    def _require_sound(self) -> None:
        """Check what may be spent by, but for older hashes and totals.

        These, and what was released, are for `Ledger.verify`.
        """
        with self._sql.transaction():
            meta = dict(self._sql.execute("SELECT key, value FROM meta"))
            if meta.get("format") == "1":
                raise outdated(self.path)
            if (
                meta.get("format") not in {"2", "3", "4", "5", _FORMAT}
                or meta.get("accountant") not in ACCOUNTANTS
            ):
                raise unknown_format(self.path)
            self.id: str = meta["id"]
            self.secret: str = meta.get("secret") or self._keep_secret()
            self.accountant = ACCOUNTANTS[meta["accountant"]]
            self.bounds = KeptBounds(self._chain(BOUNDS))
            self.answers = Answers(self._chain(ANSWERS))
            self.earlier = Earlier(self._chain(EARLIER), self._chain(REFINED))
            self.states = States(self._chain(STATES))
            self.attempts = Attempts(self._chain(ATTEMPTS))
            self._sql.add_later_tables()
            self._sql.require_short()
            self._require_not_rolled_back()
            self._require_sound_end()
            self._seen = self._newest = self._head()
            # Even if it changes nothing: SQLite begins a transaction on a read-only file too.
            self._sql.execute("UPDATE meta SET value = ? WHERE key = 'format'", (_FORMAT,))
        self._sql.settle()
        self._raise_mark()

    def _chain(self, table: Table) -> Chain:
        return Chain(table, lambda: self._sql, self.id)

    def _keep_secret(self) -> str:
        """Give a ledger of before there was one its secret."""
        secret = secrets.token_hex(32)
        self._sql.execute("INSERT INTO meta VALUES ('secret', ?)", (secret,))
        return secret

    def _require_sound_end(self) -> None:
        newest = "SELECT * FROM charges ORDER BY sequence DESC LIMIT 2"
        rows = [Record._make(row) for row in self._sql.execute(newest)]
        seals = [*(row.hash for row in rows[1:]), self.id]
        if rows and not rows[0].follows(seals[0]):
            raise damaged(self.path)

    def _require_not_rolled_back(self) -> None:
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
        newest = "SELECT sequence, hash FROM charges ORDER BY sequence DESC LIMIT 1"
        return Mark(self.id, *(self._sql.execute(newest).fetchone() or (0, self.id)))

    def _next_head(self) -> Mark:
        """Give the head of a history that the last one stands in."""
        seen = self._seen
        row = self._sql.execute(_NEXT_HEAD, (seen.sequence,)).fetchone()
        sequence, seal, before = row or (0, self.id, None)
        if seen.sequence and before != seen.hash:
            raise rolled_back(self.path, "this session, which has seen more of it")
        return Mark(self.id, sequence, seal)

    def _hash_at(self, sequence: int) -> str | None:
        if sequence == 0:
            return self.id
        query = "SELECT hash FROM charges WHERE sequence = ?"
        row = self._sql.execute(query, (sequence,)).fetchone()
        return str(row[0]) if row else None


def first_meta() -> list[tuple[str, str]]:
    """Give what a new ledger says of itself: its id, its secret, and how to read it."""
    meta = [("format", _FORMAT), ("id", secrets.token_hex(16)), ("accountant", "additive")]
    return [*meta, ("secret", secrets.token_hex(32))]
