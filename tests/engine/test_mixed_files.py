"""Files of one table whose types differ: no value of any of them can make a query fail."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.sources.source_views import rows_sql
from dpquery.engine.file_checks import require_fit
from dpquery.policy.load import load_policy
from tests.oracle.engine import PythonEngine
from tests.worlds import integers, planned, private_table, receipt_for

FAR = 2**63 - 1
NINES = "9" * 38


def _decimals(precision: int, scale: int) -> pa.Array:
    largest = Decimal(f"{NINES[:precision]}e-{scale}")
    return pa.array([largest, largest.copy_negate(), None], pa.decimal128(precision, scale))


def _moments(unit: str, zone: str | None = None) -> pa.Array:
    if unit == "ns":
        return pa.array([FAR - 1, 1 - FAR, 0, None], pa.int64()).cast(pa.timestamp(unit, zone))
    year = 253402300799 * 10**6
    cells = [year, FAR - 1, 1 - FAR, 0, None]
    return pa.array(cells, pa.int64()).cast(pa.timestamp(unit, zone))


NUMBERS = {
    "i64": pa.array([-FAR - 1, FAR, 5, None], pa.int64()),
    "u64": pa.array([2 * FAR + 1, 0, None], pa.uint64()),
    "f32": pa.array([3.4e38, float("nan"), float("-inf"), None], pa.float32()),
    "f64": pa.array([1e308, float("nan"), float("-inf"), None], pa.float64()),
    "d9": _decimals(9, 2),
    "d22": _decimals(22, 20),
    "d30": _decimals(38, 30),
    "d38": _decimals(38, 0),
}
CLASSES = {
    "double": NUMBERS,
    "integer, bounds = [0, 9]": NUMBERS,
    "decimal(38,20), bounds = [0, 9]": {
        "d22": NUMBERS["d22"],
        "d9": NUMBERS["d9"],
        "d38": _decimals(38, 20),
    },
    "timestamp": {
        "us": _moments("us"),
        "ns": _moments("ns"),
        "int96": _moments("us"),
        "ms": _moments("ms"),
    },
    "timestamptz": {
        "us": _moments("us", "UTC"),
        "ns": _moments("ns", "Asia/Tokyo"),
        "ms": _moments("ms", "UTC"),
    },
    "time": {
        "ms": pa.array([0, 86399999, None], pa.int32()).cast(pa.time32("ms")),
        "us": pa.array([0, 86399999999, None], pa.int64()).cast(pa.time64("us")),
        "ns": pa.array([0, 86399999999999, None], pa.int64()).cast(pa.time64("ns")),
    },
    "text": {
        "plain": pa.array(["", "x", None]),
        "uuid": pa.array([b"\0" * 16, None], pa.uuid()),
        "coded": pa.array(["a", None, "b"]).dictionary_encode(),
    },
}


@pytest.mark.parametrize("shape", ["column", "field", "list"])
@pytest.mark.parametrize("declared", CLASSES)
def test_no_value_fails_whatever_types_files_have_together(
    declared: str, shape: str, tmp_path: Path
):
    for one, other in combinations(CLASSES[declared], 2):
        first = next(iter(CLASSES[declared]))
        if shape == "column" or (one == first and other != "int96"):
            _ask(tmp_path / f"{one} {other}", declared, shape, one, other)


def _ask(place: Path, declared: str, shape: str, *names: str) -> None:
    place.mkdir()
    for at, name in enumerate(names):
        cells = CLASSES[declared][name]
        if shape == "field":
            cells = pa.StructArray.from_arrays([cells], ["y"])
        if shape == "list":
            cells = pa.ListArray.from_arrays(range(len(cells) + 1), cells)
        units = pa.array(range(10 * at, 10 * at + len(cells)), pa.int64())
        rows = pa.table({"unit": units, "x": cells})
        old = name == "int96"
        pq.write_table(rows, place / f"{at}.parquet", use_deprecated_int96_timestamps=old)
    type_, comma, rest = declared.partition(", bounds")
    column = {"column": "x", "field": "x.y", "list": "x"}[shape]
    listed = "[]" if shape == "list" else ""
    (place / "p.toml").write_text(
        f"""
        [budget]
        epsilon = 9e9
        [tables.t]
        path = ["0.parquet", "1.parquet"]
        privacy_unit_column = "unit"
        max_rows_contributed = 1
        [tables.t.columns]
        unit = {{ type = "integer" }}
        "{column}" = {{ type = "{type_}{listed}"{comma}{rest} }}
        """,
        encoding="utf-8",
    )
    queries = [f"SELECT DP_COUNT({column}, eps=1) FROM t"]
    if shape == "list":
        queries = ["SELECT DP_COUNT(v, eps=1) FROM t, UNNEST(x) AS u(v)"]
    if shape == "column" and type_ in {"double", "integer"}:
        queries.append("SELECT DP_SUM(x, eps=1, bounds=[0, 9]) FROM t WHERE x > 1")
    log = FaultLog(place / "faults")
    policy = require_fit(load_policy(place / "p.toml"), log)
    duck, python = DuckDBEngine(policy, log), PythonEngine(policy, FaultLog(None))
    for query in queries:
        plan = planned(policy, query)
        (scan,) = (frontier.scan for frontier in plan.frontiers)
        with duck.open(scan, receipt_for(plan), 0) as exact:
            found = [integers(exact, measure) for measure in scan.measures]
        if "int96" not in names:  # of which pyarrow makes nanoseconds
            with python.open(scan, receipt_for(plan), 0) as exact:
                assert found == [integers(exact, measure) for measure in scan.measures], names
    duck.close()


def test_units_without_a_declared_type_are_told_apart_in_files_of_all_types(tmp_path: Path):
    units = {
        "int": pa.array([1, 2**62], pa.int64()),
        "short": pa.array([1, 3], pa.int8()),
        "text": pa.array(["1", "x"]),
        "uuid": pa.array([b"\0" * 16, b"\1" * 16], pa.uuid()),
    }
    for first, second in combinations(units, 2):
        place = tmp_path / f"{first} {second}"
        place.mkdir()
        for name in (first, second):
            pq.write_table(pa.table({"unit": units[name]}), place / f"{name}.parquet")
        files = [place / f"{name}.parquet" for name in (first, second)]
        table = private_table(files, [], unit_type=None)
        found = duckdb.sql(f"SELECT count(DISTINCT unit) FROM ({rows_sql(table)})").fetchall()
        assert found == [(4 if "uuid" in (first, second) else 3,)], (first, second)
