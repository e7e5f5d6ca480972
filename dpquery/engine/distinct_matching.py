"""Which different values count, where each unit stands for at most so many of its own.

In a given order a value counts if all that count before it, and it, can be given to units that
have them, at most `limit` to each. So as many count as can in any way, and which ones does not
depend on the order in which the units of a value are named. That one unit adds at most `limit`
is shown in `ir/sensitivity.py`.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable
from typing import TypeAlias

OF_PAIR = array("q").itemsize
"""Bytes that are held of a unit and a value that it has."""
OF_UNIT = 1024
"""Bytes that are held of a unit, at most: its name and number, its level, and its queues."""

Value: TypeAlias = "array[int]"
"""A value, as the units that have it."""
_CLOSED = 1 << 62
"""The level of units from which no exchange leads to a free slot."""


class Slots:
    """Slots of units, `limit` of each, for the values that they have.

    A unit's level is at most how many values have to move before it has a free slot. A value
    goes to a unit of the lowest level, and one that goes from a full unit to one that is lower,
    as in push-relabel. Levels only rise, to no more than there are units, and the values of a
    unit are looked at once for each: the work grows with the values of one unit in proportion,
    which is what the rows of one unit may cost.

    Where no slot is left, the value that moved last is let go, be it another than the new one:
    the same values can be given to units beside those that are left.

    Units are known by numbers here, so that little is held of each value that one has.
    """

    def __init__(self, limit: int, memory: int = sys.maxsize) -> None:
        """Begin without values; `memory` is how many bytes may be held."""
        self._limit = limit
        self._room = memory
        """The bytes that are left."""
        self._numbers: dict[Hashable, int] = {}
        self._level: dict[int, int] = {}
        self._at: list[set[int]] = [set()]
        """The units of each level that leads to a free slot: up to the highest one."""
        self._held: defaultdict[int, deque[Value]] = defaultdict(deque)
        """The values at each unit, as their units: first those not seen at its level."""
        self._seen: defaultdict[int, list[Value]] = defaultdict(list)
        """Those that can go to no lower unit, while it has its level."""

    def place(self, units: Iterable[Hashable]) -> bool:
        """Give the next value to one of the units that have it, if an exchange makes room.

        Raises:
            MemoryError: more would be held than may be.
        """
        moved: Value | None = self._numbered(units)
        for unit in moved or ():
            if unit not in self._level:
                self._level[unit] = 0
                self._at[0].add(unit)
        while moved:
            unit = min(moved, key=self._level.__getitem__)
            if self._level[unit] == _CLOSED:
                self._let_go(moved)
                return False
            self._seen[unit].append(moved)  # no other unit of it is lower
            if len(self._seen[unit]) + len(self._held[unit]) <= self._limit:
                return True
            moved = self._taken(unit)
        return False

    def _numbered(self, units: Iterable[Hashable]) -> array[int]:
        known = self._numbers
        before = len(known)
        numbered = array("q", (known.setdefault(unit, len(known)) for unit in units))
        self._room -= OF_PAIR * len(numbered) + OF_UNIT * (len(known) - before)
        if self._room < 0:
            raise MemoryError
        return numbered

    def _taken(self, unit: int) -> Value | None:
        """Take a value from a full unit that can go to a lower one; None if none can go."""
        while self._level[unit] < _CLOSED:
            held, seen = self._held[unit], self._seen[unit]
            while held:
                value = held.popleft()
                if self._lowest(value, unit) < self._level[unit]:
                    return value
                seen.append(value)
            lowest = min(self._lowest(value, unit) for value in seen)
            self._raise(unit, min(lowest + 1, _CLOSED))
            self._held[unit], self._seen[unit] = deque(seen), []
        self._let_go(self._held[unit].pop())
        return None

    def _let_go(self, value: Value) -> None:
        self._room += OF_PAIR * len(value)

    def _lowest(self, value: Value, unit: int) -> int:
        """Return the level of the lowest other unit of a value."""
        return min((self._level[one] for one in value if one != unit), default=_CLOSED)

    def _raise(self, unit: int, level: int) -> None:
        """Raise a unit's level; where it was the last of the old one, none above leads down."""
        old = self._level[unit]
        self._level[unit] = level
        self._at[old].remove(unit)
        if level < _CLOSED:
            self._at += [set() for _ in range(len(self._at), level + 1)]
            self._at[level].add(unit)
        if not self._at[old]:
            for above in self._at[old + 1 :]:  # each is closed once, however many there are
                self._level.update(dict.fromkeys(above, _CLOSED))
            del self._at[max(old, 1) :]
