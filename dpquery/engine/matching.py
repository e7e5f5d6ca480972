"""Which different values count, where each unit stands for at most so many of its own.

In a given order a value counts if all that count before it, and it, can be given to units that
have them, at most `limit` to each. So as many count as can in any way, and which ones does not
depend on the order in which the units of a value are named. That one unit adds at most `limit`
is shown in `ir/measures.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable


class Slots:
    """Slots of units, `limit` of each, for the values that they have."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._units: list[Collection[Hashable]] = []
        """Who has each value that was placed."""
        self._where: list[Hashable] = []
        """At which unit each is."""
        self._held: dict[Hashable, set[int]] = {}
        """The values at each unit."""
        self._closed: set[Hashable] = set()
        """Units without a free slot, and without a value that could be moved to one."""

    def place(self, units: Collection[Hashable]) -> bool:
        """Give the next value to one of the units that have it, if an exchange makes room."""
        value, held, closed = len(self._units), self._held, self._closed
        self._units.append(units)
        self._where.append(None)
        asked_by: dict[Hashable, int] = {}
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
        self._units.pop()
        self._where.pop()
        return False

    def _exchange(self, end: Hashable, asked_by: dict[Hashable, int]) -> None:
        """Move values along a path that ends at a free slot of a unit."""
        while end is not None:
            value = asked_by[end]
            before, self._where[value] = self._where[value], end
            self._held[end].add(value)
            if before is not None:
                self._held[before].remove(value)
            end = before
