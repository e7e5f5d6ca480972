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


def refused(file: Path | str | None, title: str, why: str, *remedy: str) -> PolicyInvalid:
    """Refuse a ledger that cannot be trusted."""
    return PolicyInvalid(Diagnostic("DPQ605", title, why=(why,), remedy=remedy), _name(file))


def damaged(file: Path | str | None) -> PolicyInvalid:
    """Refuse a ledger that contradicts itself."""
    return refused(
        file,
        "the ledger is damaged",
        "its charges do not agree with their hashes and totals, so what is spent is not known.",
        "bring back a copy that holds every charge",
    )


def foreign(file: Path | str | None) -> PolicyInvalid:
    """Refuse a file that is something else."""
    return refused(
        file,
        "the file is not a ledger",
        "charges are only written to a file that dpquery has created.",
        "name another file for the ledger; it is created when it does not exist",
    )


def missing(file: Path | str | None, witness: Path | None = None) -> PolicyInvalid:
    """Refuse to begin again where a ledger has been."""
    again = () if witness is None else (f"{_removal(witness)}    begins with the whole budget",)
    diagnostic = Diagnostic(
        "DPQ614",
        "the ledger was here and is gone",
        why=("a new one would give back everything that it has spent.",),
        remedy=("bring it back, from the newest backup", *again),
    )
    return PolicyInvalid(diagnostic, _name(file))


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


def replaced(file: Path | str | None) -> PolicyInvalid:
    """Refuse to go on in another ledger than the one that was opened."""
    return refused(
        file,
        "the ledger was replaced while it was open",
        "charges would be missing from one of the two.",
        "connect again, once the newest copy is back in its place",
    )


def unknown_format(file: Path | str | None) -> PolicyInvalid:
    """Refuse a ledger of another version."""
    return refused(
        file,
        "the ledger has a format that this version does not know",
        "charges that cannot be read cannot be counted.",
        "open it with the version of dpquery that wrote it, or a later one",
    )


def another_promise(file: Path | str | None, broken: str) -> PolicyInvalid:
    """Refuse a policy that protects others than the ledger has counted losses for."""
    diagnostic = Diagnostic(
        "DPQ609",
        f"the ledger counts other losses than this policy: {broken}",
        why=(
            "what is lost of one kind of neighbours or units does not add up with another's.",
        ),
        remedy=(
            "state it in the policy as it was",
            "or name another ledger, and see that both budgets may be spent",
        ),
    )
    return PolicyInvalid(diagnostic, _name(file))


def unwritable(file: Path | str | None) -> PolicyInvalid:
    """Fail where a charge cannot be made durable."""
    diagnostic = Diagnostic(
        "DPQ606",
        "the ledger cannot be written",
        why=("a charge is on disk before anything is scanned: nothing was scanned.",),
        remedy=("look at free space, and at who may write the ledger and its directory",),
    )
    return PolicyInvalid(diagnostic, _name(file))


def occupied(server: str) -> PolicyInvalid:
    """Refuse a schema that is something else."""
    return refused(
        server,
        "the schema is not a ledger",
        "a ledger has a schema of its own, which dpquery makes.",
        "name another database, or in a policy's [ledger] another schema: dpquery makes it",
    )


def unsafe(server: str, why: str) -> PolicyInvalid:
    """Refuse a server that may lose what it has confirmed."""
    return refused(
        server,
        "the server does not keep what it confirms",
        why,
        "change that setting of the server, or name another one",
    )


def unreachable(server: str, cause: str) -> PolicyInvalid:
    """Fail where a server has not confirmed a charge, whether or not it has made it."""
    diagnostic = Diagnostic(
        "DPQ606",
        "the ledger cannot be written",
        why=("a charge is on disk before anything is scanned: nothing was scanned.", cause),
        remedy=("look at the server, and at what its role may do in the ledger's schema",),
    )
    return PolicyInvalid(diagnostic, server)


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
    diagnostic = Diagnostic(
        "DPQ611",
        "a ledger on a server needs a package that is not installed: psycopg",
        why=("dpquery itself keeps ledgers in files.",),
        remedy=("pip install 'dpquery[postgres]'",),
    )
    return PolicyInvalid(diagnostic, server)


def _name(file: Path | str | None) -> str | None:
    return None if file is None else str(file)


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
        raise damaged(file) from fault


def _judged(file: Path | str | None, fault: sqlite3.Error) -> PolicyInvalid:
    # The low byte is the cause. Python's own complaints, such as text in no UTF-8, have none.
    cause = getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if cause == sqlite3.SQLITE_NOTADB:
        return foreign(file)
    return unwritable(file) if cause in _DISK else damaged(file)
