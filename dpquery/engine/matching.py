"""Which different values count, where each unit stands for at most so many of its own.

In a given order a value counts if all that count before it, and it, can be given to units that
have them, at most `limit` to each. So as many count as can in any way, and which ones does not
depend on the order in which the units of a value are named. That one unit adds at most `limit`
is shown in `ir/measures.py`.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Hashable, Iterable

OF_PAIR = array("q").itemsize
"""Bytes that are held of a unit and a value that it has."""
OF_UNIT = 1024
"""Bytes that are held of a unit, at most: its name and number, and the set of its values."""


class Slots:
    """Slots of units, `limit` of each, for the values that they have.

    Units are known by numbers here, so that little is held of each value that one has.
    """

    def __init__(self, limit: int, memory: int = sys.maxsize) -> None:
        """Begin without values; `memory` is how many bytes may be held."""
        self._limit = limit
        self._room = memory
        """The bytes that are left."""
        self._numbers: dict[Hashable, int] = {}
        self._units: list[array[int]] = []
        """Who has each value that was placed."""
        self._where: list[int | None] = []
        """At which unit each is."""
        self._held: dict[int, set[int]] = {}
        """The values at each unit."""
        self._closed: set[int] = set()
        """Units without a free slot, and without a value that could be moved to one."""

    def place(self, units: Iterable[Hashable]) -> bool:
        """Give the next value to one of the units that have it, if an exchange makes room.

        Raises:
            MemoryError: more would be held than may be.
        """
        value, held, closed = len(self._units), self._held, self._closed
        self._units.append(self._numbered(units))
        self._where.append(None)
        asked_by: dict[int, int] = {}
        pending = [value]
        for one in pending:
            for unit in self._units[one]:
                if unit in asked_by or unit in closed:
                    continue
                asked_by[unit] = one
                values = held.setdefault(unit, set())
                if len(values) < self._limit:
                    self._exchange(unit, asked_by)
                    return True
                pending += values
        # What these units hold, no other unit has that is not closed: no later search passes.
        closed.update(asked_by)
        self._room += OF_PAIR * len(self._units.pop())
        self._where.pop()
        return False

    def _numbered(self, units: Iterable[Hashable]) -> array[int]:
        known = self._numbers
        before = len(known)
        numbered = array("q", (known.setdefault(unit, len(known)) for unit in units))
        self._room -= OF_PAIR * len(numbered) + OF_UNIT * (len(known) - before)
        if self._room < 0:
            raise MemoryError
        return numbered

    def _exchange(self, end: int | None, asked_by: dict[int, int]) -> None:
        """Move values along a path that ends at a free slot of a unit."""
        while end is not None:
            value = asked_by[end]
            before, self._where[value] = self._where[value], end
            self._held[end].add(value)
            if before is not None:
                self._held[before].remove(value)
            end = before
