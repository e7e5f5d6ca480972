"""Hostile versions of the sample's private files: every value that a policy's types admit.

NaN and infinities, the ends of every type, NULL everywhere also as a unit, texts of 100 kB, and
one person with 20,000 visits. Cycles of different lengths make odd values meet.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HEAVY = 20_000
_LONG = "x" * 100_000
_INF, _NAN = math.inf, math.nan
_TEXTS = [None, "", " eng", "ENG", "a\0b", "\U0001f468\u200d\U0001f469", "%_\\", "it's", "NULL"]
_DAYS = [-(2**31), 2**31 - 1, -719_162, 2_932_896, 0, 20_089, 20_120, None]
_MOMENTS = [-(2**63) + 1, 2**63 - 1, 0, 1_735_689_600_000_000, 1_740_000_000_123_456, None]
_STAFF = {
    "dept": (pa.string(), ["eng", "hr", "legal", "ops", "sales", *_TEXTS]),
    "age": (pa.int32(), [-(2**31), 2**31 - 1, 17, 18, 44, 70, 71, None]),
    "salary": (pa.int64(), [-(2**63), 2**63 - 1, -1, 0, 52_000, 200_001, None]),
    "bonus": (
        pa.float64(),
        [_NAN, _INF, -_INF, -0.0, 5e-324, 1.7976931348623157e308, 0.005, 1_234.565, None],
    ),
    "rating": (
        pa.decimal128(3, 1),
        [Decimal(text) for text in ("99.9", "-99.9", "0", "1", "3.5")] + [None],
    ),
    "hired": (pa.date32(), _DAYS),
    "remote": (pa.bool_(), [True, False, None]),
}
_VISITS = {
    "day": (pa.date32(), _DAYS),
    "region": (pa.string(), ["centre", "east", "west", "abroad", *_TEXTS]),
    "minutes": (pa.int32(), [-(2**31), 2**31 - 1, -1, 0, 45, 61, 120, 240, 241, None, 7]),
    "spent": (
        pa.decimal128(9, 2),
        [Decimal("9999999.99"), Decimal("-9999999.99"), Decimal("0.01"), Decimal(500), None],
    ),
    "at": (pa.timestamp("us"), _MOMENTS),
}


def overwrite(place: Path) -> None:
    """Put hostile rows in the place of the sample's private files."""
    ends = [-(2**63), 2**63 - 1, 0, -1]
    once = [*ends, *range(1, 900), *[None] * 97]  # staff: one row per person, by declaration
    often = [7] * HEAVY + [*ends, *range(1, 200), None] * 3
    _write(place / "staff.parquet", once, _STAFF, "dept")
    _write(place / "visits.parquet", often, _VISITS, "region")


def _write(file: Path, units: list[int | None], columns: dict, text: str) -> None:
    arrays = {"person_id": pa.array(units, pa.int64())}
    for name, (type_, values) in columns.items():
        repeated = list(itertools.islice(itertools.cycle(values), len(units)))
        if name == text:
            repeated[3::997] = [_LONG] * len(repeated[3::997])
        held = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}.get(type_, type_)
        arrays[name] = pa.array(repeated, held).cast(type_)
    pq.write_table(pa.table(arrays), file)
