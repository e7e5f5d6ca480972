"""One answer with every awkward type, which each format has to get right."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from dpquery.answer import Answer
from dpquery.core.privacy_loss import Loss

FIRST, LAST = -62135596800 * 10**6, 253402300800 * 10**6 - 1
"""Microseconds of the first and the last moment of Python's calendar."""
TABLE = pa.table(
    {
        "n": pa.array([2**63 - 1, -(2**63), 0, None], pa.int64()),
        "wide": pa.array(
            [Decimal(10**37), Decimal(-1), Decimal(0), None], pa.decimal128(38, 0)
        ),
        "x": pa.array([float("nan"), float("-inf"), -0.1, 1e300], pa.float64()),
        "price": pa.array(
            [Decimal("2.50"), Decimal("-0.01"), Decimal("0.00"), None], pa.decimal128(9, 2)
        ),
        "flag": pa.array([True, False, None, True]),
        "day": pa.array([date(2024, 2, 29), date(1, 1, 1), None, date(9999, 12, 31)]),
        "at": pa.array([1709168523 * 10**6, -999_999, None, None], pa.timestamp("us")),
        'odd, "name"': pa.array(
            ['say "hi", you', "two\r\nlines\tand \x1b[31m\x9b\u202e", "", None], pa.string()
        ),
        "text": pa.array(["数据 naïve 🎉", "NULL", " blank ", "long " * 40], pa.string()),
        "q": pa.array([[1.5, None], [], None, [float("inf")]], pa.list_(pa.float64())),
        "y": pa.array([5e-324, -0.0, 0.1 + 0.2, None], pa.float64()),
        "exact": pa.array(
            [Decimal(10**18 - 1).scaleb(-4), Decimal(1 - 10**18).scaleb(-4), None, Decimal(0)],
            pa.decimal128(18, 4),
        ),
        "edge": pa.array([FIRST, FIRST + 1, LAST, None], pa.timestamp("us")),
    }
)


@dataclass(frozen=True)
class Noise:
    half: int
    mechanism: str = "laplace"
    possible: None = None

    def interval(self, confidence: Fraction) -> tuple[int, int]:
        assert confidence == Fraction(95, 100)
        return -self.half, self.half


NOISE_AT_ZERO = tuple(
    tuple(Noise(6) if (row, name) == (2, "n") else None for name in TABLE.column_names)
    for row in range(TABLE.num_rows)
)
AWKWARD = Answer(TABLE, Loss(Fraction(1, 2)), NOISE_AT_ZERO, "1.5 of 2 left", ("a note",))
EMPTY = Answer(TABLE.slice(0, 0), Loss(Fraction(0)))
