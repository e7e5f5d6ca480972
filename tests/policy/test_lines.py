"""CSV and JSON as private tables: by a policy, and as one's own files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import dpquery
from dpquery.core.types import DATE, DOUBLE, INTEGER, TEXT
from dpquery.errors import PolicyInvalid, QueryRefused
from dpquery.policy.adhoc import adhoc_policy
from dpquery.policy.load import load_policy
from dpquery.policy.model import Csv, Files, Json, Parquet
from dpquery.shell.main import main

POLICY = """\
[budget]
epsilon = 1e8
[tables.people]
{source}
privacy_unit_column = "id"
max_rows_contributed = 2
[tables.people.columns]
id = {{ type = "integer" }}
age = {{ type = "integer", bounds = [0, 99] }}
name = {{ type = "text", keys = ["ann", "bob"] }}
"""
ASKED = "SELECT name, DP_COUNT(*, eps=1e6), DP_SUM(age, eps=1e6) FROM people GROUP BY name"
WORLD = [(1, 30, "ann"), (2, 40, "bob"), (2, 50, "bob"), (3, 900, None)]
MEANT = [("ann", 1, 30), ("bob", 2, 90), (None, 1, 99)]


def written(place: Path, source: str) -> Path:
    policy = place / "policy.toml"
    policy.write_text(POLICY.format(source=source), "utf-8")
    return policy


def csv_of(rows: list[tuple[Any, ...]], sign: str = ",", head: str = "id,age,name") -> str:
    texts = ([("" if v is None else str(v)) for v in row] for row in rows)
    return "\n".join([head.replace(",", sign), *map(sign.join, texts)]) + "\n"


def json_of(rows: list[tuple[Any, ...]]) -> str:
    return "".join(
        json.dumps(dict(zip(("id", "age", "name"), r, strict=True))) + "\n" for r in rows
    )


def rounded(session: dpquery.Session) -> list[tuple[Any, ...]]:
    rows = session.sql(ASKED).rows
    return [(name, *(round(float(value)) for value in values)) for name, *values in rows]


SOURCES: dict[str, tuple[str, dict[str, str]]] = {
    "csv": ('path = "a.csv"', {"a.csv": csv_of(WORLD)}),
    "tsv": ('path = "a.tsv"', {"a.tsv": csv_of(WORLD, "\t")}),
    "semicolons": (
        'path = "a.txt"\nformat = "csv"\ndelimiter = ";"',
        {"a.txt": csv_of(WORLD, ";")},
    ),
    "json": ('path = "a.jsonl"', {"a.jsonl": json_of(WORLD)}),
    "compressed": ('path = "*.csv.gz"', {"a.csv.gz": csv_of(WORLD)}),
    "compressed json": ('path = "a.ndjson.gz"', {"a.ndjson.gz": json_of(WORLD)}),
    "a folder": (
        'path = "rows/"\nformat = "csv"',
        {
            "rows/a.csv": csv_of(WORLD[:2]),
            "rows/b/c.csv": csv_of(WORLD[2:]),
            "rows/_x.csv": "z",
        },
    ),
    "fields that came later": (
        'path = "rows/*.csv"',
        {
            "rows/a.csv": csv_of([(9, 1), (9, 2)], head="id,age").replace("9,", ","),
            "rows/b.csv": csv_of([(*row, "more") for row in WORLD], head="id,age,name,what"),
        },
    ),
    "no names of fields": (
        'path = "a.csv"\nfields = ["id", "age", "name"]',
        {"a.csv": csv_of(WORLD).partition("\n")[2]},
    ),
    "broken lines": (
        'path = "a.csv"',
        {"a.csv": csv_of(WORLD) + '"x\n,,,,\n\0\nx,"ann,bob\n' + "," * 9999 + "\n\n  \n"},
    ),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_lines_are_rows_of_the_declared_types(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
):
    source, files = SOURCES[kind]
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    policy = written(tmp_path, source)
    with dpquery.connect(policy) as session:
        assert rounded(session) == MEANT
        assert rounded(session) == MEANT
    assert main(["policy", "check", str(policy)]) == 0
    told = capsys.readouterr().out
    assert "fault" not in told
    assert "people.age: 1 of" in told  # above the bounds


def test_the_names_of_files_say_the_format(tmp_path: Path):
    for name, format_ in [
        ("a.CSV", Csv()),
        ("a.tsv.gz", Csv("\t")),
        ("a.json", Json()),
        ("a.ndjson.gz", Json()),
        ("a.parquet", Parquet()),
        ("part-0", Parquet()),
    ]:
        (tmp_path / name).touch()
        table = load_policy(written(tmp_path, f'path = "{name}"')).tables["people"]
        assert isinstance(table.source, Files)
        assert table.source.format == format_


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a.csv": "id,age\n1,2\n"}, "people.name: a.csv has no such column"),
        ({"a.csv": "id,Age,name\n"}, 'no such column, but "Age"'),
        ({"a.csv": "id,age,name,age\n"}, "others of that name but for case"),
        ({"a.csv": "id,age,name\n", "b.csv": "id,name,age\n"}, "in another order"),
        ({"a.csv": "\xff\n"}, "none of the columns"),
        ({"a.csv": ""}, "does not name its fields"),
    ],
)
def test_fields_that_do_not_fit_are_told_before_any_charge(
    tmp_path: Path, files: dict[str, str], told: str, capsys: pytest.CaptureFixture[str]
):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    policy = written(tmp_path, 'path = "*.csv"')
    with pytest.raises(PolicyInvalid, match="DPQ612"):
        dpquery.connect(policy)
    assert main(["policy", "check", str(policy)]) == 2
    assert told in capsys.readouterr().out


def test_ones_own_fields_are_texts_but_where_bounds_say_more(tmp_path: Path):
    path = tmp_path / "people.csv"
    path.write_text("id,age,pay,day,name\n1,30,1.5,2024-01-01,ann\n2,x,,2025-01-01,bob\n")
    bounds = {"age": ("0", "99"), "pay": (0, "9.5"), "day": ("2000-01-01", "2030-01-01")}
    policy, notes = adhoc_policy(str(path), epsilon=1, unit="id", bounds=bounds)
    types = {name: column.type for name, column in policy.tables["people"].columns.items()}
    assert types == {"id": TEXT, "age": INTEGER, "pay": DOUBLE, "day": DATE, "name": TEXT}
    assert any("its columns are texts, but where bounds" in note for note in notes)
    own: dict[str, Any] = {"unit": "id", "rows_per_unit": 1, "epsilon": 1e8}
    with dpquery.connect(path, bounds=bounds, **own) as session:
        asked = "SELECT DP_SUM(age, eps=1e6), DP_SUM(pay, eps=1e6), DP_COUNT(*, eps=1e6) "
        asked += "FROM people"
        assert [round(float(value), 1) for value in session.sql(asked).rows[0]] == [30, 1.5, 2]
    with pytest.raises(PolicyInvalid, match="bounds"):
        dpquery.connect(path, bounds={"name": ("a", "b")}, **own)
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(PolicyInvalid, match="of which nothing says which columns"):
        dpquery.connect(tmp_path / "a.json", **own)


def test_folders_are_texts_but_where_bounds_say_more(tmp_path: Path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for year in (2023, 2024, "x"):
        (tmp_path / f"events/year={year}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), tmp_path / f"events/year={year}/1.parquet")
    own: dict[str, Any] = {"unit": "id", "max_rows_contributed": 9, "epsilon": 1e8}
    asked = "SELECT year, DP_COUNT(*, eps=1e6) FROM events GROUP BY year"
    with dpquery.connect(tmp_path / "events", bounds={"year": (2023, 2024)}, **own) as session:
        found = session.sql(asked).rows
    assert [(year, round(n)) for year, n in found] == [(2023, 2), (2024, 2), (None, 2)]
    with dpquery.connect(tmp_path / "events", **own) as session:
        asked = "SELECT DP_COUNT(*, eps=1e6) FROM events WHERE year = '2024'"
        assert round(session.sql(asked).scalar()) == 2


HOSTILE = ["", '"', ',"', "\0", "\xff,1,ann", "9" * 400, "3,-1e999,ann", '3,"5', "x" * 300_000]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_line_more_changes_no_refusal_and_its_own_unit_alone(tmp_path: Path, kind: str):
    """Neighbours: whatever one line holds, refusals are the same and others' rows too."""
    told, counts = set(), set()
    write = csv_of if kind == "csv" else json_of
    for number, line in enumerate(["", *HOSTILE]):
        place = tmp_path / str(number)
        place.mkdir()
        lines = write(WORLD).split("\n")
        lines.insert(2, line)
        (place / f"a.{kind}").write_bytes("\n".join(lines).encode("latin-1"))
        with dpquery.connect(written(place, f'path = "a.{kind}"')) as session:
            counts.add(tuple(rounded(session)[1]))
            for text in ("SELECT age FROM people", "SELECT DP_SUM(name, eps=1) FROM people"):
                with pytest.raises(QueryRefused) as refused:
                    session.sql(text)
                told.add(str(refused.value))
    assert len(told) == 2
    assert counts == {("bob", 2, 90)}
