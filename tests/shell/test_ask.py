"""What goes to which stream, and with which exit code: promises to scripts."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dpquery.display.formats import FORMATS
from dpquery.shell.main import main
from tests.shell.fakes import RAW, FakeSession


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def run(session, capsysbinary):
    def run(*argv: str) -> tuple[int, bytes, str]:
        code = main(argv, session.connect)
        out, err = capsysbinary.readouterr()
        return code, out, err.decode()

    return run


@pytest.fixture
def stdin(monkeypatch):
    def give(data: bytes, terminal: bool = False) -> None:
        stream = io.TextIOWrapper(io.BytesIO(data), "utf-8")
        stream.isatty = lambda: terminal
        monkeypatch.setattr(sys, "stdin", stream)

    return give


def test_the_answer_goes_to_stdout_and_the_budget_to_stderr(run):
    assert run("p.toml", "-c", "one") == (0, b" n\n 1\n", "budget: 1.5 of 2 left\n")


def test_notes_go_to_stderr_and_are_written_once(run, stdin):
    stdin(b"noted; noted")
    assert run("p.toml")[2] == "note: each row is its own unit\n"


def test_a_refusal_leaves_stdout_empty(run):
    code, out, err = run("p.toml", "-c", RAW)
    assert (code, out) == (1, b"")
    assert err.startswith("refused[DPQ301]: salary cannot be shown row by row\n  |\n1 | SELECT")


@pytest.mark.parametrize(
    ("query", "code"), [("dear", 3), ("torn", 4), ("wrong", 70), ("stop", 130)]
)
def test_each_kind_of_failure_has_its_exit_code(run, query: str, code: int):
    assert run("p.toml", "-c", query)[:2] == (code, b"")


def test_a_mistake_of_ours_is_named_without_its_text(run):
    err = run("p.toml", "-c", "wrong")[2]
    assert "DPQ901" in err
    assert "ValueError in dpquery.shell.batch, line" in err
    assert "4711" not in err
    assert "Ann" not in err


def test_what_the_command_line_states_reaches_connect_as_text(run, session):
    run(
        *("people.parquet", "-c", "one", "--unit", "id", "--epsilon", "0.1", "--delta", "1e-7"),
        *("--rows-per-unit", "1", "--bounds", "salary=0:300000", "--analyst", "alice"),
        *("--bounds", "at=2000-01-01 00:00:00:2001-01-01 00:00:00", "--bounds", "x=-5:-1.5"),
        *("--neighbours", "substitute", "--ledger", "my.ledger"),
    )
    bounds = {
        "salary": ("0", "300000"),
        "at": ("2000-01-01 00:00:00", "2001-01-01 00:00:00"),
        "x": ("-5", "-1.5"),
    }
    assert session.opened == [
        (
            "people.parquet",
            {
                "unit": "id",
                "epsilon": "0.1",
                "delta": "1e-7",
                "rows_per_unit": 1,
                "bounds": bounds,
                "analyst": "alice",
                "neighbours": "substitute",
                "ledger": "my.ledger",
            },
        )
    ]


def test_what_is_not_stated_is_left_to_connect(run, session):
    run("p.toml", "-c", "one")
    assert session.opened == [("p.toml", {})]
    assert session.closed == 1


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["p.toml", "-c", "one", "-f", "x.sql"],
        ["p.toml", "-c", "one", "--format", "xml"],
        ["p.toml", "-c", "one", "--bounds", "salary"],
        ["p.toml", "-c", "one", "--bounds", "salary=1"],
        ["p.toml", "-c", "one", "--bounds", "=0:1"],
        ["p.toml", "-c", "one", "--rows-per-unit", "2"],
        ["p.toml", "-c", "one", "--epsilom", "2"],
        ["p.toml", "-c", "one", "-o", "/nonexistent/answer.csv"],
        ["p.toml", "-f", "/nonexistent/query.sql"],
        ["p.toml", "-c", "\udcff"],
    ],
)
def test_a_wrong_command_line_is_a_usage_error_and_asks_nothing(run, session, argv):
    code, out, err = run(*argv)
    assert (code, out, session.asked) == (2, b"", [])
    assert "dpquery: " in err


def test_a_terminal_without_a_query_is_told_what_to_give(run, stdin, session):
    stdin(b"", terminal=True)
    code, out, err = run("p.toml")
    assert (code, out, session.opened) == (2, b"", [])
    assert "-c SQL or -f FILE" in err


def test_piped_statements_are_answered_in_turn(run, stdin):
    stdin(b"one;\n-- a comment; with a semicolon\ntwo;\n")
    code, out, err = run("p.toml")
    assert (code, out) == (0, b" n\n 1\n\n n\n 2\n")
    assert err == "budget: 1.5 of 2 left\nbudget: 1 of 2 left\n"


def test_a_script_stops_at_its_first_failure(run, stdin, session):
    stdin(b"one;\n\ndear;\ntwo")
    code, out, err = run("p.toml")
    assert (code, out, session.asked) == (3, b" n\n 1\n", ["one", "dear"])
    assert err.endswith("dpquery: stopped at line 3: 1 of 3 answered\n")


def test_a_file_of_statements_is_read_as_utf8_with_or_without_a_mark(run, tmp_path, session):
    (tmp_path / "q.sql").write_bytes("\ufeffSELECT 'ü;'; one".encode())
    assert run("p.toml", "-f", str(tmp_path / "q.sql"))[0] == 0
    assert session.asked == ["SELECT 'ü;'", "one"]


def test_texts_and_files_are_asked_in_their_order(run, tmp_path: Path, session):
    file = tmp_path / "q.sql"
    file.write_text("two; SELECT 3")
    assert run("p.toml", "-c", "one", "-f", str(file), "-c", "one")[0] == 0
    assert session.asked == ["one", "two", "SELECT 3", "one"]


def test_several_texts_stop_at_the_first_failure(run, session):
    code, out, err = run("p.toml", "-c", "one", "-c", "dear", "-c", "two")
    assert (code, out, session.asked) == (3, b" n\n 1\n", ["one", "dear"])
    assert err.endswith("dpquery: stopped at statement 2: 1 of 3 answered\n")


@pytest.mark.parametrize(
    ("name", "options", "start"),
    [
        ("a.csv", [], b"n\r\n"),
        ("a.JSON", [], b"["),
        ("a.arrow", [], b"ARROW1"),
        ("a.parquet", [], b"PAR1"),
        ("a.txt", [], b" n\n"),
        ("csv", [], b" n\n"),
        ("a.csv", ["--format", "json"], b"["),
        ("a.xlsx", ["--format", "csv"], b"n\r\n"),
    ],
)
def test_the_name_of_a_file_says_its_format(run, tmp_path: Path, name: str, options, start):
    assert run("p.toml", "-c", "one", "-o", str(tmp_path / name), *options)[0] == 0
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv.gz", "answers.feather", "a.b/c.PDF"])
def test_a_file_of_no_known_format_is_refused_before_anything_is_asked(
    run, session, tmp_path: Path, name: str
):
    code, _, err = run("p.toml", "-c", "one", "-o", str(tmp_path / name))
    assert (code, session.opened) == (2, [])
    assert ".csv, .json, .arrow, .parquet or .txt" in err
    assert not (tmp_path / name).exists()


def test_text_that_is_not_utf8_is_a_usage_error(run, stdin, session):
    stdin(b"SELECT \xff")
    assert run("p.toml")[0] == 2
    assert session.opened == []


def test_nothing_at_all_is_left_to_the_session_to_refuse(run, stdin, session):
    stdin(b" -- nothing\n")
    run("p.toml")
    assert session.asked == [" -- nothing\n"]


def test_c_takes_its_text_as_it_is(run, session):
    run("p.toml", "-c", "one; two")
    assert session.asked == ["one; two"]


@pytest.mark.parametrize(
    ("form", "out"), [("csv", b"n\r\n1\r\n"), ("json", b'[{"n":1}]\n'), ("table", b" n\n 1\n")]
)
def test_the_format_is_chosen_by_name(run, form: str, out: bytes):
    assert run("p.toml", "-c", "one", "--format", form)[1] == out


def test_binary_formats_refuse_a_terminal_before_anything_is_asked(run, session, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, _, err = run("p.toml", "-c", "one", "--format", "arrow")
    assert (code, session.opened) == (2, [])
    assert "-o" in err


def test_binary_formats_hold_one_answer_and_say_so_before_anything_is_asked(
    run, stdin, session
):
    stdin(b"one; two")
    code, _, err = run("p.toml", "--format", "parquet")
    assert (code, session.opened) == (2, [])
    assert "one answer" in err


def test_binary_formats_can_be_piped(run):
    out = run("p.toml", "-c", "one", "--format", "arrow")[1]
    assert pa.ipc.open_file(io.BytesIO(out)).read_all().to_pylist() == [{"n": 1}]


def test_an_output_file_is_replaced_by_the_answer(run, tmp_path: Path):
    out = tmp_path / "answer.parquet"
    out.write_bytes(b"x" * 10_000)
    assert run("p.toml", "-c", "one", "--format", "parquet", "-o", str(out))[:2] == (0, b"")
    assert parquet.read_table(out).to_pylist() == [{"n": 1}]


def test_an_output_file_stays_as_it_is_when_the_query_is_refused(run, tmp_path: Path):
    out = tmp_path / "answer.csv"
    out.write_text("old")
    assert run("p.toml", "-c", RAW, "--format", "csv", "-o", str(out))[0] == 1
    assert out.read_text() == "old"


def test_answers_before_a_failure_are_kept(run, stdin, tmp_path: Path):
    out = tmp_path / "answers.txt"
    stdin(b"one; two; dear")
    assert run("p.toml", "-o", str(out))[0] == 3
    assert out.read_text().split() == ["n", "1", "n", "2"]


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "table"])
def test_a_file_of_data_holds_one_answer_and_says_so_before_anything_is_asked(
    run, session, tmp_path: Path, form: str
):
    out = tmp_path / f"answer.{form}"
    code, _, err = run("p.toml", "-c", "one", "-c", "two", "-o", str(out))
    assert (code, session.opened, out.exists()) == (2, [], False)
    assert err == (
        f"dpquery: a file of {form} holds one answer, not 2: ask one statement for each -o\n"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_is_reported_and_nothing_more_is_asked(run, stdin, session, form: str):
    stdin(b"one; two" if form == "table" else b"one")
    code, _, err = run("p.toml", "-o", "/dev/full", "--format", form)
    assert (code, session.asked) == (2, ["one"])
    assert err == "dpquery: the output cannot be written: No space left on device\n"


def test_an_output_that_is_no_file_is_written_to(run):
    assert run("p.toml", "-c", "one", "-o", "/dev/null")[:2] == (0, b"")


def test_statements_from_a_pipe_need_no_package_of_the_shell():
    without = "sys.modules.update(dict.fromkeys(('rich', 'prompt_toolkit', 'pygments')))"
    code = f"import sys; {without}; import dpquery.shell.main"
    subprocess.run([sys.executable, "-c", code], check=True)
