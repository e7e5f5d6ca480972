"""The first look at a text: size, brackets, quotes, the leading word; nothing is parsed."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from dpquery.core.source_text import Source, Span
from dpquery.errors import QueryRefused, SyntaxRefused
from dpquery.sql.parse.text_checks import MAX_BYTES, MAX_TOKENS, read_statement
from tests.corpus.cases import planned, refusal

COUNT = "SELECT DP_COUNT(*, eps=0.1) FROM staff"
ROWS = f"{COUNT} WHERE "
SECONDS = 2
"""What a hostile text may take before it is refused or planned (threats 5.13)."""

WORDING = [
    (
        "SELECT DP_COUNT(*, eps=0.5 FROM staff",
        """\
refused[DPQ101]: the parenthesis opened after DP_COUNT is not closed
  |
1 | SELECT DP_COUNT(*, eps=0.5 FROM staff
  |                            ^^^^ a ) is missing before this word

   why: the text cannot be read as one query.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5)) FROM staff",
        """\
refused[DPQ101]: the bracket ) closes nothing
  |
1 | SELECT DP_COUNT(*, eps=0.5)) FROM staff
  |                            ^ no such bracket is open here

   why: the text cannot be read as one query.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE dept = 'eng",
        """\
refused[DPQ101]: a quote or comment is not closed
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE dept = 'eng
  |                                                     ^ opened here

   why: the text cannot be read as one query.
        close it: a text ends in ', a name in ", a comment in */.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE dept = 'eng'""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff ORDER BY 1,",
        """\
refused[DPQ101]: nothing stands after this comma
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff ORDER BY 1,
  |                                                  ^ one too many

   why: the text cannot be read as one query.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff ORDER BY 1""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff; SELECT 1",
        """\
refused[DPQ103]: there is more than one statement
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff; SELECT 1
  |                                         ^^^^^^ a second statement starts here

   why: each statement is charged and answered on its own.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff
        or each on its own; on the command line, -c may be repeated""",
    ),
    (
        "-- SELECT DP_COUNT(*, eps=0.5) FROM staff",
        """\
refused[DPQ104]: there is nothing to run
   why: the text holds no statement.
   try: SHOW TABLES""",
    ),
    (
        "SELECT (((((((((((((((((((((((((((((((((1)))))))))))))))))))))))))))))))))",
        """\
refused[DPQ105]: brackets are nested more than 32 deep
  |
1 | SELECT (((((((((((((((((((((((((((((((((1)))))))))))))))))))))))))))))))))
  |                                        ^ too deep

   why: texts of this shape are refused before they are parsed.
        write the query with less nesting.""",
    ),
    (
        "DELETE FROM staff",
        """\
refused[DPQ106]: DELETE is not a statement here
  |
1 | DELETE FROM staff
  | ^^^^^^ only SELECT is answered

   why: queries read; they change no data, settings or files.
   try: SELECT DP_COUNT(*, eps=0.5) AS n FROM staff""",
    ),
]


@pytest.mark.parametrize(("query", "text"), WORDING, ids=[q for q, _ in WORDING])
def test_a_refusal_reads_as_it_was_written(query: str, text: str):
    assert refusal(query) == text


@pytest.mark.parametrize("sign", ["\x00", "\x1b", "\x7f", "\x85", "\ud800"])
def test_a_control_character_is_refused_where_it_stands(sign: str):
    with pytest.raises(SyntaxRefused) as caught:
        read_statement(Source(f"SELECT '{sign}'"))
    assert (caught.value.code, caught.value.span) == ("DPQ105", Span(8, 9))


def test_a_text_is_measured_in_bytes():
    read_statement(Source("SELECT 1 --" + "x" * (MAX_BYTES - 11)))
    for text in ("x" * (MAX_BYTES - 10), "é" * (MAX_BYTES // 2)):
        with pytest.raises(SyntaxRefused) as caught:
            read_statement(Source("SELECT 1 --" + text))
        assert caught.value.code == "DPQ105"


@pytest.mark.parametrize(
    "text",
    [
        ROWS + "(" * 50_000 + "true" + ")" * 50_000,
        ROWS + "(" * 30_000 + "true" + ")" * 30_000,
        COUNT + " --" + "x" * 65_000,
        ROWS + f"dept = '{'x' * 65_000}'",
        ROWS + "age" + "+1" * 10_000 + " > 3",
        COUNT.replace(" FROM", "+1" * 10_000 + " FROM"),
        ROWS + "age" + "+1" * 1_000 + " > 3",
        ROWS + f"age IN ({', '.join(map(str, range(5_000)))})",
        ROWS + " OR ".join(f"age = {i}" for i in range(3_000)),
        ROWS + "abs(" * 31 + "age" + ")" * 31 + " > 3",
        ROWS + "(" * 31 + "age" + ")" * 31 + " > 3",
        "SELECT * FROM regions WHERE " + " OR ".join(f"zone = '{i}'" for i in range(3_000)),
        f"SELECT inhabitants IN ({', '.join(map(str, range(5_000)))}) FROM regions",
        "SELECT " + ", ".join(["1"] * 9_000),
        "SELECT " + ".".join(["a"] * 9_000),
        "SELECT 1" + "::INTEGER" * 6_000,
        "SELECT a" + "[1]" * 6_000,
        "SELECT " + "CASE WHEN true THEN " * 3_000,
        "SELECT " + "NOT " * 3_000 + "true",
        "SELECT " + "- " * 30_000 + "1",
        "'" * 60_000,
        "SELECT " + "/*" * 30_000,
    ],
    ids=range(22),
)
def test_a_hostile_text_is_refused_or_planned_in_good_time(text: str):
    start = time.process_time()
    with suppress(QueryRefused):
        planned(text)
    assert time.process_time() - start < SECONDS


def test_a_refusal_of_a_long_text_is_short():
    for text in (ROWS + "(" * 9_000, f"SELECT {'x' * 60_000} FROM staff", "'" * 60_000):
        assert len(refusal(text)) < 2_000


def test_words_are_counted_before_they_are_parsed():
    with pytest.raises(SyntaxRefused) as caught:
        read_statement(Source("SELECT " + "1," * MAX_TOKENS))
    assert "more than 20000 words" in str(caught.value)


def test_semicolons_at_the_end_are_no_second_statement():
    assert [token.text for token in read_statement(Source("SELECT 1 ; ;"))] == ["SELECT", "1"]
