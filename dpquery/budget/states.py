"""What the files of a table were when they were first read under a version of the data.

That files differ is found by holding them against these rows. They are of private data and for
the owner's ledger alone: nothing of them is ever shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpquery.budget.chain import Chain

__all__ = ["States"]


@dataclass(frozen=True, slots=True)
class States:
    """The states in an open ledger; rows are added within `Store.writing`."""

    chain: Chain

    def first(self, version: int, place: str) -> str | None:
        """Give what stood at a place when it was first read under a version.

        Raises:
            ValueError: the row is not the one that was written.
        """
        oldest = "place = ? AND version = ? ORDER BY sequence LIMIT 1"
        rows = self.chain.found(oldest, (place, version))
        return str(rows[0][-1]) if rows else None

    def add(self, version: int, place: str, state: str) -> None:
        """Add what stands at a place."""
        self.chain.append([(version, place, state)])
