"""Instants, times, structures and lists through a session: shown, computed with, handed on."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
import dpquery.dbapi as db
from dpquery.display.formats import FORMATS
from dpquery.errors import PolicyInvalid, QueryRefused

BERLIN = ZoneInfo("Europe/Berlin")
AUTUMN = datetime(2024, 10, 27, 1, tzinfo=UTC)  # 02:00 in Berlin, for the second time
POLICY = """
[privacy]
time_zone = "Europe/Berlin"
[budget]
epsilon = 9e9
[tables.t]
path = "t.parquet"
privacy_unit_column = "id"
rows_per_unit = 1
[tables.t.columns]
id = { type = "integer" }
z = { type = "timestamptz", bounds = [2024-10-27T00:00:00Z, 2024-10-27T03:00:00Z] }
tod = { type = "time", bounds = [00:00:00, 23:00:00] }
"home.city" = { type = "text", keys = ["Bonn", "Ulm"] }
tags = { type = "text[]", keys = ["a", "b"] }
[tables.p]
path = "p.parquet"
public = true
unique = ["k"]
"""
HOURS = "SELECT DATE_TRUNC('hour', z) AS h, DP_COUNT(*, eps=1e6) AS n FROM t GROUP BY h"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    moments = pa.array([AUTUMN, AUTUMN.replace(hour=0), AUTUMN.replace(hour=2)])
    moments = moments.cast(pa.timestamp("ns", "UTC"))
    clocks = pa.array([time(0), time(12), time(23, 59)], pa.time64("us"))
    homes = pa.array([{"city": "Bonn"}, None, {"city": "Ulm"}])
    tags = pa.array([["a", "b"], None, ["a"]])
    rows = {"id": [1, 2, 3], "z": moments, "tod": clocks, "home": homes, "tags": tags}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    public = {"k": [1, 2], "z": moments[:2].cast(pa.timestamp("us", "UTC")), "tod": clocks[:2]}
    pq.write_table(pa.table(public), tmp_path / "p.parquet")
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    return tmp_path / "policy.toml"


def test_an_hour_that_the_clock_shows_twice_is_two_groups(place: Path):
    with dpquery.connect(place) as session:
        answer = session.sql(HOURS)
    shown = [(one.strftime("%H:%M %z"), n) for one, n in answer.rows if one is not None]
    hours = ["02:00 +0200", "02:00 +0100", "03:00 +0100", "04:00 +0100"]
    assert shown == list(zip(hours, [1, 1, 1, 0], strict=True))


@pytest.mark.parametrize("name", ["csv", "json", "table"])
def test_every_format_shows_the_offset(place: Path, name: str):
    with dpquery.connect(place) as session:
        answer = session.sql(HOURS.replace("AS n", "AS n, DP_MEDIAN(tod, eps=1e6) AS m"))
    stream = BytesIO()
    FORMATS[name](answer, stream)
    written = stream.getvalue().decode()
    assert "2024-10-27T02:00:00+02:00" in written.replace(" 02", "T02")
    assert "12:00:00" in written
    if name == "json":
        assert len(json.loads(written)) == len(answer.rows)


def test_tables_that_are_handed_on_keep_the_zone(place: Path):
    with dpquery.connect(place) as session:
        answer = session.sql(HOURS)
    assert answer.to_arrow().schema.field("h").type == pa.timestamp("us", "Europe/Berlin")
    assert str(answer.to_pandas().dtypes["h"]) == "datetime64[us, Europe/Berlin]"
    assert answer.to_polars().schema["h"].time_zone == "Europe/Berlin"


ASKED = {
    "SELECT z AT TIME ZONE 'UTC' AS x FROM p WHERE k = 1": AUTUMN.replace(tzinfo=None),
    "SELECT DATE_TRUNC('day', z) AS x FROM p WHERE k = 1": datetime(2024, 10, 27),  # noqa: DTZ001
    "SELECT HOUR(z) AS x FROM p WHERE k = 1": 2,
    "SELECT MAX(z) AS x FROM p WHERE z < '2024-10-28'": AUTUMN.astimezone(BERLIN),
    "SELECT COUNT(*) AS x FROM p WHERE tod > '11:00' AND HOUR(tod) = 12": 1,
    "SELECT DP_COUNT(*, eps=1e6) AS x FROM t JOIN p ON t.id = p.k WHERE t.z = p.z": 2,
    "SELECT DP_COUNT(*, eps=1e6) AS x FROM t WHERE z >= (SELECT MAX(z) FROM p)": 2,
    "SELECT DP_COUNT(*, eps=1e6) AS x FROM t WHERE z IN (SELECT z FROM p)": 2,
    "SELECT DP_COUNT(*, eps=1e6) AS x FROM t WHERE tod >= TIME '12:00:00'": 2,
    "SELECT DP_COUNT(*, eps=1e6) AS x FROM t WHERE home.city = 'Bonn'": 1,
    "SELECT DP_COUNT(*, eps=1e6) AS x FROM t WHERE LIST_CONTAINS(tags, 'a')": 2,
    "SELECT DP_COUNT(*, eps=1e6, max_rows_contributed=9) AS x FROM t, UNNEST(tags) u(v)": 3,
}


@pytest.mark.parametrize(
    ("query", "wanted"), [one for one in ASKED.items() if one[1] is not None]
)
def test_instants_times_and_nested_columns_are_asked_about(place: Path, query: str, wanted):
    with dpquery.connect(place) as session:
        assert session.sql(query).scalar() == wanted


def test_parameters_can_be_instants_and_times(place: Path):
    with db.connect(place) as connection:
        cursor = connection.cursor()
        asked = "SELECT DP_COUNT(*, eps=1e6) FROM t WHERE z >= ? AND tod >= ?"
        cursor.execute(asked, (AUTUMN.astimezone(BERLIN), time(1)))
        assert cursor.fetchall() == [(1,)]
        cursor.execute("SELECT z, tod FROM p")
        assert [one[1] == db.DATETIME for one in cursor.description] == [True, True]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT DP_COUNT(*, eps=1) FROM t WHERE z > 5", "DPQ208"),
        ("SELECT DP_COUNT(*, eps=1) FROM t WHERE z > 'noon'", "DPQ210"),
        (
            "SELECT DP_COUNT(*, eps=1) FROM t WHERE z AT TIME ZONE 'Mars' > '2024-01-01'",
            "DPQ205",
        ),
        ("SELECT z AT TIME ZONE 'Mars' FROM p", "DPQ205"),
        ("SELECT DP_COUNT(*, eps=1) FROM t WHERE home.town = 'Ulm'", "DPQ204"),
        ("SELECT DP_COUNT(*, eps=1) FROM t WHERE tags = 'a'", "DPQ208"),
        ("SELECT tags, DP_COUNT(*, eps=1) FROM t GROUP BY tags", "DPQ208"),
        ("SELECT DP_COUNT(*, eps=1) FROM t WHERE tod > '25:00'", "DPQ210"),
        ("SELECT DP_COUNT(*, eps=1) FROM t WHERE YEAR(tod) = 1", "DPQ208"),
    ],
)
def test_what_has_no_meaning_is_refused(place: Path, query: str, code: str):
    with dpquery.connect(place) as session, pytest.raises(QueryRefused) as refused:
        session.sql(query)
    assert refused.value.code == code


@pytest.mark.parametrize("zone", ["Mars/Base", "+01:00", "europe/berlin", ""])
def test_a_zone_has_one_of_the_known_names(place: Path, zone: str):
    place.write_text(POLICY.replace("Europe/Berlin", zone), encoding="utf-8")
    with pytest.raises(PolicyInvalid) as refused:
        dpquery.connect(place)
    assert refused.value.code == "DPQ604"
