"""The clock: it follows from time alone, and only a terminal sees it."""

from __future__ import annotations

import io
import time
from inspect import signature

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpquery
from dpquery.engine.base import Engine
from dpquery.shell import console as progress
from dpquery.shell.console import Waiting, line, reading


@given(st.text(max_size=60), st.integers(1, 200), st.floats(0, 1e4))
def test_the_line_fits_the_screen(what: str, columns: int, seconds: float):
    drawn = line(what.replace("\n", " "), seconds, columns)
    assert progress.width(drawn) < columns or not drawn


def test_the_line_shows_a_sign_that_turns_and_the_time():
    assert line("reading staff", 75.0, 80) == "reading staff  ⠴ 1:15"
    assert len({line("", passed / 5 + 0.01, 80)[2] for passed in range(10)}) == 10


class Screen(io.StringIO):
    """A terminal, or a pipe."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("err", "out", "patience", "drawn"),
    [
        (True, True, 0, True),
        (True, True, 60, False),
        (True, False, 0, False),
        (False, True, 0, False),
        (False, False, 0, False),
    ],
)
def test_only_a_long_query_at_a_terminal_shows_a_clock(monkeypatch, err, out, patience, drawn):
    monkeypatch.setattr(progress, "PATIENCE", float(patience))
    monkeypatch.setattr(progress, "EVERY", 0.01)
    stream = Screen(err)
    with Waiting(stream, Screen(out)).showing("reading"):
        until = time.monotonic() + (5 if drawn else 0.1)
        while time.monotonic() < until and "reading" not in stream.getvalue():
            time.sleep(0.01)
    text = stream.getvalue()
    assert ("reading" in text) == drawn
    if drawn:  # the last thing written wipes the line
        *_, blank, end = text.split("\r")
        assert (blank.strip(), end) == ("", "")


def test_what_is_read_stands_after_from():
    assert reading("SELECT DP_COUNT(*, eps=1) FROM staff WHERE x = 1") == "reading staff"
    assert reading("SHOW TABLES") == "reading"


def test_no_size_is_told_before_the_noise():
    """What is shown while a scan runs follows from the statement and the time alone."""
    told = {name for name in vars(Engine) if not name.startswith("_")}
    assert told == {
        "open",
        "describe",
        "rehearse",
        "close",
    }  # an Exact, what the plan says, nothing
    assert not hasattr(dpquery.Session, "on_scan")
    assert list(signature(line).parameters) == ["what", "passed", "columns"]
    assert list(signature(Waiting.showing).parameters) == ["self", "what"]
