"""Files that are no table by themselves are refused by name, with what to write instead."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.engine.file_checks import schemas_of
from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.policy.owner.draft import draft

ROWS = pa.table({"id": [1, 2], "age": [30, 40]})
POLICY = """\
budget.epsilon = 1
[tables.people]
path = {path}
columns.age = {{ type = "integer" }}
"""
BY_ITSELF = "the folder by itself"
LOGS = {
    "_delta_log/00000000000000000000.json": BY_ITSELF,
    "metadata/v1.metadata.json": BY_ITSELF,
    "metadata/00000-0b3c.metadata.json": BY_ITSELF,
    ".hoodie/hoodie.properties": "with what keeps the table",
}
FOLDERS = ['"lake/people"', '"lake/people/"', '"linked"']
PATHS = [
    '"lake/people/*.parquet"',
    '"lake/people/part-0.parquet"',
    '"lake/people/region=north/part-1.parquet"',
    '"lake/**/*.parquet"',
    '"lake/*/*/*.parquet"',
    '"lake/people/nowhere/*.parquet"',
    '["other.parquet", "lake/people/part-0.parquet"]',
    '"linked/part-0.parquet"',
    '"linked/*.parquet"',
]


def read_by_a_policy(path: str) -> None:
    Path("policy.toml").write_text(POLICY.format(path=path), "utf-8")
    load_policy("policy.toml")


def read_by_connect(path: str) -> None:
    paths = [part.strip(' "') for part in path.strip("[]").split(",")]
    dpquery.connect({"people": paths}, epsilon=1).close()


def read_by_a_draft(path: str) -> None:
    draft(path.strip("[]").split(",")[-1].strip(' "'), schemas_of)


READERS = [read_by_a_policy, read_by_connect, read_by_a_draft]


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    people = tmp_path / "lake" / "people"
    (people / "region=north").mkdir(parents=True)
    for name in ("part-0.parquet", "region=north/part-1.parquet"):
        pq.write_table(ROWS, people / name)
    pq.write_table(ROWS, tmp_path / "other.parquet")
    (tmp_path / "linked").symlink_to(people)
    return people


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("read", READERS)
def test_a_table_format_is_refused_however_its_files_are_named(
    lake: Path, log: str, path: str, read: Callable[[str], None]
):
    (lake / log).parent.mkdir()
    (lake / log).write_text("{}")
    with pytest.raises(PolicyInvalid) as refused:
        read(path)
    assert refused.value.code == "DPQ613"
    (remedy,) = refused.value.diagnostic.remedy
    assert LOGS[log] in remedy
    assert "*.parquet" not in remedy


@pytest.mark.parametrize("path", FOLDERS)
@pytest.mark.parametrize("log", LOGS)
def test_the_folder_of_a_format_is_read_by_its_library(lake: Path, log: str, path: str):
    """What is no log is found when it is opened, by a session and by a draft."""
    (lake / log).parent.mkdir()
    (lake / log).write_text("{}")
    if LOGS[log] == BY_ITSELF:
        read_by_a_policy(path)
    for read in (read_by_connect, read_by_a_draft):
        with pytest.raises(PolicyInvalid) as refused:
            read(path)
        assert refused.value.code == ("DPQ601" if LOGS[log] == BY_ITSELF else "DPQ613")


@pytest.mark.parametrize("read", READERS)
def test_files_of_a_ducklake_are_refused(
    tmp_path: Path, lake: Path, read: Callable[[str], None]
):
    lake.rename(tmp_path / "all.ducklake.files")
    with pytest.raises(PolicyInvalid) as refused:
        read('"all.ducklake.files/*.parquet"')
    assert refused.value.code == "DPQ613"


def test_no_value_that_names_a_folder_refuses_its_files(tmp_path: Path):
    for city in ("Ulm", "x.ducklake.files", "_delta_log", ".hoodie", "metadata"):
        (tmp_path / "visits" / f"city={city}").mkdir(parents=True)
        pq.write_table(ROWS, tmp_path / "visits" / f"city={city}" / "a.parquet")
    for path in ("visits", "visits/**/*.parquet", "visits/city=x.ducklake.files/a.parquet"):
        text = POLICY.format(path=f'"{path}"')
        (tmp_path / "policy.toml").write_text(text, "utf-8")
        load_policy(tmp_path / "policy.toml")


@pytest.mark.parametrize("read", READERS)
def test_what_only_looks_like_a_format_is_read(lake: Path, read: Callable[[str], None]):
    (lake / "metadata").mkdir()
    (lake / "metadata" / "people.json").touch()
    (lake.parent / "visits" / "_delta_log").mkdir(parents=True)
    read('"lake/people/*.parquet"')


DATABASES = ["people.duckdb", "people.ddb", "people.DB"]


@pytest.mark.parametrize("name", DATABASES)
def test_a_duckdb_file_in_a_policy_is_named_by_two_keys(name: str):
    with duckdb.connect(name) as database:
        database.execute("CREATE TABLE people AS SELECT 1 AS id, 30 AS age")
    with pytest.raises(PolicyInvalid) as refused:
        read_by_a_policy(f'"{name}"')
    keys = refused.value.diagnostic.remedy
    assert keys == (f'database = "{name}"', 'table = "people"')
    assert refused.value.line == 3
    mended = Path("policy.toml").read_text("utf-8").replace(f'path = "{name}"', "\n".join(keys))
    Path("policy.toml").write_text(mended.replace("[tables.people]", "[tables.people]\n"))
    with dpquery.connect("policy.toml") as session:
        session.sql("SELECT DP_COUNT(*, eps=0.5) FROM people")


@pytest.mark.parametrize("name", DATABASES)
def test_a_duckdb_file_of_ones_own_is_written_to_parquet(name: str):
    with duckdb.connect(name) as database:
        database.execute("CREATE TABLE people AS SELECT 1 AS id, 30 AS age")
    with pytest.raises(PolicyInvalid) as refused:
        read_by_connect(f'"{name}"')
    command, also = refused.value.diagnostic.remedy
    assert 'table = "people"' in also
    run(command)
    read_by_connect('"people.parquet"')


@pytest.mark.parametrize("read", [read_by_connect, read_by_a_draft])
def test_other_files_are_written_to_parquet_by_what_reads_them(read: Callable[[str], None]):
    Path("a.jsonl").write_text('{"id": 1, "age": 30}\n')
    with pytest.raises(PolicyInvalid) as refused:
        read('"a.jsonl"')
    command, *_ = refused.value.diagnostic.remedy
    run(command)
    read('"a.parquet"')


def test_of_what_nothing_reads_no_command_is_made_up():
    Path("people.sav").write_bytes(b"something")
    with pytest.raises(PolicyInvalid) as refused:
        read_by_connect('"people.sav"')
    assert refused.value.diagnostic.remedy == ('"people.parquet"',)


def test_a_public_duckdb_file_is_written_to_parquet_too():
    duckdb.connect("regions.duckdb").close()
    Path("policy.toml").write_text(
        "budget.epsilon = 1\n"
        '[tables.regions]\npath = "regions.duckdb"\npublic = true\n'
        '[tables.people]\npath = "other.parquet"\ncolumns.age = { type = "integer" }\n'
    )
    with pytest.raises(PolicyInvalid) as refused:
        load_policy("policy.toml")
    assert "write_parquet" in refused.value.diagnostic.remedy[0]


def run(command: str) -> None:
    python, *arguments = shlex.split(command)
    assert python == "python"
    subprocess.run([sys.executable, *arguments], check=True)
