"""First queries: in a new process each time, and the second and third of a new session.

The files were verified before, as on every day but the first. A new process asks one query:
what is timed is from connecting to the answer, imports left out; beside it, the whole process.
Ours and DuckDB's take turns, and medians are compared.
`python -m benchmarks.bench.cold [ROWS] [ROUNDS]`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb

import dpquery
from benchmarks.bench.data import make

DECILES = [k / 10 for k in range(1, 10)]
FIRST = {
    "sum": ("DP_SUM(salary, eps=1) FROM people", "sum(salary) FROM people", 2.0),
    "mean by 20 keys": (
        "dept, DP_AVG(salary, eps=1) FROM people GROUP BY dept",
        "dept, avg(salary) FROM people GROUP BY dept",
        2.0,
    ),
    "median": (
        "DP_MEDIAN(salary, eps=1) FROM people",
        "quantile_cont(salary, 0.5) FROM people",
        1.2,
    ),
    "nine deciles": (
        f"DP_QUANTILE(salary, {DECILES}, eps=1) FROM people",
        f"quantile_cont(salary, {DECILES}) FROM people",
        0.8,
    ),
}
"""What is asked of us and of DuckDB after SELECT, and the limit of the ratio."""
LATER = "DP_SUM(spent, eps=1) FROM visits", "sum(spent) FROM visits", 3.0
"""The same, of units with several rows."""
OURS = """
import sys, time
import dpquery, dpquery.session
begun = time.perf_counter()
with dpquery.connect(sys.argv[1]) as session:
    session.sql(sys.argv[2], refresh=True)
    print(time.perf_counter() - begun)
"""
THEIRS = """
import sys, time
import duckdb
begun = time.perf_counter()
plain = duckdb.connect()
plain.execute("SET enable_progress_bar = false")
plain.execute(sys.argv[2]).fetchall()
print(time.perf_counter() - begun)
"""
SMALL = "SELECT DP_COUNT(*, eps=1) FROM people"
ALLOWED = 0.35
"""Seconds that a query on the command line may take of a small file."""


INSTALLED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""The environment, where modules are compiled once and not by each process."""


def in_new_process(program: str, policy: Path, query: str) -> tuple[float, float]:
    """Return how long an answer takes, and the process with it."""
    command = [sys.executable, "-c", program, str(policy), query]
    begun = time.perf_counter()
    told = subprocess.run(
        command, capture_output=True, text=True, check=True, env=INSTALLED
    ).stdout
    return float(told), time.perf_counter() - begun


def first_queries(policy: Path, rounds: int) -> list[dict]:
    """Measure the first query of a process."""
    found = []
    for name, (ours, theirs, limit) in FIRST.items():
        query = f"SELECT {theirs}".replace(" people", f" '{policy.parent}/people.parquet'")
        in_new_process(OURS, policy, f"SELECT {ours}")  # verifies the files, once and for all
        a, b = [], []
        for _ in range(rounds):
            b.append(in_new_process(THEIRS, policy, query))
            a.append(in_new_process(OURS, policy, f"SELECT {ours}"))
        answer, process = ([*map(statistics.median, zip(*x, strict=True))] for x in (a, b))
        found.append(_row(f"first {name}", answer[0], process[0], limit))
        whole = answer[1] / process[1]
        print(f"{_told(found[-1])}   (whole processes {whole:.2f}: {answer[1] * 1000:.0f} ms)")
    return found


def later_queries(policy: Path, rounds: int) -> list[dict]:
    """Measure the second and third sum of a session over units with several rows."""
    ours, theirs, limit = LATER
    plain = duckdb.connect()
    plain.execute("SET enable_progress_bar = false")
    file = f"'{policy.parent}/visits.parquet'"
    rounds_of = [
        _three(
            policy,
            f"SELECT {ours}",
            lambda: plain.execute(f"SELECT {theirs}".replace("visits", file)).fetchall(),
        )
        for _ in range(rounds)
    ]
    found = []
    for place, name in enumerate(("first", "second", "third")):
        a, b = (statistics.median(one[place][side] for one in rounds_of) for side in (0, 1))
        found.append(_row(f"{name} sum, several rows", a, b, limit if place else None))
        print(_told(found[-1]))
    return found


def _three(policy: Path, query: str, theirs: Callable[[], object]) -> list[tuple[float, float]]:
    """Ask one query three times in a new session, each time beside DuckDB."""
    theirs()
    with dpquery.connect(policy) as session:
        return [
            (_timed(lambda: session.sql(query, refresh=True)), _timed(theirs)) for _ in range(3)
        ]


def _timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def _row(name: str, ours: float, theirs: float, limit: float | None) -> dict:
    times = {"ours_ms": ours * 1000, "duckdb_ms": theirs * 1000, "ratio": ours / theirs}
    return {"case": name, **times, "limit": limit}


def _told(row: dict) -> str:
    aim = "" if row["limit"] is None else f" (at most {row['limit']})"
    return (
        f"{row['case']:<28} {row['ours_ms']:9.1f} ms   duckdb {row['duckdb_ms']:9.1f} ms   "
        f"ratio {row['ratio']:6.2f}{aim}"
    )


def one_shot(times: int = 15) -> float:
    """Return the median time of a query on the command line, of a small file."""
    command = [sys.executable, "-m", "dpquery", str(make(1000)), "-c", f"REFRESH {SMALL}"]

    def ask() -> None:
        subprocess.run(command, capture_output=True, check=True, env=INSTALLED)

    ask()
    return statistics.median(_timed(ask) for _ in range(times))


def measured(policy: Path, rounds: int) -> dict:
    """Measure all of it, and say what is found."""
    cases = [*first_queries(policy, rounds), *later_queries(policy, rounds)]
    taken = one_shot()
    print(
        f"dpquery policy.toml -c SQL, 1,000 rows: {taken * 1000:.0f} ms (at most {ALLOWED} s)"
    )
    return {"cases": cases, "one_shot_ms": taken * 1000}


def main(arguments: Sequence[str]) -> None:
    rows, rounds = [*map(int, arguments), *(10_000_000, 7)[len(arguments) :]]
    measured(make(rows), rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
