"""Why a ledger is refused, in words for the data owner.

Wording is constant for each cause: the owner sees which file and what to do, never the
message of SQLite or of the operating system. A fault never turns into a receipt.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpquery.errors import Diagnostic, PolicyInvalid

_DISK = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOLFS,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
"""SQLite's codes for what happens to a sound file; any other means that it is not sound."""

# Ledgers that cannot be trusted: what each is, why that matters, and what to do.

DAMAGED = (
    "the ledger is damaged",
    "its charges do not agree with their hashes and totals, so what is spent is not known.",
    "bring back a copy that holds every charge",
)
FOREIGN = (
    "the file is not a ledger",
    "charges are only written to a file that dpquery has created.",
    "name another file for the ledger; it is created when it does not exist",
)
OCCUPIED = (
    "the schema is not a ledger",
    "a ledger has a schema of its own, which dpquery makes.",
    "name another database, or in a policy's [ledger] another schema: dpquery makes it",
)
REPLACED = (
    "the ledger was replaced while it was open",
    "charges would be missing from one of the two.",
    "connect again, once the newest copy is back in its place",
)
UNKNOWN_FORMAT = (
    "the ledger has a format that this version does not know",
    "charges that cannot be read cannot be counted.",
    "open it with the version of dpquery that wrote it, or a later one",
)
UNREADABLE_MARK = (
    "the high-water mark cannot be read",
    "it says how far the ledger had come, so without it a lost charge would go unseen.",
    "bring the file back, or remove it once the ledger is known to be complete",
)


def refused(file: Path | str | None, title: str, why: str, *remedy: str) -> PolicyInvalid:
    """Refuse a ledger that cannot be trusted."""
    return _refused("DPQ605", file, title, (why,), *remedy)


def _refused(
    code: str, file: Path | str | None, title: str, why: tuple[str, ...], *remedy: str
) -> PolicyInvalid:
    diagnostic = Diagnostic(code, title, why=why, remedy=remedy)
    return PolicyInvalid(diagnostic, None if file is None else str(file))


def missing(file: Path | str | None, witness: Path | None = None) -> PolicyInvalid:
    """Refuse to begin again where a ledger has been."""
    return _refused(
        "DPQ614",
        file,
        "the ledger was here and is gone",
        ("a new one would give back everything that it has spent.",),
        "bring it back, from the newest backup",
        *(() if witness is None else (f"{_removal(witness)}    begins with the whole budget",)),
    )


def rolled_back(
    file: Path | str | None, witness: str, mark: Path | None = None
) -> PolicyInvalid:
    """Refuse an earlier copy of a ledger."""
    return refused(
        file,
        f"the ledger is older than {witness}",
        "charges that were made are missing from it, so what is spent is not known.",
        "bring back a copy that holds every charge",
        *(() if mark is None else (forgetting(mark),)),
    )


def forgetting(mark: Path) -> str:
    """Return how an owner goes on who has decided to do without what is missing."""
    return f"{_removal(mark)}    goes on with this one: what is missing can be spent again"


def _removal(file: Path) -> str:
    return f"rm {shlex.quote(str(file))}"


def another_promise(file: Path | str | None, broken: str) -> PolicyInvalid:
    """Refuse a policy that protects others than the ledger has counted losses for."""
    return _refused(
        "DPQ609",
        file,
        f"the ledger counts other losses than this policy: {broken}",
        ("what is lost of one kind of neighbours or units does not add up with another's.",),
        "state it in the policy as it was",
        "or name another ledger, and see that both budgets may be spent",
    )


def unwritable(file: Path | str | None) -> PolicyInvalid:
    """Fail where a charge cannot be made durable.

    A folder is not made here: where a disk is missing, a ledger would begin anew in its place.
    """
    if file is not None and not (folder := Path(file).absolute().parent).exists():
        return _unconfirmed(
            file, f"mkdir -m 700 {shlex.quote(str(folder))}", "its folder does not exist."
        )
    where = "look at free space, and at who may write the ledger and its directory"
    return _unconfirmed(file, where)


def unreachable(server: str, cause: str) -> PolicyInvalid:
    """Fail where a server has not confirmed a charge, whether or not it has made it."""
    where = "look at the server, and at what its role may do in the ledger's schema"
    return _unconfirmed(server, where, cause)


def _unconfirmed(place: Path | str | None, remedy: str, *causes: str) -> PolicyInvalid:
    why = "a charge is on disk before anything is scanned: nothing was scanned."
    return _refused("DPQ606", place, "the ledger cannot be written", (why, *causes), remedy)


def unsafe(server: str, why: str) -> PolicyInvalid:
    """Refuse a server that may lose what it has confirmed."""
    return refused(
        server,
        "the server does not keep what it confirms",
        why,
        "change that setting of the server, or name another one",
    )


def uncopied(server: str, schema: str) -> PolicyInvalid:
    """Refuse to copy what a server's own programs copy."""
    return refused(
        server,
        "a ledger on a server is backed up by the server's programs",
        "they copy it as of one moment, while sessions charge.",
        f"pg_dump --schema={shlex.quote(schema)}",
    )


def undriven(server: str) -> PolicyInvalid:
    """Refuse a server where the package that talks to it is not installed."""
    return _refused(
        "DPQ611",
        server,
        "a ledger on a server needs a package that is not installed: psycopg",
        ("dpquery itself keeps ledgers in files.",),
        "pip install 'dpquery[postgres]'",
    )


@contextmanager
def faults(file: Path | str | None) -> Iterator[None]:
    """Turn what SQLite, the file system and a parser raise into a refusal of this file."""
    try:
        yield
    except OSError as fault:
        raise unwritable(file) from fault
    except sqlite3.Error as fault:
        raise _judged(file, fault) from fault
    except (ValueError, ArithmeticError) as fault:  # a field that is no number, event or total
        raise refused(file, *DAMAGED) from fault


def _judged(file: Path | str | None, fault: sqlite3.Error) -> PolicyInvalid:
    # The low byte is the cause. Python's own complaints, such as text in no UTF-8, have none.
    cause = getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if cause in _DISK:
        return unwritable(file)
    return refused(file, *(FOREIGN if cause == sqlite3.SQLITE_NOTADB else DAMAGED))
