"""Lists and fields of structures: what is offered where they are taken for plain columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.errors import PolicyInvalid, QueryRefused

FIELDS = """
budget.epsilon = 9
[tables.visits]
path = "visits.parquet"
privacy_unit_column = "id"
max_rows_contributed = 2
[tables.visits.columns]
id.type = "integer"
tags = { type = "text[]", keys = ["a", "b"] }
begun = { type = "timestamp", bounds = [2024-01-01T00:00:00, 2025-01-01T00:00:00] }
ended = { type = "timestamp", bounds = [2024-01-01T00:00:00, 2025-01-01T00:00:00] }
"address.city" = { type = "text", keys = ["Bonn"] }
"""


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    moments = pa.array([1, 2], pa.timestamp("us"))
    rows = {
        "begun": moments,
        "ended": moments,
        "id": [1, 2],
        "tags": [["a"], []],
        "address": [{"city": "Bonn"}] * 2,
    }
    pq.write_table(pa.table(rows), tmp_path / "visits.parquet")
    policy = tmp_path / "policy.toml"
    policy.write_text(FIELDS)
    return policy


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        ("SELECT city, DP_COUNT(*, eps=0.5) FROM visits GROUP BY city", '"address.city"'),
        (
            "SELECT tags, DP_COUNT(*, eps=0.5) FROM visits GROUP BY tags",
            "SELECT v, DP_COUNT(*, eps=0.5) AS n FROM visits, UNNEST(tags) AS u(v) GROUP BY v",
        ),
        (
            "SELECT DP_COUNT(*, eps=1) FROM visits WHERE 'a' = ANY(tags) AND id > 1",
            "SELECT DP_COUNT(*, eps=1) FROM visits WHERE LIST_CONTAINS(tags, 'a') AND id > 1",
        ),
    ],
)
def test_what_is_offered_of_lists_and_fields_is_answered(
    visits: Path, asked: str, offered: str
):
    with dpquery.connect(visits) as session:
        with pytest.raises(QueryRefused) as refused:
            session.sql(asked)
        assert refused.value.diagnostic.remedy[0] == offered
        whole = offered.startswith("SELECT")
        session.sql(offered if whole else asked.replace("city", offered))
        with pytest.raises(QueryRefused, match=r"columns here: .*tags"):
            session.sql("SELECT DP_COUNT(*, eps=0.5) FROM visits WHERE nothing = 1")


def test_a_note_names_the_values_of_a_list_as_the_query_does(visits: Path):
    with dpquery.connect(visits) as session:
        query = "SELECT a, DP_COUNT(*, eps=0.5) FROM visits, UNNEST(tags) AS u(a) GROUP BY a"
        notes = session.sql(query).notes
    assert any(note.startswith("rows where a is not one of its keys") for note in notes)


def test_a_field_without_quotes_is_told_with_them(visits: Path):
    visits.write_text(FIELDS.replace('"address.city"', "address.city"))
    with pytest.raises(PolicyInvalid) as refused:
        dpquery.connect(visits)
    assert refused.value.diagnostic.remedy[0] == '"address.city" = { type = "text" }'
    said = FIELDS
    visits.write_text(said.replace("max_rows_contributed", "max_rows"))
    with pytest.raises(PolicyInvalid) as refused:
        dpquery.connect(visits)
    assert refused.value.diagnostic.remedy[0] == "max_rows_contributed = 2"
    visits.write_text(said.replace('"integer"', '"uuid"'))
    with pytest.raises(PolicyInvalid) as refused:
        dpquery.connect(visits)
    assert refused.value.diagnostic.remedy[0] == 'type = "text"'


@pytest.mark.parametrize(
    ("written", "offered"),
    [
        ("EPOCH(ended - begun)", "DATE_DIFF('second', begun, ended)"),
        ("ended - begun", "DATE_DIFF('hour', begun, ended)"),
    ],
)
def test_the_time_between_two_moments_is_offered_in_a_unit(
    visits: Path, written: str, offered: str
):
    query = f"SELECT DP_AVG({written}, eps=0.5, bounds=[0, 99]) FROM visits"
    with dpquery.connect(visits) as session:
        with pytest.raises(QueryRefused) as refused:
            session.sql(query)
        found = refused.value.diagnostic
        assert found.remedy[0] == offered
        assert query[found.span.start : found.span.end] == written
        session.sql(query.replace(written, offered))


def test_what_reads_moments_is_not_taken_for_what_writes_them(visits: Path):
    query = (
        "SELECT DP_COUNT(*, eps=1) FROM visits WHERE STRPTIME('1.2.2024', '%d.%m.%Y') > begun"
    )
    with dpquery.connect(visits) as session:
        with pytest.raises(QueryRefused) as refused:
            session.sql(query)
        offered = refused.value.diagnostic.remedy[0]
        assert "STRFTIME" not in offered
        session.sql(offered)
