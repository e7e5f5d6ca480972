"""Tables to be asked about: numbers between 0 and 1, and salaries that many people share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpquery

Values = np.ndarray
TOP = 300_000
"""Upper bound of salaries; 0 is the lower one."""


@dataclass(frozen=True)
class Column:
    """Values with the bounds and the grid that the policy states for them."""

    values: Values
    high: float
    grid: str


def salaries_in_cents(generator: np.random.Generator, rows: int) -> Values:
    """Log-normal, to the cent; a fifth of all earn 42,000."""
    values = np.exp(generator.normal(10.6, 0.6, rows)).round(2)
    values[generator.random(rows) < 0.2] = 42_000
    return values.clip(0, TOP)


def salaries_in_hundreds(generator: np.random.Generator, rows: int) -> Values:
    """Log-normal, to the hundred; a fifth earn 21,200 and a twentieth 30,000."""
    values = np.exp(generator.normal(10.5, 0.5, rows)).round(-2)
    share = generator.random(rows)
    values[share < 0.25] = 30_000
    values[share < 0.2] = 21_200
    return values.clip(0, TOP)


POLICY = """\
[privacy]
neighbours = "add-remove"
[budget]
epsilon = 1000000000
[tables.people]
path = "people.parquet"
privacy_unit_column = "person"
rows_per_unit = 1
[tables.people.columns]
"""


def connect(folder: Path, columns: Mapping[str, Column]) -> dpquery.Session:
    """Write the table `people` and its policy, and open a session on it."""
    folder.mkdir()
    arrays = {name: column.values for name, column in columns.items()}
    rows = len(next(iter(arrays.values())))
    pq.write_table(pa.table({"person": np.arange(rows), **arrays}), folder / "people.parquet")
    listed = (
        f'{name} = {{ type = "double", bounds = [0, {column.high}], grid = {column.grid} }}\n'
        for name, column in columns.items()
    )
    policy = folder / "policy.toml"
    policy.write_text(POLICY + "".join(listed))
    return dpquery.connect(policy)


def draws(session: dpquery.Session, call: str, count: int) -> Values:
    """Ask for a call so many times, up to fifty times a query: each is a draw of its own."""
    together = min(count, 50)
    query = f"SELECT {', '.join([call] * together)} FROM people"
    answers = [session.sql(query, refresh=True).rows[0] for _ in range(count // together)]
    return np.array(answers, float).ravel()
