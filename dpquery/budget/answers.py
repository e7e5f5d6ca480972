"""Answers that were paid for, one row for each release, and the versions of the data.

A row holds what was drawn, as text: released values, which may be read again free by whoever
may see them. It is found by a key that says what was asked, of which version of the data and
under which policy. Versions are the owner's word that the data are other ones now. Nothing
here is a charge, and nothing here was decided by looking at rows.

Both tables are append-only and each is under a chain of hashes of its own, so that a row that
was changed is never given out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

from dpquery.budget.kept import seal_of

__all__ = ["ANSWERS", "Answers", "Holder"]


def _guards(table: str) -> tuple[str, ...]:
    """Let rows of a table be appended, and nothing else."""
    never = f"BEGIN SELECT RAISE(ABORT, '{table} are only appended'); END"
    last = f"(SELECT coalesce(max(sequence), 0) FROM {table})"  # noqa: S608 - our own names
    return (
        f"CREATE TRIGGER IF NOT EXISTS no_update_of_{table} BEFORE UPDATE ON {table} {never}",
        f"CREATE TRIGGER IF NOT EXISTS no_delete_of_{table} BEFORE DELETE ON {table} {never}",
        f"CREATE TRIGGER IF NOT EXISTS no_replace_of_{table} BEFORE INSERT ON {table} "
        f"WHEN NEW.sequence <> {last} + 1 {never}",
    )


ANSWERS = (
    """CREATE TABLE IF NOT EXISTS answers (
        sequence INTEGER PRIMARY KEY,
        charge TEXT NOT NULL,
        analyst TEXT NOT NULL,
        rights TEXT NOT NULL,
        shared INTEGER NOT NULL,
        key TEXT NOT NULL,
        drawn TEXT NOT NULL,
        hash TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX IF NOT EXISTS answers_by_key ON answers (key)",
    *_guards("answers"),
    """CREATE TABLE IF NOT EXISTS versions (
        sequence INTEGER PRIMARY KEY,
        at TEXT NOT NULL,
        hash TEXT NOT NULL
    ) STRICT""",
    *_guards("versions"),
)
"""Ledgers that were made before answers were stored get these when they are opened."""

_NEWEST = """
    SELECT answers.*, (SELECT hash FROM answers AS last
                       WHERE last.sequence = answers.sequence - 1)
    FROM answers
    WHERE key = ? AND ((analyst = ? AND rights = ?) OR (? AND shared))
    ORDER BY sequence DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who may see an answer again: an analyst with certain rights, or everybody."""

    analyst: str
    rights: str
    """What the policy grants them, as text: with other rights they are somebody else."""
    shared: bool
    """Whether the policy shares answers among its analysts."""


class Answers:
    """The answers and versions of an open ledger; rows are added within `Store.writing`."""

    def __init__(self, connection: Callable[[], sqlite3.Connection], ledger: str) -> None:
        self._connection = connection
        self._ledger = ledger

    def newest(self, holder: Holder, key: str) -> str | None:
        """Give what was drawn last under a key, where the holder may see it.

        Raises:
            ValueError: the row is not the one that was written.
        """
        asked = (key, holder.analyst, holder.rights, holder.shared)
        row = self._connection().execute(_NEWEST, asked).fetchone()
        if row is None:
            return None
        *fields, seal, before = row
        if seal != seal_of(before or self._ledger, tuple(fields)):
            raise ValueError("an answer was changed")
        return str(fields[-1])

    def add(self, charge: str, holder: Holder, drawn: Mapping[str, str]) -> None:
        """Add what a charge paid for, by its keys."""
        whose = (charge, holder.analyst, holder.rights, int(holder.shared))
        for key, text in drawn.items():
            self._append("answers", *whose, key, text)

    @property
    def version(self) -> int:
        """Which version of the data this is: how many were published."""
        query = "SELECT coalesce(max(sequence), 0) FROM versions"
        return int(self._connection().execute(query).fetchone()[0])

    def publish(self) -> None:
        """Add a version."""
        self._append("versions", datetime.now(UTC).isoformat(timespec="microseconds"))

    def untouched(self, paid: Mapping[str, str]) -> bool:
        """Say whether all rows are as written, answers paid for by their analyst's charge."""
        whose = self._connection().execute("SELECT charge, analyst FROM answers")
        paid_for = all(paid.get(charge) == analyst for charge, analyst in whose)
        return paid_for and all(map(self._whole, ("answers", "versions")))

    def _whole(self, table: str) -> bool:
        seal = self._ledger
        for number, (sequence, *fields, own) in zip(count(1), self._rows(table), strict=False):
            if sequence != number or own != seal_of(seal, (sequence, *fields)):
                return False
            seal = own
        return True

    def _rows(self, table: str) -> Iterator[tuple[object, ...]]:
        return self._connection().execute(f"SELECT * FROM {table} ORDER BY sequence")  # noqa: S608

    def _append(self, table: str, *fields: object) -> None:
        newest = f"SELECT sequence, hash FROM {table} ORDER BY sequence DESC LIMIT 1"  # noqa: S608
        last, seal = self._connection().execute(newest).fetchone() or (0, self._ledger)
        row = (last + 1, *fields)
        row = (*row, seal_of(seal, row))
        places = ", ".join("?" * len(row))
        self._connection().execute(f"INSERT INTO {table} VALUES ({places})", row)  # noqa: S608
