"""A script is cut at its semicolons, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.editing.cursor_context import statements


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        ("", []),
        (" ;; -- nothing\n/* nor here; */ ;", []),
        ("a; b", ["a", "b"]),
        ("a;b;", ["a", "b"]),
        ("  a \n ; ", ["a"]),
        ("a ';' b; c", ["a ';' b", "c"]),
        ("'it''s; fine'; b", ["'it''s; fine'", "b"]),
        ('"a;""b"; c', ['"a;""b"', "c"]),
        ("a -- x; y\n b; c", ["a -- x; y\n b", "c"]),
        ("a /* ; /* ; */ ; */ b; c", ["a /* ; /* ; */ ; */ b", "c"]),
        ("$$a;b$$; $t$ ; $$ ; $t$; c", ["$$a;b$$", "$t$ ; $$ ; $t$", "c"]),
        ("a - b / c; d", ["a - b / c", "d"]),
        ("'open; b", ["'open; b"]),
        ("/* open; b", []),
        ("a /* open; b", ["a"]),
        ("'数'';'; b", ["'数'';'", "b"]),
    ],
)
def test_semicolons_in_quotes_and_comments_do_not_cut(script: str, parts: list[str]):
    assert [statement.text for statement in statements(script)] == parts


def test_a_statement_knows_its_line():
    script = "a;\n-- b\n\n c\n;d"
    assert [(s.text, s.line) for s in statements(script)] == [("a", 1), ("c", 4), ("d", 5)]


QUIET = st.text(alphabet="ab '\"-/*$;\n", max_size=30)


@given(QUIET)
def test_cutting_a_statement_again_changes_nothing(script: str):
    for statement in statements(script):
        assert [again.text for again in statements(statement.text)] == [statement.text]


@given(QUIET)
def test_statements_are_parts_of_the_script_in_order(script: str):
    at = 0
    for statement in statements(script):
        at = script.index(statement.text, at) + len(statement.text)
