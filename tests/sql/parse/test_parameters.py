"""Values from Python: each is one literal, in the place of one mark, or is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.dialects.duckdb import DuckDB

from dpquery.core.source_text import Source, Span
from dpquery.core.types import BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP
from dpquery.errors import NameRefused
from dpquery.ir.expr import Literal, decimal
from dpquery.sql.parse.literals import read_literal, written_value
from dpquery.sql.parse.parameters import with_values
from dpquery.sql.parse.parser import parse

PRINTED = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=30)
SMALL = st.integers(-(10**38) + 1, 10**38 - 1)
DECIMALS = st.decimals(-(10**12), 10**12, places=6)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
DAYS, TIMES = st.dates(), st.datetimes()
MIDNIGHT = datetime.fromisoformat("2020-01-31")
VALUES = st.one_of(PRINTED, SMALL, DECIMALS, FLOATS, DAYS, TIMES, st.booleans(), st.none())


def read(text: str) -> Literal | None:
    """Read a text as the binder does, through the parser."""
    (node,) = parse(Source(f"SELECT {text}")).query.expressions
    return read_literal(node, Span(0, 0))


@given(st.one_of(PRINTED, SMALL, DECIMALS, FLOATS, DAYS, TIMES, st.booleans()))
def test_a_value_is_read_as_it_was_written(value):
    if isinstance(value, float) and 0 < abs(value) < 1e-300:
        return  # doubles that have no exact neighbours are read to be refused
    literal = read(written_value(value))
    expected = Fraction(repr(value)) if isinstance(value, float) else value
    assert literal is not None
    assert literal.value == expected


@pytest.mark.parametrize(
    ("value", "text", "type_"),
    [
        (True, "TRUE", BOOLEAN),
        (False, "FALSE", BOOLEAN),
        (-5, "-5", decimal(0)),
        (0.1, "0.1", decimal(1)),
        (30.0, "30.0", decimal(1)),
        (1e-7, "1e-07", DOUBLE),
        (-1e300, "-1e+300", DOUBLE),
        (Decimal("1.50"), "1.50", decimal(2)),
        (Decimal("1E+2"), "100", decimal(0)),
        (Decimal("1e-9"), "0.000000001", decimal(9)),
        (Fraction(-1, 8), "-0.125", decimal(3)),
        (Fraction(6, 2), "3", decimal(0)),
        ("O'Hara", "'O''Hara'", TEXT),
        ("a\\'b -- /* ?", "'a\\''b -- /* ?'", TEXT),
        (date(2020, 1, 31), "DATE '2020-01-31'", DATE),
        (MIDNIGHT, "TIMESTAMP '2020-01-31 00:00:00'", TIMESTAMP),
        (MIDNIGHT.replace(microsecond=7), "TIMESTAMP '2020-01-31 00:00:00.000007'", TIMESTAMP),
    ],
)
def test_each_kind_has_its_literal_and_its_type(value, text, type_):
    assert written_value(value) == text
    literal = read(text)
    assert literal is not None
    assert literal.type == type_


class Shout(str):
    """A text that would write itself as something else."""

    def replace(self, *_: object) -> str:
        return "x' OR '1'='1"

    def __str__(self) -> str:
        return "x' OR '1'='1"


class Sly(int):
    """A number that would write itself as something else."""

    def __repr__(self) -> str:
        return "1 OR 1=1"

    __str__ = __format__ = lambda self, *_: "1 OR 1=1"


class Slippery(float):
    """The same for a float."""

    __repr__ = __str__ = lambda self: "1 OR 1=1"


def test_a_subclass_cannot_write_itself():
    assert written_value(Shout("a'b")) == "'a''b'"
    assert written_value(Sly(7)) == "7"
    assert written_value(Slippery(0.5)) == "0.5"


class Day(date):
    def isoformat(self) -> str:
        return "2020-01-01' OR '1'='1"


REFUSED = [
    float("nan"),
    float("inf"),
    float("-inf"),
    Decimal("nan"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("1e999999"),
    10**5000,
    Fraction(1, 3),
    Fraction(1, 2**2000),
    b"bytes",
    bytearray(b"x"),
    1j,
    time(1, tzinfo=UTC),
    timedelta(1),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, tzinfo=UTC),
    Day(2020, 1, 1),
    object(),
    [1],
    {1: 2},
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_what_has_no_literal_is_refused(value):
    with pytest.raises(NameRefused) as refused:
        with_values(Source("SELECT DP_COUNT(*, eps=1) FROM staff WHERE age = ?"), [value])
    assert refused.value.code == "DPQ805"
    assert refused.value.span == Span(49, 50)
    assert "cannot be written as a literal" in str(refused.value)


PLACES = [
    "SELECT ?",
    "SELECT x -? + -?",
    "SELECT x-?-?",
    "SELECT ?::INTEGER, '?' || ?",
    "SELECT ? -- ? ' ?\n, ? /* ? \" */ , ?",
    'SELECT "?" , $$?$$, ?',
    "SELECT E?, DATE?, x?y, ?||?",
    "SELECT a IN(?,?),f(?)=?",
    "EXPLAIN SELECT ? -- ?",
]


@given(st.sampled_from(PLACES), st.lists(VALUES, min_size=5, max_size=5))
def test_only_marks_change_and_each_becomes_its_literal(text, values):
    bare = text.replace("EXPLAIN", "")
    tokens = DuckDB().tokenize(bare)
    marks = sum(bare[token.start] == "?" for token in tokens)
    filled = with_values(Source(text), values[:marks]).text.replace("EXPLAIN", "")
    expected, given_values = [], iter(values)
    for token in tokens:
        if bare[token.start] == "?":
            expected += words(written_value(next(given_values)))
            expected += words(bare[token.start + 1 : token.end + 1])
        else:
            expected += [(token.token_type, token.text)]
    assert words(filled) == expected


def words(text: str) -> list[tuple[object, str]]:
    return [(token.token_type, token.text) for token in DuckDB().tokenize(text)]


def test_names_take_values_from_a_dictionary_and_casts_are_no_names():
    text = "SELECT :a, $b, :a::INTEGER, ':a', \"$b\" -- :c"
    filled = with_values(Source(text), {"a": -1, "b": "x"})
    assert filled.text == "SELECT -1, 'x', -1 ::INTEGER, ':a', \"$b\" -- :c"


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        ("SELECT ?, ?", [1], "the statement has 2 of ?, and the values are 1"),
        ("SELECT ?", [1, 2], "the statement has 1 of ?, and the values are 2"),
        ("SELECT ?", [], "the statement has 1 of ?, and the values are 0"),
        ("SELECT '?'", [1], "the statement has 0 of ?, and the values are 1"),
        ("SELECT ?", {"a": 1}, "no value is given for ?"),
        ("SELECT :a, :b", {"a": 1}, "no value is given for :b"),
        ("SELECT :a", {"a": 1, "b": 2}, "no place for 'b'"),
        ("SELECT :a", [1], ":a takes its value by name"),
        ("SELECT :a, ?", [1], ":a takes its value by name"),
    ],
)
def test_each_mark_takes_one_value_and_each_value_has_its_mark(text, values, said):
    with pytest.raises(NameRefused) as refused:
        with_values(Source(text), values)
    assert refused.value.code == "DPQ805"
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["SELECT 1", "SELECT 'x", "SHOW ?", "SELECT :a", "?" * 70_000])
def test_a_text_without_values_stays_as_it_is(text):
    unread = Source(text)
    assert with_values(unread, []) == unread
