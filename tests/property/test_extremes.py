"""Whole answers over the barest tables: a value of the right type for every group, always.

No rows, one row, one value, nothing but NULL, bounds of one point, grids of 2^40 cells, groups
without rows; through a session on each engine, and with bits that are no bits at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.database import Database
from dpquery.engine import ENGINES
from dpquery.errors import InternalError
from dpquery.policy.model import Bounds, Column, ScanLimits
from dpquery.session import Session
from tests.mechanisms.sources import PATTERNS, Repeating, Stuck
from tests.turns import in_turn
from tests.worlds import deadline, policy_of, private_table

NAN, INF = float("nan"), float("inf")
SCHEMA = pa.schema(
    {
        "unit": pa.int64(), "g": pa.string(), "b": pa.bool_(), "i": pa.int64(),
        "point": pa.int64(), "wide": pa.int64(), "d": pa.float64(),
        "m": pa.decimal128(9, 2), "day": pa.date32(), "at": pa.timestamp("us"),
    }
)  # fmt: skip
MOMENTS = [datetime.fromisoformat(text) for text in ("2000-01-01", "2030-12-31 23:59:59")]
COLUMNS = (
    Column("g", TEXT, keys=("a", "b", "empty")),
    Column("b", BOOLEAN),
    Column("i", INTEGER, Bounds(-5, 100)),
    Column("point", INTEGER, Bounds(3, 3)),
    Column("wide", INTEGER, Bounds(0, 2**40 - 1)),
    Column("d", DOUBLE, Bounds(Fraction(-100), Fraction(100)), grid=Fraction(1, 100)),
    Column("m", Type(Kind.DECIMAL, 9, 2), Bounds(Fraction(0), Fraction(50))),
    Column("day", DATE, Bounds(date(2000, 1, 1), date(2030, 12, 31))),
    Column("at", TIMESTAMP, Bounds(*MOMENTS)),
)
LOW = (1, "a", True, -9, 3, 0, -INF, Decimal("-1.00"), date(1970, 1, 1), 0)
HIGH = (2, "b", False, 999, 9, 2**62, INF, Decimal("99.99"), date(9999, 1, 1), 2**62)
MISSING = (3, None, None, None, None, None, NAN, None, None, None)
DATA = {
    "no rows": [],
    "one row": [LOW],
    "constant": [(unit, *LOW[1:]) for unit in range(40)],
    "two values": [(unit, *(LOW if unit % 3 else HIGH)[1:]) for unit in range(40)],
    "nothing but NULL": [(unit, *MISSING[1:]) for unit in range(10)],
    "one heavy unit": [HIGH] * 50 + [LOW, MISSING],
}
MOST_EXTREME = {"two values", "one heavy unit"}
ROWS = [
    pytest.param(rows, id=name, marks=[] if name in MOST_EXTREME else [pytest.mark.slow])
    for name, rows in DATA.items()
]
TYPES = {
    "i": int, "point": int, "wide": int, "d": float, "m": Decimal, "day": date, "at": datetime,
}  # fmt: skip
LEAST, MOST = (
    {"i": -5, "point": 3, "wide": 0, "d": -100, "m": 0, "day": date(2000, 1, 1),
     "at": MOMENTS[0]},
    {"i": 100, "point": 3, "wide": 2**40 - 1, "d": 100, "m": 50, "day": date(2030, 12, 31),
     "at": MOMENTS[1]},
)  # fmt: skip
PAIRS = [
    ("i", "d"), ("d", "m"), ("wide", "point"), ("point", "wide"), ("wide", "1"), ("0", "wide"),
    ("CASE WHEN i > 50 THEN 10000000000 ELSE 0 END", "1"),
]  # fmt: skip
"""Products that need 128 bits for what one of the two has alone, times a weight."""
SPREADS = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")

Wanted = tuple[type, object, object]
"""The type of a value, and where it lies."""


def calls() -> dict[str, Wanted]:
    """Return every function of every column that it takes, and what a value of it is."""
    anywhere, positive = (-math.inf, math.inf), (0, math.inf)
    found: dict[str, Wanted] = {
        "DP_COUNT(*": (int, *anywhere),
        "DP_COUNT(DISTINCT unit": (int, *anywhere),
        "DP_COUNT_IF(b": (int, *anywhere),
        "DP_PROPORTION(b": (float, 0, 1),
        "DP_PROPORTION(i > 0": (float, 0, 1),
    }
    for name, type_ in TYPES.items():
        low, high = LEAST[name], MOST[name]
        found[f"DP_COUNT({name}"] = (int, *anywhere)
        found[f"DP_MEDIAN({name}"] = (type_, low, high)
        found |= {f"DP_QUANTILE({name}, {p}": (type_, low, high) for p in ("0", "0.9", "1")}
        if name not in {"day", "at"}:
            found[f"DP_SUM({name}"] = (type_, *anywhere)
            found[f"DP_AVG({name}"] = (float, low, high)
            spreads = () if name == "wide" else SPREADS  # its squares would not fit
            found |= {f"DP_{spread}({name}": (float, *positive) for spread in spreads}
    for y, x in PAIRS:
        of_pairs = ("COVAR_POP", "COVAR_SAMP", "REGR_SLOPE", "REGR_INTERCEPT")
        found |= {f"DP_{name}({y}, {x}": (float, *anywhere) for name in of_pairs}
        found |= {f"DP_CORR({y}, {x}": (float, -1, 1), f"DP_REGR_R2({y}, {x}": (float, 0, 1)}
    return found


CALLS = calls()


@contextmanager
def session(
    path: Path, rows: list[tuple[object, ...]], engine: str, **settings: object
) -> Iterator[Session]:
    neighbours = settings.pop("neighbours", Neighbours.ADD_REMOVE)
    cells = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    pq.write_table(pa.table([list(c) for c in cells], schema=SCHEMA), path)
    policy = policy_of(private_table([path], COLUMNS, **settings), neighbours)
    policy = replace(
        policy, limits=ScanLimits(max_failures=1_000)
    )  # broken randomness is a failure
    with Session(Database(policy, engine=engine), "default", None) as opened:
        yield opened


def require_right(rows: list[tuple[object, ...]], wanted: list[Wanted]) -> None:
    for row in rows:
        for value, (type_, low, high) in zip(row, wanted, strict=True):
            assert type(value) is type_, (value, type_)
            assert low <= value <= high, (value, low, high)


@pytest.mark.parametrize(
    ("engine", "neighbours"), [*zip(sorted(ENGINES), Neighbours, strict=True)]
)
@pytest.mark.parametrize("rows", ROWS)
def test_every_function_answers(tmp_path: Path, rows, engine, neighbours):
    text = ", ".join(f"{call}, eps=1)" for call in CALLS)
    limits = {"max_rows_contributed": 2, "neighbours": neighbours}
    with session(tmp_path / "t.parquet", rows, engine, **limits) as opened:
        ungrouped = opened.sql(f"SELECT {text} FROM t")
        grouped = opened.sql(f"SELECT g, {text} FROM t GROUP BY g")
    require_right(ungrouped.rows, list(CALLS.values()))
    assert [row[0] for row in grouped.rows] == ["a", "b", "empty", None]
    require_right([row[1:] for row in grouped.rows], list(CALLS.values()))
    for column in grouped.columns[1:]:
        for interval in grouped.interval(column, 0.95):
            assert interval is None or interval[0] <= interval[1]


def test_plenty_of_epsilon_gives_what_there_is(tmp_path: Path):
    """At an epsilon of a billion, noise is as good as gone: what is left is the definition."""
    asked = {
        "DP_COUNT(*": 40, "DP_SUM(i": 26 * -5 + 14 * 100, "DP_MEDIAN(d": -100.0,
        "DP_QUANTILE(day, 1": date(2030, 12, 31), "DP_QUANTILE(wide, 0.9": 2**40 - 1,
        "DP_MEDIAN(at": MOMENTS[0], "DP_COUNT_IF(b": 26, "DP_SUM(m": Decimal("700.00"),
    }  # fmt: skip
    text = ", ".join(f"{call}, eps=1e8)" for call in asked)
    with session(tmp_path / "t.parquet", DATA["two values"], "duckdb") as opened:
        assert opened.sql(f"SELECT {text} FROM t").rows == [tuple(asked.values())]


@pytest.mark.parametrize("source", [Stuck, Repeating])
@pytest.mark.parametrize("pattern", in_turn(PATTERNS.values(), 4))
def test_broken_randomness_ends_in_an_answer_or_in_its_own_failure(
    tmp_path: Path, source, pattern
):
    """A number of the right type, or DPQ902: no other fault, and no endless loop."""
    with session(tmp_path / "t.parquet", DATA["two values"], "python") as opened:
        opened._randomness = source(pattern)
        for call, wanted in CALLS.items():
            with deadline(20):
                try:
                    rows = opened.sql(f"SELECT {call}, eps=1) FROM t GROUP BY g").rows
                except InternalError as failure:
                    rows = [] if failure.code == "DPQ902" else [(failure,)]
            require_right(rows, [wanted])
