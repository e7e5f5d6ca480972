"""Public tables: read whole, or refused by the same causes in a session and in a check."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.engine.file_checks import misfits_of, rows_of
from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.policy.model import Policy

CSV = "code,city,n,day\n007,Ulm,1,2024-01-31\n008,Bonn,,\n"
JSON = """{"code": "007", "city": "Ulm", "n": 1, "day": "2024-01-31"}
{"city": "Bonn", "code": "008"}
"""
TYPES = {"code": "text", "city": "text", "n": "integer", "day": "date"}


def policy_of(place: Path, name: str, more: str = "", **types: str) -> Policy:
    columns = ", ".join(f'{one} = {{ type = "{type_}" }}' for one, type_ in types.items())
    path = place / "policy.toml"
    path.write_text(
        f'budget.epsilon = 1\n[tables.r]\npath = "{name}"\npublic = true\n{more}\n'
        + (f"columns = {{ {columns} }}\n" if types else "")
    )
    return load_policy(path)


def rows(policy: Policy) -> list[dict[str, object]]:
    public = PublicEngine(policy)
    try:
        return public.rows("r").to_pylist()
    finally:
        public.close()


@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "r.ndjson.gz"])
def test_json_is_read_as_csv_is(tmp_path: Path, name: str) -> None:
    file = gzip.compress(JSON.encode()) if name.endswith(".gz") else JSON.encode()
    (tmp_path / name).write_bytes(file)
    (tmp_path / "r.csv").write_text(CSV)
    unique = 'unique = ["code"]'
    found, of_csv = (rows(policy_of(tmp_path, one, unique, **TYPES)) for one in (name, "r.csv"))
    assert [str(one["day"]) for one in found] == ["2024-01-31", "None"]
    assert found == of_csv
    assert rows(policy_of(tmp_path, name)) == rows(policy_of(tmp_path, "r.csv"))


def test_a_list_of_objects_and_fields_of_few_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"code": "2024-01-01"}, {"code": "b", "n": 2.0}]')
    late = (
        '{"code": "c"}\n' * 30_000 + '{"code": "A1EE0000-0000-0000-0000-000000000000", "n": 3}'
    )
    (tmp_path / "b.json").write_text(late)
    found = rows(policy_of(tmp_path, "*.json", code="text", n="integer"))
    assert [one for one in found if one["n"] is not None] == [
        {"code": "b", "n": 2},
        {"code": "A1EE0000-0000-0000-0000-000000000000", "n": 3},
    ]
    assert found[0] == {"code": "2024-01-01", "n": None}


@dataclass(frozen=True)
class Case:
    text: str | pa.Table
    types: dict[str, str]
    told: list[str]
    name: str = "r.csv"
    unique: list[str] = field(default_factory=list)


WRONG = [
    Case(CSV, TYPES | {"city": "date"}, ["city: 2 of 2 values are no date"]),
    Case(CSV.replace("1,", "x,"), TYPES, ["n: 1 of 1 values are no integer"]),
    Case(
        CSV,
        {"code": "boolean", "town": "text", "city": "integer"},
        [
            "town: r.csv has no such column",
            "code: 2 of 2 values are no boolean",
            "city: 2 of 2 values are no integer",
        ],
    ),
    Case("", {"code": "text"}, ["code: r.csv has no such column"]),
    Case(CSV, {"n": "integer"}, ["n: not unique: 1 of 2 rows have NULL there"], unique=["n"]),
    Case(CSV, {}, ["zone: r.csv has no such column"], unique=["zone"]),
    Case(JSON, TYPES | {"city": "date"}, ["city: 2 of 2 values are no date"], "r.json"),
    Case(JSON, {"town": "text"}, ["town: r.json has no such column"], "r.json"),
    Case(JSON + "{", {"code": "text"}, ["r.json is not readable as JSON"], "r.json"),
    Case("1\n2\n", {"code": "text"}, ["code: r.json has no such column"], "r.json"),
    Case(
        JSON + JSON,
        TYPES,
        ["code: not unique: 2 of 4 rows repeat another"],
        "r.jsonl",
        ["code"],
    ),
    Case(
        pa.table({"n": [1]}),
        {"n": "date"},
        ["n: r.parquet has int64, declared is date"],
        "r.parquet",
    ),
    Case(
        pa.table({"d": ["2024-01-01"]}),
        {"d": "date", "n": "text"},
        ["d: r.parquet has string, declared is date", "n: r.parquet has no such column"],
        "r.parquet",
    ),
    Case("none", {"n": "date"}, ["r.parquet is not readable as Parquet"], "r.parquet"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case.name}: {case.told[0]}")
def test_a_check_and_a_session_tell_the_same_causes(tmp_path: Path, case: Case) -> None:
    if isinstance(case.text, str):
        (tmp_path / case.name).write_text(case.text)
    else:
        pq.write_table(case.text, tmp_path / case.name)
    unique = f"unique = {case.unique}" if case.unique else ""
    policy = policy_of(tmp_path, case.name, unique, **case.types)
    table = policy.tables["r"]
    assert [*map(str, misfits_of(table))] == case.told
    with pytest.raises(PolicyInvalid) as caught:
        PublicEngine(policy)
    told = caught.value.diagnostic
    assert told.title == "the public table r cannot be read as declared"
    assert [*told.why][: len(case.told)] == case.told
    with pytest.raises(OSError, match=re.escape(case.told[0])):
        list(rows_of(table, []))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", CSV),
        ("r.tsv", CSV.replace(",", "\t")),
        ("r.txt", CSV.replace(",", ";")),
        ("r.json", JSON),
        ("r.jsonl", JSON),
    ],
)
def test_a_check_takes_what_a_session_takes(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    policy = policy_of(tmp_path, name, 'unique = ["code"]', **TYPES)
    assert misfits_of(policy.tables["r"]) == []
    found = pa.Table.from_batches(rows_of(policy.tables["r"], ["code", "n"]))
    assert found.to_pylist() == [{"code": "007", "n": 1}, {"code": "008", "n": None}]


def test_a_table_of_a_database_is_checked_too(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as made:
        made.execute("CREATE TABLE r AS SELECT 'x' AS n, 1 AS k")
    path = tmp_path / "policy.toml"
    text = 'budget.epsilon = 1\n[tables.r]\ndatabase = "d.duckdb"\ntable = "r"\npublic = true\n'
    for columns, told in {
        'n = { type = "integer" }': ["n: 1 of 1 values are no integer"],
        'k = { type = "integer" }': [],
        'm = { type = "integer" }': ["m: d.duckdb has no such column"],
    }.items():
        path.write_text(f"{text}columns = {{ {columns} }}\n")
        policy = load_policy(path)
        assert [*map(str, misfits_of(policy.tables["r"]))] == told


def test_files_of_one_table_that_differ_are_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1], "m": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": [1]}), tmp_path / "b.parquet")
    policy = policy_of(tmp_path, "*.parquet", n="integer", m="integer")
    told = ["its files cannot be read as one table"]
    assert [*map(str, misfits_of(policy.tables["r"]))] == told
    with pytest.raises(PolicyInvalid) as caught:
        PublicEngine(policy)
    assert [*caught.value.diagnostic.why][:1] == told


def test_a_public_view_reads_no_file_that_the_policy_does_not_name(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n7\n")
    with duckdb.connect(str(tmp_path / "d.duckdb")) as made:
        made.execute(f"CREATE VIEW v AS SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')")
    path = tmp_path / "policy.toml"
    path.write_text(
        'budget.epsilon = 1\n[tables.r]\ndatabase = "d.duckdb"\ntable = "v"\npublic = true\n'
    )
    with pytest.raises(PolicyInvalid):
        rows(load_policy(path))


def test_a_broken_public_file_is_told_as_one(tmp_path: Path) -> None:
    packed = gzip.compress(b"a\n" + bytes(range(65, 91)) * 900)
    (tmp_path / "r.csv.gz").write_bytes(packed[:12] + b"\xff" * 20 + packed[32:])
    policy = policy_of(tmp_path, "r.csv.gz")
    with pytest.raises(PolicyInvalid, match=r"r\.csv\.gz"):
        rows(policy)
    assert misfits_of(policy.tables["r"])
