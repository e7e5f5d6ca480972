"""A ledger in a file: SQLite, one writer at a time, on one machine.

The file is trusted only while it is the one that was opened, private, and in nobody else's
hands; a commit is believed only while SQLite says that it waits for the disk.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from dpquery.budget.ledger.high_water import sync_directory
from dpquery.budget.ledger.ledger_faults import (
    DAMAGED,
    FOREIGN,
    REPLACED,
    missing,
    refused,
    unwritable,
)
from dpquery.budget.ledger.tables import (
    CHARGES,
    META,
    TABLES,
    Database,
    LedgerTable,
    first_meta,
)

_APPLICATION = 0x64707131
"""Stands in the file's header, so that a database of another program is known as such."""


class SQLite(Database):
    """A ledger file, or a ledger in memory when there is no path.

    What SQLite and the file system raise passes through its methods: the ledger names it.
    """

    path: Path | None

    def __init__(self, path: Path | None) -> None:
        # SQLite's own waiting lets one process starve the others.
        super().__init__(path, path and Path(f"{path}.lock"))
        self._opened: list[tuple[int, int]] = []

    def open(self, *, marked: Path | None) -> None:
        """Connect to the file; make it where there has been none."""
        self._file = self._require_file(marked)
        self._connection = _connect(self.path)
        if self._value("PRAGMA application_id") != _APPLICATION:
            raise refused(self.path, *FOREIGN)
        self._require_durable()

    @property
    def exists(self) -> bool:
        """Whether there is a file of that name, be it a ledger or not."""
        return self.path is not None and self.path.exists()

    def execute(self, statement: str, values: Sequence[object] = ()) -> Any:
        """Run one statement; `?` stands for a value."""
        return self._connection.execute(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Have what is executed within it done as a whole, and durably, or not at all."""
        sql = self._connection
        try:
            sql.execute("BEGIN IMMEDIATE")
            self._require_same()
            yield
            sql.execute("COMMIT")
        except BaseException:
            if sql.in_transaction:
                sql.execute("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read what is there when the first statement is run, whatever is written meanwhile."""
        self.execute("BEGIN")
        try:
            yield
        finally:
            self.execute("ROLLBACK")

    def settle(self) -> None:
        """Move what was committed from the log to the file, of which a backup may be a copy.

        Charges are on disk in the log already: what somebody still reads, and what there is no
        room for, is moved with the next one.
        """
        with suppress(sqlite3.OperationalError):
            self.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def copy_to(self, file: Path) -> None:
        """Write a copy as of now, durably, under a name that nothing has; others go on."""
        draft = _empty(file)
        with closing(sqlite3.connect(draft)) as copy:
            copy.execute("PRAGMA synchronous = FULL")
            self._connection.backup(copy)  # one step, so of one moment
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, once it is closed
        try:
            os.link(draft, file)  # unlike a rename, this replaces nothing
        finally:
            draft.unlink()
        sync_directory(file.parent)

    def require_whole(self, tables: Sequence[LedgerTable] = TABLES) -> None:
        """Check SQLite's own structures: in some tables, at a microsecond a row, or in all."""
        names = ["meta", *(table.name for table in tables)] if tables is not TABLES else [""]
        checks = (f"integrity_check({name})" if name else "integrity_check" for name in names)
        if any(self._value(f"PRAGMA {check}") != "ok" for check in checks):
            raise refused(self.path, *DAMAGED)

    def _require_same(self) -> None:
        """Refuse to write to files that no longer have the ledger's names."""
        if self.path is None:
            return
        found = [_require_private(Path(f"{self.path}{end}")) for end in ("", "-wal", "-shm")]
        self._opened = self._opened or found
        if found != self._opened or found[0] != self._file:
            raise refused(self.path, *REPLACED)

    def _require_file(self, marked: Path | None) -> tuple[int, int] | None:
        if self.path is None:
            return None
        if not os.path.lexists(self.path):
            # To begin again where a ledger has been would give back all that it spent.
            log = Path(f"{self.path}-wal")
            if marked or os.path.lexists(log):
                raise missing(self.path, marked or log)
            _create(self.path)
        for companion in ("-wal", "-shm"):
            with suppress(FileNotFoundError):  # whoever is the last to close removes them
                _require_private(Path(f"{self.path}{companion}"))
        return _require_private(self.path)

    def _require_durable(self) -> None:
        """Have each commit wait for the disk, and believe it only when SQLite says so."""
        journal = self._value("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = FULL")
        expected = "memory" if self.path is None else "wal"
        if journal != expected or self._value("PRAGMA synchronous") < 2:
            raise unwritable(self.path)


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
    draft = _empty(path)
    with closing(_connect(draft)) as connection:
        _fill(connection)
    draft.rename(path)
    sync_directory(path.parent)


def _empty(path: Path) -> Path:
    """Make a private file beside a path, for what will have its name."""
    draft = path.with_name(f"{path.name}.new")
    for leftover in (draft, Path(f"{draft}-journal")):
        leftover.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    os.close(os.open(draft, flags, 0o600))
    return draft


def _fill(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    schema = ";".join((f"{META} STRICT, WITHOUT ROWID", *(s for t in TABLES for s in _made(t))))
    connection.executescript(f"PRAGMA synchronous = FULL; BEGIN; {schema}")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", first_meta())
    connection.execute("COMMIT")


def _made(table: LedgerTable) -> Iterator[str]:
    """Return the statements that make a table and keep it append-only."""
    name, of = table.name, "" if table is CHARGES else f"_of_{table.name}"
    yield f"{table.created('INTEGER')} STRICT"
    for index, indexed in table.indexes.items():
        yield f"CREATE INDEX {index} ON {name} ({indexed})"
    gap = f"WHEN NEW.sequence <> (SELECT coalesce(max(sequence), 0) + 1 FROM {name})"  # noqa: S608
    for trigger, when, why in (
        ("no_update", f"UPDATE ON {name}", "never changed"),
        ("no_delete", f"DELETE ON {name}", "never removed"),
        ("no_replace", f"INSERT ON {name} {gap}", "only appended"),
    ):
        head = f"CREATE TRIGGER {trigger}{of} BEFORE {when}"
        yield f"{head} BEGIN SELECT RAISE(ABORT, '{name} are {why}'); END"


def _require_private(path: Path) -> tuple[int, int]:
    """Refuse a link and a file that others can write; give what identifies the file."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise refused(
            path,
            "the ledger is a symbolic link",
            "a link can be pointed at an older ledger, which would give spent budget back.",
            "name the file itself",
        )
    if not stat.S_ISREG(status.st_mode):
        raise refused(path, *FOREIGN)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise refused(
            path,
            "the ledger can be written by others",
            "whoever can write it can give spent budget back.",
            "chmod go-w, and see who could write it before",
        )
    return status.st_dev, status.st_ino
