"""How long a text can become is stated before any row is read, and is never passed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.core.source_text import Span
from dpquery.core.types import INTEGER, TEXT
from dpquery.ir.expr import Apply, ColumnRef, Expr, Literal, longest_of
from dpquery.rowfunctions import apply
from dpquery.rowfunctions.evaluate import evaluate

HERE = Span(0, 0)
LONGEST = 6
TEXTS = st.text("aé\N{GRINNING FACE}", max_size=LONGEST)
"""Texts of a column with so many characters; few letters, so that parts of them recur."""
WORDS = st.text("aé", min_size=1, max_size=3)
COUNTS = st.integers(1, LONGEST + 2)


def text(value: str) -> Literal:
    return Literal(HERE, value, TEXT)


def number(value: int) -> Literal:
    return Literal(HERE, value, INTEGER)


def column(name: str) -> ColumnRef:
    return ColumnRef(HERE, name, TEXT, longest=LONGEST)


@st.composite
def computed(draw: st.DrawFn, depth: int = 3) -> Expr:
    """Draw a text that is computed of two columns and of texts that a query states."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([column("s"), column("t")]) | st.builds(text, TEXTS))
    inner = computed(depth - 1)
    word, count = draw(WORDS), draw(COUNTS)
    made = {
        "REPLACE": lambda: (draw(inner), text(word), text(draw(TEXTS))),
        "REGEXP_REPLACE": lambda: (
            draw(inner),
            text(draw(st.sampled_from(["(a+)", "(.)(é|a)", "é|aa"]))),
            text(draw(st.sampled_from(["", "xé", r"\0x\0"]))),
            *draw(st.sampled_from([(), (text("g"),)])),
        ),
        "CONCAT": lambda: (draw(inner), draw(inner), draw(inner)),
        "JOIN": lambda: (draw(inner), draw(inner)),
        "COALESCE": lambda: (draw(inner), draw(inner)),
        "NULLIF": lambda: (draw(inner), draw(inner)),
        "SPLIT_PART": lambda: (draw(inner), text(word), number(count)),
        "LEFT": lambda: (draw(inner), number(count)),
        "RIGHT": lambda: (draw(inner), number(count)),
        "SUBSTRING": lambda: (draw(inner), number(count), number(count)),
        "TRIM": lambda: (draw(inner), text(word)),
        "UPPER": lambda: (draw(inner),),
    }
    name = draw(st.sampled_from(sorted(made)))
    return apply(HERE, name, *made[name]())


@settings(max_examples=500)
@given(computed(), TEXTS, TEXTS)
def test_no_text_is_longer_than_was_stated(expr: Expr, s: str, t: str):
    value = evaluate(expr, {(0, "s"): s, (0, "t"): t})
    assert value is None or len(value) <= longest_of(expr)


def test_what_is_stated_of_replacements_is_attained():
    """Of the shortest length that holds for all texts of a length, and no shorter."""
    for old, new in (("a", "bb"), ("aa", "bbb"), ("aaa", "bbbb"), ("aa", "b"), ("a", "")):
        made = apply(HERE, "REPLACE", column("s"), text(old), text(new))
        assert isinstance(made, Apply)
        again = apply(HERE, "REGEXP_REPLACE", column("s"), text(old), text(new), text("g"))
        assert made.longest == longest_of(again)
        texts = ["a" * size for size in range(LONGEST + 1)]
        texts += ["a" * (LONGEST // len(old) * len(old)) + "c" * (LONGEST % len(old)), "c" * 6]
        found = max(len(evaluate(made, {(0, "s"): one})) for one in texts)
        assert found == made.longest
