"""The types of values, as policy and query see them, and the ranges they can take.

A type comes from the policy and never from the data (I1). An `Interval` holds what is publicly
known of a numeric value's range; interval arithmetic over it shows that nothing can overflow
(I12).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Literal

RowLimit = int | Literal["auto"] | None
"""How many rows of one unit count: stated, found by a release, or not said by anybody."""
ROWS_MAX = 2**20
"""The largest of these limits: weights have 32 bits to divide among so many rows."""

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - our timestamps have no zone
_EDGE = timedelta(days=2)
FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)
INT64 = (-(2**63), 2**63 - 1)
WIDEST_EXACT = 2**126
"""Exact integers and decimals stay below this in size: one bit less than the engine's widest
type."""
DECIMAL_DIGITS = 38


class Kind(StrEnum):
    """The families of values; a comparison stays within one, and all numbers are one."""

    INTEGER = "integer"
    DOUBLE = "double"
    DECIMAL = "decimal"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    TIME = "time"


MOMENTS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
"""What has a place in the calendar."""
NUMERIC = frozenset({Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL})


@dataclass(frozen=True, slots=True)
class Type:
    """A value's type; precision and scale belong to decimals only."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    listed: bool = False
    """Whether it is a list of such values: released ones only."""
    zone: str = ""
    """Of instants, the zone in which they are shown and looked up in the calendar."""

    @property
    def numeric(self) -> bool:
        """Whether arithmetic applies."""
        return self.kind in NUMERIC and not self.listed

    def identity(self) -> str:
        """Return the name of the type in the ledger."""
        kind = f"<Kind.{self.kind.name}: '{self.kind.value}'>"
        parts = f"precision={self.precision}, scale={self.scale}, listed={self.listed}"
        return f"Type(kind={kind}, {parts}{f', zone={self.zone!r}' if self.zone else ''})"

    def __str__(self) -> str:
        name = self.kind.value
        if self.kind is Kind.DECIMAL:
            name = f"decimal({self.precision},{self.scale})"
        return f"{name}[]" if self.listed else name


INTEGER = Type(Kind.INTEGER)
DOUBLE = Type(Kind.DOUBLE)
TEXT = Type(Kind.TEXT)
BOOLEAN = Type(Kind.BOOLEAN)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
TIME = Type(Kind.TIME)
UTC_ZONE = "UTC"
DAY = 24 * 3600 * 10**6
"""Microseconds of a day."""
TIMESTAMPTZ = Type(Kind.TIMESTAMPTZ, zone=UTC_ZONE)


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed range of numbers; None at an end means that nothing is known there."""

    low: Fraction | None
    high: Fraction | None

    @classmethod
    def point(cls, value: Fraction | int) -> Interval:
        """Return the range of one known value."""
        return cls(Fraction(value), Fraction(value))

    @property
    def bounded(self) -> bool:
        """Whether both ends are known."""
        return self.low is not None and self.high is not None

    def within(self, low: Fraction | int, high: Fraction | int) -> bool:
        """Return whether every value of the range lies between two numbers."""
        return (
            self.low is not None
            and self.high is not None
            and low <= self.low
            and self.high <= high
        )

    def __neg__(self) -> Interval:
        return Interval(
            None if self.high is None else -self.high, None if self.low is None else -self.low
        )

    def __add__(self, other: Interval) -> Interval:
        return Interval(_plus(self.low, other.low), _plus(self.high, other.high))

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return UNKNOWN
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(corners), max(corners))

    def __or__(self, other: Interval) -> Interval:
        """Return the least range that holds both."""
        return Interval(
            None if self.low is None or other.low is None else min(self.low, other.low),
            None if self.high is None or other.high is None else max(self.high, other.high),
        )

    def _ends(self, other: Interval) -> tuple[Fraction | None, Fraction | None]:
        """Return between which ends lies what is in both: nothing, if the low one is higher."""
        low = max((end for end in (self.low, other.low) if end is not None), default=None)
        high = min((end for end in (self.high, other.high) if end is not None), default=None)
        return low, high

    def meets(self, other: Interval) -> bool:
        """Return whether anything lies in both."""
        low, high = self._ends(other)
        return low is None or high is None or low <= high

    def __and__(self, other: Interval) -> Interval:
        """Return what lies in both; where nothing does, the end of the first that is nearest.

        >>> Interval(Fraction(0), Fraction(5)) & Interval(Fraction(7), None)
        Interval(low=Fraction(5, 1), high=Fraction(5, 1))
        """
        low, high = self._ends(other)
        if low is not None and high is not None and low > high:
            nearest = self.high if other.low == low else self.low
            return Interval(nearest, nearest)
        return Interval(low, high)


UNKNOWN = Interval(None, None)


def _plus(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    return None if a is None or b is None else a + b


def in_every_calendar(clock: datetime) -> bool:
    """Return whether a moment is of years 1 to 9999 in every time zone.

    >>> in_every_calendar(EPOCH), in_every_calendar(EPOCH.max)
    (True, False)
    """
    return EPOCH.min + _EDGE <= clock.replace(tzinfo=None) <= EPOCH.max - _EDGE


def decimal_value(code: int, scale: int) -> Decimal:
    """Return the decimal of a number of steps: written, since arithmetic keeps 28 digits.

    >>> decimal_value(-12345, 2), decimal_value(10**37 - 1, 37)
    (Decimal('-123.45'), Decimal('0.9999999999999999999999999999999999999'))
    """
    return Decimal(f"{code}E-{scale}")


def ordinal(value: date | time) -> int:
    """Return the days of a date, or the microseconds of a moment, since 1970 or midnight.

    >>> ordinal(date(1970, 1, 2)), ordinal(datetime(1970, 1, 1, 0, 0, 1))
    (1, 1000000)
    """
    if isinstance(value, time):
        value = datetime.combine(EPOCH, value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - FIRST_INSTANT) // timedelta(microseconds=1)
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    return (value - EPOCH.date()).days
