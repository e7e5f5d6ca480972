"""The loop, driven through a pipe: keys in, screen text out."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from argparse import Namespace
from fractions import Fraction
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import dpquery
from dpquery.editing.completion import suggestions
from dpquery.policy.sources.paths import copy_samples
from dpquery.shell import main as interactive
from dpquery.shell.main import main
from dpquery.shell.repl import BAR, QueryLexer, Repl, Suggesting, _cells, history_file
from tests.shell.desks import FakeDesk
from tests.shell.fakes import FakeSession

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path / "state"


def talk(session, keys: str) -> str:
    """Type keys, and give what the shell wrote."""
    out = io.StringIO()
    with create_pipe_input() as typed:
        typed.send_text(keys + CTRL_D * 2)
        screen = DummyOutput()
        Repl(session, "alice", typed=typed, screen=screen, out=out, width=80).run()
    return out.getvalue()


def without_noise(line: str) -> str:
    """Put # for the numbers that the noise decides, and no more blanks than one."""
    if "±" in line:
        line = re.sub(r"-?\d+(\.\d+)?", "#", line)
    return re.sub(" +", " ", line) if "±" in line or "95% within" in line else line


def typed_in(line: str) -> str | None:
    """Return what somebody types on a line of a transcript; None if the shell writes it."""
    found = re.match(r"(dp> | -> |.*\[y/N\] )(.*)", line)
    return None if found is None else found[2]


@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_a_conversation_comes_out_as_written(file: Path, tmp_path: Path):
    """A transcript begins with a line on what it shows; # stands for noisy numbers."""
    _, *lines = file.read_text("utf-8").splitlines()
    typed = [text for line in lines if (text := typed_in(line)) is not None]
    with dpquery.connect(str(copy_samples(tmp_path / "samples"))) as session:
        said = talk(session, "".join(text + ENTER for text in typed))
    _, *shown = said.splitlines()  # the greeting has the version
    assert [*map(without_noise, shown)] == [line for line in lines if typed_in(line) is None]


def test_views_are_completed_from_when_they_are_made_until_they_are_gone(tmp_path: Path):
    made = f"CREATE TEMP VIEW young AS SELECT age{ENTER}FROM staff;{ENTER}"
    with (
        dpquery.connect(str(copy_samples(tmp_path / "samples"))) as session,
        create_pipe_input() as typed,
    ):
        repl = Repl(session, "alice", typed=typed, screen=DummyOutput(), out=io.StringIO())
        for keys, known in ((made, True), (f"DROP VIEW young;{ENTER}", False)):
            typed.send_text(keys + CTRL_D)
            repl.run()
            repl.desk.leaving = False
            offered = [one.text for one in suggestions("SELECT 1 FROM yo", "", repl._known)]
            assert offered == ["young"] * known


def test_the_greeting_names_tables_balance_and_help():
    greeting = talk(FakeDesk(), "").splitlines()[0]
    assert "tables: staff · budget: 1 of 2 left · .help" in greeting


def test_a_statement_goes_on_until_its_semicolon():
    session = FakeDesk()
    talk(session, f"one{ENTER}-- not yet;{ENTER}' ;{ENTER}';{ENTER}two;{ENTER}")
    assert session.asked == ["one\n-- not yet;\n' ;\n'", "two"]


def test_ctrl_c_drops_the_line_and_ctrl_d_leaves():
    session = FakeDesk()
    talk(session, f"one{ENTER}more{CTRL_C}two;{ENTER}{CTRL_D}one;{ENTER}")
    assert session.asked == ["two"]


def test_ctrl_c_during_a_query_does_not_leave():
    session = FakeDesk()
    said = talk(session, f"stop;{ENTER}one;{ENTER}")
    assert session.asked == ["stop", "one"]
    assert "stopped; this statement spent nothing" in said


@pytest.mark.parametrize(
    ("reply", "asked"),
    [("y", ["dear 9"]), ("YES", ["dear 9"]), ("", []), ("n", []), (CTRL_C, [])],
)
def test_a_dear_query_wants_a_yes(reply: str, asked: list[str]):
    session = FakeDesk()
    talk(session, f"dear 9;{ENTER}{reply}{'' if reply == CTRL_C else ENTER}")
    assert session.asked == asked


