"""The file of a ledger: SQLite, one writer at a time, rows that are only ever added.

The store makes rows durable and notices when they are not the rows it wrote; what a charge
may spend is decided above it. It keeps the durable half of I2: when `writing` has ended
without a fault, its row is on disk, and below the high-water mark if there is one.

Connections never cross a fork: SQLite's locks belong to the process that took them.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dpquery.budget.accountant import ACCOUNTANTS
from dpquery.budget.answers import ANSWERS, Answers
from dpquery.budget.charge import Account
from dpquery.budget.earlier import EARLIER, Earlier
from dpquery.budget.faults import (
    damaged,
    foreign,
    outdated,
    refused,
    unknown_format,
    unwritable,
)
from dpquery.budget.high_water import HighWater, Mark, sync_directory
from dpquery.budget.kept import BOUNDS, KeptBounds
from dpquery.budget.record import Record, Totals
from dpquery.budget.states import STATES, States
from dpquery.errors import internal
from dpquery.types import Interval

__all__ = ["Store"]

_APPLICATION = 0x64707131
"""Stands in the file's header, so that a database of another program is known as such."""

_FORMAT = "3"
"""2: totals have a rho, and there are events of bounded range. 3: orders stand among
charges, so that a version which would not obey them opens no such ledger."""

_SCHEMA = """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE charges (
        sequence INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        at TEXT NOT NULL,
        analyst TEXT NOT NULL,
        session TEXT NOT NULL,
        query TEXT NOT NULL,
        events TEXT NOT NULL,
        totals TEXT NOT NULL,
        hash TEXT NOT NULL
    ) STRICT;
    CREATE INDEX charges_by_analyst ON charges (analyst);
    CREATE INDEX charges_by_session ON charges (session);
    CREATE TRIGGER no_update BEFORE UPDATE ON charges
        BEGIN SELECT RAISE(ABORT, 'charges are never changed'); END;
    CREATE TRIGGER no_delete BEFORE DELETE ON charges
        BEGIN SELECT RAISE(ABORT, 'charges are never removed'); END;
    CREATE TRIGGER no_replace BEFORE INSERT ON charges
        WHEN NEW.sequence <> (SELECT coalesce(max(sequence), 0) + 1 FROM charges)
        BEGIN SELECT RAISE(ABORT, 'charges are only appended'); END;
"""

_LATER = (*BOUNDS, *ANSWERS, *EARLIER, *STATES)

_TOTALS = """
    SELECT (SELECT totals FROM charges ORDER BY sequence DESC LIMIT 1),
           (SELECT totals FROM charges WHERE analyst = ? ORDER BY sequence DESC LIMIT 1),
           (SELECT totals FROM charges WHERE session = ? ORDER BY sequence DESC LIMIT 1)
"""


