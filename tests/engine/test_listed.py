"""Histograms over listed values: the same places for every type, with and without weights."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.core.types import BOOLEAN, DATE, INTEGER, TEXT, Kind, Type
from dpquery.policy.model import Bounds, Column
from tests.worlds import private_table, world, write

MONEY = Type(Kind.DECIMAL, 9, 2)
COLUMNS = [
    Column("s", TEXT, keys=("it's", "a", "b"), max_length=4),
    Column("i", INTEGER, Bounds(-5, 5), keys=(3, -2, 9)),
    Column("m", MONEY, keys=(Fraction(5), Fraction(1, 4))),
    Column("d", DATE, keys=(date(2024, 2, 29), date(1969, 12, 31))),
    Column("b", BOOLEAN),
    Column("j", INTEGER, Bounds(0, 2)),
]
# unit, s, i, m, d, b, j; unit 1 has two rows
ROWS = [
    (1, "a", 3, Decimal("0.25"), date(1969, 12, 31), True, -7),
    (1, "it's", 99, Decimal("5.00"), date(2024, 2, 29), False, 1),
    (2, "A", -2, Decimal("0.26"), date(2024, 3, 1), None, None),
    (3, "a", None, None, None, True, 99),
    (None, "b", 3, Decimal("5.00"), None, True, 1),
]
H, W = 2**24, 2**25
WEIGHTS = {
    # by place, the values sorted; what is not listed has none, and bounds clamp first
    "s": [H + W, 0, H],
    "i": [W, H, 0],
    "m": [H, H],
    "d": [H, H],
    "b": [H, H + W],
    "j": [H, H, W],
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_places_of_listed_values_are_weighed(engine, tmp_path: Path, name: str):
    """Asked twice, the second time perhaps from columns that are kept."""
    columns = dict(
        zip(
            ("unit", "s", "i", "m", "d", "b", "j"),
            map(list, zip(*ROWS, strict=True)),
            strict=True,
        )
    )
    path = write(tmp_path / "t.parquet", **columns)
    with world(engine, private_table([path], COLUMNS)) as small:
        for _ in range(2):
            with small.open(f"SELECT DP_MODE({name}, eps=1) FROM t") as (frontier, exact):
                (measure,) = frontier.scan.measures
                found = exact.histogram(measure, 0, 0, measure.code.cells, 1)
                assert found.tolist() == WEIGHTS[name]
