"""Table formats and object stores: the version that is current, by libraries of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from dpquery.policy.model import External
from dpquery.policy.sources.snapshots import (
    UNCUT,
    Read,
    Snapshot,
    State,
    Unreadable,
    library,
)

# Delta Lake: the log says which files and which version, the library reads the log.

_READ_BY_DELTA = frozenset({"timestampNtz"})
"""What a reader has to know of a table and this one does."""


def delta_table(source: External) -> Snapshot:
    """Open the version of a Delta Lake table that is current."""
    table = library("deltalake", "delta").DeltaTable(source.place)
    protocol, about = table.protocol(), table.metadata()
    mapped = about.configuration.get("delta.columnMapping.mode", "none") != "none"
    needed = {*(protocol.reader_features or ()), *(["columnMapping"] if mapped else [])}
    unknown = sorted(needed - _READ_BY_DELTA)
    if unknown:
        raise Unreadable(f"needs a reader of {', '.join(unknown)}, which this one is not")
    schema = pa.schema(table.schema().to_arrow())

    def state() -> State:
        told = ["path", "size_bytes", "modification_time"]
        files = pa.table(table.get_add_actions()).select(told).to_pylist()
        tag = _digest([about.id, table.version(), sorted(files, key=str)])
        size = sum(file["size_bytes"] for file in files)
        return ((f"version {table.version()}", size, tag),)

    def read(names: Sequence[str], cut: Mapping[str, int] = UNCUT) -> pa.RecordBatchReader:
        wanted = pa.schema([schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(wanted, _live(table, schema, wanted))

    return Snapshot(schema, state, read)


def _live(table: Any, schema: pa.Schema, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files that a version has, each with the values of its partition.

    The log's statistics are not looked at: they are values, which no calendar has to hold.
    """
    import pyarrow.dataset as ds
    from pyarrow.fs import PyFileSystem

    handler = library("deltalake.fs", "delta").DeltaStorageHandler
    actions = pa.table(table.get_add_actions()).combine_chunks()
    paths = [unquote(path) for path in actions["path"].to_pylist()]
    known = dict(zip(paths, actions["size_bytes"].to_pylist(), strict=True))
    store = PyFileSystem(handler(table.table_uri, None, known))
    parts = {*table.metadata().partition_columns}
    stored = pa.schema([field for field in schema if field.name not in parts])
    format_ = ds.ParquetFileFormat(read_options={"coerce_int96_timestamp_unit": "us"})
    held = [name for name in wanted.names if name not in parts]
    for at, path in enumerate(paths):
        file = format_.make_fragment(path, store)
        data = ds.FileSystemDataset([file], stored, format_, store)
        for batch in _scanned(data)(held):
            columns = [
                pa.repeat(actions["partition"][at][field.name].cast(field.type), len(batch))
                if field.name in parts
                else batch[field.name]
                for field in wanted
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)


# Iceberg: a metadata file is one state. Which one is current is known to the catalogue, unless
# a hint in the folder says so.


def iceberg_table(source: External) -> Snapshot:
    """Open the state of an Iceberg table that a metadata file describes."""
    static = library("pyiceberg.table", "iceberg").StaticTable
    place = _metadata_of(Path(source.place))
    table = static.from_metadata(str(place))
    current = table.current_snapshot()
    tag = sha256(place.read_bytes()).hexdigest()
    named = "empty" if current is None else f"snapshot {current.snapshot_id}"

    def read(names: Sequence[str], cut: Mapping[str, int] = UNCUT) -> pa.RecordBatchReader:
        return table.scan(selected_fields=tuple(names)).to_arrow_batch_reader()

    return Snapshot(table.schema().as_arrow(), lambda: ((named, 0, tag),), read)


def _metadata_of(place: Path) -> Path:
    """Return the metadata file of the current state."""
    if place.is_file():
        return place
    hint = place / "metadata" / "version-hint.text"
    if not hint.is_file():
        raise Unreadable(
            "does not say which state is current: name its metadata file, "
            f"as {place.name}/metadata/00005-….metadata.json, which the catalogue knows"
        )
    version = hint.read_text("ascii").strip()
    name = f"v{version}.metadata.json" if version.isdigit() else f"{version}.metadata.json"
    return place / "metadata" / name


# Object stores: Parquet files under s3://, by pyarrow's file system. Who may read
# them is said by the environment, never by a policy.


def objects(source: External) -> Snapshot:
    """Open Parquet files of an object store."""
    import pyarrow.dataset
    import pyarrow.parquet as pq

    store, path = _store(source.place)
    found = [
        each
        for folder, pattern in [os.path.split(path)]
        for each in store.get_file_info(_selected(folder, path))
        if each.is_file and fnmatchcase(os.path.basename(each.path), pattern)
    ]
    if not found:
        raise Unreadable("is not there, or matches no object")
    paths = sorted(each.path for each in found)
    schemas = [pq.read_schema(path, filesystem=store).remove_metadata() for path in paths]
    schema = pa.unify_schemas(schemas)
    data = pyarrow.dataset.dataset(paths, schema, format="parquet", filesystem=store)

    def state() -> State:
        return tuple(_object_state(store, path) for path in paths)

    return Snapshot(schema, state, _scanned(data))


def _selected(folder: str, path: str) -> Any:
    from pyarrow.fs import FileSelector

    return FileSelector(folder, allow_not_found=True) if "*" in path else [path]


def _store(place: str) -> tuple[Any, str]:
    from pyarrow import fs

    path = place.removeprefix("s3://")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        return fs.S3FileSystem(endpoint_override=endpoint), path
    store, _ = fs.FileSystem.from_uri(f"s3://{path.partition('/')[0]}")  # finds its region
    return store, path


def _object_state(store: Any, path: str) -> tuple[str, int, str]:
    """Return what tells an object's bytes: the tag that its store gives them."""
    with store.open_input_file(path) as file:
        size, told = file.size(), {**(file.metadata() or {})}
    known = {key.lower(): value for key, value in told.items()}
    tag = known.get("etag") or known.get(b"etag")
    if not tag:
        raise Unreadable(f"has no tag that tells its bytes: {path}")
    return path, size, tag.decode() if isinstance(tag, bytes) else str(tag)


def _scanned(data: Any) -> Read:
    def read(names: Sequence[str], cut: Mapping[str, int] = UNCUT) -> pa.RecordBatchReader:
        plain = all(pa.types.is_primitive(data.schema.field(name).type) for name in names)
        ahead = {"batch_readahead": 1, "fragment_readahead": 1}
        ahead["batch_size"] = 1 << (17 if plain else 10)  # nobody says how long values are
        return data.scanner(columns=[*names], **ahead).to_reader()

    return read


def _digest(told: object) -> str:
    return sha256(json.dumps(told).encode()).hexdigest()
