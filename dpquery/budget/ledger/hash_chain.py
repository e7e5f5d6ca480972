"""A chain of hashes over the rows of a table, so that one that was changed is seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpquery.budget.ledger.tables import Database, LedgerTable

Row = tuple[Any, ...]
_json = json.JSONEncoder(separators=(",", ":")).encode


def _seal(previous: str, fields: Iterable[object]) -> str:
    """Return the hash of a row that stands after one with another hash."""
    return hashlib.sha256(_json([previous, *fields]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Chain:
    """One table of an open ledger; rows are added within `Store.writing`."""

    table: LedgerTable
    database: Callable[[], Database]
    ledger: str
    """Its id."""

    def head(self) -> tuple[int, str]:
        """Return the sequence and hash that the next row comes after."""
        newest = f"SELECT sequence, hash FROM {self.table.name} ORDER BY sequence DESC LIMIT 1"  # noqa: S608
        return self.database().execute(newest).fetchone() or (0, self.ledger)

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows that have neither sequence nor hash yet."""
        statement = ""
        for row in rows:
            if not statement:
                values = ", ".join("?" * (len(row) + 2))
                statement = f"INSERT INTO {self.table.name} VALUES ({values})"  # noqa: S608
                number, seal = self.head()
            number += 1
            seal = _seal(seal, (number, *row))
            self.database().execute(statement, (number, *row, seal))

    def rows(self) -> Iterator[Row]:
        """Return all rows without their hashes, oldest first."""
        name, seal = self.table.name, self.ledger
        every = self.database().execute(f"SELECT * FROM {name} ORDER BY sequence")  # noqa: S608
        for number, (*fields, own) in enumerate(every, 1):
            if fields[0] != number or own != _seal(seal, fields):
                raise ValueError(f"a row of {name} was changed")
            yield tuple(fields)
            seal = own

    def paid_for(self, paid: Mapping[str, str]) -> bool:
        """Say whether all rows begin with a charge, and with the analyst who paid it."""
        return all(paid.get(charge) == analyst for _, charge, analyst, *_ in self.rows())

    def newest(self, **fields: object) -> Row | None:
        """Return the last row with these fields."""
        where = " AND ".join(f"{name} = ?" for name in fields) or "1 = 1"
        rows = self.found(f"{where} ORDER BY sequence DESC LIMIT 1", tuple(fields.values()))
        return rows[0] if rows else None

    def found(self, where: str, values: Sequence[object]) -> list[Row]:
        """Return some rows without their hashes, in an order that the condition ends in."""
        name = self.table.name
        before = f"SELECT hash FROM {name} AS last WHERE last.sequence = {name}.sequence - 1"  # noqa: S608
        some = f"SELECT {name}.*, ({before}) FROM {name} WHERE {where}"  # noqa: S608
        found = list(self.database().execute(some, values))
        if any(own != _seal(last or self.ledger, fields) for *fields, own, last in found):
            raise ValueError(f"a row of {name} was changed")
        return [tuple(fields) for *fields, _, _ in found]
