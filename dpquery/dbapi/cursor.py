"""A cursor: asks statements, and hands out the rows of the last answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dpquery.answer import Answer
from dpquery.dbapi.faults import (
    InterfaceError,
    ProgrammingError,
    nothing_to_give,
    translated,
)
from dpquery.dbapi.kinds import type_name
from dpquery.source import Source
from dpquery.sql.parameters import Values, with_values
from dpquery.sql.values import misfit

if TYPE_CHECKING:
    from dpquery.dbapi import Connection

__all__ = ["Cursor"]


class Cursor:
    """Asks statements, one after another, and hands out the rows of the last answer."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.answer: Answer | None = None
        """The last answer, with its loss and its intervals."""
        self._rows: list[tuple[Any, ...]] = []
        self._next = 0
        self._closed = False

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Name and type of each column, as seven parts; None before there is an answer."""
        if self.answer is None:
            return None
        return [
            (field.name, type_name(str(field.type)), None, None, None, None, None)
            for field in self.answer.table.schema
        ]

    @property
    def rowcount(self) -> int:
        """How many rows there are; -1 before there is an answer."""
        return -1 if self.answer is None else len(self._rows)

    def execute(self, operation: str, parameters: Values | None = None) -> Cursor:
        """Ask one statement, and pay for it.

        Raises:
            ProgrammingError: the statement is refused; the budget is unchanged.
            OperationalError: reading broke off; the charge stays.
            InterfaceError: the cursor or its connection is closed.
        """
        return self.executemany(operation, [parameters])

    def executemany(self, operation: str, parameter_sets: Iterable[Values | None]) -> Cursor:
        """Ask a statement once for each set of values; each pays, and the rows follow another.

        Where one is refused, the rows of those before it can still be fetched.

        Raises:
            ProgrammingError: the statement is refused; what came before it is paid.
            OperationalError: reading broke off; the charge stays.
            InterfaceError: the cursor or its connection is closed.
        """
        with translated():
            self._require_open()
            self.answer, self._rows, self._next = None, [], 0
            for parameters in parameter_sets:
                self.answer = self.connection.session.sql(_filled(operation, parameters))
                self._rows += self.answer.rows
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """Give the next row, or None after the last.

        Raises:
            InterfaceError: the cursor is closed.
            ProgrammingError: nothing was asked.
        """
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Give the next rows, `arraysize` of them unless a size is given.

        Raises:
            InterfaceError: the cursor is closed.
            ProgrammingError: nothing was asked.
        """
        self._require_answer()
        first = self._next
        wanted = self.arraysize if size is None else size
        self._next = min(len(self._rows), first + max(0, wanted))
        return self._rows[first : self._next]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Give the rows that are left.

        Raises:
            InterfaceError: the cursor is closed.
            ProgrammingError: nothing was asked.
        """
        return self.fetchmany(len(self._rows))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing: values carry their sizes."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing: answers are given whole."""

    def close(self) -> None:
        """Close the cursor, and not its connection; closing twice is fine."""
        self._closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            raise InterfaceError(nothing_to_give("the cursor is closed"))
        self.connection.session.require_usable()

    def _require_answer(self) -> None:
        with translated():
            self._require_open()
        if self.answer is None:
            raise ProgrammingError(nothing_to_give("nothing was asked yet"))


def _filled(operation: str, parameters: Values | None) -> str:
    """Put values in their places; what is no text at all is left to the session to refuse."""
    if not isinstance(operation, str):
        return operation
    parameters = () if parameters is None else parameters
    if not isinstance(parameters, list | tuple | Mapping):
        title = f"values are a list, a tuple or a dictionary, not {type(parameters).__name__}"
        raise misfit(title, "cursor.execute(statement, (30,))")
    return with_values(Source(operation), parameters).text
