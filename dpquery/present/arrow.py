"""The Arrow IPC file format: types and values exactly as they are, for other programs."""

from __future__ import annotations

from typing import IO

from dpquery.answer import Answer

__all__ = ["write"]


def write(answer: Answer, stream: IO[bytes]) -> None:
    """Write the answer as an Arrow IPC file."""
    import pyarrow as pa

    table = answer.to_arrow()
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)
