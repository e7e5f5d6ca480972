"""What a policy promises: whose losses are counted, by names that tables are known again by.

A table is known by its name if its files were moved, and by where these are if it was renamed,
however the path is spelled: the same rows under another unit would have another loss, and the
sum of both is neither. What a policy calls the unit of all tables stands beside them. It may be
said of a ledger that was used without it: that losses add up for each table's unit, they do for
whoever is that unit in several tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from os.path import relpath
from pathlib import Path

from dpquery.budget.ledger.owner_orders import PUBLIC, Promise
from dpquery.policy.model import MAIN, DatabaseTable, External, Frame, Policy, Table

FEW = 16
"""Files that are named one by one; more of them come and go."""


def promise_of(policy: Policy) -> Promise:
    """Take from a policy what its losses are about."""
    tables = sorted(policy.tables.values(), key=lambda table: table.name)
    units = ((name, _unit(table)) for table in tables for name in _names(table, policy))
    named = [] if policy.unit is None else [("unit", f"one {policy.unit}")]
    return Promise(policy.neighbours.value, (*dict.fromkeys(units), *named))


def _names(table: Table, policy: Policy) -> Iterator[str]:
    yield f"table {table.name.lower()}"
    if isinstance(table.source, DatabaseTable):
        place, schema = _resolved(table.source.database, policy), table.source.schema.lower()
        within = "" if schema == MAIN else f"{schema}."
        yield f"path {place} {within}{table.source.table.lower()}"
        return
    if isinstance(table.source, External):
        root = table.source.root
        yield f"path {root if '://' in root else _resolved(Path(root), policy)}"
        return
    if isinstance(table.source, Frame):
        return
    paths = [policy.directory / path for path in table.written]
    if len(table.source.paths) <= FEW:
        paths += table.source.paths  # a pattern is known by them, too
    yield from dict.fromkeys(f"path {_resolved(path, policy)}" for path in paths)


def _resolved(path: Path, policy: Policy) -> str:
    """Return the way from the ledger to a file, whatever links lead there."""
    ledger = policy.ledger.path
    return relpath(path.resolve(), Path("/") if ledger is None else ledger.parent.resolve())


def _unit(table: Table) -> str:
    if table.public:
        return PUBLIC
    way = "" if table.through is None else f" through {str(table.through).lower()}"
    return "by row" if table.unit is None else f"by {table.unit.lower()}{way}"
