"""Histograms of an open scan: any range, any width, any group, from one state of the data."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpquery.core.types import BOOLEAN, DOUBLE, INTEGER, TEXT
from dpquery.engine.base import Exact
from dpquery.engine.duckdb.connection import execute
from dpquery.errors import InternalError, PlanRefused, ScanFailed
from dpquery.ir.measures import GroupRequest, Histogram
from dpquery.policy.model import Bounds, Column
from tests.worlds import planned, policy_of, private_table, world, write

W = 2**24  # the scale under which scores of a median stay in 64 bits
COLUMNS = [
    Column("x", INTEGER, Bounds(-3, 12)),
    Column("g", TEXT, keys=("a", "b", "empty"), null_group=False),
    Column("b", BOOLEAN, null_group=False),
]
# unit, x, g, b; codes count from -3: unit 1 has three rows, unit 2 two
ROWS = [
    (1, -99, "a", True), (1, 0, "zz", True), (1, 5, "a", None), (2, 5, "b", True),
    (2, None, "a", True), (3, 12, "a", False), (4, 99, None, True), (None, 0, "a", True),
]  # fmt: skip
SPANS = [(0, 16, 1), (0, 16, 2), (0, 16, 16), (0, 16, 64), (3, 4, 1), (3, 9, 4), (8, 16, 8)]


def table(path: Path) -> Path:
    unit, x, g, b = (list(cells) for cells in zip(*ROWS, strict=True))
    return write(path, unit=unit, x=x, g=g, b=b)


def asked(exact: Exact, measure: Histogram, group: int, span: tuple[int, int, int]):
    return exact.histogram(measure, group, *span).tolist()


def by_hand(weights: dict[int, int], low: int, high: int, width: int) -> list[int]:
    """Add up weights by code over ranges: the definition."""
    edges = [*range(low, high, width), high]
    return [
        sum(weights.get(code, 0) for code in range(start, end))
        for start, end in pairwise(edges)
    ]


T, H = W // 3, W // 2
CASES = {
    # what is asked: the weight of each code, by group
    "SELECT DP_MEDIAN(x, eps=1) FROM t": [{0: T, 3: T, 8: T + H, 15: 2 * W}],
    "SELECT DP_MEDIAN(x, eps=1, max_rows_contributed=2) FROM t": [
        {0: 2 * W // 3, 3: 2 * W // 3, 8: 2 * W // 3 + W, 15: 2 * W}
    ],
    "SELECT DP_MEDIAN(x, eps=1) FILTER (WHERE b) FROM t": [{0: T, 3: T, 8: H, 15: W}],
    "SELECT DP_MEDIAN(x, eps=1) FROM t WHERE b": [{0: H, 3: H, 8: H, 15: W}],
    "SELECT DP_MEDIAN(x, eps=1) FROM t WHERE x = 4": [{}],
    "SELECT DP_MEDIAN(x, eps=1) FROM t GROUP BY g": [{0: T, 8: T, 15: W}, {8: H}, {}],
    "SELECT DP_MEDIAN(x, eps=1) FILTER (WHERE b) FROM t GROUP BY g": [{0: T}, {8: H}, {}],
    "SELECT DP_MEDIAN(x, eps=1) FROM t WHERE g IN ('zz', 'no') GROUP BY g": [{}, {3: W}],
    "SELECT DP_MEDIAN(x, eps=1) FROM t GROUP BY b, g": [
        {15: W}, {}, {}, {0: T}, {8: H}, {}
    ],
}  # fmt: skip


@pytest.mark.parametrize(("sql", "wanted"), CASES.items(), ids=[*CASES])
def test_a_histogram_adds_up_weights_by_range(engine, tmp_path: Path, sql, wanted):
    """In any order, and as often as asked."""
    path = table(tmp_path / "t.parquet")
    with (
        world(engine, private_table([path], COLUMNS)) as small,
        small.open(sql) as (frontier, exact),
    ):
        (measure,) = frontier.scan.measures
        assert exact.groups == len(wanted)
        for span in [*SPANS, *reversed(SPANS)]:
            for group, weights in enumerate(wanted):
                assert asked(exact, measure, group, span) == by_hand(weights, *span)


def test_without_weights_each_row_counts_one(engine, tmp_path: Path):
    path = table(tmp_path / "t.parquet")
    with world(engine, private_table([path], COLUMNS, unit=None)) as small:
        assert small.groups("SELECT DP_MEDIAN(x, eps=1) FROM t WHERE b GROUP BY g") == [
            by_hand({0: 1, 3: 1}, 0, 16, 1) + by_hand({8: 1}, 0, 16, 1) + [0] * 16
        ]


def test_several_histograms_and_sums_share_a_scan(engine, tmp_path: Path):
    path = table(tmp_path / "t.parquet")
    calls = {
        "DP_MEDIAN(x, eps=1)": [by_hand({0: T, 3: T, 8: T + H, 15: 2 * W}, 0, 16, 1)],
        "DP_QUANTILE(x, 0.5, eps=1) FILTER (WHERE b)": [
            by_hand({0: T, 3: T, 8: H, 15: W}, 0, 16, 1)
        ],
        "DP_MEDIAN(-x, bounds=[-5, -4], eps=1)": [[T + H + 2 * W, 2 * T]],
        "DP_MEDIAN(x, bounds=[7, 8], eps=1)": [[3 * T + H, 2 * W]],
        "DP_COUNT(x, eps=1)": [[3 * (2**32 // 3) + 2**31 + 2 * 2**32]],
        "DP_COUNT(DISTINCT unit, eps=1)": [[4]],
    }
    with world(engine, private_table([path], COLUMNS)) as small:
        wanted = [measure for measures in calls.values() for measure in measures]
        assert small.groups(f"SELECT {', '.join(calls)} FROM t") == wanted


def test_two_scans_that_are_open_at_once_do_not_meet(engine, tmp_path: Path):
    path = table(tmp_path / "t.parquet")
    with world(engine, private_table([path], COLUMNS)) as small:
        with (
            small.open("SELECT DP_MEDIAN(x, eps=1) FROM t") as (first, one),
            small.open("SELECT DP_MEDIAN(x, eps=1) FROM t WHERE NOT x <= 0") as (second, other),
        ):
            of_all, of_some = first.scan.measures[0], second.scan.measures[0]
            assert asked(one, of_all, 0, (0, 4, 4)) == [2 * T]
            assert asked(other, of_some, 0, (0, 16, 8)) == [0, 4 * W]
            other.close()
            assert asked(one, of_all, 0, (8, 16, 8)) == [T + H + 2 * W]
            with pytest.raises(InternalError):
                asked(other, of_some, 0, (0, 4, 4))
        with pytest.raises(InternalError):
            asked(one, of_all, 0, (0, 4, 4))


@pytest.mark.parametrize("settings", [{}, {"unit": None}, {"single": True}])
def test_all_histograms_of_a_scan_show_one_state_of_the_files(engine, tmp_path: Path, settings):
    """A file that is replaced in between fails the scan, unless the rows are held."""
    path = write(tmp_path / "t.parquet", unit=[1, 2], x=[1, 2])
    with world(engine, private_table([path], COLUMNS[:1], **settings)) as small:
        with small.open("SELECT DP_MEDIAN(x, eps=1) FROM t") as (frontier, exact):
            (measure,) = frontier.scan.measures
            (before,) = asked(exact, measure, 0, (0, 16, 16))
            write(path, unit=[1, 2, 3], x=[1, 2, 3])
            try:
                after = asked(exact, measure, 0, (0, 8, 8))
            except ScanFailed as failure:
                after = [before] if failure.code == "DPQ701" else []
            assert after == [before]
        ((*bins,),) = small.groups("SELECT DP_MEDIAN(x, eps=1) FROM t")
        assert sum(bins) == before // 2 * 3


def test_a_grid_may_have_as_many_cells_as_there_are_integers(engine, tmp_path: Path):
    path = write(tmp_path / "t.parquet", unit=[1, 2, 3], x=[-(2**63), 0, 2**63 - 1])
    low, high = -(2**62), 2**62
    sql = f"SELECT DP_MEDIAN(x, bounds=[{low}, {high - 1}], eps=1) FROM t"
    with (
        world(engine, private_table([path], [Column("x", INTEGER)])) as small,
        small.open(sql) as (frontier, exact),
    ):
        (measure,) = frontier.scan.measures
        assert measure.code.cells == 2**63
        assert asked(exact, measure, 0, (0, 2**63, 2**62)) == [W, 2 * W]
        assert asked(exact, measure, 0, (2**62, 2**62 + 2, 1)) == [W, 0]
        assert asked(exact, measure, 0, (2**63 - 5, 2**63, 4)) == [0, W]


def test_a_grid_of_more_cells_is_refused_before_anything_is_read():
    policy = policy_of(private_table([Path("none")], [Column("x", INTEGER)]))
    with pytest.raises(PlanRefused) as refused:
        planned(policy, f"SELECT DP_MEDIAN(x, bounds=[{-(2**62)}, {2**62}], eps=1) FROM t")
    assert refused.value.code == "DPQ404"


def test_weights_of_many_rows_add_up_exactly(engine, tmp_path: Path):
    units = [0] * 3000 + list(range(1, 1001))
    path = write(tmp_path / "t.parquet", unit=units, x=[unit * 0.001 for unit in units])
    column = Column("x", DOUBLE, Bounds(0, 1), grid=None)
    with world(engine, private_table([path], [column])) as small:
        ((*bins,),) = small.groups("SELECT DP_MEDIAN(x, eps=1) FROM t")
        assert sum(bins) == 3000 * (W // 3000) + 1000 * W


@pytest.mark.parametrize("sql", [sql for sql in CASES if "GROUP BY" in sql])
def test_rows_that_memory_does_not_hold_are_read_for_each_request(monkeypatch, tmp_path, sql):
    """The engine runs out of memory when it is to keep them; the integers stay the same."""
    refused = []

    def run_out(connection: object, query: str) -> duckdb.DuckDBPyConnection:
        if query.startswith("CREATE TEMP TABLE"):
            refused.append(query)
            raise duckdb.OutOfMemoryException("full")
        return execute(connection, query)

    monkeypatch.setattr("dpquery.engine.duckdb.histogram_queries.execute", run_out)
    path = table(tmp_path / "t.parquet")
    with (
        world("duckdb", private_table([path], COLUMNS)) as small,
        small.open(sql) as (frontier, exact),
    ):
        (measure,) = frontier.scan.measures
        found = [asked(exact, measure, group, (0, 16, 1)) for group in range(exact.groups)]
        assert found == [by_hand(weights, 0, 16, 1) for weights in CASES[sql]]
    assert len(refused) == 1


SHAPES = [(0, 4, 1), (4, 8, 1), (8, 16, 2), (12, 16, 1), (0, 16, 16), (3, 9, 4), (8, 11, 1),
          (0, 16, 64), (12, 15, 2)]  # fmt: skip
REQUESTS = [(group, *span) for group in range(3) for span in SHAPES]


@pytest.mark.parametrize("unit", ["unit", None])
def test_several_requests_together_are_each_of_them(engine, tmp_path: Path, unit):
    """Of any shapes and groups, repeated or not."""
    path, numbers = table(tmp_path / "t.parquet"), np.random.default_rng(3)
    with (
        world(engine, private_table([path], COLUMNS, unit=unit)) as small,
        small.open("SELECT DP_MEDIAN(x, eps=1) FROM t GROUP BY g") as (frontier, exact),
    ):
        (measure,) = frontier.scan.measures
        for several in (2, 5, 9, 9, 30, 60):
            drawn = numbers.choice(REQUESTS, several).tolist()
            requests = [GroupRequest(*one) for one in drawn]
            together = exact.histograms(measure, requests)
            alone = [asked(exact, measure, one.group, one[1:]) for one in requests]
            assert [weights.tolist() for weights in together] == alone
        assert any(map(sum, alone))


def test_requests_of_one_shape_are_one_query(tmp_path: Path, monkeypatch):
    path = write(tmp_path / "t.parquet", x=list(range(16)) * 3)
    table = private_table([path], [Column("x", INTEGER, Bounds(0, 15))], unit=None)
    queries = []

    def watched(connection: object, query: str) -> object:
        queries.append(query)
        return execute(connection, query)

    monkeypatch.setattr("dpquery.engine.duckdb.histogram_queries.execute", watched)
    with (
        world("duckdb", table) as small,
        small.open("SELECT DP_MEDIAN(x, eps=1) FROM t") as (frontier, exact),
    ):
        (measure,) = frontier.scan.measures
        requests = [GroupRequest(0, low, low + 2, 1) for low in (2, 6, 14)]
        found = exact.histograms(measure, requests)
        assert [weights.tolist() for weights in found] == [[3, 3]] * 3
    assert len(queries) == 1
