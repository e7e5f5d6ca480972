"""Trees as text that says what they mean, the same text for the same question.

What the ledger knows stored releases and bounds by. A class is written by its name and the
fields by which two of it are told apart: a field that is added makes another question, since a
key that left it out would give an answer to a question that it is not of. Not written is where
things stand in what an analyst typed, how relations happen to be numbered, and which search
found what stands there. Values that earlier releases gave are written out: rows are compared
with them, not with a place in a statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from fractions import Fraction

from dpquery.core.identity_text import identity
from dpquery.core.source_text import Span
from dpquery.core.types import Type
from dpquery.errors import internal
from dpquery.ir.expr import Code, ColumnRef, Constant
from dpquery.ir.measures import Weight
from dpquery.ir.query import Finding
from dpquery.ir.relations import (
    PerUnit,
    Project,
    PublicJoin,
    TableScan,
    UnionAll,
    Unnest,
    Windowed,
)

_NUMBERED = (TableScan, Project, PublicJoin, Unnest, UnionAll, PerUnit, Windowed)


class Writer:
    """Writes a tree without places in the text, its relations numbered as they come."""

    def __init__(self, numbers: Mapping[int, int] | None = None) -> None:
        self._numbers = dict(numbers or {})

    def after(self) -> Writer:
        """Return a writer that goes on from here, and leaves this one where it is."""
        return Writer(self._numbers)

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
        if isinstance(part, Enum):
            return f"<{type(part).__name__}.{part.name}: {identity(part.value)}>"
        if part is None or isinstance(part, str | int | Fraction | date | time):
            return identity(part)
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
            if isinstance(part, Type) and one.name == "zone" and not value:
                continue  # of instants alone
            numbered = isinstance(part, _NUMBERED) and one.name == "number"
            if numbered or (isinstance(part, ColumnRef) and one.name == "of"):
                value = self._numbers.setdefault(value, len(self._numbers))
            yield self.text(value)
