"""The names by which the ledger knows what a policy says: texts that outlive our classes.

Parts of a table, places and limits are stored under such a text and found again by it. A
`repr` would do until a class gets another field: then what a part has spent could no longer be
found. So a class says in `identity()` which of its facts count, and nothing else has a text.
"""

from __future__ import annotations

from datetime import date, datetime, time
from fractions import Fraction
from typing import Protocol

_PLAIN = (str, int, bool, Fraction, date, datetime, time, type(None))


class Identified(Protocol):
    """Something that is stored by name."""

    def identity(self) -> str:
        """Return its name: equal for two that mean the same to the ledger."""
        ...


Fact = str | int | Fraction | date | time | None | Identified | tuple["Fact", ...]


def identity(fact: Fact) -> str:
    """Return the text of a plain value, of what has an identity, or of a tuple of these.

    >>> identity(("people.parquet", None, (1,)))
    "('people.parquet', None, (1,))"
    """
    if isinstance(fact, tuple):
        return f"({', '.join(map(identity, fact))}{',' if len(fact) == 1 else ''})"
    if isinstance(fact, _PLAIN) and type(fact) in _PLAIN:
        return repr(fact)
    if fact is None or isinstance(fact, _PLAIN):
        raise TypeError(f"a {type(fact).__name__} is not named in the ledger")
    return fact.identity()


def record(kind: str, /, **facts: Fact) -> str:
    """Return the identity of something that consists of facts."""
    return f"{kind}({', '.join(f'{key}={identity(fact)}' for key, fact in facts.items())})"
