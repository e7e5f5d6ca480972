"""Patterns mean one thing: to the engine's automaton, to Python, and to whoever wrote them."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpquery.core.source_text import Span
from dpquery.core.types import TEXT
from dpquery.engine.duckdb.connection import start
from dpquery.engine.duckdb.quoting import text
from dpquery.ir.expr import Apply, ColumnRef, Literal
from dpquery.rowfunctions import apply, named
from dpquery.rowfunctions.evaluate import evaluate
from dpquery.rowfunctions.patterns import (
    check_like,
    check_regex,
    check_replacement,
    like_regex,
    read_regex,
)

HERE = Span(0, 0)

SIGNS = ["a", "b", "A", "-", "]", "^", "é", "\n", " ", "\\", "7", "_", "."]
WORDS = ["".join(signs) for length in range(3) for signs in product(SIGNS, repeat=length)]

_ATOMS = st.sampled_from(
    [
        *"abé.^$- ,",
        *(r"\.", r"\d", r"\w", r"\s", r"\\", r"\^", "[a-b]", "[^a]", r"[\d\-_]"),
        *(r"[\]^]", "[a^]", "[.]", r"[\w.]", "[^é-]"),
    ]
)
_GROUPED = st.sampled_from(
    [
        *("(a)|(b)", "(a|ab)(b|-)?", "(?:(a)|b)+", "(a+)(b+)?", "^(.)(.*)$", "((a)b)+-"),
        *("(a|ab)(?:c|b-)*", "(?:(a)|(b)|-){2,3}", "^a|b$", "(a{1,2}){2}", "([^a]+)a?"),
    ]
)
PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: (
        st.builds("{}{}".format, inner, inner)
        | st.builds("({}|{})".format, inner, inner)
        | st.builds("(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}"]))
    ),
    max_leaves=8,
)


def found(function: str, pattern: str, options: str = "") -> list[bool]:
    values = ", ".join(f"({number}, {text(word)})" for number, word in enumerate(WORDS))
    with start() as connection:
        query = (
            f"SELECT {function}(w, {text(pattern)}{options}) FROM (VALUES {values}) AS t(i, w)"
        )
        return [row[0] for row in connection.execute(f"{query} ORDER BY i").fetchall()]


def meant(function: str, word: str, *stated: str) -> object:
    """Return what a function means of a public value."""
    arguments = (Literal(HERE, value, TEXT) for value in (word, *stated))
    return evaluate(apply(HERE, function, *arguments), {})


@settings(max_examples=40, deadline=None)
@given(PATTERNS)
def test_both_engines_match_the_same_texts(written: str):
    """And Python's own, which tries one way after another where RE2 follows all at once."""
    pattern = read_regex(written).written
    compiled = re.compile(re.sub(r"\\\\|\\z", lambda end: end[0].replace("z", "Z"), pattern))
    for function, python in (
        ("REGEXP_MATCHES", compiled.search),
        ("REGEXP_FULL_MATCH", compiled.fullmatch),
    ):
        wanted = [bool(python(word)) for word in WORDS]
        assert found(function, pattern) == wanted
        assert [meant(function, word, written) for word in WORDS] == wanted


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="ab%_é.\\-]^\n", max_size=6))
def test_like_is_one_thing_in_three_ways(written: str):
    compiled = re.compile(like_regex(written), re.DOTALL)
    wanted = [bool(compiled.fullmatch(word)) for word in WORDS]
    assert found("regexp_full_match", like_regex(written), ", 's'") == wanted
    assert [meant("LIKE", word, written) for word in WORDS] == wanted
    if "_" not in written:
        with start() as connection:
            values = ", ".join(f"({i}, {text(word)})" for i, word in enumerate(WORDS))
            query = (
                f"SELECT w LIKE {text(written)} FROM (VALUES {values}) AS t(i, w) ORDER BY i"
            )
            assert [row[0] for row in connection.execute(query).fetchall()] == wanted


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "(a", "[", "[]", "[^]", "[a", "a**", "a+?", "*", "+a", "?", "{2}", "a{",
        "a{2", "a{3,2}", "a{1001}", "(a{40}){40}", r"\1", r"\b", r"\A", r"\x41", r"\p{L}", "\\",
        "(?=a)", "(?<n>a)", "(?i)a", "[b-a]", r"[a-\d]", "]", "}", "a" * 1001,
        "(" * 20 + ")" * 20,
    ],
)  # fmt: skip
def test_what_is_outside_the_subset_is_refused(pattern: str):
    assert check_regex(pattern) is not None


