"""Small tables of TPC-H's schema as it is: `lineitem` has its order's key and no customer."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from tests.corpus.benchmarks.tpch import data as tpch

SAYS = (
    "The same data in the schema as it is. Customers are `c_custkey` in one table and "
    "`o_custkey` in another, and the policy says that items go through `orders` to theirs. The "
    "questions are written as for any database: joins name the keys alone."
)
KEYS = {"customer": "c_custkey", "orders": "o_custkey"}


def write(place: Path) -> None:
    """Write the tables, the same on every run."""
    tpch.write(place)
    for name in ("customer", "orders", "lineitem"):
        file = place / f"{name}.parquet"
        table = pq.read_table(file)
        if name in KEYS:
            table = table.rename_columns({"custkey": KEYS[name]})
        else:
            table = table.drop_columns("custkey")
        pq.write_table(table, file)
