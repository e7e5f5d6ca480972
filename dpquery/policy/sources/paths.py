"""From paths as the data owner wrote them to files.

Globs are expanded here and nowhere else, before any query is read: no path ever comes from a
query. Nothing here opens a file.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from dpquery.policy.document import Unfit, contradiction, written
from dpquery.policy.model import Csv, External

# A table format keeps rows that were deleted, and a log that says which count. Its Parquet
# files read one by one would bring people back who were to be forgotten, so they are refused
# by name.

_FORMATS = (
    ("a Delta Lake table", "_delta_log", "delta"),
    ("an Iceberg table", "metadata/*.metadata.json", "iceberg"),
    ("a Hudi table", ".hoodie", ""),
)
"""Each with what stands in its folder, and the kind of source that its folder is by itself."""
_DUCKLAKE = ".ducklake.files"
"""What DuckLake adds to the name of its catalogue, for the folder of a catalogue's files."""
_READERS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "read_csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "read_json"),
}
_DATABASES = frozenset({".duckdb", ".ddb", ".db"})


def refuse_formats(folders: Iterable[Path]) -> None:
    """Refuse folders of a table format and those in one, with links followed or not."""
    ways = {way for one in folders for way in (one.absolute(), Path(os.path.realpath(one)))}
    for folder in sorted({folder for way in ways for folder in (way, *way.parents)}):
        for name, log, kind in _FORMATS:
            if glob.glob(os.path.join(glob.escape(str(folder)), log)):
                raise _unfit(name, folder, kind)
        if folder.name.endswith(_DUCKLAKE) and "=" not in folder.name:  # it is no value
            raise _unfit("a DuckLake catalogue", folder, "")


def _unfit(name: str, folder: Path, kind: str) -> Unfit:
    what = f"names files of {name}: {written(str(folder))}"
    why = "its Parquet files can hold rows that were deleted since, and people with them."
    remedy = "write its current version to Parquet files elsewhere, with what keeps the table"
    if kind:
        remedy = f"{written(str(folder))}    the folder by itself: its current version is read"
    return Unfit(what, why, remedy, code="DPQ613")


_URL = re.compile(r"(?i)([a-z][a-z0-9+.-]*)://")
_OBJECT = re.compile(r"s3://[a-zA-Z0-9][a-zA-Z0-9._-]+/[^?#@\[\]{}\\]+")
_METADATA = ".metadata.json"


def find_external(paths: Sequence[str], directory: Path) -> External | None:
    """Return what a path means that is no file which DuckDB reads; None if it is one.

    That is the folder of a table format, a metadata file of Iceberg, or an object store's URL:
    of objects, or with a bar at its end of the folder of a Delta Lake table.

    Raises:
        Unfit: DPQ601 a URL that cannot be read, or one among several paths.
    """
    remote = next((path for path in paths if _URL.match(path)), None)
    if remote is not None:
        _require_object(remote, len(paths))
        return External("delta" if remote.endswith("/") else "objects", remote)
    if len(paths) != 1 or glob.has_magic(paths[0]):
        return None
    place = Path(os.path.realpath(directory / paths[0]))
    if place.name.endswith(_METADATA) and place.is_file():
        refuse_formats([place.parent.parent.parent])
        return External("iceberg", str(place))
    for _, log, kind in _FORMATS:
        if kind and glob.glob(os.path.join(glob.escape(str(place)), log)):
            refuse_formats([place.parent])
            return External(kind, str(place))
    return None


def _require_object(path: str, among: int) -> None:
    """Refuse a URL that is not of an object store, or says more than where the objects are."""
    why = "of other places, copies are read: what is elsewhere can change while it is read."
    if path.partition("://")[0] != "s3":
        remedy = '"people.parquet"    a copy; or "s3://bucket/people/*.parquet"'
        raise Unfit(
            "names no file, but a URL that is not read here", why, remedy, code="DPQ601"
        )
    folder, _, name = path.rpartition("/")
    if among > 1 or not _OBJECT.fullmatch(path) or glob.has_magic(folder) or "**" in name:
        what = "is not the URL of objects alone"
        why = "keys come from the environment, and a pattern may stand at the end only."
        remedy = '"s3://bucket/people/*.parquet"'
        raise Unfit(what, why, remedy, code="DPQ601")