TEXTS = ["".join(signs) for size in range(5) for signs in product("ab-", repeat=size)]
NEW = ["", "x", r"<\0>", r"\1\2", r"\\\2\\0", r"\0\1\0"]


@st.composite
def replacements(draw: st.DrawFn) -> Apply:
    """Draw an application that the binder takes, over texts of four characters."""
    options = draw(st.sampled_from([(), ("g",)]))
    stated = (draw(PATTERNS | _GROUPED), draw(st.sampled_from(NEW)), *options)
    column = ColumnRef(HERE, "w", TEXT, longest=4)
    arguments = (column, *(Literal(HERE, value, TEXT) for value in stated))
    assume(named("REGEXP_REPLACE").check(arguments) is None)
    return apply(HERE, "REGEXP_REPLACE", *arguments)


@settings(max_examples=100, deadline=None)
@given(replacements())
def test_both_engines_replace_the_same_matches(call: Apply):
    words = [*TEXTS, *WORDS]
    values = ", ".join(f"({number}, {text(word)})" for number, word in enumerate(words))
    query = f"SELECT {named('REGEXP_REPLACE').sql(call, 'w')} FROM (VALUES {values}) AS t(i, w)"
    with start() as connection:
        rows = [row[0] for row in connection.execute(f"{query} ORDER BY i").fetchall()]
    assert rows == [evaluate(call, {(0, "w"): word}) for word in words]
    assert max(map(len, rows)) <= call.longest


@pytest.mark.parametrize(
    "stated",
    [
        ("a", r"\1"), ("(a)", r"\2"), ("(?:a)", r"\1"), ("(a*)*", "x"), ("(a|b*)+", "x"),
        ("(^)*a", "x"), ("(a?){2}", "x"), ("a*", "x", "g"), ("a|", "x", "g"),
        ("$", "x", "g"), ("a{0,2}", "x", "g"), ("(a)|(b){0}", "x", "g"), ("a.{500}|b", "", "g"),
    ],
)  # fmt: skip
def test_what_would_not_be_replaced_alike_is_refused(stated: tuple[str, ...]):
    column = ColumnRef(HERE, "w", TEXT, longest=1024)
    arguments = (column, *(Literal(HERE, value, TEXT) for value in stated))
    assert named("REGEXP_REPLACE").check(arguments) is not None


@pytest.mark.parametrize("new", ["\\", "a\\\\\\", r"\a", r"\-", "\\\n"])
def test_replacements_with_other_escapes_are_refused(new: str):
    assert check_replacement(new) is not None


def test_the_subset_is_as_wide_as_it_says():
    for pattern in ("", "a|", "()", "(a|)", "a{2,}", "a{0}", "[a-zA-Z0-9_.+-]+@[a-z]+", "^$"):
        assert check_regex(pattern) is None, pattern
    assert check_like("%" * 256) is None
    assert check_like("%" * 257) is not None


@pytest.mark.parametrize("pattern", ["(a|a)*b", "(a*)*b", "(a|aa)+$", "a?" * 60 + "a{60}"])
def test_public_values_take_linear_time_too(pattern: str):
    """Trying one way after another would take 2^60 steps."""
    text = "a" * 60 + "c"
    assert not meant("REGEXP_FULL_MATCH", text, pattern)
    assert not meant("LIKE", text, "%a" * 60 + "b")
    meant("REGEXP_REPLACE", text, pattern, "x")
