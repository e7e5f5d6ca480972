"""What a ledger needs of the database that holds it.

SQLite holds a ledger in a file, for the processes of one machine; PostgreSQL on a server, for
those of several. Both make what is executed within a transaction durable as a whole or not at
all, have one writer at a time, and refuse to change or remove rows.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Connection", "Cursor", "Database", "queued"]


class Cursor(Protocol):
    """The rows that a statement gives."""

    def fetchone(self) -> Any:
        """Give the next row, or None."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """What runs a statement."""

    def execute(self, statement: str, values: Sequence[object] = ()) -> Cursor:
        """Run one statement; `?` stands for a value."""


class Database(Connection, Protocol):
    """What holds the rows of one ledger."""

    @property
    def path(self) -> Path | str | None:
        """The file or the server, for messages; None in memory."""

    @property
    def exists(self) -> bool:
        """Whether there is something to open, which is not made by looking."""

    def open(self, *, marked: Path | None) -> None:
        """Connect, and make the ledger if it has never been; within `locked`.

        Args:
            marked: the high-water mark, where there is one.

        Raises:
            PolicyInvalid: it holds something else, commits are not durable, or what a
                high-water mark is about is not there any more.
        """

    def close(self) -> None:
        """Disconnect; idempotent."""

    def locked(self) -> AbstractContextManager[None]:
        """Queue with other processes of this machine."""

    def transaction(self) -> AbstractContextManager[None]:
        """Be the one writer; what is executed is durable when this ends without a fault."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Read what is there when the first statement is run, whatever is written meanwhile."""

    def settle(self) -> None:
        """Have a copy of the ledger's one file hold what was committed; within `locked`."""

    def copy_to(self, file: Path) -> None:
        """Write a copy as of now to a new file.

        Raises:
            PolicyInvalid: other programs do that.
            OSError: it cannot be written, or is there already.
        """

    def require_same(self) -> None:
        """Refuse to go on in another ledger than the one that was opened."""

    def require_short(self) -> None:
        """Check the database's own structures where a fault could give back what is spent."""

    def require_whole(self) -> None:
        """Check all of the database's own structures."""

    def add_later_tables(self) -> None:
        """Bring a ledger of an earlier version up to this one."""


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
