"""Opens what DuckDB does not read by itself: one line here for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpquery.policy.model import External
from dpquery.policy.sources.lakes import delta_table, iceberg_table, objects
from dpquery.policy.sources.snapshot_reader import Snapshot, Unreadable
from dpquery.policy.sources.sqlite_postgres import postgres_table, sqlite_table

OPENERS: Mapping[str, Callable[[External], Snapshot]] = {
    "delta": delta_table,
    "iceberg": iceberg_table,
    "objects": objects,
    "postgres": postgres_table,
    "sqlite": sqlite_table,
}


def opened(source: External) -> Snapshot:
    """Open the state in which a source is now.

    Raises:
        Unreadable: it cannot be opened, or has what cannot be read soundly.
    """
    try:
        return OPENERS[source.kind](source)
    except Unreadable:
        raise
    except Exception as fault:  # noqa: BLE001 - libraries raise what they like
        # Their texts can quote values, of statistics say.
        raise Unreadable(f"cannot be read: {type(fault).__name__}") from None
