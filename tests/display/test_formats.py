"""One answer with every awkward type, one byte-exact golden file per format.

After a wanted change, `python -m tests.display.test_formats` writes them again: read the diff.
"""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dpquery.answer import Answer
from dpquery.display.formats import BINARY, FORMATS
from tests.display.awkward import AWKWARD, EMPTY, TABLE

GOLDEN = Path(__file__).parent / "golden"


def written(form: str, answer: Answer = AWKWARD) -> bytes:
    stream = io.BytesIO()
    FORMATS[form](answer, stream)
    return stream.getvalue()


def read(form: str, data: bytes) -> pa.Table:
    if form == "arrow":
        return pa.ipc.open_file(io.BytesIO(data)).read_all()
    return parquet.read_table(io.BytesIO(data))


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in BINARY])
def test_text_formats_are_written_byte_for_byte(form: str):
    assert written(form) == (GOLDEN / f"answer.{form}").read_bytes()


@pytest.mark.parametrize("form", sorted(BINARY))
def test_binary_formats_keep_every_type_and_value(form: str):
    expected = TABLE.to_pylist()
    for data in (written(form), (GOLDEN / f"answer.{form}").read_bytes()):
        assert read(form, data).schema.equals(TABLE.schema)
        assert repr(read(form, data).to_pylist()) == repr(expected)


@pytest.mark.parametrize("form", FORMATS)
def test_an_answer_without_rows_can_be_written(form: str):
    data = written(form, EMPTY)
    if form in BINARY:
        assert read(form, data).equals(TABLE.slice(0, 0))
    else:
        assert data.count(b"\n") == 1


def test_csv_reads_back_with_its_odd_names_and_texts():
    rows = list(csv.reader(io.StringIO(written("csv").decode(), newline=""), strict=True))
    assert rows[0] == list(AWKWARD.columns)
    assert [row[7] for row in rows[1:]] == [text or "" for text in TABLE.column(7).to_pylist()]


def test_csv_tells_null_from_the_empty_text():
    table = pa.table({"a": ["", None], "b": [1, 2]})
    assert written("csv", Answer(table, AWKWARD.loss)) == b'a,b\r\n"",1\r\n,2\r\n'


def test_json_reads_back_without_losing_a_digit():
    rows = json.loads(written("json"), parse_float=Decimal)
    assert [row["n"] for row in rows] == TABLE.column("n").to_pylist()
    assert rows[0]["price"] == Decimal("2.50")
    assert rows[0]["wide"] == 10**37
    assert [row["text"] for row in rows] == TABLE.column("text").to_pylist()
    assert [row["x"] for row in rows][:2] == ["NaN", "-Infinity"]


@pytest.mark.parametrize("form", ["table", "json"])
def test_what_a_terminal_shows_cannot_drive_it(form: str):
    text = written(form).decode().replace("\n", "")
    assert all(char.isprintable() for char in text)


def test_a_table_is_written_whole_but_for_terminals():
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    long, terminal = Answer(pa.table({"n": list(range(100))}), AWKWARD.loss), Terminal()
    FORMATS["table"](long, terminal)
    assert len(written("table", long).splitlines()) == 101
    assert b"60 more rows" in terminal.getvalue()


@pytest.mark.parametrize("form", FORMATS)
def test_a_stream_that_only_writes_is_enough(form: str):
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = b""

        def writable(self) -> bool:
            return True

        def write(self, data) -> int:
            self.data += bytes(data)
            return len(data)

    pipe = Pipe()
    FORMATS[form](AWKWARD, pipe)
    assert len(pipe.data) == len(written(form))


if __name__ == "__main__":
    for name in FORMATS:
        (GOLDEN / f"answer.{name}").write_bytes(written(name))
