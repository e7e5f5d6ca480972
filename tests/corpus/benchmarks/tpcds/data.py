"""Small tables of TPC-DS's schema: sales, returns and what they name, by `tables.sql`."""

from __future__ import annotations

from pathlib import Path

import duckdb

SAYS = (
    "The unit is a customer, under one name in all sales and returns. What is sold, where and "
    "when, stock and classes of people are public; so is `customer_address`, as a register of "
    "all addresses: who lives at one is not. `HAVING COUNT(*) > 0` leaves out groups that "
    "nobody is in."
)
TABLES = Path(__file__).with_name("tables.sql")


def write(place: Path) -> None:
    """Write the tables, the same on every run."""
    with duckdb.connect() as database:
        database.execute(TABLES.read_text("utf-8"))
        for (name,) in database.sql("SELECT table_name FROM duckdb_tables()").fetchall():
            database.execute(f"COPY {name} TO '{place / name}.parquet' (FORMAT parquet)")
