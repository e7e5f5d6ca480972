"""Released constants in a scan: which there are, and how their values are put in.

A value of an earlier release may stand among the rows of a later one. The scan is charged with
the place alone; the value comes when the earlier release is drawn. Anything of the scan that is
not a constant stays as it was charged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from dpquery.expr import Constant, Scalar

__all__ = ["constants_in", "filled", "nodes_in"]

T = TypeVar("T")


def constants_in(tree: object) -> Iterator[Constant]:
    """Give the constants anywhere in a tree of our nodes."""
    return nodes_in(tree, Constant)


def nodes_in(tree: object, kind: type[T]) -> Iterator[T]:
    """Return the nodes of one kind anywhere in a tree of our nodes, each place once."""
    pending = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, kind):
            yield part
        pending.extend(reversed(list(_parts(part))))


def _parts(tree: object) -> Iterator[object]:
    if isinstance(tree, tuple):
        yield from tree
    elif is_dataclass(tree) and not isinstance(tree, type):
        yield from (getattr(tree, one.name) for one in fields(tree))


def filled(tree: T, values: Mapping[int, Scalar | None]) -> T:
    """Give a tree in which each constant has its value."""
    if isinstance(tree, Constant):
        return replace(tree, value=values[tree.number], known=True)
    if isinstance(tree, tuple):
        parts = tuple(filled(part, values) for part in tree)
        same = all(new is old for new, old in zip(parts, tree, strict=True))
        return tree if same else parts  # type: ignore[return-value]
    if not is_dataclass(tree) or isinstance(tree, type):
        return tree
    changed = {}
    for one in fields(tree):
        old = getattr(tree, one.name)
        new = filled(old, values)
        if new is not old:
            changed[one.name] = new
    return replace(tree, **changed) if changed else tree
