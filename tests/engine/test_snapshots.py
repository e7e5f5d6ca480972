"""Tables of table formats and object stores: one state of each is copied and counted."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from time import monotonic
from uuid import uuid4

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.engine.file_checks import schemas_of
from dpquery.errors import PolicyInvalid, ScanFailed
from dpquery.policy.load import load_policy
from dpquery.policy.model import External
from dpquery.policy.owner.draft import draft
from dpquery.policy.sources import open_external, sqlite_postgres
from dpquery.policy.sources.open_external import opened
from dpquery.policy.sources.snapshot_reader import Unreadable
from dpquery.shell.main import main, run_verb

POLICY = """\
[budget]
epsilon = 1e9
[tables.people]
{source}
privacy_unit_column = "id"
max_rows_contributed = 1
[tables.people.columns]
id = {{ type = "integer" }}
age = {{ type = "integer", bounds = [0, 99] }}
region = {{ type = "text", keys = ["n", "s"] }}
"""
ROWS = pa.table(
    {"id": [1, 2, 3, 4], "age": [30, None, 2**62, -5], "region": ["n", "s", "n", None]}
)
MORE = pa.table({"id": [5, 6], "age": [7, 8], "region": ["s", "\0"]})
BY_REGION = "SELECT region, DP_SUM(age, eps=1e8) AS total FROM people GROUP BY region"
COUNT = "SELECT DP_COUNT(*, eps=1e7) AS n FROM people"


class Kept:
    """A table of some kind that can be changed."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.path = "people"
        self.make()

    @property
    def source(self) -> str:
        return f'path = "{self.path}"'

    def make(self) -> None:
        raise NotImplementedError

    def append(self, rows: pa.Table) -> None:
        raise NotImplementedError

    def remove(self, unit: int) -> None:
        raise NotImplementedError


class Delta(Kept):
    def make(self) -> None:
        self.library = pytest.importorskip("deltalake")
        where = str(self.place / "people")
        self.library.write_deltalake(where, ROWS, partition_by=["region"])

    def append(self, rows: pa.Table) -> None:
        self.library.write_deltalake(str(self.place / "people"), rows, mode="append")

    def remove(self, unit: int) -> None:
        self.library.DeltaTable(str(self.place / "people")).delete(f"id = {unit}")


class DeltaInS3(Delta):
    def make(self) -> None:
        Objects.bucket(self)  # type: ignore[arg-type]
        self.path = f"s3://{self.folder}/people/"
        self.library = pytest.importorskip("deltalake")
        self.library.write_deltalake(self.path, ROWS)

    def append(self, rows: pa.Table) -> None:
        self.library.write_deltalake(self.path, rows, mode="append")

    def remove(self, unit: int) -> None:
        self.library.DeltaTable(self.path).delete(f"id = {unit}")


class Iceberg(Kept):
    """A catalogue knows which metadata is current; a hint in the folder stands in for it."""

    def make(self) -> None:
        pytest.importorskip("pyiceberg")
        sql = pytest.importorskip("pyiceberg.catalog.sql")
        uri = f"sqlite:///{self.place}/catalogue.db"
        catalogue = sql.SqlCatalog("c", uri=uri, warehouse=f"file://{self.place}")
        catalogue.create_namespace("n")
        where = f"file://{self.place}/people"
        self.table = catalogue.create_table("n.people", schema=ROWS.schema, location=where)
        self.append(ROWS)

    def append(self, rows: pa.Table) -> None:
        self.table.append(rows)
        self._hint()

    def remove(self, unit: int) -> None:
        self.table.delete(f"id = {unit}")
        self._hint()

    def _hint(self) -> None:
        current = Path(self.table.metadata_location.removeprefix("file://"))
        name = current.name.removesuffix(".metadata.json")
        (current.parent / "version-hint.text").write_text(name)


