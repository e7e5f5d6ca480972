"""How many rows of one unit count: stated, found, or refused, and never cut in silence."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.answer import Answer
from dpquery.core.privacy_loss import Loss
from dpquery.core.source_text import Source
from dpquery.display.formats import FORMATS
from dpquery.errors import DPQueryError, PolicyInvalid, QueryRefused
from dpquery.ir.relations import Filter, TableScan
from dpquery.policy.load import load_policy
from dpquery.session import Session
from dpquery.shell.main import main

UNITS, EACH = 300, 6
AUTO = "max_rows_contributed='auto'"
POLICY = """\
[budget]
epsilon = 1000000
delta = 1e-6
[tables.t]
path = "t.parquet"
privacy_unit_column = "u"
{limit}
[tables.t.columns]
u = {{ type = "integer" }}
g = {{ type = "text", keys = ["a", "b"] }}
v = {{ type = "integer", bounds = [0, 9] }}
w = {{ type = "integer" }}
[tables.s]
path = "s.parquet"
privacy_unit_column = "u"
max_rows_contributed = 4
[tables.s.columns]
u = {{ type = "integer" }}
v = {{ type = "integer", bounds = [0, 9] }}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rows = [(u, "ab"[n % 2], n, 100 + n) for u in range(UNITS) for n in range(EACH)]
    table = pa.table(dict(zip("ugvw", map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(table, tmp_path / "t.parquet")
    pq.write_table(table.select(["u", "v"]), tmp_path / "s.parquet")
    return tmp_path


def policy(place: Path, limit: str = "") -> Path:
    (place / "policy.toml").write_text(POLICY.format(limit=limit), "utf-8")
    return place / "policy.toml"


@pytest.fixture
def session(place: Path) -> Iterator[Session]:
    with dpquery.connect(policy(place)) as opened:
        yield opened


def refused(session: Session, query: str) -> QueryRefused:
    with pytest.raises(QueryRefused) as told:
        session.sql(query)
    return told.value


DEPENDING = [
    "DP_COUNT(*, eps=9) FROM t",
    "DP_COUNT(v, eps=9) FROM t WHERE v > 2",
    "DP_SUM(v, eps=9), DP_COUNT(*, eps=9) AS n FROM t",
    "DP_AVG(v, eps=9) FILTER (WHERE v > 1) FROM t",
    "DP_SUM(w, eps=9, bounds='auto') FROM t",
    "DP_MEDIAN(v, eps=9) FROM t",
    "DP_MAX(v, eps=9) FROM t",
    "DP_TOP_K(g, 1, eps=9) FROM t",
    "DP_PROPORTION(v > 3, eps=9) FROM t",
    "DP_MAJORITY(v > 3, eps=9) FROM t",
    "g, DP_COUNT(DISTINCT u, eps=9) FROM t GROUP BY g",
    "g, DP_SUM(v, eps=9, contribution_bounds_per_group=[0, 9]) FROM t GROUP BY g",
    "DP_COUNT(DISTINCT w, eps=9) FROM t",
    "g, DP_COUNT(*, eps=9) FROM t GROUP BY ROLLUP (g)",
    "DP_COUNT(*, eps=9) FROM t JOIN s USING (u)",
    "DP_COUNT(*, eps=9) FROM (SELECT u, v FROM s UNION ALL SELECT u, v FROM t)",
    "DP_COUNT(*, eps=9) FROM (SELECT u, g, COUNT(*) AS n FROM t GROUP BY u, g)",
    "DP_COUNT(*, eps=9, weights='table') FROM t",
    "DP_COUNT(*, eps=9) FROM t WHERE v > (SELECT DP_MEDIAN(v, eps=9) FROM s)",
    "DP_COUNT(*, eps=9) AS n FROM t GROUP BY DP_KEYS(g, eps=9, delta=1e-8)",
]
NOT_FOUND = (
    "DISTINCT",
    "contribution_bounds",
    "weights=",
    "MEDIAN(v, eps=9) FROM s",
)
APART = [
    "DP_COUNT(DISTINCT u, eps=9) FROM t",
    "DP_COUNT(*, eps=9) FROM s",
    "DP_AVG(n, eps=9, bounds=[0, 9]) FROM (SELECT u, COUNT(*) AS n FROM t GROUP BY u)",
    "DP_COUNT(*, eps=9, max_rows_contributed=3) FROM t",
    "g, DP_COUNT(DISTINCT u, eps=9, max_groups_contributed=2) FROM t GROUP BY g",
]


@pytest.mark.parametrize("query", DEPENDING)
def test_what_depends_on_an_unstated_limit_is_refused_with_a_query_that_works(session, query):
    told = refused(session, f"SELECT {query}")
    assert told.code == "DPQ407"
    assert session.budget.spent.epsilon == 0
    session.sql(told.diagnostic.remedy[0])


@pytest.mark.parametrize("query", APART)
def test_what_does_not_depend_on_it_is_answered(session, query):
    session.sql(f"SELECT {query}")


@pytest.mark.parametrize("query", DEPENDING)
def test_a_policy_may_state_it_or_leave_it_to_a_release(place, query):
    with dpquery.connect(policy(place, "max_rows_contributed = 2")) as stated:
        stated.sql(f"SELECT {query}")
    with dpquery.connect(policy(place, 'max_rows_contributed = "auto"')) as left:
        if any(part in query for part in NOT_FOUND):
            query = refused(left, f"SELECT {query}").diagnostic.remedy[0]
        left.sql(query if query.startswith("SELECT") else f"SELECT {query}")


@pytest.mark.parametrize("limit", ["0", "1.5", '"all"', "true", str(2**20 + 1)])
def test_a_policy_states_a_number_or_auto(place, limit):
    with pytest.raises(PolicyInvalid) as told:
        load_policy(policy(place, f"max_rows_contributed = {limit}"))
    assert told.value.code == "DPQ604"


def found(answer: Answer) -> int:
    """Return the limit that a note tells."""
    return int(
        re.match(r"each u counts for at most ([\d,]+) row", answer.notes[0])[1].replace(",", "")
    )


def test_a_limit_is_found_once_kept_and_told(session):
    """Chance takes a limit below 6 with a probability of exp(-1000) or so: 300 units have 6."""
    query = f"SELECT DP_COUNT(*, eps=50, {AUTO}) AS n, DP_SUM(v, eps=50, {AUTO}) AS s FROM t"
    answer = session.sql(query)
    assert answer.loss.epsilon == 100
    limit, (low, high) = found(answer), answer.interval("n", "0.999999")[0]
    assert limit >= EACH
    assert low <= UNITS * EACH <= high
    assert answer.notes[0] == (
        f"each u counts for at most {limit:,} rows (found for ε = 10; later calls do not pay "
        "for it); a u with more is under-counted; ± is the noise only (95 %)"
    )
    again = session.sql(f"SELECT DP_COUNT(v, eps=60, {AUTO}) AS n FROM t")
    assert found(again) == limit
    assert "rows (found before); " in again.notes[0]
    for other in ("eps=500", "eps=9"):  # another power of ten
        assert waiting(session, f"SELECT DP_COUNT(*, {other}, {AUTO}) FROM t")


def waiting(session, query):
    """What is still to be found for a query, beside what was found for others."""
    return session._cache.bounded(session._plan(Source(query))).searches


def test_a_limit_is_of_the_rows_that_are_asked_about(session):
    query = f"SELECT DP_COUNT(*, eps=50, {AUTO}) FILTER (WHERE v > 0) AS n FROM t"
    (every,) = session._plan(Source(query)).searches
    (few,) = session._plan(Source(f"{query} WHERE v < 2")).searches
    assert every.key != few.key
    assert isinstance(every.scan.relation.source, TableScan)
    assert isinstance(few.scan.relation.source, Filter)
    session.sql(query)
    assert not waiting(session, query)
    assert waiting(session, f"{query} WHERE v < 2")


def test_bounds_and_a_limit_cost_a_fifth_each(session):
    query = f"SELECT DP_SUM(w, eps=50, bounds='auto', {AUTO}) AS s FROM t"
    assert [step.epsilon for step in session.explain(query).steps] == [30, 10, 10]
    answer = session.sql(query)
    assert answer.loss.epsilon == 50
    assert found(answer) >= EACH
    assert answer.notes[1].endswith(
        ": bounds found from noisy counts for ε = 10; later calls do not pay for it"
    )
    assert session.sql(query).loss.epsilon == 0
    assert session.sql(query).rows == answer.rows


def test_a_guarantee_names_what_was_found_before_only_where_it_is_used(session):
    units = session.sql(f"SELECT DP_COUNT(DISTINCT u, eps=9, {AUTO}) FROM t")
    assert "found before" not in str(units.guarantee)
    session.sql(f"SELECT DP_COUNT(*, eps=9, {AUTO}) FROM t")
    rows = session.sql(f"SELECT DP_COUNT(v, eps=9, {AUTO}) FROM t")
    assert "found before" in str(rows.guarantee)


def test_explain_says_what_it_can_of_a_limit_that_is_found_first(session):
    told = str(session.explain(f"SELECT DP_COUNT(*, eps=5, {AUTO}) FROM t"))
    assert "how many rows of one u count" in told
    assert "error      ± 1, times k (95 %)" in told
    assert "1048576 rows" not in told


def test_where_nothing_is_cut_the_interval_is_of_the_exact_value(session):
    text = str(session.sql("SELECT DP_COUNT(DISTINCT u, eps=9) AS n, 1 AS one FROM t"))
    assert "95% within" in text
    assert "noise" not in text


@pytest.mark.parametrize(
    ("query", "note"),
    [
        (
            "DP_COUNT(*, eps=9) FROM s",
            "each u counts for at most 4 rows; a u with more is under-",
        ),
        (
            "DP_SUM(v, eps=9, max_rows_contributed=6) FROM s WHERE v > 3",
            "v above 9 counts as 9",
        ),
        (
            "DP_AVG(w, eps=9, bounds=[90, 103], max_rows_contributed=6) FROM t",
            "w below 90 counts",
        ),
        (
            "DP_AVG(n, eps=9, bounds=[0, 3]) FROM (SELECT u, COUNT(*) AS n FROM t GROUP BY u)",
            "n above 3 counts as 3; ± is the noise only (95 %)",
        ),
        (
            "g, DP_COUNT(DISTINCT u, eps=9, max_groups_contributed=1) FROM t GROUP BY g",
            "each u counts in at most 1 group; a u in more is under-counted in each; ±",
        ),
        (
            "DP_COUNT(DISTINCT w, eps=9, max_rows_contributed=2) FROM t",
            "each u stands for at most 2 different values; a value may be missed if "
            "everybody who has it has more than 2; ±",
        ),
        (
            "DP_SUM(v, eps=9, contribution_bounds_per_group=[0, 5]) FROM s",
            "a total of one u below 0 counts as 0, above 5 as 5",
        ),
    ],
)
def test_what_may_be_cut_is_said_and_the_header_claims_no_more(session, query, note):
    answer = session.sql(f"SELECT {query}")
    assert any(one.startswith(note) for one in answer.notes)
    assert answer.notes[0].endswith("± is the noise only (95 %)")
    assert "noise ±" in str(answer)
    assert "95% within" not in str(answer)


@pytest.mark.parametrize(
    "query",
    [
        "DP_MEDIAN(v, eps=9) FROM s",
        "DP_QUANTILE(v, [0.1, 0.9], eps=9) FROM s",
        "DP_MODE(g, eps=9) FROM t",
        "DP_MAJORITY(v > 2, eps=9) FROM s",
        "DP_KEYS(g, eps=9, delta=1e-8) FROM t",
    ],
)
def test_the_noise_of_what_is_shown_without_an_interval_is_not_spoken_of(place, query):
    with dpquery.connect(policy(place, "max_rows_contributed = 2")) as session:
        answer = session.sql(f"SELECT {query}")
    assert "±" not in str(answer)
    assert answer.notes
    assert not any("±" in note for note in answer.notes)


def test_a_limit_of_finding_groups_comes_after_the_limit_of_what_is_counted(place):
    query = "g, DP_COUNT(*, eps=9) FROM t GROUP BY DP_KEYS(g, eps=9, delta=1e-8)"
    with dpquery.connect(policy(place, "max_rows_contributed = 2")) as session:
        notes = session.sql(f"SELECT {query}").notes
    assert notes[0].startswith("each u counts for at most 2 rows; ")
    assert notes[0].endswith("; ± is the noise only (95 %)")
    assert notes[1] == (
        "groups were searched with at most 1 group per u (max_groups_contributed=1)"
    )


@pytest.mark.parametrize("rows", [3, "3", "auto"])
def test_a_limit_of_ones_own_files(place, rows):
    settings = {"unit": "u", "max_rows_contributed": rows, "epsilon": 99}
    with dpquery.connect(place / "t.parquet", **settings) as own:
        notes = own.sql("SELECT DP_COUNT(*, eps=9) FROM t").notes
        assert "each u counts for at most" in notes[1]
        told = str(own.explain("SELECT DP_SUM(v, eps=7, bounds=[0, 5]) FROM t"))
        assert "the policy" not in told
        assert "(from the options)" in told or rows == "auto"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({}, "DPQ608"),
        ({"unit": "u", "rows_per_unit": 1}, "DPQ608"),
        ({"unit": "u", "max_rows_contributed": "many"}, "DPQ604"),
        ({"unit": "u", "max_rows_contributed": 0}, "DPQ604"),
    ],
)
def test_a_limit_that_limits_nothing_is_refused(place, settings, code):
    with pytest.raises(PolicyInvalid) as told:
        dpquery.connect(
            place / "t.parquet", **{"max_rows_contributed": 3, "epsilon": 9, **settings}
        )
    assert told.value.code == code


def test_the_command_line_states_it_too(place, capsys):
    query = "SELECT DP_COUNT(*, eps=9) FROM t"
    asked = [str(place / "t.parquet"), "--unit", "u", "--epsilon", "9", "-c", query]
    assert main(asked) == 1
    assert "--rows auto, or --rows 100" in capsys.readouterr().err
    assert main([*asked, "--rows", "auto", "--intervals", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("dp_count,dp_count_low,dp_count_high")
    assert main([*asked, "--rows", "many"]) == 2


def test_a_stream_needs_a_limit_that_is_stated(session, place):
    for opened in (session, dpquery.connect(policy(place, 'max_rows_contributed = "auto"'))):
        with pytest.raises(DPQueryError) as told:
            opened.above_threshold(10, eps=1).ask("t")
        assert told.value.code == "DPQ407"
        assert "above_threshold(100, eps=0.5, max_rows_contributed=5)" in str(told.value)
        assert opened.above_threshold(10, eps=1, max_rows_contributed=5).ask("t") in {
            True,
            False,
        }
        opened.close()
    with pytest.raises(ValueError, match="whole number"):
        dpquery.connect(policy(place)).above_threshold(10, 1, max_rows_contributed=0)


@pytest.mark.parametrize("form", FORMATS)
def test_exports_carry_intervals_and_notes(session, form):
    query = "SELECT DP_COUNT(*, eps=9) AS n, DP_COUNT(*, eps=9) AS n_low, 'x' AS x FROM s"
    answer = session.sql(query)
    wide = answer.with_intervals()
    assert wide.columns == ("n", "n_low_", "n_high", "n_low", "n_low_low", "n_low_high", "x")
    (low, high) = answer.interval("n")[0]
    assert wide.rows[0][1:3] == (low, high)
    stream = io.BytesIO()
    stream.isatty = lambda: False
    FORMATS[form](wide, stream)
    assert b"n_low_high" in stream.getvalue()


def test_programs_find_notes_loss_and_confidence(session):
    answer = session.sql("SELECT DP_COUNT(*, eps=9) AS n FROM s")
    about = {
        "notes": list(answer.notes),
        "loss": {"epsilon": "9", "delta": "0"},
        "confidence": "0.95",
        "noise_only": ["n"],
        "simulated": [],
    }
    assert json.loads(answer.to_arrow().schema.metadata[b"dpquery"]) == about
    assert answer.to_pandas(intervals=True).attrs["dpquery"] == about
    assert answer.to_polars(intervals=True).columns == ["n", "n_low", "n_high"]
    for form, read in (("arrow", pa.ipc.open_file), ("parquet", pq.ParquetFile)):
        stream = io.BytesIO()
        FORMATS[form](answer, stream)
        opened = read(io.BytesIO(stream.getvalue()))
        schema = opened.schema if form == "arrow" else opened.schema_arrow
        assert json.loads(schema.metadata[b"dpquery"]) == about


def test_an_answer_without_noise_has_no_intervals_to_carry():
    answer = Answer(pa.table({"n": [1]}), Loss(Fraction(0)))
    assert answer.with_intervals().columns == ("n",)
    assert answer.to_dicts(intervals=True) == [{"n": 1}]
