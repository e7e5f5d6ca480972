"""Rows that are only ever added, under a chain of hashes, so that one that was changed is seen.

What stands in a row is known above. The first row follows the id of its ledger: rows of
another ledger are no rows of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpquery.budget.database import Connection
from dpquery.budget.schema import Table, seal_of

__all__ = ["Chain", "Row"]

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """One table of an open ledger; rows are added within `Store.writing`."""

    table: Table
    connection: Callable[[], Connection]
    ledger: str
    """Its id."""

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows that have neither sequence nor hash yet."""
        if not rows:
            return
        sql, name = self.connection(), self.table.name
        newest = f"SELECT sequence, hash FROM {name} ORDER BY sequence DESC LIMIT 1"  # noqa: S608
        values = ", ".join("?" for _ in ("sequence", *self.table.columns, "hash"))
        last, seal = sql.execute(newest).fetchone() or (0, self.ledger)
        for number, row in enumerate(rows, last + 1):
            seal = seal_of(seal, (number, *row))
            sql.execute(f"INSERT INTO {name} VALUES ({values})", (number, *row, seal))  # noqa: S608

    def rows(self) -> Iterator[Row]:
        """Give all rows without their hashes, oldest first.

        Raises:
            ValueError: one of them is not the one that was written.
        """
        name, seal = self.table.name, self.ledger
        every = self.connection().execute(f"SELECT * FROM {name} ORDER BY sequence")  # noqa: S608
        for number, (*fields, own) in enumerate(every, 1):
            if fields[0] != number or own != seal_of(seal, fields):
                raise ValueError(f"a row of {name} was changed")
            yield tuple(fields)
            seal = own

    def paid_for(self, paid: Mapping[str, str]) -> bool:
        """Say whether all rows, which begin with a charge and an analyst, are of who paid it.

        Raises:
            ValueError: a row is not the one that was written.
        """
        return all(paid.get(charge) == analyst for _, charge, analyst, *_ in self.rows())

    def found(self, where: str, values: Sequence[object]) -> list[Row]:
        """Give some rows without their hashes, in an order that the condition ends in.

        Raises:
            ValueError: one of them is not the one that was written.
        """
        name = self.table.name
        before = f"SELECT hash FROM {name} AS last WHERE last.sequence = {name}.sequence - 1"  # noqa: S608
        some = f"SELECT {name}.*, ({before}) FROM {name} WHERE {where}"  # noqa: S608
        found = list(self.connection().execute(some, values))
        if any(own != seal_of(last or self.ledger, fields) for *fields, own, last in found):
            raise ValueError(f"a row of {name} was changed")
        return [tuple(fields) for *fields, _, _ in found]