class Objects(Kept):
    def make(self) -> None:
        self.bucket()
        self.path = f"s3://{self.folder}/*.parquet"
        pq.write_table(ROWS, f"{self.folder}/a.parquet", filesystem=self.store)
        pq.write_table(ROWS.slice(0, 0), f"{self.folder}/b.parquet", filesystem=self.store)

    def bucket(self) -> None:
        from pyarrow import fs

        url = self.place.joinpath("endpoint").read_text()
        self.store = fs.S3FileSystem(endpoint_override=url, allow_bucket_creation=True)
        self.folder = f"bucket-{uuid4()}"
        self.store.create_dir(self.folder)

    def append(self, rows: pa.Table) -> None:
        pq.write_table(rows, f"{self.folder}/b.parquet", filesystem=self.store)

    def remove(self, unit: int) -> None:
        path = f"{self.folder}/a.parquet"
        kept = [each != unit for each in ROWS["id"].to_pylist()]
        pq.write_table(ROWS.filter(pa.array(kept)), path, filesystem=self.store)


class Sqlite(Kept):
    def make(self) -> None:
        self._run("CREATE TABLE people (id INTEGER, age INT, region VARCHAR(9))")
        self.append(ROWS)

    @property
    def source(self) -> str:
        return 'database = "all.db"\ntable = "People"'

    def append(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            self._run("INSERT INTO people VALUES (:id, :age, :region)", row)

    def remove(self, unit: int) -> None:
        self._run(f"DELETE FROM people WHERE id = {unit}")

    def _run(self, sql: str, *given: object) -> None:
        with closing(sqlite3.connect(self.place / "all.db")) as database, database:
            database.execute(sql, *given)


class Postgres(Kept):
    def make(self) -> None:
        self.url = (self.place / "url").read_text()
        self._run("DROP SCHEMA IF EXISTS hr CASCADE")
        self._run("CREATE SCHEMA hr")
        self._run("CREATE TABLE hr.people (id INTEGER, age BIGINT, region VARCHAR(9))")
        self.append(ROWS)

    @property
    def source(self) -> str:
        return f'database = "{self.url}"\ntable = "hr.people"'

    def append(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            named = {**row, "region": row["region"] and row["region"].replace("\0", "?")}
            self._run("INSERT INTO hr.people VALUES (%(id)s, %(age)s, %(region)s)", named)

    def remove(self, unit: int) -> None:
        self._run(f"DELETE FROM hr.people WHERE id = {unit}")

    def _run(self, sql: str, *given: object) -> None:
        with psycopg.connect(self.url) as server:
            server.execute(sql, *given)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


def as_if_allowed(url: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point the environment at a store."""
    (place / "endpoint").write_text(url)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")


@pytest.fixture(params=[Delta, DeltaInS3, Iceberg, Objects, Sqlite, Postgres])
def kept(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Kept:
    monkeypatch.chdir(tmp_path)
    if request.param in {Objects, DeltaInS3}:
        as_if_allowed(request.getfixturevalue("endpoint"), tmp_path, monkeypatch)
    if request.param is Postgres:
        (tmp_path / "url").write_text(request.getfixturevalue("server"))
    made: Kept = request.param(tmp_path)
    (tmp_path / "policy.toml").write_text(POLICY.format(source=made.source))
    return made


def test_one_version_is_counted_until_the_next_is_published(kept: Kept):
    source = load_policy("policy.toml").tables["people"].source
    first = opened(source).state()
    with dpquery.connect("policy.toml") as session:
        assert session.sql(BY_REGION).rows == [("n", 129), ("s", 0), (None, 0)]
        assert session.sql("SELECT DP_MAX(age, eps=1e8) AS a FROM people").scalar() == 99
        assert opened(source).state() == first
        kept.append(MORE)
        kept.remove(3)
        assert opened(source).state() != first
        with pytest.raises(ScanFailed):
            session.sql(COUNT)
        assert run_verb(["policy", "publish", "policy.toml"]) == 0
        assert session.sql(COUNT).scalar() == 5, "rows that were deleted do not count"
        assert session.sql(BY_REGION).rows == [("n", 30), ("s", 7), (None, 0)]
    told = Path("policy.ledger.faults").read_text().splitlines()
    assert "are not those of data version 0" in json.loads(told[-1])["fault"]
    with dpquery.connect("policy.toml") as session:
        assert session.sql(COUNT.replace("1e7", "3e7")).scalar() == 5


def test_a_change_while_a_scan_reads_fails_it(kept: Kept, monkeypatch: pytest.MonkeyPatch):
    from dpquery.engine.duckdb.sources import source_views

    def late(source: object) -> object:
        kept.append(MORE)
        return opened(source)  # type: ignore[arg-type]

    with dpquery.connect("policy.toml") as session, monkeypatch.context() as changed:
        changed.setattr(source_views, "opened", late)
        with pytest.raises(ScanFailed):
            session.sql(COUNT)
    assert "changed before it was copied" in Path("policy.ledger.faults").read_text()


def test_a_copy_of_other_rows_is_not_kept(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An object that is gone while the others are copied, and is there again."""
    from dpquery.engine.duckdb.sources import source_views

    monkeypatch.chdir(tmp_path)
    as_if_allowed(endpoint, tmp_path, monkeypatch)
    kept = Objects(tmp_path)
    kept.append(MORE)
    Path("policy.toml").write_text(POLICY.format(source=kept.source))
    other = f"{kept.folder}/b.parquet"

    def without(source: External) -> object:
        with kept.store.open_input_file(other) as file:
            held = file.read()
        kept.store.delete_file(other)
        found = opened(source)
        with kept.store.open_output_stream(other) as file:
            file.write(held)
        return found

    with dpquery.connect("policy.toml") as session:
        with monkeypatch.context() as changed:
            changed.setattr(source_views, "opened", without)
            with pytest.raises(ScanFailed):
                session.sql(COUNT)
        assert session.sql(COUNT.replace("1e7", "2e7")).scalar() == 6


def test_a_copy_takes_no_longer_than_a_scan_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of rows that never end."""
    from dpquery.engine.duckdb.sources import source_views

    monkeypatch.chdir(tmp_path)
    kept = Delta(tmp_path)
    Path("policy.toml").write_text(
        POLICY.format(source=kept.source) + "[limits]\nseconds = 1\n"
    )

    def without_end(source: External) -> object:
        found = opened(source)

        def read(names: Sequence[str], cut: Mapping[str, int]) -> pa.RecordBatchReader:
            once = found.read(names, cut)
            batches = once.read_all().to_batches()
            return pa.RecordBatchReader.from_batches(once.schema, cycle(batches))

        return replace(found, read=read)

    with dpquery.connect("policy.toml") as session:
        with monkeypatch.context() as changed:
            changed.setattr(source_views, "opened", without_end)
            began = monotonic()
            with pytest.raises(ScanFailed):
                session.sql(COUNT)
            assert monotonic() - began < 30
        assert session.sql(COUNT.replace("1e7", "2e7")).scalar() == 4


def test_a_copy_is_held_against_its_state_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Rows that came between a look and the copy, and are gone before the next query."""
    from dpquery.engine.duckdb.sources import source_views

    monkeypatch.chdir(tmp_path)
    kept = Sqlite(tmp_path)
    Path("policy.toml").write_text(POLICY.format(source=kept.source))
    before = Path("all.db").read_bytes()
    copy = source_views._copy_rows

    def late(*given: object) -> None:
        kept.append(MORE)
        copy(*given)  # type: ignore[arg-type]

    with dpquery.connect("policy.toml") as session:
        with monkeypatch.context() as changed:
            changed.setattr(source_views, "_copy_rows", late)
            with pytest.raises(ScanFailed):
                session.sql(COUNT)
        Path("all.db").write_bytes(before)
        assert session.sql(COUNT.replace("1e7", "2e7")).scalar() == 4


def test_a_column_that_does_not_fit_is_told_before_any_charge(
    kept: Kept, capsys: pytest.CaptureFixture[str]
):
    policy = Path("policy.toml")
    policy.write_text(
        policy.read_text()
        .replace('age = { type = "integer"', 'age = { type = "date"')
        .replace("[0, 99]", "[2000-01-01, 2001-01-01]")
    )
    with pytest.raises(PolicyInvalid) as refused:
        dpquery.connect(policy)
    assert refused.value.code == "DPQ612"
    assert main(["policy", "check", "policy.toml"]) == 2
    assert "has int64, declared is date" in capsys.readouterr().out


def test_the_owner_is_told_of_its_rows_and_gets_a_draft(
    kept: Kept, capsys: pytest.CaptureFixture[str]
):
    assert main(["policy", "check", "policy.toml"]) == 0
    said = capsys.readouterr().out
    assert "people.age: 1 of 4 rows (25 %) are above the bounds" in said
    if isinstance(kept, Postgres):
        return
    if isinstance(kept, Sqlite):
        text = draft("all.db", schemas_of).text()
        assert 'table = "people"' in text
        assert 'region = { type = "text" }' in text
        return
    text = draft(kept.path, schemas_of).text()
    assert 'region = { type = "text" }' in text
    with dpquery.connect({"people": kept.path}, unit="id", rows_per_unit=1, epsilon=1e9) as own:
        assert own.sql(COUNT).scalar() == 4


def test_refusals_are_the_same_whoever_is_in_it(kept: Kept):
    def refused() -> list[str]:
        with dpquery.connect("policy.toml") as session:
            said = [str(session.explain(COUNT)), str(session.describe("people"))]
            for text in (COUNT.replace("1e7", "9e9"), "SELECT age FROM people"):
                with pytest.raises(dpquery.QueryRefused) as one:
                    session.sql(text)
                said.append(str(one.value))
            return said

    first = refused()
    kept.remove(1)
    assert refused() == first


# What its library says is not told.


@pytest.mark.parametrize("kind", ["delta", "iceberg", "objects", "postgres", "sqlite"])
def test_no_text_of_a_library_is_told(monkeypatch: pytest.MonkeyPatch, kind: str):
    def failing(source: External) -> object:
        raise ValueError(f"quotes a value of {source.place}")

    monkeypatch.setitem(open_external.OPENERS, kind, failing)  # type: ignore[arg-type]
    with pytest.raises(Unreadable) as told:
        opened(External(kind, "secret"))
    assert str(told.value) == "cannot be read: ValueError"
    assert told.value.__cause__ is None


# What a format needs and this reader does not know is refused by name.


def of_delta(place: Path, changed: Callable[[dict[str, object]], None]) -> str:
    """Make a Delta table, change its first entries, and say why it is not read."""
    library = pytest.importorskip("deltalake")
    library.write_deltalake(str(place / "people"), ROWS)
    log = place / "people" / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        changed(line)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (place / "policy.toml").write_text(POLICY.format(source='path = "people"'))
    source = load_policy(place / "policy.toml").tables["people"].source
    with pytest.raises(Unreadable) as told:
        opened(source)
    return str(told.value)


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "typeWidening", "new"])
def test_a_feature_of_delta_that_is_not_known_is_refused(tmp_path: Path, feature: str):
    def changed(line: dict[str, object]) -> None:
        if "protocol" in line:
            both = {"readerFeatures": [feature], "writerFeatures": [feature]}
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **both}

    assert of_delta(tmp_path, changed) in {
        f"needs a reader of {feature}, which this one is not",
        "cannot be read: DeltaError",
    }


