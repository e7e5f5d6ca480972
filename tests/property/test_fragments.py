"""Whatever is written as a part of a query: it is refused, or it stays that one part."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import expressions as exp

from dpquery.core.source_text import Source
from dpquery.errors import QueryRefused
from dpquery.session_methods.builder import Query
from dpquery.sql.parse.literals import written_value
from dpquery.sql.parse.parser import parse

SIGNS = "( ) , ; ' \" -- /* */ $$ :: = := => * . [ ] { } ? - + || 1 x"
SQL = """
OR AND NOT UNION SELECT FROM staff WHERE HAVING LIMIT OFFSET AS IS NULL IN BETWEEN CASE WHEN
THEN END TEXT DESC NULLS FIRST eps DISTINCT FILTER JOIN ON USING ALL INTERVAL DAY DATE LIKE
QUALIFY WINDOW OVER WITH EXCEPT remote '2020'
"""
PHRASES = ["age > 3", "dept = 'a'", "GROUP BY", "ORDER BY", "DP_COUNT(*, eps=1)", "\n"]
WORDS = [*SIGNS.split(), *SQL.split(), *PHRASES]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join)
BEFORE = st.sampled_from(["age > 3 ", "age > 3) ", "remote AND ", "YEAR(x) ", "", "NOT ", "'"])


def alone(text: str) -> exp.Expr:
    tree = parse(Source(f"SELECT 1 WHERE {text}")).query
    return tree.args["where"].this


@settings(max_examples=400)
@given(BEFORE, TEXTS)
def test_a_part_is_refused_or_stays_one_part(before: str, text: str):
    part = before + text
    try:
        built = Query(None, "staff").where(part, "remote").group_by("dept").having(part)
    except QueryRefused:
        return
    query = parse(Source(built.order_by("dept DESC").limit(7).sql())).query
    filled = {name for name, value in query.args.items() if value}
    assert filled == {"expressions", "from_", "where", "group", "having", "order", "limit"}
    assert query.args["limit"].expression == exp.Literal.number(7)
    assert [key.this.name for key in query.args["order"].expressions] == ["dept"]
    both = query.args["where"].this
    assert type(both) is exp.And
    assert both.expression == exp.column("remote")
    assert unwrapped(both.this) == unwrapped(query.args["having"].this)
    assert unwrapped(both.this) == unwrapped(alone(part))


def unwrapped(node: exp.Expr) -> exp.Expr:
    return node.unnest()


@given(st.text(max_size=12))
def test_a_text_is_one_literal(value: str):
    try:
        (item,) = parse(Source(f"SELECT {written_value(value)}")).query.expressions
    except QueryRefused:
        return  # control characters
    assert item == exp.Literal.string(value)
