"""Answers that were paid for, one row for each release.

A row holds what was drawn, as text: released values, which may be read again free by whoever
may see them. It is found by a key that says what was asked, of which version of the data and
under which policy. Nothing here is a charge, and nothing here was decided by looking at rows.

The table is append-only and under a chain of hashes of its own, so that a row that was changed
is never given out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpquery.budget.database import Connection
from dpquery.budget.kept import seal_of

__all__ = ["Answers", "Holder"]

_NEWEST = """
    SELECT answers.*, (SELECT hash FROM answers AS last
                       WHERE last.sequence = answers.sequence - 1)
    FROM answers
    WHERE key = ? AND ((analyst = ? AND rights = ?) OR (shared = 1 AND ? = 1))
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
    """The answers of an open ledger; rows are added within `Store.writing`."""

    def __init__(self, connection: Callable[[], Connection], ledger: str) -> None:
        self._connection = connection
        self._ledger = ledger

    def newest(self, holder: Holder, key: str) -> str | None:
        """Give what was drawn last under a key, where the holder may see it.

        Raises:
            ValueError: the row is not the one that was written.
        """
        asked = (key, holder.analyst, holder.rights, int(holder.shared))
        row = self._connection().execute(_NEWEST, asked).fetchone()
        if row is None:
            return None
        *fields, seal, before = row
        if seal != seal_of(before or self._ledger, tuple(fields)):
            raise ValueError("an answer was changed")
        return str(fields[-1])

    def add(self, charge: str, holder: Holder, drawn: Mapping[str, str]) -> None:
        """Add what a charge paid for, by its keys."""
        sql = self._connection()
        newest = "SELECT sequence, hash FROM answers ORDER BY sequence DESC LIMIT 1"
        last, seal = sql.execute(newest).fetchone() or (0, self._ledger)
        whose = (charge, holder.analyst, holder.rights, int(holder.shared))
        for number, (key, text) in enumerate(drawn.items(), last + 1):
            fields = (number, *whose, key, text)
            seal = seal_of(seal, fields)
            sql.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*fields, seal))

    def untouched(self, paid: Mapping[str, str]) -> bool:
        """Say whether all rows are as written, each paid for by its analyst's charge."""
        seal = self._ledger
        rows = self._connection().execute("SELECT * FROM answers ORDER BY sequence")
        for number, (*fields, own) in enumerate(rows, 1):
            sequence, charge, analyst = fields[:3]
            paid_for = sequence == number and paid.get(charge) == analyst
            if not paid_for or own != seal_of(seal, tuple(fields)):
                return False
            seal = own
        return True