def test_columns_that_delta_calls_otherwise_are_refused(tmp_path: Path):
    def changed(line: dict[str, object]) -> None:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in line:
            line["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}  # type: ignore[index]

    assert of_delta(tmp_path, changed)


def test_iceberg_without_a_hint_is_named_by_its_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    made = Iceberg(tmp_path)
    (tmp_path / "people/metadata/version-hint.text").unlink()
    Path("policy.toml").write_text(POLICY.format(source='path = "people"'))
    with pytest.raises(PolicyInvalid):
        dpquery.connect("policy.toml")
    assert main(["policy", "check", "policy.toml"]) == 2
    assert "name its metadata file" in capsys.readouterr().out
    current = Path(made.table.metadata_location.removeprefix("file://"))
    Path("policy.toml").write_text(
        POLICY.format(source=f'path = "people/metadata/{current.name}"')
    )
    made.append(MORE)
    with dpquery.connect("policy.toml") as session:
        assert session.sql(COUNT).scalar() == 4, "a metadata file is one state for ever"


@pytest.mark.parametrize(
    ("kind", "path", "extra"),
    [("delta", "people", "delta"), ("iceberg", "people", "iceberg")],
)
def test_a_library_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, path: str, extra: str
):
    from dpquery.policy.sources import snapshot_reader

    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(snapshot_reader, "import_module", missing)
    with pytest.raises(Unreadable, match=rf"pip install 'dpquery\[{extra}\]'"):
        opened(External(kind, str(tmp_path / path)))


