"""DB-API 2.0 (PEP 249) over a session: `dpquery.dbapi.connect("policy.toml").cursor()`.

Each statement is parsed, bound, charged and answered as by `Session.sql`. There are no
transactions: a charge is durable at once, and nothing takes it back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from datetime import time as clock
from typing import Any, ClassVar

from dpquery import errors
from dpquery.answer import Answer
from dpquery.client.remote import AnySession
from dpquery.connecting import connect as open_session
from dpquery.core.source_text import Source
from dpquery.errors import Diagnostic, DPQueryError, SessionUnusable
from dpquery.sql.parse.literals import misfit
from dpquery.sql.parse.parameters import Values, with_values

# Types by the names of PEP 249: what `description` gives, what parameters are made of.


@dataclass(frozen=True, slots=True, eq=False)
class TypeObject:
    """A family of types: equal to the name of each type in it, as `description` gives them."""

    names: frozenset[str]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.names == other.names
        return other in self.names

    def __hash__(self) -> int:
        return hash(self.names)


STRING = TypeObject(frozenset({"text"}))
NUMBER = TypeObject(frozenset({"integer", "double", "decimal"}))
DATETIME = TypeObject(frozenset({"date", "timestamp", "timestamptz", "time"}))
BOOLEAN = TypeObject(frozenset({"boolean"}))
BINARY = TypeObject(frozenset({"binary"}))
ROWID = TypeObject(frozenset({"rowid"}))

Date, Time, Timestamp, Binary = date, clock, datetime, bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - PEP 249 names it
    """Return the local day of a number of seconds since 1970."""
    return date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> clock:  # noqa: N802
    """Return the local time of day of a number of seconds since 1970."""
    return clock(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """Return the local time of a number of seconds since 1970, without a zone."""
    return datetime(*time.localtime(ticks)[:6])  # noqa: DTZ001 - timestamps here have none


_NAMED = {
    r"u?int\d+": "integer",
    r"decimal.*": "decimal",
    r"double|float": "double",
    r"(large_)?string": "text",
    r"bool": "boolean",
    r"date.*": "date",
    r"timestamp.*tz=.*": "timestamptz",
    r"timestamp.*": "timestamp",
    r"time(32|64).*": "time",
}


def type_name(arrow: str) -> str:
    """Return the name of a type in this language; Arrow's own where it has none."""
    return next((name for type_, name in _NAMED.items() if re.fullmatch(type_, arrow)), arrow)


# What this module raises, by the names of PEP 249; each keeps code, span and text.


class Warning(Exception):
    """Required by PEP 249; never raised."""


class Error(DPQueryError):
    """The root of what this module raises; it says what the error behind it says."""

    def __init__(self, fault: DPQueryError) -> None:
        super().__init__(fault.diagnostic, fault.source, fault.budget)
        self.fault = fault
        self.exit_code, self.sqlstate = fault.exit_code, fault.sqlstate

    def __str__(self) -> str:
        return str(self.fault)


class InterfaceError(Error):
    """The connection or cursor cannot be used: closed, or of another process."""


class DatabaseError(Error):
    """Anything about policy, statement, budget or scan."""


class DataError(DatabaseError):
    """Required by PEP 249; never raised, since no value of the data makes an error."""


class OperationalError(DatabaseError):
    """Policy, ledger or server need mending, or a scan broke off; then its charge stays."""


class IntegrityError(DatabaseError):
    """Required by PEP 249; never raised, since nothing is written."""


class InternalError(DatabaseError):
    """A mistake of ours."""


class ProgrammingError(DatabaseError):
    """A refusal: statement, parameters or budget must change; it cost nothing."""


class NotSupportedError(DatabaseError):
    """A call of PEP 249 that has no meaning here, such as rollback."""


_MEANT: tuple[tuple[type[DPQueryError], type[Error]], ...] = (
    (errors.QueryRefused, ProgrammingError),
    (errors.ServerUnusable, OperationalError),
    (errors.SessionUnusable, InterfaceError),
    (errors.PolicyInvalid, OperationalError),
    (errors.ScanFailed, OperationalError),
    (errors.InternalError, InternalError),
)


