"""Parquet: types and values exactly as they are, small, for storage."""

from __future__ import annotations

from typing import IO

from dpquery.answer import Answer

__all__ = ["write"]


def write(answer: Answer, stream: IO[bytes]) -> None:
    """Write the answer as a Parquet file."""
    from pyarrow import parquet

    parquet.write_table(answer.to_arrow(), stream)
