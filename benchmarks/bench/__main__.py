"""`make bench`: each query against DuckDB's own, non-private answer, alternating in one run.

Ratios are what counts: absolute times depend on the machine and on what else it does.
`python -m benchmarks.bench [ROWS] [ROUNDS] [NAME]` runs the cases whose name holds NAME.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np

import dpquery
from benchmarks.bench import cold, ledger, many_files, slow_disk, ways
from benchmarks.bench.data import HERE, make
from dpquery.mechanisms import FittedQuantiles, Randomness

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Case:
    name: str
    ours: str
    theirs: str
    limit: float | None = None


DECILES = [k / 10 for k in range(1, 10)]
CASES = (
    Case(
        "count with WHERE",
        "SELECT DP_COUNT(*, eps=1) FROM people WHERE age >= 30 AND salary < 50000",
        "SELECT count(*) FROM people WHERE age >= 30 AND salary < 50000",
    ),
    Case(
        "count of all rows",
        "SELECT DP_COUNT(*, eps=1) FROM people",
        "SELECT count(*) FROM people",
    ),
    Case(
        "weighted count",
        "SELECT DP_COUNT(*, eps=1) FROM visits WHERE spent < 50",
        "SELECT sum(least(n, 20)) FROM "
        "(SELECT count(*) n FROM visits WHERE spent < 50 GROUP BY user_id)",
    ),
    Case(
        "sum", "SELECT DP_SUM(salary, eps=1) FROM people", "SELECT sum(salary) FROM people", 2.0
    ),
    Case(
        "mean",
        "SELECT DP_AVG(salary, eps=1) FROM people",
        "SELECT avg(salary) FROM people",
        2.0,
    ),
    Case(
        "count and mean by 20 keys",
        "SELECT dept, DP_COUNT(*, eps=1), DP_AVG(salary, eps=1) FROM people GROUP BY dept",
        "SELECT dept, count(*), avg(salary) FROM people GROUP BY dept",
        2.0,
    ),
    Case(
        "median",
        "SELECT DP_MEDIAN(salary, eps=1) FROM people",
        "SELECT quantile_cont(salary, 0.5) FROM people",
        1.0,
    ),
    Case(
        "nine quantiles",
        f"SELECT DP_QUANTILE(salary, {DECILES}, eps=1) FROM people",
        f"SELECT quantile_cont(salary, {DECILES}) FROM people",
        0.6,
    ),
    Case(
        "count of units",
        "SELECT DP_COUNT(DISTINCT user_id, eps=1) FROM visits",
        "SELECT count(DISTINCT user_id) FROM visits",
        1.3,
    ),
    Case(
        "median by 20 keys",
        "SELECT dept, DP_MEDIAN(salary, eps=1) FROM people GROUP BY dept",
        "SELECT dept, quantile_cont(salary, 0.5) FROM people GROUP BY dept",
    ),
    *(
        Case(
            f"sum and count per day, {name}",
            f"SELECT day, DP_COUNT(*, eps=1{counted}), DP_SUM(spent, eps=1{summed}) "
            "FROM visits GROUP BY day",
            "SELECT day, count(*), sum(least(greatest(spent, 0), 1000)) FROM (SELECT day, "
            "spent, row_number() OVER (PARTITION BY user_id ORDER BY day, spent) AS r "
            "FROM visits) WHERE r <= 5 GROUP BY day",
            limit,
        )
        for name, counted, summed, limit in (
            ("weights", ", max_rows_contributed=5", ", max_rows_contributed=5", 0.4),
            (
                "totals",
                ", contribution_bounds_per_group=(0, 2), max_groups_contributed=5",
                ", contribution_bounds_per_group=(0, 100), max_groups_contributed=5",
                None,
            ),
        )
    ),
)


def _aim(case: Case) -> str:
    return "" if case.limit is None else f" (at most {case.limit})"


def timed(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compare(policy: Path, rounds: int, name: str) -> list[dict]:
    session = dpquery.connect(policy)
    plain = duckdb.connect()
    plain.execute("SET enable_progress_bar = false")
    for table in ("people", "visits"):
        plain.execute(
            f"CREATE VIEW {table} AS FROM read_parquet('{policy.parent / table}.parquet')"
        )
    found = []
    for case in (case for case in CASES if name in case.name):
        first = timed(lambda case=case: session.sql(case.ours, refresh=True))
        plain.execute(case.theirs).fetchall()
        ours, theirs = [], []
        for _ in range(rounds):
            theirs.append(timed(lambda case=case: plain.execute(case.theirs).fetchall()))
            ours.append(timed(lambda case=case: session.sql(case.ours, refresh=True)))
        row = {
            "case": case.name,
            "ours_ms": statistics.median(ours) * 1000,
            "duckdb_ms": statistics.median(theirs) * 1000,
            "ratio": statistics.median(ours) / statistics.median(theirs),
            "first_ms": first * 1000,
            "limit": case.limit,
        }
        found.append(row)
        print(
            f"{row['case']:<28} {row['ours_ms']:9.1f} ms   duckdb {row['duckdb_ms']:9.1f} ms   "
            f"ratio {row['ratio']:6.2f}{_aim(case)}   (first {row['first_ms']:.0f} ms)"
        )
    session.close()
    return found


def billion_rows(times: int = 20) -> float:
    """Median time of a release of nine deciles of 10^9 rows on 2^44 cells, counting left out.

    Rows are known through a function that says how many of them lie below a cell, so what is
    timed is what Python does: the outlook, the sums, the attempts.
    """
    orders = tuple(Fraction(k, 10) for k in range(1, 10))
    mechanism = FittedQuantiles.calibrated(orders, 2**44, 2**36, 1, Fraction(1))
    return statistics.median(_timed_release(mechanism) for _ in range(times))


def _timed_release(mechanism: FittedQuantiles) -> float:
    counting = 0.0

    def counted(low: int, high: int, width: int) -> np.ndarray:
        nonlocal counting
        start = time.process_time()
        bins = -(-(high - low) // width)
        edges = np.minimum(low + width * np.arange(bins + 1), high) / mechanism.cells
        found = np.diff(np.floor(10**9 * edges**2).astype(np.int64))
        counting += time.process_time() - start
        return found

    start = time.process_time()
    mechanism.release(counted, Randomness())
    return time.process_time() - start - counting


def warm_latency(times: int = 100) -> float:
    """Median of a small query in a warm session, with its charge on disk."""
    with dpquery.connect(make(1000)) as session:
        query = "SELECT DP_COUNT(*, eps=1) FROM people WHERE age >= 30"
        session.sql(query, refresh=True)
        return statistics.median(
            timed(lambda: session.sql(query, refresh=True)) for _ in range(times)
        )


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    print(f"{rows:,} rows, median of {rounds} alternating rounds")
    found = compare(make(rows), rounds, sys.argv[3] if len(sys.argv) > 3 else "")
    found += many_files.compare(HERE / "many", rounds)
    new = cold.measured(make(rows), rounds)
    through = ways.compare(rows, rounds)
    stub = billion_rows() * 1000
    print(f"1,000,000,000 rows in a counting function, nine deciles: {stub:.1f} ms of Python")
    small = warm_latency() * 1000
    print(f"1,000 rows, warm session, charge on disk: {small:.1f} ms (median of 100)")
    charged = ledger.charges()
    print(ledger.told(charged))
    print(f"where each sync takes {slow_disk.MORE / 1000} ms more: {slow_disk.told()}")
    RESULTS.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    record = {"rows": rows, "rounds": rounds, "cases": found, "warm_ms": small, "stub_ms": stub}
    record |= {"ledger": charged, "cold": new, "ways": through}
    (RESULTS / f"{stamp}.json").write_text(json.dumps(record, indent=1))


main()
