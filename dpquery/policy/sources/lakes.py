"""Table formats and object stores: the version that is current, by libraries of their own."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from dpquery.policy.model import External
from dpquery.policy.sources.snapshot_reader import UNCUT, Snapshot, State, Unreadable, library

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
        return pa.RecordBatchReader.from_batches(_repeating(wanted), _live(table, wanted))

    return Snapshot(schema, state, read)


def _live(table: Any, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files that a version has, each with the values of its partition.

    The log's statistics are not looked at: they are values, which no calendar has to hold.
    """
    from pyarrow.fs import PyFileSystem

    handler = library("deltalake.fs", "delta").DeltaStorageHandler
    actions = pa.table(table.get_add_actions()).combine_chunks()
    paths = [unquote(path) for path in actions["path"].to_pylist()]
    known = dict(zip(paths, actions["size_bytes"].to_pylist(), strict=True))
    store = PyFileSystem(handler(table.table_uri, None, known))
    parts = {*table.metadata().partition_columns}
    stored = pa.schema([field for field in wanted if field.name not in parts])
    given = _repeating(wanted)
    for at, path in enumerate(paths):
        for batch in _of_file(store, path, stored):
            columns = [
                _repeated(actions["partition"][at][field.name].cast(field.type), len(batch))
                if field.name in parts
                else batch[field.name]
                for field in wanted
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=given)


def _repeated(value: pa.Scalar, rows: int) -> pa.Array:
    if value.type not in _TEXTS:
        return pa.repeat(value, rows)
    places = pa.repeat(pa.scalar(0 if value.is_valid else None, pa.int32()), rows)
    text = pa.array([value.as_py()] if value.is_valid else [], pa.string())
    return pa.DictionaryArray.from_arrays(places, text)


# Iceberg: a metadata file is one state. Which one is current is known to the catalogue, unless
# a hint in the folder says so.


def iceberg_table(source: External) -> Snapshot:
    """Open the state of an Iceberg table that a metadata file describes."""
    static = library("pyiceberg.table", "iceberg").StaticTable
    logging.getLogger("pyiceberg").setLevel(logging.CRITICAL)  # whoever asks would read it
    place = _metadata_of(Path(source.place))
    table = static.from_metadata(str(place))
    current = table.current_snapshot()
    tag = sha256(place.read_bytes()).hexdigest()
    named = "empty" if current is None else f"snapshot {current.snapshot_id}"

    def read(names: Sequence[str], cut: Mapping[str, int] = UNCUT) -> pa.RecordBatchReader:
        scan = table.scan(selected_fields=tuple(names))
        wanted = pa.schema([schema.field(one.name) for one in scan.projection().fields])
        batches = _of_tasks(scan, wanted)
        return pa.RecordBatchReader.from_batches(_repeating(wanted), batches)

    schema = table.schema().as_arrow()
    return Snapshot(schema, lambda: ((named, 0, tag),), read)


def _of_tasks(scan: Any, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan file by file: its own reader holds all files together."""
    arrow = library("pyiceberg.io.pyarrow", "iceberg").ArrowScan
    given = _repeating(wanted)
    texts = tuple(field.name for field in wanted if field.type in _TEXTS)
    about = scan.table_metadata, scan.io, scan.projection(), scan.row_filter

    for task in scan.plan_files():
        try:
            found = [*arrow(*about, dictionary_columns=texts).to_record_batches([task])]
        except pa.ArrowCapacityError:  # a dictionary of more than 2 GB
            found = [*arrow(*about).to_record_batches([task])]
        while found:
            yield _encoded(found.pop(0), given)


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
    import pyarrow.dataset as ds

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
    format_ = ds.ParquetFileFormat(read_options=_MOMENTS)
    schema = pa.unify_schemas([format_.inspect(p, store).remove_metadata() for p in paths])

    def state() -> State:
        return tuple(_object_state(store, path) for path in paths)

    def read(names: Sequence[str], cut: Mapping[str, int] = UNCUT) -> pa.RecordBatchReader:
        wanted = pa.schema([schema.field(name) for name in names])
        batches = (batch for path in paths for batch in _of_file(store, path, wanted))
        return pa.RecordBatchReader.from_batches(_repeating(wanted), batches)

    return Snapshot(schema, state, read)


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


# Rows of Parquet files. A file has a text once that many rows repeat, and a library makes as
# many of it as there are rows: 300 bytes became 6 GB. So texts are read as a dictionary, which
# has no more of them than the file has.

_MOMENTS = {"coerce_int96_timestamp_unit": "us"}
_TEXTS = frozenset({pa.string(), pa.large_string()})
_REPEATING = pa.dictionary(pa.int32(), pa.string())
_LARGEST = 1 << 30
"""Bytes of a column of a row group: a dictionary holds no more than twice as many."""


def _repeating(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which each text stands once, whatever number of rows has it."""
    types = (_REPEATING if field.type in _TEXTS else field.type for field in schema)
    return pa.schema([*zip(schema.names, types, strict=True)])


def _of_file(store: Any, path: str, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a file; NULL for those that it lacks."""
    import pyarrow.dataset as ds

    texts = {field.name for field in wanted if field.type in _TEXTS}
    format_ = ds.ParquetFileFormat(read_options={**_MOMENTS, "dictionary_columns": texts})
    file = format_.make_fragment(path, store)
    if large := texts & _large(file.metadata):
        texts -= large
        format_ = ds.ParquetFileFormat(read_options={**_MOMENTS, "dictionary_columns": texts})
        file = format_.make_fragment(path, store)
    given = _repeating(wanted)
    read = [(given if one.name in texts else wanted).field(one.name) for one in wanted]
    data = ds.FileSystemDataset([file], pa.schema(read), format_, store)
    short = all(one.name in texts or pa.types.is_primitive(one.type) for one in wanted)
    ahead = {"batch_readahead": 1, "fragment_readahead": 1}
    ahead["batch_size"] = 1 << (17 if short else 10)  # nobody says how long values are
    for batch in data.scanner(columns=wanted.names, **ahead).to_reader():
        yield _encoded(batch, given, few=not short)


def _large(about: Any) -> set[str]:
    """Return the columns of a file that a dictionary may be too small for."""
    groups = map(about.row_group, range(about.num_row_groups))
    columns = (group.column(at) for group in groups for at in range(group.num_columns))
    return {one.path_in_schema for one in columns if one.total_uncompressed_size > _LARGEST}


def _encoded(batch: pa.RecordBatch, given: pa.Schema, *, few: bool = False) -> pa.RecordBatch:
    """Return a batch with its texts as dictionaries: where it has few rows, of those alone."""
    if not batch.num_columns:
        return batch
    columns = [
        _own(column) if few and one.type == _REPEATING else column.cast(one.type)
        for column, one in zip(batch.columns, given, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=given)


def _own(texts: pa.Array) -> pa.Array:
    """Return texts with a dictionary of their own, in place of that of the whole file."""
    if not pa.types.is_dictionary(texts.type):
        return texts.dictionary_encode()
    used = texts.indices.unique().drop_null()
    import pyarrow.compute as pc  # loaded where a table of a library is read

    places = pc.index_in(texts.indices, used)
    return pa.DictionaryArray.from_arrays(places, texts.dictionary.take(used))


def _digest(told: object) -> str:
    return sha256(json.dumps(told).encode()).hexdigest()
