"""What is typed, what is offered for it, and that this is accepted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpquery
from dpquery.errors import QueryRefused
from dpquery.session import Session
from tests.samples import edit, sample_policy

DATASETS = Path(__file__).parents[3] / "datasets"

TYPED = [
    # what is typed, and the query that is offered for it in whole
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM order",
        "SELECT DP_COUNT(*, eps=0.5) FROM orders",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM people SELECT DP_COUNT(*, eps=0.5) FROM items",
        "SELECT DP_COUNT(*, eps=0.5) FROM people",
    ),
    (
        "SELECT DP_AVG(SUM(price), eps=0.5) FROM items",
        "SELECT DP_AVG(s, eps=0.5, bounds=[0, 1000]) "
        "FROM (SELECT person_id, SUM(price) AS s FROM items GROUP BY person_id)",
    ),
    (
        "SELECT TOP 5 region, DP_COUNT(*, eps=0.5) AS n FROM people",
        "SELECT TOP 5 region, DP_COUNT(*, eps=0.5) AS n FROM people GROUP BY region",
    ),
    (
        "SELECT product DP_COUNT(*, eps=0.5) FROM items",
        "SELECT product, DP_COUNT(*, eps=0.5) FROM items "
        "GROUP BY DP_KEYS(product, eps=0.5, delta=1e-7)",
    ),
    (
        "SELECT citty DP_COUNT(*, eps=0.5) FROM people GROUP BY citty",
        "SELECT DP_COUNT(*, eps=0.5) FROM people",
    ),
    ("EXPLAIN DP_COUNT(*)", "SELECT DP_COUNT(*, eps=0.5) FROM people"),
    (
        "SELECT region, DP_COUNT(*, eps=0.5) AS n FROM people GROUP BY region "
        "HAVING COUNT(*) > 5",
        "SELECT region, DP_COUNT(*, eps=0.5) AS n FROM people GROUP BY region HAVING n > 5",
    ),
    (
        "SELECT person_id, DP_COUNT(*, eps=0.5) FROM items GROUP BY person_id",
        "SELECT DP_AVG(n, eps=0.5, bounds=[0, 100]) "
        "FROM (SELECT person_id, COUNT(*) AS n FROM items GROUP BY person_id)",
    ),
    (
        "SELECT quantity / 2, DP_COUNT(*, eps=0.5) FROM items GROUP BY quantity / 2",
        "SELECT quantity // 2, DP_COUNT(*, eps=0.5) FROM items GROUP BY quantity // 2",
    ),
    (
        "SELECT product, DP_COUNT(*, eps=0.5) FROM items",
        "SELECT product, DP_COUNT(*, eps=0.5) FROM items "
        "GROUP BY DP_KEYS(product, eps=0.5, delta=1e-7)",
    ),
    (
        "SELECT product, DP_COUNT(*, eps=0.5) FROM items WHERE quantity > 3 LIMIT 3",
        "SELECT product, DP_COUNT(*, eps=0.5) FROM items WHERE quantity > 3 "
        "GROUP BY DP_KEYS(product, eps=0.5, delta=1e-7) LIMIT 3",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM items JOIN regions USING (region)",
        "SELECT DP_COUNT(*, eps=0.5) FROM items",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5, k=5) FROM items",
        "SELECT DP_COUNT(*, eps=0.5, max_rows_contributed=5) FROM items",
    ),
    (
        "SELECT channel, DP_COUNT(*, eps=0.5) FROM orders "
        "GROUP BY DP_KEYS(channel, eps=0.5, delta=0.1)",
        "SELECT channel, DP_COUNT(*, eps=0.5) FROM orders "
        "GROUP BY DP_KEYS(channel, eps=0.5, delta=5e-7)",
    ),
    ("SELECT DP_COUNT(*, eps=0.5) FROM people WHERE random() < 0.5", None),
]
PASTED = [
    # what is typed, what is offered, and what that replaces
    (
        "SELECT DP_QUANTILE(income, eps=0.5, bounds=[0,500]) FROM people",
        "DP_QUANTILE(income, 0.5, eps=0.5, bounds=[0,500])",
        "DP_QUANTILE(income, eps=0.5, bounds=[0,500])",
    ),
    (
        "SELECT DP_QUANTILE(income, 0.1, 0.5, eps=0.5) FROM people",
        "DP_QUANTILE(income, [0.1, 0.5], eps=0.5)",
        "DP_QUANTILE(income, 0.1, 0.5, eps=0.5)",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5, max_rows_contributed=auto) FROM items",
        "max_rows_contributed='auto'",
        "max_rows_contributed=auto",
    ),
    (
        "SELECT order_id, DP_COUNT(*, eps=0.5) FROM items WHERE order_id >= 30 "
        "GROUP BY order_id",
        "WHERE order_id BETWEEN 30 AND 39 AND order_id >= 30",
        "WHERE order_id >= 30",
    ),
    (
        "SELECT order_id, DP_COUNT(*, eps=0.5) FROM items WHERE order_id < 30 "
        "GROUP BY order_id",
        "WHERE order_id BETWEEN 20 AND 29 AND order_id < 30",
        "WHERE order_id < 30",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM people JOIN regions r USING (region) "
        "WHERE r.zoneas = 'inland'",
        "r.zone",
        "r.zoneas",
    ),
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    place = tmp_path_factory.mktemp("shop") / "data"
    shutil.copytree(DATASETS, place)
    edit(place / "shop.toml", "epsilon = 10", "epsilon = 10\ndelta = 1e-6")
    with dpquery.connect(place / "shop.toml") as opened:
        yield opened


def told(session: Session, query: str) -> QueryRefused:
    with pytest.raises(QueryRefused) as caught:
        session.sql(query)
    return caught.value


@pytest.mark.parametrize(("typed", "offered"), TYPED, ids=[typed for typed, _ in TYPED])
def test_what_is_typed_is_offered_as_a_query_that_is_accepted(shop, typed, offered):
    remedy = told(shop, typed).diagnostic.remedy[0]
    assert offered in {remedy, None}
    shop.explain(remedy)


@pytest.mark.parametrize(
    ("typed", "offered", "part"), PASTED, ids=[typed for typed, *_ in PASTED]
)
def test_what_is_typed_is_accepted_with_what_is_offered_for_a_part(shop, typed, offered, part):
    assert told(shop, typed).diagnostic.remedy[0] == offered
    shop.explain(typed.replace(part, offered))


def test_keys_that_are_offered_beside_a_call_cost_no_more_than_they_did(shop):
    for eps, keys in (("0.1", "0.1"), ("1.5", "0.5")):
        typed = f"SELECT product, DP_COUNT(*, eps={eps}) FROM items"
        offered = told(shop, typed).diagnostic.remedy[0]
        assert offered == f"{typed} GROUP BY DP_KEYS(product, eps={keys}, delta=1e-7)"
        shop.explain(offered)


def test_where_all_is_spent_what_was_paid_for_is_named_first(tmp_path):
    asked = "SELECT DP_COUNT(*, eps=2) AS n FROM staff"
    with dpquery.connect(sample_policy(tmp_path, "epsilon = 2")) as session:
        session.sql(asked)
        first, *others = told(session, asked.replace("staff", "visits")).diagnostic.remedy
        assert first == "SHOW LEDGER"
        assert "the data owner" in others[-1]
        assert session.sql(asked).loss.epsilon == 0
        session.sql(first)


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("SELECT DP_COUNT(*, eps=1) FROM people SELECT 1", "a ; is missing before SELECT"),
        (
            "SELECT product, DP_COUNT(*, eps=0.5) FROM items",
            "product is shown beside DP_ functions: a GROUP BY is missing",
        ),
        (
            "SELECT DP_AVG(SUM(price), eps=0.5) FROM items",
            "SUM is an aggregate: not allowed here",
        ),
        ("SELECT DP_COUNT(*, eps=1) FROM items WHERE price =< 3", "=< is written <= here"),
        ("SELECT DP_COUNT(*, eps=10%) FROM items", "10% is written 0.1 here"),
        (
            "SELECT DP_COUNT(*, eps=1) FROM items WHERE price BETWEEN 1 TO 3",
            "BETWEEN 1 TO 3 is written BETWEEN 1 AND 3 here",
        ),
        ("SELECT DP_COUNT(* eps=1) FROM items", "a comma is missing"),
        (
            "SELECT DP_COUNT(*, eps=1) FROM items WHERE product = 'a' || product = 'b'",
            "|| is written OR here",
        ),
        (
            "SELECT APPROX_COUNT_DISTINCT(product) FROM items",
            "APPROX_COUNT_DISTINCT would answer without noise",
        ),
    ],
)
def test_a_title_names_the_mistake(shop, typed, title):
    assert told(shop, typed).diagnostic.title == title
