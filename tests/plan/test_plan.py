"""From a checked tree to scans, releases and one charge (I7)."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpquery.budget.accountant import basic
from dpquery.ir.measures import Weight
from dpquery.plan.answer_notes import notes_of
from tests.corpus.cases import planned, refusal

WORDING = [
    (
        "SELECT YEAR(NULL) FROM regions",
        """\
refused[DPQ208]: the types in the result do not match
  |
1 | SELECT YEAR(NULL) FROM regions
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ somewhere here

   why: values are combined and compared with values of their own type only.
   try: SELECT * FROM regions""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5, mechanism='gaussian') FROM staff",
        """\
refused[DPQ403]: DP_COUNT with mechanism='gaussian' needs delta
  |
1 | SELECT DP_COUNT(*, eps=0.5, mechanism='gaussian') FROM staff
  |                                       ^^^^^^^^^^ delta is missing

   why: Gaussian noise keeps its promise but for a small probability, delta.
   try: DP_COUNT(*, eps=0.5)
        or add delta=1e-7 to the call, under a policy whose budget has a delta""",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.5, delta=1e-7) FROM staff",
        """\
refused[DPQ403]: DP_COUNT with mechanism='laplace' has no use for a delta
  |
1 | SELECT DP_COUNT(*, eps=0.5, delta=1e-7) FROM staff
  |                                   ^^^^ this would be passed over

   why: it keeps its promise without exception, so no delta is spent on it.
   try: DP_COUNT(*, eps=0.5)
        or add mechanism='gaussian', under a policy whose budget has a delta""",
    ),
]


@pytest.mark.parametrize(("query", "text"), WORDING, ids=[q for q, _ in WORDING])
def test_a_refusal_reads_as_it_was_written(query: str, text: str):
    assert refusal(query) == text


def test_the_charge_is_what_the_releases_lose():
    plan = planned("SELECT DP_COUNT(*, eps=0.1), DP_COUNT(bonus, eps=0.3) FROM staff")
    events = [r.release.event() for f in plan.frontiers for r in f.releases]
    assert list(plan.charge.events) == events
    assert sum(event.epsilon for event in events) == Fraction(4, 10)
    assert plan.charge.scans == tuple(frontier.scan for frontier in plan.frontiers)


def test_the_caret_of_a_charge_is_under_the_dearest_call():
    query = "SELECT DP_COUNT(*, eps=0.1), DP_COUNT(*, eps=0.7), DP_COUNT(*, eps=0.2) FROM staff"
    plan = planned(query)
    assert plan.source.snippet(plan.charge.span) == "0.7"
    assert plan.charge.retry == ("DP_COUNT(*, eps=", ")")


def test_every_epsilon_can_be_found_in_what_the_ledger_keeps():
    """In the order of events: the inner call is released first."""
    inner = "(SELECT DP_MEDIAN(age, eps=0.25) FROM staff)"
    charge = planned(f"  SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age > {inner}\n").charge
    found = [charge.query[span.start : span.end] for span in charge.epsilons]
    assert found == [str(float(basic([event]).epsilon)) for event in charge.events]


def test_one_call_can_be_offered_again_with_another_epsilon():
    charge = planned("SELECT DP_COUNT(age, eps=0.7) FILTER (WHERE remote) FROM staff").charge
    assert charge.retry == ("DP_COUNT(age, eps=", ") FILTER (WHERE remote)")


def test_a_query_over_public_tables_charges_nothing():
    charge = planned("SELECT * FROM regions").charge
    assert (charge.events, charge.scans) == ((), ())


def test_a_note_names_every_limit_of_the_query():
    query = (
        "SELECT DP_COUNT(*, eps=0.1, max_rows_contributed=1) AS a, DP_COUNT(*, eps=0.1) AS b "
        "FROM visits"
    )
    (note,) = notes_of(planned(query))
    assert note.startswith("each person_id counts for at most 1 or 10 rows; ")


def test_a_call_that_is_written_twice_says_so_before_it_is_paid():
    call = "DP_COUNT(*, eps=0.1)"
    grouped = f"SELECT dept, {call} AS n FROM staff GROUP BY dept"
    twice = planned(f"{grouped} HAVING {call} > 3 ORDER BY n DESC").notes
    said = f"{call} is written 2 times: each is drawn and charged on its own; "
    assert any(note.startswith(said) for note in twice)
    named = f"{grouped} HAVING n > 3 ORDER BY n, DP_COUNT(*, eps=0.2)"
    assert not any("written" in note for note in planned(named).notes)
    filtered = f"SELECT {call}, {call} FILTER (WHERE remote) FROM staff"
    assert planned(filtered).notes == ()


@pytest.mark.parametrize(
    ("key", "left_out"),
    [
        ("CASE WHEN dept IN ('eng', 'hr') THEN dept ELSE 'other' END", ()),
        ("CASE WHEN dept = 'eng' AND remote THEN dept ELSE 'other' END", ()),
        (
            "CASE WHEN dept = 'eng' THEN 'e' ELSE dept END",
            ("rows where dept is NULL or not one of its keys are left out",),
        ),
        (
            "CASE WHEN dept = 'eng' OR rating > 3 THEN dept ELSE 'other' END",
            ("rows where dept is NULL or not one of its keys are left out",),
        ),
    ],
)
def test_a_note_says_which_rows_a_choice_leaves_out(key: str, left_out: tuple[str, ...]):
    """A result that its own condition lists leaves out nobody: those rows have another."""
    assert notes_of(
        planned(f"SELECT {key} AS g, DP_COUNT(*, eps=1) FROM staff GROUP BY g")
    ) == (left_out)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("dept = 'board'", "board is not among the keys of dept"),
        (
            "remote AND dept IN ('eng', 'xy', 'board')",
            "board, xy are not among the keys of dept",
        ),
        ("dept NOT IN ('board', 'eng')", "board is not among the keys of dept"),
        ("dept IN ('eng', 'ops')", None),
    ],
)
def test_a_note_says_what_is_no_key(condition: str, said: str | None):
    """Rows may hold other texts than keys, so they are asked for."""
    plain = planned(f"SELECT DP_COUNT(*, eps=1) FROM staff WHERE {condition}")
    filtered = planned(f"SELECT DP_COUNT(*, eps=1) FILTER (WHERE {condition}) FROM staff")
    assert notes_of(plain) == notes_of(filtered) == (() if said is None else (said,))


def test_a_note_names_the_limit_of_groups_where_there_are_groups():
    """Without groups a unit is in one, and nothing is shared."""
    call = "DP_COUNT(DISTINCT person_id, eps=0.1, max_groups_contributed=3)"
    note, left_out = notes_of(
        planned(f"SELECT region, {call} AS n FROM visits GROUP BY region")
    )
    assert left_out == "rows where region is not one of its keys are left out"
    assert note.startswith("each person_id counts in at most 3 groups; a person_id in more")
    assert notes_of(planned(f"SELECT {call} AS n FROM visits")) == ()


@pytest.mark.parametrize(
    ("options", "weight"),
    [
        ("max_groups_contributed=3", Weight(3, 2**32)),
        ("max_groups_contributed=7", Weight(7)),
        ("max_groups_contributed=100", Weight(7)),  # six regions, and NULL
        ("max_rows_contributed=2", Weight(2, 2**32)),
    ],
)
def test_units_share_their_weight_only_where_there_are_more_groups(options, weight):
    call = f"DP_COUNT(DISTINCT person_id, eps=0.1, {options})"
    plan = planned(f"SELECT region, {call} AS n FROM visits GROUP BY region")
    (measure,) = plan.frontiers[0].scan.measures
    assert measure.weight == weight
