"""Names of fields inside structures, as one name: `address.city`."""

from __future__ import annotations

from collections.abc import Sequence


def dotted(path: Sequence[str]) -> str:
    """Return the one name of a field; names with a point in them stand in double quotes.

    >>> dotted(["address", "city"]), dotted(["a.b", "c"])
    ('address.city', '"a.b".c')
    """
    return ".".join(name if {".", '"'}.isdisjoint(name) else _quoted(name) for name in path)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
