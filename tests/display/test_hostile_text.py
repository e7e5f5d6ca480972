"""Text that people in the data chose drives no terminal and runs in no spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from rich.console import Console as RichConsole

import dpquery
from dpquery.answer import Answer
from dpquery.core.privacy_loss import Loss
from dpquery.core.source_text import width
from dpquery.display.formats import BINARY, FORMATS
from dpquery.errors import Diagnostic, PolicyInvalid, RuleRefused
from dpquery.policy.sources.paths import copy_samples
from dpquery.shell.ask_and_show import Desk
from dpquery.shell.batch import say
from dpquery.shell.main import main
from dpquery.shell.terminal import Terminal

HOSTILE = [
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[31mred",
    "\x9b31m",
    "\u202eevil\u202c",
    "\u2066left\u2069",
    "two\nlines\r\x0b\x0c\x85\u2028\u2029",
    "\x00\x08\x7f",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "＝1",
    'a",=1',
    "\ufeff=1",
    "数数\u200b数",
]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(HOSTILE),
        st.text(st.sampled_from("=+-@\t\r\n\x1b\x9b\u202e\u2066\x00a,\"';数 "), max_size=8),
    ),
    min_size=1,
    max_size=6,
)
FORMULA = tuple("=+-@\t\r\n＝＋－＠")


class Screen(io.BytesIO):
    """A terminal that takes bytes."""

    def isatty(self) -> bool:
        return True


def answer_of(texts: list[str]) -> Answer:
    numbers = [-1.5 - place for place in range(len(texts))]
    return Answer(pa.table({"key": texts, "n": numbers}), Loss(0), (), "1 left", ("a note",))


def written(form: str, answer: Answer, stream: io.BytesIO) -> bytes:
    FORMATS[form](answer, stream)
    return stream.getvalue()


def prints(text: str) -> bool:
    return all(char.isprintable() or char == "\n" for char in text)


@given(TEXTS)
def test_whatever_goes_to_a_terminal_prints(texts: list[str]):
    answer = answer_of(texts)
    for form in FORMATS.keys() - BINARY:
        shown = written(form, answer, Screen()).decode().replace("\r\n", "\n")
        assert prints(shown), form
        assert len(shown.splitlines()) == len(texts) + (form != "json")  # which has no header
    lines = answer.to_text().split("\n")
    assert len({width(line) for line in lines}) == 1  # numbers stand last, on the right
    assert prints(answer._repr_html_())


@given(TEXTS)
def test_a_spreadsheet_gets_no_formula_and_every_number(texts: list[str]):
    answer = answer_of(texts)
    data = written("csv", answer, io.BytesIO()).decode()
    _, *rows = csv.reader(io.StringIO(data, newline=""), strict=True)
    for (cell, number), text, value in zip(rows, texts, answer.table["n"], strict=True):
        assert not cell.startswith(FORMULA)
        assert cell == (f"'{text}" if text.startswith(FORMULA) else text)
        assert number == str(value)


@given(TEXTS)
def test_a_pipe_gets_what_a_file_gets_and_only_csv_has_controls_in_it(texts: list[str]):
    answer = answer_of(texts)
    for form in FORMATS.keys() - BINARY:
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as read, os.fdopen(writer, "wb") as pipe:
            FORMATS[form](answer, pipe)
            pipe.close()
            data = read.read()
        assert data == written(form, answer, io.BytesIO())
        assert form == "csv" or prints(data.decode())


@given(TEXTS)
def test_programs_get_texts_as_they_are(texts: list[str]):
    answer = answer_of(texts)
    assert [row["key"] for row in json.loads(written("json", answer, io.BytesIO()))] == texts
    assert answer.to_arrow()["key"].to_pylist() == texts
    arrow = pa.ipc.open_file(io.BytesIO(written("arrow", answer, io.BytesIO()))).read_all()
    assert arrow["key"].to_pylist() == texts
    file = io.BytesIO(written("parquet", answer, io.BytesIO()))
    assert parquet.read_table(file)["key"].to_pylist() == texts


@pytest.mark.parametrize("text", HOSTILE)
def test_refusals_and_notes_print(text: str, capsys: pytest.CaptureFixture[str]):
    said = Diagnostic("DPQ301", f"no {text}", why=(f"of {text}",), remedy=(f"not {text}",))
    refusal = RuleRefused(said)
    refusal.budget = text
    assert prints(str(refusal).replace("\t", ""))
    assert prints(str(PolicyInvalid(said, f"{text}.toml")).replace("\t", ""))
    say(f"note: {text}")
    assert prints(capsys.readouterr().err.replace("\t", ""))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("mode", ["table", "csv", "json"])
def test_the_shell_prints_keys_notes_and_answers(text: str, mode: str):
    class Asked:
        def sql(self, _: str) -> Answer:
            answer = answer_of([text])
            return Answer(answer.table, Loss(1), (), text, (f"note of {text}",))

    out = io.StringIO()
    console = RichConsole(file=out, width=200)
    Desk(Asked(), Terminal(console, lambda _: ""), mode).ask("SELECT 1")
    assert prints(out.getvalue().replace("\t", ""))


def test_keys_of_a_policy_and_queries_of_a_ledger_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    policy = copy_samples(tmp_path / "data")
    text = policy.read_text("utf-8")
    keys = 'keys = ["eng", "\\u001b[2J\\u202ehr", "=1+1"]'
    policy.write_text(text.replace('keys = ["eng", "hr", "legal", "ops", "sales"]', keys, 1))
    query = "SELECT dept, DP_COUNT(*, eps=0.1) AS n /* \u202e */ FROM staff GROUP BY dept"
    with dpquery.connect(policy) as session:
        shown = [
            session.sql(query).to_text(),
            str(session.explain(query)),
            session.sql("SHOW LEDGER").to_text(),
            session.ledger().to_text(),
            session.describe("staff").to_text(),
            session.sql(f"EXPLAIN {query}").to_text(),
        ]
        with pytest.raises(dpquery.QueryRefused) as refused:
            session.sql("SELECT DP_COUNT(*, eps=0.1) FROM staff GROUP BY age \x1b[2J\u202e")
    shown.append(str(refused.value))
    for form in ("table", "csv"):
        arguments = [str(policy), "-c", query, "--format", form]
        assert main(arguments) == 0
        shown.append(capsys.readouterr().err)
    for verb in (["ledger", "show"], ["policy", "check"]):
        main([*verb, str(policy)])
        told = capsys.readouterr()
        shown += [told.out, told.err]
    for one in shown:
        assert prints(one), one
