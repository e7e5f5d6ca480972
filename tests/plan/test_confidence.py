"""No number is shown with more confidence than it deserves: its notes and headers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery.core.source_text import Source
from dpquery.session import Session
from tests.samples import sample_policy

STAFF = Path(__file__).parents[2] / "datasets" / "staff.parquet"
SALARY, AGE = "salary clamped to 0 to 200000", "age clamped to 18 to 70"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with dpquery.connect(sample_policy(tmp_path, "epsilon = 100")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("query", "seen"),
    [
        ("SELECT DP_COUNT(*, eps=1) FROM staff WHERE age = 18", f"conditions see {AGE}"),
        (
            "SELECT DP_COUNT(*, eps=1) FROM staff WHERE salary + 1 > 5 AND age <> 70",
            f"conditions see {SALARY}, {AGE}",
        ),
        ("SELECT DP_COUNT_IF(salary * 2 > 5, eps=1) FROM staff", f"conditions see {SALARY}"),
        ("SELECT DP_COUNT(*, eps=1) FROM staff GROUP BY age", f"groups see {AGE}"),
        ("SELECT DP_COUNT(DISTINCT age, eps=1) FROM staff", f"expressions see {AGE}"),
        (
            "SELECT DP_COUNT(*, eps=1) FROM (SELECT person_id, SUM(minutes) AS m FROM visits "
            "GROUP BY person_id) WHERE m > 100",
            "conditions see minutes clamped to 0 to 240",
        ),
    ],
)
def test_a_clamp_that_conditions_or_groups_see_is_said_once(session, query, seen):
    answer = session.sql(query)
    assert answer.notes[0] == f"{seen}; ± is the noise only (95 %)"
    assert "noise ±" in str(answer)
    assert "95% within" not in str(answer)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DP_COUNT(*, eps=1) FROM staff WHERE age >= 40 AND salary < 200000",
        "SELECT DP_COUNT(*, eps=1) FROM staff WHERE age IS NOT NULL AND person_id > 3",
        "SELECT DP_COUNT(salary + 1, eps=1) FROM staff",
        "SELECT DP_COUNT(*, eps=1) FROM staff GROUP BY CASE WHEN age > 30 THEN 'a' END",
    ],
)
def test_what_a_clamp_cannot_change_is_not_spoken_of(session, query):
    answer = session.sql(query)
    assert not any("see" in note for note in answer.notes)
    assert "95% within" in str(answer)


def test_without_an_interval_no_note_speaks_of_one(session):
    answer = session.sql("SELECT DP_SUM(salary, eps=1) / 2 AS half FROM staff")
    assert answer.notes[0] == "salary below 0 counts as 0, above 200000 as 200000"


def test_what_was_found_between_no_bounds_is_null(session):
    query = "SELECT DP_AVG(person_id, eps=0.001, bounds='auto') AS n FROM staff"
    for answer in (session.sql(query), session.sql(query)):
        assert answer.scalar() is None
        assert answer.interval("n") == [None]
        assert answer.notes[0] == (
            "no bounds were found for person_id: too few rows for this eps; "
            "state bounds=[low, high]"
        )


def test_bounds_of_the_policy_are_said_beside_auto_however_often_it_is_asked(session):
    query = "SELECT DP_SUM(salary, eps=1, bounds='auto') FROM staff"
    first, again = session.sql(query), session.sql(query)
    assert first.notes[0].startswith("salary below 0 counts as 0, above 200000 as 200000")
    assert again.notes[: len(first.notes)] == first.notes


def test_quantiles_say_once_how_many_ranks_they_are_off(session):
    calls = "DP_MEDIAN(age, eps=1), DP_MAX(age, eps=1), DP_QUANTILE(age, [0.1, 0.9], eps=0.1)"
    answer = session.sql(f"SELECT {calls} FROM staff")
    notes = [note for note in answer.notes if "rank" in note]
    names = ("dp_median", "dp_max", "dp_quantile")
    most = {name: answer.rank_interval(name)[0] for name in names}
    assert notes == [
        f"{name} can be off by about {most[name]} rows in rank (95 %)"
        for name in sorted(names, key=most.get)
    ]


def test_a_group_with_few_rows_is_spoken_of_where_there_are_groups(session):
    notes = session.sql(
        "SELECT dept, DP_MEDIAN(age, eps=1) AS m FROM staff GROUP BY dept"
    ).notes
    assert notes[0].startswith("m can be off by about ")
    assert notes[0].endswith("; a group with fewer rows has an arbitrary value")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DP_AVG(minutes / inhabitants, eps=1, bounds=[0, 1]) FROM visits "
        "JOIN regions USING (region)",
        "SELECT DP_AVG(day - DATE '2025-01-01', eps=1) FROM visits",
    ],
)
def test_a_call_without_a_condition_speaks_of_none(session, query):
    notes = session.sql(query).notes
    assert any("counts as" in note for note in notes)
    assert not any("conditions" in note for note in notes)


def test_a_column_that_is_seen_twice_is_said_once(session):
    inner = "(SELECT AVG(w.minutes) FROM visits w WHERE w.person_id = v.person_id)"
    query = f"SELECT DP_COUNT(*, eps=1) FROM visits v WHERE v.minutes > {inner}"
    assert "conditions see minutes clamped to 0 to 240" in session.sql(query).notes


def test_units_counted_by_groups_say_why_the_noise_is_more(session):
    query = "SELECT region, DP_COUNT(DISTINCT person_id, eps=1) FROM visits GROUP BY region"
    assert session.sql(query).notes[0] == (
        "the noise covers a person_id in all 7 groups; "
        "with max_groups_contributed=1 in the call it is less"
    )
    alone = session.sql("SELECT DP_COUNT(DISTINCT person_id, eps=1) FROM visits")
    assert alone.notes == ()


def test_an_interval_that_noise_does_not_narrow_is_of_all_there_can_be(session):
    query = "SELECT DP_AVG({}, eps=1, max_rows_contributed=1) FROM visits"
    ((one,),) = (f.releases for f in session._plan(Source(query.format("minutes"))).frontiers)
    cell = one.release.cell((0, 0))
    assert cell.interval(Fraction(95, 100)) == cell.possible == (0.0, 240.0)
    found = Source(query.format("person_id, bounds='auto'"))
    ((one,),) = (f.releases for f in session._plan(found).frontiers)
    assert one.release.possible is None


def test_without_a_unit_one_note_says_what_that_means():
    with dpquery.connect(STAFF, epsilon=10) as session:
        notes = session.sql("SELECT DP_COUNT(*, eps=1) FROM staff").notes
    assert [note for note in notes if "unit" in note] == [
        "each row is its own privacy unit: a person with several rows is NOT protected as a "
        "whole; if it names a person: --unit person_id, in Python unit='person_id'"
    ]


@pytest.mark.parametrize(
    ("call", "least", "most"),
    [
        ("DP_AVG(age, eps=0.001)", 18, 70),
        ("DP_PROPORTION(remote, eps=0.001)", 0, 1),
        ("DP_VAR_POP(age, eps=0.001)", 0, 26**2),
        ("DP_STDDEV_SAMP(age, eps=0.001)", 0, 26 * 2**0.5),
        ("DP_COVAR_POP(age, rating, eps=0.001)", -52, 52),
        ("DP_COVAR_SAMP(age, rating, eps=0.001)", -104, 104),
        ("DP_CORR(age, rating, eps=0.001)", -1, 1),
        ("DP_REGR_R2(age, rating, eps=0.001)", 0, 1),
    ],
)
def test_an_interval_ends_where_values_do(session, call, least, most):
    """Where noise says nothing: for 1 in 10 draws it says more, so 12 fail 1 time in 1e12."""
    query, ends = f"SELECT {call} AS n FROM staff", pytest.approx((least, most))
    drawn = [session.sql(query, refresh=True).interval("n") for _ in range(12)]
    assert all(least <= low and high <= most for ((low, high),) in drawn)
    assert any((low, high) == ends for ((low, high),) in drawn)
