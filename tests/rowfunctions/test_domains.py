"""What is public of an expression: its values as a group, and its range as bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from dpquery.core.source_text import Source
from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.ir.expr import Expr, columns_of
from dpquery.policy.model import Bounds, Column, Table
from dpquery.rowfunctions.analysis.conditions import facts_of
from dpquery.rowfunctions.analysis.key_domains import values_of
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.rowfunctions.dates import CLOCK, MONTHS, PARTS
from dpquery.rowfunctions.evaluate import evaluate
from dpquery.sql.bind.rows.row_expressions import Conditions
from dpquery.sql.parse.parser import parse
from tests.worlds import private_table, scope_of

COLUMNS = (
    Column("i", INTEGER, Bounds(-3, 12)),
    Column("n", INTEGER),
    Column("d", DOUBLE, Bounds(Fraction(0), Fraction(10))),
    Column("m", Type(Kind.DECIMAL, 9, 2), Bounds(Fraction(0), Fraction(2))),
    Column("k", TEXT, keys=("b", "a", "ab")),
    Column("s", TEXT),
    Column("b", BOOLEAN),
    Column("day", DATE, Bounds(date(2019, 12, 15), date(2020, 2, 3))),
    Column("far", DATE),
    Column("at", TIMESTAMP, Bounds(datetime.fromisoformat("2020-01-01"),
                                   datetime.fromisoformat("2020-01-02 12:00"))),
    Column("p", INTEGER, keys=(4, 2)),
)  # fmt: skip
TABLE = private_table([Path("t.parquet")], COLUMNS, unit=None)
FILLED = private_table(
    [Path("t.parquet")], [replace(one, null_group=False) for one in COLUMNS], unit=None
)
"""The same, where the policy says of each column that NULL is no group."""


def bound(text: str, table: Table = TABLE) -> Expr:
    parsed = parse(Source(f"SELECT DP_COUNT({text}, eps=1) FROM t"))
    return Conditions(scope_of(table), parsed.spans).bind(
        parsed.query.expressions[0].expressions[0]
    )


def values(text: str, where: str | None = None, table: Table = TABLE) -> object:
    facts = facts_of(bound(where, table) if where else None)
    return values_of(bound(text, table), facts)


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("k", ("a", "ab", "b")),
        ("b", (False, True)),
        ("i", tuple(range(-3, 13))),
        ("i // 5", (0, 1, 2)),
        ("i % 3", (-2, -1, 0, 1, 2)),
        ("-p", (-4, -2)),
        ("p * p", (4, 16)),
        ("n > 3", (False, True)),
        ("s LIKE 'a%'", (False, True)),
        ("UPPER(k)", ("A", "AB", "B")),
        ("k || '!'", ("a!", "ab!", "b!")),
        ("LENGTH(k)", (1, 2)),
        ("NULLIF(k, 'a')", ("ab", "b", None)),
        ("COALESCE(k, 'zz')", ("a", "ab", "b", "zz")),
        ("IF(b, 'x', 'y')", ("x", "y")),
        ("CASE WHEN n > 3 THEN 'x' END", ("x", None)),
        ("CASE WHEN n > 3 THEN 'x' ELSE NULL END", ("x", None)),
        ("CASE k WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE p END", (1, 2, 4)),
        ("CASE WHEN b THEN 0.5 ELSE 1 END", (Fraction(1, 2), 1)),
        ("YEAR(day)", (2019, 2020)),
        ("MONTH(far)", (*range(1, 13), None)),  # beyond year 9999 there is no month
        ("DATE_TRUNC('month', day)", (date(2019, 12, 1), date(2020, 1, 1), date(2020, 2, 1))),
        (
            "DATE_TRUNC('hour', LEAST(day, DATE '2019-12-16'))",
            (date(2019, 12, 15), date(2019, 12, 16)),
        ),
        ("DATE_TRUNC('day', at)", (datetime(2020, 1, 1), datetime(2020, 1, 2))),  # noqa: DTZ001
        ("at::DATE", (date(2020, 1, 1), date(2020, 1, 2))),
        ("FLOOR(d / 4)", (0, 1, 2, 3)),
        ("CAST(m AS INTEGER)", (0, 1, 2)),
        ("GREATEST(p, 3)", (3, 4)),
        ("d", None),
        ("SQRT(p)", None),
        ("m", None),
        ("n", None),
        ("s", None),
        ("far", None),
        ("at", None),
        ("n // 2", None),
        ("YEAR(far)", None),
        ("IF(b, s, 'x')", None),
        ("LOWER(s)", None),
    ],
)
def test_a_group_has_these_values(text: str, listed: tuple[object, ...] | None):
    """NULL is one more wherever a column can be NULL, unless a function has a value for it."""
    assert values(text, table=FILLED) == listed
    never = text.startswith(
        ("COALESCE", "GREATEST", "IF", "CASE WHEN b", "DATE_TRUNC('hour', LEAST")
    ) or None in (listed or ())
    if text.startswith("CASE k"):  # what is not listed there is
        assert values(text) == (1, 2, 4, None)
    else:
        assert values(text) == (listed if listed is None or never else (*listed, None))


@pytest.mark.parametrize("name", ["MONTHNAME", "DAYNAME", *(name.upper() for name in PARTS)])
@pytest.mark.parametrize("where", [None, "day > '2019-12-30'", "day IN ('2019-12-31')"])
def test_parts_of_moments_have_the_values_that_their_range_has(name: str, where: str | None):
    column = "at" if name.lower() in CLOCK else "day"
    if name.lower() in CLOCK and where is not None:
        where = "at < '2020-01-01 05:06:07'"
    facts = facts_of(bound(where, FILLED) if where else None)
    expr, moment = (bound(text, FILLED) for text in (f"{name}({column})", column))
    range_, step = implied(moment, facts), 1 if column == "day" else 1_000_000
    assert range_.low is not None
    assert range_.high is not None
    places = range(int(range_.low), int(range_.high) + 1, step)
    ((key, _),) = columns_of(expr).items()
    image = {evaluate(expr, {key: place}) for place in places}
    assert values(f"{name}({column})", where, FILLED) == tuple(sorted(image))


def test_a_part_has_all_its_values_where_a_range_is_long_or_open():
    assert values("DAYOFYEAR(day)", "day = '2020-02-03'", FILLED) == (34,)
    assert values("ISODOW(far)", "far < '2020-01-01'", FILLED) == tuple(range(1, 8))
    long = "far BETWEEN '0001-01-01' AND '9999-12-31'"
    assert values("DAYOFYEAR(far)", long, FILLED) == tuple(range(1, 367))
    assert values("MONTHNAME(far)", long, FILLED) == tuple(sorted(MONTHS))


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_what_is_compared_is_no_group_of_null(operator: str):
    """Also where it may lie beyond the calendar, which counts as NULL."""
    for text in ("MONTH(far)", "DAYNAME(far)", "MONTH(day)"):
        (column,) = columns_of(bound(text)).values()
        found = values(text, f"{column.name} {operator} DATE '2020-01-15'")
        assert isinstance(found, tuple)
        assert None not in found
        assert None in (values(text) or ())  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("k", "k IS NOT NULL"),
        ("k", "k <> 'a'"),
        ("k", "k LIKE 'a%' AND b"),
        ("k", "NOT k = 'a'"),
        ("k", "k IN ('a', 'b', 'ab') OR k > 'x'"),
        ("b", "b"),
        ("b", "NOT b"),
        ("i // 5", "i > -9"),
        ("i // 5", "i + n > 3"),
        ("i // 5", "(i // 5) IS NOT NULL"),
        ("UPPER(k)", "LENGTH(k) BETWEEN 1 AND 2"),
        ("YEAR(day)", "day < '2030-01-01' OR (day > '2031-01-01' AND b)"),
    ],
)
def test_a_condition_that_null_does_not_meet_takes_its_group_away(text: str, where: str):
    found = values(text, where)
    assert isinstance(found, tuple)
    assert None not in found


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("k", "k = 'a' OR b"),
        ("k", "k IS NULL"),
        ("k", "NOT (k IS NOT NULL AND b)"),
        ("k", "COALESCE(k, 'z') = 'z'"),
        ("k", "CASE WHEN k = 'a' THEN b ELSE TRUE END"),
        ("k", "(k = 'a') IS NULL"),
        ("b", "(b IS TRUE) = FALSE"),
        ("i // p", "p > 1 OR i > 3"),
        ("i // (i + 1)", "i > -9"),
        ("i % n", "i > -9 AND n > -9"),
    ],
)
def test_a_condition_that_null_can_meet_leaves_its_group(text: str, where: str):
    found = values(text, where)
    assert isinstance(found, tuple)
    assert found[-1] is None
    assert None in found


CHOICES = {
    "CASE WHEN k IN ('a', 'b') THEN k ELSE 'z' END": ("a", "b", "z"),
    "CASE WHEN k = 'a' THEN 'x' ELSE k END": ("ab", "b", "x", None),
    "CASE WHEN k = 'a' AND b THEN k END": ("a", None),
    "CASE WHEN k = 'a' AND b THEN 'x' ELSE k END": ("a", "ab", "b", "x", None),
    "CASE WHEN k = 'a' OR b THEN k ELSE 'z' END": ("a", "ab", "b", "z", None),
    "CASE WHEN k = 'a' THEN k WHEN b THEN k ELSE 'z' END": ("a", "ab", "b", "z", None),
    "CASE WHEN k = 'a' THEN 'x' WHEN k < 'b' THEN k ELSE k END": ("ab", "b", "x", None),
    "CASE WHEN k IS NULL THEN 'none' ELSE k END": ("a", "ab", "b", "none"),
    "CASE WHEN k <> 'a' THEN k END": ("ab", "b", None),
    "CASE WHEN NOT k = 'a' THEN 'x' ELSE k END": ("a", "x", None),
    "CASE WHEN i > 10 THEN i WHEN i > 8 THEN 0 ELSE -1 END": (-1, 0, 11, 12),
    "CASE WHEN i // 5 = 1 THEN i // 5 ELSE 0 END": (0, 1),
    "IF(k = 'a', 'x', k)": ("ab", "b", "x", None),
}


@pytest.mark.parametrize(("text", "listed"), CHOICES.items())
def test_a_choice_has_the_values_for_which_it_comes_to_each_result(text: str, listed: object):
    """Exactly those, as every row of all values shows."""
    choice = bound(text)
    columns = columns_of(choice)
    options = [[*(values(name) or ()), None] for name in (c.name for c in columns.values())]
    rows = (dict(zip(columns, row, strict=True)) for row in product(*options))
    assert {evaluate(choice, row) for row in rows} == set(values(text) or ())
    assert values(text) == listed


def test_a_value_in_place_of_null_is_a_group_of_its_own():
    """Also where the policy says that NULL is none."""
    assert values("COALESCE(p, 7) * 2", table=FILLED) == (4, 8, 14)
    assert values("GREATEST(p, 3) + 1", table=FILLED) == (4, 5)
    assert values("LEAST(p, 9)", table=FILLED) == (2, 4, 9)
    assert values("p + 1", table=FILLED) == (3, 5)
    divided = values("4 // (p - 2)", table=FILLED)
    assert isinstance(divided, tuple)
    assert divided[-1] is None  # p - 2 can be 0


def test_a_condition_names_or_bounds_the_values():
    assert values("n", "n BETWEEN 1 AND 3") == (1, 2, 3)
    assert values("n", "n > 1 AND 4 > n AND b") == (2, 3)
    assert values("n", "n IN (7, 5) AND n < 100") == (5, 7)
    assert values("n", "n = 2.0") == (2,)
    assert values("n", "n > 1 OR b") is None
    assert values("LENGTH(s)", "LENGTH(s) = 4") == (4,)
    assert values("UPPER(s)", "s IN ('x', 'y')") == ("X", "Y")
    assert values("far", "far BETWEEN '2020-02-28' AND '2020-03-01'") == (
        date(2020, 2, 28), date(2020, 2, 29), date(2020, 3, 1),
    )  # fmt: skip
    assert values("YEAR(far)", "far >= '2020-01-01' AND far < '2022-01-01'") == (2020, 2021)


@pytest.mark.parametrize(
    ("text", "where", "left"),
    [
        ("k", "k <> 'ab'", ("a", "b")),
        ("k", "k NOT IN ('a', 'b')", ("ab",)),
        ("k", "k LIKE 'a%' AND b", ("a", "ab")),
        ("k", "k IS NULL", (None,)),
        ("k", "k IN ('a', 'zz') AND LENGTH(k) > 1", ("zz",)),
        ("k", "k = 'a' OR k IS NULL", ("a", None)),
        ("k", "k <> 'a' OR b", ("a", "ab", "b", None)),
        ("k", "(k <> 'a') = b", ("a", "ab", "b")),
        ("b", "NOT b", (False,)),
        ("i", "i % 5 = 0", (0, 5, 10)),
        ("i", "LN(i) < 2 AND i > 9", (10, 11, 12)),  # logarithms are not the same everywhere
        ("i // 5", "i // 5 <> 1", (0, 2)),
        ("UPPER(k)", "k <> 'a'", ("AB", "B")),
        ("day", "MONTH(day) = 2", (date(2020, 2, 1), date(2020, 2, 2), date(2020, 2, 3))),
        ("k", "k > 'x'", ()),
    ],
)
def test_a_condition_on_the_key_alone_leaves_the_values_that_meet_it(
    text: str, where: str, left: tuple
):
    assert values(text, where) == left


@pytest.mark.parametrize(
    ("text", "where", "ends"),
    [
        ("i", None, (-3, 12)),
        ("n", None, (None, None)),
        ("LEAST(n, 5)", None, (None, 5)),
        ("GREATEST(LEAST(n, 5), 0)", None, (0, 5)),
        ("LEAST(i, n)", None, (None, None)),
        ("LEAST(n, i)", None, (None, None)),
        ("CASE WHEN n > 3 THEN 1 ELSE 0 END", None, (0, 1)),
        ("CASE WHEN b THEN NULL ELSE i END", None, (-3, 12)),
        ("COALESCE(n, 3)", None, (None, None)),
        ("ABS(i)", None, (0, 12)),
        ("MONTH(far)", None, (1, 12)),
        ("YEAR(far)", None, (None, None)),
        ("CAST(s AS INTEGER)", None, (None, None)),
        ("i // 5", None, (0, 2)),
        ("i / 4", None, (Fraction(-3, 4), 3)),
        ("i / i", None, (None, None)),
        ("i % 5", None, (-3, 4)),
        ("n", "n >= 0 AND n < 10", (0, 9)),
        ("n * 2", "n BETWEEN 0 AND 9", (0, 18)),
        ("n * 2", "n * 2 BETWEEN 0 AND 9", (0, 9)),
        ("i", "i > 3", (4, 12)),
        ("i", "i > 50", (12, 12)),
        ("d", "d < 5", (0, 5)),
        ("n", "NOT n > 3 AND n > 1 OR b", (None, None)),
        ("n", "n IN (3, 9, 5)", (3, 9)),
    ],
)
def test_a_range_is_what_somebody_chose(text: str, where: str | None, ends: tuple):
    range_ = implied(bound(text), facts_of(bound(where) if where else None))
    assert (range_.low, range_.high) == ends
