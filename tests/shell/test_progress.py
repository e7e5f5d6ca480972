"""The clock: it follows from time alone, and only a terminal sees it."""

from __future__ import annotations

import io
import sys
import time
from inspect import signature

import pytest

import dpquery
from dpquery.engine.base import Engine
from dpquery.shell import terminal as progress
from dpquery.shell.terminal import clock, reading


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
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Screen(err)
    monkeypatch.setattr("sys.stderr", stream)
    with clock("reading staff", Screen(out)):
        until = time.monotonic() + (5 if drawn else 0.1)
        while time.monotonic() < until and "reading" not in stream.getvalue():
            time.sleep(0.01)
    text = stream.getvalue()
    assert ("reading staff  0:00" in text) == drawn
    if drawn:  # the last thing written wipes the line
        assert text.endswith("\x1b[2K")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_long_name_is_cut_to_one_line_and_written_as_the_terminal_can(monkeypatch, encoding):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", stream)
    with clock("reading stäff" + "x" * 99, Screen(True)):
        time.sleep(0.5)
    assert b"  0:00" in raw.getvalue()
    assert b"x\n" not in raw.getvalue()


def test_without_rich_nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setitem(sys.modules, "rich.live", None)
    stream = Screen(True)
    monkeypatch.setattr("sys.stderr", stream)
    with clock("reading", Screen(True)):
        time.sleep(0.2)
    assert stream.getvalue() == ""


def test_what_is_read_stands_after_from():
    assert reading("SELECT DP_COUNT(*, eps=1) FROM staff WHERE x = 1") == "reading staff"
    assert reading("SHOW TABLES") == "reading"


def test_no_size_is_told_before_the_noise():
    """What is shown while a scan runs follows from the statement and the time alone."""
    told = {name for name in vars(Engine) if not name.startswith("_")}
    assert told == {
        "open",
        "describe",
        "prepare",
        "rehearse",
        "close",
    }  # an Exact, what the plan says, nothing
    assert not hasattr(dpquery.Session, "on_scan")
    assert list(signature(clock).parameters) == ["what", "out"]
