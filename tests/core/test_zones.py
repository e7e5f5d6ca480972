"""Offsets are those of `zoneinfo`, at every change and beside it, and total beyond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dpquery.core.time_zones import (
    began,
    beginnings,
    changes,
    clock_range,
    known,
    to_clock,
    to_instant,
)

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia",
         "Africa/Casablanca", "America/Havana", "Asia/Kathmandu")  # fmt: skip
FIRST, ZERO = datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1)  # noqa: DTZ001
STEP, HOUR = timedelta(microseconds=1), 3_600_000_000


@pytest.mark.parametrize("zone", ZONES)
def test_clocks_show_what_zoneinfo_says(zone: str):
    place = ZoneInfo(zone)
    around = [start + by for start in changes(zone).starts for by in (-1, 0, 1, HOUR, -HOUR)]
    for instant in [0, -1, 10**15, *around]:
        local = (FIRST + instant * STEP).astimezone(place).replace(tzinfo=None)
        assert to_clock(instant, zone) == (local - ZERO) // STEP
        for by in (-HOUR, -HOUR // 2, 0, HOUR // 2, HOUR):
            clock = local + by * STEP
            wanted = (clock.replace(tzinfo=place).astimezone(UTC) - FIRST) // STEP
            assert to_instant((clock - ZERO) // STEP, zone) == wanted


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("size", [HOUR, HOUR // 60])
def test_beginnings_are_those_of_every_instant(zone: str, size: int):
    for start in changes(zone).starts[-6:]:
        low, high = start - 2 * HOUR, start + 2 * HOUR
        step = size // 7 + 1
        found = {began(at, size, zone) for at in [*range(low, high, step), high]}
        listed = [*beginnings(low, high, size, zone)]
        assert listed == sorted(listed)
        assert found <= {*listed}
        least, greatest = clock_range(low, high, zone)
        clocks = [to_clock(at, zone) for at in range(low, high, step)]
        assert least <= min(clocks) <= max(clocks) <= greatest


def test_beyond_the_table_the_last_offset_goes_on():
    for year, month in ((1, 1), (1899, 7), (2100, 7), (9999, 1)):
        instant = (datetime(year, month, 1, tzinfo=UTC) - FIRST) // STEP
        end = changes("Europe/Berlin").offsets[0 if year < 1900 else -1]
        assert to_clock(instant, "Europe/Berlin") == instant + end
        assert to_instant(instant + end, "Europe/Berlin") == instant


def test_zones_have_exact_names():
    assert known("Europe/Berlin")
    assert not any(map(known, ("europe/berlin", "Mars", "", "../etc/passwd", "+01:00")))
