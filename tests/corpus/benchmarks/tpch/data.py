"""Small tables of TPC-H's schema: what is sold, by whom, and what customers order.

`lineitem` carries its order's customer, and customers have one name everywhere, `custkey`.
"""

from __future__ import annotations

from datetime import date
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SAYS = (
    "The unit is a customer. `lineitem` has the customer of its order, under the name that "
    "`orders` and `customer` have; suppliers, parts and what they cost are public."
)
CUSTOMERS, ORDERS, PARTS, SUPPLIERS = 300, 3000, 80, 20
FIRST, LAST = date(1992, 1, 1).toordinal(), date(1998, 8, 2).toordinal()
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    *("KENYA", "EGYPT", "BRAZIL", "CANADA", "INDIA"),
    *("JAPAN", "FRANCE", "GERMANY", "IRAN", "JORDAN"),
)
TYPES = [
    " ".join(words)
    for words in product(("PROMO", "SMALL"), ("BRUSHED", "PLATED"), ("BRASS", "TIN"))
]
CONTAINERS = [" ".join(words) for words in product(("SM", "LG"), ("BOX", "CASE"))]
COLOURS = ("forest", "green", "ivory", "navy")
SEGMENTS = ("AUTOMOBILE", "BUILDING", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
MODES = ("AIR", "MAIL", "RAIL", "SHIP", "TRUCK")
INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE")

Columns = dict[str, object]


def write(place: Path) -> None:
    """Write the tables, the same on every run."""
    random = np.random.default_rng(1992)
    tables = {**_public(random), **_private(random)}
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), place / f"{name}.parquet")


def _public(random: np.random.Generator) -> dict[str, Columns]:
    parts, suppliers = np.arange(1, PARTS + 1), np.arange(1, SUPPLIERS + 1)
    part = np.repeat(parts, 4)
    return {
        "region": {"r_regionkey": range(5), "r_name": REGIONS},
        "nation": {
            "n_nationkey": range(len(NATIONS)),
            "n_name": NATIONS,
            "n_regionkey": [number // 2 for number in range(len(NATIONS))],
        },
        "supplier": {
            "s_suppkey": suppliers,
            "s_name": [f"Supplier {number:03}" for number in suppliers],
            "s_nationkey": suppliers % len(NATIONS),
            "s_phone": [f"{10 + number % 10}-{number:07}" for number in suppliers],
            "s_acctbal": _money(random.integers(-90_000, 900_000, SUPPLIERS)),
            "s_comment": [
                "Customer Complaints" if number % 7 == 0 else "prompt" for number in suppliers
            ],
        },
        "part": {
            "p_partkey": parts,
            "p_name": [f"{COLOURS[number % 4]} {COLOURS[number // 4 % 4]}" for number in parts],
            "p_mfgr": [f"Manufacturer#{1 + number % 2}" for number in parts],
            "p_brand": [f"Brand#{1 + number % 2}{1 + number // 2 % 3}" for number in parts],
            "p_type": random.choice(TYPES, PARTS),
            "p_size": random.integers(1, 11, PARTS),
            "p_container": random.choice(CONTAINERS, PARTS),
            "p_retailprice": _money(random.integers(90_000, 190_000, PARTS)),
        },
        "partsupp": {
            "ps_partkey": part,
            "ps_suppkey": (part + np.tile(np.arange(4), PARTS) * 5) % SUPPLIERS + 1,
            "ps_availqty": random.integers(1, 200, 4 * PARTS),
            "ps_supplycost": _money(random.integers(100, 100_000, 4 * PARTS)),
        },
    }


def _private(random: np.random.Generator) -> dict[str, Columns]:
    customers = np.arange(1, CUSTOMERS + 1)
    customer = random.choice(customers[customers % 3 > 0], ORDERS)  # a third has no orders
    ordered = random.integers(FIRST, LAST - 151, ORDERS)
    of = np.repeat(np.arange(ORDERS), random.integers(1, 8, ORDERS))
    items = len(of)
    part = random.integers(1, PARTS + 1, items)
    quantity = random.integers(1, 51, items)
    shipped = ordered[of] + random.integers(1, 122, items)
    received = shipped + random.integers(1, 31, items)
    open_ = shipped > date(1995, 6, 17).toordinal()
    price = quantity * random.integers(90_000, 190_000, items)
    totals = np.bincount(of, weights=price).astype(int)
    lines = np.arange(items) - np.searchsorted(of, of) + 1
    nation = random.integers(0, len(NATIONS), CUSTOMERS)
    return {
        "customer": {
            "custkey": customers,
            "c_name": [f"Customer {number:06}" for number in customers],
            "c_nationkey": nation,
            "c_phone": [
                f"{10 + where}-{number:07}"
                for number, where in zip(customers, nation, strict=True)
            ],
            "c_acctbal": _money(random.integers(-99_999, 1_000_000, CUSTOMERS)),
            "c_mktsegment": random.choice(SEGMENTS, CUSTOMERS),
        },
        "orders": {
            "o_orderkey": np.arange(ORDERS) * 4 + 1,
            "custkey": customer,
            "o_totalprice": _money(totals),
            "o_orderdate": _days(ordered),
            "o_orderpriority": random.choice(PRIORITIES, ORDERS),
            "o_shippriority": np.zeros(ORDERS, int),
            "o_comment": random.choice(["as agreed", "special requests", "none"], ORDERS),
        },
        "lineitem": {
            "l_orderkey": of * 4 + 1,
            "custkey": customer[of],
            "l_partkey": part,
            "l_suppkey": (part + random.integers(0, 4, items) * 5) % SUPPLIERS + 1,
            "l_linenumber": lines,
            "l_quantity": _money(quantity * 100),
            "l_extendedprice": _money(price),
            "l_discount": _money(random.integers(0, 11, items)),
            "l_tax": _money(random.integers(0, 9, items)),
            "l_returnflag": np.where(open_, "N", random.choice(["A", "R"], items)),
            "l_linestatus": np.where(open_, "O", "F"),
            "l_shipdate": _days(shipped),
            "l_commitdate": _days(ordered[of] + random.integers(30, 91, items)),
            "l_receiptdate": _days(received),
            "l_shipinstruct": random.choice(INSTRUCTIONS, items),
            "l_shipmode": random.choice(MODES, items),
        },
    }


def _money(cents: np.ndarray) -> pa.Array:
    whole = pa.array(cents.astype(np.int64)).cast(pa.decimal128(19, 0))
    return pc.multiply(whole, pa.scalar("0.01").cast(pa.decimal128(2, 2))).cast(
        pa.decimal128(12, 2)
    )


def _days(ordinals: np.ndarray) -> pa.Array:
    return pa.array((ordinals - date(1970, 1, 1).toordinal()).astype(np.int32)).cast(
        pa.date32()
    )
