"""What the files of a table were when they were first read under a version of the data.

That files differ is found by holding them against these rows. They are of private data and for
the owner's ledger alone: nothing of them is ever shown. The table is append-only and under a
chain of hashes of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from dpquery.budget.database import Connection
from dpquery.budget.kept import seal_of

__all__ = ["States"]

_FIRST = """
    SELECT states.*, (SELECT hash FROM states AS last
                      WHERE last.sequence = states.sequence - 1)
    FROM states WHERE place = ? AND version = ? ORDER BY sequence LIMIT 1
"""


class States:
    """The states in an open ledger; rows are added within `Store.writing`."""

    def __init__(self, connection: Callable[[], Connection], ledger: str) -> None:
        self._connection = connection
        self._ledger = ledger

    def first(self, version: int, place: str) -> str | None:
        """Give what stood at a place when it was first read under a version.

        Raises:
            ValueError: the row is not the one that was written.
        """
        row = self._connection().execute(_FIRST, (place, version)).fetchone()
        if row is None:
            return None
        *fields, seal, before = row
        if seal != seal_of(before or self._ledger, tuple(fields)):
            raise ValueError("a state was changed")
        return str(fields[-1])

    def add(self, version: int, place: str, state: str) -> None:
        """Add what stands at a place."""
        sql = self._connection()
        newest = "SELECT sequence, hash FROM states ORDER BY sequence DESC LIMIT 1"
        last, seal = sql.execute(newest).fetchone() or (0, self._ledger)
        fields = (last + 1, version, place, state)
        row = (*fields, seal_of(seal, fields))
        sql.execute("INSERT INTO states VALUES (?, ?, ?, ?, ?)", row)

    def untouched(self) -> bool:
        """Say whether all rows are as written."""
        seal = self._ledger
        rows = self._connection().execute("SELECT * FROM states ORDER BY sequence")
        for number, (*fields, own) in enumerate(rows, 1):
            if fields[0] != number or own != seal_of(seal, tuple(fields)):
                return False
            seal = own
        return True
