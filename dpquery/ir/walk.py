"""Released constants in a scan: which there are, and how their values are put in.

A value of an earlier release may stand among the rows of a later one. The scan is charged with
the place alone; the value comes when the earlier release is drawn. Anything of the scan that is
not a constant stays as it was charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import date, time
from enum import Enum
from fractions import Fraction
from typing import TypeVar

from dpquery.core.source import Span
from dpquery.core.stable_names import identity
from dpquery.core.types import Type
from dpquery.errors import internal
from dpquery.ir.expr import Code, ColumnRef, Constant, Expr, Scalar, parts
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

T = TypeVar("T")


def constants_in(tree: object) -> Iterator[Constant]:
    """Return the constants anywhere in a tree of our nodes."""
    return nodes_in(tree, Constant)


def nodes_in(tree: object, kind: type[T]) -> Iterator[T]:
    """Return the nodes of one kind anywhere in a tree of our nodes, each place once."""
    pending = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, kind):
            yield part
        pending.extend(reversed(parts(part)))


def expressions_in(tree: object) -> Iterator[Expr]:
    """Return the outermost expressions anywhere in a tree of our nodes, in order.

    Every field of every node is looked at, so that none that is added can hide one.
    """
    pending = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, Expr):
            yield part
        else:
            pending.extend(reversed(parts(part)))


def filled(tree: T, values: Mapping[int, Scalar | None]) -> T:
    """Return a tree in which each constant has its value."""

    def known(part: object) -> object:
        if not isinstance(part, Constant):
            return None
        return replace(part, value=values[part.number], known=True)

    return _changed(tree, known) if values else tree


def with_columns(tree: T, columns: Mapping[tuple[int, str], Expr]) -> T:
    """Return a tree with other expressions in the place of some columns."""

    def other(part: object) -> object:
        return columns.get((part.of, part.name)) if isinstance(part, ColumnRef) else None

    return _changed(tree, other)


def _changed(tree: T, change: Callable[[object], object]) -> T:
    """Return a tree with each part replaced of which another is given."""
    other = change(tree)
    if other is not None:
        return other  # type: ignore[return-value]
    if isinstance(tree, tuple):
        parts = tuple(_changed(part, change) for part in tree)
        same = all(new is old for new, old in zip(parts, tree, strict=True))
        return tree if same else parts  # type: ignore[return-value]
    if not is_dataclass(tree) or isinstance(tree, type):
        return tree
    changed = {}
    for one in fields(tree):
        old = getattr(tree, one.name)
        new = _changed(old, change)
        if new is not old:
            changed[one.name] = new
    return replace(tree, **changed) if changed else tree


# Trees as text that says what they mean, the same text for the same question: what the
# ledger knows stored releases and bounds by.
#
# A class is written by its name and the fields by which two of it are told apart: a field
# that is added makes another question, since a key that left it out would give an answer to
# a question that it is not of. Not written is where things stand in what an analyst typed,
# how relations happen to be numbered, and which search found what stands there. Values that
# earlier releases gave are written out: rows are compared with them, not with a place in a
# statement.


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
