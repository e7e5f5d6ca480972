"""Time zones: how far local time is from UTC at each instant, as tables of changes.

One table serves the engine, the meaning of functions and the listing of groups, so that all
agree on every microsecond, whatever tables of zones a library brings along. It has the changes
of the years 1900 to 2100; before and after, the offset at that end goes on.

Instants and local times are microseconds since 1970, in UTC and on the local clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

SECOND = 1_000_000
_FIRST, _LAST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1900, 2100))
_STEP = 3 * 24 * 3600
"""Seconds from look to look: no zone goes to another offset and back within them."""


@dataclass(frozen=True, slots=True)
class Changes:
    """When an offset changes, and the offsets: one more, of the time before the first."""

    starts: tuple[int, ...]
    offsets: tuple[int, ...]

    def at(self, place: int) -> int:
        """Return the offset at an instant, or at whatever the starts are of."""
        return self.offsets[bisect_right(self.starts, place)]

    def between(self, low: int, high: int) -> Changes:
        """Return the part that tells the offsets from one end to another."""
        first, last = bisect_right(self.starts, low), bisect_right(self.starts, high)
        return Changes(self.starts[first:last], self.offsets[first : last + 1])


def known(zone: str) -> bool:
    """Return whether a zone has that name.

    >>> known("Europe/Berlin"), known("Mars/Base")
    (True, False)
    """
    return zone in available_timezones()


@lru_cache(maxsize=64)
def changes(zone: str) -> Changes:
    """Return the offsets of a zone by instant."""
    place = ZoneInfo(zone)

    def offset(second: int) -> int:
        found = datetime.fromtimestamp(second, place).utcoffset()
        return 0 if found is None else int(found.total_seconds())

    starts, offsets, at = list[int](), [offset(_FIRST)], _FIRST
    while at < _LAST:
        end = min(at + _STEP, _LAST)
        while offset(end) != offsets[-1]:
            low, high = at, end
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle) == offsets[-1] else (low, middle)
            starts.append(high * SECOND)
            offsets.append(offset(high))
            at = high
        at = end
    return Changes(tuple(starts), tuple(each * SECOND for each in offsets))


@lru_cache(maxsize=64)
def changes_by_clock(zone: str) -> Changes:
    """Return the offsets of a zone by local time.

    A time that the clock shows twice is the first one. One that it leaves out is counted on
    with the offset before: half past two is half past three where summer begins at two.
    """
    found = changes(zone)
    around = zip(found.starts, found.offsets, found.offsets[1:], strict=False)
    starts = tuple(start + max(before, after) for start, before, after in around)
    return Changes(starts, found.offsets)


def to_clock(instant: int, zone: str) -> int:
    """Return the local time of an instant."""
    return instant + changes(zone).at(instant)


def to_instant(clock: int, zone: str) -> int:
    """Return the instant of a local time."""
    return clock - changes_by_clock(zone).at(clock)


def clock_range(low: int, high: int, zone: str) -> tuple[int, int]:
    """Return the least and the greatest local time of a range of instants."""
    found = changes(zone)
    ends = [low, high]
    for start in found.between(low, high).starts:
        ends += [start - 1, start]
    local = [end + found.at(end) for end in ends]
    return min(local), max(local)


def began(instant: int, size: int, zone: str) -> int:
    """Return when an hour, a minute or a second of the local clock began.

    An hour that the clock shows twice began twice: the offset stays that of the instant.
    """
    return instant - to_clock(instant, zone) % size


def beginnings(low: int, high: int, size: int, zone: str) -> Iterator[int]:
    """Return when each hour, minute or second began that a range of instants touches."""
    starts = (low, *changes(zone).between(low, high).starts)
    last = None
    for start, end in zip(starts, (*(s - 1 for s in starts[1:]), high), strict=True):
        for at in range(began(start, size, zone), end + 1, size):
            if last is None or at > last:
                yield at
                last = at
