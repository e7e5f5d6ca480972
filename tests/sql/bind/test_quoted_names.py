"""Names that are no plain words: every refusal writes them in quotes, as a query has to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpquery.core.types import DATE, INTEGER, TEXT
from dpquery.errors import QueryRefused
from dpquery.policy.model import Bounds, Column, Policy
from dpquery.sql.bind.scope import RESERVED, written_name
from tests.worlds import planned, policy_of, private_table

COLUMNS = (
    Column("user id", INTEGER),
    Column("first name", TEXT, keys=("a", "b")),
    Column("select", INTEGER, bounds=Bounds(0, 9)),
    Column('size "xl"', INTEGER),
    Column("date", DATE),
)


@pytest.fixture(scope="module")
def policy() -> Policy:
    table = private_table([Path("people.parquet")], COLUMNS, unit="user id")
    return policy_of(replace(table, name="my people"))


@pytest.mark.parametrize(
    ("query", "part", "remedy"),
    [
        ("SELECT DP_COUNT(*, eps=1) FROM people", "FROM people", 'FROM "my people"'),
        ("SELECT DP_COUNT(*, eps=1)", None, 'SELECT DP_COUNT(*, eps=0.5) FROM "my people"'),
        (
            'SELECT DP_COUNT(firstname, eps=1) FROM "my people"',
            "firstname",
            '"first name"',
        ),
        ('SELECT DP_COUNT(zzz, eps=1) FROM "my people"', "zzz", '"user id"'),
        (
            'SELECT DP_COUNT(t."select", eps=1) FROM "my people"',
            't."select"',
            '"my people"."select"',
        ),
        (
            'SELECT "first name" FROM "my people"',
            None,
            'SELECT "first name", DP_COUNT(*, eps=0.5) FROM "my people" GROUP BY "first name"',
        ),
        (
            'SELECT "select" FROM "my people"',
            None,
            'SELECT DP_QUANTILE("select", 0.5, eps=0.5) FROM "my people"',
        ),
        (
            'SELECT DP_COUNT(*, eps=1) FROM "my people" WHERE "select" > 3 GROUP BY "date"',
            'WHERE "select" > 3',
            "WHERE \"date\" IN ('2024-12-30', '2024-12-31') AND \"select\" > 3",
        ),
        (
            'SELECT DP_COUNT(*, eps=1) FROM "my people" GROUP BY "select" / 2',
            None,
            'SELECT DP_COUNT(*, eps=1) FROM "my people" GROUP BY "select" // 2',
        ),
        (
            'SELECT DP_MEDIAN(DISTINCT "select", eps=1) FROM "my people"',
            'DP_MEDIAN(DISTINCT "select", eps=1)',
            'DP_MEDIAN("select", eps=1)',
        ),
        (
            'SELECT SUM(zzz) FROM "my people"',
            "SUM(zzz)",
            'DP_SUM("select", eps=0.5)',
        ),
        (
            'SELECT SUM("size ""xl""") FROM "my people"',
            None,
            'SELECT DP_SUM("size ""xl""", bounds=\'auto\', eps=0.5) FROM "my people"',
        ),
        (
            'SELECT DP_COUNT(*, eps=1) FROM "my people" WHERE lowr("first name") = \'a\'',
            'lowr("first name")',
            'LOWER("first name")',
        ),
        (
            'SELECT DP_COUNT(*, eps=1) FROM "my people" WHERE "first name" + 1 > 2',
            '"first name"',
            'LENGTH("first name")',
        ),
    ],
)
def test_a_remedy_with_such_names_is_accepted(policy: Policy, query, part, remedy):
    with pytest.raises(QueryRefused) as caught:
        planned(policy, query)
    assert caught.value.diagnostic.remedy[0] == remedy
    planned(policy, query.replace(part, remedy) if part else remedy)


def test_names_in_lists_are_written_as_queries_write_them(policy: Policy):
    with pytest.raises(QueryRefused) as caught:
        planned(policy, 'SELECT DP_COUNT(zzz, eps=1) FROM "my people"')
    listed = '"date", "first name", "select", "size ""xl""", "user id"'
    assert caught.value.diagnostic.remedy[1] == f"columns here: {listed}"


def names() -> Iterator[str]:
    yield from RESERVED
    yield from (
        "true",
        "current_date",
        "interval",
        "values",
        "1st",
        "a-b",
        "a b",
        "",
        "é",
        "x'",
    )
    yield from ("ſelect", "a\tb", "/*", "--", '"', "filter", "left", "case", "cast", "struct")


@pytest.mark.parametrize("name", sorted(set(names()) - {""}))
def test_a_written_name_is_read_as_that_name(name: str):
    table = private_table([Path("t.parquet")], [Column(name, INTEGER)], unit=None)
    planned(policy_of(table), f"SELECT DP_COUNT({written_name(name)}, eps=1) FROM t")


@pytest.mark.parametrize("name", ["dept", "Person_ID", "x1", "_x", "at", "naïve"])
def test_a_plain_name_stands_alone(name: str):
    assert written_name(name) == name
