"""Texts and lists that results are made into are bounded before the charge."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpquery
from dpquery import rowfunctions
from dpquery.core.types import Kind
from dpquery.errors import QueryRefused
from dpquery.session import Session
from dpquery.sql.postprocess.builtin_functions import BY_NAME, SPECIAL, Function
from dpquery.sql.postprocess.from_clause import MOST_CHARACTERS
from dpquery.sql.postprocess.sql_fragments import LONGEST_NUMBER
from dpquery.sql.postprocess.sql_fragments import text as quoted
from tests.samples import sample_policy

GROUPS = "(SELECT dept, DP_COUNT(*, eps=1e-3) AS n FROM staff GROUP BY dept)"
LISTS = "(SELECT DP_KEYS(dept, eps=0.1, delta=1e-7) AS d FROM staff)"
FOUND = "(SELECT k AS dept FROM (SELECT DP_KEYS(dept, eps=0.1, delta=1e-7) AS k, "
STEPS = {
    "two bars": "d || d",
    "bars between": "d || '-' || d || '-'",
    "CONCAT": "CONCAT(d, d)",
    "REPLACE": "REPLACE(d, 'e', d)",
    "REGEXP_REPLACE": "REGEXP_REPLACE(d, '.*', d || '\\0')",
    "CASE": "CASE WHEN LENGTH(d) > 1 THEN d || d ELSE d END",
    "COALESCE": "COALESCE(d || d, 'a')",
    "text again": "CAST(d || d AS TEXT)",
    "turned": "REVERSE(UPPER(d || d))",
    "STRING_AGG": "STRING_AGG(d || d, ',')",
    "MAX": "MAX(d || d)",
    "window": "FIRST_VALUE(d || d) OVER ()",
    "window of texts": "STRING_AGG(d || d, '') OVER ()",
    "subquery": "(SELECT MAX(dept) FROM " + GROUPS + ") || d || d",
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with dpquery.connect(sample_policy(tmp_path, "epsilon = 100\ndelta = 1e-3")) as opened:
        yield opened


def levels(step: str, count: int, source: str = f"(SELECT dept AS d FROM {GROUPS})") -> str:
    """Write a query that makes a step so often, each of the one before."""
    query = f"SELECT d FROM {source}"
    for _ in range(count):
        query = f"SELECT {step} AS d FROM ({query})"
    return query


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("shown", ["SELECT d FROM ({})", "SELECT LENGTH(d) AS n FROM ({})"])
def test_what_doubles_is_refused_before_the_charge(session: Session, step: str, shown: str):
    with pytest.raises(QueryRefused) as told:
        session.sql(shown.format(levels(STEPS[step], 28)))
    assert told.value.code == "DPQ409"
    assert told.value.span is not None
    assert session.budget.spent.epsilon == 0


@pytest.mark.parametrize("step", STEPS)
def test_one_step_is_answered(session: Session, step: str):
    assert session.sql(levels(STEPS[step], 1)).rows


@pytest.mark.parametrize("step", ["d || d", "CONCAT(d, d)"])
def test_lists_that_double_are_refused(session: Session, step: str):
    with pytest.raises(QueryRefused) as told:
        session.sql(levels(step, 28, LISTS))
    assert told.value.code == "DPQ409"
    assert session.sql(levels(step, 1, LISTS)).rows


def test_a_chain_of_names_is_refused(session: Session):
    """Names of one SELECT list, and queries inside one another: no way around either."""
    query, last = f"SELECT dept FROM {GROUPS}", "dept"
    for level in "abc":
        chain = ", ".join(f"{level}{i} || {level}{i} AS {level}{i + 1}" for i in range(9))
        query, last = f"SELECT {last} AS {level}0, {chain} FROM ({query})", f"{level}9"
    with pytest.raises(QueryRefused) as told:
        session.sql(query)
    assert told.value.code == "DPQ409"


def test_copies_of_long_texts_are_refused(session: Session):
    """Rows that joins, unions or subqueries repeat count as often as they are there."""
    long = levels("d || d", 16)
    rows = "(SELECT minutes AS m, DP_COUNT(*, eps=1e-3) AS n FROM visits GROUP BY minutes)"
    many = ", ".join(f"d AS d{i}" for i in range(100))
    union = " UNION ALL ".join([f"SELECT {many} FROM w"] * 20)
    for query in (
        f"WITH w AS ({long}) SELECT w.d, x.m FROM w, {rows} x, {rows} y WHERE x.m = y.m",
        f"WITH w AS ({long}) SELECT a.d FROM w a, w b, w c, w d, w e",
        f"WITH w AS ({long}) SELECT {many} FROM w a CROSS JOIN {GROUPS}",
        f"WITH w AS ({long}) {union}",
        f"SELECT m, (SELECT MAX(d) FROM ({long})) AS d FROM {rows} ORDER BY (SELECT "
        f"MAX(d) FROM ({levels('d || d', 18)}))",
    ):
        with pytest.raises(QueryRefused) as told:
            session.sql(query)
        assert told.value.code == "DPQ409", query
    assert session.budget.spent.epsilon == 0


def test_the_longest_that_is_planned_is_answered(session: Session):
    """Planned means that there is memory for it."""
    for count in range(28, 1, -1):
        query = f"SELECT LENGTH(d) AS n FROM ({levels('d || d', count)})"
        try:
            session.explain(query)
        except QueryRefused:
            continue
        assert max(row[0] for row in session.sql(query).rows) > MOST_CHARACTERS / 100
        return
    raise AssertionError("none is planned")


ORDINARY = [
    f"SELECT UPPER(dept) || ': ' || CAST(n AS TEXT) AS x FROM {GROUPS}",
    f"SELECT STRING_AGG(dept || ' ' || CAST(n AS TEXT), ', ' ORDER BY n) AS x FROM {GROUPS}",
    "SELECT day, region || ' on ' || STRFTIME(day, '%d %B %Y') || LPAD(region, 20, '.') AS x, "
    "DP_COUNT(*, eps=1e-3) AS n FROM visits GROUP BY day, region",
    "SELECT region, STRING_AGG(CAST(minutes AS TEXT), ',') AS x FROM (SELECT region, minutes, "
    "DP_COUNT(*, eps=1e-3) AS n FROM visits WHERE minutes >= 0 GROUP BY 1, 2) GROUP BY 1",
    "WITH s AS (SELECT region, STRING_AGG(CAST(minutes AS TEXT), ',') AS x FROM (SELECT region,"
    " minutes, DP_COUNT(*, eps=1e-3) AS n FROM visits WHERE minutes >= 0 GROUP BY 1, 2) "
    "GROUP BY 1) SELECT * FROM s ORDER BY x",
    "SELECT REPLACE(REPLACE(region, 'o', '0'), 'e', '3') AS x FROM regions",
]


@pytest.mark.parametrize("query", ORDINARY)
def test_ordinary_texts_are_answered(session: Session, query: str):
    assert session.sql(query).rows


SAMPLES = {
    "t": ["", "a", "aaaa", "\u00e9\u00df\u0130", "\\0\\0", "a.b-c", ".*",
          "\U0001f469\u200d\U0001f680"],
    "i": [-3, 0, 2, 5000],
    "a": ["", "a", "zzzz"],
    "b": [True, False],
    "m": ["2024-12-31"],
    "l": ["%A %B %c %f", "%Y"],
    "n": [1],
}  # fmt: skip


def written(letter: str, value: object) -> tuple[str, int]:
    """Write a sample for the engine, with its length."""
    if letter == "m":
        return f"TIMESTAMP '{value}'", LONGEST_NUMBER
    if isinstance(value, str):
        return quoted(value), len(value)
    return str(value), LONGEST_NUMBER


TEXTS = [
    one
    for one in dict.fromkeys(BY_NAME.values())
    if one.gives in {Kind.TEXT, "alike"} and "n" not in one.takes
]


@pytest.mark.parametrize("function", TEXTS, ids=lambda one: one.name)
def test_no_function_makes_a_longer_text_than_it_states(function: Function):
    connection = duckdb.connect()
    least = len(function.takes) - function.optional
    for count in range(least, len(function.takes) + 1 + 2 * function.variadic):
        letters = function.letters(count)
        assert letters is not None
        for values in itertools.product(*(SAMPLES[letter] for letter in letters)):
            parts = [written(*pair) for pair in zip(letters, values, strict=True)]
            sql = function.template(count).format(*(part for part, _ in parts))
            (found,) = connection.execute(f"SELECT CAST(TRY({sql}) AS TEXT)").fetchone() or [
                None
            ]
            lengths = [length for _, length in parts]
            most = (function.longest or max)(lengths)
            assert found is None or len(found) <= most, (sql, found)


def test_results_have_the_functions_of_rows():
    called = {
        name for row in rowfunctions.ALL if row.written for name in (row.name, *row.aliases)
    }
    assert called <= {*BY_NAME, *SPECIAL}
    assert BY_NAME["UPPER"].template(1) == rowfunctions.named("UPPER").sql(None, "{0}")


@pytest.mark.parametrize(
    ("call", "value"), [("UPPER('a\u00e9')", "A\u00e9"), ("LCASE('A\u00c9')", "a\u00c9")]
)
def test_letters_of_results_fold_as_those_of_rows(session, call, value):
    assert session.sql(f"SELECT {call} AS x").scalar() == value