@contextmanager
def translated() -> Iterator[None]:
    """Have our errors raised as PEP 249 names them."""
    try:
        yield
    except Error:
        raise
    except DPQueryError as fault:
        kind = next(meant for ours, meant in _MEANT if isinstance(fault, ours))
        raise kind(fault) from fault


def nothing_to_give(title: str) -> SessionUnusable:
    """Say that a cursor has no rows."""
    why = "a cursor hands out the rows of the statement that it asked last."
    remedy = "cursor = connection.cursor(); cursor.execute(...)"
    return SessionUnusable(Diagnostic("DPQ803", title, why=(why,), remedy=(remedy,)))


# A cursor: asks statements, and hands out the rows of the last answer.


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
        """Ask one statement, and pay for it; raises as `executemany` does."""
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
        """Return the next row, or None after the last; raises as `fetchmany` does."""
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next rows, `arraysize` of them unless a size is given.

        Raises:
            InterfaceError: the cursor is closed.
            ProgrammingError: nothing was asked.
        """
        self._require_open()
        if self.answer is None:
            raise ProgrammingError(nothing_to_give("nothing was asked yet"))
        first = self._next
        wanted = self.arraysize if size is None else size
        self._next = min(len(self._rows), first + max(0, wanted))
        return self._rows[first : self._next]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that are left; raises as `fetchmany` does."""
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
        self.connection.require_open()


def _filled(operation: str, parameters: Values | None) -> str:
    """Put values in their places; what is no text at all is left to the session to refuse."""
    if not isinstance(operation, str):
        return operation
    parameters = () if parameters is None else parameters
    if not isinstance(parameters, list | tuple | Mapping):
        title = f"values are a list, a tuple or a dictionary, not {type(parameters).__name__}"
        raise misfit(title, "cursor.execute(statement, (30,))")
    return with_values(Source(operation), parameters).text


apilevel = "2.0"
threadsafety = 2
"""Threads may share a connection: it answers one statement at a time."""
paramstyle = "qmark"
"""`?` with a sequence; with a mapping, `:name` and `$name`."""


def connect(source: Any, **settings: Any) -> Connection:
    """Open a connection; the arguments are those of `dpquery.connect`.

    Raises:
        OperationalError: the policy, the ledger or an argument needs mending.
    """
    with translated():
        return Connection(open_session(source, **settings))


class Connection:
    """A session as PEP 249 sees it; closed at the end of a `with`."""

    Warning: ClassVar = Warning
    Error: ClassVar = Error
    InterfaceError: ClassVar = InterfaceError
    DatabaseError: ClassVar = DatabaseError
    DataError: ClassVar = DataError
    OperationalError: ClassVar = OperationalError
    IntegrityError: ClassVar = IntegrityError
    InternalError: ClassVar = InternalError
    ProgrammingError: ClassVar = ProgrammingError
    NotSupportedError: ClassVar = NotSupportedError

    def __init__(self, session: AnySession) -> None:
        self.session = session

    def cursor(self) -> Cursor:
        """Open a cursor.

        Raises:
            InterfaceError: the connection is closed.
        """
        self.require_open()
        return Cursor(self)

    def commit(self) -> None:
        """Do nothing: a charge is durable before its answer is seen.

        Raises:
            InterfaceError: the connection is closed.
        """
        self.require_open()

    def require_open(self) -> None:
        """Do nothing where the connection can be asked; raises as `commit` does."""
        with translated():
            self.session.require_usable()

    def rollback(self) -> None:
        """Refuse: what is charged stays charged.

        Raises:
            NotSupportedError: always.
            InterfaceError: the connection is closed.
        """
        self.require_open()
        title, why = "a charge is not taken back", "what an answer has told stays told."
        remedy = "connection.commit() does nothing, and is always right"
        diagnostic = Diagnostic("DPQ804", title, why=(why,), remedy=(remedy,))
        raise NotSupportedError(SessionUnusable(diagnostic))

    def close(self) -> None:
        """End the session; closing twice is fine."""
        self.session.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
