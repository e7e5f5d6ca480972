"""How a refusal reads, and what a program can ask of it."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dpquery import errors
from dpquery.core.source_text import Source, Span
from dpquery.errors import (
    BudgetRefused,
    Diagnostic,
    DPQueryError,
    ExitCode,
    InternalError,
    PolicyInvalid,
    QueryRefused,
    RuleRefused,
    ScanFailed,
    Worded,
    advice,
    internal,
    listed,
    nearest,
    refusal,
)

RAW = Diagnostic(
    "DPQ301",
    "salary cannot be shown row by row",
    Span(13, 19),
    "not inside a DP_ function",
    why=(
        "a result may contain only DP_ functions and grouping columns;",
        "one person's salary is what the session protects.",
    ),
    remedy=("SELECT dept, DP_QUANTILE(salary, 0.5, eps=0.5) FROM staff GROUP BY dept",),
)


def test_advice_is_told_with_the_reasons_and_never_offered():
    found = refusal("DPQ406", "too large", Span(0, 1), "here", "it is.", advice("ask for less"))
    assert found.diagnostic.why == ("it is.", "ask for less.")
    assert found.diagnostic.remedy == ()
    other = refusal("DPQ406", "too large", why="it is.", remedy=advice("ask him", "do it"))
    assert other.diagnostic.for_own_files().why == ("it is.", "do it.")


def test_a_refusal_shows_title_place_reason_remedy_and_budget():
    source = Source("SELECT dept, salary FROM staff GROUP BY dept")
    refusal = RuleRefused(RAW, source, "unchanged; 1.3 of 2.0 left")
    assert (
        str(refusal)
        == """\
refused[DPQ301]: salary cannot be shown row by row
  |
1 | SELECT dept, salary FROM staff GROUP BY dept
  |              ^^^^^^ not inside a DP_ function

   why: a result may contain only DP_ functions and grouping columns;
        one person's salary is what the session protects.
   try: SELECT dept, DP_QUANTILE(salary, 0.5, eps=0.5) FROM staff GROUP BY dept
budget: unchanged; 1.3 of 2.0 left"""
    )


def test_a_notebook_shows_the_refusal_in_the_place_of_frames():
    """IPython prints what `_render_traceback_` gives for what was raised."""
    refusal = RuleRefused(RAW, Source("SELECT dept, salary FROM s WHERE 1 < 2"), "unchanged")
    assert "\n".join(refusal._render_traceback_()) == str(refusal)
    html = refusal._repr_html_()
    assert "1 &lt; 2" in html
    assert "one person&#x27;s salary" in html


def test_without_a_source_there_is_no_caret():
    assert str(RuleRefused(RAW)).splitlines()[1].startswith("   why: ")


def test_a_program_reads_code_and_span():
    refusal = RuleRefused(RAW)
    assert (refusal.code, refusal.span) == ("DPQ301", Span(13, 19))
    assert isinstance(refusal, QueryRefused)
    assert isinstance(refusal, DPQueryError)


def test_a_budget_refusal_states_what_was_asked_and_what_is_left():
    refusal = BudgetRefused(Diagnostic("DPQ501", "too much"), Fraction(3, 2), Fraction(13, 10))
    assert (refusal.asked, refusal.left) == (Fraction(3, 2), Fraction(13, 10))
    assert refusal.exit_code is ExitCode.BUDGET


def test_a_policy_refusal_names_file_and_line_below_its_title():
    invalid = PolicyInvalid(
        Diagnostic("DPQ603", "unknown key", why=("because",)), "p.toml", line=3, key="x"
    )
    assert str(invalid) == "policy[DPQ603]: unknown key\n   --> p.toml:3\n   why: because"
    assert str(PolicyInvalid(Diagnostic("DPQ601", "no file"), "p.toml")).endswith("--> p.toml")
    assert (
        str(PolicyInvalid(Diagnostic("DPQ608", "no epsilon"))) == "policy[DPQ608]: no epsilon"
    )


def test_a_fault_is_said_to_have_failed_and_not_to_be_refused():
    assert str(ScanFailed(Diagnostic("DPQ701", "the scan did not finish"))).startswith(
        "failed["
    )


def test_a_broken_rule_asks_for_a_report():
    error = internal("only integers cross (I4)")
    assert isinstance(error, InternalError)
    assert error.code == "DPQ901"
    assert "only integers cross (I4)" in str(error)
    assert "report it" in str(error)


@pytest.mark.parametrize(
    ("name", "exit_code"),
    [
        ("SyntaxRefused", 1),
        ("NameRefused", 1),
        ("RuleRefused", 1),
        ("PlanRefused", 1),
        ("BudgetRefused", 3),
        ("PolicyInvalid", 2),
        ("ScanFailed", 4),
        ("SessionUnusable", 2),
        ("InternalError", 70),
    ],
)
def test_each_class_has_its_exit_code_and_a_sqlstate(name: str, exit_code: int):
    raised = getattr(errors, name)
    assert raised.exit_code == exit_code
    assert len(raised.sqlstate) == 5


def test_the_nearest_name_ignores_case_and_wild_guesses_have_none():
    assert nearest("SALERY", ["dept", "Salary"]) == "Salary"
    assert nearest("xyzzy", ["dept", "salary"]) is None


def test_a_list_is_sorted_starts_with_the_nearest_and_stops_at_ten():
    assert listed("cab", first="c") == "c, a, b"
    assert listed(map(str, range(12))).endswith(", …")
    assert listed(map(str, range(10))).count(",") == 9


def test_who_asks_their_own_files_is_sent_to_no_owner():
    remedy = (Worded("ask the owner"), "IN ('a')", Worded("or ask for more", "or --epsilon 2"))
    found = Diagnostic("DPQ402", "no", label=Worded("not in the policy", "not in the file"))
    own = replace(found, why=("the policy's delta",), remedy=remedy).for_own_files()
    assert (own.label, own.why) == ("not in the file", ("the session's delta",))
    assert own.remedy == ("IN ('a')", "or --epsilon 2")
    assert remedy[2].removeprefix("or ").own == "--epsilon 2"
