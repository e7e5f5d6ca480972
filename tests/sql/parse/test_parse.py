"""Only nodes that are on the list pass, whatever else sqlglot knows (threats 5.1, I9)."""

from __future__ import annotations

import inspect

import pytest
from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.duckdb import DuckDB

from dpquery.core.source_text import Source, Span
from dpquery.errors import QueryRefused
from dpquery.sql.bind.rows.row_expressions import Conditions
from dpquery.sql.bind.scope import RESERVED, Member, Scope
from dpquery.sql.bind.statement import Statement
from dpquery.sql.parse.parser import Parsed, _check_nodes, parse
from dpquery.sql.parse.spans import Spans, mended
from dpquery.sql.parse.token_coverage import ALLOWED
from dpquery.sql.postprocess.from_clause import From
from dpquery.sql.postprocess.select_stages import Rows
from tests.corpus.cases import facts, planned, refusal

WORDING = [
    (
        "SELECT DP_COUNT(*, eps=0.5) FORM staff",
        """\
refused[DPQ101]: 'FORM' is not understood here
  |
1 | SELECT DP_COUNT(*, eps=0.5) FORM staff
  |                             ^^^^ is it FROM?

   why: the text cannot be read as one query.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE",
        """\
refused[DPQ101]: nothing follows WHERE
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE
  |                                        ^^^^^ not understood here

   why: the text cannot be read as one query.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age DIV 3 = 1",
        """\
refused[DPQ102]: DIV is not part of the language here
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age DIV 3 = 1
  |                                                  ^^^ this would have no effect

   why: only what keeps the promise is accepted; `dpquery explain grammar` lists it.
   try: SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age // 3 = 1""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept WITH ROLLUP",
        """\
refused[DPQ102]: ROLLUP is not part of the language here
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept WITH ROLLUP
  |                                                           ^^^^^^ not understood

   why: only what keeps the promise is accepted; `dpquery explain grammar` lists it.
   try: GROUP BY ROLLUP (dept)""",
    ),
    (
        "SELECT DP_COUNT(*, eps=1) FROM staff JOIN visits v ON age = minutes",
        """\
refused[DPQ304]: this join would pair one person's rows with another's
  |
1 | SELECT DP_COUNT(*, eps=1) FROM staff JOIN visits v ON age = minutes
  |                                                       ^^^^^^^^^^^^^ not joined on person_id

   why: a row then depends on two units at once, and no bound on one of them holds;
        private tables are joined on the privacy unit.
   try: SELECT DP_COUNT(*, eps=1) FROM staff JOIN visits v ON staff.person_id = v.person_id""",
    ),
]

TEXT = "SELECT f(1)"
SOURCE = Source(TEXT)
SPANS = Spans(SOURCE, DuckDB().tokenize(TEXT))
CLASSES = sorted(
    {
        kind
        for _, kind in inspect.getmembers(exp, inspect.isclass)
        if issubclass(kind, exp.Expression) and kind is not exp.Expression
    },
    key=lambda kind: kind.__name__,
)
OTHERS = [kind for kind in CLASSES if kind not in ALLOWED]
SLOTS = [
    (kind, slot)
    for kind, slots in ALLOWED.items()
    for slot in sorted(set(kind.arg_types) - slots)
]


def refused(node: exp.Expr) -> bool:
    """Return whether the walk over the tree stops at a node in a SELECT list."""
    tree = exp.Select(expressions=[node])
    try:
        _check_nodes(SOURCE, tree, SPANS)
    except QueryRefused as refusal:
        return refusal.code in {"DPQ102", "DPQ304"} and refusal.span is not None
    return False


def test_there_are_as_many_classes_as_sqlglot_is_known_to_have():
    assert len(CLASSES) > 900
    assert set(ALLOWED) <= set(CLASSES)


def test_a_class_that_is_not_on_the_list_is_refused():
    assert [kind for kind in OTHERS if not refused(kind())] == []


@pytest.mark.parametrize("value", [exp.Literal.number(1), [exp.Literal.number(1)], True, "x"])
def test_a_slot_that_is_not_on_the_list_is_refused(value: object):
    assert len(SLOTS) > 60
    assert [(k, slot) for k, slot in SLOTS if not refused(k(**{slot: value}))] == []


def test_a_function_by_name_is_left_to_binding_which_refuses_all_it_does_not_know():
    policy, public = facts()
    rows = Conditions(Scope((Member("staff", {}),), policy.tables["staff"]), SPANS)
    statement = Statement(Parsed(SOURCE, exp.Select(), SPANS), policy, public)
    above = Rows(statement, {}, From(SPANS))
    for kind in OTHERS:
        if not issubclass(kind, exp.Func) or issubclass(kind, exp.Case | exp.Connector):
            continue
        call = kind()
        call.meta.update({"start": 7, "end": 7})
        assert not refused(call), kind
        for bind in (rows.bind, above.value):
            with pytest.raises(QueryRefused) as caught:
                bind(call)
            assert caught.value.code in {"DPQ202", "DPQ302"}, (kind, caught.value.code)


def test_a_second_select_is_refused_wherever_it_hides():
    assert refused(exp.Abs(this=exp.Select(expressions=[exp.Literal.number(1)])))


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_a_word_of_sql_is_no_name(word: str):
    with pytest.raises(QueryRefused) as caught:
        parse(Source(f"SELECT DP_COUNT(*, eps=0.1) FROM staff AS {word}"))
    assert caught.value.code in {"DPQ101", "DPQ102"}
    planned(f'SELECT DP_COUNT(*, eps=0.1) FROM staff AS "{word}"')


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("SELECT f((1 + 2) * [3], 4) + 5", "f((1 + 2) * [3], 4)"),
        ("SELECT 1 + f()", "f()"),
        ("SELECT x.y.z", "x.y.z"),
        ("SELECT DATE '2020-01-01'", "DATE '2020-01-01'"),
        ("SELECT x::INTEGER", "x::INTEGER"),
        ("SELECT f(x, 1)::INTEGER", "f(x, 1)::INTEGER"),
        ("SELECT (1, x)", "(1, x)"),
        ("SELECT QUANTILE_CONT(x, 0.5)", "QUANTILE_CONT(x, 0.5)"),
        ("SELECT MIN(x)", "MIN(x)"),
        ("SELECT - x", "- x"),
        ("SELECT 数 + 1", "数 + 1"),
        ("SELECT NULL", "NULL"),
    ],
)
def test_a_span_is_whole_words_and_whole_brackets(query: str, marked: str):
    spans = Spans(Source(query), DuckDB().tokenize(query))
    tree = DuckDB().parser().parse(DuckDB().tokenize(query), query)[0]
    node = tree.expressions[0]
    node = node.this if marked.startswith("f((") else node
    node = node.expression if marked == "f()" else node
    if marked in {"- x", "NULL"}:  # these positions are our own parser's
        source = Source(f"{query} FROM staff")
        parsed = parse(source)
        assert source.snippet(parsed.spans.of(parsed.query.expressions[0])) == marked
    else:
        assert Source(query).snippet(spans.of(node)) == marked


def test_a_clause_is_its_words_up_to_the_next_one():
    query = "SELECT f(x) FILTER (WHERE y) FROM t WHERE (a) GROUP BY b ORDER BY c LIMIT 3;"
    parsed = parse(Source(query))
    clauses = {
        TokenType.WHERE: "WHERE (a)",
        TokenType.SELECT: "SELECT f(x) FILTER (WHERE y)",
        TokenType.ORDER_BY: "ORDER BY c",
        TokenType.LIMIT: "LIMIT 3",
    }
    for word, text in clauses.items():
        assert parsed.source.snippet(parsed.spans.clause(word)) == text
    assert parsed.spans.clause(TokenType.HAVING) is None


def test_a_mended_query_is_shown_if_it_is_short():
    assert mended(Source("SELECT a == 1"), Span(9, 11), "=", "x") == "SELECT a = 1"
    assert mended(Source("SELECT ALL a"), Span(7, 10), "", "x") == "SELECT a"
    assert mended(Source("SELECT a\nFROM b,"), Span(15, 16), "", "x") == "x"
    assert mended(Source("SELECT " + "a" * 100), Span(0, 1), "S", "x") == "x"


@pytest.mark.parametrize(("query", "text"), WORDING, ids=[q for q, _ in WORDING])
def test_a_refusal_reads_as_it_was_written(query: str, text: str):
    assert refusal(query) == text
