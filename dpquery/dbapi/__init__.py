"""DB-API 2.0 (PEP 249) over a session: `dpquery.dbapi.connect("policy.toml").cursor()`.

Each statement is parsed, bound, charged and answered as by `Session.sql`. There are no
transactions: a charge is durable at once, and nothing takes it back.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dpquery.connecting import connect as open_session
from dpquery.dbapi.cursor import Cursor
from dpquery.dbapi.faults import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    not_taken_back,
    translated,
)
from dpquery.dbapi.kinds import (
    BINARY,
    BOOLEAN,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from dpquery.session import Session

__all__ = [
    "BINARY",
    "BOOLEAN",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

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

    def __init__(self, session: Session) -> None:
        self.session = session

    def cursor(self) -> Cursor:
        """Open a cursor.

        Raises:
            InterfaceError: the connection is closed.
        """
        with translated():
            self.session.require_usable()
        return Cursor(self)

    def commit(self) -> None:
        """Do nothing: a charge is durable before its answer is seen.

        Raises:
            InterfaceError: the connection is closed.
        """
        with translated():
            self.session.require_usable()

    def rollback(self) -> None:
        """Refuse: what is charged stays charged.

        Raises:
            NotSupportedError: always.
            InterfaceError: the connection is closed.
        """
        with translated():
            self.session.require_usable()
        raise NotSupportedError(not_taken_back())

    def close(self) -> None:
        """End the session; closing twice is fine."""
        self.session.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