class Store:
    """An open ledger file, or a ledger in memory when there is no path.

    What SQLite and the file system raise passes through its methods: the ledger names it.
    """

    def __init__(self, path: Path | None, high_water: Path | None) -> None:
        self.path = path
        self._mark = HighWater(high_water) if high_water else None
        self._process = os.getpid()
        with self._locked():
            self._file = self._require_file()
            self._connection: sqlite3.Connection | None = _connect(path)
            try:
                self._require_sound()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the file; a forked child leaves it to the process that opened it."""
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None

    @property
    def _sql(self) -> sqlite3.Connection:
        if self._process != os.getpid():
            raise internal("a ledger is not carried over a fork")
        if self._connection is None:
            raise internal("a closed ledger is not used")
        return self._connection

    def totals(self, account: Account) -> Totals:
        """Give what is spent: by everyone, by this analyst, in this session."""
        row = self._sql.execute(_TOTALS, (account.analyst, account.session)).fetchone()
        policy, analyst, session = (Totals.read(text) if text else Totals() for text in row)
        return Totals(policy.policy, analyst.analyst, session.session)

    def records(self) -> Iterator[Record]:
        """Give all charges and orders, oldest first, from one snapshot."""
        return map(Record._make, self._sql.execute("SELECT * FROM charges ORDER BY sequence"))

    def records_of(self, analyst: str) -> Iterator[Record]:
        """Give one analyst's charges, oldest first, from one snapshot."""
        query = "SELECT * FROM charges WHERE analyst = ? AND session <> '' ORDER BY sequence"
        return map(Record._make, self._sql.execute(query, (analyst,)))

    def orders(self) -> Iterator[str]:
        """Give the owner's orders, oldest first, from one snapshot."""
        query = "SELECT events FROM charges WHERE session = '' ORDER BY sequence"
        return (str(order) for (order,) in self._sql.execute(query))

    @contextmanager
    def writing(self) -> Iterator[Mark]:
        """Have the ledger alone, from its head; what is appended is durable when this ends."""
        with self._locked():
            self._require_same_file()
            with self._transaction():
                self._require_not_rolled_back()
                yield self._head()
            self._raise_mark()

    def append(self, record: Record) -> None:
        """Add a row; only within `writing`."""
        self._sql.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", record)

    def kept(self) -> Iterator[KeptBounds]:
        """Give all bounds that were found, oldest first."""
        query = "SELECT * FROM bounds ORDER BY sequence"
        return map(KeptBounds._make, self._sql.execute(query))

    def kept_under(self, analyst: str, key: str) -> KeptBounds | None:
        """Give the newest bounds of an analyst under a key."""
        query = "SELECT * FROM bounds WHERE analyst = ? AND key = ? ORDER BY sequence DESC"
        row = self._sql.execute(query, (analyst, key)).fetchone()
        return KeptBounds._make(row) if row else None

    def keep(self, charge: str, analyst: str, key: str, bounds: Interval) -> None:
        """Add bounds that a charge paid for; only within `writing`."""
        newest = "SELECT sequence, hash FROM bounds ORDER BY sequence DESC LIMIT 1"
        last, seal = self._sql.execute(newest).fetchone() or (0, self.id)
        row = KeptBounds.after(last, seal, (charge, analyst, key), bounds)
        self._sql.execute("INSERT INTO bounds VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def require_whole(self) -> None:
        """Check SQLite's own structures, and that the mark belongs to this history.

        A torn page can read as rows missing from an index, and the total found through it would
        be too low. This costs a microsecond a row.
        """
        if self._value("PRAGMA integrity_check") != "ok":
            raise damaged(self.path)
        self._require_not_rolled_back()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Queue for the ledger: SQLite's own waiting lets one process starve the others.

        The lock file is opened anew each time: children would inherit a descriptor that stood
        open, and would keep the lock after this process was killed.
        """
        if self.path is None:
            yield
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(f"{self.path}.lock", flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        sql = self._sql
        try:
            sql.execute("BEGIN IMMEDIATE")
            yield
            sql.execute("COMMIT")
        except BaseException:
            if sql.in_transaction:
                sql.execute("ROLLBACK")
            raise

    def _require_file(self) -> tuple[int, int] | None:
        if self.path is None:
            return None
        if not os.path.lexists(self.path):
            self._require_new()
            _create(self.path)
        for companion in ("-wal", "-shm"):
            if os.path.lexists(f"{self.path}{companion}"):
                _require_private(Path(f"{self.path}{companion}"))
        return _require_private(self.path)

    def _require_new(self) -> None:
        """Refuse to begin again where a ledger has been: that would give back all it spent."""
        marked = self._mark is not None and self._mark.read() is not None
        if marked or os.path.lexists(f"{self.path}-wal"):
            raise refused(
                self.path,
                "the ledger is missing",
                "a ledger was here, and a new one would give back everything it has spent.",
                "bring it back; to begin again, remove its high-water mark and `-wal` file too",
            )

    def _require_same_file(self) -> None:
        if self.path is not None and _require_private(self.path) != self._file:
            raise refused(
                self.path,
                "the ledger was replaced while it was open",
                "charges written to a file without a name would be lost.",
                "connect again, once the newest copy is back in its place",
            )

    def _require_sound(self) -> None:
        """Check everything but the older hashes and totals, which `Ledger.verify` replays."""
        if self._value("PRAGMA application_id") != _APPLICATION:
            raise foreign(self.path)
        self._require_durable()
        with self._transaction():
            meta = dict(self._sql.execute("SELECT key, value FROM meta"))
            if meta.get("format") == "1":
                raise outdated(self.path)
            if (
                meta.get("format") not in {"2", _FORMAT}
                or meta.get("accountant") not in ACCOUNTANTS
            ):
                raise unknown_format(self.path)
            self.id: str = meta["id"]
            self.secret: str = meta.get("secret") or self._keep_secret()
            self.accountant = ACCOUNTANTS[meta["accountant"]]
            self.answers = Answers(lambda: self._sql, self.id)
            self.earlier = Earlier(lambda: self._sql, self.id)
            self.states = States(lambda: self._sql, self.id)
            self.require_whole()
            self._require_sound_end()
            for statement in _LATER:  # a script would end the transaction
                self._sql.execute(statement)
            # Even if it changes nothing: SQLite begins a transaction on a read-only file too.
            self._sql.execute("UPDATE meta SET value = ? WHERE key = 'format'", (_FORMAT,))
        self._raise_mark()

    def _keep_secret(self) -> str:
        """Give a ledger of before there was one its secret."""
        secret = secrets.token_hex(32)
        self._sql.execute("INSERT INTO meta VALUES ('secret', ?)", (secret,))
        return secret

    def _require_durable(self) -> None:
        """Have each commit wait for the disk, and believe it only when SQLite says so."""
        journal = self._value("PRAGMA journal_mode = WAL")
        self._sql.execute("PRAGMA synchronous = FULL")
        expected = "memory" if self.path is None else "wal"
        if journal != expected or self._value("PRAGMA synchronous") < 2:
            raise unwritable(self.path)

    def _require_sound_end(self) -> None:
        newest = "SELECT * FROM charges ORDER BY sequence DESC LIMIT 2"
        rows = [Record._make(row) for row in self._sql.execute(newest)]
        seals = [*(row.hash for row in rows[1:]), self.id]
        if rows and not rows[0].follows(seals[0]):
            raise damaged(self.path)

    def _require_not_rolled_back(self) -> None:
        mark = self._mark.read() if self._mark else None
        if mark is None:
            return
        if mark.ledger != self.id:
            raise refused(
                self.path,
                "the ledger is not the one that its high-water mark belongs to",
                "another ledger would give back everything that this one's predecessor spent.",
                "bring back the ledger that the mark was written for",
            )
        if self._hash_at(mark.sequence) != mark.hash:
            raise refused(
                self.path,
                "the ledger is older than its high-water mark",
                "charges that were made are missing from it, so what is spent is not known.",
                "bring back a copy that holds every charge",
            )

    def _raise_mark(self) -> None:
        """Bring the mark up to the last row; under the lock, so that it never goes back."""
        if self._mark is not None and self._mark.read() != (head := self._head()):
            self._mark.write(head)

    def _head(self) -> Mark:
        newest = "SELECT sequence, hash FROM charges ORDER BY sequence DESC LIMIT 1"
        return Mark(self.id, *(self._sql.execute(newest).fetchone() or (0, self.id)))

    def _hash_at(self, sequence: int) -> str | None:
        if sequence == 0:
            return self.id
        query = "SELECT hash FROM charges WHERE sequence = ?"
        row = self._sql.execute(query, (sequence,)).fetchone()
        return str(row[0]) if row else None

    def _value(self, query: str) -> Any:
        return self._sql.execute(query).fetchone()[0]


def _connect(path: Path | None) -> sqlite3.Connection:
    # mode=rw: a file that vanishes between check and open must not be made anew.
    target = ":memory:" if path is None else f"{path.as_uri()}?mode=rw"
    connection = sqlite3.connect(
        target, uri=path is not None, timeout=30, isolation_level=None, check_same_thread=False
    )
    if path is None:
        _fill(connection)
    return connection


def _create(path: Path) -> None:
    """Make a ledger under another name and rename it: the name never stands for half of one."""
    draft = path.with_name(f"{path.name}.new")
    for leftover in (draft, Path(f"{draft}-journal")):
        leftover.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    os.close(os.open(draft, flags, 0o600))
    with closing(_connect(draft)) as connection:
        _fill(connection)
    draft.rename(path)
    sync_directory(path.parent)


def _fill(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    schema = "; ".join((*_LATER, _SCHEMA))
    connection.executescript(f"PRAGMA synchronous = FULL; BEGIN; {schema}")
    meta = [("format", _FORMAT), ("id", secrets.token_hex(16)), ("accountant", "additive")]
    meta.append(("secret", secrets.token_hex(32)))
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta)
    connection.execute("COMMIT")


def _require_private(path: Path) -> tuple[int, int]:
    """Refuse a link and a file that others can write; give what identifies the file."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise refused(
            path,
            "the ledger is a symbolic link",
            "a link can be pointed at an older ledger, which would give spent budget back.",
            "name the file itself under [ledger] path",
        )
    if not stat.S_ISREG(status.st_mode):
        raise foreign(path)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise refused(
            path,
            "the ledger can be written by others",
            "whoever can write it can give spent budget back.",
            "chmod go-w, and see who could write it before",
        )
    return status.st_dev, status.st_ino
