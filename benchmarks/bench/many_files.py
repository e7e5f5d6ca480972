"""A sum over many small files, in new sessions: against DuckDB in new connections."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

import dpquery
from dpquery.policy.sources import parquet_footers

FILES, ROWS = 1000, 1000
LIMIT = 2.0
QUERY = "SELECT DP_SUM(pay, eps=1, bounds=[0, 1000]) FROM many"


def make(place: Path) -> str:
    """Write the files, unless they are there, and return their glob."""
    if not place.exists():
        place.mkdir(parents=True)
        columns = "i AS id, i % 100 AS age, CAST(i AS DOUBLE) AS pay, 'd' || i % 5 AS dept"
        with duckdb.connect() as connection:
            for number in range(FILES):
                rows = f"SELECT {columns} FROM range({ROWS}) t(i)"
                connection.execute(f"COPY ({rows}) TO '{place}/{number:05}.parquet'")
    return f"{place}/*.parquet"


def compare(place: Path, rounds: int) -> list[dict]:
    """Time a sum over all files: in the first session of a process, a new one, a warm one."""
    glob = make(place)

    def theirs() -> None:
        with duckdb.connect() as connection:
            connection.execute(f"SELECT sum(pay) FROM read_parquet('{glob}')").fetchall()

    def first() -> None:
        parquet_footers._KEPT.clear()
        anew()

    def anew() -> None:
        with dpquery.connect({"many": glob}, epsilon=1000) as session:
            session.sql(QUERY)

    anew()  # what is imported and compiled once
    with dpquery.connect({"many": glob}, epsilon=1000) as session:
        return [
            _row(name, ours, theirs, rounds)
            for name, ours in (
                (f"{FILES} files, first session", first),
                (f"{FILES} files, new session", anew),
                (f"{FILES} files, warm", lambda: session.sql(QUERY)),
            )
        ]


def _row(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int
) -> dict:
    times: dict[Callable[[], object], list[float]] = {ours: [], theirs: []}
    for _ in range(rounds):
        for action, found in times.items():
            start = time.perf_counter()
            action()
            found.append(time.perf_counter() - start)
    mine, others = (statistics.median(found) * 1000 for found in times.values())
    row = {
        "case": name,
        "ours_ms": mine,
        "duckdb_ms": others,
        "ratio": mine / others,
        "limit": LIMIT,
    }
    print(
        f"{name:<28} {mine:9.1f} ms   duckdb {others:9.1f} ms   "
        f"ratio {row['ratio']:6.2f} (at most {LIMIT})"
    )
    return row
