"""What a policy promises: whose losses are counted, by names that tables are known again by.

A table is known by its name if its files were moved, and by where these are if it was renamed,
however the path is spelled: the same rows under another unit would have another loss, and the
sum of both is neither.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpquery.budget.orders import PUBLIC, Promise
from dpquery.policy.model import DatabaseTable, Policy, Table
from dpquery.policy.places import from_ledger

__all__ = ["promise_of"]


def promise_of(policy: Policy) -> Promise:
    """Take from a policy what its losses are about."""
    tables = sorted(policy.tables.values(), key=lambda table: table.name)
    units = ((name, _unit(table)) for table in tables for name in _names(table, policy))
    return Promise(policy.neighbours.value, tuple(dict.fromkeys(units)))


def _names(table: Table, policy: Policy) -> Iterator[str]:
    yield f"table {table.name.lower()}"
    if isinstance(table.source, DatabaseTable):
        database, name = table.source.database, table.source.table
        yield f"path {from_ledger(database, policy)} {name.lower()}"
    for path in table.written:
        yield f"path {from_ledger(policy.directory / path, policy)}"


def _unit(table: Table) -> str:
    if table.public:
        return PUBLIC
    return "by row" if table.unit is None else f"by {table.unit.lower()}"
