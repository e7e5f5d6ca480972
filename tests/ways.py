"""Tables that reach their unit through others: people, their orders, items of these, returns.

`people` and `orders` store the unit under two names. `items` go through `orders`, and `returns`
through `items`. Keys are shared, dangling and NULL, and units claim one several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.policy.load import load_policy
from dpquery.policy.model import Policy

POLICY = """
[privacy]
unit = "person"
neighbours = "{neighbours}"
[budget]
epsilon = 9e9
[tables.people]
path = "people.parquet"
privacy_unit_column = "person"
rows_per_unit = 1
columns.person = {{ type = "{type}" }}
columns.age = {{ type = "integer", bounds = [0, 9] }}
[tables.orders]
path = "orders.parquet"
privacy_unit_column = "buyer"
privacy_unit_type = "{type}"
max_rows_contributed = {rows}
columns.number = {{ type = "integer" }}
columns.total = {{ type = "integer", bounds = [-3, 9] }}
[tables.items]
path = "items.parquet"
unit_through = {{ column = "of", table = "orders", key = "number" }}
max_rows_contributed = {rows}
columns.item = {{ type = "text", max_length = 2 }}
columns.of = {{ type = "integer", bounds = [0, 99999999] }}
columns.price = {{ type = "integer", bounds = [-3, 9] }}
columns.world = {{ type = "integer", bounds = [0, {worlds}], null_group = false }}
[tables.returns]
path = "returns.parquet"
unit_through = {{ column = "what", table = "items", key = "item" }}
max_rows_contributed = {rows}
columns.what = {{ type = "text" }}
columns.why = {{ type = "integer", bounds = [0, 4] }}
"""
SCHEMAS = {
    "people": pa.schema({"person": pa.int64(), "age": pa.int32()}),
    "orders": pa.schema({"buyer": pa.int32(), "number": pa.int32(), "total": pa.int64()}),
    "items": pa.schema(
        {"item": pa.string(), "of": pa.int64(), "price": pa.int64(), "world": pa.int32()}
    ),
    "returns": pa.schema({"what": pa.string(), "why": pa.int8()}),
}
STORED = {"people": "person", "orders": "buyer"}
"""The tables that store the unit, and under which name."""

Rows = Mapping[str, Sequence[Mapping[str, object]]]


def policy_at(
    place: Path,
    rows: Rows,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    *,
    limit: int = 1,
    worlds: int = 0,
    order: Random | None = None,
) -> Policy:
    """Write tables, and load a policy over them."""
    place.mkdir(exist_ok=True)
    for name, schema in SCHEMAS.items():
        found = list(rows[name])
        if order is not None:
            order.shuffle(found)
        table = pa.Table.from_pylist(found, schema=schema)
        pq.write_table(table, place / f"{name}.parquet", row_group_size=3 if order else None)
    text = POLICY.format(neighbours=neighbours, type="integer", rows=limit, worlds=worlds)
    (place / "policy.toml").write_text(text, "utf-8")
    return load_policy(place / "policy.toml")


def without(rows: Rows, unit: int) -> Rows:
    """Return the tables when a unit has gone: what it alone claimed stays, and dangles."""
    kept = dict(rows)
    for name, column in STORED.items():
        kept[name] = [row for row in rows[name] if row[column] != unit]
    return kept


def cleared(rows: Rows) -> Rows:
    """Return the tables without the rows that nobody claims."""
    numbers = {row["number"] for row in rows["orders"] if row["buyer"] is not None}
    items = [row for row in rows["items"] if row["of"] in numbers - {None}]
    names = {row["item"] for row in items} - {None}
    returns = [row for row in rows["returns"] if row["what"] in names]
    return {**rows, "items": items, "returns": returns}


def drawn_rows(random: Random, units: Iterable[int]) -> Rows:
    """Draw tables in which few keys are shared by many."""
    people, orders = [], []
    for unit in units:
        if random.random() < 0.8:
            people.append({"person": unit, "age": random.choice([None, -5, 3, 20])})
        for _ in range(random.choice([0, 1, 1, 2, 5])):
            total = random.choice([None, -(2**62), 0, 4, 10**9])
            number = random.choice([None, 1, 2, 3, 3, 10 + unit])
            orders.append({"buyer": unit, "number": number, "total": total})
    orders.append({"buyer": None, "number": 2, "total": 1})
    items = [
        {
            "item": random.choice([None, "a", "ab", "abc", "abd", "e"]),
            "of": random.choice([None, 1, 2, 3, 4, 10, 11, 12]),
            "price": random.choice([None, -9, 0, 2, 2**60]),
            "world": 0,
        }
        for _ in range(random.choice([0, 3, 9]))
    ]
    returns = [
        {
            "what": random.choice([None, "a", "ab", "abc", "abd", "z"]),
            "why": random.choice([None, 0, 3, 9]),
        }
        for _ in range(random.choice([0, 2, 5]))
    ]
    return {"people": people, "orders": orders, "items": items, "returns": returns}


@dataclass(frozen=True)
class Asked:
    """A FROM clause over these tables, and numbers that its rows have."""

    rows: str
    numbers: tuple[str, ...]


SOURCES = (
    Asked("items", ("price", "of")),
    Asked("returns", ("why",)),
    Asked("items JOIN orders ON of = number", ("price", "total")),
    Asked("orders, items WHERE number = of AND price < 9", ("price", "total")),
    Asked("orders LEFT JOIN items ON of = number AND price > 0", ("price", "total")),
    Asked("items FULL JOIN returns ON item = what", ("price", "why")),
    Asked("items a JOIN items b ON a.of = b.of", ("a.price", "b.price")),
    Asked("returns JOIN items ON what = item JOIN orders ON of = number", ("why", "total")),
    Asked("items JOIN orders ON number = of JOIN people ON buyer = person", ("price", "age")),
    Asked("people JOIN returns ON person = returns.buyer", ("age", "why")),
    Asked("orders WHERE number IN (SELECT of FROM items WHERE price > 0)", ("total",)),
    Asked("orders WHERE number NOT IN (SELECT of FROM items)", ("total",)),
    Asked(
        "orders WHERE number IN (SELECT of FROM items GROUP BY of HAVING SUM(price) > 1)",
        ("total",),
    ),
    Asked(
        "orders WHERE EXISTS (SELECT 1 FROM items WHERE of = number AND price < total)",
        ("total",),
    ),
    Asked("items WHERE NOT EXISTS (SELECT 1 FROM returns WHERE what = item)", ("price",)),
    Asked("people WHERE NOT EXISTS (SELECT 1 FROM orders WHERE buyer = person)", ("age",)),
    Asked("people WHERE person IN (SELECT buyer FROM returns WHERE why > 0)", ("age",)),
    Asked("(SELECT buyer, SUM(price) AS s, COUNT(*) AS n FROM items GROUP BY buyer)", ("n",)),
    Asked("(SELECT DISTINCT of, price FROM items) x", ("price",)),
    Asked("(SELECT total AS v FROM orders UNION ALL SELECT price FROM items) x", ("v",)),
    Asked(
        "(SELECT price, row_number() OVER (PARTITION BY buyer ORDER BY price) AS r "
        "FROM items) x WHERE r <= 2",
        ("price", "r"),
    ),
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Draw a query over one of these, with several calls, by groups or without."""
    asked = draw(st.sampled_from(SOURCES))
    number = draw(st.sampled_from(asked.numbers))
    calls = {
        "DP_COUNT(*, eps=1)",
        f"DP_COUNT({number}, eps=1, max_rows_contributed=2)",
        f"DP_SUM({number}, eps=1, bounds=[-2, 5], max_rows_contributed=3)",
        f"DP_AVG({number}, eps=1, bounds=[0, 4])",
        f"DP_MEDIAN({number}, eps=1, bounds=[0, 9])",
        f"DP_QUANTILE({number}, [0.2, 0.7], eps=1, bounds=[0, 9])",
        f"DP_COUNT(DISTINCT {number}, eps=1)",
    }
    chosen = draw(st.lists(st.sampled_from(sorted(calls)), min_size=1, max_size=3))
    key = draw(st.sampled_from(["", f"CASE WHEN {number} > 1 THEN 'a' ELSE 'b' END"]))
    listed = ", ".join([*([f"{key} AS g"] if key else []), *dict.fromkeys(chosen)])
    return f"SELECT {listed} FROM {asked.rows}" + (" GROUP BY g" if key else "")
