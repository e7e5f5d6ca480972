"""What this module raises, by the names of PEP 249; each keeps code, span and text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpquery import errors
from dpquery.errors import Diagnostic, DPQueryError, SessionUnusable

__all__ = [
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
    "not_taken_back",
    "nothing_to_give",
    "translated",
]


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
    """Policy or ledger need mending, or a scan broke off; then its charge stays."""


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
    return SessionUnusable(
        Diagnostic(
            "DPQ803",
            title,
            why=("a cursor hands out the rows of the statement that it asked last.",),
            remedy=("cursor = connection.cursor(); cursor.execute(...)",),
        )
    )


def not_taken_back() -> SessionUnusable:
    """Say that there are no transactions."""
    return SessionUnusable(
        Diagnostic(
            "DPQ804",
            "a charge is not taken back",
            why=("what an answer has told stays told.",),
            remedy=("connection.commit() does nothing, and is always right",),
        )
    )
