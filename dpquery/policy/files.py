"""From paths as the data owner wrote them to files.

Globs are expanded here and nowhere else, before any query is read: no path ever comes from a
query. Nothing here opens a file.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from dpquery.policy.formats import refuse_formats
from dpquery.policy.unfit import Unfit, written

__all__ = ["find_file", "find_files", "stem", "unlinked"]

_PATTERN = frozenset("*?[]{}")


def find_files(paths: Sequence[str], directory: Path) -> tuple[Path, ...]:
    """Give the files behind some paths, each glob's in sorted order, links followed.

    Raises:
        Unfit: DPQ601 a path names no file; DPQ607 a file is named twice; DPQ613 a file is one
            of a table format, whose deleted rows it can hold.
    """
    refuse_formats(directory / _named(path) for path in paths)
    found = [file for path in paths for file in _matches(path, directory)]
    for file in found:
        _refuse_pattern(file)
    seen: set[Path] = set()
    for file in found:
        if file not in seen:
            seen.add(file)
            continue
        raise Unfit(
            f"names the file {file.name} twice",
            "its rows would be counted twice, and each unit with them.",
            "name each file once",
            code="DPQ607",
        )
    return tuple(found)


def _refuse_pattern(file: Path) -> None:
    """Refuse a name that a reader would take for a pattern, and read other files by it."""
    if _PATTERN.intersection(str(file)):
        what = f"names a file whose name could be read as a pattern: {written(str(file))}"
        why = "a name with one of * ? [ ] { } in it can stand for other files."
        raise Unfit(what, why, "rename the file, or the directory it is in", code="DPQ601")


def _matches(path: str, directory: Path) -> list[Path]:
    if not glob.has_magic(path) or (directory / path).exists():
        return [find_file(path, directory)]
    names = glob.glob(path, root_dir=directory, recursive=True)
    files = sorted(file for name in names if (file := directory / name).is_file())
    found = [file.resolve() for file in files]
    refuse_formats(file.parent for file in (*files, *found))
    if not files:
        raise _missing(f"matches no file: {written(path)}", directory)
    return found


def _named(path: str) -> str:
    """Return the part of a path before its first wildcard."""
    parts = Path(path).parts
    plain = list(takewhile(lambda part: not glob.has_magic(part), parts))
    return str(Path(*plain))


def find_file(path: str, directory: Path) -> Path:
    """Give the file behind one path.

    Raises:
        Unfit: DPQ601.
    """
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
    """Give an absolute path whose last part is as written: a ledger must not be a link."""
    return path.parent.resolve() / path.name


def _missing(what: str, directory: Path) -> Unfit:
    why = f"relative paths start at {directory}."
    return Unfit(what, why, "mend the path, or put the file there", code="DPQ601")