def as_parquet(name: str) -> str:
    """Write what makes a Parquet file of another file, with what is installed here.

    >>> print(as_parquet("a.csv"))
    python -c "import duckdb; duckdb.read_csv('a.csv').write_parquet('a.parquet')"
    """
    path = Path(name)
    reader, to = _READERS.get(path.suffix.lower()), f"{path.stem}.parquet"
    if is_database(path):
        table = f"duckdb.connect({name!r}, read_only=True).table('people')"
        return _python(f"{table}.write_parquet('people.parquet')")
    if reader is None:
        return '"people.parquet"'
    return _python(f"duckdb.{reader}({name!r}).write_parquet({to!r})")


def _python(call: str) -> str:
    return f'python -c "import duckdb; {call}"'


def is_database(path: Path) -> bool:
    """Return whether a file is named as a database that DuckDB keeps."""
    return path.suffix.lower() in _DATABASES


def is_sqlite(path: Path) -> bool:
    """Return whether a file begins as those that SQLite keeps."""
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


_SUFFIXES = {
    "parquet": (".parquet",),
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "json": (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz"),
}
"""How the names of files end, by what is in them."""


def format_of(files: Iterable[Path]) -> str:
    """Return how rows stand in some files, by their names: Parquet, if these say nothing.

    Raises:
        Unfit: DPQ607 they are of several formats.
    """
    names = {str(file).lower() for file in files}
    found = {f for f, ends in _SUFFIXES.items() if any(name.endswith(ends) for name in names)}
    known = tuple(end for ends in _SUFFIXES.values() for end in ends)
    if not all(name.endswith(known) for name in names):
        found.add("parquet")
    if len(found) > 1:
        what = f"names files of several formats: {', '.join(sorted(found))}"
        raise contradiction(what, "a table is read in one way.", "a table for each format")
    return found.pop() if found else "parquet"


def csv_format(files: Sequence[Path]) -> Csv:
    """Return how lines of CSV are parted, where only the names of files say it."""
    tabs = all(".tsv" in file.name.lower() for file in files)
    return Csv("\t" if tabs else ",")


def find_files(
    paths: Sequence[str], directory: Path, format_: str = "parquet"
) -> tuple[Path, ...]:
    """Return the files behind some paths, each glob's in sorted order, links followed.

    A folder stands for the files of a format in it and in folders below, but for what is hidden
    or begins with `_`, as in Spark.

    Raises:
        Unfit: DPQ601 a path names no file; DPQ607 a file is named twice; DPQ613 a file is one
            of a table format, whose deleted rows it can hold.
    """
    refuse_formats(directory / _before_wildcards(path) for path in paths)
    found = [file for path in paths for file in _matches(path, directory, _SUFFIXES[format_])]
    names = list(map(str, found))
    if not all(map(_is_text, names)):  # which one it is, people in the data may have chosen
        what = "names a file whose name, or that of a folder above it, is no text"
        why = "names of files are given to the reader as UTF-8."
        raise Unfit(what, why, "rename the file, or the directory it is in", code="DPQ601")
    if len(set(names)) < len(names):
        (twice, _), *_ = Counter(found).most_common(1)
        why = "its rows would be counted twice, and each unit with them."
        raise contradiction(f"names the file {twice.name} twice", why, "name each file once")
    return tuple(found)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _matches(path: str, directory: Path, suffixes: tuple[str, ...]) -> list[Path]:
    if os.path.isdir(folder := os.path.join(directory, path)):
        found = _resolved(_below(folder, suffixes), directory)
        if not found:
            what = f"names a folder without files {suffixes[0]}: {written(path)}"
            raise _missing(what, directory)
        return found
    if not glob.has_magic(path) or (directory / path).exists():
        return [find_file(path, directory)]
    found = _resolved(map(str, glob.glob(path, root_dir=directory, recursive=True)), directory)
    if not found:
        raise _missing(f"matches no file: {written(path)}", directory)
    return found


def _below(folder: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the files of a format in a folder and below, links followed; each folder once."""
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        way = os.path.realpath(place)
        folders[:] = [] if way in seen else [one for one in folders if _counts(one)]
        for name in () if way in seen else names:
            if _counts(name) and name.lower().endswith(suffixes):
                yield os.path.join(place, name)
        seen.add(way)


def _counts(name: str) -> bool:
    """Return whether a name in a folder is of its rows: `_x=1` is a folder of a column `_x`."""
    return name[0] != "." and (name[0] != "_" or "=" in name)


def folder_columns(files: Iterable[Path]) -> frozenset[str]:
    """Return the columns after which folders on the way to some files are named.

    >>> sorted(folder_columns([Path("/a/year=2024/month=3/1.parquet")]))
    ['month', 'year']
    """
    ways = {str(file).rpartition(os.sep)[0] for file in files}
    folders = {part for way in ways for part in way.split(os.sep)}
    return frozenset(part.partition("=")[0] for part in folders if "=" in part)


def _resolved(names: Iterable[str], directory: Path) -> list[Path]:
    """Return the files among some names in sorted order, links followed: each folder once."""
    found, ways = list[str](), dict[str, str]()
    for path in sorted(os.path.join(directory, name) for name in names):
        try:
            kind = os.lstat(path).st_mode
        except OSError:  # it has gone since
            continue
        folder, _, name = path.rpartition(os.sep)
        if folder not in ways:
            ways[folder] = os.path.realpath(folder or os.sep).rstrip(os.sep)
        if stat.S_ISREG(kind):
            found.append(f"{ways[folder]}{os.sep}{name}")
        elif stat.S_ISLNK(kind) and os.path.isfile(path):
            found.append(os.path.realpath(path))
    way = {file.rpartition(os.sep)[0] or os.sep for file in found}
    refuse_formats(map(Path, {*ways, *way} if found else ()))
    return list(map(Path, found))


def _before_wildcards(path: str) -> Path:
    return Path(*takewhile(lambda part: not glob.has_magic(part), Path(path).parts))


def find_file(path: str, directory: Path) -> Path:
    """Return the file behind one path."""
    try:
        file = (directory / path).resolve()
        if file.is_file():
            return file
        is_directory = file.is_dir()
    except OSError:  # a name that is too long, a loop of links
        is_directory = False
    if is_directory:
        why = "a table is a file, a list of files, or a glob."
        what = f"names a directory: {written(path)}"
        raise Unfit(what, why, written(f"{path.rstrip('/')}/*.parquet"), code="DPQ601")
    raise _missing(f"names no file: {written(path)}", directory)


def stem(path: str) -> str:
    """Name a table after its file; for a glob, after what stands before the first wildcard.

    >>> stem("data/people.parquet"), stem("visits/*.parquet"), stem("visits-2*.parquet")
    ('people', 'visits', 'visits-2')
    """
    if not glob.has_magic(path):
        return Path(path).stem
    return re.sub(r"\W+$", "", Path(re.split(r"[*?\[]", path)[0]).name)


def unlinked(path: Path) -> Path:
    """Return an absolute path whose last part is as written: a ledger must not be a link."""
    return path.parent.resolve() / path.name


def _missing(what: str, directory: Path) -> Unfit:
    why = f"relative paths start at {directory}."
    return Unfit(what, why, "mend the path, or put the file there", code="DPQ601")


# Where the sample data stands: beside the package in a checkout, inside it in a wheel.


def copy_samples(place: Path) -> Path:
    """Copy the samples to a new directory, and give their policy there, with no ledger yet."""
    without = shutil.ignore_patterns("*.ledger*")
    return Path(shutil.copytree(sample_directory(), place, ignore=without)) / "policy.toml"


def sample_directory() -> Path:
    """Return the directory with the sample data and its policy.

    Raises:
        PolicyInvalid: DPQ601 this installation has no sample data.
    """
    package = Path(__file__).resolve().parents[2]
    for directory in (package / "datasets", package.parent / "datasets"):
        if (directory / "policy.toml").is_file():
            return directory
    why = "the samples are installed with the wheel, and stand in datasets/ in a checkout."
    remedy = "pip install --force-reinstall dpquery"
    raise Unfit("the sample data is not installed", why, remedy, code="DPQ601").at("")
