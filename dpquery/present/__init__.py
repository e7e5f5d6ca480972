"""The formats an answer can be written in: one file each, and one line here.

A writer sees an answer and a stream of bytes, nothing else. It never refuses: the answer has
been charged for, and must reach the analyst.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from dpquery.answer import Answer
from dpquery.present import arrow, csv, json, parquet, table

__all__ = ["BINARY", "FORMATS", "Writer"]

Writer = Callable[[Answer, IO[bytes]], None]

FORMATS: dict[str, Writer] = {
    "table": table.write,
    "csv": csv.write,
    "json": json.write,
    "arrow": arrow.write,
    "parquet": parquet.write,
}

BINARY = frozenset({"arrow", "parquet"})
"""Formats that are a whole file of bytes: one answer each, and never to a terminal."""
