"""A small table of ClickBench's schema: the pages that visitors saw."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SAYS = "The unit is a visitor, `UserID`, of one table, `hits`."


def write(place: Path) -> None:
    """Write the table, the same on every run."""
    pq.write_table(pa.table({"UserID": [1, 2, 3]}), place / "hits.parquet")
