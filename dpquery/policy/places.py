"""Where tables are, in words that stay the same when all of it is moved together."""

from __future__ import annotations

from os.path import relpath
from pathlib import Path

from dpquery.policy.model import DatabaseTable, Files, Policy, Table

__all__ = ["from_ledger", "place_name", "place_of"]


def place_of(table: Table, policy: Policy) -> tuple[object, ...]:
    """Say where a table is, seen from the ledger: one may serve policies of several places.

    A glob is as the owner wrote it: which files there are now is up to the data.
    """
    match table.source:
        case DatabaseTable(database, name):
            return from_ledger(database, policy), name
        case Files(paths) if not table.written:
            return tuple(from_ledger(path, policy) for path in paths)
    return from_ledger(policy.directory, policy), table.written


def place_name(table: Table, policy: Policy) -> str:
    """Write where a table is as the ledger does that keeps what stood there."""
    return repr(place_of(table, policy))


def from_ledger(path: Path, policy: Policy) -> str:
    """Give the way from the ledger to a path, the same however that is spelled."""
    ledger = policy.ledger.path
    return relpath(path, Path("/") if ledger is None else ledger.parent)
