"""Where tables are, in words that stay the same when all of it is moved together."""

from __future__ import annotations

from os.path import relpath
from pathlib import Path

from dpquery.policy.model import DatabaseTable, Files, Policy, Table

__all__ = ["place_of"]


def place_of(table: Table, policy: Policy) -> tuple[object, ...]:
    """Say where a table is, seen from the ledger: one may serve policies of several places.

    A glob is as the owner wrote it: which files there are now is up to the data.
    """
    ledger = policy.ledger.path
    start = Path("/") if ledger is None else ledger.parent
    match table.source:
        case DatabaseTable(database, name):
            return relpath(database, start), name
        case Files(paths) if not table.written:
            return tuple(relpath(path, start) for path in paths)
    return relpath(policy.directory, start), table.written
