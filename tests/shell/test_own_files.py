"""Several files of one's own on the command line: by name, each with its unit and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery.shell.arguments import asked, connect_settings
from dpquery.shell.main import main

TABLES = ["people=people.parquet", "visits=visits.csv"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    people = {"id": [1, 2, 3], "age": [30, 40, 50], "dept": ["eng", "ops", "x,y"]}
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    (tmp_path / "visits.csv").write_text("person,minutes,dept\n1,10,eng\n1,20,\n3,99,ops\n")
    (tmp_path / "regions.csv").write_text("dept,floor\neng,1\nops,2\n")
    (tmp_path / "year=2024").mkdir()
    pq.write_table(pa.table({"id": [7]}), tmp_path / "year=2024" / "a.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "source", "settings"),
    [
        (["people.parquet"], "people.parquet", {}),
        (["staff=people.parquet"], {"staff": "people.parquet"}, {}),
        (["year=2024/a.parquet"], "year=2024/a.parquet", {}),
        (["p=a.parquet", "p=b.parquet"], {"p": ["a.parquet", "b.parquet"]}, {}),
        (
            [*TABLES, "--unit", "id"],
            {"people": "people.parquet", "visits": "visits.csv"},
            {"unit": "id"},
        ),
        (
            [TABLES[0], "--unit", "id", TABLES[1], "--unit", "visits=person"],
            {"people": "people.parquet", "visits": "visits.csv"},
            {"unit": {"people": "id", "visits": "person"}},
        ),
        (
            [*TABLES, "--rows-per-unit", "people=1", "--rows", "visits=auto"],
            {"people": "people.parquet", "visits": "visits.csv"},
            {"rows_per_unit": {"people": 1}, "max_rows_contributed": {"visits": "auto"}},
        ),
        (
            ["people.parquet", "--keys", 'dept=eng,"x,y"', "--public", "r=regions.csv"],
            "people.parquet",
            {"keys": {"dept": ["eng", "x,y"]}, "public": {"r": "regions.csv"}},
        ),
    ],
)
def test_what_is_said_of_tables_reaches_connect(
    argv: list[str], source: object, settings: dict[str, Any]
):
    options = asked(argv)
    assert options.source == source
    assert connect_settings(options) == settings


OWN = [*TABLES, "--unit", "id", "--unit", "visits=person", "--epsilon", "1e8"]
LIMITS = ["--rows-per-unit", "people=1", "--rows", "visits=2"]


def answered(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main([*argv, "--format", "csv"]) == 0
    return capsys.readouterr().out


def test_tables_keys_and_bounds_of_the_command_line_are_asked(
    capsys: pytest.CaptureFixture[str],
):
    more = ["--bounds", "visits.minutes=0:60", "--keys", 'people.dept=eng,"x,y"']
    query = "SELECT dept, DP_COUNT(*, eps=1e6) AS n FROM people GROUP BY dept"
    out = answered(capsys, *OWN, *LIMITS, *more, "-c", query)
    assert out.splitlines() == ["dept,n", "eng,1", '"x,y",1', ",0"]
    query = "SELECT DP_SUM(minutes, eps=1e7) AS m FROM visits"
    assert answered(capsys, *OWN, *LIMITS, *more, "-c", query).splitlines() == ["m", "90"]


def test_a_public_file_is_a_table_beside_them(capsys: pytest.CaptureFixture[str]):
    argv = ["people.parquet", "--unit", "id", "--rows-per-unit", "1", "--epsilon", "1e8"]
    argv += ["--public", "regions.csv"]
    query = (
        "SELECT r.floor, DP_COUNT(*, eps=1e6) AS n FROM people p "
        "JOIN regions r ON p.dept = r.dept GROUP BY r.floor"
    )
    assert answered(capsys, *argv, "-c", query).splitlines() == ["floor,n", "1,1", "2,1"]
    assert "2" in answered(capsys, *argv, "-c", "SELECT count(*) FROM regions")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([*OWN, "--rows", "vists=2"], "--rows visits=..."),
        ([*OWN, "--unit", "nobody=id"], "--unit people=..."),
        ([*OWN, "--keys", "dpt=eng"], "--keys dept=eng,ops"),
        ([*OWN, "--keys", "age=a,b"], "--keys age="),
        ([*OWN, "--keys", "dept"], "is not COL=A,B,C"),
        ([*OWN, "--rows-per-unit", "people=2"], "--rows K"),
        ([*OWN, "--public", "people.parquet"], "differs from another in case only"),
        ([*OWN, "--public", "p=people.parquet"], "is also a private table's data"),
        ([*OWN, "--public", "none.csv"], "names no file"),
        (["people=people.parquet", "visits.csv"], "two tables have names"),
        ([TABLES[0], "--epsilon", "1", "--rows", "people=2"], "has nothing to limit in people"),
    ],
)
def test_what_does_not_fit_is_said_in_options(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert main([*argv, "-c", "SELECT 1"]) == 2
    err = capsys.readouterr().err
    assert said in err, err
    assert "={" not in err