@pytest.mark.parametrize(
    "path",
    [
        '"https://host/people.parquet"',
        '"hdfs://host/people.parquet"',
        '"gs://bucket/people.parquet"',
        '"s3://key:secret@bucket/people.parquet"',
        '"s3://bucket/people.parquet?endpoint_override=x"',
        '"s3://bucket/*/people.parquet"',
        '"s3://bucket"',
        '["s3://bucket/a.parquet", "s3://bucket/b.parquet"]',
        '["a.parquet", "s3://bucket/b.parquet"]',
    ],
)
def test_a_url_that_is_not_read_is_refused_without_its_keys(tmp_path: Path, path: str):
    (tmp_path / "policy.toml").write_text(POLICY.format(source=f"path = {path}"))
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(tmp_path / "policy.toml")
    assert refused.value.code == "DPQ601"
    assert "secret" not in str(refused.value)


def test_two_units_of_one_table_are_refused_however_it_is_named(tmp_path: Path):
    database = 'database = "postgresql://host/shop"\ntable = "{}"'
    metadata = tmp_path / "people/metadata/00001-a.metadata.json"
    metadata.parent.mkdir(parents=True)
    metadata.touch()
    for one, other in (
        (database.format("people"), database.format("public.people")),
        ('path = "people"', 'path = "people/metadata/00001-a.metadata.json"'),
    ):
        text = POLICY.format(source=one)
        more = text[text.index("[tables.people]") :].replace("people]", "b]", 1)
        more = more.replace("people.columns", "b.columns").replace(one, other)
        more = more.replace('column = "id"', 'column = "age"')
        (tmp_path / "policy.toml").write_text(text + more)
        with pytest.raises(PolicyInvalid, match="protects another unit"):
            load_policy(tmp_path / "policy.toml")


