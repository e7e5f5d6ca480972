"""The eight tables of a shop, by chance, that the owner's page makes a policy of."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CUSTOMERS, ORDERS, SESSIONS, VIEWS = 2000, 9000, 7000, 24_000


def make_store(place: Path) -> None:
    """Write the tables into a new folder."""
    chance = random.Random(3)
    first = datetime.fromisoformat("2025-01-01")

    def moments(number: int) -> pa.Array:
        seconds = (timedelta(seconds=chance.randrange(365 * 86400)) for _ in range(number))
        return pa.array([first + one for one in seconds], pa.timestamp("us"))

    def several(number: int, *values: object) -> list[object]:
        return chance.choices(values, k=number)

    def numbers(number: int, most: int) -> list[int]:
        return [chance.randrange(most) for _ in range(number)]

    bought = [order for order in range(ORDERS) for _ in range(chance.randint(1, 5))]
    born = [date(1940, 1, 1) + timedelta(days) for days in numbers(CUSTOMERS, 25_000)]
    views = numbers(VIEWS, SESSIONS)
    tables = {
        "customers": {
            "customer_id": range(CUSTOMERS),
            "name": [f"Customer {number}" for number in range(CUSTOMERS)],
            "born": born,
            "region_id": numbers(CUSTOMERS, 5),
            "newsletter": several(CUSTOMERS, True, False, None),
        },
        "orders": {
            "order_id": range(ORDERS),
            "customer_id": [int(CUSTOMERS * chance.random() ** 2) for _ in range(ORDERS)],
            "ordered": moments(ORDERS),
            "channel": several(ORDERS, "web", "store", "phone"),
        },
        "lineitems": {
            "order_id": bought,
            "product_id": numbers(len(bought), 62),
            "quantity": [chance.randint(1, 12) for _ in bought],
            "price": [chance.randint(100, 9000) / 100 for _ in bought],
        },
        "payments": {
            "payment_id": range(ORDERS),
            "order_id": [*range(ORDERS - 3), None, ORDERS, ORDERS + 1],
            "method": several(ORDERS, "card", "invoice", "cash"),
            "amount": [chance.randint(100, 40_000) / 100 for _ in range(ORDERS)],
        },
        "sessions": {
            "session_id": [f"s{number}" for number in range(SESSIONS)],
            "user_id": numbers(SESSIONS, CUSTOMERS),
            "started": moments(SESSIONS),
            "device": several(SESSIONS, "phone", "tablet", "desktop"),
        },
        "products": {
            "product_id": range(60),
            "title": [f"Product {number}" for number in range(60)],
            "category": several(60, "books", "food", "toys"),
        },
        "regions": {
            "region_id": range(5),
            "region": ["centre", "east", "north", "south", "west"],
        },
    }
    (place / "page_views").mkdir(parents=True)
    for name, columns in tables.items():
        pq.write_table(pa.table(dict(columns)), place / f"{name}.parquet")
    for part in range(3):
        seen = views[part::3]
        columns = {
            "session_id": [f"s{number}" for number in seen],
            "url": several(len(seen), "/", "/cart", "/help"),
            "seconds": numbers(len(seen), 700),
        }
        pq.write_table(pa.table(columns), place / "page_views" / f"part-{part + 1:04}.parquet")
