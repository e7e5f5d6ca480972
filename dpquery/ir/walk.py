"""Walks over a tree: which nodes stand in it, and the tree with others in their place.

Released constants are found and filled in so. A value of an earlier release may stand among the
rows of a later one. The scan is charged with the place alone; the value comes when the earlier
release is drawn. Anything of the scan that is not a constant stays as it was charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from dpquery.ir.expr import ColumnRef, Constant, Expr, Scalar, parts

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
