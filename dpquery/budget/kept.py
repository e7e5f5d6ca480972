"""Bounds that were found, one row each: who paid for them, by which charge, and what they are.

They are released values and no charges: whoever changes them makes answers worse, and no less
private, and the chain shows it. Numbers are exact rationals written as text (I8).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpquery.budget.chain import Chain
from dpquery.types import Interval

__all__ = ["KeptBounds"]


@dataclass(frozen=True, slots=True)
class KeptBounds:
    """The bounds in an open ledger; rows are added within `Store.writing`."""

    chain: Chain

    def newest(self, analyst: str, key: str) -> Interval | None:
        """Give what an analyst has paid for last under a key.

        Raises:
            ValueError: the row is not the one that was written.
        """
        newest = "analyst = ? AND key = ? ORDER BY sequence DESC LIMIT 1"
        rows = self.chain.found(newest, (analyst, key))
        return Interval(*map(Fraction, rows[0][-2:])) if rows else None

    def add(self, charge: str, analyst: str, key: str, bounds: Interval) -> None:
        """Add what a charge paid for."""
        self.chain.append([(charge, analyst, key, str(bounds.low), str(bounds.high))])
