"""Makes the tables that are measured: people with one row each, visits with many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent / "data"
CHUNK = 1_000_000
DEPARTMENTS = [f"d{number:02d}" for number in range(20)]

POLICY = """\
[privacy]
neighbours = "add-remove"
[budget]
epsilon = 1000000000
[tables.people]
path = "{people}"
privacy_unit_column = "user_id"
rows_per_unit = 1
[tables.people.columns]
user_id = {{ type = "integer" }}
age = {{ type = "integer", bounds = [0, 120] }}
dept = {{ type = "text", keys = [{keys}] }}
salary = {{ type = "double", bounds = [0, 300000], grid = 0.01 }}
hired = {{ type = "date", bounds = [2000-01-01, 2030-12-31] }}
[tables.visits]
path = "{visits}"
privacy_unit_column = "user_id"
max_rows_contributed = 20
[tables.visits.columns]
user_id = {{ type = "integer" }}
day = {{ type = "date", bounds = [2024-01-01, 2024-01-30] }}
spent = {{ type = "double", bounds = [0, 1000], grid = 0.01 }}
"""


def make(rows: int) -> Path:
    """Write the tables of a size, once, and give their policy."""
    folder = HERE / str(rows)
    policy = folder / "policy.toml"
    if not policy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "people.parquet", rows, _people)
        _write(folder / "visits.parquet", rows, _visits)
        keys = ", ".join(f'"{name}"' for name in DEPARTMENTS)
        policy.write_text(
            POLICY.format(people="people.parquet", visits="visits.parquet", keys=keys)
        )
    return policy


def _write(path: Path, rows: int, chunk) -> None:
    generator = np.random.default_rng(20261118)
    writer = None
    for start in range(0, rows, CHUNK):
        table = chunk(generator, start, min(CHUNK, rows - start), rows)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=122_880)
    writer.close()


def _people(generator, start: int, count: int, rows: int) -> pa.Table:
    salary = np.exp(generator.normal(10.6, 0.6, count)).round(2)
    salary[generator.random(count) < 0.2] = 42_000.0
    return pa.table(
        {
            "user_id": pa.array(np.arange(start, start + count)),
            "age": pa.array(generator.integers(0, 100, count)),
            "dept": pa.array(np.array(DEPARTMENTS)[generator.integers(0, 20, count)]),
            "salary": pa.array(salary),
            "hired": pa.array(generator.integers(10957, 22280, count).astype("datetime64[D]")),
        }
    )


def _visits(generator, start: int, count: int, rows: int) -> pa.Table:
    users = max(1, rows // 10)
    return pa.table(
        {
            "user_id": pa.array(
                (generator.pareto(1.2, count) * users / 20).astype(np.int64) % users
            ),
            "day": pa.array(generator.integers(19723, 19753, count).astype("datetime64[D]")),
            "spent": pa.array(generator.exponential(40, count).round(2)),
        }
    )
