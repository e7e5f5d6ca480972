"""What is suggested at a place of a statement, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpquery
from dpquery.editing.complete import Column, known_to, suggestions
from dpquery.editing.context import words_of
from dpquery.functions import ALL, names
from dpquery.policy.sources.files import copy_samples
from dpquery.shell.dot_commands import COMMANDS, suggested
from dpquery.sql.bind.scope import INTERVAL_ENDS, written_name

KNOWN = {
    "staff": (
        Column("person_id", "integer"),
        Column("dept", "text", ("'eng'", "'it''s'")),
        Column("salary", "integer", bounded=True),
        Column("hired", "date", bounded=True),
        Column("remote", "boolean"),
    ),
    "visits": (Column("region", "text", ("'north'", "'south'")), Column("first day", "date")),
}
STAFF = ["person_id", "dept", "salary", "hired", "remote"]
VISITS = ["region", '"first day"']
CLAUSES = ["GROUP BY", "HAVING", "ORDER BY", "LIMIT"]
COMPARING = ["IN", "BETWEEN", "IS NULL", "IS NOT NULL", "NOT IN"]
CALLS = [f"{name}(" for function in ALL for name in (function.name, *function.aliases)]
GROUPINGS = ["ALL", "ROLLUP (", "CUBE (", "GROUPING SETS ("]
SCALARS = [
    *("ABS(", "COALESCE(", "GREATEST(", "LEAST(", "ROUND("),
    *("DP_INTERVAL_LOW(", "DP_INTERVAL_HIGH("),
]


def suggest(text: str) -> list[str]:
    """Complete at the bar, or at the end."""
    before, _, after = text.partition("|")
    return [found.text for found in suggestions(before, after, KNOWN)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "",
            ["SELECT", "EXPLAIN", "REFRESH", "SHOW", "DESCRIBE", "SUMMARIZE", "CREATE", "DROP"],
        ),
        ("CREATE ", ["TEMP VIEW", "OR REPLACE TEMP VIEW"]),
        ("CREATE TEMP VIEW v ", []),
        ("CREATE TEMP VIEW v AS ", ["SELECT"]),
        ("CREATE TEMP VIEW v AS SELECT dept FROM s", ["staff"]),
        ("DROP ", ["VIEW"]),
        ("SEL", ["SELECT"]),
        ("sel", ["select"]),
        ("SELECT", []),
        ("SHOW ", ["TABLES", "BUDGET", "LEDGER", "FUNCTIONS"]),
        ("SHOW bu", ["budget"]),
        ("DESCRIBE ", ["staff", "visits"]),
        ("DESC v", ["visits"]),
        ("DESCRIBE staff ", []),
        ("EXPLAIN ", ["SELECT"]),
        ("EXPLAIN SELECT dept FROM s", ["staff"]),
        ("SELECT ", [*STAFF, *VISITS, *CALLS, *SCALARS]),
        ("SELECT | FROM visits", [*VISITS, *CALLS, *SCALARS]),
        ("SELECT sal| FROM staff", ["salary"]),
        ("SELECT dept, DP_Q", ["DP_QUANTILE("]),
        ("SELECT dept, dp_med", ["DP_MEDIAN("]),
        ("SELECT dept ", ["FROM", "AS"]),
        ("SELECT DP_COUNT(*, eps=1) ", ["FROM", "AS", "FILTER (WHERE"]),
        ("SELECT DP_COUNT(*, eps=1) AS ", []),
        ("SELECT ROUND(dept ", []),
        ("SELECT a.| FROM staff AS a", STAFF),
        ("SELECT visits.f", []),
        ("SELECT visits.r", ["region"]),
        ("SELECT 1 FROM ", ["staff", "visits"]),
        ("SELECT 1 FROM V", ["visits"]),
        ("SELECT 1 FROM staff ", ["WHERE", *CLAUSES, "AS"]),
        ("SELECT 1 FROM staff w", ["where"]),
    ],
)
def test_a_statement_is_followed_from_its_first_word_to_from(text: str, expected: list[str]):
    assert suggest(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DP_COUNT(| FROM visits", ["*", *VISITS, "DISTINCT"]),
        ("DP_COUNT(DISTINCT | FROM visits", VISITS),
        ("DP_COUNT(*", []),
        (
            "DP_COUNT(*, ",
            [
                *("eps=", "delta=", "max_rows_contributed=", "mechanism=", "rho="),
                *(
                    "weights=",
                    "weight=",
                    "error=",
                    "confidence=",
                    "max_groups_contributed=",
                    "contribution_bounds_per_group=",
                ),
            ],
        ),
        ("DP_COUNT(*, eps=0.5, de", ["delta="]),
        ("DP_COUNT(*, epsilon := 0.5, e", ["error="]),
        ("DP_COUNT(*, eps=", []),
        ("DP_COUNT(*, eps=1 ", []),
        ("DP_COUNT(*, mechanism=", ["'laplace'", "'gaussian'", "'staircase'"]),
        ("DP_COUNT(*, mechanism => 'g", ["'gaussian'"]),
        ("DP_COUNT(*, weights=", ["'table'"]),
        ("DP_COUNT(*, weights='t", ["'table'"]),
        ("DP_MODE(dept, weights=", []),
        ("DP_MEDIAN(salary, mechanism='q", ["'quantile'"]),
        ("DP_MEDIAN(salary, mechanism='l", ["'laplace'"]),
        ("DP_SUM(| FROM staff", ["person_id", "salary", "DISTINCT"]),
        ("DP_SUM(salary, bou", ["bounds="]),
        ("DP_SUM(salary, bounds=[0, 10], b", []),
        ("DP_MEDIAN(h| FROM staff", ["hired"]),
        ("DP_QUANTILE(salary, 0.1, ep", ["eps="]),
        ("DP_COUNT_IF(rem| FROM staff", ["remote"]),
        ("DP_COUNT_IF(remote | FROM staff", [*COMPARING, "AND", "OR"]),
        ("DP_COUNT_IF(dept = 'e", ["'eng'"]),
        ("DP_COUNT(*, eps=1) FILTER (", ["WHERE"]),
        ("DP_COUNT(*, eps=1) FILTER (WHERE | FROM visits", [*VISITS, "NOT"]),
        ("DP_COUNT(*, eps=1) FILTER (WHERE dept = 'eng' ", ["AND", "OR"]),
        ("ROUND(DP_SUM(sal", ["salary"]),
        ("(DP_COUNT(*, eps=1) + ", [*STAFF, *VISITS, *CALLS, *SCALARS]),
    ],
)
def test_a_call_offers_what_it_takes_and_has_not_been_given(text: str, expected: list[str]):
    assert suggest(f"SELECT {text}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WHERE ", [*STAFF, "NOT"]),
        ("WHERE dept ", COMPARING),
        ("WHERE remote ", [*COMPARING, "AND", "OR", *CLAUSES]),
        ("WHERE remote = ", ["TRUE", "FALSE", *STAFF, "NOT"]),
        ("WHERE dept = ", ["'eng'", "'it''s'", *STAFF, "NOT"]),
        ("WHERE dept = 'i", ["'it''s'"]),
        ("WHERE dept <> '", ["'eng'", "'it''s'"]),
        ("WHERE staff.dept = '", ["'eng'", "'it''s'"]),
        ("WHERE dept IN (", ["'eng'", "'it''s'"]),
        ("WHERE dept NOT IN ('eng', '", ["'eng'", "'it''s'"]),
        ("WHERE salary = '", []),
        ("WHERE dept IS ", ["NULL", "NOT NULL"]),
        ("WHERE dept = 'eng' ", ["AND", "OR", *CLAUSES]),
        ("WHERE dept = 'eng' AND sal", ["salary"]),
        ("WHERE (dept = 'eng' OR ", [*STAFF, "NOT"]),
        ("WHERE salary BETWEEN 1 AND 2 o", ["or", "order by"]),
        ("WHERE remote AND dept ", COMPARING),
        ("GROUP ", ["BY"]),
        (
            "GROUP BY ",
            ["dept", "salary", "hired", "remote", "person_id", "DP_KEYS(", *GROUPINGS],
        ),
        ("GROUP BY dept ", ["HAVING", "ORDER BY", "LIMIT"]),
        ("GROUP BY dept HAVING NO| AS note", ["note"]),
        ("GROUP BY dept HAVING n > 1 ", ["AND", "OR", "ORDER BY", "LIMIT"]),
        ("ORDER ", ["BY"]),
        ("ORDER BY ", ["n", *STAFF, *CALLS]),
        ("ORDER BY n ", ["ASC", "DESC", "NULLS FIRST", "NULLS LAST", "LIMIT"]),
        ("ORDER BY n DESC, de", ["dept"]),
        ("ORDER BY n NULLS ", ["FIRST", "LAST"]),
        ("LIMIT ", []),
        ("LIMIT 3 ", ["OFFSET"]),
        ("WHERE dept = 'eng'; SH", ["SHOW"]),
        ("WHERE -- de", []),
        ("WHERE /* de", []),
        ("WHERE /* no */ de", ["dept"]),
        ('WHERE "de', []),
    ],
)
def test_clauses_follow_the_grammar(text: str, expected: list[str]):
    assert suggest(f"SELECT 1 AS n FROM staff {text}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".", [command.name for command in COMMANDS]),
        (".t", [".tables", ".timer"]),
        (".mode ", ["table", "csv", "json", "arrow", "parquet"]),
        (".mode c", ["csv"]),
        (".mo c", ["csv"]),
        (".timer o", ["on", "off"]),
        (".describe ", ["staff", "visits"]),
        (".confirm o", ["off"]),
        (".output s", ["stdout"]),
        (".explain SELECT 1 FROM st", ["staff"]),
        (".explain ", ["SELECT"]),
        (".help dp_med", ["DP_MEDIAN"]),
        (".help .mo", [".mode"]),
        (".plot ", ["dept", "n"]),
        (".pl d", ["dept"]),
        (".t ", []),
        (".quit ", []),
        (".nothing ", []),
    ],
)
def test_commands_and_their_arguments_are_suggested(text: str, expected: list[str]):
    assert [found.text for found in suggested(text, KNOWN, ("dept", "n"))] == expected


def test_a_suggestion_takes_the_place_of_what_was_typed():
    (found,) = suggestions("SELECT 1 FROM vi", "", KNOWN)
    assert (found.start, found.note) == (14, "table")
    (found,) = suggested(".explain SELECT 1 FROM vi", KNOWN)
    assert found.start == 23
    (found,) = suggested("  .describe vi", KNOWN)
    assert found.start == 12


def test_functions_come_with_their_signature():
    notes = {found.text: found.note for found in suggestions("SELECT DP_", "", KNOWN)}
    assert notes["DP_QUANTILE("].startswith("DP_QUANTILE(number or date, q, eps=, ")
    assert notes["DP_COUNT("].startswith("DP_COUNT(* or x, eps=, delta=, ")
    assert notes["DP_TOP_K("].startswith("DP_TOP_K(column, k, eps=, ")
    assert notes["DP_FIRST_ABOVE("].startswith("DP_FIRST_ABOVE(number or date, rows, eps=, ")
    assert sorted(name.removesuffix("(") for name in notes) == sorted(
        [*names(), *INTERVAL_ENDS]
    )


@pytest.mark.parametrize("name", ["dept", "first day", 'a"b', "order", "größe", "数"])
def test_a_quoted_name_is_one_word_of_a_query(name: str):
    (word,) = words_of(written_name(name))
    assert word.kind == ("name" if name.isidentifier() and name != "order" else "quoted")


@given(
    st.text(alphabet="SELECT FROM WHERE(,)='\"*.;-/[]ab1\n", max_size=40), st.integers(0, 40)
)
def test_any_text_can_be_completed_at_any_place(text: str, cut: int):
    for found in suggestions(text[:cut], text[cut:], KNOWN):
        assert 0 <= found.start <= cut


def test_what_is_known_comes_from_the_policy_and_costs_nothing(tmp_path: Path):
    with dpquery.connect(str(copy_samples(tmp_path / "samples"))) as session:
        known = known_to(session)
        assert session.budget.spent.epsilon == 0
    assert list(known) == ["staff", "visits", "regions"]
    keys = ("'eng'", "'hr'", "'legal'", "'ops'", "'sales'")
    assert known["staff"][1] == Column("dept", "text", keys)
    assert known["staff"][2] == Column("age", "integer", bounded=True)


def test_views_are_known_and_those_that_cannot_be_read_have_no_columns(tmp_path: Path):
    with dpquery.connect(str(copy_samples(tmp_path / "samples"))) as session:
        session.sql("CREATE TEMP VIEW young AS SELECT dept, age FROM staff WHERE age < 40")
        session.sql("CREATE TEMP VIEW few AS SELECT age FROM young")
        known = known_to(session)
        session.sql("DROP VIEW young")
        assert known_to(session)["few"] == ()
    keys = ("'eng'", "'hr'", "'legal'", "'ops'", "'sales'")
    assert known["young"] == (
        Column("dept", "text", keys),
        Column("age", "integer", bounded=True),
    )
    found = suggestions("SELECT DP_SUM(ag", " FROM young", known)
    assert [one.text for one in found] == ["age"]


def test_a_column_is_found_by_a_name_whose_capitals_are_others():
    known = {"t": (Column("straße", "text", ("'a'",)),)}
    assert [s.text for s in suggestions("SELECT x FROM t WHERE straße = '", "", known)] == [
        "'a'"
    ]
    after = [s.text for s in suggestions("SELECT x FROM t WHERE straße ", "", known)]
    assert "AND" not in after
