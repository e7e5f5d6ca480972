"""Carets stand under what they mark, in terminal cells; nothing drawn can drive a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from dpquery.core.source_text import Source, Span, visible, width


def caret(text: str, marked: str, label: str = "here") -> list[str]:
    start = text.index(marked)
    return Source(text).caret(Span(start, start + len(marked)), label).split("\n")


def test_a_span_covers_both_of_its_parts():
    assert Span(7, 9) | Span(2, 4) == Span(2, 9)
    assert Source("SELECT salary").snippet(Span(7, 13)) == "salary"


def test_lines_are_counted_from_one_and_drop_their_carriage_return():
    source = Source("SELECT\r\n  a\r\nFROM t")
    assert source.line_of(10) == (2, 8, "  a")
    assert source.line_of(len(source.text)) == (3, 13, "FROM t")


def test_the_caret_stands_on_its_own_line_of_the_query():
    assert caret("SELECT a\nFROM b\nWHERE c", "b") == ["  |", "2 | FROM b", "  |      ^ here"]


def test_the_gutter_is_as_wide_as_the_line_number():
    assert caret("\n" * 9 + "SELECT a", "a") == ["   |", "10 | SELECT a", "   |        ^ here"]


def test_wide_characters_before_the_span_move_the_caret_by_two_cells():
    assert caret("SELECT '数数', a", "a")[2] == "  | " + " " * 15 + "^ here"


def test_wide_characters_under_the_span_take_two_carets():
    assert caret("SELECT 数", "数")[2] == "  |        ^^ here"


def test_combining_marks_take_no_cell():
    assert width("e\u0301") == 1
    assert caret("SELECT 'e\u0301', a", "a")[2] == "  | " + " " * 12 + "^ here"


def test_an_empty_span_at_the_end_still_has_a_caret():
    source = Source("SELECT a FROM")
    assert source.caret(Span(13, 13), "a table is missing").split("\n")[2] == (
        "  |              ^ a table is missing"
    )


def test_a_span_over_several_lines_is_marked_on_its_first():
    assert caret("SELECT (a\n+ b)", "(a\n+ b)") == [
        "  |",
        "1 | SELECT (a",
        "  |        ^^ here",
    ]


def test_tabs_print_as_one_blank():
    assert caret("SELECT\ta", "a") == ["  |", "1 | SELECT a", "  |        ^ here"]


def test_a_long_line_is_shortened_on_both_sides_of_its_caret():
    text = "SELECT " + "x + " * 100 + "bad" + " + y" * 100
    _, line, carets = caret(text, "bad")
    assert width(line) <= 104
    assert line.count("…") == 2
    assert line[carets.index("^") : carets.rindex("^") + 1] == "bad"


def test_a_long_span_is_cut():
    _, line, carets = caret("SELECT " + "x" * 500 + " FROM t", "x" * 500)
    assert carets.count("^") == 96
    assert line.endswith("…")


def test_control_characters_become_signs():
    assert visible("a\x1b[31m\x9bb\u202ec\x7f") == "a␛[31m�b�c�"


@given(st.text(), st.integers(0, 60), st.integers(0, 60))
def test_every_caret_is_three_lines_that_cannot_drive_a_terminal(text: str, a: int, b: int):
    span = Span(min(a, b, len(text)), min(max(a, b), len(text)))
    lines = Source(text).caret(span).split("\n")
    assert len(lines) == 3
    assert "^" in lines[2]
    assert all(visible(line) == line for line in lines)
