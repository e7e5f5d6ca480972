"""Bounds that were found, one row each: who paid for them, by which charge, and what they are.

They are released values and no charges: whoever changes them makes answers worse, and no less
private. They are append-only and under a chain of hashes of their own, so that this is seen.
This module knows no file; numbers are exact rationals written as text (I8).
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import NamedTuple

from dpquery.types import Interval

__all__ = ["KeptBounds", "seal_of"]


class KeptBounds(NamedTuple):
    """A row as it stands in the file, every field as text but the first."""

    sequence: int
    charge: str
    analyst: str
    key: str
    low: str
    high: str
    hash: str

    @classmethod
    def after(
        cls, sequence: int, seal: str, whose: tuple[str, str, str], bounds: Interval
    ) -> KeptBounds:
        """Write the bounds of a charge, analyst and key, after a row's sequence and hash."""
        fields = (sequence + 1, *whose, str(bounds.low), str(bounds.high))
        return cls(*fields, seal_of(seal, fields))

    def follows(self, seal: str) -> bool:
        """Say whether this row is untouched and stands after the row with that hash."""
        return self.hash == seal_of(seal, self[:-1])

    @property
    def interval(self) -> Interval:
        """The bounds as numbers.

        Raises:
            ValueError: they are no numbers.
        """
        return Interval(Fraction(self.low), Fraction(self.high))


def seal_of(previous: str, fields: tuple[object, ...]) -> str:
    """Give the hash of a row that stands after one with another hash."""
    text = json.dumps([previous, *fields], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
