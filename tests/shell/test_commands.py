"""The dot commands, and how the desk asks, shows and goes on; no terminal is needed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from pyarrow import parquet
from rich.console import Console as RichConsole

import dpquery
from dpquery.core.privacy_loss import NO_LOSS
from dpquery.errors.pages import explain
from dpquery.functions import ALL
from dpquery.policy.sources.paths import copy_samples
from dpquery.shell.ask_and_show import Desk
from dpquery.shell.dot_commands import COMMANDS, take
from dpquery.shell.terminal import Terminal, fitted
from tests.shell.desks import FakeDesk, Paper
from tests.shell.fakes import RAW, answer


@pytest.fixture
def session() -> FakeDesk:
    return FakeDesk()


@pytest.fixture
def paper() -> Paper:
    return Paper()


@pytest.fixture
def desk(session, paper) -> Iterator[Desk]:
    desk = Desk(session, paper)
    yield desk
    desk.direct(None)


def test_a_query_is_answered_with_the_balance_under_it(desk, paper):
    assert take(desk, "one;")
    assert paper.lines == [" n\n 1", "budget: 1.5 of 2 left"]


def test_what_is_free_comes_without_the_balance(desk, paper, session):
    session.replies = {"SHOW TABLES": replace(answer(1), loss=NO_LOSS)}
    assert take(desk, "SHOW TABLES;")
    assert paper.lines == [" n\n 1"]


def test_the_last_answer_is_drawn_and_nothing_is_asked(desk, paper, session):
    assert not take(desk, ".plot")
    assert paper.lines.pop() == "there is no answer yet"
    take(desk, "one;")
    assert take(desk, ".plot")
    assert paper.lines[-1] == f"n\n n  1  {'█' * 53}"
    assert take(desk, '.plot "n"')
    assert not take(desk, ".plot m")
    assert paper.lines[-1] == "there is no column m of numbers; try n"
    assert session.asked == ["one"]
    assert desk.answered == ("n",)


@pytest.mark.parametrize(("encoding", "bar"), [("utf-8", "█"), ("latin-1", "#")])
def test_a_picture_keeps_to_the_terminals_width_and_characters(session, encoding, bar):
    paper = io.TextIOWrapper(io.BytesIO(), encoding)
    terminal = Terminal(RichConsole(file=paper, width=40), lambda _: "")
    desk = Desk(session, terminal)
    take(desk, "one;")
    assert take(desk, ".plot")
    paper.seek(0)
    *_, line = paper.read().splitlines()
    assert line == f" n  1  {bar * 33}"


def test_a_note_is_said_once(desk, paper):
    take(desk, "noted; noted;")
    assert paper.lines.count("note: each row is its own unit") == 1


def test_nothing_typed_asks_nothing(desk, paper, session):
    assert take(desk, "  \n -- a comment\n")
    assert (session.asked, paper.lines) == ([], [])


@pytest.mark.parametrize(
    ("query", "said"),
    [(RAW, "refused[DPQ301]"), ("dear", "DPQ501"), ("torn", "failed[DPQ701]")],
)
def test_the_shell_goes_on_after_a_refusal_or_a_fault(desk, paper, query, said):
    assert not take(desk, query)
    assert said in paper.text
    assert take(desk, "one;")


def test_a_mistake_of_ours_shows_its_place_and_not_its_text(desk, paper, session):
    session.replies = {"wrong": ValueError("salary of Ann is 4711")}
    assert not take(desk, "wrong;")
    assert "ValueError in dpquery.shell.ask_and_show, line" in paper.text
    assert "4711" not in paper.text
    assert "Traceback" not in paper.text


def test_several_statements_stop_at_the_first_that_is_not_answered(desk, paper, session):
    assert not take(desk, "one;\ntorn;\ntwo;")
    assert session.asked == ["one", "torn"]
    assert paper.lines[-1] == "stopped at line 2: 1 of 3 answered"


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (KeyboardInterrupt(), "stopped; this statement spent nothing"),
        (KeyboardInterrupt("stopped; 1 spent"), "stopped; 1 spent"),
    ],
)
def test_a_query_that_is_stopped_says_what_it_spent(desk, paper, session, stop, said):
    session.replies = {"stop": stop}
    assert not take(desk, "stop;")
    assert paper.lines == [said]


@pytest.mark.parametrize(("tenths", "asked"), [(1, False), (2, False), (3, True), (10, True)])
def test_a_dear_query_is_asked_only_after_a_yes(session, tenths: int, asked: bool):
    paper = Paper(True)
    assert take(Desk(session, paper), f"dear {tenths};")
    assert len(paper.asked) == asked
    assert session.asked == [f"dear {tenths}"]


def test_the_question_says_what_is_spent_and_what_stays(session):
    paper = Paper(False)
    assert not take(Desk(session, paper), "dear 3;")
    assert paper.asked == ["this query spends 0.3 of the 1 left, and 0.7 stays; ask it?"]
    assert (session.asked, paper.lines) == ([], ["not asked, nothing is spent"])


def test_what_cannot_be_paid_is_left_to_the_session_to_refuse(desk, session):
    take(desk, "dear 11;")
    assert session.asked == ["dear 11"]


@pytest.mark.parametrize(("share", "asked"), [("0.5", 0), ("50%", 0), ("off", 0), ("0", 1)])
def test_confirm_sets_the_share(session, share: str, asked: int):
    paper = Paper(True)
    desk = Desk(session, paper)
    assert take(desk, f".confirm {share}")
    take(desk, "dear 4;")
    assert len(paper.asked) == asked


def test_the_share_is_exact(desk):
    take(desk, ".confirm 0.1")
    assert desk.confirm == Fraction(1, 10)


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        (".tables", "SHOW TABLES"),
        (".ta", "SHOW TABLES"),
        (".tables;", "SHOW TABLES"),
        (".describe staff", "DESCRIBE staff"),
        (".d staff;", "DESCRIBE staff"),
        ("  .budget  ", "SHOW BUDGET"),
        (".ledger", "SHOW LEDGER"),
    ],
)
def test_commands_about_policy_and_ledger_are_statements(desk, session, typed, asked):
    assert take(desk, typed)
    assert session.asked == [asked]


def test_explain_says_the_charge_and_asks_nothing(desk, session, paper):
    assert take(desk, ".explain dear 3;")
    assert (session.asked, paper.lines) == ([], ["charge 0.3"])
    assert not take(desk, ".explain nothing")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (".t", ".t could be .tables or .timer"),
        (".", "there is no command ."),
        (".tabels", "there is no command .tabels; .tables is the nearest; .help lists them"),
        (".xyz", "there is no command .xyz; .help lists them"),
        (".describe", "write .describe TABLE"),
        (".explain ;", "write .explain SQL"),
        (".quit now", "write .quit"),
        (".mode xml", "write .mode table or csv or json or arrow or parquet"),
        (".timer", "write .timer on|off"),
        (".intervals perhaps", "write .intervals on or off"),
        (".timer perhaps", "write .timer on or off"),
        (".confirm 2", "write .confirm 0.25, a share of what is left, or .confirm off"),
        (".confirm lots", "write .confirm 0.25"),
        (".read /nonexistent.sql", "cannot read /nonexistent.sql: No such file or directory"),
        (".output /nonexistent/x", "cannot write /nonexistent/x: No such file or directory"),
        (".help nothing", "there is no help on 'nothing'"),
        (".again", "there is no answer yet"),
    ],
)
def test_a_command_used_wrongly_says_how_it_is_written(desk, session, paper, typed, said):
    assert not take(desk, typed)
    assert paper.text.startswith(said)
    assert (session.asked, desk.leaving) == ([], False)


@pytest.mark.parametrize("typed", [".help", "help", "HELP;", "?", "\\?"])
def test_help_names_every_command_and_a_query_to_begin_with(desk, paper, typed):
    assert take(desk, typed)
    for command in COMMANDS:
        assert f"\n{command.usage} " in paper.text
        assert command.summary in paper.text
    assert "FROM staff;" in paper.text


@pytest.mark.parametrize("function", ALL, ids=lambda function: function.name)
def test_help_explains_each_function(desk, paper, function):
    assert take(desk, f".help {function.name.lower()}")
    for parameter in function.parameters:
        assert parameter.summary in paper.text
    assert f"try: {function.example};" in paper.text


def test_help_explains_a_command_and_a_code(desk, paper):
    take(desk, ".help .mode")
    take(desk, ".help dpq301")
    assert paper.lines[0].startswith(".mode FORMAT   ")
    assert paper.lines[1] == explain("DPQ301")


@pytest.mark.parametrize("typed", [".quit", ".q", "quit", "exit", "exit;", "\\q"])
def test_leaving_is_by_command_or_habit(desk, typed):
    assert take(desk, typed)
    assert desk.leaving


@pytest.mark.parametrize(("mode", "shown"), [("csv", "n\n1"), ("json", '[{"n":1}]')])
def test_the_mode_changes_how_answers_are_shown(desk, paper, mode: str, shown: str):
    take(desk, f".mode {mode}")
    take(desk, "one;")
    assert paper.lines[0] == shown


def test_the_last_answer_can_be_seen_again_in_another_mode_and_is_not_asked_again(
    desk, paper, session
):
    take(desk, "one;")
    take(desk, ".mode json")
    assert take(desk, ".again")
    assert paper.lines[-1] == '[{"n":1}]'
    assert session.asked == ["one"]


def test_what_could_drive_the_terminal_is_made_visible(desk, paper, session):
    table = answer(1).table.rename_columns(["\x1b[2J"])
    session.replies = {"one": replace(answer(1), table=table)}
    for mode in ("table", "csv", "json"):
        desk.mode = mode
        take(desk, "one;")
    assert "\x1b" not in paper.text


def test_binary_formats_want_a_file_before_anything_is_asked(desk, paper, session, tmp_path):
    take(desk, ".mode parquet")
    assert not take(desk, "one;")
    assert session.asked == []
    take(desk, f".output {tmp_path / 'a.parquet'}")
    assert take(desk, "one;")
    assert not take(desk, "two;")
    assert session.asked == ["one"]
    assert "holds one answer" in paper.text
    assert parquet.read_table(tmp_path / "a.parquet").to_pylist() == [{"n": 1}]


def test_output_sends_answers_to_a_file_and_back(desk, paper, tmp_path: Path):
    file = tmp_path / "my answers.json"
    take(desk, ".mode json")
    assert take(desk, f".output '{file}'")
    take(desk, "one; two;")
    assert take(desk, ".output stdout")
    assert paper.lines == ["budget: 1.5 of 2 left", "budget: 1 of 2 left"]
    parts = file.read_text().split("\n\n")
    assert [json.loads(part) for part in parts] == [[{"n": 1}], [{"n": 2}]]
    take(desk, "one;")
    assert '[{"n":1}]' in paper.lines


def test_a_full_disk_is_reported_and_the_answer_can_be_had_again(desk, paper, session):
    take(desk, ".output /dev/full")
    assert not take(desk, "one;")
    assert "the output cannot be written: No space left on device" in paper.text
    take(desk, ".output stdout")
    assert take(desk, ".again")
    assert session.asked == ["one"]


def test_the_timer_shows_seconds(desk, paper):
    take(desk, ".timer ON")
    take(desk, "one;")
    assert paper.lines[-1].endswith(" s")
    take(desk, ".timer off")
    take(desk, "one;")
    assert not paper.lines[-1].endswith(" s")


def test_intervals_are_columns_where_they_are_wanted(paper, tmp_path: Path):
    with dpquery.connect(copy_samples(tmp_path / "data")) as session:
        desk = Desk(session, paper, "csv")
        take(desk, "SELECT DP_COUNT(*, eps=0.1) AS n FROM staff;")
        assert paper.lines[0].splitlines()[0] == "n"
        for state, header in (("ON", "n,n_low,n_high"), ("off", "n")):
            take(desk, f".intervals {state}")
            take(desk, ".again")
            assert paper.lines[-1].splitlines()[0] == header
        take(desk, ".intervals on")
        take(desk, f".output {tmp_path / 'a.csv'}")
        take(desk, ".again")
        desk.direct(None)
    assert (tmp_path / "a.csv").read_text().startswith("n,n_low,n_high")


def test_a_file_is_read_up_to_its_first_failure(desk, paper, session, tmp_path: Path):
    script = tmp_path / "q.sql"
    script.write_text("one;\n-- next\ntorn;\ntwo;\n")
    assert not take(desk, f".read {script}")
    assert session.asked == ["one", "torn"]
    assert paper.lines[-1] == "stopped at line 3: 1 of 3 answered"
    script.write_text("one; two")
    assert take(desk, f".read {script}")


@pytest.fixture
def screen(monkeypatch) -> RichConsole:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return RichConsole(file=io.StringIO(), force_terminal=True, width=20, height=10)


def test_a_wide_answer_is_cut_with_a_word_on_how_to_see_it(screen):
    Terminal(screen, str).page("short\n" + "x" * 30)
    shown = screen.file.getvalue()
    assert "x" * 19 + "…\n" in shown
    assert ".mode csv and .again show all of it" in shown


def test_a_long_answer_goes_to_the_pager_whole(screen, monkeypatch, tmp_path: Path, capfd):
    monkeypatch.setenv("PAGER", f"tee {tmp_path / 'paged'}")
    text = "\n".join("y" * 30 for _ in range(10))
    Terminal(screen, str).page(text)
    assert (tmp_path / "paged").read_text() == text
    assert screen.file.getvalue() == ""
    monkeypatch.setenv("PAGER", "no-such-pager")
    Terminal(screen, str).page(text)
    assert screen.file.getvalue().count("…") == 10


def test_wide_lines_are_cut_by_cells_not_by_characters():
    assert fitted("数数数数\nabc", 5) == "数数…\nabc"
    assert fitted("abcde", 5) == "abcde"


def test_eps_is_set_for_the_statements_to_come(desk, session):
    assert take(desk, ".eps 0.5")
    assert take(desk, ".eps off")
    assert session.asked[-2:] == ["SET dp.eps = 0.5", "RESET dp.eps"]