def test_what_was_typed_is_kept_and_nothing_else(state: Path):
    session = FakeDesk()
    talk(session, f"two;{ENTER}.budget{ENTER}dear 9;{ENTER}y{ENTER}")
    file = state / "dpquery" / "history"
    kept = [line for line in file.read_text().splitlines() if line and line[0] != "#"]
    assert kept == ["+two;", "+.budget", "+dear 9;"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_an_open_history_is_closed_to_others(state: Path):
    file = state / "dpquery" / "history"
    file.parent.mkdir(parents=True)
    file.touch(mode=0o644)
    assert history_file(os.environ) == file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_history_stands_below_home_unless_an_absolute_place_is_stated(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    usual = tmp_path / ".local" / "state" / "dpquery" / "history"
    assert history_file({}) == usual
    assert history_file({"XDG_STATE_HOME": "beside"}) == usual
    (tmp_path / "full").touch()
    assert history_file({"XDG_STATE_HOME": str(tmp_path / "full")}) is None


def test_a_link_is_not_followed(state: Path):
    (state / "dpquery").mkdir(parents=True)
    (state / "dpquery" / "history").symlink_to(state / "elsewhere")
    assert history_file(os.environ) is None
    assert not (state / "elsewhere").exists()


@pytest.mark.parametrize(
    ("left", "cells"), [("2", 10), ("1.999", 9), ("1", 5), ("0.0001", 1), ("0", 0), ("3", 10)]
)
def test_the_bar_is_full_only_before_the_first_charge_and_empty_only_at_the_end(left, cells):
    assert _cells(Fraction(left), Fraction(2)) == cells <= BAR


def test_suggestions_come_while_a_word_is_typed_or_when_asked_for():
    completer = Suggesting({"staff": ()})

    def offered(text: str, *, tab: bool) -> list[str]:
        event = CompleteEvent(text_inserted=not tab, completion_requested=tab)
        return [c.text for c in completer.get_completions(Document(text), event)]

    assert offered("SELECT 1 FROM ", tab=False) == []
    assert offered("SELECT 1 FROM ", tab=True) == ["staff"]
    assert offered("SELECT 1 FROM s", tab=False) == ["staff"]
    assert ".describe" in offered(".d", tab=False)


@pytest.mark.parametrize(
    "text", ["", "SELECT DP_SUM(x, eps=1) -- ü\nFROM 'a\nb' /* */;", ".help\n"]
)
def test_colours_change_no_character(text: str):
    document = Document(text)
    line = QueryLexer().lex_document(document)
    for number, expected in enumerate(document.lines):
        assert "".join(piece[1] for piece in line(number)) == expected


def test_words_functions_and_texts_have_their_colour():
    pieces = QueryLexer().lex_document(Document("select DP_SUM(x) from 'a' -- b"))(0)
    styles = {text: style for style, text, *_ in pieces}
    assert [styles[word] for word in ("select", "DP_SUM", "'a'", "-- b", "x")] == [
        "class:keyword", "class:function", "class:text", "class:comment", "",
    ]  # fmt: skip


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr("dpquery.shell.main.at_terminal", lambda: True)


def test_a_terminal_without_a_query_opens_the_shell(terminal, monkeypatch):
    opened: list[tuple] = []

    def converse(session: object, options: Namespace, header: str) -> None:
        opened.append((options.analyst, options.format, options.out, options.intervals))

    monkeypatch.setattr("dpquery.shell.main.converse", converse)
    session = FakeSession()
    options = ["--analyst", "ann", "--format", "csv"]
    assert main(["p.toml", *options, "--intervals"], session.connect) == 0
    assert opened == [("ann", "csv", None, True)]
    assert session.closed == 1


def test_without_its_packages_the_shell_says_how_to_get_them(capsys, terminal, monkeypatch):
    monkeypatch.setitem(sys.modules, "dpquery.shell.repl", None)
    monkeypatch.setattr(interactive, "_PACKAGES", frozenset({"dpquery"}))
    assert main(["p.toml"], FakeSession().connect) == 2
    assert "pip install 'dpquery[shell]'" in capsys.readouterr().err
