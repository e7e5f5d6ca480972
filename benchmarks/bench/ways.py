"""Rows that reach their unit through another table, against the same with the unit stored.

Both are asked by dpquery, alternating in one process: a quarter as many orders as items, a
tenth as many people as orders. First queries are those of a session of their own.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpquery
from benchmarks.bench.data import HERE

LIMIT = 1.5
POLICY = """\
[privacy]
unit = "person"
[budget]
epsilon = 1000000000
[tables.orders]
path = "orders.parquet"
privacy_unit_column = "buyer"
privacy_unit_type = "integer"
max_rows_contributed = 20
columns.number = { type = "integer" }
[tables.items]
path = "items.parquet"
unit_through = { column = "of", table = "orders", key = "number" }
max_rows_contributed = 60
columns.of = { type = "integer" }
columns.price = { type = "double", bounds = [0, 1000], grid = 0.01 }
columns.day = { type = "date", bounds = [2024-01-01, 2024-01-30] }
[tables.stored]
path = "stored.parquet"
privacy_unit_column = "person"
privacy_unit_type = "integer"
max_rows_contributed = 60
columns.price = { type = "double", bounds = [0, 1000], grid = 0.01 }
columns.day = { type = "date", bounds = [2024-01-01, 2024-01-30] }
"""
QUERIES = {
    "sum": "SELECT DP_SUM(price, eps=1) FROM {}",
    "sum and count per day": "SELECT day, DP_SUM(price, eps=1), DP_COUNT(*, eps=1) FROM {} "
    "GROUP BY day",
    "median": "SELECT DP_MEDIAN(price, eps=1) FROM {}",
}


def make(rows: int) -> Path:
    """Write the tables of a size, once, and give their policy."""
    folder = HERE / f"ways{rows}"
    policy = folder / "policy.toml"
    if not policy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(20261119)
        orders = rows // 4
        numbers, buyers = np.arange(orders) * 4 + 1, random.integers(0, orders // 10, orders)
        of = np.sort(random.integers(0, orders, rows))  # items stand by their orders
        items = {
            "price": random.exponential(40, rows).round(2),
            "day": pa.array(random.integers(19723, 19753, rows).astype("datetime64[D]")),
        }
        tables = {
            "orders": {"number": numbers, "buyer": buyers},
            "items": {"of": numbers[of], **items},
            "stored": {"person": buyers[of], **items},
        }
        for name, columns in tables.items():
            pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        policy.write_text(POLICY)
    return policy


def compare(rows: int, rounds: int) -> list[dict]:
    """Time each query of both tables, and say how they compare."""
    policy, found = make(rows), []
    for name, query in QUERIES.items():
        first = {
            table: statistics.median(_first(policy, query.format(table)) for _ in range(3))
            for table in ("stored", "items")
        }
        times: dict[str, list[float]] = {"stored": [], "items": []}
        with ExitStack() as stack:  # a session each: what both keep could be too much for one
            sessions = {t: stack.enter_context(dpquery.connect(policy)) for t in times}
            for table in (*times, *times):  # what is asked twice is kept
                _timed(sessions[table], query.format(table))
            for _ in range(rounds):
                for table, taken in times.items():
                    taken.append(_timed(sessions[table], query.format(table)))
        later = {table: statistics.median(taken) for table, taken in times.items()}
        row = {"case": name, "limit": LIMIT}
        for when, these in (("first", first), ("later", later)):
            row |= {f"{when}_{table}_ms": these[table] * 1000 for table in these}
            row[f"{when}_ratio"] = these["items"] / these["stored"]
        found.append(row)
        print(
            f"{name:<22} stored {row['later_stored_ms']:7.1f} ms, through orders "
            f"{row['later_items_ms']:7.1f} ms   ratio {row['later_ratio']:.2f} "
            f"(at most {LIMIT})   first in a session {row['first_stored_ms']:.0f} and "
            f"{row['first_items_ms']:.0f} ms, {row['first_ratio']:.2f}"
        )
    return found


def _first(policy: Path, query: str) -> float:
    with dpquery.connect(policy) as session:
        return _timed(session, query)


def _timed(session: dpquery.Session, query: str) -> float:
    start = time.perf_counter()
    session.sql(query, refresh=True)
    return time.perf_counter() - start
