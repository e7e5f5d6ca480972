"""What is kept in memory between scans: every integer is the one that the files give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings

from dpquery.core.types import INTEGER, TEXT
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb import private_engine as engine_module
from dpquery.engine.duckdb.clamped_table_sql import COUNTED, Place
from dpquery.engine.duckdb.column_cache import SHARE, Held, _width
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.policy.load import load_policy
from dpquery.policy.model import Bounds, Column, Policy
from tests.neighbours import Drawn, drawn
from tests.property.test_neighbours import Case, accepted, cases, policies
from tests.worlds import policy_of, private_table, write


class Nothing(Held):
    """Keeps nothing."""

    def place(self, read: Place, *_: Any, **__: Any) -> Place:
        return read


class Everything(Held):
    """Keeps what it is asked for at once."""

    def place(self, read: Place, *of: Any, often: bool) -> Place:
        place = super().place(read, *of, often=True)
        assert place.held
        return place


@contextmanager
def keeping(how: type[Held], policy: Policy, threads: int = 2) -> Iterator[DuckDBEngine]:
    with patch.object(engine_module, "Held", how):
        engine = DuckDBEngine(policy, FaultLog(None), threads=threads)
        try:
            yield engine
        finally:
            engine.close()


def require_same(policy: Policy, texts: Sequence[str], threads: int = 2) -> list[list[Drawn]]:
    """Ask from the files, from what is kept at once, and from what is kept as it is asked."""
    plans = [accepted(policy, text) for text in texts]
    with keeping(Nothing, policy, threads) as engine:
        expected = [drawn(engine, plan) for plan in plans]
    for how in (Everything, Held):
        with keeping(how, policy, threads) as engine:
            for _ in range(2):
                assert [drawn(engine, plan) for plan in plans] == expected
    return expected


@settings(max_examples=5)
@given(cases())
def test_what_is_kept_gives_the_integers_of_the_files(case: Case):
    with policies(case.pair, case.kind, case.seed, case.neighbours, case.texts) as sides:
        require_same(sides[0], case.texts, 1 + case.seed % 8)


@pytest.mark.slow
@settings(max_examples=800)
@given(cases())
def test_what_is_kept_gives_the_integers_of_the_files_at_length(case: Case):
    with policies(case.pair, case.kind, case.seed, case.neighbours, case.texts) as sides:
        require_same(sides[0], case.texts, 1 + case.seed % 8)


TEXTS = [
    "SELECT DP_SUM(v, eps=1) FROM t",
    "SELECT DP_COUNT(*, eps=1), DP_SUM(v, eps=1, max_rows_contributed=3) FROM t",
    "SELECT DP_AVG(v, eps=1), DP_VARIANCE(v, eps=1) FROM t WHERE v > 2",
    "SELECT k, DP_COUNT(*, eps=1), DP_SUM(v, eps=1) FROM t GROUP BY k",
    "SELECT k, DP_SUM(v, eps=1), DP_COUNT(DISTINCT unit, eps=1) FROM t WHERE v < 7 GROUP BY k",
    "SELECT DP_COUNT(*, eps=1, weights='table'), DP_SUM(v, eps=1) FROM t",
    "SELECT DP_COUNT(*, eps=1, weights='table') FROM t WHERE v > 2",
    "SELECT k, DP_SUM(v, eps=1, weights='table'), DP_COUNT(*, eps=1) "
    "FROM t WHERE v > 2 GROUP BY k",
    "SELECT DP_SUM(v, eps=1, contribution_bounds_per_group=(0, 9)), DP_COUNT(*, eps=1) FROM t",
    "SELECT DP_COUNT(DISTINCT unit, eps=1), DP_SUM(v, eps=1) FROM t",
    "SELECT DP_COUNT(DISTINCT v, eps=1, max_rows_contributed=2), DP_COUNT(*, eps=1) FROM t",
    "SELECT DP_MEDIAN(v, eps=1) FROM t",
    "SELECT k, DP_MEDIAN(v, eps=1), DP_SUM(v, eps=1) FROM t WHERE v > 1 GROUP BY k",
    "SELECT DP_KEYS(v, eps=1, delta=1e-6) FROM t",
    "SELECT DP_SUM(a.v, eps=1) FROM t a JOIN t b ON a.unit = b.unit AND a.v = b.v",
]
UNITS: dict[str, tuple[Any, pa.DataType]] = {
    "small": (lambda u: u, pa.int64()),
    "far apart": (lambda u: (u - 20) * 10**17, pa.int64()),
    "texts": (lambda u: "it's \0" + "x" * u, pa.string()),
    "bytes": (lambda u: u, pa.uint8()),
}


@pytest.mark.parametrize(
    ("kind", "per_unit"),
    [
        *(("small", None), ("texts", 1), ("bytes", None)),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("far apart", None), ("texts", None), ("small", 2))
        ),
    ],
)
def test_units_of_any_kind_are_numbered(tmp_path: Path, kind: str, per_unit: int | None):
    """Which values of a unit count in DP_KEYS is chosen by its own name, and by no number."""
    named, type_ = UNITS[kind]
    order = Random(len(kind))
    rows = [
        (u, order.choice(["a", "b", "?"]), order.randint(-1, 9))
        for u in range(40)
        for _ in range(u % 8)
    ]
    rows += [(None, "a", 5)] * 3
    order.shuffle(rows)
    units, keys, values = zip(*rows, strict=True)
    column = pa.array([None if u is None else named(u) for u in units], type_)
    file = write(tmp_path / "t.parquet", unit=column, k=keys, v=values)
    columns = [
        Column("k", TEXT, keys=("a", "b"), per_unit=per_unit),
        Column("v", INTEGER, Bounds(0, 9)),
    ]
    unit_type = TEXT if kind == "texts" else INTEGER
    policy = policy_of(
        private_table([file], columns, unit_type=unit_type, max_rows_contributed=2)
    )
    found = require_same(policy, TEXTS)
    assert [one.given for one in found[0]] != [[0]]


def test_tables_of_ten_million_rows_fit_the_smallest_share(tmp_path: Path):
    """A number takes eight bytes, a key as an enumeration four, a counted unit twelve."""
    file = write(tmp_path / "t.parquet", k=["a"], v=[1])
    columns = [Column("k", TEXT, keys=("a",)), Column("v", INTEGER, Bounds(0, 9))]
    table = private_table([file], columns)
    assert _width(table, {"c:v", "k:k", COUNTED}) == 8 + 4 + 12
    assert 2 * 10**7 * _width(table, {"c:v", "k:k", COUNTED}) < SHARE // 2
    assert _width(table, {"c:k"}) == 16 + 4 * 256


WAY = """
[privacy]
neighbours = "add-remove"
[budget]
epsilon = 1000
[tables.orders]
path = "orders.parquet"
privacy_unit_column = "customer"
max_rows_contributed = 3
[tables.orders.columns]
order_id = { type = "integer" }
[tables.t]
path = "items.parquet"
unit_through = { column = "order_id", table = "orders", key = "order_id" }
max_rows_contributed = 5
[tables.t.columns]
k = { type = "text", keys = ["a", "b"] }
v = { type = "integer", bounds = [0, 9] }
"""


def test_rows_whose_unit_is_elsewhere_are_kept_with_its_number(tmp_path: Path):
    """Some orders have two customers, or none; some items have no order."""
    order = Random(3)
    items = [order.choice([1, 2, 3, 4, 5, None, 77]) for _ in range(200)]
    keys, values = ([order.choice(of) for _ in items] for of in ("ab?", range(10)))
    write(tmp_path / "items.parquet", order_id=items, k=keys, v=values)
    write(
        tmp_path / "orders.parquet",
        order_id=[1, 2, 2, 3, 4, 4, None, 9],
        customer=["x", "x", "y", "z", "it's", None, "x", "y"],
    )
    policy = tmp_path / "policy.toml"
    policy.write_text(WAY)
    texts = [text for text in TEXTS if "unit" not in text]
    found = require_same(load_policy(policy), texts)
    assert [one.given for one in found[0]] != [[0]]
