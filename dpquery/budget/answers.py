"""Answers that were paid for, one row for each release.

A row holds what was drawn, as text: released values, which may be read again free by whoever
may see them. It is found by a key that says what was asked, of which version of the data and
under which policy. Nothing here is a charge, and nothing here was decided by looking at rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpquery.budget.chain import Chain

__all__ = ["Answers", "Holder"]

_NEWEST = """
    key = ? AND ((analyst = ? AND rights = ?) OR (shared = 1 AND ? = 1))
    ORDER BY sequence DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who may see an answer again: an analyst with certain rights, or everybody."""

    analyst: str
    rights: str
    """What the policy grants them, as text: with other rights they are somebody else."""
    shared: bool
    """Whether the policy shares answers among its analysts."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of an open ledger; rows are added within `Store.writing`."""

    chain: Chain

    def newest(self, holder: Holder, key: str) -> str | None:
        """Give what was drawn last under a key, where the holder may see it.

        Raises:
            ValueError: the row is not the one that was written.
        """
        asked = (key, holder.analyst, holder.rights, int(holder.shared))
        rows = self.chain.found(_NEWEST, asked)
        return str(rows[0][-1]) if rows else None

    def add(self, charge: str, holder: Holder, drawn: Mapping[str, str]) -> None:
        """Add what a charge paid for, by its keys."""
        whose = (charge, holder.analyst, holder.rights, int(holder.shared))
        self.chain.append([(*whose, key, text) for key, text in drawn.items()])
