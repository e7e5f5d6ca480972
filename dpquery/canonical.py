"""Trees as text that says what they mean: the same text for the same question.

Left out is where things stand in what an analyst typed, and how relations happen to be
numbered. Values that earlier releases gave are written out: rows are compared with them, not
with a place in a statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from fractions import Fraction

from dpquery.errors import internal
from dpquery.expr import Code, ColumnRef, Constant
from dpquery.ir import Finding, Weight
from dpquery.relations import PerUnit, Project, PublicJoin, TableScan, UnionAll, Windowed
from dpquery.source import Span

__all__ = ["Writer"]

_NUMBERED = (TableScan, Project, PublicJoin, UnionAll, PerUnit, Windowed)
_LEAVES = (str, int, Fraction, date, Enum)


class Writer:
    """Writes a tree without places in the text, its relations numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def text(self, part: object) -> str:
        """Write a part of a tree.

        Raises:
            InternalError: there is something in it that has no text of its own.
        """
        if isinstance(part, tuple):
            return f"({','.join(map(self.text, part))})"
        if isinstance(part, frozenset):
            return self.text(tuple(sorted(part)))
        if isinstance(part, Constant | Finding):
            return f"{type(part).__name__}({','.join(self._known(part))})"
        if is_dataclass(part) and not isinstance(part, type):
            return f"{type(part).__name__}({','.join(self._fields(part))})"
        if part is None or isinstance(part, _LEAVES):
            return repr(part)
        raise internal("what a question is made of can be written")

    def _known(self, part: Constant | Finding) -> Iterator[str]:
        """Write what an earlier release put there, in place of which release it is."""
        if not part.known:
            raise internal("a question is written once nothing in it waits for a value")
        match part:
            case Constant(type=type_, value=value):
                yield from map(self.text, (type_, value))
            case Finding(most=most, values=values):
                yield from map(self.text, (most, values))

    def _fields(self, part: object) -> Iterator[str]:
        for one in fields(part):  # type: ignore[arg-type]
            value = getattr(part, one.name)
            if isinstance(value, Span) or not one.compare:
                continue
            if isinstance(part, Code | Weight) and one.name == "search":
                continue  # which search found ends or limit says nothing: they are written
            if isinstance(part, TableScan) and one.name == "kept" and value == 1:
                continue  # written as before there could be more: what was paid for is found
            numbered = isinstance(part, _NUMBERED) and one.name == "number"
            if numbered or (isinstance(part, ColumnRef) and one.name == "of"):
                value = self._numbers.setdefault(value, len(self._numbers))
            yield self.text(value)
