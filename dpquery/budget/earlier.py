"""Releases that a later one may take the place of, each once.

A row of `earlier` holds the noisy integers of one release, what it lost at a distance of 1, and
what the files were that it was drawn from; it is found by what was asked, whatever the noise.
A row of `refined` says that the charge of a later release has used it up, and is written with
that charge: of two that were drawn given the same one, each would have paid for the difference
alone, and both together lose more.

Both tables are append-only and under chains of hashes of their own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from dpquery.budget.answers import Holder
from dpquery.budget.database import Connection
from dpquery.budget.kept import seal_of

__all__ = ["AlreadyRefined", "Earlier", "EarlierRelease", "Refinable", "State"]

State = list[tuple[int, int, str]]
"""Size, time and a hash of the end of each file of a table, in no order."""

_LEFT = """
    SELECT earlier.*, (SELECT hash FROM earlier AS last
                       WHERE last.sequence = earlier.sequence - 1)
    FROM earlier
    WHERE question = ? AND analyst = ? AND rights = ?
          AND NOT EXISTS (SELECT 1 FROM refined WHERE source = earlier.sequence)
    ORDER BY sequence
"""
_USED = "SELECT 1 FROM refined WHERE source = ?"


class _Table(NamedTuple):
    """What is asked of one of the tables."""

    newest: str
    insert: str
    rows: str


_EARLIER = _Table(
    "SELECT sequence, hash FROM earlier ORDER BY sequence DESC LIMIT 1",
    "INSERT INTO earlier VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "SELECT * FROM earlier ORDER BY sequence",
)
_REFINED = _Table(
    "SELECT sequence, hash FROM refined ORDER BY sequence DESC LIMIT 1",
    "INSERT INTO refined VALUES (?, ?, ?, ?)",
    "SELECT * FROM refined ORDER BY sequence",
)


class AlreadyRefined(Exception):
    """An earlier release was used up since it was found: nothing was charged."""


@dataclass(frozen=True, slots=True)
class Refinable:
    """A release as it is kept, to be refined."""

    question: str
    rate: Fraction
    """What it lost at a distance of 1."""
    drawn: str


@dataclass(frozen=True, slots=True)
class EarlierRelease:
    """A release that was kept, and not refined so far."""

    number: int
    rate: Fraction
    drawn: str
    read: Mapping[str, State]
    """What it was drawn from, by place."""


class Earlier:
    """The earlier releases of an open ledger; rows are added within `Store.writing`."""

    def __init__(self, connection: Callable[[], Connection], ledger: str) -> None:
        self._connection = connection
        self._ledger = ledger

    def left(self, holder: Holder, question: str) -> list[EarlierRelease]:
        """Give a holder's releases of a question that were not refined, oldest first.

        Raises:
            ValueError: a row is not the one that was written.
        """
        asked = (question, holder.analyst, holder.rights)
        rows = self._connection().execute(_LEFT, asked)
        return [self._read(*row) for row in rows]

    def _read(self, *row: str) -> EarlierRelease:
        *fields, seal, before = row
        if seal != seal_of(before or self._ledger, tuple(fields)):
            raise ValueError("an earlier release was changed")
        number, rate, drawn, read = fields[0], fields[5], fields[6], json.loads(fields[7])
        states = {place: [(*one,) for one in files] for place, files in read.items()}
        return EarlierRelease(int(number), Fraction(rate), drawn, states)

    def add(
        self,
        charge: str,
        holder: Holder,
        refinable: Iterable[Refinable],
        read: Mapping[str, State],
    ) -> None:
        """Add what a charge paid for, and the files that it was drawn from."""
        whose, states = (charge, holder.analyst, holder.rights), json.dumps(read)
        rows = ((*whose, one.question, str(one.rate), one.drawn, states) for one in refinable)
        self._append(_EARLIER, rows)

    def use(self, charge: str, numbers: Sequence[int]) -> None:
        """Use up releases for the charge that refines them.

        Raises:
            AlreadyRefined: one of them is.
        """
        sql = self._connection()
        for number in numbers:
            if sql.execute(_USED, (number,)).fetchone():
                raise AlreadyRefined
        self._append(_REFINED, ((charge, number) for number in numbers))

    def _append(self, table: _Table, rows: Iterable[tuple[object, ...]]) -> None:
        sql = self._connection()
        last, seal = sql.execute(table.newest).fetchone() or (0, self._ledger)
        for number, row in enumerate(rows, last + 1):
            fields = (number, *row)
            seal = seal_of(seal, fields)
            sql.execute(table.insert, (*fields, seal))

    def untouched(self, paid: Mapping[str, str], refining: Mapping[str, int]) -> bool:
        """Say whether all rows are as written.

        Args:
            paid: who paid, by charge.
            refining: how many releases each charge refines, of those that refine any.
        """
        earlier, refined = (list(self._rows(table)) for table in (_EARLIER, _REFINED))
        if None in earlier or None in refined:
            return False
        holders = {row[0]: row[2] for row in earlier if row}
        sources = [row[2] for row in refined if row]
        return (
            all(row and paid.get(row[1]) == row[2] for row in earlier)
            and all(row and paid.get(row[1]) == holders.get(row[2]) for row in refined)
            and len(set(sources)) == len(sources)
            and Counter(row[1] for row in refined if row) == refining
        )

    def _rows(self, table: _Table) -> Iterator[tuple[str, ...] | None]:
        """Give the rows of a table, or None for one that is not as it was written."""
        seal = self._ledger
        rows = self._connection().execute(table.rows)
        for number, (*fields, own) in enumerate(rows, 1):
            same = fields[0] == number and own == seal_of(seal, tuple(fields))
            yield tuple(fields) if same else None
            seal = own
