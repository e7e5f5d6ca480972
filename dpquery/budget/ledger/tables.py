"""The tables of a ledger: rows that are only ever added, under a chain of hashes.

Rows are numbered from 1 without gaps, and each ends in the hash of its fields and of the hash
before it, so that one that was changed is seen. The first row follows the id of its ledger:
rows of another ledger are no rows of this one. Reading a row that is not the one that was
written is a ValueError.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
"""Which ledger this is: the only table whose rows change."""

FORMAT = "1"


def first_meta() -> list[tuple[str, str]]:
    """Return what a new ledger says of itself: its id, its secret, and how to read it."""
    meta = [("format", FORMAT), ("id", secrets.token_hex(16)), ("accountant", "additive")]
    return [*meta, ("secret", secrets.token_hex(32))]


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """An append-only table; before its columns stands a sequence, and a hash after them.

    Each database makes a table of its own of this, with triggers that keep it append-only.
    """

    name: str
    columns: tuple[str, ...]
    indexes: Mapping[str, str] = field(default_factory=dict)
    """The columns of each, by name."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Of the columns that are no plain texts, in words that both databases know."""
    long: bool = False
    """Whether it grows with what is released, and its rows are checked when they are read."""

    def created(self, sequence: str) -> str:
        """Return the statement that creates it, with a type for the sequence."""
        texts = {name: "TEXT NOT NULL" for name in (*self.columns, "hash")}
        columns = {"sequence": f"{sequence} PRIMARY KEY", **texts, **self.types}
        listed = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
        return f"CREATE TABLE {self.name} ({listed})"


CHARGES = LedgerTable(
    "charges",
    ("id", "at", "analyst", "session", "query", "events", "totals"),
    {"charges_by_analyst": "analyst", "charges_by_session": "session"},
    {"id": "TEXT NOT NULL UNIQUE"},
)

BOUNDS = LedgerTable(
    "bounds", ("charge", "analyst", "key", "low", "high"), {"bounds_by_key": "analyst, key"}
)
"""Bounds that were found: who paid for them, by which charge, and what they are.

They are released values and no charges: whoever changes them makes answers worse, and no less
private, and the chain shows it. Numbers are exact rationals written as text (I8).
"""

ANSWERS = LedgerTable(
    "answers",
    ("charge", "analyst", "rights", "shared", "key", "drawn"),
    {"answers_by_key": "key"},
    {"shared": "INTEGER NOT NULL"},
    long=True,
)
"""What was drawn, a row for each release: released values, free for whoever may see them.

The key says what was asked, of which version of the data and under which policy. Nothing here
was decided by looking at rows.
"""

STATES = LedgerTable(
    "states",
    ("version", "place", "state"),
    {"states_by_place": "place, version"},
    {"version": "INTEGER NOT NULL"},
)
"""What the files of a table were when they were first read under a version of the data.

That files differ is found by holding them against these rows. They are of private data and for
the owner's ledger alone: nothing of them is ever shown. Under no version stands what was found
of a state of files, to be found once.
"""

ANY = -1
"""Stands in the place of a version where it does not matter."""

EARLIER = LedgerTable(
    "earlier",
    ("charge", "analyst", "rights", "question", "rate", "drawn", "read"),
    {"earlier_by_question": "question"},
    long=True,
)
"""Releases that can be refined, once each, found by what was asked, whatever the noise.

A row holds the noisy integers, what they lost at a distance of 1, and what the files were that
they were drawn from.
"""

REFINED = LedgerTable(
    "refined", ("charge", "source"), types={"source": "INTEGER NOT NULL UNIQUE"}
)
"""Which of them the charge of a later release has used up; written with that charge.

Of two that were drawn given the same one, each would have paid for the difference alone, and
both together lose more.
"""

ATTEMPTS = LedgerTable(
    "attempts", ("analyst", "at", "how", "open"), {"attempts_by_analyst": "analyst"}
)
"""What each analyst has under way, and what failed, after each change."""

TABLES = (BOUNDS, ANSWERS, EARLIER, REFINED, STATES, ATTEMPTS, CHARGES)

SHORT: Final = tuple(table for table in TABLES if not table.long)
"""These are checked whenever a ledger is opened, which long ones must not hold up."""


class Database(ABC):
    """What holds the rows of one ledger: SQLite in a file, PostgreSQL on a server.

    Both make what is executed within a transaction durable as a whole or not at all, have one
    writer at a time, and refuse to change or remove rows.
    """

    def __init__(self, path: Path | str | None, queue: Path | None) -> None:
        self.path = path  # the file or the server, for messages; None in memory
        self._queue = queue
        self._connection: Any = None

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether there is something to open, which is not made by looking."""

    @abstractmethod
    def open(self, *, marked: Path | None) -> None:
        """Connect, and make the ledger if it has never been; within `locked`.

        It is refused if it holds something else, if commits are not durable, or if what a
        high-water mark is about is not there any more.
        """

    def close(self) -> None:
        """Disconnect; idempotent."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @abstractmethod
    def execute(self, statement: str, values: Sequence[object] = ()) -> Any:
        """Run one statement, and return a cursor over its rows; `?` stands for a value."""

    def _value(self, query: str, values: Sequence[object] = ()) -> Any:
        row = self.execute(query, values).fetchone()
        return None if row is None else row[0]

    def locked(self) -> AbstractContextManager[None]:
        """Queue with other processes of this machine."""
        return nullcontext() if self._queue is None else queued(self._queue)

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Be the one writer; what is executed is durable when this ends without a fault.

        It is refused in another ledger than the one that was opened.
        """

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read what is there when the first statement is run, whatever is written meanwhile."""

    def settle(self) -> None:  # noqa: B027 - a server is copied by its own programs
        """Have a copy of the ledger's one file hold what was committed; within `locked`."""

    @abstractmethod
    def copy_to(self, file: Path) -> None:
        """Write a copy as of now to a new file, if other programs do not do that."""

    @abstractmethod
    def require_whole(self, tables: Sequence[LedgerTable] = TABLES) -> None:
        """Check the database's own structures.

        A fault in a short table could give back what is spent: a torn page can read as rows
        missing from an index, and the total found through it would be too low.
        """


@contextmanager
def queued(file: Path) -> Iterator[None]:
    """Queue for a lock file, which the kernel frees when its holder is killed.

    It is opened anew each time: children would inherit a descriptor that stood open, and would
    keep the lock after this process was killed.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
