"""Groups by expression: each engine puts every row where the expression's meaning does."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from dpquery.core.types import BOOLEAN, DATE, INTEGER, TEXT
from dpquery.database import Database
from dpquery.policy.model import Bounds, Column
from dpquery.session import Session
from tests.worlds import planned, policy_of, private_table, world, write

COLUMNS = [
    Column("i", INTEGER, Bounds(0, 30)),
    Column("k", TEXT, keys=("a", "b", "ab")),
    Column("b", BOOLEAN),
    Column("day", DATE, Bounds(date(2019, 1, 1), date(2020, 12, 31))),
]
NUMBERS = [0, 9, 10, 29, 99, -5, None, 15]
WORDS = ["a", "b", "AB", "ab", "zz", None, "a", "B"]
TRUTHS = [True, False, None, True, False, None, True, False]
DAYS = [17897, 18261, 18262, 18300, 99999, -99999, None, 18627]
KEYS = {
    # key: its values, and how many rows each has
    "i // 10": ((0, 1, 2, 3, None), [3, 2, 1, 1, 1]),
    "i > 9": ((False, True, None), [3, 4, 1]),
    "UPPER(k)": (("A", "AB", "B", None), [2, 2, 2, 1]),
    "CASE WHEN i < 10 THEN 'low' WHEN b THEN 'high' END": (("high", "low", None), [2, 3, 3]),
    "IF(b, 1, NULL)": ((1, None), [3, 5]),
    "IF(b, 0.5, 1.25)": ((0.5, 1.25), [3, 5]),
    "COALESCE(k, 'none')": (("a", "ab", "b", "none"), [2, 1, 1, 1]),
    "NULLIF(b, FALSE)": ((True, None), [3, 5]),
    "YEAR(day)": ((2019, 2020, None), [3, 4, 1]),
    "DATE_TRUNC('year', day)": ((date(2019, 1, 1), date(2020, 1, 1), None), [3, 4, 1]),
    "IF(b, day, NULL) IS NULL": ((False, True), [3, 5]),
    "IF(b, DATE '2020-01-01', NULL)": ((date(2020, 1, 1), None), [3, 5]),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    days = pa.array(DAYS, pa.int32()).cast(pa.date32())
    return write(tmp_path / "t.parquet", i=NUMBERS, k=WORDS, b=TRUTHS, day=days)


@pytest.mark.parametrize("key", KEYS)
def test_rows_are_where_the_meaning_puts_them(engine, path: Path, key: str):
    values, counts = KEYS[key]
    sql = f"SELECT DP_COUNT(*, eps=1) FROM t GROUP BY {key}"
    with world(engine, private_table([path], COLUMNS, unit=None)) as small:
        (found,) = planned(small.policy, sql).frontiers[0].scan.keys
        assert tuple(map(as_typed, found.values)) == values
        if key.startswith("IF(b, day"):
            counts = [2, 6]
        assert small.groups(sql) == [counts]


def as_typed(value: object) -> object:
    return value if value is None or isinstance(value, str | date | bool) else float(value)


def test_an_answer_shows_keys_in_their_types(path: Path):
    shown = {
        "IF(b, 1, NULL)": [1, None],
        "IF(b, 0.5, 1.25)": [Decimal("0.50"), Decimal("1.25")],
        "UPPER(k)": ["A", "AB", "B", None],
        "YEAR(day)": [2019, 2020, None],
        "DATE_TRUNC('year', day)": [date(2019, 1, 1), date(2020, 1, 1), None],
        "i > 9": [False, True, None],
    }
    with Session(
        Database(policy_of(private_table([path], COLUMNS, unit=None))), "default", None
    ) as s:
        for key, wanted in shown.items():
            answer = s.sql(f"SELECT {key} AS x, DP_COUNT(*, eps=1e8) AS n FROM t GROUP BY x")
            assert [row[0] for row in answer.rows] == wanted
            assert [row[1] for row in answer.rows] == KEYS[key][1]
            again = s.sql(
                f"SELECT {key}, DP_COUNT(*, eps=1) FROM t GROUP BY {key} ORDER BY {key} DESC"
            )
            assert again.rows[0][0] == [value for value in wanted if value is not None][-1]
