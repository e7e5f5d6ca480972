"""One state of a table that DuckDB does not read by itself, as its own library gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

State = tuple[tuple[str, int, str], ...]
"""What tells one state from another: for each part its name, its size, and a tag."""


LONGEST = 4096
"""Bytes of a text that says whose a row is. Cut, it would be another's, so it is NULL."""
UNCUT: Mapping[str, int] = MappingProxyType({})


class Read(Protocol):
    """Reads some columns of all rows, as often as it is asked."""

    def __call__(
        self, names: Sequence[str], cut: Mapping[str, int] = UNCUT
    ) -> pa.RecordBatchReader:
        """Read columns. A database cuts texts of some, which are NULL in others if too long."""
        ...


class Unreadable(Exception):
    """A source cannot be opened as what it is; the text is for the data owner."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of a source.

    It is opened anew wherever one is needed. Opening it reads names and types of columns alone
    (I1); which state it is of, and its rows, are read when they are asked for. The engine
    copies the rows once for each state, so that all passes of a scan see the same.
    """

    schema: pa.Schema
    state: Callable[[], State]
    read: Read


def library(name: str, extra: str) -> Any:
    """Return a library that is installed with an extra.

    Raises:
        Unreadable: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        told = f"needs a library that is not installed: pip install 'dpquery[{extra}]'"
        raise Unreadable(told) from None
