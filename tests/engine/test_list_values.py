"""Whether lists hold a value: no value of a list can make it fail, and both engines agree."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.errors import QueryRefused, RuleRefused
from dpquery.policy.model import Bounds, Column
from tests.oracle.engine import PythonEngine
from tests.worlds import integers, planned, policy_of, private_table, receipt_for, write

NINES = "9" * 38


def decimals(*written: str) -> list[object]:
    return [*map(Decimal, written), None]


FAR = 2**63 - 1
LISTS = {
    "i": (INTEGER, None, [-FAR - 1, FAR, 0, 50, 5, None], pa.int64()),
    "b": (INTEGER, Bounds(0, 100), [-FAR - 1, FAR, 0, 50, 5, None], pa.int64()),
    "u": (INTEGER, Bounds(-1, 9), [0, 2 * FAR + 1, 5, None], pa.uint64()),
    "f": (DOUBLE, None, [1e300, -1e300, float("nan"), 0.5, -0.0, 5.0, None], pa.float64()),
    "d": (
        Type(Kind.DECIMAL, 38, 0),
        None,
        decimals(NINES, f"-{NINES}", "5", "0"),
        pa.decimal128(38, 0),
    ),
    "m": (
        Type(Kind.DECIMAL, 30, 2),
        None,
        decimals("9" * 28 + ".99", "-" + "9" * 28 + ".99", "0.50", "5"),
        pa.decimal128(30, 2),
    ),
    "c": (
        Type(Kind.DECIMAL, 9, 2),
        Bounds(Fraction(0), Fraction(99)),
        decimals("9999999.99", "-9999999.99", "0.5", "5"),
        pa.decimal128(9, 2),
    ),
    "e": (
        Type(Kind.DECIMAL, 38, 38),
        None,
        decimals(f"0.{NINES}", f"-0.{NINES}", "0.5"),
        pa.decimal128(38, 38),
    ),
    "s": (TEXT, None, ["", "5", "x" * 300, None], pa.string()),
    "l": (BOOLEAN, None, [True, False, None], pa.bool_()),
    "t": (TIMESTAMP, None, [-FAR, FAR - 1, 0, None], pa.timestamp("us")),
    "y": (DATE, None, [-(2**31) + 2, 2**31 - 2, 0, None], pa.date32()),
}
VALUES = [
    *("5", "0.5", "-0.00", "5e0", "1e300", "1e-37", "5.00", "NULLIF(unit, 1)", "unit * 5.0"),
    *("0." + "0" * 36 + "1", "0." + "0" * 29 + "1", "0." + "0" * 18 + "1", "9" * 38, "9" * 20),
    *("unit / 2", "unit * 1000000000000", "unit + 0.5", "TRUE", "unit > 1", "'5'", "''"),
    *("DATE '1970-01-01'", "TIMESTAMP '1970-01-01'", "'1970-01-01'"),
]
OTHERS = [
    "FROM t WHERE 5.0 IN UNNEST({})",
    f"FROM t WHERE 0.{'0' * 18}1 NOT IN UNNEST({{}})",
    "FROM t WHERE LEN({}) > 0",
    "FROM t, UNNEST({}) AS u(v)",
]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory):
    place = tmp_path_factory.mktemp("lists")
    size = max(len(values) for _, _, values, _ in LISTS.values())

    def cells(values: Sequence[object]) -> list[list[object] | None]:
        some = [[one] for one in values] + [list(values)] * (size - len(values))
        return [*some, list(values), [], None]

    columns = {n: pa.array(cells(v), pa.list_(of)) for n, (_, _, v, of) in LISTS.items()}
    path = write(place / "t.parquet", unit=list(range(size + 3)), **columns)
    types = {
        name: (Type(type_.kind, type_.precision, type_.scale, listed=True), bounds)
        for name, (type_, bounds, _, _) in LISTS.items()
    }
    held = [
        Column(name, type_, bounds, max_length=9, converted=name == "u")
        for name, (type_, bounds) in types.items()
    ]
    unit = Column("unit", INTEGER, Bounds(0, 50))
    policy = policy_of(private_table([path], [*held, unit]))
    made = (
        DuckDBEngine(policy, FaultLog(place / "one")),
        PythonEngine(policy, FaultLog(None)),
    )
    yield policy, made
    for engine in made:
        engine.close()


@pytest.mark.parametrize("name", LISTS)
def test_no_value_of_a_list_fails_and_both_engines_agree(engines, name: str):
    policy, made = engines
    conditions = (f"FROM t WHERE LIST_CONTAINS({name}, {value})" for value in VALUES)
    queries = [*conditions, *(one.format(name) for one in OTHERS)]
    asked = [_agrees(policy, made, f"SELECT DP_COUNT(*, eps=1) {one}") for one in queries]
    assert sum(asked) > 3


def _agrees(policy, made, query: str) -> bool:
    """Return whether a query is taken; if so, both engines give the same."""
    try:
        plan = planned(policy, query)
    except QueryRefused:
        return False
    scan, found = plan.frontiers[0].scan, []
    for engine in made:
        with engine.open(scan, receipt_for(plan), 0) as exact:
            found.append([integers(exact, measure) for measure in scan.measures])
    assert found[0] == found[1], query
    return True


def test_a_list_without_room_for_the_places_of_a_value_is_refused_as_a_column_is(engines):
    policy, _ = engines
    for name in ("i", "b", "d", "m"):
        with pytest.raises(RuleRefused) as no:
            planned(
                policy,
                f"SELECT DP_COUNT(*, eps=1) FROM t WHERE LIST_CONTAINS({name}, 0.{36 * '0'}1)",
            )
        assert no.value.code == "DPQ305"
