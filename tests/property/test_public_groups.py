"""The groups of an answer follow from query, policy and public tables: never from rows (I5).

The same query is asked of data, of the data without one unit, of rows that fit no key, and of
no rows at all. Its groups are those written here, the same bytes each time, as are EXPLAIN and
every refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.errors import QueryRefused
from dpquery.session import Session

POLICY = """
[budget]
epsilon = 1000
[tables.sales]
path = "sales.parquet"
privacy_unit_column = "person"
max_rows_contributed = 2
[tables.sales.columns]
person = { type = "integer" }
product = { type = "integer" }
size = { type = "text", keys = ["s", "m", "l"] }
day = { type = "date", bounds = [2025-01-01, 2025-03-31] }
[tables.products]
path = "products.csv"
public = true
unique = ["product"]
[tables.products.columns]
product = { type = "integer" }
category = { type = "text" }
maker = { type = "text" }
price = { type = "double" }
[tables.makers]
path = "makers.csv"
public = true
unique = ["maker"]
[tables.makers.columns]
maker = { type = "text" }
country = { type = "text" }
"""
PRODUCTS = [
    (1, "tea", "ann", 1.5),
    (2, "tea", "bob", 0.1),
    (3, "jam", "ann", 1e300),
    (4, "jam", None, 0.25),
    (5, None, "eve", -0.0),
]
MAKERS = [("ann", "nl"), ("bob", "nl"), ("cat", "be")]
FROM = "FROM sales s JOIN products p ON s.product = p.product"
BOTH = f"{FROM} JOIN makers m ON p.maker = m.maker"
N = "DP_COUNT(*, eps=0.1)"
GROUPS = [
    (f"SELECT category, maker, {N} {FROM} GROUP BY category, maker",
     [("jam", "ann"), ("jam", None), ("tea", "ann"), ("tea", "bob"), (None, "eve")]),
    (f"SELECT category, {N} {FROM} WHERE price > 1 GROUP BY category", [("jam",), ("tea",)]),
    (f"SELECT category, {N} {FROM} WHERE maker <> 'ann' AND price < 1 GROUP BY 1",
     [("tea",), (None,)]),
    (f"SELECT p.product, price, category, {N} {FROM} WHERE p.product < 4 GROUP BY p.product",
     [(1, 1.5, "tea"), (2, 0.1, "tea"), (3, 1e300, "jam")]),
    (f"SELECT s.product, maker, {N} {FROM} WHERE category = 'jam' GROUP BY s.product",
     [(3, "ann"), (4, None)]),
    (f"SELECT product, {N} FROM sales LEFT JOIN products p USING (product) "
     "WHERE product IN (1, 9) GROUP BY product", [(1,), (9,)]),
    (f"SELECT p.product, maker, {N} {FROM.replace('JOIN', 'LEFT JOIN')} AND category = 'tea' "
     "GROUP BY p.product, maker", [(1, "ann"), (2, "bob"), (None, None)]),
    (f"SELECT category, size, maker, {N} {FROM} WHERE size <> 'm' AND maker = 'ann' "
     "GROUP BY category, size, maker",
     [(c, s, "ann") for c in ("jam", "tea") for s in ("l", "s")]),
    (f"SELECT country, {N} {BOTH} GROUP BY country", [("nl",)]),
    (f"SELECT p.maker, p.category, country, {N} {BOTH} WHERE country = 'nl' "
     "GROUP BY p.maker, p.category, country",
     [(*one, "nl") for one in (("ann", "jam"), ("ann", "tea"), ("bob", "tea"))]),
    (f"SELECT m.maker, country, {N} {BOTH} GROUP BY m.maker",
     [("ann", "nl"), ("bob", "nl")]),
    (f"SELECT category, p.product, price, {N} {FROM} WHERE price BETWEEN 0.2 AND 2 "
     "GROUP BY ROLLUP (category, p.product)",
     [("jam", 4, 0.25), ("tea", 1, 1.5), ("jam", None, None), ("tea", None, None),
      (None, None, None)]),
    (f"SELECT size, {N} FROM sales WHERE size NOT IN ('m') AND size IS NOT NULL GROUP BY size",
     [("l",), ("s",)]),
    (f"SELECT MONTH(day) AS m, {N} FROM sales WHERE DAY(day) = 31 GROUP BY MONTH(day)",
     [(1,), (3,)]),
]  # fmt: skip
LINKED = [
    f"SELECT category, COUNT(*) {BOTH} WHERE country = 'nl' GROUP BY category",
    f"SELECT category, country, COUNT(*) {BOTH.replace('JOIN m', 'LEFT JOIN m')} GROUP BY 1, 2",
    f"SELECT category, COUNT(*) {BOTH.replace('JOIN m', 'LEFT JOIN m')} "
    "WHERE country IS NULL GROUP BY 1",
    f"SELECT country, COUNT(*) {BOTH.replace('JOIN', 'LEFT JOIN')} AND price < 1 GROUP BY 1",
    f"SELECT country, s.product, COUNT(*) {BOTH} WHERE s.product < 9 GROUP BY 1, 2",
    f"SELECT category, o.maker, COUNT(*) {FROM} JOIN makers o ON s.product = s.product "
    "WHERE (category = 'tea' AND o.country = 'be') OR (category = 'jam' AND o.maker = 'bob') "
    "GROUP BY category, o.maker",
    f"SELECT p.category, o.maker, o.country, COUNT(*) {BOTH} "
    "JOIN makers o ON o.country = m.country AND o.maker <> m.maker GROUP BY 1, 2, 3",
    f"SELECT o.maker, COUNT(*) {BOTH} JOIN makers o ON o.maker = m.maker "
    "WHERE category || m.country = 'teanl' GROUP BY o.maker",
]
"""Queries whose conditions read two public tables at once."""
REFUSED = [
    f"SELECT category, {N} {BOTH} AND country = 'be' GROUP BY category",
    f"SELECT p.product, {N} {FROM} WHERE category = 'tea' AND price < 0 GROUP BY p.product",
    f"SELECT category, price, {N} {FROM} GROUP BY category",
    f"SELECT size, {N} FROM sales WHERE size LIKE 'x%' GROUP BY size",
]
ROWS = {
    "data": [(person, person % 5 + 1, "sml"[person % 3]) for person in range(40)],
    "without one": [(person, person % 5 + 1, "sml"[person % 3]) for person in range(39)],
    "none that fits": [(1, 9, "xl"), (2, None, None), (3, -(2**40), "S")] * 3,
    "no rows": [],
}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:
    opened = []
    for name, rows in ROWS.items():
        place = tmp_path_factory.mktemp(name.replace(" ", "_"))
        (place / "policy.toml").write_text(POLICY)
        write(place / "products.csv", "product,category,maker,price", PRODUCTS)
        write(place / "makers.csv", "maker,country", MAKERS)
        schema = {"person": pa.int64(), "product": pa.int64(), "size": pa.string()}
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        arrays = [pa.array(c, t) for c, t in zip(columns, schema.values(), strict=True)]
        days = pa.array([20_100] * len(rows), pa.int32()).cast(pa.date32())
        table = pa.table([*arrays, days], names=[*schema, "day"])
        pq.write_table(table, place / "sales.parquet")
        opened.append(dpquery.connect(place / "policy.toml"))
    yield opened
    for session in opened:
        session.close()


def write(path: Path, head: str, rows: list) -> None:
    lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
    path.write_text("\n".join([head, *lines]) + "\n")


@pytest.mark.parametrize(("query", "groups"), GROUPS)
def test_groups_are_those_that_public_rows_have_whatever_the_private_ones_are(
    query: str, groups: list[tuple], sessions: list[Session]
):
    answers = [session.sql(query) for session in sessions]
    assert [[row[:-1] for row in answer.rows] for answer in answers] == [groups] * len(sessions)
    keys = [answer.to_arrow().drop_columns(answer.columns[-1:]) for answer in answers]
    assert {repr(one.to_pydict()).encode() for one in keys} == {
        repr(keys[0].to_pydict()).encode()
    }
    assert len({str(session.explain(query)).split("try:")[0] for session in sessions}) == 1


@pytest.mark.parametrize("query", LINKED)
def test_groups_of_linked_tables_are_those_of_all_rows_that_there_can_be(
    query: str, sessions: list[Session]
):
    with duckdb.connect() as database:
        for table, rows in {
            "products(product BIGINT, category TEXT, maker TEXT, price DOUBLE)": PRODUCTS,
            "makers(maker TEXT, country TEXT)": MAKERS,
            "sales(product BIGINT)": [*((number,) for number in range(8)), (None,)],
        }.items():
            marks = ", ".join("?" * len(rows[0]))
            database.execute(f"CREATE TABLE {table}")
            database.executemany(f"INSERT INTO {table.split('(')[0]} VALUES ({marks})", rows)
        theirs = {row[:-1] for row in database.sql(query).fetchall()}
    ours = [row[:-1] for row in sessions[0].sql(query, eps=0.1).rows]
    assert len(ours) == len({*ours})
    assert theirs <= {*ours}
    assert theirs == {*ours} or "LEFT JOIN" in query  # NULL may stand beside every row there


@pytest.mark.parametrize("query", REFUSED)
def test_a_refusal_of_groups_is_the_same_on_neighbouring_data(
    query: str, sessions: list[Session]
):
    said = set()
    for session in sessions:
        with pytest.raises(QueryRefused) as refused:
            session.sql(query)
        said.add(str(refused.value).rsplit("budget:", 1)[0])
    assert len(said) == 1
