"""The calendar of days and microseconds since 1970: parts, beginnings, months further on.

Only years 1 to 9999 have one here; who asks holds moments against `base.CALENDAR` first.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Mapping
from datetime import date
from typing import NamedTuple

from dpquery.types import EPOCH

__all__ = ["CLOCK", "DAY", "PARTS", "UNITS", "Moment", "began", "moment", "months_on"]

_ZERO = EPOCH.toordinal()
SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
DAY = 24 * HOUR
CLOCK = {"hour": HOUR, "minute": MINUTE, "second": SECOND}
"""Microseconds of the units that only timestamps have."""
UNITS = {"year": 12, "quarter": 3, "month": 1}
"""Months of the units that are made of months."""


class Moment(NamedTuple):
    """A day, and the microseconds of it that have passed."""

    day: date
    time: int


def moment(value: int, *, timestamp: bool) -> Moment:
    """Give the day of a number of days, or of microseconds, since 1970."""
    days, time = divmod(value, DAY) if timestamp else (value, 0)
    return Moment(date.fromordinal(_ZERO + days), time)


PARTS: Mapping[str, Callable[[Moment], int]] = {
    "year": lambda at: at.day.year,
    "month": lambda at: at.day.month,
    "day": lambda at: at.day.day,
    "quarter": lambda at: (at.day.month + 2) // 3,
    "dayofweek": lambda at: at.day.isoweekday() % 7,
    "isodow": lambda at: at.day.isoweekday(),
    "dayofyear": lambda at: at.day.timetuple().tm_yday,
    "week": lambda at: at.day.isocalendar().week,
    "isoyear": lambda at: at.day.isocalendar().year,
    "hour": lambda at: at.time // HOUR,
    "minute": lambda at: at.time // MINUTE % 60,
    "second": lambda at: at.time // SECOND % 60,
}


def began(value: int, unit: str, *, timestamp: bool) -> int:
    """Give when a unit of time began that holds a moment."""
    if unit in CLOCK:  # a date is the beginning of its first second
        return value - value % CLOCK[unit] if timestamp else value
    day = moment(value, timestamp=timestamp).day
    if unit == "week":
        first = day.toordinal() - day.weekday()
    elif unit == "day":
        first = day.toordinal()
    else:
        month = (day.month - 1) // UNITS[unit] * UNITS[unit] + 1
        first = day.replace(month=month, day=1).toordinal()
    return (first - _ZERO) * (DAY if timestamp else 1)


def months_on(value: int, months: int, *, timestamp: bool) -> int:
    """Give the same day so many months on, or the last of its month where it has no such day.

    Raises:
        ValueError: the calendar ends before.
    """
    day, time = moment(value, timestamp=timestamp)
    number = day.year * 12 + day.month - 1 + months
    year, month = number // 12, number % 12 + 1
    if not 1 <= year <= 9999:
        raise ValueError(year)
    last = monthrange(year, month)[1]
    days = date(year, month, min(day.day, last)).toordinal() - _ZERO
    return days * DAY + time if timestamp else days