def test_what_is_outside_is_no_public_table(tmp_path: Path):
    text = '[budget]\nepsilon = 1\n[tables.r]\npath = "s3://bucket/r.parquet"\npublic = true\n'
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(tmp_path / "policy.toml")
    assert refused.value.code == "DPQ607"


def test_a_server_is_read_in_the_state_that_was_looked_at(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "url").write_text(server)
    kept = Postgres(tmp_path)
    snapshot = opened(External("postgres", server, "hr.people"))
    before = snapshot.state()
    look = sqlite_postgres._state_of

    def late(*given: object) -> object:
        found = look(*given)  # type: ignore[arg-type]
        kept.append(MORE)
        return found

    with monkeypatch.context() as changed:
        changed.setattr(sqlite_postgres, "_state_of", late)
        assert snapshot.read(["id"]).read_all().num_rows == ROWS.num_rows
    assert snapshot.state() != before
    kept.append(MORE)
    with pytest.raises(Unreadable, match="than were looked at first"):
        snapshot.read(["id"]).read_all()


@pytest.mark.parametrize("kind", [DeltaInS3, Iceberg, Objects])
def test_a_text_of_many_rows_is_held_once(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type[Kept],
):
    monkeypatch.chdir(tmp_path)
    if kind is not Iceberg:
        as_if_allowed(request.getfixturevalue("endpoint"), tmp_path, monkeypatch)
    made = kind(tmp_path)
    text = "x" * 100_000
    rows = pa.table({"id": range(9, 1009), "age": [1] * 1000, "region": [text] * 1000})
    made.append(rows)
    Path("policy.toml").write_text(POLICY.format(source=made.source))
    snapshot = opened(load_policy("policy.toml").tables["people"].source)
    found = list(snapshot.read(["id", "region"]))
    assert sum(batch.num_rows for batch in found) in {1000, 1004}
    assert max(batch.nbytes for batch in found) < 10 * len(text)
    with dpquery.connect("policy.toml") as session:
        assert session.sql(COUNT).scalar() == sum(batch.num_rows for batch in found)
    assert not [one for one in caplog.records if one.name.startswith("pyiceberg")]
