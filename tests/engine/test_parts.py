"""Rows of one part of each unit: by both engines, from files and from what is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import product
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Source
from dpquery.core.types import BOOLEAN, DATE, INTEGER, TEXT
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.plan.plan import Plan, make_plan
from dpquery.policy.model import Bounds, Column
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.privacy_rules import check
from tests.neighbours import drawn, save
from tests.oracle.engine import PythonEngine
from tests.relations import SCHEMA, policy_over, row
from tests.worlds import integers, planned, policy_of, private_table, receipt_for, write

UNITS = [1, 1, 1, 2, 2, 3, 3, 4, None, 5]
CASES = [
    # The first part is by the policy's order; texts are cut, numbers clamped before.
    (
        Column("p", TEXT, keys=("b", "a"), max_length=1, per_unit=1),
        ["a", "bc", "b", None, "x", "", "a", "ab", "b", None],
        [1, 2, 3, 4, 6, 7, 9],
    ),
    (
        Column("p", INTEGER, Bounds(0, 9), keys=(9, 0), per_unit=1),
        [5, 0, -3, 99, 9, None, 5, 0, 9, 1],
        [1, 2, 3, 4, 5, 6, 7, 9],
    ),
    (
        Column("p", BOOLEAN, per_unit=1),
        [True, None, True, False, True, None, None, True, False, None],
        [0, 2, 3, 5, 6, 7, 9],
    ),
    (
        Column("p", DATE, keys=(date(2020, 1, 2),), per_unit=1),
        [date(2020, 1, d) for d in (1, 2, 2, 3, 1, 1, 2, 2, 2, 3)],
        [1, 2, 3, 4, 6, 7, 9],
    ),
    (
        Column("p", TEXT, keys=("b", "c", "a"), per_unit=2),
        ["a", "c", "b", None, "x", "", "a", "c", "b", None],
        [1, 2, 3, 4, 5, 6, 7, 9],
    ),
    (
        Column("p", INTEGER, Bounds(0, 9), keys=(9, 0), per_unit=3),
        [5, 0, 12, 99, 9, None, 5, 0, 9, 1],
        [0, 1, 2, 3, 4, 5, 6, 7, 9],
    ),
]


@pytest.mark.parametrize(("column", "values", "rows"), CASES)
def test_a_unit_keeps_the_rows_of_its_first_parts(
    tmp_path: Path, column: Column, values: Sequence[object], rows: Sequence[int]
):
    """Each row has a power of two, so that a sum says which rows are in it."""
    marks = [1 << number for number in range(len(UNITS))]
    type_ = {TEXT: pa.string(), INTEGER: pa.int64(), BOOLEAN: pa.bool_(), DATE: pa.date32()}
    file = write(
        tmp_path / "t.parquet", unit=UNITS, p=pa.array(values, type_[column.type]), v=marks
    )
    listed = [Column("v", INTEGER, Bounds(0, 1023)), column]
    policy = policy_of(private_table([file], listed, max_rows_contributed=3))
    expected = sum(marks[row] for row in rows)
    engines = (DuckDBEngine(policy, FaultLog(None)), PythonEngine(policy, FaultLog(None)))
    for query in (
        "SELECT DP_SUM(v, eps=1) FROM t",
        "SELECT DP_SUM(v, eps=1) FROM t WHERE v > 1",
    ):
        plan = planned(policy, query)
        (frontier,) = plan.frontiers
        (measure,) = frontier.scan.measures
        whole = expected - (expected & 1 if "WHERE" in query else 0)
        for engine in (*engines, *engines, *engines):  # what is asked again is kept in memory
            with engine.open(frontier.scan, receipt_for(plan), 0) as exact:
                assert integers(exact, measure) == [whole * measure.weight.scale]
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("limit", [1, 3, 20])
def test_rows_of_a_unit_in_all_parts_weigh_no_more_than_the_unit(tmp_path: Path, limit: int):
    """Each engine gives the weight of each of 30 units in each part, and of rows above 4."""
    order = Random(limit)
    rows = [(u, order.choice("abx"), order.randint(0, 9)) for u in range(30) for _ in range(u)]
    order.shuffle(rows)
    units, places, values = zip(*rows, strict=True)
    file = write(tmp_path / "t.parquet", unit=units, p=places, v=values, w=units)
    columns = [
        Column("p", TEXT, keys=("b", "a"), parts_rows=True),
        Column("v", INTEGER, Bounds(0, 9)),
        Column("w", INTEGER, Bounds(0, 29), null_group=False),
    ]
    policy = policy_of(private_table([file], columns, max_rows_contributed=limit))
    engines = (DuckDBEngine(policy, FaultLog(None)), PythonEngine(policy, FaultLog(None)))
    found: dict[str, list[list[int]]] = {"": [], " AND v > 4": []}
    for more, part in product(found, "abx"):
        query = (
            "SELECT w, DP_COUNT(*, eps=1, weights='table') FROM t "
            f"WHERE p = '{part}'{more} GROUP BY w"
        )
        plan = planned(policy, query)
        (measure,) = plan.frontiers[0].scan.measures
        weights = []
        for engine in (*engines, *engines, engines[0]):
            with engine.open(plan.frontiers[0].scan, receipt_for(plan), 0) as exact:
                weights.append(integers(exact, measure))
        assert weights == [weights[0]] * 5
        found[more].append(weights[0])
    whole = [u * min(2**32, 2**32 * limit // max(u, 1)) for u in range(30)]
    assert [sum(parts) for parts in zip(*found[""], strict=True)] == whole
    assert max(whole) <= limit * measure.weight.scale == limit * 2**32
    above = [sum(parts) for parts in zip(*found[" AND v > 4"], strict=True)]
    seen = [sum(v > 4 for of, _, v in rows if of == u) for u in range(30)]
    assert above == [
        n * weight // max(u, 1) for u, (n, weight) in enumerate(zip(seen, whole, strict=True))
    ]
    for engine in engines:
        engine.close()


CALLS = "DP_COUNT(*, eps=1, weights='table'), DP_SUM(j, eps=1, weights='table')"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {CALLS} FROM t x JOIN regions r ON x.k = r.name WHERE r.size > 3 OR x.j > 2",
        f"SELECT k, {CALLS}, DP_COUNT(*, eps=1) "
        "FROM (SELECT unit, j, k, i FROM t WHERE i > 0) x "
        "LEFT JOIN regions r ON x.k = r.name GROUP BY k",
        "SELECT DP_MEDIAN(j, eps=1, weights='table'), DP_MEDIAN(j, eps=1) "
        "FROM t x LEFT JOIN regions r ON x.k = r.name WHERE j < 7",
        f"SELECT {CALLS}, DP_COUNT(DISTINCT unit, eps=1) FROM s WHERE i > 0",  # rows are cut
    ],
)
def test_engines_agree_on_weights_by_the_table(tmp_path: Path, query: str):
    order = Random(7)
    units = {n: [[row(order) for _ in range(u % 9)] for u in range(60)] for n in "ts"}
    loose = [row(order)]
    paths = {n: save(units[n], loose, SCHEMA, tmp_path / n, order) for n in "ts"}
    policy = policy_over(paths, tmp_path, Neighbours.ADD_REMOVE)
    public, log = PublicEngine(policy), FaultLog(None)
    duckdb, python = DuckDBEngine(policy, log, public), PythonEngine(policy, log, public)

    def asked(text: str) -> Plan:
        return make_plan(
            check(bind(parse(Source(text)), policy, public), policy), policy, public
        )

    plan, other = asked(query), asked(query.replace(", weights='table'", ""))
    expected = [one.given for one in drawn(python, plan)]
    for _ in range(2):
        assert [one.given for one in drawn(duckdb, plan)] == expected
    assert [one.given for one in drawn(python, other)] != expected
    duckdb.close()
    public.close()
