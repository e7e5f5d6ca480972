"""A table whose scan takes many seconds and no room: one file under many names."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

__all__ = ["slow_policy"]

ROWS, GROUPS, NAMES = 1_000_000, 50, 100
POLICY = """
[budget]
epsilon = 2
[tables.slow]
path = "part-*.parquet"
[tables.slow.columns]
x = { type = "integer", bounds = [0, 9] }
"""


def slow_policy(place: Path) -> Path:
    """Make the table in a directory of its own, and give its policy."""
    place.mkdir()
    first = place / "part-0.parquet"
    group = pa.table({"x": pa.nulls(ROWS, pa.int64()).fill_null(3)})
    with parquet.ParquetWriter(first, group.schema) as file:
        for _ in range(GROUPS):
            file.write_table(group)
    for number in range(1, NAMES):
        os.link(first, place / f"part-{number}.parquet")
    policy = place / "policy.toml"
    policy.write_text(POLICY)
    return policy
