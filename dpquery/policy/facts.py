"""What the stages before `open` may ask of public tables, and nothing else (I1).

The public engine serves it; the stages know this protocol only. Nothing here reads a private
row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dpquery.ir import Above, Scalar
from dpquery.types import Type

__all__ = ["LONGEST_PUBLIC", "PublicFacts"]

LONGEST_PUBLIC = 2**12
"""Characters of a public text that private rows may be joined to: a longer one is NULL."""


class PublicFacts(Protocol):
    """Facts of public tables and their engine: the same for every neighbour."""

    def columns(self, table: str) -> Sequence[str]:
        """Give the columns of a public table, in order."""
        ...

    def types(self, table: str) -> Mapping[str, Type]:
        """Give the columns of a public table whose types a policy can name, in order."""
        ...

    def values(self, table: str, column: str) -> tuple[Scalar, ...] | None:
        """Give the different values of a column, but for NULL; None of very many."""
        ...

    def nulls(self, table: str, column: str) -> bool:
        """Say whether a column has NULL in some row."""
        ...

    def height(self, table: str) -> int:
        """Return how many rows a public table has."""
        ...

    def longest(self, table: str, column: str) -> int:
        """Return how many characters the longest value of a column has, written as a text."""
        ...

    def relation(self, table: str) -> str:
        """Give the engine's own name of a public table."""
        ...

    def listed(self, above: Above) -> Sequence[object] | None:
        """Give the values of a query of one column over public tables; None if it fails."""
        ...

    def matches_with(self, pattern: str) -> bool:
        """Say whether a pattern in the engine's SQL can be used, as far as it is a constant."""
        ...

    def accepts(self, above: Above, released: Sequence[Mapping[str, Type]]) -> bool:
        """Say whether a query fits the types of the tables it would be run over."""
        ...
